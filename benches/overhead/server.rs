//! A server with a schedule: the first token of each answer 50 ms after its request has arrived, each further one 10 ms after the one before.
//!
//! It stamps what it writes. A client's figures less these are the client's own share.

use goodput::load::pacer::{Clock, Pacer};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;

/// Time to the first token.
pub(crate) const FIRST: Duration = Duration::from_millis(50);
/// Time between two tokens.
pub(crate) const GAP: Duration = Duration::from_millis(10);
/// Threads that serve.
const THREADS: usize = 2;
const MODELS: &str = r#"{"object":"list","data":[{"id":"overhead","object":"model"}]}"#;

/// Times of the answers, by the stamps of the server.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// For each answer: from the end of the request to the first token, in ms.
    pub(crate) ttft: Vec<f64>,
    /// Times between successive tokens of an answer, in ms.
    pub(crate) gaps: Vec<f64>,
}

/// A server on a port of its own. It ends with the process.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    pub(crate) fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen = Arc::<Mutex<Seen>>::default();
        for _ in 0..THREADS {
            let (listener, seen) = (listener.try_clone()?, seen.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                LocalSet::new().block_on(&runtime, serve(listener, seen)).unwrap();
            });
        }
        Ok(Self { url, seen })
    }

    /// Returns what the server did since the last call.
    pub(crate) fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

async fn serve(listener: std::net::TcpListener, seen: Arc<Mutex<Seen>>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let wheel = Rc::<Wheel>::default();
    spawn_local(turn(wheel.clone(), Pacer::new(Clock::Real)?, seen));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        spawn_local(connection(Rc::new(stream), wheel.clone()));
    }
}

/// Answers one request after the other. Ends with the connection.
async fn connection(stream: Rc<TcpStream>, wheel: Rc<Wheel>) {
    let mut unread = Vec::new();
    while let Some(request) = Request::read(&stream, &mut unread).await {
        let sent = match request {
            Request::Models => write(&stream, &whole("200 OK", MODELS)),
            Request::Other => write(&stream, &whole("404 Not Found", "{}")),
            Request::Generate { is_chat, tokens } => {
                let (done, ended) = oneshot::channel();
                let received = Instant::now();
                let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                let sent = write(&stream, head);
                let answer =
                    Answer { stream: stream.clone(), is_chat, tokens, received, written: vec![], done };
                wheel.push(received + FIRST, answer);
                sent && ended.await.is_ok()
            }
        };
        if !sent {
            return;
        }
    }
}

/// The answers under way, that with the next token first.
#[derive(Default)]
struct Wheel {
    due: RefCell<BinaryHeap<Reverse<Due>>>,
    earlier: Notify,
}

struct Due(Instant, Answer);

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Due {}

impl Wheel {
    fn push(&self, at: Instant, answer: Answer) {
        self.due.borrow_mut().push(Reverse(Due(at, answer)));
        self.earlier.notify_one();
    }

    fn next(&self) -> Option<Instant> {
        self.due.borrow().peek().map(|due| due.0.0)
    }

    /// Takes the answer whose token is due, if there is one.
    fn take(&self) -> Option<Due> {
        self.next().filter(|at| *at <= Instant::now())?;
        self.due.borrow_mut().pop().map(|due| due.0)
    }
}

/// Writes every token when it is due.
async fn turn(wheel: Rc<Wheel>, pacer: Pacer, seen: Arc<Mutex<Seen>>) {
    loop {
        let next = wheel.next();
        tokio::select! {
            woke = pacer.until(next.unwrap_or_else(Instant::now)), if next.is_some() => woke.unwrap(),
            () = wheel.earlier.notified() => {}
        }
        while let Some(Due(at, mut answer)) = wheel.take() {
            match answer.write_token() {
                Ok(true) => wheel.due.borrow_mut().push(Reverse(Due(at + GAP, answer))),
                Ok(false) => answer.finish(&seen),
                // The client has gone.
                Err(_) => {}
            }
        }
        // Requests are read between two rounds, however many tokens are due.
        tokio::task::yield_now().await;
    }
}

struct Answer {
    stream: Rc<TcpStream>,
    is_chat: bool,
    tokens: usize,
    received: Instant,
    written: Vec<Instant>,
    done: oneshot::Sender<()>,
}

impl Answer {
    /// Writes the next token. Returns true if others follow.
    fn write_token(&mut self) -> io::Result<bool> {
        let text = if self.is_chat { r#""delta":{"content":" tok"}"# } else { r#""text":" tok""# };
        let last = self.written.len() + 1 == self.tokens;
        let finish = if last { "\"length\"" } else { "null" };
        let mut out = event(&format!(
            r#"{{"id":"o-1","object":"chunk","model":"overhead","choices":[{{"index":0,{text},"finish_reason":{finish}}}]}}"#
        ));
        if last {
            out.extend(event(&format!(
                r#"{{"id":"o-1","object":"chunk","model":"overhead","choices":[],"usage":{{"prompt_tokens":32,"completion_tokens":{0},"total_tokens":{0}}}}}"#,
                self.tokens
            )));
            out.extend(event("[DONE]"));
            out.extend(b"0\r\n\r\n");
        }
        self.written.push(Instant::now());
        if write(&self.stream, &out) { Ok(!last) } else { Err(ErrorKind::BrokenPipe.into()) }
    }

    fn finish(self, seen: &Mutex<Seen>) {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let mut seen = seen.lock().unwrap();
        seen.ttft.push(ms(self.written[0] - self.received));
        seen.gaps.extend(self.written.windows(2).map(|pair| ms(pair[1] - pair[0])));
        // The connection may be closed.
        let _ = self.done.send(());
    }
}

/// Formats one event as a chunk of the body.
fn event(data: &str) -> Vec<u8> {
    format!("{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8).into_bytes()
}

fn whole(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into()
}

/// Writes to a socket, whose buffer takes a whole answer. Returns false if it does not, or if the client has gone.
fn write(stream: &TcpStream, bytes: &[u8]) -> bool {
    stream.try_write(bytes).is_ok_and(|written| written == bytes.len())
}

enum Request {
    Models,
    Generate { is_chat: bool, tokens: usize },
    Other,
}

impl Request {
    /// Reads a request. `None` at the end of the connection.
    async fn read(stream: &TcpStream, unread: &mut Vec<u8>) -> Option<Self> {
        let end = loop {
            if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            fill(stream, unread).await?;
        };
        let head = String::from_utf8_lossy(&unread[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let whole = end + length.unwrap_or(0);
        while unread.len() < whole {
            fill(stream, unread).await?;
        }
        let body: serde_json::Value = serde_json::from_slice(&unread[end..whole]).unwrap_or_default();
        unread.drain(..whole);
        Some(match head.split_whitespace().nth(1)? {
            "/v1/models" => Self::Models,
            path @ ("/v1/chat/completions" | "/v1/completions") => {
                let asked = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| body[key].as_u64());
                Self::Generate { is_chat: path.contains("chat"), tokens: asked.unwrap_or(1).max(1) as usize }
            }
            _ => Self::Other,
        })
    }
}

async fn fill(stream: &TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    loop {
        stream.readable().await.ok()?;
        match stream.try_read_buf(unread) {
            Ok(0) => return None,
            Ok(_) => return Some(()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}
