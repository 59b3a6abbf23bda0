//! Small servers on separate threads, which run until the process exits: a function answers every request.

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request: its raw head, and its body.
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Method and target, as in `GET /v1/models`.
    pub(super) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default().rsplit_once(' ').map_or("", |(line, _)| line)
    }

    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()).next()
    }
}

/// The heads of the received requests.
pub(super) type Requests = Arc<Mutex<Vec<String>>>;

/// Answers the requests of one connection until it is closed.
fn converse<S: Read + Write>(
    stream: &mut S,
    seen: &Requests,
    answer: &dyn Fn(&Request) -> Vec<u8>,
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = receive(stream, &mut buffer)? {
        seen.lock().unwrap().push(request.head.clone());
        stream.write_all(&answer(&request))?;
        stream.flush()?;
    }
    Ok(())
}

/// Reads the next request of a connection, of which `buffer` has what was read too far; `None` if it is closed.
fn receive<S: Read>(stream: &mut S, buffer: &mut Vec<u8>) -> std::io::Result<Option<Request>> {
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut piece)? {
            0 => return Ok(None),
            n => buffer.extend_from_slice(&piece[..n]),
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut request = Request { head, body: Vec::new() };
    let length: usize = request.header("content-length").map_or(0, |n| n.parse().unwrap());
    while buffer.len() < end + length {
        match stream.read(&mut piece)? {
            0 => return Ok(None),
            n => buffer.extend_from_slice(&piece[..n]),
        }
    }
    request.body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Ok(Some(request))
}

/// Starts a listener that calls `each` with every connection.
pub(super) fn listen(each: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let each = Arc::new(each);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = each.clone();
            thread::spawn(move || each(stream));
        }
    });
    address
}

/// Starts a server over plain HTTP.
pub(super) fn http(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> (SocketAddr, Requests) {
    let seen = Requests::default();
    let own = seen.clone();
    let address = listen(move |mut stream| {
        let _ = converse(&mut stream, &own, &answer);
    });
    (address, seen)
}

/// When a server closes a connection after its first answer, although the head of no answer says so.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Closing {
    /// At once.
    AtOnce,
    /// As the next request comes in, which it breaks.
    OnNextRequest,
}

/// Starts a server with a model that answers one request for each connection.
pub(crate) fn closing(when: Closing) -> SocketAddr {
    listen(move |mut stream| {
        if let Ok(Some(request)) = receive(&mut stream, &mut Vec::new()) {
            let _ = stream.write_all(&model(&request));
        }
        if matches!(when, Closing::OnNextRequest) {
            let _ = stream.peek(&mut [0]);
        }
    })
}

/// Returns the path of a test certificate.
pub(super) fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// Starts a server over TLS with a test certificate. With `wants_client`, it requires a client certificate.
pub(super) fn tls(certificate: &str, wants_client: bool) -> (SocketAddr, Requests) {
    let provider = Arc::new(default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = if wants_client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(pem("ca.pem")).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_file(pem(certificate)).unwrap()];
    let key = PrivateKeyDer::from_pem_file(pem("server.key")).unwrap();
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    let seen = Requests::default();
    let own = seen.clone();
    let address = listen(move |stream| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        if converse(&mut stream, &own, &model).is_err() {
            // Send the alert before closing, and read the remaining input, so that the alert arrives.
            let _ = stream.conn.write_tls(&mut stream.sock);
            let _ = stream.sock.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream.sock, &mut std::io::sink());
        }
    });
    (address, seen)
}

/// Returns a complete answer.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Returns a stream of three tokens, with these fields in every event.
pub(super) fn stream(fields: &str, finish: &str) -> Vec<u8> {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{{fields}\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut body = event("{\"role\":\"assistant\",\"content\":\"\"}", "null");
    for token in ["one ", "two ", "three"] {
        body += &event(&format!("{{\"content\":\"{token}\"}}"), "null");
    }
    body += &event("{}", finish);
    body += &format!(
        "data: {{{fields}\"choices\":[],\"usage\":{{\"prompt_tokens\":40,\"completion_tokens\":3}}}}\n\ndata: [DONE]\n\n"
    );
    answer("200 OK", "content-type: text/event-stream\r\n", &body)
}

/// Answers as a server with a model named `tiny` and no other pages.
pub(super) fn model(request: &Request) -> Vec<u8> {
    let line = request.line();
    if line.starts_with("POST") {
        stream("", "\"stop\"")
    } else if line.ends_with("/v1/models") {
        answer(
            "200 OK",
            "content-type: application/json\r\n",
            r#"{"data":[{"id":"tiny","max_model_len":4096}]}"#,
        )
    } else {
        answer("404 Not Found", "", "no such page")
    }
}
