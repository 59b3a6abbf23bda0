//! The truth of conversations: the highest level that is still met, and stable, after hours.

use super::FIRST_RUN;
use crate::cases::{Case, Truth};
use anyhow::{Context, Result};
use goodput::level::{Control, Level};
use goodput::search::{Ask, Ends};
use goodput::stats::step::{Step, StepKind};
use goodput::sweep::bare::Bare;
use std::time::Duration;

/// Settling time of an hour, in seconds: a cache that slowly overflows shows it by then.
const SETTLE_S: f64 = 3600.0;
/// Ratio of the bracket at which the bisection stops.
const BRACKET: f64 = 1.02;
/// Highest level to try, relative to that of a saturated server, whose cache thrashes, so that its throughput is below
/// that of a server with less load.
const TOP: f64 = 2.0;

/// Finds the truth by bisection with long steps of about `n` requests each, each from an empty server.
pub(super) fn find(case: &Case, n: usize) -> Result<(Truth, String)> {
    let (capacity, _) = saturated(case)?;
    let (mut low, mut high) = (0.2 * capacity, TOP * capacity);
    let mut said = Vec::new();
    while high / low > BRACKET {
        let level = (low * high).sqrt();
        let step = long_step(case, level, n)?;
        let misses = worst(case, &step);
        let met = step.stable != Some(false) && step.abort.is_none() && misses <= 1.0;
        said.push(format!("{level:.3}: {misses:.3}{}", if met { "" } else { " fails" }));
        (low, high) = if met { (level, high) } else { (low, level) };
    }
    let rate = (low * high).sqrt();
    let error = (high / low).ln() / 2.0;
    let truth = Truth { error, ..Truth { capacity, ..Truth::cliff(rate, case.strictest()) } };
    Ok((truth, format!("misses over what is allowed at {}", said.join(", "))))
}

/// Returns the ratio of misses to allowed misses of the binding latency limit.
fn worst(case: &Case, step: &Step) -> f64 {
    let shares =
        step.limits.iter().filter(|row| row.limit_ms.is_some()).map(|row| {
            row.misses as f64 / row.n.saturating_sub(row.censored).max(1) as f64 / case.strictest()
        });
    shares.fold(0.0, f64::max)
}

fn long_step(case: &Case, level: f64, n: usize) -> Result<Step> {
    let (plan, model) = case.build(FIRST_RUN + (level * 1e3) as u32, 900.0, 0.1)?;
    let mut sweep = Bare::on(&plan, model)?;
    let requests_per_s = level * plan.workload.per_level();
    let ask = Ask {
        level: Level::new(Control::Sessions, level),
        kind: StepKind::List,
        settle: Duration::from_secs_f64(SETTLE_S),
        measure: Duration::from_secs_f64((n as f64 / requests_per_s).max(SETTLE_S)),
        extend: false,
        tail: plan.step.tail(),
        drain: plan.timeout(),
        // Do not follow a level that collapses for hours.
        ends: Ends::WhenGross,
        confidence: 0.95,
    };
    sweep.measure(ask).cloned()
}

/// Returns the sessions per second and requests per second of a server that always has a thousand sessions open.
fn saturated(case: &Case) -> Result<(f64, f64)> {
    let (plan, model) = case.build(FIRST_RUN, 900.0, 0.1)?;
    let mut sweep = Bare::on(&plan, model)?;
    let step = sweep.measure(Ask {
        level: Level::concurrency(super::SATURATED),
        kind: StepKind::Baseline,
        settle: Duration::from_secs(300),
        measure: Duration::from_secs(600),
        extend: false,
        tail: Duration::ZERO,
        drain: Duration::ZERO,
        ends: Ends::AtItsTime,
        confidence: 0.95,
    })?;
    let rate = step.achieved_rate;
    let per_level = plan.workload.per_level();
    (rate > 0.0).then_some((rate / per_level, rate)).context("the server completes nothing")
}
