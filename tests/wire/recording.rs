//! Recordings of real servers: the request, then one line per socket read with its time and its bytes as Python writes
//! them.

use goodput::client::payload::AskedLength;
use serde_json::Value;
use std::{fs, path::PathBuf, time::Duration};

/// The end of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server closed the connection.
    Eof,
    /// The recorder closed the connection.
    Abort,
}

/// One recorded exchange.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The body of the request; `None` if it has none, was shortened, or is no JSON object.
    pub(crate) body: Option<Value>,
    /// The length that the request asked for.
    pub(crate) asked: Option<AskedLength>,
    pub(crate) reads: Vec<(Duration, Vec<u8>)>,
    pub(crate) ending: Ending,
}

/// Returns the folder of the recordings.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire")
}

impl Recording {
    /// Reads a recording by name, such as `vllm/chat-stream-usage`.
    pub(crate) fn load(name: &str) -> Self {
        let text = fs::read_to_string(folder().join(format!("{name}.txt")))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut request = text.lines().next().unwrap().strip_prefix("> ").unwrap().split(' ');
        let (method, path) = (request.next().unwrap().to_owned(), request.next().unwrap().to_owned());
        let body = text.lines().filter_map(|l| l.strip_prefix("> {")).next();
        let body: Option<Value> = body.and_then(|body| serde_json::from_str(&format!("{{{body}")).ok());
        let asked = body.as_ref().and_then(asked);
        let mut reads = Vec::new();
        let mut ending = None;
        for line in text.lines().filter_map(|l| l.strip_prefix('+')) {
            let mut parts = line.trim_start().splitn(2, ' ');
            let at = Duration::from_secs_f64(parts.next().unwrap().parse::<f64>().unwrap() / 1e3);
            let rest = parts.next().unwrap().trim_start();
            match rest {
                "EOF" => ending = Some(Ending::Eof),
                _ if rest.starts_with("CLIENT ABORT") => ending = Some(Ending::Abort),
                _ => {
                    let (len, bytes) = rest.split_once(' ').unwrap();
                    let bytes = python_bytes(bytes);
                    assert_eq!(bytes.len(), len.parse::<usize>().unwrap(), "{name}: {line}");
                    reads.push((at, bytes));
                }
            }
        }
        Self { method, path, body, asked, reads, ending: ending.expect("a recording ends") }
    }

    /// Returns the status in the first line of the answer.
    pub(crate) fn status(&self) -> u16 {
        String::from_utf8_lossy(&self.reads[0].1[9..12]).parse().unwrap()
    }

    /// Returns the body, read by read, without the head and the chunked framing.
    pub(crate) fn body_reads(&self) -> Vec<(Duration, Vec<u8>)> {
        let mut unframed = Unframe::default();
        self.reads
            .iter()
            .map(|(at, bytes)| (*at, unframed.feed(bytes)))
            .filter(|(_, b)| !b.is_empty())
            .collect()
    }
}

/// Returns the length that a request asked for.
fn asked(body: &Value) -> Option<AskedLength> {
    let tokens = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
        .iter()
        .find_map(|field| body[field].as_u64())?;
    let tokens = tokens * body["n"].as_u64().unwrap_or(1);
    Some(AskedLength { tokens, is_pinned: body["ignore_eos"] == true })
}

/// Parses the output of Python's `repr(bytes)`: either quote, and `\x`, `\n`, `\r`, `\t`, `\\`, `\'`, `\"`.
pub(crate) fn python_bytes(text: &str) -> Vec<u8> {
    let inner = text.strip_prefix('b').unwrap_or_else(|| panic!("no bytes: {text}"));
    let quote = inner.chars().next().unwrap();
    assert!(matches!(quote, '\'' | '"') && inner.len() >= 2 && inner.ends_with(quote), "no quotes: {text}");
    let mut bytes = inner[1..inner.len() - 1].bytes();
    let mut out = Vec::new();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        out.push(match bytes.next().expect("something after a backslash") {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            c @ (b'\\' | b'\'' | b'"') => c,
            c => panic!("unknown escape \\{}", char::from(c)),
        });
    }
    out
}

/// Removes the head and the chunked framing, wherever the reads split them.
#[derive(Default)]
struct Unframe {
    head: Vec<u8>,
    in_body: bool,
    chunked: bool,
    /// The size line, or the line end after a chunk, as far as it was read.
    line: Vec<u8>,
    left: usize,
}

impl Unframe {
    fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &b in bytes {
            if !self.in_body {
                self.head.push(b);
                self.in_body = self.head.ends_with(b"\r\n\r\n");
                self.chunked =
                    String::from_utf8_lossy(&self.head).to_lowercase().contains("transfer-encoding: chunked");
            } else if !self.chunked {
                out.push(b);
            } else if self.left > 0 {
                out.push(b);
                self.left -= 1;
            } else {
                self.line.push(b);
                // The line end after a chunk appears as an empty line before the next size.
                if self.line.ends_with(b"\r\n") {
                    let size = std::str::from_utf8(&self.line).unwrap().trim();
                    self.left = usize::from_str_radix(size, 16).unwrap_or(0);
                    self.line.clear();
                }
            }
        }
        out
    }
}

#[test]
fn python_writes_bytes_in_two_ways() {
    assert_eq!(python_bytes(r#"b'a\'"\\\n\r\t\xe2\x80'"#), b"a'\"\\\n\r\t\xe2\x80");
    assert_eq!(python_bytes(r#"b"it's""#), b"it's");
}

#[test]
fn framing_may_be_cut_anywhere() {
    let raw =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
    for size in 1..raw.len() {
        let mut unframe = Unframe::default();
        let got: Vec<u8> = raw.chunks(size).flat_map(|piece| unframe.feed(piece)).collect();
        assert_eq!(got, b"abc0123456789", "pieces of {size}");
    }
}
