//! A scripted server, which does no HTTP beyond its script.

use goodput::client::{Api, Client, Encoder, Pinning, Server, Shot, Target};
use goodput::plan::client::Retries;
use goodput::record::{Phase, Record};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// One action of the server.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Writes, and then yields to the other side.
    Write(Vec<u8>),
    /// Writes these bytes this number of times, or until the other side closes.
    Flood(Vec<u8>, usize),
    /// Waits for the next request on this connection.
    Next,
    /// Closes the connection properly.
    Close,
    /// Closes with a reset.
    Reset,
    /// Does nothing further, and keeps the connection open.
    Stall,
}

/// The actions on one connection after its first request has arrived.
pub(crate) type Script = Vec<Act>;

/// A running server.
pub(crate) struct Served {
    pub(crate) url: String,
    /// Every request, head and body, in order of arrival.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    /// Number of written bytes that the operating system accepted.
    pub(crate) sent: Arc<AtomicU64>,
}

/// Serves each script on one connection in turn, and the last one on all further connections.
pub(crate) async fn serve(scripts: Vec<Script>) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::new(AtomicU64::new(0));
    let (note, count) = (requests.clone(), sent.clone());
    tokio::spawn(async move {
        for n in 0.. {
            let (socket, _) = listener.accept().await.unwrap();
            let script = scripts[usize::min(n, scripts.len() - 1)].clone();
            tokio::spawn(play(socket, script, note.clone(), count.clone()));
        }
    });
    Served { url, requests, sent }
}

async fn play(mut socket: TcpStream, script: Script, note: Arc<Mutex<Vec<String>>>, sent: Arc<AtomicU64>) {
    socket.set_nodelay(true).unwrap();
    if !request(&mut socket, &note).await {
        return;
    }
    for act in script {
        match act {
            Act::Write(bytes) => {
                if socket.write_all(&bytes).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            Act::Flood(bytes, times) => {
                for _ in 0..times {
                    if socket.write_all(&bytes).await.is_err() {
                        return;
                    }
                    sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                }
            }
            Act::Next => {
                if !request(&mut socket, &note).await {
                    return;
                }
            }
            Act::Close => return socket.shutdown().await.unwrap_or(()),
            Act::Reset => return socket.set_zero_linger().unwrap(),
            Act::Stall => std::future::pending().await,
        }
    }
}

/// Reads one request to the end of its body. Returns false if the client closed instead.
async fn request(socket: &mut TcpStream, note: &Mutex<Vec<String>>) -> bool {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0usize) {
                note.lock().unwrap().push(text);
                return true;
            }
        }
        match socket.read(&mut piece).await {
            Ok(n) if n > 0 => got.extend_from_slice(&piece[..n]),
            _ => return false,
        }
    }
}

/// Returns a stream of events as one write: head, payloads, and the end of the chunked body.
pub(crate) fn answer(payloads: &[&str]) -> Vec<u8> {
    let body: String = payloads.iter().map(|p| format!("data: {p}\n\n")).collect();
    [head(), chunk(&body), b"0\r\n\r\n".to_vec()].concat()
}

/// The head of a stream.
pub(crate) fn head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()
}

/// A piece of a body in chunked framing.
pub(crate) fn chunk(body: &str) -> Vec<u8> {
    format!("{:x}\r\n{body}\r\n", body.len()).into_bytes()
}

/// Returns a complete answer with a status and a body.
pub(crate) fn status(line: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {line}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A client of one URL.
pub(crate) fn client(url: &str, api: Api) -> Client {
    let server = Server { api, ..Server::new(Target::Url(url.parse().unwrap())) };
    Client::http(&server, None).unwrap()
}

/// A client that sends a request once more, on a new connection, if its connection breaks before the first byte of the answer.
pub(crate) fn retrying(server: &Server) -> Client {
    Client::for_load(server, None, 1, Retries::One).unwrap().remove(0)
}

/// A retrying client of one URL.
pub(crate) fn retrying_at(url: &str) -> Client {
    retrying(&Server::new(Target::Url(url.parse().unwrap())))
}

/// Returns a request due now, with a timeout of ten seconds.
pub(crate) fn shot() -> Shot {
    shot_for("m")
}

/// Returns a request due now for this model, with a timeout of ten seconds.
pub(crate) fn shot_for(model: &str) -> Shot {
    shot_to(Api::Chat, model)
}

/// Returns a request due now to this API, with a timeout of ten seconds.
pub(crate) fn shot_to(api: Api, model: &str) -> Shot {
    let encoder = Encoder::new(api, model, &serde_json::Map::new(), Pinning::FULL, true);
    Shot {
        record: Record { output_asked: 4, ..Record::due(0, Phase::Measure, Duration::ZERO) },
        payload: encoder.request(&encoder.prefix(None), "hello", 4),
        began: Instant::now(),
        timeout: Duration::from_secs(10),
        timeout_is_error: true,
        cut: CancellationToken::new(),
        itl_limit: None,
        keep_text: false,
    }
}
