//! Plain HTTP/1.1 to a server without a proxy, over connections of our own: the way of most loads. It takes less of the client's time than the
//! HTTP library does, and knows when the bytes of an answer were read.

use super::stamped::{ReadTime, Stamped};
use super::{Call, Route};
use crate::client::broken::Broken;
use crate::client::dns::InTurn;
use crate::client::payload::Payload;
use crate::client::proxy::proxy_for;
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Conn, Failure};
use goodput_plan::server::{Connections, Http, Server};
use http::header::{ACCEPT, HOST, HeaderValue, USER_AGENT};
use http::{Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceExt};

/// Interval of the kernel's probes of a silent connection, and the time without an answer after which it is dead.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
/// Time for which sent bytes may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The connections to one URL.
pub(crate) struct Direct {
    place: Place,
    host: HeaderValue,
    connect_timeout: Duration,
    /// Idle connections; `None` if every request opens its own.
    idle: Option<Arc<IdleConnections>>,
}

enum Place {
    Tcp(HttpConnector<InTurn>, Uri),
    Unix(PathBuf),
}

/// An open connection.
struct Connection {
    requests: SendRequest<Payload>,
    read: ReadTime,
}

/// The head of an answer, its body yet to be read.
pub(super) struct Received {
    pub(super) response: Response<()>,
    pub(super) conn: Conn,
    pub(super) body: DirectBody,
}

/// A body that arrives. Its connection is idle once it has been read to its end, and is closed if it is dropped earlier.
pub(super) struct DirectBody {
    pub(super) incoming: Incoming,
    connection: Option<Connection>,
    idle: Option<Arc<IdleConnections>>,
    /// The time at which the connection was last read from.
    pub(super) read: ReadTime,
}

impl Direct {
    /// Makes the way to a URL without opening a connection; `None` if only the HTTP library can go it.
    pub(super) fn new(server: &Server, url: &BaseUrl, names: &InTurn) -> Option<Self> {
        let is_proxied = proxy_for(&server.proxy, url).is_some();
        if url.is_tls() || is_proxied || server.http == Http::Two {
            return None;
        }
        let root = url.join("/");
        let place = match url.socket() {
            Some(path) => Place::Unix(path.into()),
            None => Place::Tcp(connector(names), root.as_str().parse().ok()?),
        };
        let (host, port) = (root.host_str()?, root.port().map(|port| format!(":{port}")));
        let host = HeaderValue::try_from(format!("{host}{}", port.unwrap_or_default())).ok()?;
        let pools = server.connections != Connections::Cold;
        let idle = pools.then(|| Arc::new(IdleConnections::default()));
        Some(Self { place, host, connect_timeout: server.connect_timeout.0, idle })
    }

    /// Sends a request over an idle connection, if it may and there is one, or else over a new one, and waits for the head of the answer.
    pub(super) async fn send(&self, call: &Call<'_>, payload: Payload) -> Result<Received, Broken> {
        let mut request = self.request(call, payload);
        let idle = self.idle.as_ref().filter(|_| call.route == Route::Pooled);
        while let Some(mut connection) = idle.and_then(|idle| idle.take()) {
            match connection.requests.try_send_request(request).await {
                Ok(response) => return Ok(self.received(response, connection, Conn::Reused)),
                // The server closed the connection before anything was sent.
                Err(mut e) => match e.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Broken::unanswered(&e.into_error())),
                },
            }
        }
        let mut connection = self.connect().await?;
        match connection.requests.try_send_request(request).await {
            Ok(response) => Ok(self.received(response, connection, Conn::New)),
            Err(e) => Err(Broken::unanswered(&e.into_error())),
        }
    }

    fn request(&self, call: &Call<'_>, payload: Payload) -> http::Request<Payload> {
        let mut request = http::Request::new(payload);
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = match call.url.query() {
            None => call.url.path().parse(),
            Some(query) => format!("{}?{query}", call.url.path()).parse(),
        }
        .expect("the path of a URL is a URI");
        let headers = request.headers_mut();
        headers.clone_from(call.headers);
        headers.entry(HOST).or_insert_with(|| self.host.clone());
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(super::USER_AGENT));
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        request
    }

    fn received(&self, response: Response<Incoming>, connection: Connection, conn: Conn) -> Received {
        let (head, incoming) = response.into_parts();
        let read = connection.read.clone();
        let body = DirectBody { incoming, connection: Some(connection), idle: self.idle.clone(), read };
        Received { response: Response::from_parts(head, ()), conn, body }
    }

    async fn connect(&self) -> Result<Connection, Broken> {
        let opened = async {
            match &self.place {
                Place::Tcp(connector, uri) => {
                    let mut connector = connector.clone();
                    let ready = connector.ready().await.map_err(|e| Broken::connecting(&e))?;
                    let socket = ready.call(uri.clone()).await.map_err(|e| Broken::connecting(&e))?;
                    open(socket.into_inner()).await
                }
                Place::Unix(path) => {
                    let socket = UnixStream::connect(path).await.map_err(|e| Broken::connecting(&e))?;
                    open(socket).await
                }
            }
        };
        let late = |_| Err(Broken::new(Failure::Connect, "operation timed out"));
        timeout(self.connect_timeout, opened).await.unwrap_or_else(late)
    }
}

impl DirectBody {
    /// Gives the connection of a body that was read to its end back.
    pub(super) fn release(&mut self) {
        if let (Some(idle), Some(connection)) = (&self.idle, self.connection.take()) {
            idle.put(connection);
        }
    }
}

/// Returns the connector of TCP sockets, which tries the addresses of a name in turn.
fn connector(names: &InTurn) -> HttpConnector<InTurn> {
    let mut connector = HttpConnector::new_with_resolver(names.clone());
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    connector
}

/// Makes a connection of a socket. A task of the runtime drives it.
async fn open(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection, Broken> {
    let read = ReadTime::default();
    let socket = TokioIo::new(Stamped::new(socket, read.clone()));
    let (requests, driver) = http1::handshake(socket).await.map_err(|e| Broken::connecting(&e))?;
    // Its error is that of the request or of the body too.
    tokio::spawn(async move { drop(driver.await) });
    Ok(Connection { requests, read })
}

/// Idle connections, each with the time since which it is; the one that was used last is the last one.
#[derive(Default)]
struct IdleConnections(Mutex<VecDeque<(Instant, Connection)>>);

impl IdleConnections {
    /// Takes the connection that was used last, of those that can be sent on.
    fn take(&self) -> Option<Connection> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unready = Vec::new();
        let mut ready = None;
        while let Some((since, connection)) = all.pop_back() {
            if since.elapsed() >= super::IDLE {
                // The others are idle for even longer.
                all.clear();
            } else if connection.requests.is_ready() {
                ready = Some(connection);
                break;
            } else if !connection.requests.is_closed() {
                // Its last request has not been sent to the end: the answer came before.
                unready.push((since, connection));
            }
        }
        all.extend(unready.into_iter().rev());
        ready
    }

    /// Keeps a connection.
    fn put(&self, connection: Connection) {
        if connection.requests.is_closed() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while all.front().is_some_and(|(since, _)| since.elapsed() >= super::IDLE) {
            all.pop_front();
        }
        all.push_back((Instant::now(), connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::DuplexStream;
    use tokio::time::advance;

    /// Returns a connection that is ready to be sent on, and its far end.
    async fn connection() -> (Connection, DuplexStream) {
        let (near, far) = tokio::io::duplex(4096);
        let mut connection = open(near).await.unwrap();
        connection.requests.ready().await.unwrap();
        (connection, far)
    }

    fn opened(connection: &Connection) -> Instant {
        connection.read.opened()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_used_last_is_taken_first() {
        let idle = IdleConnections::default();
        let (mut far_ends, mut times) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (connection, far) = connection().await;
            times.push(opened(&connection));
            far_ends.push(far);
            idle.put(connection);
            advance(Duration::from_millis(10)).await;
        }
        assert_eq!(idle.take().map(|c| opened(&c)), Some(times[2]));
        // The far end of the next one closes.
        far_ends.remove(1);
        tokio::task::yield_now().await;
        assert_eq!(idle.take().map(|c| opened(&c)), Some(times[0]));
        assert!(idle.take().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_kept_until_its_server_closes_it() {
        let idle = IdleConnections::default();
        let (old, _far) = connection().await;
        idle.put(old);
        advance(super::super::IDLE - Duration::from_millis(1)).await;
        let (new, _far) = connection().await;
        let since = opened(&new);
        idle.put(new);
        assert_eq!(idle.0.lock().unwrap().len(), 2);
        advance(Duration::from_millis(1)).await;
        assert_eq!(idle.take().map(|c| opened(&c)), Some(since));
        assert!(idle.take().is_none(), "too old");
        assert!(idle.0.lock().unwrap().is_empty());
    }

    /// Rows: a table of the plan, and if its requests go over connections of our own.
    #[test]
    fn the_library_goes_where_it_is_needed() {
        for (table, is_direct) in [
            ("url = \"http://127.0.0.1:8000\"", true),
            ("url = \"http://127.0.0.1:8000\"\nhttp = \"1.1\"", true),
            ("url = \"http://gpu:8000/base\"\nproxy = \"none\"", true),
            ("url = \"unix:/run/vllm.sock\"", true),
            ("url = \"http://127.0.0.1:8000\"\nhttp = \"2\"", false),
            ("url = \"https://127.0.0.1:8000\"", false),
            ("url = \"http://127.0.0.1:8000\"\nproxy = \"http://proxy:3128\"", false),
        ] {
            let server: Server = toml::from_str(table).unwrap();
            let url = &server.target.urls()[0];
            assert_eq!(Direct::new(&server, url, &InTurn::default()).is_some(), is_direct, "{table}");
        }
    }
}
