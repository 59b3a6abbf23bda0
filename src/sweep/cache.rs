//! The server's prefix cache around a step: it is made cold or warm before, and asked afterwards what it had.
//!
//! Its counters are read shortly before the measured window, while nothing counts yet, and again when the step has drained: a page
//! of metrics takes a server some milliseconds, and none of them falls on a measured request. What lies between is the measured
//! requests and the few that kept the load on until they had finished.

use super::tally::StepTally;
use super::{Sweep, prepare};
use crate::caveat::Caveat;
use crate::client::Client;
use crate::load::host::Host;
use crate::server::PrefixCache;
use crate::workload::config::Cache;
use anyhow::Result;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The counters are read so long before the measured window. Where the load settles for less, before the load.
pub(super) const AHEAD: Duration = Duration::from_millis(300);
/// vLLM's page that empties its prefix cache when it is called; it is there in its development mode alone.
const RESET: &str = "/reset_prefix_cache";
/// So many times the tokens that the step's own requests can have asked for are somebody else's as well. Lengths that the server
/// does not tell may be a little off.
const OTHERS: f64 = 1.2;

/// The counters of all servers, as they were asked for at some time of the step.
pub(super) enum Reading {
    /// They are on their way.
    Asked(Duration, JoinHandle<Option<PrefixCache>>),
    /// They came before the load began.
    Before(Option<PrefixCache>),
}

impl Reading {
    /// Asks for them on the side, at this time of the step.
    pub(super) fn ask(host: &Host, client: &Client, at: Duration) -> Self {
        let client = client.clone();
        Self::Asked(at, host.spawn(async move { counters(&client).await }))
    }

    /// When they were asked for, and what they were.
    async fn got(self) -> Option<(Duration, PrefixCache)> {
        match self {
            Self::Asked(at, task) => Some((at, task.await.ok()??)),
            Self::Before(known) => Some((Duration::ZERO, known?)),
        }
    }
}

/// The prefix cache's counters, of all servers together; `None` where one of them does not tell.
async fn counters(client: &Client) -> Option<PrefixCache> {
    let mut all = PrefixCache::default();
    for target in 0..client.urls().len().max(1) {
        let (200, text) = client.get_from(target, "/metrics").await.ok()? else { return None };
        all = all.and(PrefixCache::read(&String::from_utf8_lossy(&text))?);
    }
    Some(all)
}

/// Asks every server to empty its prefix cache; whether there is any that can.
async fn reset(client: &Client) -> bool {
    let mut offered = false;
    for target in 0..client.urls().len().max(1) {
        // Refused or broken, what it came to is seen in the counters.
        let status = client.post_to(target, RESET).await.unwrap_or(0);
        offered |= !matches!(status, 400..=499);
    }
    offered
}

impl Sweep<'_> {
    /// Makes the server's prefix cache what the series wants it to be before a step: without what earlier requests left, where
    /// the server can be told so, or with every shared prefix in it, though it was idle or served a cold series meanwhile.
    pub(super) async fn set_cache(&mut self) -> Result<()> {
        match self.plan.workload.cache {
            Cache::Cold | Cache::Pair if self.resets => {
                let client = self.ready.client().clone();
                self.resets = self.host.run(async move { reset(&client).await }).await?;
                Ok(())
            }
            Cache::Cold | Cache::Pair => Ok(()),
            Cache::Warm => {
                let (plan, ready) = (self.plan, &self.ready);
                let sent = prepare::warm_prefixes(plan, &self.host, &self.series, ready, &self.interrupt);
                let finished = sent.await?;
                self.sent_before(finished)
            }
        }
    }

    /// Reads the counters before the load, where there is no time for it before its window.
    pub(super) async fn read_before(&self, settle: Duration) -> Result<Option<Reading>> {
        if settle > AHEAD {
            return Ok(None);
        }
        let client = self.ready.client().clone();
        Ok(Some(Reading::Before(self.host.run(async move { counters(&client).await }).await?)))
    }

    /// The hit rate of a step that has drained: by the server's counters, else by what it tells with each answer. Notes it where
    /// the counters moved by more than the step's own requests.
    pub(super) async fn hit_rate(
        &mut self,
        first: Option<Reading>,
        tally: &StepTally,
    ) -> Result<Option<f64>> {
        let first = match first {
            Some(reading) => reading.got().await,
            None => None,
        };
        let Some((at, first)) = first else { return Ok(tally.cached_share()) };
        let client = self.ready.client().clone();
        let last = self.host.run(async move { counters(&client).await }).await?;
        let Some(moved) = last.and_then(|last| last.since(first)) else { return Ok(tally.cached_share()) };
        let own = tally.asked_since(at);
        // What was preempted may have been looked up again.
        if moved.preemptions <= 0.0 && moved.queries > OTHERS * own {
            self.note_others(moved.queries, own);
        }
        Ok(moved.hit_rate().or_else(|| tally.cached_share()))
    }

    /// Says of the first step in which somebody else used the server how much, and of later ones that there were more.
    fn note_others(&mut self, asked: f64, own: f64) {
        let step = self.steps.len() as u32 + 1;
        for noted in &mut self.meta.noted {
            if let Caveat::OtherClients { steps, .. } = noted {
                *steps += 1;
                return;
            }
        }
        self.note(Caveat::OtherClients { step, asked, own, steps: 1 });
    }
}
