//! Tells new connections from used ones.

use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use tower::{Layer, Service};

/// Local and remote address of a connection.
type Ends = (SocketAddr, SocketAddr);

/// Connections that have been opened but have not answered a request yet.
#[derive(Clone, Default)]
pub(crate) struct Unused(Arc<Mutex<HashSet<Ends>>>);

impl Unused {
    pub(super) fn opened(&self, ends: Ends) {
        self.0.lock().expect("no panic while held").insert(ends);
    }

    /// Returns true if this is the first answer on the connection.
    pub(super) fn first_use(&self, ends: &Ends) -> bool {
        self.0.lock().expect("no panic while held").remove(ends)
    }
}

/// Connector layer that records each new connection.
#[derive(Clone)]
pub(super) struct Watch(pub(super) Unused);

#[derive(Clone)]
pub(super) struct Watching<S> {
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
