//! The transport of requests and answers: a socket, or a router in this process.

mod build;
mod connections;
mod direct;
mod idle;
mod stamped;

use super::broken::Broken;
use super::dns::InTurn;
use super::payload::Payload;
use super::retry_after::retry_after;
use super::tls::Loaded;
use axum::Router;
use build::Pool;
use bytes::Bytes;
use connections::Unused;
use direct::{Direct, DirectBody};
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Conn, Failure};
use goodput_plan::client::Retries;
use goodput_plan::server::{Connections, Server, Target};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Version,
    header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, LOCATION},
    response::Parts,
};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::HttpInfo;
use jiff::Timestamp;
use reqwest::Url;
use std::time::Duration;
use tokio::time::Instant;
use tower::ServiceExt;

/// Servers close idle connections after 5 s; closing first avoids sending into one that is being closed.
const IDLE: Duration = Duration::from_secs(4);

const USER_AGENT: &str = concat!("goodput/", env!("CARGO_PKG_VERSION"));

/// The transport to the servers.
pub(crate) enum Transport {
    /// A transport for each URL.
    Http(Vec<UrlTransport>),
    /// A router in this process.
    Local(Router),
}

/// The transport to one URL.
pub(crate) enum UrlTransport {
    /// Over connections of our own.
    Direct(Box<Direct>),
    /// Over the HTTP library: TLS, HTTP/2, proxies.
    Library(Library),
}

/// The HTTP library's clients of one URL. TCP URLs on this machine share one client and its pool, and all other TCP URLs another.
pub(crate) struct Library {
    client: reqwest::Client,
    /// A client without a pool, but otherwise like this one, for retries; `None` if there are none, or if no client has a pool.
    fresh: Option<reqwest::Client>,
    unused: Unused,
    /// True if every request opens a new connection.
    cold: bool,
}

/// A response head, with the body yet to be read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    version: Version,
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

/// One request to send, without its body.
pub(crate) struct Call<'a> {
    /// Index of the URL.
    pub(crate) target: usize,
    pub(crate) route: Route,
    pub(crate) method: Method,
    pub(crate) url: &'a Url,
    pub(crate) headers: &'a HeaderMap,
}

/// The connection that a request is sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// An idle connection, if there is one.
    Pooled,
    /// A new connection, where retries are set up.
    Fresh,
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

/// Returns true for a 408 that ends its connection. On a connection that was used before, it is how some servers close an idle one: it was
/// under way when the request was sent, and does not answer it (RFC 9110, section 15.5.9).
fn is_idle_timeout(head: &Parts, conn: Option<Conn>) -> bool {
    let closes = |value: &HeaderValue| {
        value.to_str().is_ok_and(|v| v.split(',').any(|token| token.trim().eq_ignore_ascii_case("close")))
    };
    head.status == StatusCode::REQUEST_TIMEOUT
        && conn == Some(Conn::Reused)
        && (head.version < Version::HTTP_11 || head.headers.get_all(CONNECTION).iter().any(closes))
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
    Direct(DirectBody),
    Library(reqwest::Body),
    Local(axum::body::Body),
}

impl Library {
    async fn send(
        &self,
        call: &Call<'_>,
        payload: Payload,
    ) -> Result<(Option<Conn>, http::Response<reqwest::Body>), Broken> {
        let mut request = reqwest::Request::new(call.method.clone(), call.url.clone());
        request.headers_mut().clone_from(call.headers);
        if !payload.is_empty() {
            *request.body_mut() = Some(reqwest::Body::wrap(payload));
        }
        let fresh = self.fresh.as_ref().filter(|_| call.route == Route::Fresh);
        let client = fresh.unwrap_or(&self.client);
        let response = client.execute(request).await.map_err(|e| Broken::sending(&e))?;
        let info = response.extensions().get::<HttpInfo>();
        let ends = info.map(|i| (i.local_addr(), i.remote_addr()));
        let conn = match ends {
            _ if self.cold || fresh.is_some() => Some(Conn::New),
            Some(ends) if self.unused.first_use(&ends) => Some(Conn::New),
            Some(_) => Some(Conn::Reused),
            None => None,
        };
        Ok((conn, response.into()))
    }
}

impl Transport {
    /// Makes the transport without opening a connection.
    pub(crate) fn http(
        server: &Server,
        names: &InTurn,
        tls: &Loaded,
        retries: Retries,
    ) -> anyhow::Result<Self> {
        let urls = server.target.urls();
        let directs: Vec<_> = urls.iter().map(|url| Direct::new(server, url, names)).collect();
        let others: Vec<_> =
            urls.iter().zip(&directs).filter(|(_, direct)| direct.is_none()).map(|(url, _)| url).collect();
        let mut libraries = libraries(server, &others, names, tls, retries)?.into_iter();
        let transport = |direct: Option<Direct>| match direct {
            Some(direct) => Some(UrlTransport::Direct(Box::new(direct))),
            None => libraries.next().map(UrlTransport::Library),
        };
        Ok(Self::Http(directs.into_iter().filter_map(transport).collect()))
    }

    /// Sends one request and waits for the response head.
    pub(crate) async fn send(&self, call: Call<'_>, payload: Payload) -> Result<Answer, Broken> {
        let (conn, response) = match self {
            Self::Http(urls) => match &urls[call.target] {
                UrlTransport::Direct(direct) => {
                    let (conn, response) = direct.send(&call, payload).await?;
                    (Some(conn), response.map(Body::Direct))
                }
                UrlTransport::Library(library) => {
                    let (conn, response) = library.send(&call, payload).await?;
                    (conn, response.map(Body::Library))
                }
            },
            Self::Local(router) => {
                let mut request = http::Request::new(axum::body::Body::new(payload));
                *request.method_mut() = call.method.clone();
                *request.uri_mut() = call.url.path().parse().expect("the path of a URL is a URI");
                request.headers_mut().clone_from(call.headers);
                let Ok(response) = router.clone().oneshot(request).await;
                (Some(Conn::Reused), response.map(Body::Local))
            }
        };
        Answer::new(conn, response, call.url)
    }
}

/// Makes the clients of the HTTP library for some URLs.
fn libraries(
    server: &Server,
    urls: &[&BaseUrl],
    names: &InTurn,
    tls: &Loaded,
    retries: Retries,
) -> anyhow::Result<Vec<Library>> {
    let unused = Unused::default();
    let cold = server.connections == Connections::Cold;
    let pool = if cold { Pool::Off } else { Pool::Watched(unused.clone()) };
    let clients = build::clients(server, urls, names, tls, &pool)?;
    // Built before any load: it reads the certificates of the system.
    let fresh = match retries {
        Retries::One if !cold => {
            let fresh = build::clients(server, urls, names, tls, &Pool::Off)?;
            fresh.into_iter().map(Some).collect()
        }
        Retries::One | Retries::None => vec![None; clients.len()],
    };
    let library = |(client, fresh)| Library { client, fresh, unused: unused.clone(), cold };
    Ok(clients.into_iter().zip(fresh).map(library).collect())
}

impl Answer {
    /// Makes an answer of a response, however it came.
    ///
    /// # Errors
    /// It is the 408 of an idle connection, which answers no request.
    fn new(conn: Option<Conn>, response: http::Response<Body>, url: &Url) -> Result<Self, Broken> {
        let (head, body) = response.into_parts();
        let is_local = matches!(body, Body::Local(_));
        if !is_local && is_idle_timeout(&head, conn) {
            return Err(Broken::closed_idle());
        }
        Ok(Self {
            status: head.status,
            version: head.version,
            conn,
            format: Format::of(&head.headers),
            encoding: encoding(&head.headers),
            server_ttft: server_ttft(&head.headers),
            retry_after: asks_to_wait(head.status, &head.headers),
            location: location(head.status, &head.headers, url),
            body,
        })
    }

    /// Returns the time at which the socket was last read from, if it is known: no earlier than the last piece of the answer that was returned.
    pub(crate) fn last_read(&self) -> Option<Instant> {
        match &self.body {
            Body::Direct(body) => body.last_read.get(),
            Body::Library(_) | Body::Local(_) => None,
        }
    }

    /// Returns true if its request may have waited in the client, on a connection that was open, for one of the streams that the server allows at
    /// once.
    pub(crate) fn may_have_waited(&self) -> bool {
        self.version == Version::HTTP_2 && self.conn == Some(Conn::Reused)
    }

    /// Reads the next bytes of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        match &mut self.body {
            Body::Library(body) => data(body).await,
            Body::Local(body) => data(body).await,
            Body::Direct(body) => {
                let next = data(&mut body.incoming).await?;
                if next.is_none() {
                    body.release();
                }
                Ok(next)
            }
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

/// Returns the next bytes of a body; `None` at its end.
async fn data<B>(body: &mut B) -> Result<Option<Bytes>, Broken>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Broken::reading(&e))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Returns the URLs of a target. A router in this process has one that is never resolved.
pub(crate) fn bases(target: &Target) -> Vec<BaseUrl> {
    match target {
        Target::Simulated(_) => vec!["http://simulated".parse().expect("a fixed URL")],
        _ => target.urls().to_vec(),
    }
}

#[cfg(test)]
mod tests;
