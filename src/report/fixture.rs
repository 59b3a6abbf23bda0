//! Plausible runs for tests: a server whose latencies rise as a queue's do, judged as the real code would.

use crate::caveat::Caveat;
use crate::level::{Control, Level};
use crate::rundir::{FailureRow, Meta, Run};
use crate::search::answer::{Answer, Goodput, Knee, Status};
use crate::slo::{Metric, Slo};
use crate::stats::step::{Abort, LimitRow, Quantiles, ServerSide, Step, StepKind, Verdict};
use crate::units::ms;
use std::collections::BTreeMap;

/// A server and how it is measured.
pub(super) struct Server {
    /// Requests per second it can complete.
    pub(super) capacity: f64,
    /// Unloaded TTFT and TPOT in milliseconds.
    pub(super) base: (f64, f64),
    /// Seconds of each measured window.
    pub(super) measure_s: f64,
}

impl Default for Server {
    fn default() -> Self {
        Self { capacity: 41.0, base: (19.0, 5.4), measure_s: 120.0 }
    }
}

/// p99 TTFT ≤ 200 ms, p99 TPOT ≤ 20 ms.
pub(super) fn slo(text: &str) -> Slo {
    toml::from_str(text).unwrap()
}

fn meta() -> Meta {
    Meta {
        goodput_version: "0.1.0".into(),
        host: "linux x86_64, 2 cores".into(),
        seed: 1,
        started: "2026-11-20T10:15:00Z".into(),
        server: "http://127.0.0.1:8000".into(),
        model: "qwen3-0.6b".into(),
        workload: "600 in / 30 out tokens, Poisson arrivals, cold cache".into(),
        slo: "p99 TTFT ≤ 200ms, p99 TPOT ≤ 20ms".into(),
        gpu: Some("A40".into()),
        gpus: Some(1),
        notes: Some("hypothesis: prefill bound".into()),
        virtual_time: false,
    }
}

fn quantiles(n: u64, median: f64, tail: f64) -> Quantiles {
    let some = |k: f64| (n > 0).then(|| median * (1.0 + (tail - 1.0) * k));
    Quantiles {
        n,
        p50: some(0.0),
        p90: some(0.45),
        p95: some(0.65),
        p99: some(1.0),
        p99_low: some(0.93),
        p99_high: if n >= 368 { some(1.1) } else { None },
    }
}

impl Server {
    /// The step of a level, judged against the limits.
    pub(super) fn step(&self, slo: &Slo, number: u32, level: Level) -> Step {
        let (offered, in_flight) = match level.control {
            Control::Concurrency => {
                let full = self.capacity * level.value / (level.value + 12.0);
                (full, level.value)
            }
            _ => (level.value, level.value * 0.25 / (1.0 - (level.value / self.capacity).min(0.98))),
        };
        let load = (offered / self.capacity).min(0.985);
        let stable = offered < self.capacity;
        let achieved = if stable { offered * 0.998 } else { self.capacity * 0.96 };
        let n = (offered * self.measure_s) as u64;
        let rise = 1.0 + 0.32 * load / (1.0 - load);
        let overload = if stable { 1.0 } else { 90.0 * (offered / self.capacity) };
        let mut latency = BTreeMap::new();
        let ttft = quantiles(n, self.base.0 * rise * overload, 1.9 + 2.6 * load.powi(3));
        latency.insert(Metric::Ttft, ttft);
        latency.insert(Metric::Tpot, quantiles(n, self.base.1 * rise.powf(0.7), 1.2 + 1.5 * load.powi(4)));
        latency.insert(Metric::E2e, quantiles(n, 30.0 * self.base.1 * rise * overload, 1.4 + 2.0 * load));
        let mut limits: Vec<LimitRow> = slo.limits().iter().map(|l| judge(l, &latency, n)).collect();
        limits.push(row("stability", None, n, 0, if stable { Verdict::Meets } else { Verdict::Fails }));
        let worst = limits.iter().find(|l| l.verdict == Verdict::Fails);
        let worst = worst.or_else(|| limits.iter().find(|l| l.verdict == Verdict::Undecided));
        let verdict = worst.map_or(Verdict::Meets, |l| l.verdict);
        let joint =
            1.0 - limits.iter().filter(|l| l.n > 0).map(|l| l.misses as f64 / l.n as f64).fold(0.0, f64::max);
        Step {
            series: "main".into(),
            step: number,
            kind: StepKind::List,
            level,
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
            failed: 0,
            cut: 0,
            retried: 0,
            output_tokens_per_s: achieved * 30.0,
            prompt_tokens_per_s: achieved * 600.0,
            input_tokens_mean: Some(601.3),
            output_tokens_mean: Some(30.0),
            latency,
            joint_attainment: (n > 0).then_some(joint),
            in_flight_mean: in_flight,
            in_flight_max: (in_flight * 2.5) as u64 + 1,
            in_flight_slope: Some(if stable { 0.0 } else { offered - self.capacity }),
            ttft_slope: None,
            little_residual: Some(0.01),
            lateness_p50_ms: Some(0.04),
            lateness_p99_ms: Some(0.31),
            receive_lag_p99_ms: None,
            conn_new: 3,
            server: ServerSide::default(),
            cost_per_mtok: None,
            stable: Some(stable),
            verdict,
            binding: limits.iter().find(|l| l.verdict == verdict).map(|l| l.limit.clone()),
            reason: match verdict {
                Verdict::Meets => "every limit is shown to be met".into(),
                Verdict::Fails if !stable => "the backlog grows".into(),
                Verdict::Fails => "shown to miss its limit".into(),
                _ => "too few requests to tell".into(),
            },
            limits,
        }
    }
}

fn judge(l: &crate::slo::Limit, latency: &BTreeMap<Metric, Quantiles>, n: u64) -> LimitRow {
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
        attainment,
        low: attainment.map(|a| (a - 0.004).max(0.0)),
        high: attainment.map(|a| (a + 0.004).min(1.0)),
        verdict,
    }
}

/// A run over levels, with the bracket as its answer.
pub(super) fn run(server: &Server, slo: Slo, levels: &[Level]) -> Run {
    let steps: Vec<Step> = (1..).zip(levels).map(|(i, l)| server.step(&slo, i, *l)).collect();
    let control = levels.first().map_or(Control::Rate, |l| l.control);
    let goodput = bracket(&steps);
    let answer = Answer {
        series: "main".into(),
        tier: "main".into(),
        class: "all".into(),
        control,
        joint_goodput: goodput.clone(),
        goodput,
        knee: None,
    };
    Run {
        name: "A40, Qwen3-0.6B, 600 in / 30 out".into(),
        meta: meta(),
        tiers: vec![slo],
        plan_toml: "name = \"A40, Qwen3-0.6B, 600 in / 30 out\"\nseed = 1\n".into(),
        answers: if steps.is_empty() { vec![] } else { vec![answer] },
        steps,
        caveats: vec![Caveat::BracketOnly],
        currency: None,
        failures: vec![],
    }
}

fn bracket(steps: &[Step]) -> Goodput {
    let of = |v: Verdict| steps.iter().filter(move |s| s.verdict == v).map(|s| s.level.value);
    let failed = of(Verdict::Fails).min_by(f64::total_cmp);
    let met = of(Verdict::Meets).filter(|m| failed.is_none_or(|f| *m < f)).max_by(f64::total_cmp);
    let status = match (met, failed) {
        (Some(_), Some(_)) => Status::Found,
        (None, Some(_)) => Status::None,
        (Some(_), None) => Status::NotReached,
        (None, None) => Status::Undecided,
    };
    let binding = steps.iter().find(|s| Some(s.level.value) == failed).and_then(|s| s.binding.clone());
    let reason = "every level of the plan was measured".into();
    Goodput {
        status,
        rate: met,
        interval90: None,
        safe_rate: None,
        met,
        failed,
        binding,
        per_gpu: met,
        reason,
    }
}

/// Levels of requests per second.
pub(super) fn rates(rates: &[f64]) -> Vec<Level> {
    rates.iter().map(|r| Level::rate(*r)).collect()
}

/// The usual case: eleven rates, the TPOT limit binds, the last step is overloaded.
pub(super) fn found() -> Run {
    let slo = slo("ttft.p99 = \"200ms\"\ntpot.p99 = \"20ms\"");
    let mut run = run(
        &Server::default(),
        slo,
        &rates(&[5.0, 10.0, 15.0, 20.0, 25.0, 28.0, 30.0, 32.0, 34.0, 36.0, 48.0]),
    );
    run.answers[0].knee = Some(Knee { rate: 37.0, throughput: 36.9 });
    run
}

/// Every case that the reports must cope with, by name.
pub(super) fn cases() -> Vec<(&'static str, Run)> {
    let usual = || slo("ttft.p99 = \"200ms\"\ntpot.p99 = \"20ms\"");
    let server = Server::default();
    let mut interval = run(
        &Server { capacity: 41.0, ..Server::default() },
        usual(),
        &rates(&[5.0, 10.0, 15.0, 20.0, 25.0, 28.0, 30.0, 32.0, 34.0, 36.0, 38.0]),
    );
    interval.answers[0].goodput.interval90 = Some([31.6, 35.3]);
    interval.answers[0].goodput.rate = Some(33.4);
    interval.answers[0].goodput.safe_rate = Some(31.6);
    interval.answers[0].knee = Some(Knee { rate: 37.0, throughput: 37.0 });
    let mut failing = run(&server, usual(), &rates(&[2.0, 4.0]));
    for s in &mut failing.steps {
        (s.latency, s.completed, s.failed, s.achieved_rate, s.good_rate) =
            (BTreeMap::new(), 0, s.due_n, 0.0, 0.0);
        (s.verdict, s.abort, s.binding) = (Verdict::Fails, Some(Abort::AllFailed), Some("error-rate".into()));
        (s.output_tokens_per_s, s.joint_attainment) = (0.0, Some(0.0));
    }
    failing.answers[0].goodput = bracket(&failing.steps);
    failing.failures = vec![FailureRow {
        series: "main".into(),
        step: 1,
        class: "all".into(),
        kind: "server-error".into(),
        status: Some(500),
        count: 240,
        sample: "{\"error\": \"boom | `x` <b>\u{1b}[31m\"}\nsecond line".into(),
    }];
    let levels: Vec<Level> = [1, 2, 4, 8, 16, 32, 64, 128, 256].map(Level::concurrency).to_vec();
    let mut long = found();
    long.meta.model = "meta-llama/Llama-3.1-405B-Instruct-FP8-very-long-suffix-from-a-registry-path".into();
    long.name =
        "a plan with an unreasonably long name that somebody pasted from a ticket, with all its context"
            .into();
    long.meta.server =
        "https://inference.internal.some-very-long-company-name.example.com:8443/gateway/v1".into();
    long.meta.workload = "lognormal input of 1,800 tokens (cv 1.2, max 32,768), output 350 tokens, gamma arrivals (cv 2.5), warm prefix of 4,000 tokens".into();
    (long.meta.gpu, long.meta.gpus) = (Some("NVIDIA H200 SXM 141GB HBM3e (liquid cooled)".into()), Some(16));
    let mut invalid = run(&server, usual(), &rates(&[5.0, 10.0, 20.0, 30.0]));
    invalid.steps[3].verdict = Verdict::Invalid;
    invalid.answers[0].goodput.status = Status::Undecided;
    let mut series = found();
    let slower = Server { capacity: 30.0, ..Server::default() };
    for (mut s, n) in slower.series(&usual()).into_iter().zip(12..) {
        (s.series, s.step) = ("chunked prefill off".into(), n);
        series.steps.push(s);
    }
    vec![
        ("found", found()),
        ("interval", interval),
        (
            "none",
            run(
                &Server { base: (240.0, 30.0), ..Server::default() },
                usual(),
                &rates(&[5.0, 10.0, 20.0, 30.0]),
            ),
        ),
        ("not-reached", run(&server, usual(), &rates(&[2.0, 4.0, 8.0, 16.0, 24.0]))),
        (
            "undecided",
            run(&Server { measure_s: 10.0, ..Server::default() }, usual(), &rates(&[5.0, 10.0, 20.0, 25.0])),
        ),
        ("two-steps", run(&server, usual(), &rates(&[20.0, 45.0]))),
        ("one-step", run(&server, usual(), &rates(&[20.0]))),
        ("one-failing", run(&server, usual(), &rates(&[60.0]))),
        ("all-failed", failing),
        ("no-step", run(&server, usual(), &[])),
        ("concurrency", run(&Server { measure_s: 200.0, ..Server::default() }, usual(), &levels)),
        (
            "slow",
            run(
                &Server { capacity: 0.23, base: (900.0, 41.0), measure_s: 6000.0 },
                slo("ttft.p99 = \"10s\"\ntpot.p99 = \"150ms\""),
                &rates(&[0.02, 0.05, 0.1, 0.15, 0.18, 0.2, 0.25]),
            ),
        ),
        (
            "e2e",
            run(
                &server,
                slo("ttft = { p50 = \"60ms\", p99 = \"200ms\" }\ntpot.p99 = \"20ms\"\ne2e.p95 = \"3s\""),
                &rates(&[5.0, 10.0, 20.0, 30.0, 36.0, 55.0]),
            ),
        ),
        ("ramp", run(&server, usual(), &rates(&[1.0, 3.0, 9.0, 27.0, 81.0]))),
        (
            "far-limit",
            run(
                &server,
                slo("ttft.p99 = \"5s\"\ntpot.p99 = \"20ms\""),
                &rates(&[5.0, 10.0, 20.0, 30.0, 36.0]),
            ),
        ),
        ("long-names", long),
        ("invalid", invalid),
        ("series", series),
        ("one-token", {
            let mut r = found();
            for s in &mut r.steps {
                s.latency.remove(&Metric::Tpot);
            }
            r
        }),
    ]
}

impl Server {
    fn series(&self, slo: &Slo) -> Vec<Step> {
        (1..).zip(rates(&[5.0, 10.0, 20.0, 24.0, 27.0])).map(|(i, l)| self.step(slo, i, l)).collect()
    }
}
