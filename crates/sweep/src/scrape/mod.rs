//! Reading server metrics while steps run, on a separate thread and separate connections, so that no request waits for
//! a page of metrics.
//!
//! A page that hangs times out, and a page that fails or cannot be parsed gives no reading; each page is requested
//! again at the next interval. A server found to have no metrics is not asked again.

mod follow;
mod probe;

pub(super) use follow::{Following, MetricsRead};
pub(super) use probe::missing_metrics_hint;

use anyhow::Result;
use goodput_load::client::Client;
use goodput_load::load::host::Host;
use goodput_stats::server::Reading;
use goodput_stats::server::selected::Selector;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// Timeout of a page.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout of a page between steps, if the last reading of the servers failed.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// Maximum size of a page of metrics, in bytes.
const LARGEST: usize = 8 << 20;

/// A page of metrics.
#[derive(Clone)]
struct Page {
    client: Client,
    /// Index of the server among the client's URLs; `path` is the path on it.
    target: usize,
    path: String,
}

impl Page {
    /// Returns its text as the server sends it. Redact the parts that are kept with [`Page::redacted`], not the whole
    /// page: a secret may be a part of an ordinary name in it, which must still be parsed.
    async fn fetch(&self, patience: Duration) -> Result<String, String> {
        let bytes = self.client.page(self.target, &self.path, patience, LARGEST).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a part of the page with secrets masked, fit for output.
    fn redacted(&self, part: &str) -> String {
        self.client.redacted(part).into_owned()
    }

    /// Reads the server's metrics, with the time half way between request and answer, counted from `began`.
    async fn read(&self, began: Instant, patience: Duration) -> Option<(Duration, Reading)> {
        let asked = began.elapsed();
        let reading = Reading::read(&self.fetch(patience).await.ok()?)?;
        Some(((asked + began.elapsed()) / 2, reading))
    }
}

/// An entry of `[[metrics]]`.
#[derive(Clone)]
struct ExtraPage {
    title: String,
    page: Page,
    series: Vec<Selector>,
    interval: Duration,
}

/// All pages that are read, and the thread that reads them.
pub(crate) struct Scraper {
    host: Host,
    /// One page per server, or none if one of the servers has no metrics.
    own: Arc<[Page]>,
    extra: Arc<[ExtraPage]>,
    interval: Duration,
    /// True if the last reading of the servers failed.
    ailing: Arc<AtomicBool>,
}

impl Scraper {
    /// Reads the current metrics of all servers; `None` if any of them gives none.
    pub(super) async fn read(&self) -> Result<Option<Vec<Reading>>> {
        if self.own.is_empty() {
            return Ok(None);
        }
        let patience = if self.ailing.load(Relaxed) { IMPATIENCE } else { PATIENCE };
        let own = self.own.clone();
        let read = self.host.run(async move { read_all(&own, Instant::now(), patience).await.0 }).await?;
        self.ailing.store(read.is_none(), Relaxed);
        Ok(read.map(|(_, readings)| readings))
    }
}

/// One reading of each page.
type SingleReadings = Vec<Option<(Duration, Reading)>>;

/// Reads all servers at once. Returns their readings with the mean of the times, or `None` if one is missing, and each
/// single reading.
async fn read_all(
    own: &[Page],
    began: Instant,
    patience: Duration,
) -> (Option<(Duration, Vec<Reading>)>, SingleReadings) {
    let each: SingleReadings =
        futures_util::future::join_all(own.iter().map(|page| page.read(began, patience))).await;
    let all: Option<Vec<(Duration, Reading)>> = each.iter().cloned().collect();
    let together = all.filter(|all| !all.is_empty()).map(|all| {
        let at = all.iter().map(|(at, _)| *at).sum::<Duration>() / all.len() as u32;
        (at, all.into_iter().map(|(_, reading)| reading).collect())
    });
    (together, each)
}
