//! The client: one request is sent, its stream is read, and a record comes home whatever happens.

use super::broken::Broken;
use super::config::{Api, BaseUrl, Connections, Http, Server};
use super::dns::InTurn;
use super::event::{self, Parsed};
use super::key::ApiKey;
use super::payload::Payload;
use super::said::Said;
use super::sample::{keep, sample};
use super::sse::Parser;
use super::tally::{End, Tally};
use super::transport::{Answer, Format, Transport, bases};
use crate::record::{Failure, Finished, Record};
use crate::units::short;
use anyhow::anyhow;
use axum::Router;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Url;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// The largest body of one answer.
const BODY_MAX: u64 = 64 << 20;
/// The largest body of a `GET`: a list of models, a page of metrics.
const GET_MAX: usize = 16 << 20;
/// How long a `GET` may take beyond its connection.
const GET_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a body may go on once nothing in it matters any more. Reading it to its end keeps the connection.
const GRACE: Duration = Duration::from_secs(1);

/// One request to be sent now.
#[derive(Debug)]
pub struct Shot {
    /// What is known of it: id, phase, due, class, tokens asked for. The client fills in the rest.
    pub record: Record,
    /// The body.
    pub payload: Payload,
    /// The start of the step, from which all times of the record count.
    pub began: Instant,
    /// How long after `due` it is given up.
    pub timeout: Duration,
    /// Fires when the step is over.
    pub cut: CancellationToken,
    /// Gaps above this are counted in the record.
    pub itl_limit: Option<Duration>,
    /// Whether the text of the answer is wanted.
    pub keep_text: bool,
}

/// Sends requests to one server, or to several in turn. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Transport,
    api: Api,
    /// Whether answers come as streams, else as one document each.
    stream: bool,
    targets: Vec<Endpoints>,
    /// For a `POST`; a `GET` leaves the content type out.
    headers: HeaderMap,
    key: Option<ApiKey>,
    connect_timeout: Duration,
    http: Http,
    connections: Connections,
    /// Which URL is next.
    turn: AtomicU64,
}

struct Endpoints {
    base: BaseUrl,
    generate: Url,
}

impl Client {
    /// A client over sockets, to the URLs of `server`.
    ///
    /// # Errors
    /// Where the table names the simulated server, or TLS cannot be set up (no certificates on this system).
    pub fn http(server: &Server, key: Option<ApiKey>) -> anyhow::Result<Self> {
        let mut one = Self::several(server, key, 1)?;
        one.pop().ok_or_else(|| anyhow!("there is no client"))
    }

    /// So many clients with connections of their own, a thread for each. Each begins with another URL, and they share the
    /// addresses of a name, so that all are used in turn however many clients there are.
    ///
    /// # Errors
    /// As [`Client::http`].
    pub fn several(server: &Server, key: Option<ApiKey>, n: usize) -> anyhow::Result<Vec<Self>> {
        if server.target.urls().is_empty() {
            return Err(anyhow!("the simulated server of this plan has no URL: it is called in process"));
        }
        let names = InTurn::default();
        let one = |i: usize| Ok(Self::new(Transport::http(server, &names)?, server, key.clone(), i as u64));
        (0..n).map(one).collect()
    }

    /// A client of a router in this process: no socket, so that tokio's paused clock holds.
    pub fn in_process(router: Router, server: &Server) -> Self {
        Self::new(Transport::Local(router), server, None, 0)
    }

    fn new(transport: Transport, server: &Server, key: Option<ApiKey>, first: u64) -> Self {
        let turn = AtomicU64::new(first);
        let targets = bases(&server.target)
            .into_iter()
            .map(|base| Endpoints { generate: base.join(server.api.path()), base })
            .collect();
        let mut headers: HeaderMap = server.headers.iter().collect();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &key {
            headers.insert(header::AUTHORIZATION, key.header());
        }
        let connect_timeout = server.connect_timeout.0;
        let (http, connections) = (server.http, server.connections);
        Self(Arc::new(Inner {
            transport,
            api: server.api,
            stream: server.stream,
            targets,
            headers,
            key,
            connect_timeout,
            http,
            connections,
            turn,
        }))
    }

    /// The URLs that requests go to, without path.
    pub fn urls(&self) -> impl ExactSizeIterator<Item = &BaseUrl> {
        self.0.targets.iter().map(|t| &t.base)
    }

    /// The API key in use.
    pub fn key(&self) -> Option<&ApiKey> {
        self.0.key.as_ref()
    }

    /// The beginning of a body, as a failed request's sample shows it: without the key, without control characters.
    pub fn sample(&self, body: &[u8]) -> Box<str> {
        sample(body, self.key())
    }

    /// Sends one request and reads its answer to the end, to its timeout, or until it is cut.
    pub async fn send(&self, shot: Shot) -> Finished {
        let Shot { record, payload, began, timeout, cut, itl_limit, keep_text } = shot;
        // Beyond what the clock can count, there is no deadline.
        let deadline = began.checked_add(record.due).and_then(|due| due.checked_add(timeout));
        let mut exchange = Exchange::new(&self.0, record, began, itl_limit, keep_text);
        let end = if cut.is_cancelled() {
            End::Cut
        } else {
            let stop = async {
                let late = async {
                    match deadline {
                        Some(at) => sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! { biased; () = cut.cancelled() => End::Cut, () = late => End::Timeout }
            };
            tokio::select! { biased; end = exchange.run(&self.0, payload) => end, end = stop => end }
        };
        exchange.finish(end, self.key())
    }

    /// Opens up to `n` connections by as many parallel requests for the list of models, dealt over the URLs in turn; none where
    /// the plan wants them cold. What comes back does not matter; each has the connect timeout.
    pub async fn warm(&self, n: usize) {
        if self.0.connections == Connections::Cold {
            return;
        }
        let targets = self.0.targets.len();
        let one = |i: usize| timeout(self.0.connect_timeout, self.fetch(i % targets, "/v1/models"));
        join_all((0..n).map(one)).await;
    }

    /// Fetches a page (`/v1/models`, `/metrics`) of the first URL: its status and body.
    ///
    /// # Errors
    /// Where no whole answer of at most 16 MiB comes within the connect timeout and another 30 s.
    pub async fn get(&self, path: &str) -> anyhow::Result<(u16, Bytes)> {
        self.get_from(0, path).await
    }

    /// [`Client::get`] of the `target`-th URL.
    ///
    /// # Errors
    /// As [`Client::get`], and where there is no such URL.
    pub async fn get_from(&self, target: usize, path: &str) -> anyhow::Result<(u16, Bytes)> {
        let base = self.urls().nth(target).ok_or_else(|| anyhow!("there is no server number {target}"))?;
        self.fetch(target, path).await.map_err(|e| anyhow!("GET {base}{path} failed: {}", e.text))
    }

    /// Calls a page of the `target`-th URL that does something, with a `POST` that has no body: its status.
    ///
    /// # Errors
    /// As [`Client::get_from`].
    pub async fn post_to(&self, target: usize, path: &str) -> anyhow::Result<u16> {
        self.post_within(target, path, GET_TIMEOUT).await
    }

    /// The same with a time of its own for the answer, for what takes a server long.
    ///
    /// # Errors
    /// As [`Client::get_from`].
    pub async fn post_within(&self, target: usize, path: &str, time: Duration) -> anyhow::Result<u16> {
        let base = self.urls().nth(target).ok_or_else(|| anyhow!("there is no server number {target}"))?;
        let called = self.answered(Method::POST, target, path, self.0.connect_timeout + time, GET_MAX).await;
        called.map(|(status, _)| status).map_err(|e| anyhow!("POST {base}{path} failed: {}", e.text))
    }

    /// A page of the `target`-th URL with a limit of its own on the time that it takes altogether, and on its size in bytes.
    ///
    /// # Errors
    /// No whole answer comes, not in time, it is too large, or its status is not 2xx: the cause in words.
    pub async fn page(
        &self,
        target: usize,
        path: &str,
        limit: Duration,
        most: usize,
    ) -> Result<Bytes, String> {
        match self.answered(Method::GET, target, path, limit, most).await {
            Ok((200..=299, body)) => Ok(body),
            Ok((status, _)) => Err(format!("HTTP {status}")),
            Err(e) => Err(e.text),
        }
    }

    pub(crate) async fn fetch(&self, target: usize, path: &str) -> Result<(u16, Bytes), Broken> {
        self.answered(Method::GET, target, path, self.0.connect_timeout + GET_TIMEOUT, GET_MAX).await
    }

    async fn answered(
        &self,
        method: Method,
        target: usize,
        path: &str,
        limit: Duration,
        most: usize,
    ) -> Result<(u16, Bytes), Broken> {
        let inner = &*self.0;
        let url = inner.targets[target].base.join(path);
        let mut headers = inner.headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let get = async {
            let answer = inner.transport.send(target, method, &url, &headers, Payload::default()).await?;
            let status = answer.status.as_u16();
            Ok((status, answer.body(most).await?))
        };
        let late =
            || Broken::new(Failure::Timeout, format!("no answer within {} s", short(limit.as_secs_f64())));
        timeout(limit, get).await.unwrap_or_else(|_| Err(late()))
    }

    /// Whether answers come as streams, else as one document each.
    pub(crate) fn streams(&self) -> bool {
        self.0.stream
    }

    /// Which HTTP is spoken.
    pub(crate) fn http_version(&self) -> Http {
        self.0.http
    }
}

/// One request on its way.
struct Exchange {
    record: Record,
    began: Instant,
    tally: Tally,
    /// The beginning of the body.
    head: Vec<u8>,
    head_max: usize,
    /// The body as it came, where the text is wanted: it is put together once nothing is timed any more.
    body: Option<Vec<u8>>,
    stream: bool,
    server_ttft: Option<Duration>,
}

/// How the body is read.
enum Reading {
    /// As a stream of events, as it arrives.
    Events(Parser),
    /// As the one JSON document that was asked for, at its end. Holds what has come, and when its last byte did.
    Whole(Vec<u8>, Duration),
    /// As a JSON document in place of a stream, at its end: an error, or nothing that was asked for.
    Json(Vec<u8>),
    /// Not at all, save for its beginning: the status says enough.
    Skip,
}

impl Exchange {
    fn new(
        inner: &Inner,
        mut record: Record,
        began: Instant,
        itl_limit: Option<Duration>,
        keep_text: bool,
    ) -> Self {
        // In turn by client: by number, a thread that sends every other request would know only every other server.
        let target = inner.turn.fetch_add(1, Relaxed) % inner.targets.len() as u64;
        record.target = u16::try_from(target).unwrap_or(0);
        let head_max = keep(inner.key.as_ref());
        Self {
            record,
            began,
            tally: Tally::new(inner.api, itl_limit),
            head: Vec::new(),
            head_max,
            body: keep_text.then(Vec::new),
            stream: inner.stream,
            server_ttft: None,
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    async fn run(&mut self, inner: &Inner, payload: Payload) -> End {
        let target = usize::from(self.record.target);
        let url = &inner.targets[target].generate;
        let mut answer = loop {
            self.record.attempts += 1;
            self.record.sent.get_or_insert(self.began.elapsed());
            match inner.transport.send(target, Method::POST, url, &inner.headers, payload.clone()).await {
                Ok(answer) => break answer,
                Err(e) if e.unanswered && self.record.attempts == 1 => {}
                Err(e) => return self.broken(&e),
            }
        };
        let at = self.now();
        self.record.headers = Some(at);
        self.record.status = Some(answer.status.as_u16());
        self.record.conn = answer.conn;
        self.server_ttft = answer.server_ttft;
        let mut reading = self.reading(at, &answer);
        loop {
            let next = match self.tally.sealed_at() {
                Some(at) => timeout_at(self.began + at + GRACE, answer.chunk()).await.unwrap_or(Ok(None)),
                None => answer.chunk().await,
            };
            let at = self.now();
            match next {
                Ok(Some(bytes)) => self.take(at, &bytes, &mut reading),
                Ok(None) => break,
                Err(e) => return self.broken(&e),
            }
            if self.record.output_bytes > BODY_MAX {
                self.tally.fail(at, Failure::Malformed, b"the body is larger than 64 MiB");
                return End::Broken;
            }
        }
        self.end_of_body(reading, answer.format);
        End::Eof
    }

    /// How to read the body, from the response head. A status that is no success is a failure from here on.
    fn reading(&mut self, at: Duration, answer: &Answer) -> Reading {
        if let Some(failure) = failure_of(answer.status) {
            self.tally.fail(at, failure, b"");
            return Reading::Skip;
        }
        match (self.stream, answer.format) {
            (true, Format::Json) => Reading::Json(Vec::new()),
            (true, Format::Events | Format::Other) => Reading::Events(Parser::new()),
            (false, Format::Json | Format::Other) => Reading::Whole(Vec::new(), at),
            (false, Format::Events) => {
                self.tally.fail(at, Failure::Malformed, b"a stream came where one document was asked for");
                Reading::Skip
            }
        }
    }

    fn take(&mut self, at: Duration, bytes: &[u8], reading: &mut Reading) {
        self.record.output_bytes += bytes.len() as u64;
        let room = self.head_max.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // A whole document is kept already.
        if let (Some(body), Reading::Events(_)) = (&mut self.body, &*reading) {
            body.extend_from_slice(bytes);
        }
        match reading {
            Reading::Events(parser) => {
                let tally = &mut self.tally;
                let fed = parser.feed(bytes, |item| tally.feed(at, event::parse(item), item.data));
                if let Err(e) = fed {
                    self.tally.fail(at, Failure::Malformed, e.to_string().as_bytes());
                    *reading = Reading::Skip;
                }
            }
            Reading::Whole(whole, last) => {
                whole.extend_from_slice(bytes);
                *last = at;
            }
            Reading::Json(whole) => whole.extend_from_slice(bytes),
            Reading::Skip => {}
        }
    }

    fn end_of_body(&mut self, reading: Reading, format: Format) {
        let at = self.now();
        match reading {
            Reading::Events(parser) => {
                let tally = &mut self.tally;
                parser.finish(|item| match event::parse(item) {
                    // Half an event: the stream was cut off, and says so by having no end.
                    Parsed::Malformed => {}
                    parsed => tally.feed(at, parsed, item.data),
                });
                if !self.tally.started() && format != Format::Events {
                    self.tally.fail(at, Failure::Malformed, b"");
                }
            }
            Reading::Whole(whole, last) => {
                self.tally.document(last, event::parse_whole(&whole), &whole);
                if let Some(body) = &mut self.body {
                    *body = whole;
                }
            }
            Reading::Json(whole) => {
                let error = event::error_message(&whole).is_some();
                let failure = if error { Failure::StreamError } else { Failure::Malformed };
                self.tally.fail(at, failure, b"");
            }
            Reading::Skip => {}
        }
    }

    fn broken(&mut self, e: &Broken) -> End {
        if !self.tally.whole() {
            let at = self.now();
            self.tally.fail(at, e.failure, e.text.as_bytes());
        }
        End::Broken
    }

    fn finish(mut self, end: End, key: Option<&ApiKey>) -> Finished {
        let at = self.now();
        let tallied = self.tally.finish(end, at, &mut self.record);
        // The very payload that was wrong, else the beginning of the body, else what the transport said.
        let seen = tallied.seen.filter(|s| !s.is_empty());
        let shown = seen.as_deref().unwrap_or(&self.head);
        let sample = self.record.failure.map(|_| sample(shown, key));
        let said = self
            .body
            .filter(|_| self.record.ok())
            .map(|body| if self.stream { Said::in_events(&body) } else { Said::in_document(&body) });
        let (text, aside) = said.map(|s| (s.text.into(), s.aside.into())).unzip();
        Finished {
            record: self.record,
            gaps_us: tallied.gaps_us,
            sample,
            server_ttft: self.server_ttft,
            text,
            aside,
        }
    }
}

fn failure_of(status: StatusCode) -> Option<Failure> {
    match status.as_u16() {
        200..=299 => None,
        401 | 403 => Some(Failure::Unauthorized),
        429 => Some(Failure::RateLimited),
        400..=499 => Some(Failure::ClientError),
        500..=599 => Some(Failure::ServerError),
        _ => Some(Failure::UnexpectedStatus),
    }
}
