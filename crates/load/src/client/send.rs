//! The client: sends one request, reads its answer, and always returns a record.

mod exchange;

use super::broken::Broken;
use super::consent::{self, Gate, NotAllowed};
use super::dns::InTurn;
use super::headers;
use super::key::ApiKey;
use super::payload::Payload;
use super::protocol::{self, Protocol};
use super::proxy;
use super::sample::sample;
use super::tally::End;
use super::tls;
use super::transport::{Call, Route, Transport, bases};
use anyhow::anyhow;
use axum::Router;
use bytes::Bytes;
use exchange::{Exchange, elsewhere};
use futures_util::future::join_all;
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Conn, Failure, Finished, Outcome, Phase, Record};
use goodput_core::redact::{self, Redactor};
use goodput_core::units::short;
use goodput_plan::client::Retries;
use goodput_plan::server::{Connections, Http, Server};
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::Url;
use std::{
    borrow::Cow,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum body size of a `GET` (list of models, page of metrics), in bytes.
const GET_MAX: usize = 16 << 20;
/// Time that a `GET` may take beyond the connect timeout.
const GET_TIMEOUT: Duration = Duration::from_secs(30);

/// One request to be sent now.
#[derive(Debug)]
pub struct Shot {
    /// The fields known before sending: id, phase, due time, class, tokens asked for. The client fills in the rest.
    pub record: Record,
    /// The request body.
    pub payload: Payload,
    /// Start of the step, from which all times of the record count.
    pub began: Instant,
    /// Time after `due` at which the request is aborted.
    pub timeout: Duration,
    /// If true, a request that times out has failed; otherwise it was cut off, which is no error.
    pub timeout_is_error: bool,
    /// Fires when the step is over; the request is then cut off.
    pub cut: CancellationToken,
    /// Gaps between tokens above this are counted in the record.
    pub itl_limit: Option<Duration>,
    /// If true, the text of the answer is returned.
    pub keep_text: bool,
}

impl Shot {
    /// Makes a request outside the load, which belongs to no step.
    pub fn single(payload: Payload, timeout: Duration) -> Self {
        Self {
            record: Record::due(0, Phase::Warmup, Duration::ZERO),
            payload,
            began: Instant::now(),
            timeout,
            timeout_is_error: true,
            cut: CancellationToken::new(),
            itl_limit: None,
            keep_text: false,
        }
    }
}

/// Client that sends requests to one server, or to several in turn. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Transport,
    /// The format of answers.
    protocol: Protocol,
    /// Method of requests.
    method: Method,
    /// True if answers are streams; false if each is one document.
    stream: bool,
    targets: Vec<Endpoints>,
    /// Headers of a `POST`; a `GET` omits the content type.
    headers: HeaderMap,
    key: Option<ApiKey>,
    /// Secrets to remove from everything that the server sends.
    secrets: Redactor,
    connect_timeout: Duration,
    http: Http,
    connections: Connections,
    retries: Retries,
    /// Decides to which addresses it connects.
    gate: Gate,
    /// Index of the next URL.
    turn: AtomicU64,
}

/// A request beside the load.
struct Aside<'a> {
    method: Method,
    /// Index of the URL.
    target: usize,
    path: &'a str,
    /// The body, if it has one.
    json: Option<&'a serde_json::Value>,
    /// Limit on the total time.
    limit: Duration,
    /// Maximum size of the answer in bytes.
    most: usize,
}

impl<'a> Aside<'a> {
    const fn get(target: usize, path: &'a str, limit: Duration, most: usize) -> Self {
        Self { method: Method::GET, target, path, json: None, limit, most }
    }
}

struct Endpoints {
    base: BaseUrl,
    generate: Url,
    /// The proxy in front of the server, if any.
    proxy: Option<String>,
}

/// The settings of one client of several.
#[derive(Default)]
struct Sending {
    /// Index of the URL to begin with.
    first: u64,
    retries: Retries,
    gate: Gate,
}

impl Client {
    /// Makes a client that connects to the URLs of `server` over sockets, for single requests: it connects to public addresses, and
    /// sends no request again.
    ///
    /// # Errors
    /// The plan names the simulated server, a file of its `tls` cannot be used, TLS cannot be set up (the system has no
    /// certificates), or the proxy does not speak HTTP.
    pub fn http(server: &Server, key: Option<ApiKey>) -> anyhow::Result<Self> {
        let mut one = Self::several(server, key, 1, Retries::None, Gate::default())?;
        one.pop().ok_or_else(|| anyhow!("there is no client"))
    }

    /// Makes `n` clients that send load, with separate connections, one for each thread. Each begins with a different URL, and they
    /// share the resolved addresses of each host name, so that all addresses are used in turn however many clients
    /// there are. They connect to no public address that nobody has [allowed](super::consent).
    ///
    /// # Errors
    /// As [`Client::http`], or a URL is a public address that nobody has allowed.
    pub fn for_load(
        server: &Server,
        key: Option<ApiKey>,
        n: usize,
        retries: Retries,
    ) -> anyhow::Result<Vec<Self>> {
        let urls = server.target.urls();
        let proxies: Vec<String> =
            urls.iter().filter_map(|url| Some(proxy::proxy_for(&server.proxy, url)?.url)).collect();
        let gate = Gate::of_load(proxies.iter().map(String::as_str));
        // An address is not looked up, so the resolver does not see it.
        for host in urls.iter().filter_map(consent::host) {
            if let Ok(address) = host.parse() {
                gate.check(&host, [address])?;
            }
        }
        Self::several(server, key, n, retries, gate)
    }

    fn several(
        server: &Server,
        key: Option<ApiKey>,
        n: usize,
        retries: Retries,
        gate: Gate,
    ) -> anyhow::Result<Vec<Self>> {
        if server.target.urls().is_empty() {
            return Err(anyhow!("the simulated server of this plan has no URL: it is called in process"));
        }
        proxy::keep_credentials_out();
        if let Some(problem) = server.target.urls().iter().find_map(|url| proxy::problem(&server.proxy, url))
        {
            return Err(anyhow!(problem));
        }
        let (names, tls) = (InTurn::behind(gate.clone()), tls::load(&server.tls)?);
        let one = |i: usize| {
            let transport = Transport::http(server, &names, &tls, retries)?;
            Ok(Self::new(
                transport,
                server,
                key.clone(),
                Sending { first: i as u64, retries, gate: gate.clone() },
            ))
        };
        (0..n).map(one).collect()
    }

    /// Makes a client that calls a router in this process. It uses no socket, so tokio's paused clock works.
    pub fn in_process(router: Router, server: &Server) -> Self {
        Self::new(Transport::Local(router), server, None, Sending::default())
    }

    fn new(transport: Transport, server: &Server, key: Option<ApiKey>, sending: Sending) -> Self {
        let Sending { first, retries, gate } = sending;
        let turn = AtomicU64::new(first);
        let targets = bases(&server.target)
            .into_iter()
            .map(|base| Endpoints {
                generate: base.join(server.path()),
                proxy: proxy::proxy_for(&server.proxy, &base).map(|proxy| proxy.url),
                base,
            })
            .collect();
        let headers = headers::of_requests(server, key.as_ref());
        let connect_timeout = server.connect_timeout.0;
        let (http, connections) = (server.http, server.connections);
        Self(Arc::new(Inner {
            transport,
            protocol: Protocol::of(server),
            method: protocol::method(server),
            stream: server.streams(),
            targets,
            headers,
            key,
            secrets: redact::registered(),
            connect_timeout,
            http,
            connections,
            retries,
            gate,
            turn,
        }))
    }

    /// Returns the base URLs of the servers, without path.
    pub fn urls(&self) -> impl ExactSizeIterator<Item = &BaseUrl> {
        self.0.targets.iter().map(|t| &t.base)
    }

    /// Returns the first public address that this client, or one made with it, did not connect to.
    pub fn refused(&self) -> Option<&NotAllowed> {
        self.0.gate.refused()
    }

    /// Returns the API key in use.
    pub fn key(&self) -> Option<&ApiKey> {
        self.0.key.as_ref()
    }

    /// Returns the beginning of a body as a failed request's sample shows it: without secrets or control characters.
    pub fn sample(&self, body: &[u8]) -> Box<str> {
        sample(body, true, &self.0.secrets)
    }

    /// Removes secrets from a text of the server.
    pub fn redacted<'a>(&self, said: &'a str) -> Cow<'a, str> {
        self.0.secrets.redact(said)
    }

    /// Returns the proxy for requests to the `target`-th URL.
    pub(crate) fn proxy(&self, target: usize) -> Option<&str> {
        self.0.targets.get(target)?.proxy.as_deref()
    }

    /// Sends one request and reads the answer until it ends, the request times out, or `cut` fires.
    pub async fn send(&self, shot: Shot) -> Finished {
        let Shot { record, payload, began, timeout, timeout_is_error, cut, itl_limit, keep_text } = shot;
        // If the deadline is beyond the range of the clock, there is none.
        let deadline = began.checked_add(record.due).and_then(|due| due.checked_add(timeout));
        let mut exchange = Exchange::new(&self.0, record, began, itl_limit, keep_text);
        let sent = payload.clone();
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
        let mut finished = exchange.finish(end, &sent, &self.0.secrets);
        if end == End::Timeout && !timeout_is_error && finished.record.failure == Some(Failure::Timeout) {
            finished.record.outcome = Outcome::Cut;
        }
        finished
    }

    /// Opens up to `n` connections with as many parallel requests for the list of models, spread over the URLs in turn.
    /// Does nothing if the plan wants cold connections. Answers and errors are ignored; each request has the connect
    /// timeout.
    pub async fn warm(&self, n: usize) {
        if self.0.connections == Connections::Cold {
            return;
        }
        let targets = self.0.targets.len();
        let one = |i: usize| timeout(self.0.connect_timeout, self.fetch(i % targets, "/v1/models"));
        join_all((0..n).map(one)).await;
    }

    /// Fetches a page (`/v1/models`, `/metrics`) of the first URL. Returns its status and body.
    ///
    /// # Errors
    /// No complete answer of at most 16 MiB arrives within the connect timeout plus 30 s.
    pub async fn get(&self, path: &str) -> anyhow::Result<(u16, Bytes)> {
        self.get_from(0, path).await
    }

    /// Fetches a page of the `target`-th URL, like [`Client::get`]. Returns its status and body.
    ///
    /// # Errors
    /// As [`Client::get`], or there is no such URL.
    pub async fn get_from(&self, target: usize, path: &str) -> anyhow::Result<(u16, Bytes)> {
        let base = self.urls().nth(target).ok_or_else(|| anyhow!("there is no server number {target}"))?;
        self.fetch(target, path).await.map_err(|e| anyhow!("GET {base}{path} failed: {}", e.text))
    }

    /// Sends a `POST` without a body to the `target`-th URL, to trigger an action that may take `time`. Returns its status.
    ///
    /// # Errors
    /// As [`Client::get_from`], with `time` in place of 30 s.
    pub async fn post(&self, target: usize, path: &str, time: Duration) -> anyhow::Result<u16> {
        self.posted(target, path, None, time).await.map(|(status, _)| status)
    }

    /// Sends a `POST` with a document, like [`Client::post`]. Returns its status and body.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn post_json(
        &self,
        target: usize,
        path: &str,
        json: &serde_json::Value,
        time: Duration,
    ) -> anyhow::Result<(u16, Bytes)> {
        self.posted(target, path, Some(json), time).await
    }

    async fn posted(
        &self,
        target: usize,
        path: &str,
        json: Option<&serde_json::Value>,
        time: Duration,
    ) -> anyhow::Result<(u16, Bytes)> {
        let base = self.urls().nth(target).ok_or_else(|| anyhow!("there is no server number {target}"))?;
        let limit = self.0.connect_timeout + time;
        let aside = Aside { method: Method::POST, target, path, json, limit, most: GET_MAX };
        let (status, body, _) =
            self.answered(aside).await.map_err(|e| anyhow!("POST {base}{path} failed: {}", e.text))?;
        Ok((status, body))
    }

    /// Fetches a page of the `target`-th URL, with a limit on the total time and a maximum size in bytes (`most`).
    ///
    /// # Errors
    /// No complete answer arrives in time, it is too large, or its status is not 2xx. The error is the cause as text.
    pub async fn page(
        &self,
        target: usize,
        path: &str,
        limit: Duration,
        most: usize,
    ) -> Result<Bytes, String> {
        match self.answered(Aside::get(target, path, limit, most)).await {
            Ok((200..=299, body, _)) => Ok(body),
            Ok((status, ..)) => Err(format!("HTTP {status}")),
            Err(e) => Err(e.text),
        }
    }

    pub(crate) async fn fetch(&self, target: usize, path: &str) -> Result<(u16, Bytes), Broken> {
        let get = Aside::get(target, path, self.0.connect_timeout + GET_TIMEOUT, GET_MAX);
        self.answered(get).await.map(|(status, body, _)| (status, body))
    }

    /// Fetches the list of models from the `target`-th URL and returns the state of the connection that it came over; `None` if it did not
    /// come or the connection has no address.
    pub async fn connection(&self, target: usize) -> Option<Conn> {
        let limit = self.0.connect_timeout + GET_TIMEOUT;
        self.answered(Aside::get(target, "/v1/models", limit, GET_MAX)).await.ok()?.2
    }

    /// Returns the status and the body of an answer, and the state of its connection.
    async fn answered(&self, aside: Aside<'_>) -> Result<(u16, Bytes, Option<Conn>), Broken> {
        let Aside { method, target, path, json, limit, most } = aside;
        let inner = &*self.0;
        let url = inner.targets[target].base.join(path);
        let mut headers = inner.headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let mut payload = Payload::default();
        if let Some(json) = json {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            payload.tail = json.to_string().into();
        }
        let get = async {
            let call = Call { target, route: Route::Pooled, method, url: &url, headers: &headers };
            let answer = inner.transport.send(call, payload).await?;
            let status = answer.status.as_u16();
            // The body of a redirect says less than its target.
            if let Some(to) = &answer.location {
                return Ok((status, Bytes::from(elsewhere(to)), answer.conn));
            }
            let conn = answer.conn;
            Ok((status, answer.body(most).await?, conn))
        };
        let unsaid = |e: Broken| Broken { text: inner.secrets.redact(&e.text).into_owned(), ..e };
        let late =
            || Broken::new(Failure::Timeout, format!("no answer within {} s", short(limit.as_secs_f64())));
        timeout(limit, get).await.unwrap_or_else(|_| Err(late())).map_err(unsaid)
    }

    /// Returns the format of requests and answers.
    pub(super) fn protocol(&self) -> &Protocol {
        &self.0.protocol
    }

    /// Returns true if answers are streams; false if each is one document.
    pub(crate) fn streams(&self) -> bool {
        self.0.stream
    }

    /// Returns the HTTP version in use.
    pub(crate) fn http_version(&self) -> Http {
        self.0.http
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_plan::server::Target;

    /// An address in a URL is not looked up, so it is checked when the client is made.
    #[test]
    fn load_on_a_public_address_needs_consent_and_a_single_request_does_not() {
        for (url, public) in [
            ("http://203.0.113.20:8000", true),
            ("http://[2001:4860:4860::8888]:8000", true),
            ("http://10.0.0.1:8000", false),
            ("http://127.0.0.1:8000", false),
            ("http://gpu.lan:8000", false), // checked when it is looked up
        ] {
            let server = Server::new(Target::Url(url.parse().unwrap()));
            let refused = Client::for_load(&server, None, 1, Retries::None).err().map(|e| e.to_string());
            assert_eq!(refused.is_some(), public, "{url}: {refused:?}");
            assert!(refused.is_none_or(|said| said.contains("--yes")), "{url}");
            assert!(Client::http(&server, None).is_ok(), "{url}");
        }
        let server = Server::new(Target::Url("http://203.0.113.21".parse().unwrap()));
        consent::allow(&"http://203.0.113.21:9".parse().unwrap());
        assert!(Client::for_load(&server, None, 1, Retries::None).is_ok(), "somebody allowed it");
    }
}
