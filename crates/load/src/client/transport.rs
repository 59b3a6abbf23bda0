//! The transport of requests and answers: a socket, or a router in this process.

use super::broken::Broken;
use super::dns::InTurn;
use super::payload::Payload;
use super::proxy::apply;
use super::retry_after::retry_after;
use super::route::any_tls;
use super::tls::Loaded;
use anyhow::Context as _;
use axum::Router;
use bytes::Bytes;
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Conn, Failure};
use goodput_plan::server::{Connections, Http, Server, Target};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION},
};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use jiff::Timestamp;
use reqwest::Url;
use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, Once},
    task::{self, Poll},
    time::Duration,
};
use tower::{Layer, Service, ServiceExt};

/// Servers close idle connections after 5 s; closing first avoids sending into one that is being closed.
const IDLE: Duration = Duration::from_secs(4);

/// Local and remote address of a connection.
type Ends = (SocketAddr, SocketAddr);

/// Connections that have been opened but have not answered a request yet.
#[derive(Clone, Default)]
pub(crate) struct Unused(Arc<Mutex<HashSet<Ends>>>);

impl Unused {
    fn opened(&self, ends: Ends) {
        self.0.lock().expect("no panic while held").insert(ends);
    }

    /// Returns true if this is the first answer on the connection.
    fn first_use(&self, ends: &Ends) -> bool {
        self.0.lock().expect("no panic while held").remove(ends)
    }
}

/// The transport to the servers.
pub(crate) enum Transport {
    /// A client for each URL. TCP URLs on this machine share one client and its pool, and all other TCP URLs another.
    Http {
        clients: Vec<reqwest::Client>,
        unused: Unused,
        /// True if every request opens a new connection.
        cold: bool,
    },
    /// A router in this process.
    Local(Router),
}

/// A response head, with the body yet to be read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Use of the connection, new or reused; `None` if unknown.
    pub(crate) conn: Option<Conn>,
    /// Format announced by the content type.
    pub(crate) format: Format,
    /// Content encoding of the body, if any. None was requested, and none is decoded.
    pub(crate) encoding: Option<HeaderValue>,
    /// Time to first token according to the server.
    pub(crate) server_ttft: Option<Duration>,
    /// Time after which the server asks to retry.
    pub(crate) retry_after: Option<Duration>,
    /// Target of a redirect, as far as it is safe to show: scheme, host and port of another server, or a path on this
    /// one.
    pub(crate) location: Option<String>,
    body: Body,
}

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Server-sent events.
    Events,
    /// One JSON document.
    Json,
    /// Another format, or no content type.
    Other,
}

impl Format {
    fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(CONTENT_TYPE).map(|v| v.as_bytes()).unwrap_or_default();
        let is = |kind: &[u8]| value.get(..kind.len()).is_some_and(|v| v.eq_ignore_ascii_case(kind));
        if is(b"text/event-stream") {
            Self::Events
        } else if is(b"application/json") {
            Self::Json
        } else {
            Self::Other
        }
    }
}

/// Returns how long a server that refuses the load asks to wait. Only a refusal's `Retry-After` concerns the next
/// request.
fn asks_to_wait(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let refused = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    refused.then(|| retry_after(headers, Timestamp::now())).flatten()
}

/// Returns the encoding of a body that is not plain.
fn encoding(headers: &HeaderMap) -> Option<HeaderValue> {
    headers
        .get(CONTENT_ENCODING)
        .filter(|v| !v.is_empty() && !v.as_bytes().eq_ignore_ascii_case(b"identity"))
        .cloned()
}

/// Parses the metric `ttft` of a header `Server-Timing: ttft;dur=12.5` (W3C Server Timing, in milliseconds).
fn server_ttft(headers: &HeaderMap) -> Option<Duration> {
    let metrics = headers.get("server-timing")?.to_str().ok()?.split(',');
    let of = |metric: &str| {
        let mut parts = metric.split(';').map(str::trim);
        (parts.next() == Some("ttft")).then_some(())?;
        let ms = parts.find_map(|p| p.strip_prefix("dur="))?.trim_matches('"').parse::<f64>().ok()?;
        Duration::try_from_secs_f64(ms / 1e3).ok()
    };
    metrics.map(of).find_map(|found| found)
}

/// Returns the target of a redirect, to which nothing is sent: only the address of another server, or the path on this
/// one. The query is omitted because it may contain secrets.
fn location(status: StatusCode, headers: &HeaderMap, asked: &Url) -> Option<String> {
    if !status.is_redirection() {
        return None;
    }
    let to = asked.join(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    if to.origin() != asked.origin() {
        return to.host_str().map(|_| to.origin().ascii_serialization());
    }
    Some(to.path().to_owned())
}

enum Body {
    Http(reqwest::Response),
    Local(axum::body::Body),
}

impl Transport {
    /// Makes the transport without opening a connection.
    pub(crate) fn http(server: &Server, names: &InTurn, tls: &Loaded) -> anyhow::Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // An error means that the enclosing program has installed a provider already, which also works.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let unused = Unused::default();
        // URLs on this machine need a separate client, which bypasses the proxies of the environment.
        let mut over_tcp: HashMap<bool, reqwest::Client> = HashMap::new();
        let mut clients = Vec::new();
        for url in server.target.urls() {
            let here = url.is_loopback();
            let known = over_tcp.get(&here).filter(|_| url.socket().is_none());
            let client = match known {
                Some(client) => client.clone(),
                None => builder(server, url, names, &unused, tls)
                    .and_then(reqwest::ClientBuilder::build)
                    .context("failed to set up the HTTP client")?,
            };
            if url.socket().is_none() {
                over_tcp.insert(here, client.clone());
            }
            clients.push(client);
        }
        Ok(Self::Http { clients, unused, cold: server.connections == Connections::Cold })
    }

    /// Sends one request and waits for the response head.
    pub(crate) async fn send(
        &self,
        target: usize,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        payload: Payload,
    ) -> Result<Answer, Broken> {
        match self {
            Self::Http { clients, unused, cold } => {
                let mut request = reqwest::Request::new(method, url.clone());
                request.headers_mut().clone_from(headers);
                if !payload.is_empty() {
                    *request.body_mut() = Some(reqwest::Body::wrap(payload));
                }
                let response = clients[target].execute(request).await.map_err(|e| Broken::sending(&e))?;
                let info = response.extensions().get::<HttpInfo>();
                let ends = info.map(|i| (i.local_addr(), i.remote_addr()));
                // A Unix socket has no addresses that would identify the connection.
                let new = match ends {
                    _ if *cold => Some(Conn::New),
                    Some(ends) if unused.first_use(&ends) => Some(Conn::New),
                    Some(_) => Some(Conn::Reused),
                    None => None,
                };
                Ok(Answer {
                    status: response.status(),
                    conn: new,
                    format: Format::of(response.headers()),
                    encoding: encoding(response.headers()),
                    server_ttft: server_ttft(response.headers()),
                    retry_after: asks_to_wait(response.status(), response.headers()),
                    location: location(response.status(), response.headers(), url),
                    body: Body::Http(response),
                })
            }
            Self::Local(router) => {
                let mut request = http::Request::new(axum::body::Body::new(payload));
                *request.method_mut() = method;
                *request.uri_mut() = url.path().parse().expect("the path of a URL is a URI");
                request.headers_mut().clone_from(headers);
                let Ok(response) = router.clone().oneshot(request).await;
                let (head, body) = response.into_parts();
                Ok(Answer {
                    status: head.status,
                    conn: Some(Conn::Reused),
                    format: Format::of(&head.headers),
                    encoding: encoding(&head.headers),
                    server_ttft: server_ttft(&head.headers),
                    retry_after: asks_to_wait(head.status, &head.headers),
                    location: location(head.status, &head.headers, url),
                    body: Body::Local(body),
                })
            }
        }
    }
}

fn builder(
    server: &Server,
    url: &BaseUrl,
    names: &InTurn,
    unused: &Unused,
    tls: &Loaded,
) -> reqwest::Result<reqwest::ClientBuilder> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(server.connect_timeout.0)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(concat!("goodput/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(names.clone())
        .connector_layer(Watch(unused.clone()));
    builder = match server.http {
        Http::One => builder.http1_only(),
        Http::Two => builder.http2_prior_knowledge(),
        Http::Auto => builder,
    };
    if server.connections == Connections::Cold {
        builder = builder.pool_max_idle_per_host(0);
    }
    builder = trusting(builder, server, tls);
    if let Some(path) = url.socket() {
        builder = builder.unix_socket(path);
    }
    apply(&server.proxy, builder, url.is_loopback())
}

/// Sets the trusted certificates and the client's certificate.
fn trusting(builder: reqwest::ClientBuilder, server: &Server, tls: &Loaded) -> reqwest::ClientBuilder {
    if !any_tls(server) {
        // Plain HTTP must work on a machine without any root certificates, such as a bare container.
        return builder.tls_certs_only([]);
    }
    let builder = if server.tls.insecure {
        builder.tls_danger_accept_invalid_certs(true)
    } else {
        builder.tls_certs_merge(tls.roots.iter().cloned())
    };
    match &tls.identity {
        Some(identity) => builder.identity(identity.clone()),
        None => builder,
    }
}

impl Answer {
    /// Reads the next bytes of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        match &mut self.body {
            Body::Http(response) => response.chunk().await.map_err(|e| Broken::reading(&e)),
            Body::Local(body) => loop {
                match body.frame().await {
                    None => return Ok(None),
                    Some(Err(e)) => return Err(Broken::reading(&e)),
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            },
        }
    }

    /// Reads the whole body, up to `max` bytes.
    pub(crate) async fn body(mut self, max: usize) -> Result<Bytes, Broken> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > max {
                return Err(Broken::new(
                    Failure::Malformed,
                    format!("the answer is larger than {max} bytes"),
                ));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.into())
    }
}

/// Returns the URLs of a target. A router in this process has one that is never resolved.
pub(crate) fn bases(target: &Target) -> Vec<BaseUrl> {
    match target {
        Target::Simulated(_) => vec!["http://simulated".parse().expect("a fixed URL")],
        _ => target.urls().to_vec(),
    }
}

/// Connector layer that records each new connection.
#[derive(Clone)]
struct Watch(Unused);

#[derive(Clone)]
struct Watching<S> {
    inner: S,
    unused: Unused,
}

impl<S> Layer<S> for Watch {
    type Service = Watching<S>;
    fn layer(&self, inner: S) -> Watching<S> {
        Watching { inner, unused: self.0.clone() }
    }
}

impl<S, R> Service<R> for Watching<S>
where
    S: Service<R>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let unused = self.unused.clone();
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let conn = connecting.await?;
            let mut extras = http::Extensions::new();
            conn.connected().get_extras(&mut extras);
            if let Some(info) = extras.get::<HttpInfo>() {
                unused.opened((info.local_addr(), info.remote_addr()));
            }
            Ok(conn)
        })
    }
}

#[cfg(test)]
mod tests;
