//! Plausible steps for tests, of a server with latencies like a queue's, judged as by the real code.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

use crate::search::answer::{AnswerLevel, Basis, Bracket, Conclusion, Goodput, Status, Support};
use crate::search::reason::{Ended, LevelEvidence, Reason};
use crate::search::stop::Stop;
use crate::search::{Point, bracket as of_verdicts, step_evidence};
use crate::stats::step::{Abort, LimitRow, Quantiles, Step, StepKind, Verdict};
use goodput_core::level::{Control, Level};
use goodput_core::slo::{Metric, Slo};
use goodput_core::units::ms;
use std::collections::BTreeMap;

/// A synthetic server and the length of its steps.
pub struct Server {
    /// Capacity in requests per second.
    pub capacity: f64,
    /// Unloaded TTFT and TPOT in milliseconds.
    pub base: (f64, f64),
    /// Length of each measured window in seconds.
    pub measure_s: f64,
}

impl Default for Server {
    fn default() -> Self {
        Self { capacity: 41.0, base: (19.0, 5.4), measure_s: 120.0 }
    }
}

/// Parses an SLO from TOML.
pub fn slo(text: &str) -> Slo {
    toml::from_str(text).unwrap()
}

fn quantiles(n: u64, median: f64, tail: f64) -> Quantiles {
    // Rounded, since powers differ in their last digit between platforms.
    let some = |k: f64| (n > 0).then_some((median * (1.0 + (tail - 1.0) * k) * 1e3).round() / 1e3);
    Quantiles {
        n,
        p50: some(0.0),
        p90: some(0.45),
        p95: some(0.65),
        p99: some(1.0),
        p99_low: some(0.93),
        p99_high: if n >= 460 { some(1.1) } else { None },
        inflation: (n > 0).then_some(1.25),
    }
}

impl Server {
    /// Returns percentiles that rise with load like a queue's, steeply above the capacity.
    fn latency(&self, offered: f64, n: u64) -> BTreeMap<Metric, Quantiles> {
        let load = (offered / self.capacity).min(0.985);
        let rise = 1.0 + 0.32 * load / (1.0 - load);
        let overload = if offered < self.capacity { 1.0 } else { 90.0 * (offered / self.capacity) };
        let ttft = quantiles(n, self.base.0 * rise * overload, 1.9 + 2.6 * load.powi(3));
        let tpot = quantiles(n, self.base.1 * rise.powf(0.7), 1.2 + 1.5 * load.powi(4));
        let e2e = quantiles(n, 30.0 * self.base.1 * rise * overload, 1.4 + 2.0 * load);
        BTreeMap::from([(Metric::Ttft, ttft), (Metric::Tpot, tpot), (Metric::E2e, e2e)])
    }

    /// Builds the step of a level, judged against the limits.
    pub fn step(&self, slo: &Slo, number: u32, level: Level) -> Step {
        let (offered, in_flight) = match level.control {
            Control::Concurrency => (self.capacity * level.value / (level.value + 12.0), level.value),
            _ => (level.value, level.value * 0.25 / (1.0 - (level.value / self.capacity).min(0.98))),
        };
        let stable = offered < self.capacity;
        let achieved = if stable { offered * 0.998 } else { self.capacity * 0.96 };
        let n = (offered * self.measure_s) as u64;
        let latency = self.latency(offered, n);
        let mut limits: Vec<LimitRow> = slo.limits().iter().map(|l| judge(l, &latency, n)).collect();
        limits.push(row("stability", None, n, 0, if stable { Verdict::Meets } else { Verdict::Fails }));
        let verdict = crate::stats::summary::worst(limits.iter().map(|l| l.verdict));
        let joint =
            1.0 - limits.iter().filter(|l| l.n > 0).map(|l| l.misses as f64 / l.n as f64).fold(0.0, f64::max);
        Step {
            step: number,
            started_at: "2026-11-20T10:15:00Z".into(),
            started_s: f64::from(number - 1) * 140.0,
            ended_s: f64::from(number) * 140.0,
            settle_s: 10.0,
            measure_s: self.measure_s,
            tail_s: 1.0,
            drain_s: 0.4,
            abort: (!stable).then_some(Abort::Gross),
            due_n: n,
            offered_rate: offered,
            sent_rate: offered,
            achieved_rate: achieved,
            good_rate: achieved * if stable { joint } else { 0.02 },
            completed: n,
            output_tokens_per_s: achieved * 30.0,
            prompt_tokens_per_s: achieved * 600.0,
            input_tokens_mean: Some(601.3),
            output_tokens_mean: Some(30.0),
            latency,
            joint_attainment: (n > 0).then_some(joint),
            in_flight_mean: in_flight,
            in_flight_max: (in_flight * 2.5) as u64 + 1,
            in_flight_slope: Some(if stable { 0.0 } else { offered - self.capacity }),
            little_residual: Some(0.01),
            lateness_p50_ms: Some(0.04),
            lateness_p99_ms: Some(0.31),
            conn_new: 3,
            stable: Some(stable),
            verdict,
            binding: limits.iter().find(|l| l.verdict == verdict).map(|l| l.limit.clone()),
            reason: shown(verdict, stable).into(),
            client_busy: Some(0.08),
            client_waiting: Some(0.002),
            limits,
            ..Step::blank(level)
        }
    }
}

fn shown(verdict: Verdict, stable: bool) -> &'static str {
    match verdict {
        Verdict::Meets => "every limit is shown to be met",
        Verdict::Fails if !stable => "the backlog grows",
        Verdict::Fails => "shown to miss its limit",
        _ => "too few requests to tell",
    }
}

fn judge(l: &goodput_core::slo::Limit, latency: &BTreeMap<Metric, Quantiles>, n: u64) -> LimitRow {
    let p99 = latency.get(&l.metric).and_then(|q| q.p99).unwrap_or(f64::INFINITY);
    let over = p99 / ms(l.limit);
    let misses = ((n as f64) * (0.01 * over.powi(3)).min(1.0)) as u64;
    let verdict = match over {
        o if o > 1.06 => Verdict::Fails,
        o if o > 0.94 || n < 300 => Verdict::Undecided,
        _ => Verdict::Meets,
    };
    row(&l.name(), Some(ms(l.limit)), n, misses, verdict)
}

fn row(limit: &str, limit_ms: Option<f64>, n: u64, misses: u64, verdict: Verdict) -> LimitRow {
    let attainment = (n > 0).then(|| 1.0 - misses as f64 / n as f64);
    LimitRow {
        tier: "main".into(),
        class: "all".into(),
        limit: limit.into(),
        limit_ms,
        n,
        misses,
        censored: 0,
        clusters: misses,
        cluster_sq: misses,
        co_misses: Vec::new(),
        attainment,
        low: attainment.map(|a| (a - 0.004).max(0.0)),
        high: attainment.map(|a| (a + 0.004).min(1.0)),
        verdict,
    }
}

/// Returns the answer that the verdicts of these steps give, as for a list of levels.
pub fn bracket(steps: &[Step]) -> Goodput {
    let loaded = steps.iter().filter(|s| s.kind != StepKind::Baseline);
    let point = |s: &Step| {
        let counts = step_evidence(s, "main", s.verdict, s.binding.as_deref());
        let evidence = LevelEvidence { level: s.level, achieved_rate: s.achieved_rate, counts };
        let inherent = !s.overloaded() || s.all_failed();
        Point { evidence, verdict: s.verdict, binding: s.binding.clone(), inherent }
    };
    let points: Vec<Point> = loaded.map(point).collect();
    let ended = Ended::Stopped(Stop::ListDone { levels: points.len() });
    let mut goodput = of_verdicts(&points, ended);
    if let Some(at) = goodput.conclusion.level_mut() {
        at.per_gpu = Some(at.level);
    }
    goodput
}

/// Returns an answer with this conclusion and these ends of its bracket, and without evidence.
pub fn answered(conclusion: Conclusion, met: Option<f64>, failed: Option<f64>) -> Goodput {
    Goodput {
        conclusion,
        bracket: Bracket { met, failed },
        binding: None,
        support: Support::default(),
        reason: Reason::new([], Ended::NotSearched),
        basis: Basis::Search,
    }
}

/// Returns the conclusion with this rate, interval and safe rate.
///
/// # Panics
///
/// Panics if no conclusion states exactly these.
pub fn conclusion(
    status: Status,
    rate: Option<f64>,
    interval: Option<[f64; 2]>,
    safe: Option<f64>,
) -> Conclusion {
    let conclusion = Conclusion::nearest(status, rate.map(AnswerLevel::new), interval, safe, None);
    let g = answered(conclusion, None, None);
    assert_eq!(
        (g.status(), g.rate(), g.interval90(), g.safe_rate()),
        (status, rate, interval, safe),
        "no conclusion states this"
    );
    conclusion
}

/// Levels of requests per second.
pub fn rates(rates: &[f64]) -> Vec<Level> {
    rates.iter().map(|r| Level::rate(*r)).collect()
}

/// Returns the SLO of the usual case.
pub fn usual() -> Slo {
    slo("ttft.p99 = \"200ms\"\ntpot.p99 = \"20ms\"")
}

/// Returns the levels of the usual case.
pub fn levels() -> Vec<Level> {
    rates(&[5.0, 10.0, 15.0, 20.0, 25.0, 28.0, 30.0, 32.0, 34.0, 36.0, 48.0])
}

/// Measures a list of levels, one step each.
pub fn steps(server: &Server, slo: &Slo, levels: &[Level]) -> Vec<Step> {
    (1..).zip(levels).map(|(i, l)| server.step(slo, i, *l)).collect()
}

/// Returns the steps of the usual case: eleven rates, the TPOT limit binds, the last step is overloaded.
pub fn found() -> Vec<Step> {
    steps(&Server::default(), &usual(), &levels())
}

/// Returns the steps of an adaptive search: a baseline, a short ramp, and many steps close together, one of them twice.
pub fn adaptive() -> Vec<Step> {
    let slo = usual();
    let server = |measure_s: f64| Server { measure_s, ..Server::default() };
    let mut steps = vec![Step {
        kind: StepKind::Baseline,
        verdict: Verdict::Undecided,
        ..server(40.0).step(&slo, 1, Level::concurrency(1))
    }];
    let ramp = [1.0, 3.0, 9.0, 27.0, 81.0];
    steps.extend((2..).zip(ramp).map(|(i, r)| Step {
        kind: StepKind::Ramp,
        settle_s: 4.0,
        ..server(12.0).step(&slo, i, Level::rate(r))
    }));
    let refine = [40.5, 33.0, 35.2, 34.1, 33.6, 34.9, 34.1, 33.1, 34.6, 33.8, 35.8, 34.3, 32.4, 34.1];
    steps.extend((7..).zip(refine).map(|(i, r)| {
        let step = server(if i % 2 == 0 { 120.0 } else { 60.0 }).step(&slo, i, Level::rate(r));
        Step { kind: StepKind::Refine, ..step }
    }));
    for (i, step) in steps.iter_mut().enumerate().skip(1) {
        // Measured values scatter.
        let scatter = 1.0 + 0.12 * f64::from((i as u32 * 7) % 5) / 4.0 - 0.06;
        for q in step.latency.values_mut() {
            for v in
                [&mut q.p90, &mut q.p95, &mut q.p99, &mut q.p99_low, &mut q.p99_high].into_iter().flatten()
            {
                *v = (*v * scatter * 1e3).round() / 1e3;
            }
        }
    }
    steps
}
