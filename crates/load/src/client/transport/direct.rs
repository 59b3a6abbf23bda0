//! Plain HTTP/1.1 to a server without a proxy, as in most loads, over connections of our own. It takes less of the client's time than the HTTP
//! library does, and knows when the bytes of an answer were read.

use super::idle::IdleConnections;
use super::stamped::{LastRead, Stamped};
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
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tower::{Service, ServiceExt};

/// Interval of the kernel's probes of a silent connection.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Number of probes without an answer after which a connection is dead.
const KEEPALIVE_RETRIES: u32 = 3;
/// Time for which sent bytes may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The connections to one URL.
pub(crate) struct Direct {
    address: Address,
    host: HeaderValue,
    connect_timeout: Duration,
    /// Idle connections; `None` if every request opens its own.
    idle: Option<Arc<IdleConnections>>,
}

#[derive(Clone)]
enum Address {
    Tcp(HttpConnector<InTurn>, Uri),
    Unix(PathBuf),
}

/// An open connection.
pub(super) struct Connection {
    pub(super) requests: SendRequest<Payload>,
    pub(super) last_read: LastRead,
    /// Use of the connection by its next request.
    next_use: Conn,
}

/// A body that arrives. Its connection is idle once it has been read to its end, and is closed if it is dropped earlier.
pub(super) struct DirectBody {
    pub(super) incoming: Incoming,
    pub(super) last_read: LastRead,
    connection: Option<Connection>,
    idle: Option<Arc<IdleConnections>>,
}

impl Direct {
    /// Makes the connections to a URL without opening one; `None` for TLS, HTTP/2 and proxies, which need the HTTP library.
    pub(super) fn new(server: &Server, url: &BaseUrl, names: &InTurn) -> Option<Self> {
        let is_proxied = proxy_for(&server.proxy, url).is_some();
        if url.is_tls() || is_proxied || server.http == Http::Two {
            return None;
        }
        let root = url.join("/");
        let address = match url.socket() {
            Some(path) => Address::Unix(path.into()),
            None => Address::Tcp(connector(names), root.as_str().parse().ok()?),
        };
        let (host, port) = (root.host_str()?, root.port().map(|port| format!(":{port}")));
        let host = HeaderValue::try_from(format!("{host}{}", port.unwrap_or_default())).ok()?;
        let keeps_idle = server.connections != Connections::Cold;
        let idle = keeps_idle.then(|| Arc::new(IdleConnections::default()));
        Some(Self { address, host, connect_timeout: server.connect_timeout.0, idle })
    }

    /// Sends a request over an idle connection, if it may and there is one, or else over a new one, and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        call: &Call<'_>,
        payload: Payload,
    ) -> Result<(Conn, Response<DirectBody>), Broken> {
        let mut request = self.request(call, payload);
        loop {
            let mut connection = match self.idle.as_ref().filter(|_| call.route == Route::Pooled) {
                Some(idle) => self.idle_or_new(idle).await?,
                None => connect(self.address.clone(), self.connect_timeout).await?,
            };
            match connection.requests.try_send_request(request).await {
                Ok(response) => return Ok(self.received(response, connection)),
                Err(mut e) => match e.take_message() {
                    // The server closed the connection while it was idle, and nothing was sent.
                    Some(unsent) if connection.next_use == Conn::Reused => request = unsent,
                    Some(_) | None => return Err(Broken::unanswered(&e.into_error())),
                },
            }
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

    fn received(
        &self,
        response: Response<Incoming>,
        mut connection: Connection,
    ) -> (Conn, Response<DirectBody>) {
        let (conn, last_read) = (connection.next_use, connection.last_read.clone());
        connection.next_use = Conn::Reused;
        let (idle, connection) = (self.idle.clone(), Some(connection));
        (conn, response.map(|incoming| DirectBody { incoming, last_read, connection, idle }))
    }

    /// Returns an idle connection, or a new one if none becomes idle while it is opened. A connection that is no longer needed once it is open
    /// is idle then.
    async fn idle_or_new(&self, idle: &Arc<IdleConnections>) -> Result<Connection, Broken> {
        if let Some(connection) = idle.take() {
            return Ok(connection);
        }
        let mut opened = Box::pin(connect(self.address.clone(), self.connect_timeout));
        loop {
            tokio::select! {
                biased;
                () = idle.freed() => {}
                opened = &mut opened => return opened,
            }
            if let Some(connection) = idle.take() {
                let idle = idle.clone();
                tokio::spawn(async move {
                    if let Ok(opened) = opened.await {
                        idle.put(opened);
                    }
                });
                return Ok(connection);
            }
        }
    }
}

impl DirectBody {
    /// Keeps the connection of a body that was read to its end.
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

/// Opens a connection.
async fn connect(address: Address, limit: Duration) -> Result<Connection, Broken> {
    let connected = async {
        match address {
            Address::Tcp(mut connector, uri) => {
                let ready = connector.ready().await.map_err(|e| Broken::connecting(&e))?;
                let socket = ready.call(uri).await.map_err(|e| Broken::connecting(&e))?;
                open(socket.into_inner()).await
            }
            Address::Unix(path) => {
                let socket = UnixStream::connect(path).await.map_err(|e| Broken::connecting(&e))?;
                open(socket).await
            }
        }
    };
    let timed_out = |_| Err(Broken::new(Failure::Connect, "operation timed out"));
    timeout(limit, connected).await.unwrap_or_else(timed_out)
}

/// Makes a connection of a socket. A task of the runtime drives it.
pub(super) async fn open(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connection, Broken> {
    let last_read = LastRead::default();
    let socket = TokioIo::new(Stamped::new(socket, last_read.clone()));
    let (requests, driver) = http1::handshake(socket).await.map_err(|e| Broken::connecting(&e))?;
    // The request or the body reports the same error.
    tokio::spawn(async move { drop(driver.await) });
    Ok(Connection { requests, last_read, next_use: Conn::New })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: a table of the plan, and if its requests go over connections of our own.
    #[test]
    fn tls_http_2_and_proxies_are_left_to_the_library() {
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

    /// A connection that becomes idle is used, and the one that was being opened is the next idle one, and new.
    #[tokio::test]
    async fn a_connection_that_becomes_idle_is_not_left_for_one_that_is_being_opened() {
        let server: Server = toml::from_str("url = \"http://127.0.0.1:1\"").unwrap();
        let direct = Direct::new(&server, &server.target.urls()[0], &InTurn::default()).unwrap();
        let idle = direct.idle.clone().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let direct = Direct { address: Address::Tcp(connector(&InTurn::default()), uri), ..direct };
        let (near, _far) = tokio::io::duplex(4096);
        let mut freed = open(near).await.unwrap();
        freed.requests.ready().await.unwrap();
        freed.next_use = Conn::Reused;
        let (connection, ()) = tokio::join!(biased; direct.idle_or_new(&idle), async { idle.put(freed) });
        assert_eq!(connection.map(|c| c.next_use).ok(), Some(Conn::Reused));
        let (_accepted, _) = listener.accept().await.unwrap();
        while idle.len() == 0 {
            tokio::task::yield_now().await;
        }
        let next = direct.idle_or_new(&idle).await;
        assert_eq!(next.map(|c| c.next_use).ok(), Some(Conn::New));
    }
}
