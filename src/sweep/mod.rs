//! The director: the only place that joins the parts. It asks the search for a level, has it measured, and writes what came
//! of it, until the search is done.

mod answers;
pub mod bare;
mod begin;
mod cache;
mod calibrate;
mod ended;
mod idle;
mod listen;
mod live;
mod looks;
mod prepare;
mod profile;
mod progress;
mod resume;
mod scrape;
mod side;
mod step;
mod tally;
mod variant;

pub use resume::{Resumption, resume};

use crate::calibrate::Calibration;
use crate::caveat::Caveat;
use crate::client::config::Http;
use crate::launch::Groups;
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
use crate::workload::traffic::Traffic;
use anyhow::{Context, Result};
use begin::{Folder, first_ready, in_order};
use listen::Listener;
use live::Live;
use prepare::Prepared;
use progress::Progress;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tally::SweepTally;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use variant::Servers;

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
    /// Where the metrics of the running sweep are served.
    pub listen: Option<SocketAddr>,
    /// Lists what is started for the variants, so that it can be ended where this process leaves at once.
    pub groups: Groups,
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
    /// What the plan as a whole sends.
    traffic: Traffic,
    /// Those of the variants.
    servers: Servers,
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
    /// The metrics that it shows of itself, while they are served.
    live: Option<(Live, Listener)>,
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
    let live = options.listen.map(|address| serve(plan, address)).transpose()?;
    let host = Host::of(&plan.client, options.virtual_time)?;
    let plan_toml = plan.to_toml()?;
    let create = || Writer::create(&options.out, &plan_toml, options.force);
    let budget = own_budget(plan, options.budget);
    let noted = |meta: Meta| Meta { budget, calibration: options.calibration.clone(), ..meta };
    let mut servers = Servers::new(plan, &options.out, options.groups.clone(), &[], 0);
    let (ready, writer, meta) = if first.variant.is_none() {
        let ready = tokio::select! {
            ready = prepare::prepare(&first.plan, (&traffic, &series), &host) => ready?,
            () = interrupt.cancelled() => anyhow::bail!("interrupted before anything was measured"),
        };
        ready.check_series(&series, &traffic)?;
        let meta = noted(meta(plan, Some(&ready), options.virtual_time));
        (ready, create()?, meta)
    } else {
        // Servers write into the folder from their start on.
        let (writer, meta) = (create()?, noted(meta(plan, None, options.virtual_time)));
        let folder = Folder { plan, plan_toml: &plan_toml, writer: &writer, meta: &meta, steps: &[] };
        let first =
            Box::pin(first_ready(&series, &mut servers, &folder, (&traffic, &host, &interrupt))).await?;
        let Some(ready) = first else { return finish(&options.out) };
        (ready, writer, meta)
    };
    let mut sweep = Sweep {
        plan: &first.plan,
        series: first.name.clone(),
        whole: plan,
        plan_toml,
        host,
        ready,
        traffic,
        servers,
        writer,
        meta,
        steps: Vec::new(),
        began: Instant::now(),
        before: Duration::ZERO,
        warmups: 0,
        resets: true,
        interrupt,
        sweep_tally: SweepTally::default(),
        progress: Progress::new(options.progress, step::shown_limit(plan)),
        live,
    };
    if let Some(level) = highest(plan) {
        sweep.note_beyond(level);
    }
    sweep.say_what_is_read();
    Box::pin(sweep.run(&series)).await?;
    finish(&options.out)
}

/// Reads back what was measured.
fn finish(dir: &Path) -> Result<Run> {
    rundir::read(dir).context("failed to read back the run folder")
}

/// What comes after the steps of a series.
enum After {
    /// The next series.
    Next,
    /// The next server: this one is gone.
    Gone,
    /// Nothing: the sweep is over.
    Nothing,
}

/// The adaptive search reckons with its budget itself; other modes only end by one.
fn own_budget(plan: &Plan, budget: Option<Duration>) -> Option<Span> {
    budget.filter(|_| !plan.rows.is_empty() || !matches!(plan.search.mode, Mode::Adaptive(_))).map(Span)
}

impl<'a> Sweep<'a> {
    /// Everything from the first request that is written down to the last step of the last series.
    async fn run(&mut self, series: &'a [Series]) -> Result<()> {
        self.write_result()?;
        let measured = self.all(series).await;
        let done = measured.is_ok() && self.is_done(series);
        let stopped = self.servers.end(done).await;
        measured.and(stopped)?;
        self.note_interruption()?;
        self.write_result()?;
        self.progress.done();
        Ok(())
    }

    /// Every series that has something left to measure.
    async fn all(&mut self, series: &'a [Series]) -> Result<()> {
        let resumed = !self.steps.is_empty();
        let order = in_order(series, &self.steps);
        for (i, one) in order.iter().enumerate() {
            let search = one.plan.searcher().map_err(anyhow::Error::msg)?;
            if self.servers.is_over(one) || search.next(&one.name, &self.steps) == Next::Done {
                continue;
            }
            if self.interrupt.is_cancelled() || !self.turn_to(one, i, series).await? {
                continue;
            }
            if series.len() > 1 {
                self.progress.say(&format!("series {} of {}: {}", i + 1, series.len(), one.name));
            }
            self.warm_up().await?;
            if resumed && !self.own_steps().is_empty() {
                // In the middle of a series: what it took to get ready again is not the sweep's.
                self.began = Instant::now();
            }
            match self.steps(&search).await? {
                After::Next => {}
                After::Gone if one.variant.is_some() => {
                    let step = self.steps.last().map_or(0, |s| s.step);
                    self.servers.died(step).await?;
                    self.write_result()?;
                }
                After::Gone | After::Nothing => break,
            }
        }
        Ok(())
    }

    /// Whether nothing is left to measure on the server that is ready.
    fn is_done(&self, series: &[Series]) -> bool {
        let done = |one: &Series| {
            let search = one.plan.searcher();
            search.is_ok_and(|search| search.next(&one.name, &self.steps) == Next::Done)
        };
        series.iter().filter(|one| self.servers.serves(one)).all(done)
    }

    /// Makes everything ready for a series, its server first; whether it can be measured. The time that servers take to start and to
    /// stop is not the sweep's.
    async fn turn_to(&mut self, one: &'a Series, number: usize, series: &[Series]) -> Result<bool> {
        (self.plan, self.series) = (&one.plan, one.name.clone());
        if one.variant.is_some() && !self.servers.serves(one) {
            let (spent, done) = (self.now(), self.is_done(series));
            if self.servers.any() {
                self.servers.end(done).await?;
                self.write_result()?;
            }
            let begun = self.servers.begin(one, (&self.traffic, series), &self.host, &self.interrupt).await;
            (self.before, self.began) = (spent, Instant::now());
            let Some(ready) = begun? else {
                return self.write_result().map(|()| false);
            };
            (self.ready, self.resets) = (ready, true);
        } else if number > 0 || one.variant.is_some() {
            self.ready.turn_to(&one.plan).with_context(|| format!("in the series {}", one.name))?;
        }
        Ok(true)
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

    /// The steps of one series.
    async fn steps(&mut self, search: &Search) -> Result<After> {
        while let Next::Measure(ask) = search.next(&self.series, &self.steps) {
            if self.interrupt.is_cancelled() {
                return Ok(After::Nothing);
            }
            if over_budget(self.plan, self.meta.budget, self.now(), &ask) {
                self.note(Caveat::BudgetSpent { next: ask.level.value });
                return self.write_result().map(|()| After::Nothing);
            }
            self.note_beyond(ask.level);
            self.measure(ask).await?;
            match self.steps.last().and_then(|s| s.abort) {
                Some(Abort::Interrupted) => return Ok(After::Nothing),
                Some(Abort::ServerGone) => return Ok(After::Gone),
                _ if self.servers.exited() => return Ok(After::Gone),
                _ => {}
            }
        }
        Ok(After::Next)
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

    /// Brings the metrics up to date, where they are served.
    fn show(&self, tell: impl FnOnce(&Live, &Self)) {
        if let Some((live, _)) = &self.live {
            tell(live, self);
        }
    }

    fn note(&mut self, caveat: Caveat) {
        self.meta.noted.push(caveat);
    }

    /// Replaces `result.json` by what is known now.
    fn write_result(&mut self) -> Result<()> {
        let mut meta = Meta {
            sent: sent_in_order(self.sweep_tally.sent(), self.whole),
            variants: self.servers.runs.clone(),
            model: self.servers.models().unwrap_or_else(|| self.meta.model.clone()),
            ..self.meta.clone()
        };
        meta.noted.extend(self.sweep_tally.caveats());
        let caveats = meta.noted.clone();
        let run =
            Run::assemble(self.whole, self.plan_toml.clone(), meta, self.steps.clone(), Vec::new(), caveats)?;
        self.show(|live, _| live.answers(&run));
        self.writer.result(&json::result(&run))
    }
}

/// Serves the metrics of a sweep with this plan.
fn serve(plan: &Plan, address: SocketAddr) -> Result<(Live, Listener)> {
    let about = vec![
        ("name", plan.name.clone()),
        ("server", plan.server_title()),
        ("workload", plan.sent()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let (live, registry) = Live::new(plan.slo.as_slice(), about);
    let listener = Listener::start(address, registry)?;
    tracing::info!("metrics of the sweep: http://{}/metrics", listener.address());
    Ok((live, listener))
}

/// Lengths in the order of the plan's series and classes, all classes together first.
fn sent_in_order(mut sent: Vec<Sent>, plan: &Plan) -> Vec<Sent> {
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

/// What is known before the first step. Where each variant has a server of its own, none is `ready` for all of them.
fn meta(plan: &Plan, ready: Option<&Prepared>, virtual_time: bool) -> Meta {
    let of_all = || virtual_time.then_some(Caveat::VirtualTime).into_iter().collect();
    Meta {
        goodput_version: env!("CARGO_PKG_VERSION").into(),
        host: machine(),
        seed: plan.seed,
        started: jiff::Timestamp::now().to_string(),
        server: plan.server_title(),
        model: ready.map(|r| r.model.clone()).or_else(|| plan.server.model.clone()).unwrap_or_default(),
        workload: plan.sent(),
        sent: Vec::new(),
        traffic: plan.workload.found.iter().filter_map(|f| f.note.clone()).collect(),
        slo: plan.slo.summary(),
        gpu: plan.hardware.gpu.clone(),
        gpus: plan.hardware.gpu_count(),
        notes: plan.notes.clone(),
        virtual_time,
        noted: ready.map_or_else(of_all, |r| r.noted.clone()),
        budget: None,
        words: ready.map(|r| r.rate.clone()),
        calibration: None,
        facts: ready.map(|r| r.facts.clone()).unwrap_or_default(),
        environment: plan.environment.clone().into(),
        resumed: Vec::new(),
        variants: Vec::new(),
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
        let got = sent_in_order(want.iter().rev().cloned().collect(), &Plan::from_text(&text).unwrap());
        assert_eq!(got, want);
    }
}
