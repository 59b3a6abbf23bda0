//! Records measurements in the run folder and in the counts over the whole sweep, and shows them on the terminal and in
//! the live metrics.

use super::live::Live;
use super::progress::{Progress, StepProgress};
use super::tally::{StepTally, SweepTally};
use super::termination::{Termination, TerminationReason};
use super::watch::{LivePage, Watched};
use anyhow::Result;
use goodput_core::record::Finished;
use goodput_core::slo::ALL;
use goodput_core::units::bytes;
use goodput_plan::Series;
use goodput_run::rundir::{Disk, Run, Sample, Writer, json};
use goodput_stats::search::Ask;
use goodput_stats::stats::step::Step;
use std::path::Path;
use std::time::Duration;

/// The run folder of a running sweep, and all other receivers of its requests and steps.
pub(super) struct Journal {
    writer: Writer,
    counts: SweepTally,
    progress: Progress,
    /// The metrics and the state of the sweep itself, while they are served.
    live: Option<Shown>,
    disk: Disk,
    /// Number of warm-up requests written so far, over all attempts. Their numbering continues from one series to the
    /// next.
    warmups: u64,
}

impl Journal {
    /// Opens the journal of a new or resumed sweep. `counts` and `warmups` are those of the folder.
    pub(super) fn new(
        writer: Writer,
        progress: Progress,
        live: Option<Shown>,
        disk: Disk,
        earlier: EarlierCounts,
    ) -> Self {
        let EarlierCounts { counts, warmups } = earlier;
        Self { writer, counts, progress, live, disk, warmups }
    }

    /// Returns the run folder.
    pub(super) fn dir(&self) -> &Path {
        self.writer.dir()
    }

    /// Returns the counts over the whole sweep.
    pub(super) const fn counts(&self) -> &SweepTally {
        &self.counts
    }

    /// Writes a line of text above the progress bar.
    pub(super) fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// Removes the progress bar.
    pub(super) fn end(&self) {
        self.show(|shown| shown.watched.measured());
        self.progress.done();
    }

    /// Writes requests that were sent before a step and are not counted.
    ///
    /// # Errors
    /// As [`Journal::flush`].
    pub(super) fn warmup(
        &mut self,
        series: &Series,
        mut finished: Vec<Finished>,
        termination: &Termination,
    ) -> Result<()> {
        for f in &mut finished {
            f.record.id += self.warmups;
            let class = series.plan.workload.class_name(f.record.class);
            self.writer.request(&series.name, 0, class, f)?;
        }
        self.warmups += finished.len() as u64;
        self.flush(termination)?;
        self.writer.end_failures(&series.name, 0)
    }

    /// Reserves memory for the requests of a step before it starts.
    pub(super) fn make_room(&mut self, series: &Series, ask: &Ask) -> StepTally {
        let classes = series.plan.workload.classes().len();
        self.counts.begin(series.plan.slo.as_slice(), classes, ask)
    }

    /// Shows the start of a step. `per_s` is its offered rate in requests per second, for an open loop; `spent` is the time that the sweep has
    /// spent.
    pub(super) fn begin_step(
        &mut self,
        series: &Series,
        step: u32,
        ask: &Ask,
        per_s: Option<f64>,
        spent: Duration,
    ) {
        self.show(|Shown { live, watched, .. }| {
            live.begin(&series.name, step, ask.level, per_s);
            watched.begin(series, step, ask.kind, ask.level, spent);
        });
        self.progress.begin(series, step, spent);
    }

    /// Records a finished request of a step.
    ///
    /// # Errors
    /// A file of the run folder cannot be written.
    pub(super) fn request(&mut self, series: &Series, step: u32, finished: &Finished) -> Result<()> {
        let class = series.plan.workload.class_name(finished.record.class);
        self.writer.request(&series.name, step, class, finished)?;
        self.show(|shown| shown.live.add(&series.name, class, &finished.record));
        self.counts.add(&series.name, class, &finished.record);
        Ok(())
    }

    /// Records a value of the server's metrics.
    ///
    /// # Errors
    /// A file of the run folder cannot be written.
    pub(super) fn sample(&mut self, series: &Series, step: u32, sample: &Sample) -> Result<()> {
        self.writer.sample(&series.name, step, sample)
    }

    /// Shows the state of a running step.
    pub(super) fn tick(&self, shown: &StepProgress, tally: &StepTally) {
        self.show(|Shown { live, watched, .. }| {
            live.in_flight(shown.in_flight);
            live.workers(&shown.workers);
            watched.tick(shown, tally);
        });
        self.progress.tick(shown);
    }

    /// Records a step that has ended, and takes back the memory of its requests.
    ///
    /// # Errors
    /// A file of the run folder cannot be written.
    pub(super) fn step(&mut self, series: &Series, step: &Step, tally: StepTally) -> Result<()> {
        let mut gaps = vec![(ALL, "itl", tally.itl.pooled().buckets())];
        for (i, class) in series.plan.workload.classes().iter().enumerate() {
            gaps.extend(tally.itl.of_class(i).map(|own| (class.name.as_str(), "itl", own.buckets())));
        }
        self.writer.step(step, &gaps)?;
        self.counts.end(tally);
        self.progress.step(step);
        self.show(|Shown { live, watched, .. }| {
            live.end(step);
            watched.end();
        });
        Ok(())
    }

    /// Replaces `result.json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn result(&mut self, run: &Run) -> Result<()> {
        self.progress.answers(run);
        self.show(|Shown { live, watched, page }| {
            live.answers(run);
            watched.answers(run, (page.words)(run));
        });
        self.writer.result(&json::result(run))
    }

    /// Flushes all measurements to disk, and ends the sweep if the disk is nearly full.
    ///
    /// # Errors
    /// A file cannot be written, or the run folder no longer exists.
    pub(super) fn flush(&mut self, termination: &Termination) -> Result<()> {
        self.writer.flush()?;
        if termination.reason().is_some() {
            return Ok(());
        }
        if let Some(low) = self.disk.low(self.dir()) {
            tracing::warn!(
                "warning: the disk of {} is nearly full, {} are free and {} are kept for the reports: finishing the requests in flight, then \
                 reporting",
                self.dir().display(),
                bytes(low.free),
                bytes(low.reserve)
            );
            termination.end(TerminationReason::Disk(low));
        }
        Ok(())
    }

    /// Updates the live metrics and the state, if they are served.
    fn show(&self, tell: impl FnOnce(&Shown)) {
        if let Some(shown) = &self.live {
            tell(shown);
        }
    }
}

/// The views of a sweep that are served while it runs.
pub(super) struct Shown {
    pub(super) live: Live,
    pub(super) watched: Watched,
    pub(super) page: LivePage,
}

/// The counts of a sweep over all of its attempts so far.
#[derive(Debug, Default)]
pub(super) struct EarlierCounts {
    pub(super) counts: SweepTally,
    /// Number of warm-up requests on disk.
    pub(super) warmups: u64,
}
