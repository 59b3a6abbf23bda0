//! How bytes get to the server and back: a socket, or a router in this process.

use super::broken::Broken;
use super::config::{BaseUrl, Connections, Http, Server, Target};
use super::dns::InTurn;
use super::payload::Payload;
use crate::record::{Conn, Failure};
use anyhow::Context as _;
use axum::Router;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use reqwest::Url;
use std::{
    collections::HashSet,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, Once},
    task::{self, Poll},
    time::Duration,
};
use tower::{Layer, Service, ServiceExt};

/// Servers close idle connections after 5 s; closing first avoids sending into one that is being closed.
const IDLE: Duration = Duration::from_secs(4);

/// Both ends of a connection.
type Ends = (SocketAddr, SocketAddr);

/// Connections that were opened and have not answered a request yet.
#[derive(Clone, Default)]
pub(crate) struct Unused(Arc<Mutex<HashSet<Ends>>>);

impl Unused {
    fn opened(&self, ends: Ends) {
        self.0.lock().expect("no panic while held").insert(ends);
    }

    /// Whether this is the first answer on that connection.
    fn first_use(&self, ends: &Ends) -> bool {
        self.0.lock().expect("no panic while held").remove(ends)
    }
}

/// Where requests go.
pub(crate) enum Transport {
    /// A client for each URL; those of TCP are one and the same, with one pool.
    Http {
        clients: Vec<reqwest::Client>,
        unused: Unused,
        /// Whether every request opens its own connection.
        cold: bool,
    },
    /// A router in this process.
    Local(Router),
}

/// A response head, and a body to read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// `None` where it is not known.
    pub(crate) conn: Option<Conn>,
    /// What the content type announces.
    pub(crate) format: Format,
    /// Time to first token by the server's own clock.
    pub(crate) server_ttft: Option<Duration>,
    body: Body,
}

/// What a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Server-sent events.
    Events,
    /// One JSON document.
    Json,
    /// Something else, or nothing said.
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

/// The metric `ttft` of a field `Server-Timing: ttft;dur=12.5` (W3C Server Timing: in milliseconds).
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

enum Body {
    Http(reqwest::Response),
    Local(axum::body::Body),
}

impl Transport {
    /// Opens nothing yet.
    pub(crate) fn http(server: &Server, names: &InTurn) -> anyhow::Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // An error means that the program around us has chosen one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let unused = Unused::default();
        let mut over_tcp: Option<reqwest::Client> = None;
        let mut clients = Vec::new();
        for url in server.target.urls() {
            let client = match (url.socket(), &over_tcp) {
                (None, Some(client)) => client.clone(),
                (socket, _) => builder(server, socket, names, &unused)
                    .build()
                    .context("failed to set up the HTTP client")?,
            };
            if url.socket().is_none() {
                over_tcp.get_or_insert_with(|| client.clone());
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
                // A Unix socket has no ends to tell it by.
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
                    server_ttft: server_ttft(response.headers()),
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
                    server_ttft: server_ttft(&head.headers),
                    body: Body::Local(body),
                })
            }
        }
    }
}

fn builder(
    server: &Server,
    socket: Option<&Path>,
    names: &InTurn,
    unused: &Unused,
) -> reqwest::ClientBuilder {
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
    if server.target.urls().iter().all(BaseUrl::is_loopback) {
        builder = builder.no_proxy();
    }
    #[cfg(unix)]
    if let Some(path) = socket {
        builder = builder.unix_socket(path);
    }
    #[cfg(not(unix))]
    let _ = socket;
    builder
}

impl Answer {
    /// The next bytes of the body; `None` at its end.
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

    /// The whole body, up to `max` bytes.
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

/// The URLs of a target; a router in this process has one that is never resolved.
pub(crate) fn bases(target: &Target) -> Vec<BaseUrl> {
    match target {
        Target::Simulated(_) => vec!["http://simulated".parse().expect("a fixed URL")],
        _ => target.urls().to_vec(),
    }
}

/// Notes each connection as it is opened.
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
mod tests {
    use super::*;

    #[test]
    fn the_server_may_tell_its_own_ttft() {
        for (field, ms, why) in [
            ("ttft;dur=12.5", Some(12.5), "alone"),
            ("cache;desc=hit, ttft;desc=\"first\"; dur=3", Some(3.0), "among others"),
            ("total;dur=9", None, "another metric"),
            ("ttft", None, "no duration"),
            ("ttft;dur=-1", None, "no time"),
        ] {
            let headers = HeaderMap::from_iter([("server-timing".parse().unwrap(), field.parse().unwrap())]);
            assert_eq!(server_ttft(&headers).map(crate::units::ms), ms, "{why}");
        }
        assert_eq!(server_ttft(&HeaderMap::new()), None);
    }

    #[test]
    fn a_connection_is_new_once() {
        let unused = Unused::default();
        let ends = |port| (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([127, 0, 0, 1], 80)));
        assert!(!unused.first_use(&ends(1)), "never opened");
        unused.opened(ends(1));
        assert!(unused.first_use(&ends(1)) && !unused.first_use(&ends(1)));
        unused.opened(ends(1));
        assert!(unused.first_use(&ends(1)), "the system may give a port out again");
    }
}
