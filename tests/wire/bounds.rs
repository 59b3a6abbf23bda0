//! The client's limits on the data from a server: lines, events, bodies, heads, tokens.

use crate::serve::{Act, Script, answer, chunk, client, head, serve, shot, status};
use goodput::client::{Api, Client, Server, Shot, Target};
use goodput::record::{Failure, Finished, Outcome};
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Upper bound of the bytes in the buffers of both sockets and of the client when it closes.
const UNDER_WAY: u64 = 32 * MIB;

const A: &str = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#;

/// Sends one request to a server with this script. Also returns the number of bytes that the server could send.
async fn send(script: Script, stream: bool) -> (Finished, u64) {
    let server = serve(vec![script]).await;
    let target = Server { stream, ..Server::new(Target::Url(server.url.parse().unwrap())) };
    let client = Client::http(&target, None).unwrap();
    let got = client.send(Shot { timeout: Duration::from_secs(300), ..shot() }).await;
    drop(client);
    (got, server.sent.load(Ordering::SeqCst))
}

/// Sends this number of MiB in pieces of 64 KiB.
fn flood(piece: Vec<u8>, mib: u64) -> Act {
    Act::Flood(piece, usize::try_from(mib * 16).unwrap())
}

/// Sends a head without a length, so that the body ends with the connection.
fn open(kind: &str) -> Act {
    open_with(kind, "")
}

/// Sends a head without a length, and the beginning of the body.
fn open_with(kind: &str, begin: &str) -> Act {
    Act::Write(format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n{begin}").into_bytes())
}

/// Returns 64 KiB of repeated `text`.
fn repeated(text: &str) -> Vec<u8> {
    let mut piece = text.repeat((64 << 10) / text.len()).into_bytes();
    piece.resize(64 << 10, b'\n');
    piece
}

/// A flood: name, head and beginning of the answer, 64 KiB to repeat, true for a streaming request, the expected
/// failure, the most MiB that may be read, and the MiB offered.
type Flood = (&'static str, Act, Vec<u8>, bool, Failure, u64, u64);

fn floods() -> Vec<Flood> {
    let events = "text/event-stream";
    let begun = open_with(events, "data: ");
    // An event of 64 KiB without content.
    let idle =
        format!("data: {{\"choices\":[],\"pad\":\"{}\"}}\n\n", "x".repeat((64 << 10) - 31)).into_bytes();
    let document = format!("{{\"pad\":\"{}", "x".repeat((64 << 10) - 8)).into_bytes();
    let json = "application/json";
    let page = Act::Write(b"HTTP/1.1 500 Internal Server Error\r\n\r\n".to_vec());
    let malformed = Failure::Malformed;
    vec![
        ("one line", begun, vec![b'x'; 64 << 10], true, malformed, 17, 64),
        ("comments", open(events), repeated(": keep-alive\n\n"), true, malformed, 17, 1024),
        ("blank lines", open(events), repeated("\r\n"), true, malformed, 17, 1024),
        ("lines of one event", open(events), repeated("data: x\n"), true, malformed, 17, 1024),
        ("events without a token", open(events), idle, true, malformed, 65, 1024),
        ("a document in place of a stream", open(json), document.clone(), true, malformed, 2, 1024),
        ("a document", open(json), document, false, malformed, 65, 1024),
        ("a page of an error", page, repeated("<p>"), true, Failure::ServerError, 65, 1024),
    ]
}

#[tokio::test]
async fn nothing_is_read_without_an_end() {
    for (what, head, piece, stream, failure, most, of) in floods() {
        let (got, sent) = send(vec![head, flood(piece, of), Act::Stall], stream).await;
        let r = got.record;
        assert_eq!((r.outcome, r.failure, r.attempts), (Outcome::Failed, Some(failure), 1), "{what}: {r:?}");
        assert!(r.output_bytes <= most * MIB, "{what}: {} bytes were read", r.output_bytes);
        let taken = sent <= most * MIB + UNDER_WAY && sent < of * MIB;
        assert!(taken, "{what}: {sent} bytes were taken from the server");
        assert!(got.sample.unwrap().len() < 64 << 10, "{what}: the sample is short");
    }
}

#[tokio::test]
async fn a_head_has_a_size() {
    let field = format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "x".repeat(1 << 20));
    let (got, _) = send(vec![Act::Write(field.into_bytes()), Act::Stall], true).await;
    assert_eq!((got.record.failure, got.record.status), (Some(Failure::Malformed), None), "{got:?}");
}

/// An endless answer to a request for four tokens is cancelled before its timeout: after 1,040 tokens if the server
/// counts them, and after four times as many events otherwise.
#[tokio::test]
async fn a_server_that_ignores_max_tokens_is_noticed() {
    let endless = [head(), chunk(&format!("data: {A}\n\n").repeat(100))].concat();
    let many = chunk(&format!("data: {A}\n\n").repeat(100));
    let (got, _) = send(vec![Act::Write(endless), Act::Flood(many, 1000), Act::Stall], true).await;
    let r = got.record;
    assert_eq!(
        (r.outcome, r.failure, r.status),
        (Outcome::Failed, Some(Failure::Overrun), Some(200)),
        "{r:?}"
    );
    assert!(r.events > 4160 && r.events < 40_000 && got.sample.unwrap().contains("beyond 4160 tokens"));
    let counted: String = (1..2000)
        .map(|n| {
            let token = A.strip_suffix('}').unwrap();
            format!("data: {token},\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{n}}}}}\n\n")
        })
        .collect();
    let (got, _) = send(vec![Act::Write([head(), chunk(&counted)].concat()), Act::Stall], true).await;
    assert!(
        got.record.failure == Some(Failure::Overrun) && got.sample.unwrap().contains("beyond 1040 tokens")
    );
    // A long answer that ends is valid: deviating lengths are reported for the whole sweep.
    let long = answer(
        &[&[A; 900][..], &[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"]].concat(),
    );
    let (got, _) = send(vec![Act::Write(long), Act::Stall], true).await;
    assert_eq!((got.record.outcome, got.record.events), (Outcome::Ok, 900));
}

#[tokio::test]
async fn statuses_of_proxies_and_bodies_that_nobody_asked_for() {
    let html = "<html><script>alert(1)</script></html>";
    for (bytes, failure, code, says) in [
        (status("408 Request Timeout", "slow"), Failure::ClientError, 408, "slow"),
        (status("413 Payload Too Large", "big"), Failure::ClientError, 413, "big"),
        (status("502 Bad Gateway\r\ncontent-type: text/html", html), Failure::ServerError, 502, "<script>"),
        (status("504 Gateway Timeout", ""), Failure::ServerError, 504, ""),
        (
            status("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/", ""),
            Failure::UnexpectedStatus,
            307,
            "",
        ),
        (
            status("200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip", "\u{1f}rubbish"),
            Failure::Malformed,
            200,
            "content-encoding: gzip",
        ),
        (
            status("200 OK\r\ncontent-type: application/json\r\ncontent-encoding: br", "{}"),
            Failure::Malformed,
            200,
            "content-encoding: br",
        ),
    ] {
        let (got, _) = send(vec![Act::Write(bytes), Act::Stall], true).await;
        assert_eq!((got.record.failure, got.record.status), (Some(failure), Some(code)), "{got:?}");
        assert!(got.sample.as_deref().unwrap().contains(says), "{got:?}");
    }
    let plain = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: identity\r\n\r\n";
    let stop = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (got, _) = send(vec![Act::Write([plain, stop].concat().into_bytes()), Act::Close], true).await;
    assert!(got.record.ok(), "plain by another name: {got:?}");
}

/// A stream gives identical results wherever it is split, with a separate client for each variant.
#[tokio::test]
async fn cuts_and_line_ends_change_nothing() {
    let text = r#"{"choices":[{"delta":{"content":"é…😀"},"finish_reason":null}]}"#;
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let body = format!("data: {text}\n\ndata: {text}\n\ndata: {stop}\n\ndata: [DONE]\n\n");
    let crlf = body.replace('\n', "\r\n");
    let commented = body.replace("\n\n", "\n: within\n\n: between\n\n");
    for (what, body, size) in [
        ("every byte", &body, 1),
        ("within characters", &body, 3),
        ("CR LF, every byte", &crlf, 1),
        ("CR LF at once", &crlf, usize::MAX),
        ("comments", &commented, 7),
        ("all at once", &body, usize::MAX),
    ] {
        let mut script = vec![open("text/event-stream")];
        script.extend(body.as_bytes().chunks(size.min(body.len())).map(|piece| Act::Write(piece.to_vec())));
        script.push(Act::Close);
        let server = serve(vec![script]).await;
        let got = client(&server.url, Api::Chat).send(Shot { keep_text: true, ..shot() }).await;
        let r = &got.record;
        assert_eq!(
            (r.outcome, r.events, r.finish.as_deref()),
            (Outcome::Ok, 2, Some("stop")),
            "{what}: {got:?}"
        );
        assert_eq!(got.text.as_deref(), Some("é…😀é…😀"), "{what}");
    }
}
