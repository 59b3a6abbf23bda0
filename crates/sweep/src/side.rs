//! The server's side of a step, and the series of `[[metrics]]`: from readings to its row.

use super::Sweep;
use super::scrape::{self, Followed};
use super::step::Running;
use super::tally::StepTally;
use anyhow::Result;
use goodput_stats::stats::step::{ServerSide, Step};
use std::ops::Range;
use std::time::Duration;

impl Sweep<'_> {
    /// Says once where the server tells nothing of its own side.
    pub(super) fn say_what_is_read(&self) {
        if let Some(silent) = scrape::said(&self.meta.facts, &self.plan.server.metrics) {
            self.progress.say(&silent);
        }
    }

    /// Writes the values that were read since the last time.
    pub(super) fn write_samples(&mut self, running: &mut Running, number: u32) -> Result<()> {
        let Some(following) = &mut running.following else { return Ok(()) };
        for sample in following.take() {
            self.writer.sample(&self.series, number, &sample)?;
        }
        Ok(())
    }

    /// Stops reading metrics, now that the step is over.
    pub(super) async fn end_metrics(&mut self, running: &mut Running, number: u32) -> Result<Followed> {
        self.write_samples(running, number)?;
        match running.following.take() {
            Some(following) => following.ended().await,
            None => Ok(Followed::default()),
        }
    }

    /// Fills in what the metrics say of the part of a step that counts. One within which the server was started anew is invalid.
    pub(super) async fn fill_in(
        &mut self,
        step: &mut Step,
        followed: &Followed,
        counted: &Range<Duration>,
        tally: &StepTally,
    ) -> Result<()> {
        step.metrics = followed.rows();
        if let Some(seen) = followed.over(counted) {
            step.server = ServerSide::of(&seen, &tally.kept);
        }
        step.server.hit_rate = self.hit_rate(followed, tally).await?;
        if step.server.restarted {
            step.restarted();
        }
        Ok(())
    }
}
