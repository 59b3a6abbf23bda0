//! The director: the only place that joins the parts. It asks the search for a level, has it measured, and writes what came
//! of it, until the search is done.

mod answers;
pub mod bare;
mod cache;
mod calibrate;
mod ended;
mod looks;
mod prepare;
mod progress;
mod resume;
mod step;
mod tally;

pub use resume::{Resumption, resume};

use crate::calibrate::Calibration;
use crate::caveat::Caveat;
use crate::client::config::Http;
use crate::level::Level;
use crate::load::descriptors::Descriptors;
use crate::load::host::{Host, machine};
use crate::plan::{Plan, Series};
use crate::record::Finished;
use crate::rundir::{self, Meta, Run, Sent, Writer, json};
use crate::search::config::Mode;
use crate::search::{Ask, Next, Search};
use crate::stats::step::{Abort, Step, StepKind};
use crate::units::Span;
use anyhow::{Context, Result};
use prepare::Prepared;
use progress::Progress;
use std::path::PathBuf;
use std::time::Duration;
use tally::SweepTally;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How to run a sweep, besides its plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The run folder.
    pub out: PathBuf,
    /// Replace an earlier run in that folder.
    pub force: bool,
    /// Simulate time; the plan's server must be simulated.
    pub virtual_time: bool,
    /// No step is begun that could end later than this after the start.
    pub budget: Option<Duration>,
    /// Show a progress bar.
    pub progress: bool,
    /// What this machine's client can do.
    pub calibration: Option<Calibration>,
}

/// A sweep that is running.
struct Sweep<'a> {
    /// As the series has it that is measured.
    plan: &'a Plan,
    series: String,
    whole: &'a Plan,
    plan_toml: String,
    host: Host,
    ready: Prepared,
    writer: Writer,
    meta: Meta,
    steps: Vec<Step>,
    /// Start of the sweep, or when it was resumed: `started_s` of its steps counts from here.
    began: Instant,
    /// Time that was spent before, where it was resumed.
    before: Duration,
    /// Warm-up requests sent before, where it was resumed.
    warmups: u64,
    /// Whether the server may empty its prefix cache when it is asked to: not where it once said that it cannot.
    resets: bool,
    interrupt: CancellationToken,
    sweep_tally: SweepTally,
    progress: Progress,
}

/// Runs a sweep into its folder and returns what was measured; the caller writes the reports.
///
/// On the real clock call it on any runtime; with `virtual_time` on a current-thread runtime whose clock is paused.
/// `interrupt` ends it early, with everything measured until then kept. Errors before the first request leave no folder
/// behind; later ones leave what was measured on disk.
pub async fn run(plan: &Plan, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    if options.virtual_time {
        plan.check_virtual()?;
    }
    rundir::check_free(&options.out, options.force)?;
    let mut plan = plan.clone();
    let traffic = plan.open_files()?;
    let (plan, series) = (&plan, plan.series());
    let first = series.first().context("a plan has at least one series")?;
    if !options.virtual_time {
        warn_of_descriptors(plan);
    }
    let host = Host::of(&plan.client, options.virtual_time)?;
    let ready = tokio::select! {
        ready = prepare::prepare(&first.plan, (&traffic, &series), &host) => ready?,
        () = interrupt.cancelled() => anyhow::bail!("interrupted before anything was measured"),
    };
    ready.check_series(&series, &traffic)?;
    let plan_toml = plan.to_toml()?;
    let mut sweep = Sweep {
        plan: &first.plan,
        series: first.name.clone(),
        whole: plan,
        writer: Writer::create(&options.out, &plan_toml, options.force)?,
        meta: Meta {
            budget: own_budget(plan, options.budget),
            calibration: options.calibration.clone(),
            ..meta(plan, &ready, options.virtual_time)
        },
        plan_toml,
        host,
        ready,
        steps: Vec::new(),
        began: Instant::now(),
        before: Duration::ZERO,
        warmups: 0,
        resets: true,
        interrupt,
        sweep_tally: SweepTally::default(),
        progress: Progress::new(options.progress, step::shown_limit(plan)),
    };
    if let Some(level) = highest(plan) {
        sweep.note_beyond(level);
    }
    sweep.run(&series).await?;
    rundir::read(&options.out).context("failed to read back the run folder")
}

/// The adaptive search reckons with its budget itself; other modes only end by one.
fn own_budget(plan: &Plan, budget: Option<Duration>) -> Option<Span> {
    budget.filter(|_| !plan.rows.is_empty() || !matches!(plan.search.mode, Mode::Adaptive(_))).map(Span)
}

impl<'a> Sweep<'a> {
    /// Everything from the first request that is written down to the last step of the last series.
    async fn run(&mut self, series: &'a [Series]) -> Result<()> {
        self.write_result()?;
        let resumed = !self.steps.is_empty();
        for (i, one) in series.iter().enumerate() {
            let search = one.plan.searcher().map_err(anyhow::Error::msg)?;
            if search.next(&one.name, &self.steps) == Next::Done {
                continue;
            }
            (self.plan, self.series) = (&one.plan, one.name.clone());
            if i > 0 {
                self.ready.turn_to(&one.plan).with_context(|| format!("in the series {}", one.name))?;
            }
            if series.len() > 1 {
                self.progress.say(&format!("series {} of {}: {}", i + 1, series.len(), one.name));
            }
            self.warm_up().await?;
            if resumed && !self.own_steps().is_empty() {
                // In the middle of a series: what it took to get ready again is not the sweep's.
                self.began = Instant::now();
            }
            if !self.steps(&search).await? {
                break;
            }
        }
        self.note_interruption()?;
        self.progress.done();
        Ok(())
    }

    /// Time of the sweep, without that between two tries.
    fn now(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    async fn warm_up(&mut self) -> Result<()> {
        let finished =
            prepare::warm_up(self.plan, &self.host, &self.series, &self.ready, &self.interrupt).await?;
        self.sent_before(finished)
    }

    /// Writes requests that were sent before a step and count for nothing.
    fn sent_before(&mut self, mut finished: Vec<Finished>) -> Result<()> {
        for f in &mut finished {
            f.record.id += self.warmups;
            let class = self.plan.workload.class_name(f.record.class);
            self.writer.request(&self.series, 0, class, f)?;
        }
        self.warmups += finished.len() as u64;
        self.writer.flush()?;
        self.writer.end_failures(&self.series, 0)
    }

    /// The steps of one series; whether another may follow.
    async fn steps(&mut self, search: &Search) -> Result<bool> {
        while let Next::Measure(ask) = search.next(&self.series, &self.steps) {
            if self.interrupt.is_cancelled() {
                return Ok(false);
            }
            if over_budget(self.plan, self.meta.budget, self.now(), &ask) {
                self.note(Caveat::BudgetSpent { next: ask.level.value });
                return self.write_result().map(|()| false);
            }
            self.note_beyond(ask.level);
            self.measure(ask).await?;
            let abort = self.steps.last().and_then(|s| s.abort);
            if matches!(abort, Some(Abort::Interrupted | Abort::ServerGone)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An interruption before, between or at the end of steps leaves none that says so.
    fn note_interruption(&mut self) -> Result<()> {
        let told = self.steps.iter().any(|s| s.abort == Some(Abort::Interrupted));
        if self.interrupt.is_cancelled() && !told {
            self.note(Caveat::Interrupted);
            self.write_result()?;
        }
        Ok(())
    }

    /// Says once, before it is tried, that the plan asks for more than this machine's client was calibrated for.
    fn note_beyond(&mut self, level: Level) {
        let share = self.share(level);
        let calibration = self.meta.calibration.as_ref();
        let calibration = calibration.filter(|_| !self.host.is_paused());
        let beyond = calibration.and_then(|c| c.beyond(&share));
        let told = self.meta.noted.iter().any(|c| matches!(c, Caveat::BeyondCalibration { .. }));
        if let Some(caveat) = beyond.filter(|_| !told) {
            tracing::warn!(
                "warning: {} {}",
                caveat.text(),
                caveat.advice(matches!(self.plan.search.mode, Mode::Adaptive(_)))
            );
            self.note(caveat);
        }
    }

    fn note(&mut self, caveat: Caveat) {
        self.meta.noted.push(caveat);
    }

    /// Replaces `result.json` by what is known now.
    fn write_result(&mut self) -> Result<()> {
        let mut meta = Meta { sent: in_order(self.sweep_tally.sent(), self.whole), ..self.meta.clone() };
        meta.noted.extend(self.sweep_tally.caveats());
        let caveats = meta.noted.clone();
        let run =
            Run::assemble(self.whole, self.plan_toml.clone(), meta, self.steps.clone(), Vec::new(), caveats)?;
        self.writer.result(&json::result(&run))
    }
}

/// Lengths in the order of the plan's series and classes, all classes together first.
fn in_order(mut sent: Vec<Sent>, plan: &Plan) -> Vec<Sent> {
    let series = plan.series();
    sent.sort_by_key(|s| {
        let own = series.iter().position(|one| one.name == s.series);
        let classes = own.map_or(&[][..], |i| series[i].plan.workload.classes());
        (own, classes.iter().position(|class| class.name == s.class))
    });
    sent
}

/// The highest level that the plan names.
fn highest(plan: &Plan) -> Option<Level> {
    let open = |rate: f64| Level::new(plan.workload.control(), rate);
    let max = plan.search.max_rate.map(|r| open(r.get()));
    match &plan.search.mode {
        Mode::Rates(rates) => rates.iter().map(|r| r.get()).reduce(f64::max).map(open),
        Mode::Concurrency(slots) => slots.iter().max().map(|n| Level::concurrency(n.get())),
        Mode::Ladder(ladder) => Some(Level::concurrency(ladder.max.get())),
        Mode::Burst(n) => Some(Level::concurrency(n.get())),
        Mode::Ramp(_) | Mode::Adaptive(_) => max,
    }
}

/// Raises the limit of open files, and says where the plan may want more than there are then.
fn warn_of_descriptors(plan: &Plan) {
    let (limits, wanted) = (Descriptors::raise(), u64::from(plan.step.max_in_flight) + 64);
    if let Some(most) = limits.soft.filter(|n| *n < wanted && plan.server.http != Http::Two) {
        tracing::warn!(
            "warning: this process may open {most} files, fewer than [step] max-in-flight = {} can take connections: raise \
             the hard limit (`ulimit -Hn`, LimitNOFILE= of a service), or lower max-in-flight",
            plan.step.max_in_flight
        );
    }
}

/// Whether a step that begins when so much is spent could end after the budget. A soak is no part of it.
fn over_budget(plan: &Plan, budget: Option<Span>, spent: Duration, ask: &Ask) -> bool {
    let late = |budget: Span| spent + longest_step(plan, ask.level) > budget.0;
    ask.kind != StepKind::Confirm && budget.is_some_and(late)
}

/// The longest that a step of this plan at `level` can take, tail and drain included.
pub fn longest_step(plan: &Plan, level: Level) -> Duration {
    let window = if plan.step.min_requests > 0 {
        plan.step.max_duration.0.max(plan.step.window(level.per_s()))
    } else {
        plan.step.window(level.per_s())
    };
    plan.step.settle.0 + window + plan.step.tail() + plan.step.drain.0
}

fn meta(plan: &Plan, ready: &Prepared, virtual_time: bool) -> Meta {
    Meta {
        goodput_version: env!("CARGO_PKG_VERSION").into(),
        host: machine(),
        seed: plan.seed,
        started: jiff::Timestamp::now().to_string(),
        server: plan.server_title(),
        model: ready.model.clone(),
        workload: plan.sent(),
        sent: Vec::new(),
        traffic: plan.workload.found.iter().filter_map(|f| f.note.clone()).collect(),
        slo: plan.slo.summary(),
        gpu: plan.hardware.gpu.clone(),
        gpus: plan.hardware.gpu_count(),
        notes: plan.notes.clone(),
        virtual_time,
        noted: ready.noted.clone(),
        budget: None,
        words: Some(ready.rate.clone()),
        calibration: None,
        resumed: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stand_in_the_order_of_the_plan() {
        let class = |name: &str| {
            format!(
                "[[workload.class]]\nname = \"{name}\"\nweight = 1\nprompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 2 }}\n"
            )
        };
        let text = format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n[workload]\nalone = true\n{}{}",
            class("chat"),
            class("all-in")
        );
        let sent = |series: &str, class: &str| Sent {
            series: series.into(),
            class: class.into(),
            input: None,
            output: None,
        };
        let want =
            vec![sent("mix", "all"), sent("mix", "chat"), sent("mix", "all-in"), sent("only chat", "all")];
        let got = in_order(want.iter().rev().cloned().collect(), &Plan::from_text(&text).unwrap());
        assert_eq!(got, want);
    }
}
