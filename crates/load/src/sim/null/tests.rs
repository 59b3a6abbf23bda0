use super::{connection, server::Server, *};
use crate::client::Tally;
use crate::client::event::parse;
use crate::client::sse::Parser;
use crate::client::tally::End;
use crate::sim::serve::Embedded;
use goodput_core::endpoint::Api;
use goodput_core::record::{Outcome, Phase, Record, TokenSource};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpStream, UnixStream},
    time::{Instant, timeout},
};

/// Timeout far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn settings(first_ms: u64, gap_ms: u64) -> Settings {
    let ms = |ms| Span(Duration::from_millis(ms));
    Settings { first: ms(first_ms), gap: ms(gap_ms), ..Settings::default() }
}

/// Opens an in-process connection to a new server.
fn open(settings: Settings) -> (DuplexStream, Arc<Server>) {
    let server = Arc::new(Server::new(settings));
    let (ours, theirs) = duplex(1 << 20);
    let shared = server.clone();
    tokio::spawn(async move { connection::serve(theirs, &shared).await });
    (ours, server)
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn chat(more: &str) -> String {
    post("/v1/chat/completions", &format!(r#"{{"messages":[{{"content":"one two"}}],"max_tokens":4{more}}}"#))
}

const STREAM: &str = r#","stream":true,"stream_options":{"include_usage":true}"#;

/// A response: its status line and fields, and its body.
#[derive(Debug)]
struct Response {
    head: String,
    body: String,
}

impl Response {
    fn is(&self, status: &str) -> bool {
        self.head.starts_with(&format!("HTTP/1.1 {status}"))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the reported time, in milliseconds.
    fn ttft(&self) -> f64 {
        self.field("server-timing").unwrap().strip_prefix("ttft;dur=").unwrap().parse().unwrap()
    }
}

/// Splits all responses out of the bytes read.
fn responses(mut text: &str) -> Vec<Response> {
    let mut all = vec![];
    while !text.is_empty() {
        let (head, mut rest) = text.split_once("\r\n\r\n").unwrap();
        let mut response = Response { head: head.to_owned(), body: String::new() };
        if let Some(length) = response.field("content-length") {
            let length = length.parse().unwrap();
            response.body = rest[..length].to_owned();
            rest = &rest[length..];
        } else if response.field("transfer-encoding").is_some() {
            loop {
                let (size, data) = rest.split_once("\r\n").unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                response.body.push_str(&data[..size]);
                assert_eq!(&data[size..size + 2], "\r\n");
                rest = &data[size + 2..];
                if size == 0 {
                    break;
                }
            }
        }
        text = rest;
        all.push(response);
    }
    all
}

/// Sends pieces one after the other, then reads until nothing more arrives.
async fn talk(settings: Settings, pieces: &[&[u8]]) -> Vec<Response> {
    let (mut io, _) = open(settings);
    for piece in pieces {
        if io.write_all(piece).await.is_err() {
            break; // The server has hung up, as it does after what it does not understand.
        }
        tokio::task::yield_now().await;
    }
    // Answers are in progress; the paused clock advances only when all of them wait.
    let mut text = Vec::new();
    let _ = timeout(Duration::from_secs(3600), io.read_to_end(&mut text)).await;
    responses(std::str::from_utf8(&text).unwrap())
}

/// Returns the record that the client makes of a body.
fn record(api: Api, body: &str) -> Record {
    let (mut parser, mut tally) = (Parser::new(), Tally::new(api, None));
    parser
        .feed(body.as_bytes(), |item| tally.feed(Duration::from_millis(1), parse(item), item.data))
        .unwrap();
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    tally.finish(End::Eof, Duration::from_millis(2), &mut record);
    record
}

#[tokio::test(start_paused = true)]
async fn streams_are_what_the_client_reads() {
    for (api, path, prompt, input) in [
        // Two words, and the template of a chat.
        (Api::Chat, "/v1/chat/completions", r#""messages":[{"role":"user","content":"one two"}]"#, 10),
        (Api::Completions, "/v1/completions", r#""prompt":"one two three""#, 3),
        (Api::Completions, "/v1/completions", r#""prompt":[7,8]"#, 2),
    ] {
        for (options, source) in [
            ("", TokenSource::Events),
            (r#","stream_options":{"include_usage":true}"#, TokenSource::Usage),
            (
                r#","stream_options":{"include_usage":true,"continuous_usage_stats":true}"#,
                TokenSource::Continuous,
            ),
        ] {
            for field in ["max_tokens", "max_completion_tokens"] {
                let ask = format!(r#"{{{prompt},"stream":true,"{field}":32{options}}}"#);
                let got = talk(settings(0, 0), &[post(path, &ask).as_bytes()]).await;
                assert!(got.len() == 1 && got[0].is("200 OK"), "{got:?}");
                assert_eq!(got[0].field("content-type"), Some("text/event-stream; charset=utf-8"));
                let r = record(api, &got[0].body);
                assert_eq!((r.outcome, r.events, r.finish.as_deref()), (Outcome::Ok, 32, Some("length")));
                assert_eq!((r.output_tokens, r.token_source), (Some(32), Some(source)), "{ask}");
                assert_eq!(r.input_tokens, (source != TokenSource::Events).then_some(input));
                assert!(got[0].body.ends_with("data: [DONE]\n\n"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_do_not_stream() {
    let got = talk(settings(20, 5), &[chat("").as_bytes()]).await;
    let body: serde_json::Value = serde_json::from_str(&got[0].body).unwrap();
    assert_eq!(
        (body["usage"]["prompt_tokens"].as_u64(), body["usage"]["completion_tokens"].as_u64()),
        (Some(10), Some(4))
    );
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert!(got[0].ttft() >= 35.0, "the last of four tokens is due after 20 + 3 × 5 ms");
}

#[tokio::test(start_paused = true)]
async fn requests_may_be_cut_anywhere_and_sent_ahead() {
    let chunked = "POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{\"prompt\": \r\n3\r\n\"a\"\r\n1\r\n}\r\n0\r\n\r\n";
    let text =
        format!("GET /health HTTP/1.1\r\n\r\n{}{chunked}GET /v1/models HTTP/1.1\r\n\r\n", chat(STREAM));
    for delays in [settings(0, 0), settings(20, 5)] {
        let whole = talk(delays.clone(), &[text.as_bytes()]).await;
        assert_eq!(whole.len(), 4);
        assert!(whole.iter().all(|r| r.is("200 OK")), "{whole:?}");
        let bodies: Vec<_> = whole.into_iter().map(|r| r.body).collect();
        let mut cuts: Vec<Vec<&[u8]>> = (0..=text.len())
            .map(|at| {
                let (a, b) = text.as_bytes().split_at(at);
                vec![a, b]
            })
            .collect();
        cuts.push(text.as_bytes().chunks(1).collect());
        for pieces in cuts {
            let got: Vec<_> = talk(delays.clone(), &pieces).await.into_iter().map(|r| r.body).collect();
            // `created` is the second of the start.
            let same = |text: &str| {
                text.split("\"created\":")
                    .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned())
                    .collect::<String>()
            };
            assert!(
                got.iter().map(|b| same(b)).eq(bodies.iter().map(|b| same(b))),
                "{} pieces, the first of {}",
                pieces.len(),
                pieces[0].len()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_keep_their_times() {
    let (mut io, server) = open(settings(20, 5));
    let sent = Instant::now();
    io.write_all(chat(STREAM).as_bytes()).await.unwrap();
    let mut buffer = vec![0; 1 << 16];
    let mut at = vec![];
    let mut text = Vec::new();
    while !text.ends_with(b"0\r\n\r\n") {
        let n = io.read(&mut buffer).await.unwrap();
        text.extend_from_slice(&buffer[..n]);
        at.push(sent.elapsed().as_millis());
        assert_eq!(server.running(), usize::from(at.len() < 4));
    }
    // The head with the first token; a millisecond is the grain of the timers, and does not add up.
    let due = [20, 25, 30, 35];
    assert!(at.len() == 4 && at.iter().zip(due).all(|(at, due)| (due..=due + 1).contains(at)), "{at:?}");
    let got = responses(std::str::from_utf8(&text).unwrap());
    assert!((20.0..=21.0).contains(&got[0].ttft()), "{got:?}");
    assert_eq!(record(Api::Chat, &got[0].body).output_tokens, Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_late_server_catches_up() {
    // A client that does not read for long: the tokens due meanwhile come together.
    let server = Arc::new(Server::new(settings(0, 5)));
    let (mut ours, theirs) = duplex(256);
    let shared = server.clone();
    tokio::spawn(async move { connection::serve(theirs, &shared).await });
    ours.write_all(chat(&STREAM.replace("true}", "false}")).as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut text = Vec::new();
    let _ = timeout(PATIENCE, ours.read_to_end(&mut text)).await;
    let got = responses(std::str::from_utf8(&text).unwrap());
    assert_eq!(record(Api::Chat, &got[0].body).events, 4);
    assert_eq!(
        String::from_utf8(text).unwrap().matches("\n\n\r\n").count(),
        2,
        "two chunks: the first token, the others"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_beside_answers() {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n\r\n");
    let text = [
        get("/v1/models"),
        chat(STREAM),
        get("/metrics"),
        get("/version"),
        get("/nothing"),
        get("/v1/completions"),
    ]
    .concat();
    let got = talk(Settings { model: "a \"b\"".into(), ..settings(0, 0) }, &[text.as_bytes()]).await;
    let models: serde_json::Value = serde_json::from_str(&got[0].body).unwrap();
    assert_eq!(
        (models["data"][0]["id"].as_str(), models["data"][0]["max_model_len"].as_u64()),
        (Some("a \"b\""), Some(131_072))
    );
    for line in [
        "num_requests_running{",
        "num_requests_waiting{",
        "generation_tokens_total{",
        "prompt_tokens_total{",
        "request_success_total{",
    ] {
        let expected = match line {
            "generation_tokens_total{" => "4.0",
            "prompt_tokens_total{" => "10.0",
            _ => "0.0",
        };
        let line = got[2].body.lines().find(|l| l.starts_with(&format!("vllm:{line}"))).unwrap();
        assert!(line.ends_with(&format!(" {expected}")), "{line}");
    }
    assert!(got[2].body.contains("finished_reason=\"length\",model_name=\"a \\\"b\\\"\"} 1.0"));
    assert!(got[3].is("200") && got[4].is("404") && got[5].is("405"), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn wrong_requests_are_told_so() {
    for (text, status, goes_on) in [
        (post("/v1/completions", "{"), "400", true),
        (post("/v1/completions", "{}"), "400", true),
        (post("/v1/completions", r#"{"prompt":"a","model":"other"}"#), "404", true),
        (post("/v1/responses", r#"{"input":"a"}"#), "404", true),
        (post("/v1/messages", r#"{"messages":[],"max_tokens":1}"#), "404", true),
        (post("/v1/completions", r#"{"prompt":"a","max_tokens":0}"#), "400", true),
        (post("/v1/completions", r#"{"prompt":"a","max_tokens":131072}"#), "400", true),
        (post("/v1/completions", r#"{"prompt":["a","b"]}"#), "400", true),
        (post("/v1/models", "{}"), "405", true),
        // What comes after these could be anything.
        ("POST /v1/completions HTTP/1.1\r\n\r\n".into(), "411", false),
        ("POST /v1/completions HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n".into(), "501", false),
        ("hello, server\r\n\r\n".into(), "400", false),
        ("GET /health HTTP/1.1\r\nconnection: close\r\n\r\n".into(), "200", false),
        (chat(STREAM).replace("host: x", "connection: close"), "200", false),
        (chat("").replace("host: x", "connection: close"), "200", false),
    ] {
        let got = talk(settings(0, 0), &[text.as_bytes(), b"GET /health HTTP/1.1\r\n\r\n"]).await;
        assert!(got[0].is(status), "{text}: {got:?}");
        assert_eq!(got.len(), if goes_on { 2 } else { 1 }, "{text}");
        assert_eq!(got[0].field("connection"), (!goes_on).then_some("close"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_has_no_body() {
    let (mut io, _) = open(settings(0, 0));
    io.write_all(b"HEAD /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    io.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(!text.contains("content-length: 0"), "the length is that of the body left out: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_a_word_gets_it() {
    let (mut io, _) = open(settings(0, 0));
    let request = chat("").replace("host: x", "expect: 100-continue");
    let body = request.find("\r\n\r\n").unwrap() + 4;
    io.write_all(&request.as_bytes()[..body]).await.unwrap();
    let mut word = [0; 25];
    io.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    io.write_all(&request.as_bytes()[body..]).await.unwrap();
    let mut status = [0; 12];
    io.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn a_hang_up_frees_the_server() {
    let (mut io, server) = open(settings(60_000, 0));
    io.write_all(chat(STREAM).as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.running(), 1);
    drop(io);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.running(), 0, "long before the first token is due");
}

#[tokio::test]
async fn over_sockets() {
    let server = Embedded::null(settings(20, 0)).unwrap();
    let ask = chat(STREAM).replace("host: x", "connection: close");
    let mut tcp = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    let sent = Instant::now();
    tcp.write_all(ask.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, tcp.read_to_string(&mut text)).await.unwrap().unwrap();
    let got = responses(&text);
    let client = sent.elapsed().as_secs_f64() * 1e3;
    assert!(got[0].ttft() >= 20.0 && got[0].ttft() <= client, "{client} ms: {got:?}");
    let url = server.url.clone();
    drop(server);
    assert!(
        TcpStream::connect(url.strip_prefix("http://").unwrap()).await.is_err(),
        "nobody listens any more"
    );

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("null.sock");
    let listener = Listener::Unix(UnixListener::bind(&path).unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(serve(settings(100, 0), listener, shutdown));
    let mut unix = UnixStream::connect(&path).await.unwrap();
    unix.write_all(ask.as_bytes()).await.unwrap();
    // Taken and read by the time that this answer is here.
    let mut other = UnixStream::connect(&path).await.unwrap();
    other.write_all(b"GET /health HTTP/1.1\r\nconnection: close\r\n\r\n").await.unwrap();
    timeout(PATIENCE, other.read_to_string(&mut String::new())).await.unwrap().unwrap();
    stop.send(()).unwrap();
    let mut text = String::new();
    timeout(PATIENCE, unix.read_to_string(&mut text)).await.unwrap().unwrap();
    assert!(text.contains("[DONE]"), "a shutdown lets open streams finish");
    timeout(PATIENCE, running).await.unwrap().unwrap();
}
