//! The director: chooses the next step, has the [`Runner`] run it, and writes the results so far into the run folder.

use super::bounds::over_budget;
use super::cache::OtherClients;
use super::clock::SweepClock;
use super::fleet::SweepFleet;
use super::journal::Journal;
use super::metadata::sent_in_order;
use super::next::{After, after, highest, in_order, is_measured, series_steps};
use super::prepare::PlanSeries;
use super::retry_after::{Waits, is_respected, server_key};
use super::runner::{MeasuredStep, Runner, Task};
use super::scrape;
use super::servers::Servers;
use super::termination::{self, Termination};
use anyhow::{Context, Result};
use goodput_core::caveat::{Caveat, ClientCaveat, CountersCaveat, SweepCaveat};
use goodput_core::level::Level;
use goodput_core::units::{Span, short};
use goodput_load::calibrate::beyond;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::{Meta, Run};
use goodput_stats::search::{Ask, Next, Search};
use goodput_stats::stats::step::Step;
use goodput_stats::stats::workers::MOST_ATTEMPTS;
use std::time::Duration;

/// A sweep: its plan, its folder, the time that it has spent, and what has been measured so far.
pub(super) struct Sweep<'a> {
    pub(super) plan: &'a Plan,
    pub(super) plan_toml: String,
    pub(super) all: PlanSeries<'a>,
    /// Facts about the sweep as a whole, including its budget and its caveats.
    pub(super) meta: Meta,
    pub(super) steps: Vec<Step>,
    pub(super) clock: SweepClock,
    pub(super) waits: Waits,
    pub(super) termination: Termination,
    pub(super) journal: Journal,
}

impl<'a> Sweep<'a> {
    /// Measures everything in the plan, from the warm-up of the first series to the last step of the last one.
    ///
    /// # Errors
    /// The load or its traffic fails, the run folder cannot be written, or processes of a server cannot be killed.
    pub(super) async fn run(&mut self, runner: &mut Runner, spent: Duration) -> Result<()> {
        self.clock = SweepClock::at(spent);
        self.write_result(&runner.servers)?;
        let measured = match self.plan.alternate {
            Some(_) => self.alternating(runner).await,
            None => self.in_sequence(runner).await,
        };
        let done = measured.is_ok() && self.is_served_measured(&runner.servers);
        runner.ready.release(&runner.host).await;
        let stopped = runner.servers.end(done).await;
        if self.plan.alternate.is_some() {
            runner.servers.all_done(|name| {
                self.all.series.iter().any(|one| one.name == name && is_measured(one, &self.steps))
            });
        }
        measured.and(stopped)?;
        let left = || {
            let mut all = self.all.series.iter().filter(|one| !runner.servers.is_over(one));
            all.any(|one| one.plan.searcher().is_ok() && !is_measured(one, &self.steps))
        };
        let caveat = termination::caveat(&self.termination, &self.steps, left);
        self.meta.noted.extend(caveat.map(Caveat::from));
        self.write_result(&runner.servers)?;
        self.journal.end();
        Ok(())
    }

    /// Measures all series that have something left to measure, one after the other.
    async fn in_sequence(&mut self, runner: &mut Runner) -> Result<()> {
        let resumed = !self.steps.is_empty();
        let series = self.all.series;
        for (i, one) in in_order(series, &self.steps).into_iter().enumerate() {
            let search = one.plan.searcher().map_err(anyhow::Error::msg)?;
            if runner.servers.is_over(one) || is_measured(one, &self.steps) {
                continue;
            }
            if self.termination.is_requested() || !self.turn_to(runner, one, i).await? {
                continue;
            }
            if series.len() > 1 {
                let name = one.name.split_whitespace().collect::<Vec<_>>().join(" ");
                self.journal.say(&format!("series {} of {}: {name}", i + 1, series.len()));
            }
            if !self.leave_alone(one).await {
                break;
            }
            runner.warm_up(one, &mut self.journal, &self.termination).await?;
            if resumed && !series_steps(self.plan, &self.steps, &one.name).is_empty() {
                // In the middle of a series, the time for preparing the server again does not count.
                self.clock.rewind();
            }
            match self.measure_series(runner, one, &search).await? {
                After::Continue => {}
                After::ServerGone if one.variant.is_some() => {
                    let step = self.steps.last().map_or(0, |s| s.step);
                    runner.servers.record_death(step).await?;
                    self.write_result(&runner.servers)?;
                }
                After::ServerGone | After::Stop => break,
            }
        }
        Ok(())
    }

    /// Returns true if nothing is left to measure on the server that is ready.
    fn is_served_measured(&self, servers: &Servers) -> bool {
        self.all.series.iter().filter(|one| servers.serves(one)).all(|one| is_measured(one, &self.steps))
    }

    /// Prepares a series and its server. Returns false if it cannot be measured. The time that servers take to start
    /// and to stop does not count against the sweep.
    async fn turn_to(&mut self, runner: &mut Runner, one: &Series, number: usize) -> Result<bool> {
        if one.variant.is_some() && !runner.servers.serves(one) {
            let spent = self.clock.now();
            if runner.servers.any() {
                let done = self.is_served_measured(&runner.servers);
                runner.ready.release(&runner.host).await;
                runner.servers.end(done).await?;
                self.write_result(&runner.servers)?;
            }
            let begun = runner.servers.begin(one, self.all, &runner.host, &self.termination.token()).await;
            self.clock = SweepClock::at(spent);
            let Some(ready) = begun? else {
                self.write_result(&runner.servers)?;
                return Ok(false);
            };
            runner.ready = ready;
            // The waits belong to the previous server.
            self.waits.clear();
        } else if number > 0 || one.variant.is_some() {
            runner.ready.turn_to(&one.plan).with_context(|| format!("in the series {}", one.name))?;
        }
        Ok(true)
    }

    /// Measures the steps of one series.
    async fn measure_series(&mut self, runner: &mut Runner, one: &Series, search: &Search) -> Result<After> {
        while let Next::Measure(ask) = search.next(&one.name, &self.steps) {
            if self.termination.is_requested() {
                return Ok(After::Stop);
            }
            let begins = self.clock.now() + self.waits.left(&server_key(self.plan, &one.name));
            if over_budget(&one.plan, self.meta.budget, begins, &ask) {
                self.note(SweepCaveat::BudgetSpent { next: ask.level.value });
                self.write_result(&runner.servers)?;
                return Ok(After::Stop);
            }
            self.note_beyond(runner, ask.level);
            self.measure(runner, one, ask, None).await?;
            match after(&self.steps) {
                After::Continue if runner.servers.exited() => return Ok(After::ServerGone),
                After::Continue => {}
                end @ (After::ServerGone | After::Stop) => return Ok(end),
            }
        }
        Ok(After::Continue)
    }

    /// Returns the number of the next step.
    pub(super) fn number(&self) -> u32 {
        self.steps.len() as u32 + 1
    }

    /// Measures one level and records the step. `round` is the number of the step within its series, if variants
    /// alternate.
    pub(super) async fn measure(
        &mut self,
        runner: &mut Runner,
        series: &Series,
        ask: Ask,
        round: Option<u32>,
    ) -> Result<()> {
        if !self.leave_alone(series).await {
            return Ok(());
        }
        for _ in 0..MOST_ATTEMPTS {
            self.measure_once(runner, series, ask, round).await?;
            let Some(step) = self.steps.last().filter(|step| step.is_worker_fault()) else { return Ok(()) };
            self.journal.say(&format!("the step is measured again: {}", step.reason));
            if let Some(workers) = &mut runner.workers {
                workers.drop_lost(step).await;
            }
            if self.termination.is_requested() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Measures one level once.
    async fn measure_once(
        &mut self,
        runner: &mut Runner,
        series: &Series,
        ask: Ask,
        round: Option<u32>,
    ) -> Result<()> {
        let earlier = series_steps(self.plan, &self.steps, &series.name);
        let task = Task { series, number: self.number(), ask, earlier: &earlier, round, clock: self.clock };
        let measured = runner.measure(task, &mut self.journal, &self.termination).await?;
        drop(earlier);
        let MeasuredStep { step, tally, left_alone, noted, others } = measured;
        self.journal.step(series, &step, tally)?;
        self.meta.noted.extend(noted.into_iter().map(Caveat::from));
        others.into_iter().for_each(|others| self.note_others(step.step, others));
        if let Some(until) = left_alone.filter(|_| is_respected(&series.plan, &step)) {
            self.waits.add(server_key(self.plan, &series.name), until);
        }
        self.steps.push(step);
        self.meta.workers = SweepFleet::machines(runner.workers.as_ref());
        self.write_result(&runner.servers)
    }

    /// Prints the known facts before the first step. `resumed_at` is the number of that step in a resumed sweep.
    pub(super) fn introduce(&mut self, runner: &Runner, resumed_at: Option<u32>, spent: Duration) {
        if let Some(step) = resumed_at {
            let spent = Span::secs(spent.as_secs());
            return self.journal.say(&format!("resumed at step {step}, with {spent} of the sweep spent"));
        }
        let Some(first) = self.all.series.first() else { return };
        if let Some(level) = highest(self.plan) {
            self.note_beyond(runner, level);
        }
        if let Some(silent) = scrape::missing_metrics_hint(&self.meta.facts, &first.plan.server.metrics) {
            self.journal.say(&silent);
        }
    }

    /// Warns once, in advance, if the plan asks for more than this machine's client was calibrated for.
    fn note_beyond(&mut self, runner: &Runner, level: Level) {
        let calibration = self.meta.calibration.as_ref().filter(|_| !runner.host.is_paused());
        let share = runner.ready.load.share(level);
        let share = match &runner.workers {
            Some(workers) => workers.largest_share(share),
            None => share,
        };
        let beyond = calibration.and_then(|c| beyond(c, &share));
        let is_noted = self
            .meta
            .noted
            .iter()
            .any(|c| matches!(c, Caveat::Client(ClientCaveat::BeyondCalibration { .. })));
        if let Some(caveat) = beyond.filter(|_| !is_noted) {
            if let ClientCaveat::BeyondCalibration { asked, most, unit } = &caveat {
                tracing::warn!(
                    "warning: the plan asks for up to {} {}, and this machine's client was calibrated for {}: beyond that \
                     the client is measured, not the server",
                    short(*asked),
                    unit.name(),
                    short(*most)
                );
            }
            self.note(caveat);
        }
    }

    /// Records the use of the server by other clients in the first step where it occurs, and counts such later steps.
    fn note_others(&mut self, step: u32, others: OtherClients) {
        for noted in &mut self.meta.noted {
            if let Caveat::Counters(CountersCaveat::OtherClients { steps, .. }) = noted {
                *steps += 1;
                return;
            }
        }
        let OtherClients { asked, own } = others;
        self.note(CountersCaveat::OtherClients { step, asked, own, steps: 1 });
    }

    pub(super) fn note(&mut self, caveat: impl Into<Caveat>) {
        self.meta.noted.push(caveat.into());
    }

    /// Replaces `result.json` by the current results.
    pub(super) fn write_result(&mut self, servers: &Servers) -> Result<()> {
        let counts = self.journal.counts();
        let mut meta = Meta {
            sent: sent_in_order(counts.sent(), self.plan),
            variants: servers.runs.clone(),
            model: servers.models().unwrap_or_else(|| self.meta.model.clone()),
            left_alone: self.waits.to_meta(),
            ..self.meta.clone()
        };
        meta.noted.extend(counts.caveats());
        let caveats = meta.noted.clone();
        let run =
            Run::assemble(self.plan, self.plan_toml.clone(), meta, self.steps.clone(), Vec::new(), caveats)?;
        self.journal.result(&run)
    }
}
