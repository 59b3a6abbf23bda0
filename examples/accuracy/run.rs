//! One sweep of a case with a strategy, a budget and a seed, and its answer.

use crate::cases::{Case, Change};
use crate::peers::{Peer, percentile};
use anyhow::{Context, Result};
use clap::ValueEnum;
use goodput::search::answer::{Goodput, Status};
use goodput::search::{Ask, Next, Search};
use goodput::sim::engine::Model;
use goodput::stats::step::Step;
use goodput::sweep::bare::Bare;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// The name of the only series.
pub(crate) const SERIES: &str = "main";

/// Who chooses the levels and reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// The adaptive search of this program.
    Ours,
    /// Ten equally spaced rates up to the capacity.
    Grid,
    /// A ramp, then bisection, in steps of 60 s.
    Bisect,
    /// A closed loop: doubling, then bisection, while 99 % meet all limits together.
    Joint,
    /// The same with 95 %.
    Joint95,
}

impl Strategy {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Ours => "adaptive search",
            Self::Grid => "grid of ten",
            Self::Bisect => "ramp and bisection",
            Self::Joint => "closed loop, joint .99",
            Self::Joint95 => "closed loop, joint .95",
        }
    }
}

/// The settings shared by all runs of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setting {
    pub(crate) strategy: Strategy,
    pub(crate) budget_s: f64,
    /// Interval width at which the adaptive search stops, as a share of the rate.
    pub(crate) width: f64,
}

/// The answer of a strategy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) rate: Option<f64>,
    pub(crate) interval: Option<[f64; 2]>,
    pub(crate) safe: Option<f64>,
    /// True if it reports that the server changed during the sweep.
    pub(crate) names_change: bool,
    pub(crate) reason: String,
}

/// A finished sweep.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) answer: Answer,
    /// Simulated time in seconds.
    pub(crate) spent_s: f64,
    /// CPU time of this machine in seconds, if the kernel reports it.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) steps: Vec<Step>,
}

/// Sweeps a case.
pub(crate) fn run(case: &Case, setting: Setting, seed: u32) -> Result<Run> {
    let started = cpu_s();
    let (plan, model) = case.build(seed, setting.budget_s, setting.width)?;
    let mut sweep = Bare::on(&plan, model)?;
    let mut events = Events::new(case, seed);
    let peer = |sweep| Peer { sweep, budget_s: setting.budget_s, max_rate: case.max_rate() };
    let answer = match setting.strategy {
        Strategy::Ours => {
            let search = plan.searcher().map_err(anyhow::Error::msg)?;
            ours(case, &search, &mut sweep, &mut events)?
        }
        Strategy::Grid => peer(&mut sweep).grid()?,
        Strategy::Bisect => peer(&mut sweep).bisect()?,
        Strategy::Joint => peer(&mut sweep).joint(0.99)?,
        Strategy::Joint95 => peer(&mut sweep).joint(0.95)?,
    };
    let steps = sweep.steps().to_vec();
    let spent_s = steps.last().map_or(0.0, |s| s.ended_s);
    let cpu_s = cpu_s().zip(started).map(|(now, then)| now - then);
    Ok(Run { answer, spent_s, cpu_s, steps })
}

/// Measures one long step at the true rate and returns the misses of the binding limit over the allowed misses, which
/// should be 1. `None` without a true rate or a latency limit.
pub(crate) fn at_truth(case: &Case, requests: u32) -> Result<Option<f64>> {
    let Some(rate) = case.truth.rate.filter(|_| case.suits_peers()) else { return Ok(None) };
    let (plan, _) = case.build(0, 900.0, 0.1)?;
    let model = case.settled_model(u64::from(case.seed(0)));
    let length_s = f64::from(requests) / rate;
    let mut sweep = Bare::on(&plan, model)?;
    let [settle, measure] = [length_s / 20.0, length_s].map(Duration::from_secs_f64);
    let step = sweep.measure_whole(rate, settle, measure)?;
    let shares = step.limits.iter().filter_map(|row| {
        let allowed = 1.0 - percentile(&row.limit)?;
        Some(row.misses as f64 / row.n.saturating_sub(row.censored).max(1) as f64 / allowed)
    });
    Ok(shares.reduce(f64::max))
}

/// Changes of the server within steps, at random times.
struct Events {
    change: Option<Change>,
    rng: ChaCha8Rng,
}

impl Events {
    fn new(case: &Case, seed: u32) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(u64::from(case.seed(seed)) << 32 | 0xe7e7);
        Self { change: case.change, rng }
    }

    /// Applies the changes that belong into a step, before it is measured.
    fn before(&mut self, ask: &Ask, sweep: &mut Bare<'_>) {
        let Some(change) = self.change else { return };
        let (now, at) = (sweep.now(), self.rng.random::<f64>());
        let steps = sweep.steps().to_vec();
        if let Model::VariableSpeed(server) = sweep.model_mut() {
            change.within(server, &steps, ask, now, at);
        }
    }
}

fn ours(case: &Case, search: &Search, sweep: &mut Bare<'_>, events: &mut Events) -> Result<Answer> {
    while let Next::Measure(ask) = search.next(SERIES, sweep.steps()) {
        events.before(&ask, sweep);
        sweep.measure(ask)?;
    }
    let answer = search.answers(SERIES, sweep.steps()).into_iter().next().context("there is one answer")?;
    let goodput = case.read(answer);
    Ok(Answer {
        status: goodput.status(),
        rate: goodput.rate(),
        interval: goodput.interval90(),
        safe: goodput.safe_rate(),
        names_change: names_change(&goodput),
        reason: goodput::report::words::reason(&goodput.reason),
    })
}

/// Returns true if an answer reports that the server changed during the sweep.
fn names_change(goodput: &Goodput) -> bool {
    goodput.support.change.is_some()
}

/// Ramps the rate until its knee and returns the location of the knee; `None` if none was found.
pub(crate) fn knee(case: &Case, seed: u32) -> Result<Option<f64>> {
    // Start at about a tenth of the capacity, at a level that differs from run to run.
    let offset = f64::from(case.seed(seed) % 1000) / 1000.0;
    let start = case.truth.capacity * 0.1 * 1.5_f64.powf(offset - 0.5);
    let (plan, model) =
        case.build_with(seed, &format!("ramp = {{ start = {start:.6}, until = \"knee\" }}\n"))?;
    let search = plan.searcher().map_err(anyhow::Error::msg)?;
    let mut sweep = Bare::on(&plan, model)?;
    while let Next::Measure(ask) = search.next(SERIES, sweep.steps()) {
        sweep.measure(ask)?;
    }
    let answer = search.answers(SERIES, sweep.steps()).into_iter().next().context("there is one answer")?;
    Ok(answer.knee.map(|knee| knee.rate))
}

/// Measures steps of usual length at the true rate of a case with one latency limit, each from an idle server. Returns
/// the printed bounds of the p99 in milliseconds; `None` for a step with too few requests for one.
pub(crate) fn bounds_at_truth(case: &Case, seed: u32, steps: u32) -> Result<Vec<[Option<f64>; 2]>> {
    let (Some(rate), [target]) = (case.truth.rate, &case.targets[..]) else { return Ok(Vec::new()) };
    let (plan, model) = case.build(seed, 900.0, 0.1)?;
    let mut sweep = Bare::on(&plan, model)?;
    for _ in 0..steps {
        sweep.measure_whole(rate, plan.step.settle.0, plan.step.window(Some(rate)))?;
    }
    let quantiles = sweep.steps().iter().map(|s| s.quantiles(target.metric));
    Ok(quantiles.map(|q| [q.p99_low, q.p99_high]).collect())
}

/// Returns the CPU time of this thread in seconds, if the kernel reports it.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|ns| ns / 1e9)
}
