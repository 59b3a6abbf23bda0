//! The null server: answers at once, or after exact delays, at so little cost that the client is the bottleneck.
//!
//! It models nothing. One thread has a task for each connection. Requests are parsed in place, and the events of
//! answers, the same bytes as the simulated server writes, are cached by their number of tokens. The response head is
//! sent with the first token. Its header `Server-Timing: ttft;dur=MILLISECONDS` (W3C Server Timing, 10 April 2023) has
//! the time from the read that completed the request to the moment before that write, against which a client's own TTFT
//! is compared.
//!
//! It answers chat and completions only. Requests to any other API get a 404: their events have numbers and ids that depend on the answer so
//! far, and no measurement of a client needs them.
//!
//! All answers have the same `id` and `created`, so that nothing is rewritten that a client need not examine.

mod answers;
mod connection;
mod http;
mod server;

use goodput_core::units::Span;
use serde::Deserialize;
use server::Server;
use std::{fmt, future::Future, io, num::NonZeroU32, sync::Arc, time::Duration};
use tokio::net::{TcpListener, UnixListener};

/// Time that open streams have to finish after shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Polling interval for their end, and pause before accepting again after an error.
const PAUSE: Duration = Duration::from_millis(10);

/// The settings of the null server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Time from the read that completes a request to its first token.
    pub first: Span,
    /// Time between tokens; if zero, all tokens are sent in one write. Each token is due at a multiple of it after the
    /// first.
    pub gap: Span,
    /// Name of the served model.
    pub model: String,
    /// Maximum length of prompt and answer together, in tokens.
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
        let mut settings: Vec<String> =
            spans.iter().filter(|(_, s)| !s.0.is_zero()).map(|(k, s)| format!("{k} {s}")).collect();
        if self.max_model_len != Self::default().max_model_len {
            settings.push(format!("max-model-len {}", self.max_model_len));
        }
        if settings.is_empty() { Ok(()) } else { write!(f, " ({})", settings.join(", ")) }
    }
}

/// The socket that the server listens on.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket; the caller removes its file.
    Unix(UnixListener),
}

impl Listener {
    /// Accepts a connection and spawns a task for it.
    async fn accept(&self, server: &Arc<Server>) -> io::Result<()> {
        let server = server.clone();
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Otherwise Nagle's algorithm would delay a token until the one before is acknowledged.
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
/// the runtime and end with it. Cheapest on a single-threaded runtime.
pub async fn serve(settings: Settings, listener: Listener, shutdown: impl Future<Output = ()> + Send) {
    let server = Arc::new(Server::new(settings));
    let accept = async {
        let mut warned = false;
        loop {
            if let Err(error) = listener.accept(&server).await {
                // Descriptors have run out, or the client disconnected at once. The former deserves a warning and a
                // pause.
                if !std::mem::replace(&mut warned, true) {
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

#[cfg(test)]
mod tests;
