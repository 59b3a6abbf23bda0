//! Cases that the server's counters, its settings or its hardware decide.

use super::*;
use goodput_core::record::Failure;

pub(super) const CASES: &[Case] = &[
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
        "the same, and what reading prompts takes is not known",
        |s, f| {
            seats(s);
            f.curves[0].seats = Some(8);
            s[0].completed = 3;
            s.remove(1);
        },
        "batch-too-small medium",
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
    (
        "requests that were never sent, behind too many open ones",
        |s, f| {
            queue(s);
            (s[2].failed, s[2].limits[0].misses) = (40, 60);
            let kind = Failure::ClientLimit.name().to_owned();
            f.failures = vec![StepFailures { step: 3, kind, status: None, count: 40 }];
        },
        "prefill-bound medium, queueing medium",
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
    (
        "the GPU is idle with requests in flight",
        |s, _| {
            clock(s, 1410.0, &[("DCGM_FI_DEV_GPU_UTIL", 22.0)]);
            s[2].in_flight_mean = 8.0;
        },
        "idle-gpus high",
    ),
    (
        "the GPU is idle, and so is the server",
        |s, _| {
            clock(s, 1410.0, &[("DCGM_FI_DEV_GPU_UTIL", 22.0)]);
            s[2].in_flight_mean = 1.0;
        },
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
