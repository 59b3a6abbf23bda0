//! One sweep: a case, a strategy, a budget, a seed; and what it answered.

use crate::cases::Case;
use crate::peers::Peer;
use anyhow::{Context, Result};
use clap::ValueEnum;
use goodput::level::Level;
use goodput::search::answer::Status;
use goodput::search::{Ask, Ends, Next, Search};
use goodput::stats::step::{Step, StepKind};
use goodput::sweep::bare::Bare;
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

/// What is the same for all runs of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setting {
    pub(crate) strategy: Strategy,
    pub(crate) budget_s: f64,
    /// Where the adaptive search stops, as a share of the rate.
    pub(crate) width: f64,
}

/// What a strategy answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) rate: Option<f64>,
    pub(crate) interval: Option<[f64; 2]>,
    pub(crate) safe: Option<f64>,
    pub(crate) reason: String,
}

/// A sweep that is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) answer: Answer,
    /// Simulated seconds.
    pub(crate) spent_s: f64,
    /// Seconds of this machine's processor, where it tells.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) steps: Vec<Step>,
}

/// Sweeps a case.
pub(crate) fn run(case: &Case, setting: Setting, seed: u32) -> Result<Run> {
    let started = cpu_s();
    let (plan, model) = case.build(seed, setting.budget_s, setting.width)?;
    let mut sweep = Bare::on(&plan, model)?;
    let peer = |sweep| Peer { sweep, budget_s: setting.budget_s, max_rate: case.max_rate() };
    let answer = match setting.strategy {
        Strategy::Ours => {
            let search = plan.searcher().map_err(anyhow::Error::msg)?;
            ours(&search, &mut sweep)?
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

/// The share of misses of the limit that binds in one long step at the true rate; none where there is no such rate.
pub(crate) fn at_truth(case: &Case, requests: u32) -> Result<Option<f64>> {
    let Some(rate) = case.truth.rate else { return Ok(None) };
    let (plan, model) = case.build(0, 900.0, 0.1)?;
    let length_s = f64::from(requests) / rate;
    let mut sweep = Bare::on(&plan, model)?;
    let step = sweep.measure(Ask {
        level: Level::rate(rate),
        kind: StepKind::List,
        settle: Duration::from_secs_f64(length_s / 20.0),
        measure: Duration::from_secs_f64(length_s),
        extend: false,
        tail: plan.step.tail(),
        drain: plan.timeout(),
        ends: Ends::AtItsTime,
        confidence: 0.95,
    })?;
    let latencies = step.limits.iter().filter(|row| row.limit.ends_with(".p99"));
    let shares = latencies.map(|row| row.misses as f64 / row.n.saturating_sub(row.censored).max(1) as f64);
    Ok(shares.reduce(f64::max))
}

fn ours(search: &Search, sweep: &mut Bare<'_>) -> Result<Answer> {
    while let Next::Measure(ask) = search.next(SERIES, sweep.steps()) {
        sweep.measure(ask)?;
    }
    let answer = search.answers(SERIES, sweep.steps()).into_iter().next().context("there is one answer")?;
    let goodput = answer.goodput;
    Ok(Answer {
        status: goodput.status,
        rate: goodput.rate,
        interval: goodput.interval90,
        safe: goodput.safe_rate,
        reason: goodput.reason,
    })
}

/// Seconds that this thread has had a processor for, where the kernel tells.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|ns| ns / 1e9)
}
