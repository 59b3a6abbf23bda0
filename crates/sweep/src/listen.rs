//! A server for the running sweep, on a separate thread, so that looking takes no time from the load: a page to watch with its events, and the
//! metrics for Prometheus.

use super::live::Page;
use super::watch::{LivePage, Watched};
use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::middleware::from_fn;
use axum::response::sse::{Event, Sse};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use futures_util::stream::{Stream, unfold};
use goodput_load::pages;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The content type that Prometheus expects for OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Time between two looks at the state for one reader of the events.
const LOOK: Duration = Duration::from_millis(250);
/// Time after which a reader that was cut off connects again.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of looks after which the present step is sent again without a change, so that a lost connection is noticed.
const ALIVE: u32 = 40;
/// Maximum number of readers of the events at a time.
const MOST_READERS: usize = 32;
/// Time that readers have to fetch the report once it is written.
const FETCH: Duration = Duration::from_secs(3);

/// The server of a sweep. Clones share it; it stops when the last one is dropped, or another sweep starts its own.
#[derive(Debug, Clone, Default)]
pub struct Served(Arc<Mutex<Option<Listener>>>);

impl Served {
    /// Replaces the server of an earlier sweep, which stops before this one binds its address.
    ///
    /// # Errors
    /// As [`Listener::start`].
    pub(super) fn start(
        &self,
        address: SocketAddr,
        page: Page,
        live: &LivePage,
        watched: Watched,
    ) -> Result<SocketAddr> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(slot.take());
        let listener = Listener::start(address, page, live, watched)?;
        Ok(slot.insert(listener).address)
    }

    /// Hands the report to everybody who watches, and waits until they have it, at most three seconds. Returns at once if nobody does.
    pub fn report(&self, file: &Path) {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Listener { shared, .. }) = &*slot else { return };
        let Ok(page) = std::fs::read_to_string(file) else { return };
        if shared.report.set(page).is_err() {
            return;
        }
        let readers = shared.readers.load(Ordering::Relaxed);
        shared.watched.reported();
        let until = Instant::now() + FETCH;
        while shared.fetched.load(Ordering::Relaxed) < readers && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The pages and the counts that the routes share.
#[derive(Debug)]
struct Shared {
    metrics: Page,
    watched: Watched,
    html: String,
    policy: String,
    /// `report.html`, once it is written.
    report: OnceLock<String>,
    /// Number of present readers of the events.
    readers: AtomicUsize,
    /// Number of times that the report was fetched.
    fetched: AtomicUsize,
}

/// The listening server; it stops when this is dropped.
#[derive(Debug)]
struct Listener {
    address: SocketAddr,
    shared: Arc<Shared>,
    end: Option<DropGuard>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Binds the address and starts to serve.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    fn start(address: SocketAddr, metrics: Page, live: &LivePage, watched: Watched) -> Result<Self> {
        let (socket, address) = pages::bind(address)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start a runtime")?;
        let end = CancellationToken::new();
        let shared = Arc::new(Shared {
            metrics,
            watched,
            html: live.html.clone(),
            policy: live.policy.clone(),
            report: OnceLock::new(),
            readers: AtomicUsize::new(0),
            fetched: AtomicUsize::new(0),
        });
        let (ended, router) = (end.clone(), routes(&shared, address.ip().is_loopback()));
        let serve = async move {
            let socket = tokio::net::TcpListener::from_std(socket)?;
            pages::serve(router, socket, ended).await;
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
        Ok(Self { address, shared, end: Some(end.drop_guard()), thread: Some(thread) })
    }
}

/// Waits until 200 ms after the end.
async fn gone(end: CancellationToken) {
    end.cancelled().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn routes(shared: &Arc<Shared>, loopback: bool) -> Router {
    let of = Arc::clone(shared);
    let metrics = move || {
        let text = of.metrics.text();
        async move { ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response() }
    };
    let of = Arc::clone(shared);
    let page = move || {
        let answer = ([(CONTENT_SECURITY_POLICY, of.policy.clone())], Html(of.html.clone()));
        async move { answer }
    };
    let of = Arc::clone(shared);
    let report = move || {
        let page = of.report.get().cloned();
        of.fetched.fetch_add(usize::from(page.is_some()), Ordering::Relaxed);
        async move { page.map(Html).ok_or((StatusCode::NOT_FOUND, "the report is not written yet")) }
    };
    let of = Arc::clone(shared);
    let events = move || {
        let stream = Reader::admit(&of).map(|reader| Sse::new(sent(reader)));
        async move { stream.ok_or((StatusCode::SERVICE_UNAVAILABLE, "too many readers")) }
    };
    let mut own =
        Router::new().route("/", get(page)).route("/report.html", get(report)).route("/events", get(events));
    if loopback {
        own = own.layer(from_fn(pages::local_names_only));
    }
    Router::new().route("/metrics", get(metrics)).merge(own).layer(from_fn(pages::guarded))
}

/// One reader of the events.
struct Reader {
    shared: Arc<Shared>,
    /// Revision of the state that it has; `None` before its first.
    has: Option<u64>,
    /// The last step that it was told of, and the number of looks since.
    told: Option<super::watch::Now>,
    looks: u32,
}

impl Reader {
    /// Counts one more reader; `None` if there are too many.
    fn admit(shared: &Arc<Shared>) -> Option<Self> {
        let reader = Self { shared: Arc::clone(shared), has: None, told: None, looks: 0 };
        let before = shared.readers.fetch_add(1, Ordering::Relaxed);
        (before < MOST_READERS).then_some(reader)
    }

    /// Returns the next event, if there is something new: the whole state, or the running step alone.
    fn event(&mut self) -> Option<Event> {
        let state = self.shared.watched.get();
        self.looks += 1;
        if self.has != Some(state.revision()) {
            self.has = Some(state.revision());
            self.told = Some(state.now().clone());
            return Event::default().event("state").retry(AGAIN).json_data(&*state).ok();
        }
        if self.told.as_ref() == Some(state.now()) && self.looks < ALIVE {
            return None;
        }
        (self.told, self.looks) = (Some(state.now().clone()), 0);
        Event::default().event("now").json_data(state.now()).ok()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the events for one reader, the full state first.
fn sent(reader: Reader) -> impl Stream<Item = Result<Event, Infallible>> {
    unfold(reader, |mut reader| async move {
        loop {
            if let Some(event) = reader.event() {
                return Some((Ok(event), reader));
            }
            tokio::time::sleep(LOOK).await;
        }
    })
}
