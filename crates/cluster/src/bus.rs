//! The bus between a leader and its workers: NATS, by requests and replies and its services framework. Everything that
//! knows of NATS is in this file.

use super::message::{WorkerId, WorkerInfo};
use super::step::Failure;
use anyhow::{Context, Result, bail, ensure};
use async_nats::service::{ServiceExt, endpoint};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, RequestErrorKind, ServerAddr};
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Name of the service that workers offer.
const SERVICE: &str = "goodput-worker";
/// Key under which a worker tells about itself.
const ABOUT: &str = "worker";
/// Time without a further answer after which all workers have answered.
pub const QUIET: Duration = Duration::from_millis(300);
/// Time that a connection to the broker may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time between two attempts to connect again.
const RECONNECT: Duration = Duration::from_millis(250);

/// User for leaders and workers.
const USER: &str = "GOODPUT_BUS_USER";
/// Password of that user.
const PASSWORD: &str = "GOODPUT_BUS_PASSWORD";
/// Path of a NATS credentials file, instead of user and password.
const CREDENTIALS: &str = "GOODPUT_BUS_CREDS";

/// Where the bus is, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusAddress {
    /// URL of the broker: `tls://HOST:4222`, or `nats://127.0.0.1:4222`.
    pub url: String,
    /// File with the certificate of the authority to trust, besides those of the system.
    pub ca: Option<PathBuf>,
    /// Allows a bus without TLS on another machine.
    pub insecure: bool,
}

/// Means of showing who one is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// The broker asks for none.
    None,
    /// User and password.
    Password(String, String),
    /// A NATS credentials file.
    File(PathBuf),
}

impl std::fmt::Debug for Credentials {
    /// Omits the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password(user, _) => write!(f, "Password({user})"),
            Self::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

impl Credentials {
    /// Reads them from the environment: `GOODPUT_BUS_CREDS`, or `GOODPUT_BUS_USER` and `GOODPUT_BUS_PASSWORD`.
    ///
    /// # Errors
    /// Only one of user and password is set, or both ways are.
    pub fn from_environment() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (variable(CREDENTIALS), variable(USER), variable(PASSWORD)) {
            (None, None, None) => Ok(Self::None),
            (Some(path), None, None) => Ok(Self::File(path.into())),
            (None, Some(user), Some(password)) => Ok(Self::Password(user, password)),
            (None, _, _) => {
                bail!("{USER} and {PASSWORD} belong together: set both, or {CREDENTIALS} instead")
            }
            (Some(_), _, _) => bail!("set {CREDENTIALS}, or {USER} and {PASSWORD}, not both"),
        }
    }

    /// Returns the variables that give them to another process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::None => Vec::new(),
            Self::Password(user, password) => vec![(USER, user.clone()), (PASSWORD, password.clone())],
            Self::File(path) => vec![(CREDENTIALS, path.display().to_string())],
        }
    }
}

/// A connection to the bus. Cheap to clone. It comes back by itself after the broker was away.
#[derive(Debug, Clone)]
pub struct Bus {
    client: Client,
    connection: watch::Receiver<Connection>,
}

/// The state of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connection {
    /// True while the broker is there.
    pub is_up: bool,
    /// True once the broker has been there.
    was_up: bool,
    /// When it came back last; `None` if it never was away.
    pub returned: Option<Instant>,
}

impl Bus {
    /// Connects. The first connection must succeed: a wrong password would otherwise be tried for ever.
    ///
    /// # Errors
    /// The address is none, or has no TLS where it must; the broker is not there, or refuses the credentials.
    pub async fn connect(address: &BusAddress, credentials: &Credentials, name: &str) -> Result<Self> {
        let server = address.server()?;
        let (tell, connection) = watch::channel(Connection::default());
        let options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT)
            .ping_interval(Duration::from_secs(2))
            .max_reconnects(None)
            .reconnect_delay_callback(|_| RECONNECT)
            .require_tls(server.tls_required())
            .event_callback(move |event| {
                let tell = tell.clone();
                async move {
                    match event {
                        Event::Connected => {
                            tell.send_modify(|c| {
                                let returned = c.was_up.then(Instant::now);
                                *c = Connection { is_up: true, was_up: true, returned };
                            });
                        }
                        Event::Disconnected | Event::Closed => tell.send_modify(|c| c.is_up = false),
                        Event::ServerError(e) => tracing::warn!("the bus says: {e}"),
                        Event::LameDuckMode
                        | Event::Draining
                        | Event::SlowConsumer(_)
                        | Event::ClientError(_) => {}
                    }
                }
            });
        let options = match &address.ca {
            Some(ca) => {
                ensure!(ca.is_file(), "there is no file {} (--bus-ca)", ca.display());
                options.add_root_certificates(ca.clone())
            }
            None => options,
        };
        let options = match credentials {
            Credentials::None => options,
            Credentials::Password(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Credentials::File(path) => {
                let read = options.credentials_file(path).await;
                read.with_context(|| {
                    format!("failed to read the credentials in {} ({CREDENTIALS})", path.display())
                })?
            }
        };
        let client = options.connect(server).await.map_err(|e| address.refused(&e))?;
        Ok(Self { client, connection })
    }

    /// Returns the state of the connection.
    pub fn connection(&self) -> Connection {
        *self.connection.borrow()
    }

    /// Sends a request to a worker and waits for the reply.
    ///
    /// # Errors
    /// No reply came in time, nobody is there, or the bus is away.
    pub async fn request(
        &self,
        worker: &WorkerId,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, Failure> {
        if !self.connection().is_up {
            tokio::time::sleep(within.min(Duration::from_millis(50))).await;
            return Err(Failure::NoBus);
        }
        let request = async_nats::Request::new().payload(payload).timeout(Some(within));
        match self.client.send_request(subject(worker), request).await {
            Ok(reply) => Ok(reply.payload),
            Err(_) if !self.connection().is_up => Err(Failure::NoBus),
            Err(e) => Err(match e.kind() {
                RequestErrorKind::NoResponders => Failure::NobodyThere,
                RequestErrorKind::TimedOut
                | RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded
                | RequestErrorKind::Other => Failure::Unanswered,
            }),
        }
    }

    /// Returns the largest message that the broker passes on, in bytes.
    pub fn largest_message(&self) -> usize {
        self.client.max_payload()
    }

    /// Finds the workers on the bus.
    ///
    /// # Errors
    /// The bus is away.
    pub async fn discover(&self) -> Result<Vec<WorkerInfo>> {
        let inbox = self.client.new_inbox();
        let mut replies =
            self.client.subscribe(inbox.clone()).await.context("failed to listen on the bus")?;
        let asked = format!("$SRV.INFO.{SERVICE}");
        self.client
            .publish_with_reply(asked, inbox, Bytes::new())
            .await
            .context("failed to ask for workers")?;
        self.client.flush().await.context("the bus is away")?;
        let mut found = Vec::new();
        // The broker answers at once if there is none.
        while let Ok(Some(reply)) = timeout_at(Instant::now() + QUIET, replies.next()).await {
            if reply.status.is_some() {
                break;
            }
            let info: async_nats::service::Info = match serde_json::from_slice(&reply.payload) {
                Ok(info) => info,
                Err(_) => continue,
            };
            let about = info.metadata.get(ABOUT).and_then(|about| serde_json::from_str(about).ok());
            found.extend(about);
        }
        found.sort_by(|a: &WorkerInfo, b| a.id.cmp(&b.id));
        Ok(found)
    }

    /// Offers a worker on the bus. Its requests come in order.
    ///
    /// # Errors
    /// The bus is away.
    pub async fn offer(&self, info: &WorkerInfo) -> Result<Offer> {
        let about = serde_json::to_string(info).context("failed to write what the worker is")?;
        let service = self.client.service_builder();
        let service = service
            .metadata(HashMap::from([(ABOUT.to_owned(), about)]))
            // Each worker is one of its own: a queue group would hand its requests to others.
            .queue_group(info.id.as_str())
            .start(SERVICE, &info.version)
            .await
            .map_err(|e| anyhow::anyhow!("failed to offer the worker on the bus: {e}"))?;
        let requests = service.endpoint_builder().name("worker").add(subject(&info.id)).await;
        let requests = requests.map_err(|e| anyhow::anyhow!("failed to listen for a leader: {e}"))?;
        self.client.flush().await.context("the bus is away")?;
        Ok(Offer { requests, _service: service })
    }
}

/// A worker that is offered on the bus.
pub struct Offer {
    requests: endpoint::Endpoint,
    _service: async_nats::service::Service,
}

/// A request to a worker that has not been answered.
pub struct Asked(async_nats::service::Request);

impl Offer {
    /// Returns the next request; `None` once the connection is closed.
    pub async fn next(&mut self) -> Option<Asked> {
        self.requests.next().await.map(Asked)
    }
}

impl Asked {
    /// Returns the bytes of the request.
    pub fn payload(&self) -> &[u8] {
        &self.0.message.payload
    }

    /// Answers it. An answer that cannot be sent is lost: the leader asks again.
    pub async fn answer(self, reply: Bytes) {
        if let Err(e) = self.0.respond(Ok(reply)).await {
            tracing::debug!("a reply was lost: {e}");
        }
    }
}

fn subject(worker: &WorkerId) -> String {
    format!("goodput.w.{worker}")
}

impl BusAddress {
    /// Checks the address.
    fn server(&self) -> Result<ServerAddr> {
        let server: ServerAddr = self.url.parse().map_err(|_| {
            anyhow::anyhow!("{:?} is not the URL of a bus, such as tls://bus.example.com:4222", self.url)
        })?;
        ensure!(
            !server.has_user_pass(),
            "the URL of the bus has a user or a password: give them by {USER} and {PASSWORD}"
        );
        if !server.tls_required() && !self.insecure && !is_loopback(server.host()) {
            bail!(
                "the bus {} has no TLS: prompts and results would cross the network in the clear. Use tls://, or add --insecure-bus",
                self.url
            );
        }
        Ok(server)
    }

    /// Explains why the broker did not let us in.
    fn refused(&self, e: &async_nats::ConnectError) -> anyhow::Error {
        let why = match e.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                format!("it refuses the credentials: set {USER} and {PASSWORD}, or {CREDENTIALS}")
            }
            ConnectErrorKind::Io | ConnectErrorKind::Tls if is_tls(e) => {
                "the TLS handshake failed: give the certificate of its authority by --bus-ca".into()
            }
            ConnectErrorKind::Dns => "its name is not known".into(),
            ConnectErrorKind::TimedOut => "it does not answer".into(),
            _ => "is nats-server running there?".into(),
        };
        anyhow::anyhow!("failed to connect to the bus {}: {why} ({e})", self.url)
    }
}

/// Returns true if the certificate of the broker, or the handshake, was at fault. The client takes that for an I/O error.
fn is_tls(e: &async_nats::ConnectError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(e);
    while let Some(e) = cause {
        let io = e.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if e.is::<rustls::Error>() || io.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return true;
        }
        cause = e.source();
    }
    e.kind() == ConnectErrorKind::Tls
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_elsewhere_needs_tls() {
        for (url, insecure, good) in [
            ("tls://bus:4222", false, true),
            ("nats://127.0.0.1:4222", false, true),
            ("nats://[::1]:4222", false, true),
            ("nats://localhost:4222", false, true),
            ("nats://bus:4222", false, false),
            ("bus:4222", false, false),
            ("nats://bus:4222", true, true),
            ("tls://user:secret@bus:4222", false, false),
        ] {
            let address = BusAddress { url: url.into(), ca: None, insecure };
            let server = address.server();
            assert_eq!(server.is_ok(), good, "{url}: {server:?}");
            assert!(!format!("{server:?}").contains("secret"), "{server:?}");
        }
    }
}
