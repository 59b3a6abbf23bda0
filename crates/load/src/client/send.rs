//! The client: sends one request, reads its answer, and always returns a record.

mod aside;
mod exchange;

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
use super::transport::{Transport, bases};
use anyhow::anyhow;
use axum::Router;
use exchange::Exchange;
use futures_util::future::join_all;
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Failure, Finished, Outcome, Phase, Record};
use goodput_core::redact::{self, Redactor};
use goodput_plan::client::Retries;
use goodput_plan::server::{Connections, Http, Server};
use http::{HeaderMap, Method};
use reqwest::Url;
use std::{
    borrow::Cow,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

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
    fn single(payload: Payload, timeout: Duration) -> Self {
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
        self.send_with(self.0.retries, shot).await
    }

    /// Sends a request outside the load. It is sent once more if its connection closes before any answer, whatever the plan says of retries:
    /// it asks a question, and is no part of a measurement.
    pub async fn probe(&self, payload: Payload, timeout: Duration) -> Finished {
        self.send_with(Retries::One, Shot::single(payload, timeout)).await
    }

    async fn send_with(&self, retries: Retries, shot: Shot) -> Finished {
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
            tokio::select! { biased; end = exchange.run(&self.0, retries, payload) => end, end = stop => end }
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
