//! A server for the metrics of the running sweep, on a separate thread, so that scraping takes no time from the load.

use super::live::Page;
use anyhow::{Context, Result};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The content type that Prometheus expects for OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics server; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    end: Option<DropGuard>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Binds the address and starts to serve.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub(crate) fn start(address: SocketAddr, page: Page) -> Result<Self> {
        let context = || format!("--listen {address}: cannot listen there; name another port");
        let socket = TcpListener::bind(address).with_context(context)?;
        socket.set_nonblocking(true).with_context(context)?;
        let address = socket.local_addr().with_context(context)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start a runtime")?;
        let end = CancellationToken::new();
        let (ended, page) = (end.clone(), Arc::new(page));
        let serve = async move {
            let socket = tokio::net::TcpListener::from_std(socket)?;
            goodput_load::pages::serve(routes(page), socket, ended).await;
            std::io::Result::Ok(())
        };
        let last = end.clone();
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                // Do not wait for open connections when the sweep ends.
                let served = runtime.block_on(async {
                    tokio::select! {
                        served = serve => served,
                        () = gone(last) => Ok(()),
                    }
                });
                if let Err(e) = served {
                    tracing::warn!("the metrics at {address} are not served any more: {e}");
                }
            })
            .context("failed to start the thread that serves the metrics")?;
        Ok(Self { address, end: Some(end.drop_guard()), thread: Some(thread) })
    }

    /// Returns the bound address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Waits until 200 ms after the end.
async fn gone(end: CancellationToken) {
    end.cancelled().await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn routes(page: Arc<Page>) -> Router {
    let metrics = move || {
        let text = page.text();
        async move { ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response() }
    };
    let hint = async || Html("<a href=\"/metrics\">metrics</a> of a running sweep");
    Router::new().route("/metrics", get(metrics)).route("/", get(hint))
}
