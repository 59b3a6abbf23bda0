//! A server that closes each connection after its answer, as llama-server does after streams, although no head says so.

use crate::common::{Manner, goodput, plan, result, serve};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use tempfile::tempdir;

/// Reads a request with its body; `None` if the connection ends.
fn request(stream: &mut TcpStream) -> Option<String> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |l| l.parse().unwrap()) {
                return Some(text);
            }
        }
        let n = stream.read(&mut piece).ok().filter(|n| *n > 0)?;
        all.extend_from_slice(&piece[..n]);
    }
}

/// Starts a server in front of another that answers one request a connection, without a word of it.
fn closing(behind: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let Some(asked) = request(&mut stream) else { return };
                let mut to = TcpStream::connect(behind).unwrap();
                to.write_all(asked.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes()).unwrap();
                let mut answer = String::new();
                to.read_to_string(&mut answer).unwrap();
                let _ = stream.write_all(answer.replacen("connection: close\r\n", "", 1).as_bytes());
            });
        }
    });
    address
}

#[test]
fn a_server_that_closes_connections_gets_one_for_each_request() {
    let dir = tempdir().unwrap();
    let address = closing(serve(Manner::Plain));
    let plan = plan(dir.path(), &format!("url = \"http://{address}\""), "rates = [20]");
    let run = dir.path().join("run");
    goodput().arg("sweep").arg(&plan).arg("--out").arg(&run).assert().code(predicates::ord::ne(1));
    let result = result(&run);
    assert!(result["caveats"].to_string().contains("closes-connections"), "{}", result["caveats"]);
    let step = &result["steps"][0];
    assert_eq!((&step["failed"], &step["resets"]), (&0.into(), &0.into()), "{step}");
    assert!(step["completed"].as_u64() > Some(20), "{step}");
}
