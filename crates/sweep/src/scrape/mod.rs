//! Reading metrics while steps run, on a thread and connections of their own: no request waits for a page of metrics, whatever its
//! server does with it.
//!
//! A page that hangs is given up after a while, one that dies or lies is no reading, and each is asked again the next time. What a
//! server without metrics was asked once it is not asked again.

mod follow;
mod probe;

pub(super) use follow::{Following, MetricsRead};
pub(super) use probe::said;

use anyhow::Result;
use goodput_load::client::Client;
use goodput_load::load::host::Host;
use goodput_stats::server::Reading;
use goodput_stats::server::selected::Selector;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// A page that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between steps nobody waits longer for a server whose last page did not come.
const IMPATIENCE: Duration = Duration::from_secs(1);
/// A page of metrics is no larger than this.
const LARGEST: usize = 8 << 20;

/// A page that is read.
#[derive(Clone)]
struct Page {
    client: Client,
    /// Which of the client's URLs, and where on it.
    target: usize,
    path: String,
}

impl Page {
    /// Its text, as the server sends it: what is kept of it goes through [`Page::redacted`], and not the whole, which may hold a word that
    /// is a secret as a part of what it is made of.
    async fn fetch(&self, patience: Duration) -> Result<String, String> {
        let bytes = self.client.page(self.target, &self.path, patience, LARGEST).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A part of it as it may be written.
    fn redacted(&self, part: &str) -> String {
        self.client.redacted(part).into_owned()
    }

    /// What the server tells on it, and when: half way between asking and the answer, counted from `began`.
    async fn read(&self, began: Instant, patience: Duration) -> Option<(Duration, Reading)> {
        let asked = began.elapsed();
        let reading = Reading::read(&self.fetch(patience).await.ok()?)?;
        Some(((asked + began.elapsed()) / 2, reading))
    }
}

/// An entry of `[[metrics]]`.
#[derive(Clone)]
struct Extra {
    title: String,
    page: Page,
    series: Vec<Selector>,
    interval: Duration,
}

/// Everything that is read, and where it is read from.
pub(crate) struct Scraper {
    host: Host,
    /// A page for each server; none where one of them has none.
    own: Arc<[Page]>,
    extra: Arc<[Extra]>,
    interval: Duration,
    /// Whether the last reading of the servers failed.
    ailing: Arc<AtomicBool>,
}

impl Scraper {
    /// What every server tells now; `None` where they do not all tell.
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
type Each = Vec<Option<(Duration, Reading)>>;

/// What every server tells at once, with the mean of the times; `None` where one does not. Beside it what each of them told.
async fn read_all(
    own: &[Page],
    began: Instant,
    patience: Duration,
) -> (Option<(Duration, Vec<Reading>)>, Each) {
    let each: Each = futures_util::future::join_all(own.iter().map(|page| page.read(began, patience))).await;
    let all: Option<Vec<(Duration, Reading)>> = each.iter().cloned().collect();
    let together = all.filter(|all| !all.is_empty()).map(|all| {
        let at = all.iter().map(|(at, _)| *at).sum::<Duration>() / all.len() as u32;
        (at, all.into_iter().map(|(_, reading)| reading).collect())
    });
    (together, each)
}
