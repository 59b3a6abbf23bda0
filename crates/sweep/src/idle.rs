//! Checks between steps: waiting until the server is idle, and finding out if it still answers.

use super::early_stop::TICK;
use super::runner::Runner;
use super::termination::Termination;
use anyhow::Result;
use goodput_core::caveat::ServerCaveat;
use goodput_load::client::Client;
use goodput_stats::server::Reading;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest wait for a server to report that it has no requests.
const IDLE_WAIT: Duration = Duration::from_secs(10);

impl Runner {
    /// Waits until the server reports that it has no requests, if it has metrics. Returns a caveat if the wait times
    /// out.
    pub(super) async fn wait_idle(
        &self,
        step: u32,
        termination: &Termination,
    ) -> Result<Option<ServerCaveat>> {
        let deadline = Instant::now() + IDLE_WAIT;
        loop {
            let now = self.ready.scraper.read().await?;
            let left: f64 = now.iter().flatten().filter_map(Reading::in_server).sum();
            if left <= 0.0 || termination.reason().is_some() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                return Ok(Some(ServerCaveat::NotDrained { step, left }));
            }
            sleep(TICK).await;
        }
    }
}

/// Returns true if none of the servers answers any more.
pub(super) async fn nobody_answers(client: &Client) -> bool {
    for target in 0..client.urls().len().max(1) {
        if client.get_from(target, "/v1/models").await.is_ok() {
            return false;
        }
    }
    true
}
