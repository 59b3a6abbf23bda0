//! The server's prefix cache around a step: it is made cold or warm before, and what it had is told by the metrics.
//!
//! Its counters are compared from the beginning of the measured window to when the step has drained. What lies between is the measured
//! requests and the few that kept the load on until they had finished.

use super::scrape::Followed;
use super::tally::StepTally;
use super::{Sweep, prepare};
use anyhow::Result;
use goodput_core::caveat::{Caveat, CountersCaveat};
use goodput_load::client::Client;
use goodput_stats::server::Signal;
use goodput_workload::config::Cache;
use std::time::Duration;

/// vLLM's page that empties its prefix cache when it is called; it is there in its development mode alone.
const RESET: &str = "/reset_prefix_cache";
/// So many times the tokens that the step's own requests can have asked for are somebody else's as well. Lengths that the server
/// does not tell may be a little off.
const OTHERS: f64 = 1.2;

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
                let asked = self.host.run(async move { reset(&client).await });
                if let Some(resets) = self.ending.within(Duration::ZERO, asked).await {
                    self.resets = resets?;
                }
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

    /// The hit rate of a step that has drained: by the server's counters, else by what it tells with each answer. Notes it where
    /// the counters moved by more than the step's own requests.
    pub(super) async fn hit_rate(&mut self, followed: &Followed, tally: &StepTally) -> Result<Option<f64>> {
        let now = self.ready.scraper.read().await?;
        let Some((at, moved)) = now.and_then(|now| followed.since_start(&now)) else {
            return Ok(tally.cached_share());
        };
        let own = tally.asked_since(at);
        // What was preempted may have been looked up again.
        let preempted = moved.value(Signal::Preemptions).is_some_and(|n| n > 0.0);
        if let Some(queries) = moved.value(Signal::Queries).filter(|q| !preempted && *q > OTHERS * own) {
            self.note_others(queries, own);
        }
        Ok(moved.hit_rate().or_else(|| tally.cached_share()))
    }

    /// Says of the first step in which somebody else used the server how much, and of later ones that there were more.
    fn note_others(&mut self, asked: f64, own: f64) {
        let step = self.steps.len() as u32 + 1;
        for noted in &mut self.meta.noted {
            if let Caveat::Counters(CountersCaveat::OtherClients { steps, .. }) = noted {
                *steps += 1;
                return;
            }
        }
        self.note(CountersCaveat::OtherClients { step, asked, own, steps: 1 });
    }
}
