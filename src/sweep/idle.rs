//! Between steps: whether the server is empty, and whether anybody is there.

use super::Sweep;
use super::looks::TICK;
use crate::caveat::Caveat;
use crate::client::Client;
use crate::server::Reading;
use anyhow::Result;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a server may take to say that it is empty.
const IDLE_WAIT: Duration = Duration::from_secs(10);

impl Sweep<'_> {
    /// Waits until the server says that it has no requests, where it has metrics; notes it where it does not get there.
    pub(super) async fn wait_idle(&mut self, number: u32) -> Result<()> {
        let deadline = Instant::now() + IDLE_WAIT;
        loop {
            let now = self.ready.scraper.read().await?;
            let left: f64 = now.iter().flatten().filter_map(Reading::in_server).sum();
            if left <= 0.0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                self.note(Caveat::NotDrained { step: number, left });
                return Ok(());
            }
            sleep(TICK).await;
        }
    }
}

/// Whether not one of the servers answers any more.
pub(super) async fn nobody_answers(client: &Client) -> bool {
    for target in 0..client.urls().len().max(1) {
        if client.get_from(target, "/v1/models").await.is_ok() {
            return false;
        }
    }
    true
}
