//! The server's prefix cache around a step: made cold or warm before the step, and evaluated from the server's metrics
//! afterwards.
//!
//! The counters are compared from the beginning of the measured window to the end of the drain. This covers the
//! measured requests and the few that continued the load until those had finished.

use super::journal::Journal;
use super::prepare::UncountedLoad;
use super::runner::{Runner, Task};
use super::scrape::MetricsRead;
use super::tally::StepTally;
use super::termination::Termination;
use anyhow::Result;
use goodput_load::client::Client;
use goodput_stats::server::Signal;
use goodput_workload::config::Cache;
use std::num::NonZeroU8;
use std::time::Duration;

/// vLLM's endpoint that empties its prefix cache; it exists only in vLLM's development mode.
const RESET: &str = "/reset_prefix_cache";
/// Time that the server may take for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ratio of tokens looked up to the most that the step's requests can have asked for, above which other clients must
/// have used the server. It leaves some room, since lengths that the server does not report may be a little off.
const OTHERS: f64 = 1.2;

/// Evidence of other clients during a step, in tokens looked up in the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OtherClients {
    /// All tokens looked up.
    pub(super) asked: f64,
    /// Upper bound of the tokens that the requests of the step asked for.
    pub(super) own: f64,
}

/// The use of the server's prefix cache over a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CacheUse {
    /// Share of tokens found in the cache, from the server's counters, or otherwise from its answers.
    pub(super) hit_rate: Option<f64>,
    pub(super) others: Option<OtherClients>,
}

/// Asks every server to empty its prefix cache. Returns false if none of them can.
async fn reset(client: &Client) -> bool {
    let mut offered = false;
    for target in 0..client.urls().len().max(1) {
        // A refusal or a failure shows in the counters.
        let status = client.post(target, RESET, PATIENCE).await.unwrap_or(0);
        offered |= !matches!(status, 400..=499);
    }
    offered
}

impl Runner {
    /// Brings the server's prefix cache into the state that the series wants before a step: emptied of earlier
    /// requests, if the server supports that, or with every shared prefix in it, even if the server was idle or served
    /// a cold series in the meantime.
    pub(super) async fn set_cache(
        &mut self,
        task: Task<'_>,
        journal: &mut Journal,
        termination: &Termination,
    ) -> Result<()> {
        match task.plan().workload.cache {
            Cache::Cold | Cache::Pair if self.ready.resets => {
                let client = self.ready.client().clone();
                let asked = self.host.run(async move { reset(&client).await });
                if let Some(resets) = termination.within(Duration::ZERO, asked).await {
                    self.ready.resets = resets?;
                }
                Ok(())
            }
            Cache::Cold | Cache::Pair => Ok(()),
            Cache::Warm => {
                let finished = self.send_uncounted(UncountedLoad::Prefixes, task.series, termination).await?;
                journal.warmup(task.series, finished, termination)
            }
        }
    }

    /// Evaluates the prefix cache over a step that has drained. Its requests asked for so many `choices` at most.
    pub(super) async fn cache_use(
        &self,
        read: &MetricsRead,
        tally: &StepTally,
        choices: NonZeroU8,
    ) -> Result<CacheUse> {
        let now = self.ready.scraper.read().await?;
        let Some((at, moved)) = now.and_then(|now| read.since_start(&now)) else {
            return Ok(CacheUse { hit_rate: tally.cached_share(), others: None });
        };
        let own = tally.asked_since(at, choices);
        // Preempted requests may have been looked up again.
        let preempted = moved.value(Signal::Preemptions).is_some_and(|n| n > 0.0);
        let queries = moved.value(Signal::Queries).filter(|q| !preempted && *q > OTHERS * own);
        let others = queries.map(|asked| OtherClients { asked, own });
        Ok(CacheUse { hit_rate: moved.hit_rate().or_else(|| tally.cached_share()), others })
    }
}
