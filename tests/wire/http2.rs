//! Ends of HTTP/2 streams and connections by the server, with handwritten frames (RFC 9113), since no server sends
//! these on request.

use crate::serve::{retrying, shot};
use goodput::client::{Client, Http, Server, Shot, Target};
use goodput::record::{Failure, Finished, Outcome};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

const A: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The frames that answer a request, as a function of the stream.
type Answer = fn(u32) -> Vec<Vec<u8>>;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `:status 200` is an entry of HPACK's static table.
fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &[0x88])
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// Returns a GOAWAY frame with the last accepted stream and the error code.
fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

fn whole(stream: u32) -> Vec<Vec<u8>> {
    vec![ok(stream), frame(DATA, END, stream, [A, STOP].concat().as_bytes())]
}

/// Answers requests in turn, and all further ones with the last answer. Closes a connection after a GOAWAY. Also
/// returns the number of requests.
async fn serve(answers: &'static [Answer]) -> (Client, Arc<AtomicUsize>) {
    let (server, asked) = served(answers).await;
    (Client::http(&server, None).unwrap(), asked)
}

async fn served(answers: &'static [Answer]) -> (Server, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Url(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(socket, answers, count.clone()));
        }
    });
    (Server { http: Http::Two, ..Server::new(target) }, asked)
}

async fn connection(
    mut socket: TcpStream,
    answers: &'static [Answer],
    asked: Arc<AtomicUsize>,
) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    socket.read_exact(&mut [0; 24]).await.ok()?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await.ok()?;
    loop {
        let stream = next_request(&mut socket).await?;
        let n = asked.fetch_add(1, Ordering::SeqCst);
        for piece in answers[n.min(answers.len() - 1)](stream) {
            socket.write_all(&piece).await.ok()?;
            if piece[3] == GOAWAY && piece[12] == 0 {
                // No stream was accepted, so the server may close at once.
                return socket.shutdown().await.ok();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Reads frames up to the end of a request, and returns its stream. Acknowledges the client's settings.
async fn next_request(socket: &mut TcpStream) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        socket.read_exact(&mut vec![0; length as usize]).await.ok()?;
        match (head[3], head[4]) {
            (SETTINGS, flags) if flags & ACK == 0 => {
                socket.write_all(&frame(SETTINGS, ACK, 0, &[])).await.ok()?;
            }
            (DATA | HEADERS, flags) if flags & END != 0 => return Some(stream),
            _ => {}
        }
    }
}

/// How long a server with one stream takes for an answer.
const A_WHILE: Duration = Duration::from_millis(20);

/// Serves one connection on which only one stream may be open, and answers each after a while.
async fn one_stream_at_a_time(listener: TcpListener) -> Option<()> {
    let (mut socket, _) = listener.accept().await.ok()?;
    socket.set_nodelay(true).ok()?;
    socket.read_exact(&mut [0; 24]).await.ok()?;
    let max_concurrent_streams = [0, 3, 0, 0, 0, 1];
    socket.write_all(&frame(SETTINGS, 0, 0, &max_concurrent_streams)).await.ok()?;
    loop {
        let stream = next_request(&mut socket).await?;
        tokio::time::sleep(A_WHILE).await;
        for piece in whole(stream) {
            socket.write_all(&piece).await.ok()?;
        }
    }
}

/// A request that waits in the client for a stream is late: it was sent when its stream was opened, and not when it was due.
#[tokio::test]
async fn a_request_that_waits_for_a_stream_is_late() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Url(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    tokio::spawn(one_stream_at_a_time(listener));
    let client = Client::http(&Server { http: Http::Two, ..Server::new(target) }, None).unwrap();
    // The client learns the limit with the first answer.
    assert!(send(&client).await.record.ok());
    let began = tokio::time::Instant::now();
    let one = || async { client.send(Shot { began, ..shot() }).await.record };
    let (a, b, c) = tokio::join!(one(), one(), one());
    let mut all = [a, b, c];
    all.sort_by_key(|record| record.sent);
    for pair in all.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(before.ok() && after.ok(), "{all:?}");
        // A stream ends, and the next is opened, before the record of the first has its last token.
        assert!(after.sent >= before.sent.map(|sent| sent + A_WHILE), "it had to wait: {all:?}");
    }
}

async fn send(client: &Client) -> Finished {
    client.send(Shot { timeout: Duration::from_secs(300), ..shot() }).await
}

/// Rows: the answer, and whether the server said with it that it did not take the request, which is then sent again even if the plan asks for no
/// retries.
#[tokio::test]
async fn a_request_that_was_not_taken_is_sent_once_more() {
    let refused: &[(&'static [Answer], bool)] = &[
        (&[|_| vec![goaway(0, 0)], whole], true),
        (&[|_| vec![goaway(0, ENHANCE_YOUR_CALM)], whole], false),
        (&[|stream| vec![reset(stream, REFUSED_STREAM)], whole], true),
        (&[|stream| vec![reset(stream, INTERNAL_ERROR)], whole], false),
    ];
    for (i, (answers, not_taken)) in refused.iter().enumerate() {
        let (server, asked) = served(answers).await;
        let got = send(&retrying(&server)).await;
        assert_eq!((got.record.outcome, got.record.attempts), (Outcome::Ok, 2), "{i}: {got:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{i}");
        let (client, asked) = serve(answers).await;
        let got = send(&client).await;
        assert_eq!((got.record.ok(), got.record.attempts == 2), (*not_taken, *not_taken), "{i}: {got:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 1 + usize::from(*not_taken), "{i}");
    }
}

#[tokio::test]
async fn never_more_than_once() {
    let refused: &[&'static [Answer]] =
        &[&[|_| vec![goaway(0, 0)]], &[|stream| vec![reset(stream, REFUSED_STREAM)]]];
    for (i, answers) in refused.iter().enumerate() {
        let (client, asked) = serve(answers).await;
        let got = send(&client).await;
        assert_eq!((got.record.failure, got.record.attempts), (Some(Failure::Reset), 2), "{i}: {got:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{i}");
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_within_has_failed() {
    let within: &'static [Answer] =
        &[|stream| vec![ok(stream), frame(DATA, 0, stream, A.as_bytes()), reset(stream, INTERNAL_ERROR)]];
    let (client, asked) = serve(within).await;
    let got = send(&client).await;
    let r = &got.record;
    assert_eq!((r.failure, r.attempts, r.status), (Some(Failure::Reset), 1, Some(200)), "{got:?}");
    assert!(got.sample.is_some());
    assert_eq!(asked.load(Ordering::SeqCst), 1, "something was received");
}

#[tokio::test]
async fn what_is_under_way_at_a_goaway_is_answered() {
    let leaves: &'static [Answer] = &[
        |stream| {
            vec![
                ok(stream),
                frame(DATA, 0, stream, A.as_bytes()),
                goaway(stream, 0),
                frame(DATA, END, stream, STOP.as_bytes()),
            ]
        },
        whole,
    ];
    let (client, asked) = serve(leaves).await;
    for _ in 0..2 {
        let got = send(&client).await;
        assert_eq!((got.record.outcome, got.record.attempts), (Outcome::Ok, 1), "{got:?}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
