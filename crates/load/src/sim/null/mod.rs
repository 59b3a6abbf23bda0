//! The null server: answers at once, or after exact delays, and costs so little that it is the client that is measured.
//!
//! It models nothing. One thread has a task for each connection; a request is read where it lies, and an answer's
//! events, the same bytes as the simulated server writes, are kept by their number of tokens. The response head goes
//! out with the first token, and its field `Server-Timing: ttft;dur=MILLISECONDS` (W3C Server Timing, 10 April 2023)
//! tells the time from the read that completed the request to the moment before that write: what a client's own TTFT is
//! measured against.
//!
//! All answers have the same `id` and `created`: nothing is written anew that a client need not look at.

mod answers;
mod connection;
mod http;
mod server;

use crate::sim::serve::Embedded;
use goodput_core::units::Span;
use serde::Deserialize;
use server::Server;
use std::{fmt, future::Future, io, num::NonZeroU32, sync::Arc, time::Duration};
use tokio::net::{TcpListener, UnixListener};

/// How long open streams may go on after the shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether they have ended, and how long nothing is accepted after an error.
const PAUSE: Duration = Duration::from_millis(10);

/// What it serves, and when.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// From the read that completes a request to its first token.
    pub first: Span,
    /// From token to token; where it is zero all tokens go out in one write. Each token is due at a multiple of it
    /// after the first.
    pub gap: Span,
    /// The model name that it serves.
    pub model: String,
    /// Longest prompt and answer together, in tokens.
    pub max_model_len: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        const LONGEST: NonZeroU32 = NonZeroU32::new(131_072).expect("it is not zero");
        Self { first: Span::secs(0), gap: Span::secs(0), model: "null".into(), max_model_len: LONGEST }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated null")?;
        let spans = [("first", self.first), ("gap", self.gap)];
        let mut told: Vec<String> =
            spans.iter().filter(|(_, s)| !s.0.is_zero()).map(|(k, s)| format!("{k} {s}")).collect();
        if self.max_model_len != Self::default().max_model_len {
            told.push(format!("max-model-len {}", self.max_model_len));
        }
        if told.is_empty() { Ok(()) } else { write!(f, " ({})", told.join(", ")) }
    }
}

/// Where it listens.
#[derive(Debug)]
pub enum Listener {
    /// On a port.
    Tcp(TcpListener),
    /// On a Unix socket; its file is the caller's to remove.
    Unix(UnixListener),
}

impl Listener {
    /// Takes a connection and gives it a task.
    async fn accept(&self, server: &Arc<Server>) -> io::Result<()> {
        let server = server.clone();
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it Nagle's algorithm would hold back a token until the one before is acknowledged.
                stream.set_nodelay(true)?;
                tokio::spawn(async move { connection::serve(stream, &server).await });
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(async move { connection::serve(stream, &server).await });
            }
        }
        Ok(())
    }
}

/// Serves until `shutdown` completes, then lets open streams finish for at most five seconds. Connections are tasks of
/// the runtime: what is still open then ends with it. Cheapest on a runtime with one thread.
pub async fn serve(settings: Settings, listener: Listener, shutdown: impl Future<Output = ()> + Send) {
    let server = Arc::new(Server::new(settings));
    let accept = async {
        let mut told = false;
        loop {
            if let Err(error) = listener.accept(&server).await {
                // Descriptors have run out, or the client went away at once; the first is worth a word, and a moment's
                // rest.
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!("the null server cannot take a connection: {error}");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown => {}
    }
    drop(listener);
    let finished = async {
        while server.running() > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(GRACE, finished).await;
}

/// A null server on a free port of the loopback address, on a thread of its own; stops when dropped, open streams and
/// all.
#[derive(Debug)]
pub struct NullServer {
    /// Where it listens, such as `http://127.0.0.1:41234`.
    pub url: String,
    _thread: Embedded,
}

impl NullServer {
    /// Starts it; it takes connections when this returns.
    ///
    /// # Errors
    /// No thread, no runtime or no port is to be had.
    pub fn start(settings: Settings) -> anyhow::Result<Self> {
        let thread = Embedded::null(settings)?;
        Ok(Self { url: thread.url.clone(), _thread: thread })
    }
}

#[cfg(test)]
mod tests;
