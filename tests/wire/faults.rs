//! Transport failures, and the requests that are sent.

use crate::serve::{Act, answer, chunk, client, head, retrying_at, serve, shot, status};
use goodput::client::{Api, ApiKey, Client, KeySource, Server, Shot, Target, preflight::check_models};
use goodput::record::{Conn, Failure, Finished, Outcome, Record};
use std::{io::Write, time::Duration};
use tokio_util::sync::CancellationToken;

const A: &str = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "[DONE]";

fn good() -> Act {
    Act::Write(answer(&[A, STOP, DONE]))
}

async fn send(url: &str) -> Finished {
    client(url, Api::Chat).send(shot()).await
}

fn failed(got: &Finished, failure: Failure) {
    assert_eq!((got.record.outcome, got.record.failure), (Outcome::Failed, Some(failure)), "{got:?}");
    assert!(got.sample.is_some(), "{got:?}");
}

async fn closed_port() -> u16 {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn the_request_is_plain_http_with_its_length() {
    let server = serve(vec![vec![good(), Act::Stall]]).await;
    let shot = shot();
    let length = shot.payload.len();
    let got = client(&server.url, Api::Chat).send(shot).await;
    assert!(got.record.ok() && got.sample.is_none(), "{got:?}");
    let asked = server.requests.lock().unwrap()[0].to_lowercase();
    assert!(asked.starts_with("post /v1/chat/completions http/1.1\r\n"), "{asked}");
    for line in [
        "content-type: application/json\r\n",
        "accept: */*\r\n",
        concat!("user-agent: goodput/", env!("CARGO_PKG_VERSION"), "\r\n"),
        &format!("host: {}\r\n", server.url.trim_start_matches("http://")),
        &format!("content-length: {length}\r\n"),
    ] {
        assert!(asked.contains(line), "{line} in {asked}");
    }
    for absent in ["accept-encoding", "transfer-encoding", "authorization", "cookie", "referer"] {
        assert!(!asked.contains(absent), "{absent} in {asked}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_and_marked() {
    let server = serve(vec![vec![good(), Act::Next, good(), Act::Stall]]).await;
    let client = client(&server.url, Api::Chat);
    for expected in [Conn::New, Conn::Reused] {
        let got = client.send(shot()).await;
        assert_eq!((got.record.outcome, got.record.conn), (Outcome::Ok, Some(expected)));
    }
}

#[tokio::test]
async fn warming_opens_connections_for_later() {
    let models = status("200 OK", r#"{"data":[]}"#);
    let server = serve(vec![vec![Act::Write(models), Act::Next, good(), Act::Stall]]).await;
    let client = client(&server.url, Api::Chat);
    client.warm(3).await;
    let asked = server.requests.lock().unwrap().len();
    assert_eq!(asked, 3, "three requests, on a connection each: the script answers one per connection");
    let sent = futures_util::future::join_all((0..3).map(|_| client.send(shot()))).await;
    for got in sent {
        assert_eq!((got.record.outcome, got.record.conn), (Outcome::Ok, Some(Conn::Reused)));
    }
}

/// A redirect is not followed, and its connection is kept.
#[tokio::test]
async fn warming_keeps_the_connections_of_redirects() {
    let moved =
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 5\r\n\r\nmoved".to_vec();
    let server = serve(vec![vec![Act::Write(moved), Act::Next, good(), Act::Stall]]).await;
    let client = client(&server.url, Api::Chat);
    client.warm(1).await;
    let got = client.send(shot()).await;
    assert_eq!((got.record.outcome, got.record.conn), (Outcome::Ok, Some(Conn::Reused)));
}

#[tokio::test]
async fn several_servers_are_used_in_turn() {
    let (a, b) = (serve(vec![vec![good()]]).await, serve(vec![vec![good()]]).await);
    let urls: Vec<_> = [&a, &b].iter().map(|s| s.url.parse().unwrap()).collect();
    let client = Client::http(&Server::new(Target::Urls(urls.try_into().unwrap())), None).unwrap();
    for id in 0..4 {
        let record = Record { id, ..shot().record };
        let got = client.send(Shot { record, ..shot() }).await;
        assert_eq!((got.record.outcome, u64::from(got.record.target)), (Outcome::Ok, id % 2));
    }
    assert_eq!([a, b].map(|s| s.requests.lock().unwrap().len()), [2, 2]);
}

#[tokio::test]
async fn quirk_20_a_connection_that_closes_unanswered_is_tried_once_more_if_asked() {
    for last in [Act::Close, Act::Reset] {
        let server = serve(vec![vec![last.clone()], vec![good(), Act::Stall]]).await;
        let got = retrying_at(&server.url).send(shot()).await;
        assert_eq!((got.record.outcome, got.record.attempts), (Outcome::Ok, 2), "{last:?}: {got:?}");
        assert_eq!(server.requests.lock().unwrap().len(), 2, "{last:?}");
        let server = serve(vec![vec![last.clone()]]).await;
        let got = retrying_at(&server.url).send(shot()).await;
        failed(&got, Failure::Reset);
        assert_eq!((got.record.attempts, server.requests.lock().unwrap().len()), (2, 2), "once, and no more");
        // By default each is a failure.
        let server = serve(vec![vec![last.clone()], vec![good(), Act::Stall]]).await;
        let got = send(&server.url).await;
        failed(&got, Failure::Reset);
        assert_eq!((got.record.attempts, server.requests.lock().unwrap().len()), (1, 1), "{last:?}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_has_gone_is_replaced() {
    // The server closes after the first answer without announcing it.
    let server = serve(vec![vec![good(), Act::Next, Act::Close], vec![good(), Act::Stall]]).await;
    let client = retrying_at(&server.url);
    assert!(client.send(shot()).await.record.ok());
    let got = client.send(shot()).await;
    assert_eq!((got.record.outcome, got.record.attempts, got.record.conn), (Outcome::Ok, 2, Some(Conn::New)));
}

/// A server that closes every connection once it is used again: the retry must not get another of those from the pool.
#[tokio::test]
async fn a_retry_goes_out_on_a_new_connection() {
    let models = status("200 OK", r#"{"data":[]}"#);
    let closes = vec![Act::Write(models), Act::Next, Act::Close];
    let server = serve(vec![closes.clone(), closes.clone(), closes, vec![good(), Act::Stall]]).await;
    let client = retrying_at(&server.url);
    client.warm(3).await;
    let got = client.send(shot()).await;
    assert_eq!((got.record.outcome, got.record.attempts, got.record.conn), (Outcome::Ok, 2, Some(Conn::New)));
}

/// Servers and balancers announce with a 408 that they close an idle connection, also when a request is under way to it.
#[tokio::test]
async fn a_408_on_an_idle_connection_is_a_closed_connection() {
    let timeout = || Act::Write(status("408 Request Timeout\r\nconnection: close", "idle\n"));
    let script = vec![good(), Act::Next, timeout(), Act::Close];
    let server = serve(vec![script.clone(), vec![good(), Act::Stall]]).await;
    let client = retrying_at(&server.url);
    assert!(client.send(shot()).await.record.ok());
    let got = client.send(shot()).await;
    assert_eq!((got.record.outcome, got.record.attempts, got.record.conn), (Outcome::Ok, 2, Some(Conn::New)));
    // Without retries it is a connection that broke, not a refusal of the request.
    let server = serve(vec![script]).await;
    let client = self::client(&server.url, Api::Chat);
    assert!(client.send(shot()).await.record.ok());
    let got = client.send(shot()).await;
    failed(&got, Failure::Reset);
    assert!(got.sample.as_deref().is_some_and(|s| s.contains("408")), "{got:?}");
    // On a new connection it is the server's answer, as is one that keeps the connection.
    for (script, sent) in [
        (vec![timeout(), Act::Close], 1),
        (vec![good(), Act::Next, Act::Write(status("408 Request Timeout", "busy\n")), Act::Stall], 2),
    ] {
        let server = serve(vec![script]).await;
        let client = retrying_at(&server.url);
        for n in 1..=sent {
            let got = client.send(shot()).await;
            assert_eq!(got.record.attempts, 1);
            if n == sent {
                failed(&got, Failure::ClientError);
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let half = [head(), chunk(&format!("data: {A}\n\n"))].concat();
    for last in [Act::Close, Act::Reset] {
        let server = serve(vec![vec![Act::Write(half.clone()), last]]).await;
        let got = send(&server.url).await;
        failed(&got, Failure::Reset);
        assert_eq!((got.record.attempts, got.record.status), (1, Some(200)));
        assert_eq!(server.requests.lock().unwrap().len(), 1);
    }
    // Without a length, the end of the connection is the end of the body.
    let open = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    let script = vec![Act::Write(open), Act::Write(format!("data: {A}\n\n").into_bytes()), Act::Close];
    let got = send(&serve(vec![script]).await.url).await;
    failed(&got, Failure::Truncated);
    assert!(got.sample.unwrap().contains("\"content\":\"a\""), "the sample shows the body");
}

#[tokio::test]
async fn no_server() {
    let got = send(&format!("http://127.0.0.1:{}", closed_port().await)).await;
    failed(&got, Failure::Connect);
    assert_eq!((got.record.attempts, got.record.headers), (1, None));
    assert!(got.record.sent.is_some() && got.sample.unwrap().contains("refused"));
    failed(&send("http://no-such-host.invalid:8000").await, Failure::Dns);
}

#[tokio::test]
async fn no_tls() {
    let https = |url: &str| url.replace("http://", "https://");
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", plain.local_addr().unwrap());
    tokio::spawn(async move {
        for n in 0.. {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut socket, _) = plain.accept().await.unwrap();
            assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0, "a TLS client speaks first");
            if n == 0 {
                socket.write_all(&status("400 Bad Request", "speak HTTP")).await.unwrap();
            }
        }
    });
    failed(&send(&url).await, Failure::Tls);
    failed(&send(&https(&url)).await, Failure::Tls);
}

#[tokio::test]
async fn time_runs_out() {
    for (script, status, token) in [
        (vec![Act::Stall], None, false),
        (vec![Act::Write(head()), Act::Stall], Some(200), false),
        (vec![Act::Write([head(), chunk(&format!("data: {A}\n\n"))].concat()), Act::Stall], Some(200), true),
    ] {
        // If this machine halts, the server's bytes may arrive too late: retry with a longer timeout.
        for timeout in [80, 1_000, 10_000, 60_000].map(Duration::from_millis) {
            let server = serve(vec![script.clone()]).await;
            let got = client(&server.url, Api::Chat).send(Shot { timeout, ..shot() }).await;
            failed(&got, Failure::Timeout);
            assert!(got.record.end >= timeout, "{got:?}");
            let came = (got.record.status, got.record.first_token.is_some()) == (status, token);
            assert!(came || timeout < Duration::from_secs(60), "{got:?}");
            if came {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_cut_comes_home() {
    let script = vec![Act::Write([head(), chunk(&format!("data: {A}\n\n"))].concat()), Act::Stall];
    let server = serve(vec![script]).await;
    let client = client(&server.url, Api::Chat);
    // Cancel later and later until the token has arrived by then: this machine may halt.
    let mut after = Duration::from_millis(50);
    let cut = loop {
        let cut = CancellationToken::new();
        let stop = cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            stop.cancel();
        });
        let got = client.send(Shot { cut: cut.clone(), timeout: 4 * after, ..shot() }).await;
        let r = got.record;
        let late = r.failure == Some(Failure::Timeout) || r.first_token.is_none();
        if late && after < Duration::from_secs(30) {
            after *= 2;
            continue;
        }
        assert_eq!((r.outcome, r.failure, r.first_token.is_some()), (Outcome::Cut, None, true));
        assert!(got.sample.is_none());
        break cut;
    };
    let got = client.send(Shot { cut, ..shot() }).await;
    assert_eq!(
        (got.record.outcome, got.record.sent, got.record.attempts),
        (Outcome::Cut, None, 0),
        "not even sent"
    );
}

#[tokio::test]
async fn quirk_18_statuses_are_told_apart() {
    for (line, failure) in [
        ("401 Unauthorized", Failure::Unauthorized),
        ("403 Forbidden", Failure::Unauthorized),
        ("404 Not Found", Failure::ClientError),
        ("429 Too Many Requests\r\nretry-after: 1", Failure::RateLimited),
        ("503 Service Unavailable\r\nretry-after: 1", Failure::ServerError),
        ("302 Found\r\nlocation: /elsewhere", Failure::UnexpectedStatus),
    ] {
        let server = serve(vec![vec![Act::Write(status(line, "why\n")), Act::Next, good()]]).await;
        let client = client(&server.url, Api::Chat);
        let got = client.send(shot()).await;
        failed(&got, failure);
        let shown = got.sample.as_deref().unwrap();
        // The sample of a redirect is its target instead of its body.
        let leads = line
            .contains("location")
            .then(|| shown.starts_with("it redirects to /elsewhere, which is not followed"));
        assert!(leads.unwrap_or(shown == "why\\n"), "{line}: {shown}");
        let next = client.send(shot()).await.record;
        assert_eq!(
            (next.outcome, next.conn),
            (Outcome::Ok, Some(Conn::Reused)),
            "{line}: the connection is kept"
        );
    }
}

#[tokio::test]
async fn what_is_no_stream_is_malformed() {
    let json = |body: &str| status("200 OK\r\ncontent-type: application/json", body);
    for (bytes, failure, says) in [
        (json(r#"{"choices":[{"text":"hi"}]}"#), Failure::Malformed, "hi"),
        (json(r#"{"error":{"message":"boom"}}"#), Failure::StreamError, "boom"),
        (status("200 OK\r\ncontent-type: text/html", "<h1>Welcome</h1>"), Failure::Malformed, "Welcome"),
        (status("200 OK", ""), Failure::Malformed, ""),
        (answer(&[A, "not json", DONE]), Failure::Malformed, "not json"),
        (answer(&[A, r#"{"error":"boom"}"#, DONE]), Failure::StreamError, "boom"),
        (b"220 smtp.example.org ESMTP\r\n".to_vec(), Failure::Malformed, ""),
    ] {
        let server = serve(vec![vec![Act::Write(bytes), Act::Stall]]).await;
        let got = send(&server.url).await;
        failed(&got, failure);
        assert!(got.sample.as_deref().unwrap().contains(says), "{got:?}");
    }
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_end_is_whole() {
    let open = [head(), chunk(&format!("data: {A}\n\ndata: {STOP}\n\ndata: {DONE}\n\n"))].concat();
    let server = serve(vec![vec![Act::Write(open), Act::Stall]]).await;
    let timeout = Duration::from_secs(300);
    let r = client(&server.url, Api::Chat).send(Shot { timeout, ..shot() }).await.record;
    assert_eq!(r.outcome, Outcome::Ok, "{r:?}");
    assert!(r.end < timeout, "over at [DONE], not when we stopped waiting: {r:?}");
    assert!(r.last_token.is_some_and(|at| at <= r.end), "{r:?}");
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "sk-secret-1234").unwrap();
    let key = ApiKey::read(&KeySource::File(file.path().into())).unwrap();
    let echo = status("401 Unauthorized", r#"{"error":"bad key sk-secret-1234"}"#);
    let server = serve(vec![vec![Act::Write(echo.clone()), Act::Next, Act::Write(echo), Act::Stall]]).await;
    let client = Client::http(&Server::new(Target::Url(server.url.parse().unwrap())), Some(key)).unwrap();
    let got = client.send(shot()).await;
    failed(&got, Failure::Unauthorized);
    let said = format!("{:#}", check_models(&client, None).await.unwrap_err());
    for shown in [format!("{got:?}"), said.clone()] {
        assert!(!shown.contains("sk-secret") && shown.contains("[API key]"), "{shown}");
    }
    assert!(said.contains("refuses the API key") && said.contains(file.path().to_str().unwrap()), "{said}");
    for asked in server.requests.lock().unwrap().iter() {
        assert!(asked.contains("authorization: Bearer sk-secret-1234\r\n"), "{asked}");
    }
}

#[tokio::test]
async fn preflight_explains_what_it_cannot_reach() {
    for (url, says) in [
        (format!("http://127.0.0.1:{}", closed_port().await), "nobody answers at http://127.0.0.1"),
        ("http://no-such-host.invalid".into(), "does not resolve"),
    ] {
        let said = format!("{:#}", check_models(&client(&url, Api::Chat), None).await.unwrap_err());
        assert!(said.contains(says), "{said}");
    }
}
