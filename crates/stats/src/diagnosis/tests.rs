//! Tables of steps: cases in which each rule must fire, and cases in which it must not.

use super::*;
use crate::diagnosis::rules::RULES;
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
    let steps = vec![
        step(1, Level::concurrency(1), (15.0, 20.0), 6.0),
        step(2, Level::rate(5.0), (16.0, 24.0), 6.5),
        step(3, Level::rate(30.0), (18.0, 30.0), 7.0),
    ];
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
        min: Some(value),
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

/// Rows: description of the case, change of the usual steps, expected findings.
const CASES: &[(&str, Change, &str)] = &[
    ("all is well but for a limit", |_, _| (), ""),
    ("a server that is slower as a whole", |s, _| s[2] = step(3, Level::rate(30.0), (60.0, 80.0), 7.0), ""),
    // Queueing.
    ("the tail grows, the median holds", |s, _| queue(s), "prefill-bound medium, queueing medium"),
    (
        "and requests were seen waiting",
        |s, _| {
            queue(s);
            s[2].server.waiting_max = Some(3.0);
        },
        "prefill-bound medium, queueing high",
    ),
    (
        "and none was",
        |s, _| {
            queue(s);
            s[2].server.waiting_max = Some(0.0);
        },
        "prefill-bound medium, queueing low",
    ),
    (
        "by the server's own queue, though the median rises too",
        |s, _| {
            s[2] = step(3, Level::rate(30.0), (150.0, 200.0), 8.0);
            (s[2].server.queue, s[2].server.ttft) = (histogram(120.0), histogram(150.0));
        },
        "queueing high",
    ),
    (
        "its queue is a small part",
        |s, _| (s[2].server.queue, s[2].server.ttft) = (histogram(2.0), histogram(18.0)),
        "",
    ),
    (
        "a queue, but the limit is on TPOT",
        |s, f| {
            queue(s);
            f.curves[0].limit = Some("tpot.p99".into())
        },
        "decode-bound medium",
    ),
    (
        "a queue, and no limit was missed",
        |s, f| {
            queue(s);
            f.curves[0].limit = None
        },
        "",
    ),
    (
        "a queue, and nothing unloaded to hold it against",
        |s, _| {
            queue(s);
            s.drain(..2);
        },
        "",
    ),
    // Prefill.
    (
        "TTFT grows with the length",
        |_, f| f.lengths = lengths(&[(200.0, 8.0), (600.0, 15.0), (1200.0, 25.5)]),
        "prefill-bound high",
    ),
    ("it grows, but as a small part", |_, f| f.lengths = lengths(&[(200.0, 14.6), (1200.0, 15.6)]), ""),
    ("lengths are too near together", |_, f| f.lengths = lengths(&[(500.0, 12.0), (700.0, 17.0)]), ""),
    (
        "of another server",
        |_, f| {
            f.lengths = lengths(&[(200.0, 8.0), (1200.0, 25.5)]);
            f.lengths.iter_mut().for_each(|p| p.deployment = "two".into());
        },
        "",
    ),
    (
        "by the server's own times",
        |s, _| (s[0].server.prefill, s[0].server.ttft) = (histogram(11.0), histogram(14.0)),
        "prefill-bound medium",
    ),
    (
        "by the server's own times it is little",
        |s, _| (s[0].server.prefill, s[0].server.ttft) = (histogram(2.0), histogram(14.0)),
        "",
    ),
    (
        "it is there, and the wait is ten times as long",
        |s, f| {
            s[2] = step(3, Level::rate(30.0), (22.0, 200.0), 8.0);
            f.lengths = lengths(&[(200.0, 8.0), (600.0, 15.0), (1200.0, 25.5)]);
        },
        "prefill-bound medium, queueing medium",
    ),
    // Decode and batching.
    ("TPOT is as it is for one request alone", |s, f| on_tpot(s, f, 7.0), "decode-bound medium"),
    (
        "and that is the memory's pace",
        |s, f| {
            on_tpot(s, f, 7.0);
            f.curves[0].hardware = hardware(1, "parameters = \"1.5B\"\nprecision = \"fp16\"");
        },
        "decode-bound high",
    ),
    (
        "and that is not the memory's pace",
        |s, f| {
            on_tpot(s, f, 7.0);
            f.curves[0].hardware = hardware(1, "parameters = \"0.6B\"\nprecision = \"fp16\"");
        },
        "decode-bound medium",
    ),
    (
        "TPOT is four times as long, for six times the tokens",
        |s, f| on_tpot(s, f, 26.0),
        "batching-trade-off high",
    ),
    ("both", |s, f| on_tpot(s, f, 10.0), "decode-bound medium, batching-trade-off high"),
    (
        "TPOT is longer and no more is written",
        |s, f| {
            on_tpot(s, f, 26.0);
            s[2].output_tokens_per_s = s[1].output_tokens_per_s;
        },
        "",
    ),
    // KV cache and preemption: also if no limit was missed.
    ("the KV cache is full", |s, _| s[2].server.kv_max = Some(0.996), "kv-exhaustion medium"),
    (
        "and requests wait",
        |s, _| (s[2].server.kv_max, s[2].server.waiting_max) = (Some(0.996), Some(9.0)),
        "kv-exhaustion high",
    ),
    (
        "and none does",
        |s, _| (s[2].server.kv_max, s[2].server.waiting_max) = (Some(0.996), Some(0.0)),
        "kv-exhaustion low",
    ),
    ("it is nearly full", |s, _| (s[2].server.kv_max, s[2].server.waiting_max) = (Some(0.94), Some(9.0)), ""),
    (
        "it is full without a limit",
        |s, f| {
            s[2].server.kv_max = Some(1.0);
            f.curves[0].limit = None
        },
        "kv-exhaustion medium",
    ),
    ("it is full with less load", |s, _| s[1].server.kv_max = Some(0.99), "kv-exhaustion medium"),
    (
        "it is full far beyond",
        |s, _| {
            s.push(Step {
                server: ServerSide { kv_max: Some(1.0), ..ServerSide::default() },
                ..step(4, Level::rate(90.0), (20.0, 30.0), 7.0)
            })
        },
        "",
    ),
    ("one request in fifty is preempted", |s, _| s[2].server.preemptions = Some(20.0), "preemption high"),
    ("one in two hundred is", |s, _| s[2].server.preemptions = Some(5.0), ""),
    (
        "by what the server finished",
        |s, _| (s[2].server.preemptions, s[2].server.finished) = (Some(20.0), Some(4_000.0)),
        "",
    ),
    // The batch.
    (
        "few run, others wait, and a token is fast",
        |s, f| {
            seats(s);
            f.curves[0].seats = Some(8)
        },
        "batch-too-small high, prefill-bound medium, queueing high",
    ),
    (
        "that is all there is by what was seen",
        |s, _| {
            seats(s);
            s[2].in_flight_mean = 28.0
        },
        "batch-too-small medium, prefill-bound medium, queueing high",
    ),
    (
        "how many may run is not known",
        |s, _| {
            seats(s);
            s[2].in_flight_mean = 8.0
        },
        "prefill-bound medium, queueing high",
    ),
    (
        "a token is slow: the server has its hands full",
        |s, f| {
            seats(s);
            f.curves[0].seats = Some(8);
            s[2].latency.insert(
                Metric::Tpot,
                Quantiles { n: 900, p50: Some(30.0), p99: Some(40.0), ..Quantiles::default() },
            );
        },
        "prefill-bound medium, queueing high",
    ),
    (
        "it is the KV cache that has no room",
        |s, f| {
            seats(s);
            f.curves[0].seats = Some(8);
            s[2].server.kv_max = Some(0.99)
        },
        "kv-exhaustion high, prefill-bound medium, queueing high",
    ),
    (
        "seats are free",
        |s, f| {
            seats(s);
            f.curves[0].seats = Some(64)
        },
        "prefill-bound medium, queueing high",
    ),
    // Failures.
    (
        "half of the misses are failures",
        |s, _| {
            queue(s);
            (s[2].failed, s[2].limits[0].misses) = (40, 60);
        },
        "errors high",
    ),
    (
        "more failures than misses are allowed",
        |s, _| {
            queue(s);
            (s[2].failed, s[2].limits[0].misses) = (11, 60);
        },
        "errors high",
    ),
    ("a few failures", |s, _| (s[2].failed, s[2].limits[0].misses) = (4, 60), ""),
    // Between the client and the server.
    (
        "the client's clock shows more",
        |s, _| {
            s[0].server.ttft = histogram(15.0);
            s[0].server.client = Some(ClientSide { ttft_mean_ms: Some(135.0), ..ClientSide::default() });
        },
        "network high",
    ),
    (
        "the clocks differ, by little against what misses",
        |s, _| {
            s[0].server.ttft = histogram(2.0);
            s[0].server.client = Some(ClientSide { ttft_mean_ms: Some(4.0), ..ClientSide::default() });
        },
        "",
    ),
    (
        "the clocks agree",
        |s, _| {
            s[0].server.ttft = histogram(15.0);
            s[0].server.client = Some(ClientSide { ttft_mean_ms: Some(15.4), ..ClientSide::default() });
        },
        "",
    ),
    // Clocks of the GPUs.
    (
        "a clock falls, and power is at its limit",
        |s, _| {
            clock(
                s,
                1095.0,
                &[("DCGM_FI_DEV_POWER_USAGE", 298.0), ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 300.0)],
            )
        },
        "throttled medium",
    ),
    (
        "and the board accepts more",
        |s, _| {
            let limits =
                [("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 300.0), ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", 400.0)];
            clock(s, 1095.0, &[&[("DCGM_FI_DEV_POWER_USAGE", 298.0)], &limits[..]].concat());
        },
        "throttled high",
    ),
    (
        "and the board accepts no more",
        |s, _| {
            let limits =
                [("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 400.0), ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", 400.0)];
            clock(s, 1095.0, &[&[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 4.0)], &limits[..]].concat());
        },
        "throttled low",
    ),
    (
        "a clock falls, and its reasons are heat",
        |s, _| clock(s, 1095.0, &[("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 64.0)]),
        "throttled high",
    ),
    (
        "a clock is set below the highest",
        |s, _| {
            clock(
                s,
                1410.0,
                &[("DCGM_FI_DEV_MAX_SM_CLOCK", 1980.0), ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 2.0)],
            );
        },
        "throttled high",
    ),
    ("a clock falls, and nothing tells why", |s, _| clock(s, 1095.0, &[]), ""),
    (
        "a clock falls because the GPU is idle",
        |s, _| clock(s, 1095.0, &[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 1.0)]),
        "",
    ),
    ("a clock falls by little", |s, _| clock(s, 1350.0, &[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 4.0)]), ""),
    // Speculative decoding.
    (
        "few of the drafted tokens are accepted",
        |s, _| (s[2].server.drafted_mean, s[2].server.accepted_mean) = (Some(5.0), Some(0.2)),
        "drafting-costs medium",
    ),
    (
        "enough of them are",
        |s, _| (s[2].server.drafted_mean, s[2].server.accepted_mean) = (Some(5.0), Some(0.3)),
        "",
    ),
    (
        "checking them takes longer than they gain, with many sequences",
        |s, f| {
            (s[2].server.drafted_mean, s[2].server.accepted_mean) = (Some(7.0), Some(1.0));
            f.curves[0].hardware = hardware(1, EIGHT);
            s[2].output_tokens_per_s = 20_000.0;
        },
        "drafting-costs high",
    ),
    ("none are drafted", |s, _| s[2].server.accepted_mean = Some(0.0), ""),
    // The size of an iteration.
    (
        "iterations of few prompt tokens",
        |s, f| {
            s[0] = step(1, Level::concurrency(1), (28.0, 33.0), 6.0);
            tokens(f, 256);
        },
        "small-iterations high",
    ),
    ("iterations of many", |_, f| tokens(f, 4096), ""),
    (
        "an iteration that reads a long prompt is too long for a token",
        |s, f| {
            on_tpot(s, f, 7.0);
            only_tpot(s, 10.0);
            tokens(f, 8192);
            f.curves[0].settings.longest_prompt = Some(9_000);
            (s[2].achieved_rate, s[2].output_tokens_mean) = (3.0, Some(20.0));
        },
        "prefill-stalls medium, prefill-bound medium, decode-bound medium",
    ),
    (
        "the same, and prompts of several lengths tell what reading takes",
        |s, f| {
            on_tpot(s, f, 7.0);
            only_tpot(s, 10.0);
            tokens(f, 8192);
            f.curves[0].settings.longest_prompt = Some(9_000);
            f.lengths = lengths(&[(200.0, 8.0), (600.0, 15.0), (1200.0, 25.5)]);
            (s[2].achieved_rate, s[2].output_tokens_mean) = (3.0, Some(20.0));
        },
        "prefill-stalls high, prefill-bound high, decode-bound medium",
    ),
    (
        "the batch is larger than TPOT allows",
        |s, f| {
            on_tpot(s, f, 8.0);
            only_tpot(s, 10.0);
            (f.curves[0].seats, s[2].server.running_mean) = (Some(64), Some(9.0));
        },
        "batch-too-large high, decode-bound medium",
    ),
    (
        "the same, and first tokens must not wait",
        |s, f| {
            on_tpot(s, f, 8.0);
            (f.curves[0].seats, s[2].server.running_mean) = (Some(64), Some(9.0));
        },
        "decode-bound medium",
    ),
    // The prefix cache.
    (
        "it is off, and prompts share",
        |_, f| {
            f.curves[0].shared = Some(0.6);
            f.curves[0].settings.set(Knob::PrefixCache, Value::Switch(false), Origin::CommandLine);
        },
        "cache-misses high",
    ),
    (
        "it is off, and prompts share nothing",
        |_, f| f.curves[0].settings.set(Knob::PrefixCache, Value::Switch(false), Origin::CommandLine),
        "",
    ),
    ("warm is sooner, with its hits", |s, f| pair(s, f, 8.0, Some(0.66)), ""),
    ("warm as slow as cold, without hits", |s, f| pair(s, f, 15.0, Some(0.02)), "cache-misses high"),
    ("warm as slow as cold, hits not known", |s, f| pair(s, f, 15.0, None), "cache-misses medium"),
    ("warm as slow as cold in spite of its hits", |s, f| pair(s, f, 15.0, Some(0.66)), ""),
    (
        "hits fall under load",
        |s, _| (s[1].server.hit_rate, s[2].server.hit_rate) = (Some(0.6), Some(0.1)),
        "cache-misses medium",
    ),
    (
        "evicted by what runs",
        |s, _| {
            (s[1].server.hit_rate, s[2].server.hit_rate) = (Some(0.6), Some(0.1));
            s[2].server.kv_max = Some(0.9);
        },
        "cache-misses high",
    ),
    ("a cold cache has none", |s, _| s.iter_mut().for_each(|s| s.server.hit_rate = Some(0.0)), ""),
    // Several GPUs.
    ("four GPUs, nearly four times as fast", |s, f| gpus(s, f, (30.0, 9.0), None), ""),
    ("four GPUs, hardly faster", |s, f| gpus(s, f, (30.0, 18.0), None), "communication-bound medium"),
    (
        "and beyond its floor they lose",
        |s, f| gpus(s, f, (25.0, 18.0), Some(EIGHT)),
        "communication-bound high",
    ),
    ("what they lose was there before", |s, f| gpus(s, f, (60.0, 44.0), Some(EIGHT)), ""),
    (
        "far above its floor, nothing to compare",
        |s, f| {
            (f.curves[0].limit, f.curves[0].tensor_parallel) = (None, Some(4));
            f.curves[0].hardware = hardware(4, EIGHT);
            s[0] = step(1, Level::concurrency(1), (15.0, 20.0), 25.0);
        },
        "communication-bound low",
    ),
    // Stability and the client.
    (
        "the backlog grows",
        |s, f| {
            f.curves[0].limit = Some("stability".into());
            (s[2].stable, s[2].achieved_rate) = (Some(false), 24.0);
        },
        "unstable high",
    ),
    (
        "it grows, and most is completed",
        |s, f| {
            f.curves[0].limit = Some("stability".into());
            s[2].stable = Some(false);
        },
        "unstable medium",
    ),
    (
        "it grows where no limit was missed",
        |s, f| {
            s[2].stable = Some(false);
            f.curves[0].limit = None
        },
        "",
    ),
    ("the client was the limit", |s, _| s[2].verdict = Verdict::Invalid, "client-limited high"),
    ("the client was the limit elsewhere", |s, _| s[1].verdict = Verdict::Invalid, ""),
    // Causes that make everything worse come before their effects.
    (
        "the cause before what follows from it",
        |s, _| {
            queue(s);
            s[2].server = ServerSide {
                kv_max: Some(0.999),
                waiting_max: Some(50.0),
                preemptions: Some(90.0),
                ..ServerSide::default()
            };
        },
        "preemption high, kv-exhaustion high, prefill-bound medium, queueing high",
    ),
];

#[test]
fn each_rule_fires_where_it_must_and_nowhere_else() {
    let wrong: Vec<String> = CASES
        .iter()
        .map(|(what, change, want)| (what, found(*change), *want))
        .filter(|(_, got, want)| got != want)
        .map(|(what, got, want)| format!("{what}: {got:?}, not {want:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_in_the_table_of_cases() {
    for kind in Kind::ALL {
        let cases = CASES.iter().filter(|(.., want)| want.contains(kind.name())).count();
        assert!(cases > 0, "{kind:?}");
        assert!(CASES.iter().any(|(.., want)| !want.contains(kind.name())), "{kind:?}");
    }
    assert!(RULES.len() >= Kind::ALL.len());
}

/// An undecidable kind is reported if a limit was missed, or if several GPUs hold one copy of the model.
#[test]
fn what_cannot_be_told_is_said() {
    let untold = |change: Change| {
        let (mut steps, mut facts) = usual();
        change(&mut steps, &mut facts);
        let all = diagnose(&steps, &facts).untold;
        all.iter().map(|u| u.kind.name()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(untold(|_, _| ()), "preemption, kv-exhaustion, batch-too-small");
    assert_eq!(untold(|_, f| f.curves[0].limit = None), "", "no limit was missed");
    let told: Change = |s, _| {
        let page = ServerSide {
            kv_max: Some(0.4),
            waiting_mean: Some(0.0),
            waiting_max: Some(0.0),
            running_mean: Some(3.0),
            preemptions: Some(0.0),
            queue: histogram(1.0),
            prefill: histogram(3.0),
            ttft: histogram(14.0),
            ..ServerSide::default()
        };
        s.iter_mut().for_each(|s| s.server = page);
    };
    assert_eq!(untold(told), "", "the counters tell");
    let four: Change = |_, f| (f.curves[0].limit, f.curves[0].tensor_parallel) = (None, Some(4));
    assert_eq!(untold(four), "communication-bound");
    let near: Change = |s, f| {
        (f.curves[0].limit, f.curves[0].tensor_parallel) = (None, Some(4));
        f.curves[0].hardware = hardware(4, EIGHT);
        s[0] = step(1, Level::concurrency(1), (15.0, 20.0), 9.0);
    };
    assert_eq!(untold(near), "", "so near its floor they do not wait for one another");
}

#[test]
fn advice_names_the_servers_own_flags_and_the_values_to_set() {
    let advice = |flags: Option<Flags>, command: &str| {
        let (mut steps, mut facts) = usual();
        (steps[2].server.preemptions, steps[2].server.running_mean) = (Some(50.0), Some(80.0));
        let curve = &mut facts.curves[0];
        curve.flags = flags;
        curve.settings.read_command_line(command, Origin::CommandLine);
        let advice = diagnose(&steps, &facts).findings.remove(0).advice;
        let said = |a: &Advice| (a.flag.map(|f| (f.name, f.is_guess)), a.to.clone().map(|to| to.value));
        advice.iter().map(said).collect::<Vec<_>>()
    };
    let vllm = advice(Some(Flags::Vllm), "vllm serve m --max-num-seqs 128 --gpu-memory-utilization 0.92");
    assert_eq!(vllm[0], (Some(("--gpu-memory-utilization", false)), Some(Value::Share(0.95))));
    let bound = advice(Some(Flags::Vllm), "vllm serve m --gpu-memory-utilization 0.95 --kv-cache-dtype fp8");
    let names: Vec<_> = bound.iter().filter_map(|(flag, _)| Some(flag.as_ref()?.0)).collect();
    assert_eq!(names, ["--tensor-parallel-size"], "what is set cannot be advised");
    let sglang = advice(Some(Flags::Sglang), "");
    assert_eq!(sglang[0], (Some(("--mem-fraction-static", false)), None), "the present share is not known");
    assert_eq!(advice(None, "")[0].0, Some(("--gpu-memory-utilization", true)), "no engine");
}

#[test]
fn what_to_measure_next_is_a_command_for_this_plan() {
    let next = |change: Change| {
        let (mut steps, mut facts) = usual();
        facts.again = "goodput sweep plan.toml --virtual-time".into();
        change(&mut steps, &mut facts);
        diagnose(&steps, &facts).findings.remove(0).next.command
    };
    let arrivals = next(|s, _| queue_of_short_prompts(s));
    assert_eq!(arrivals, "goodput sweep plan.toml --set 'workload.arrivals=constant' --virtual-time");
    let seats = next(|s, f| {
        seats(s);
        (f.curves[0].seats, f.curves[0].flags) = (Some(8), Some(Flags::Simulated));
        f.curves[0].settings.set(Knob::Sequences, Value::Count(8), Origin::Plan);
    });
    assert_eq!(seats, "goodput sweep plan.toml --set 'server.simulated.max-num-seqs=16' --virtual-time");
    let row = next(|s, f| {
        on_tpot(s, f, 26.0);
        (f.curves[0].limit, f.curves[0].question) = (None, Some("tpot".into()));
    });
    assert_eq!(row, "goodput sweep plan.toml --virtual-time", "rows have levels of their own");
    let refused = next(|s, f| {
        queue_of_short_prompts(s);
        f.accepts = Accepts::new(|sets| !sets.iter().any(|set| set.starts_with("workload.arrivals")));
    });
    assert!(refused.contains("--set 'search.rates=["), "another measurement: {refused}");
    let nothing = next(|s, f| {
        queue_of_short_prompts(s);
        f.accepts = Accepts::new(|_| false);
    });
    assert_eq!(nothing, "goodput sweep plan.toml --virtual-time");
}

/// The threshold of queueing: in M/D/1, where waiting is the only effect, the tail grows more than twice as much as the
/// median.
#[test]
fn a_queue_without_anything_else_is_told() {
    for load in [0.3, 0.5, 0.7, 0.9, 0.95] {
        let mut seed = 7_u64;
        let mut gap = || {
            // Knuth's MMIX.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            -(((seed >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln() / load
        };
        // Lindley's recursion, service of 1.
        let mut wait = 0.0_f64;
        let mut times: Vec<f64> = (0..200_000)
            .map(|_| {
                let time = wait + 1.0;
                wait = (time - gap()).max(0.0);
                time
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (times[100_000], times[198_000]);
        assert!(p99 > 2.0 && p99 / p50 > 2.4, "{load}: {p50} {p99}");
    }
}

#[test]
fn what_holds_a_clock_down_decides_what_is_advised() {
    let advice = |further: &[(&str, f64)]| -> Vec<super::change::Change> {
        let (mut steps, facts) = usual();
        clock(&mut steps, 1000.0, further);
        let found = diagnose(&steps, &facts).findings.remove(0);
        found.advice.iter().map(|advice| advice.change).collect::<Vec<_>>()
    };
    let of = |change: DeploymentChange| super::change::Change::from(change);
    let limit = |watts, most| {
        [
            ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 4.0),
            ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", watts),
            ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", most),
        ]
    };
    assert_eq!(advice(&limit(300.0, 400.0)), [of(DeploymentChange::RaisePowerLimit)]);
    assert_eq!(advice(&limit(400.0, 400.0)), [of(DeploymentChange::FasterCompute)]);
    let heat = advice(&[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 32.0)]);
    assert_eq!(heat, [of(DeploymentChange::CoolGpus), of(DeploymentChange::FasterCompute)]);
    let set = advice(&[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 2.0)]);
    assert_eq!(set, [of(DeploymentChange::FreeClocks)]);
}

#[test]
fn drafting_is_not_advised_where_it_is_on() {
    let advised = |change: Change| {
        let (mut steps, mut facts) = usual();
        on_tpot(&mut steps, &mut facts, 7.0);
        change(&mut steps, &mut facts);
        let all = diagnose(&steps, &facts).findings;
        let drafting = super::change::Change::from(DeploymentChange::SpeculativeDecoding);
        all.iter().flat_map(|f| &f.advice).any(|advice| advice.change == drafting)
    };
    assert!(advised(|_, _| ()));
    assert!(!advised(|s, _| (s[2].server.drafted_mean, s[2].server.accepted_mean) = (Some(4.0), Some(2.5))));
    assert!(!advised(|_, f| f.curves[0].settings.set(
        Knob::Speculative,
        Value::Switch(true),
        Origin::CommandLine
    )));
}
