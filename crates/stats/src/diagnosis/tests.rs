//! Tables of steps: cases in which each rule must fire, and cases in which it must not.

mod advice;
mod cases;
mod forecasts;
mod latency_cases;
mod next;
mod server_cases;

use super::*;
use crate::fixture;
use crate::roofline::{Machine, Model};
use goodput_core::level::Level;

use crate::stats::step::{
    ClientSide, LimitRow, MetricRow, Quantiles, ServerLatency, ServerSide, StepKind, Verdict,
};
use std::collections::BTreeMap;

/// Returns a step: number, level, TTFT p50 and p99, TPOT p50, in milliseconds.
fn step(number: u32, level: Level, ttft: (f64, f64), tpot: f64) -> Step {
    let q =
        |p50: f64, p99: f64| Quantiles { n: 1_000, p50: Some(p50), p99: Some(p99), ..Quantiles::default() };
    let kind = if level.control == goodput_core::level::Control::Concurrency {
        StepKind::Baseline
    } else {
        StepKind::List
    };
    let whole = ttft.0 + 29.0 * tpot;
    let latency = BTreeMap::from([
        (Metric::Ttft, q(ttft.0, ttft.1)),
        (Metric::Tpot, q(tpot, 1.2 * tpot)),
        (Metric::E2e, q(whole, 1.2 * whole)),
    ]);
    Step {
        step: number,
        level,
        kind,
        latency,
        due_n: 1_000,
        completed: 1_000,
        offered_rate: level.value,
        achieved_rate: level.value,
        output_tokens_per_s: 30.0 * level.value,
        stable: Some(true),
        abort: None,
        verdict: Verdict::Fails,
        server: ServerSide::default(),
        ..fixture::found()[0].clone()
    }
}

/// Returns one request alone, a light step and one at the boundary, which wait a little; the limit is on TTFT.
fn usual() -> (Vec<Step>, Facts) {
    let mut steps = vec![
        step(1, Level::concurrency(1), (15.0, 20.0), 6.0),
        step(2, Level::rate(5.0), (16.0, 24.0), 6.5),
        step(3, Level::rate(30.0), (18.0, 30.0), 7.0),
    ];
    // The last step misses it.
    for row in steps.iter_mut().flat_map(|s| &mut s.limits).filter(|row| row.is("ttft.p99")) {
        row.limit_ms = Some(28.0);
    }
    let curve = Curve {
        series: "main".into(),
        step: 3,
        limit: Some("ttft.p99".into()),
        deployment: "one".into(),
        tensor_parallel: Some(1),
        replicas: Some(1),
        fixed_input: Some(600),
        ..Curve::default()
    };
    (steps, Facts { curves: vec![curve], again: "goodput sweep plan.toml".into(), ..Facts::default() })
}

fn histogram(mean_ms: f64) -> Option<ServerLatency> {
    Some(ServerLatency { n: 500.0, mean_ms, p50_ms: None, p99_ms: None })
}

fn lengths(of: &[(f64, f64)]) -> Vec<LengthPoint> {
    let point = |(tokens, ttft_ms): &(f64, f64)| LengthPoint {
        deployment: "one".into(),
        step: 1,
        tokens: *tokens,
        ttft_ms: *ttft_ms,
        n: 40,
    };
    of.iter().map(point).collect()
}

fn hardware(gpus: u32, model: &str) -> Option<(Machine, Model)> {
    let model: Model = toml::from_str(model).unwrap();
    Some((Machine::of(Some("A40"), None, None, gpus, &model)?, model))
}

type Change = fn(&mut Vec<Step>, &mut Facts);

/// A case: its description, the change of the usual steps, and the expected findings.
type Case = (&'static str, Change, &'static str);

/// Returns the findings for the usual steps with a change: `kind confidence`, the most important first.
fn found(change: Change) -> String {
    let (mut steps, mut facts) = usual();
    change(&mut steps, &mut facts);
    let all = diagnose(&steps, &facts);
    for f in &all.findings {
        assert!(!f.evidence.is_empty() && !f.advice.is_empty(), "{f:?}");
        assert!(f.next.command.starts_with("goodput "), "{f:?}");
    }
    let said = |f: &Finding| format!("{} {}", f.kind.name(), f.confidence.name());
    all.findings.iter().map(said).collect::<Vec<_>>().join(", ")
}

/// Gives the last step a tail of TTFT as a queue causes it.
fn queue(steps: &mut [Step]) {
    steps[2] = step(3, Level::rate(30.0), (22.0, 90.0), 8.0);
}

/// Makes a queue without a token's time of one request alone, so that nothing but the queue can be found.
fn queue_of_short_prompts(steps: &mut [Step]) {
    queue(steps);
    steps[0].latency.remove(&Metric::Tpot);
}

/// Limits TPOT alone.
fn only_tpot(steps: &mut [Step], limit_ms: f64) {
    for step in steps {
        let row = step.limits[0].clone();
        step.limits = vec![LimitRow { limit: "tpot.p99".into(), limit_ms: Some(limit_ms), ..row }];
    }
}

/// Moves the limit to TPOT, which the last step raises to `tpot` ms.
fn on_tpot(steps: &mut [Step], facts: &mut Facts, tpot: f64) {
    facts.curves[0].limit = Some("tpot.p99".into());
    steps[2] = step(3, Level::rate(30.0), (18.0, 30.0), tpot);
}

/// Sets the tokens of an iteration.
fn tokens(facts: &mut Facts, n: u64) {
    facts.curves[0].settings.set(Knob::Tokens, Value::Count(n), Origin::CommandLine);
}

/// Gives every step a GPU of 1,410 MHz, which runs at `mhz` in the last one; there it has further series.
fn clock(steps: &mut [Step], mhz: f64, further: &[(&str, f64)]) {
    let row = |name: &str, value: f64| MetricRow {
        source: "gpus".into(),
        name: name.into(),
        labels: "gpu=\"3\"".into(),
        n: 60,
        // A power that never varies is that of a page that is not renewed.
        min: Some(if name == "DCGM_FI_DEV_POWER_USAGE" { 0.999 * value } else { value }),
        mean: Some(value),
        max: Some(value),
        per_s: None,
    };
    for step in steps.iter_mut() {
        step.metrics = vec![row("DCGM_FI_DEV_SM_CLOCK", 1410.0)];
    }
    let last = &mut steps[2].metrics;
    last[0] = row("DCGM_FI_DEV_SM_CLOCK", mhz);
    last.extend(further.iter().map(|(name, value)| row(name, *value)));
}

/// Fills eight seats, with a queue before them.
fn seats(steps: &mut [Step]) {
    queue(steps);
    steps[2].server = ServerSide {
        running_mean: Some(7.9),
        running_max: Some(8.0),
        waiting_mean: Some(20.0),
        waiting_max: Some(37.0),
        kv_max: Some(0.12),
        ..ServerSide::default()
    };
}

/// Adds a cold series to the warm one, with the unloaded median TTFT and the hits of the warm one.
fn pair(steps: &mut Vec<Step>, facts: &mut Facts, warm_ttft: f64, hits: Option<f64>) {
    let cold: Vec<Step> =
        steps.iter().cloned().map(|s| Step { series: "cold".into(), step: s.step + 10, ..s }).collect();
    for s in steps.iter_mut() {
        s.series = "warm".into();
        s.server.hit_rate = hits;
    }
    steps[0].latency.insert(
        Metric::Ttft,
        Quantiles { n: 500, p50: Some(warm_ttft), p99: Some(2.0 * warm_ttft), ..Quantiles::default() },
    );
    steps.extend(cold);
    let curve = &mut facts.curves[0];
    (curve.series, curve.shared, curve.cold) = ("warm".into(), Some(0.667), Some("cold".into()));
}

/// Adds this server with four GPUs and with one, with the given TPOT of one request alone.
fn gpus(steps: &mut Vec<Step>, facts: &mut Facts, tpot: (f64, f64), model: Option<&str>) {
    facts.curves[0].limit = None;
    let mut four = facts.curves[0].clone();
    (four.series, four.tensor_parallel, four.step) = ("four".into(), Some(4), 11);
    if let Some(model) = model {
        (facts.curves[0].hardware, four.hardware) = (hardware(1, model), hardware(4, model));
    }
    facts.curves.push(four);
    steps[0] = step(1, Level::concurrency(1), (15.0, 20.0), tpot.0);
    steps.push(Step { series: "four".into(), ..step(11, Level::concurrency(1), (15.0, 20.0), tpot.1) });
}

const EIGHT: &str = "parameters = \"8B\"\nprecision = \"fp16\"";
