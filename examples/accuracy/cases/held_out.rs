//! The held-out cases: forty draws from a wide distribution of servers, workloads and limits, run to report and never
//! to tune on.
//!
//! The seed was fixed on 23 November 2026, before the first of these cases was ever simulated; none was replaced. The
//! distribution:
//!
//! - arrivals: half Poisson, a third gamma with cv .3 to 3, the rest constant;
//! - servers: a sixth single ones, a fifth several with one queue (2 to 64), the rest batch engines with models of 1 to 70 billion
//!   parameters, 8 to 1024 seats and 20,000 to a million KV tokens;
//! - lengths: lognormal; a third of the batch engines have rare prompts (.1 to 2 %) that are 10 to 30 times as long, and a
//!   third of the single servers have rare service times of that kind;
//! - limits: one to three of TTFT, TPOT and e2e, each at its p90, p95 or p99; from 1.05 times the time of an unloaded request
//!   at that percentile, so that r\* is a small part of the capacity or there is none, to 30 times, with no misses until the
//!   server is full.
//!
//! The mean answer of an unloaded server takes at most four seconds, so that the default timeout of a minute has no
//! effect.

use super::draw::{Draw, digits};
use super::engines::{
    Gpu, P90, P95, P99, exponential, fixed, lognormal, quantile, several, single, two_sizes,
};
use super::{Case, TruthLine};
use goodput::slo::Metric::{E2e, Tpot, Ttft};

/// Fixed once, before any of these cases was run.
const SEED: u64 = 2_026_112_319;

/// Number of cases.
const DRAWS: usize = 40;

/// Found by `accuracy truths --set held-out --requests 1000000`; near-cliffs with 8,000,000.
const TRUTHS: &[TruthLine] = &[
    ("wide-0", [64.24562, 0.483, 5.633, 36.73, 96.336, 0.0000]),
    ("wide-1", [12.55727, 0.923, 2.361, 2.05, 55.866, 0.0000]),
    ("wide-2", [0.28251, 11.069, 0.077, 1.30, 59.160, 0.9276]),
    ("wide-3", [0.01929, 5.401, 0.378, 2.78, 106.815, 0.5379]),
    ("wide-4", [0.59636, 1.190, 0.401, 1.01, 426.649, 5.7947]),
    ("wide-5", [31.78701, 0.106, 115.342, 345.39, 33.046, 0.0000]),
    ("wide-6", [24.92839, 0.077, 114.364, 977.10, 25.575, 0.0000]),
    ("wide-7", [2.41130, 2.925, 0.761, 1.81, 83.357, 0.0000]),
    ("wide-8", [80.93668, 1.000, f64::INFINITY, 1.00, 81.750, 0.0000]),
    ("wide-9", [16.30155, 0.692, 7.519, 9.92, 28.465, 0.0000]),
    ("wide-10", [212.78266, 0.239, 17.837, 363.33, 237.216, 0.0067]),
    ("wide-11", [31.31929, 0.170, 7.693, 3.11, 106.263, 0.0200]),
    ("wide-12", [37.65098, 0.103, 82.318, 935.68, 39.077, 0.0000]),
    ("wide-13", [0.84604, 0.332, 3.437, 2.89, 2.206, 0.0000]),
    ("wide-14", [61.08554, 0.670, 1.203, 1.20, 117.553, 0.7474]),
    ("wide-15", [203.94401, 0.185, 15.236, 28.41, 231.835, 0.0007]),
    ("wide-16", [3.87465, 0.390, 5.483, 10.57, 5.772, 0.1827]),
    ("wide-17", [14.06494, 0.295, 7.219, 20.18, 19.791, 0.1516]),
    ("wide-18", [11.55544, 0.238, 48.157, 295.29, 12.563, 0.0000]),
    ("wide-19", [116.77294, 0.281, 7.880, 18.91, 153.610, 0.0000]),
    ("wide-20", [41.80257, 0.226, 7.912, 15.19, 52.281, 0.1807]),
    ("wide-21", [8.68209, 2.284, 1.287, 3.08, 34.756, 0.1989]),
    ("wide-22", [2.18102, 0.732, 1.023, 2.50, 12.776, 0.9495]),
    ("wide-23", [0.61820, 0.490, 1.003, 1.03, 49.473, 0.4185]),
    ("wide-24", [280.26071, 0.173, 22.488, 48.66, 365.402, 0.0000]),
    ("wide-25", [7.15890, 0.562, 3.304, 6.60, 18.423, 0.0000]),
    ("wide-26", [28.48750, 1.624, 1.759, 3.40, 152.717, 0.2989]),
    ("wide-27", [0.00000, 0.000, 0.000, 1.00, 3.865, 1.0179]),
    ("wide-28", [4.12970, 0.082, 56.682, 78.26, 4.429, 0.0000]),
    ("wide-29", [43.80819, 1.505, 1.927, 2.95, 72.416, 0.3379]),
    ("wide-30", [213.98665, 0.172, 5.756, 4.28, 267.080, 1.5400]),
    ("wide-31", [11.97957, 0.160, 13.442, 157.12, 13.755, 0.0000]),
    ("wide-32", [14.45000, 0.500, f64::INFINITY, 1.00, 14.512, 0.0000]),
    ("wide-33", [41.07655, 0.163, 15.044, 108.99, 46.311, 0.0000]),
    ("wide-34", [303.15749, 0.310, 13.792, 8.20, 437.701, 0.0000]),
    ("wide-35", [6.66026, 0.183, 20.895, 65.31, 7.331, 0.0313]),
    ("wide-36", [16.39128, 0.925, 6.288, 11.28, 35.714, 0.0000]),
    ("wide-37", [13.34674, 1.000, f64::INFINITY, 1.00, 13.481, 0.0000]),
    ("wide-38", [1.10163, 0.539, 4.121, 2.28, 3.788, 0.0000]),
    ("wide-39", [1.37959, 0.822, 2.092, 1.46, 11.125, 0.0000]),
];

/// Share of misses that the binding limit allows, if it is not the strictest limit.
const BINDING: &[(&str, f64)] =
    &[("wide-0", 0.1), ("wide-16", 0.05), ("wide-20", 0.1), ("wide-23", 0.1), ("wide-31", 0.1)];

/// Returns all held-out cases.
pub(crate) fn held_out() -> Vec<Case> {
    let mut draw = Draw::seeded(SEED);
    (0..DRAWS).map(|i| bound(one(&mut draw, &format!("wide-{i}")).with(TRUTHS))).collect()
}

fn bound(case: Case) -> Case {
    match BINDING.iter().find(|(name, _)| *name == case.name) {
        Some((_, allowed)) => case.allowing(*allowed),
        None => case,
    }
}

/// Draws a percentile, with the corresponding point of the standard normal distribution.
fn percentile(draw: &mut Draw) -> (f64, f64) {
    match draw.uniform(0.0, 1.0) {
        u if u < 0.25 => (90.0, P90),
        u if u < 0.5 => (95.0, P95),
        _ => (99.0, P99),
    }
}

/// Draws the ratio of a limit to the unloaded value.
fn room(draw: &mut Draw) -> f64 {
    draw.scale(1.05, 30.0)
}

fn one(draw: &mut Draw, name: &str) -> Case {
    let arrivals = draw.uniform(0.0, 1.0);
    let cv = draw.scale(0.3, 3.0);
    let kind = draw.uniform(0.0, 1.0);
    let case = match kind {
        u if u < 1.0 / 6.0 => one_server(draw, name),
        u if u < 11.0 / 30.0 => servers(draw, name),
        _ => engine(draw, name),
    };
    match arrivals {
        u if u < 0.5 => case,
        u if u < 0.5 + 1.0 / 3.0 => case.bursts(cv),
        _ => case.evenly(),
    }
}

/// Draws a single server with a queue.
fn one_server(draw: &mut Draw, name: &str) -> Case {
    let mean = draw.scale(3.0, 300.0);
    let ((percentile, z), room) = (percentile(draw), room(draw));
    let cv = draw.scale(0.3, 1.5);
    let (service, unloaded) = match draw.uniform(0.0, 1.0) {
        u if u < 1.0 / 3.0 => {
            let long = digits(mean * draw.scale(10.0, 30.0));
            (two_sizes(mean, long, draw.scale(0.001, 0.02)), mean)
        }
        u if u < 0.5 => (fixed(mean), mean),
        u if u < 0.7 => (exponential(mean), mean * (1.0 / (1.0 - percentile / 100.0)).ln()),
        _ => (lognormal(mean, cv), quantile(mean, cv, z)),
    };
    Case::new(name, single(service)).limit_at(Ttft, percentile, digits(unloaded * room))
}

/// Draws several servers with one queue: TTFT is the wait plus a prefill, and e2e the wait plus the whole service time.
fn servers(draw: &mut Draw, name: &str) -> Case {
    let count = draw.scale(2.0, 64.0).round() as u32;
    let mean = draw.scale(100.0, 4000.0);
    let prefill = digits(mean * draw.scale(0.02, 0.2));
    let cv = draw.scale(0.3, 1.5);
    let (first, last) = (percentile(draw), percentile(draw));
    let (service, unloaded) = match draw.uniform(0.0, 1.0) {
        u if u < 0.25 => (fixed(mean), mean),
        u if u < 0.6 => (exponential(mean), mean * (1.0 / (1.0 - last.0 / 100.0)).ln()),
        _ => (lognormal(mean, cv), quantile(mean, cv, last.1)),
    };
    let case = Case::new(name, several(count, service, prefill));
    let (of_first, of_last) = (room(draw), room(draw));
    let ttft = |case: Case| case.limit_at(Ttft, first.0, digits(prefill * of_first));
    let e2e = |case: Case| case.limit_at(E2e, last.0, digits(unloaded * of_last));
    match draw.uniform(0.0, 1.0) {
        u if u < 0.5 => ttft(case),
        u if u < 0.75 => e2e(case),
        _ => e2e(ttft(case)),
    }
}

/// Draws a batch engine with times as in `drawn.rs`, a wider range of seats, and less room for KV.
fn engine(draw: &mut Draw, name: &str) -> Case {
    let billions = draw.scale(1.0, 70.0);
    let gpu = Gpu {
        base_us: draw.scale(1000.0, 6000.0),
        weights_us: digits(billions * draw.scale(300.0, 800.0)),
        token_us: digits(billions * draw.scale(2.5, 6.0)),
        sequence_us: draw.scale(5.0, 80.0),
        kv_token_ns: draw.scale(4.0, 80.0),
        attention_ns: digits(billions * draw.scale(0.05, 0.2)),
        seats: 8 << (draw.uniform(0.0, 8.0) as u32),
        batched_tokens: 1024 << (draw.uniform(0.0, 4.0) as u32),
        kv_tokens: draw.scale(20_000.0, 1_000_000.0) as u32,
        cv: digits(draw.uniform(0.05, 0.3)),
    };
    let token_ms = (gpu.base_us + gpu.weights_us) / 1e3;
    let (input, input_cv) = (draw.scale(100.0, 2000.0).round(), digits(draw.uniform(0.3, 1.5)));
    let output = draw.scale(20.0, 300.0).min(4000.0 / token_ms).max(5.0).round();
    let output_cv = digits(draw.uniform(0.3, 1.2));
    let lengths = |mean: f64, cv: f64| {
        format!("{{ lognormal = {{ mean = {mean}, cv = {cv}, max = {:.0} }} }}", (10.0 * mean).min(15_000.0))
    };
    let case = Case::new(name, gpu.engine()).tokens(&lengths(input, input_cv), &lengths(output, output_cv));
    let (share, times) = (draw.scale(0.001, 0.02), draw.scale(10.0, 30.0));
    let case = if draw.chance(1.0 / 3.0) {
        let long = (input * times).min(18_000.0).round();
        case.rarely(share, &format!("{{ fixed = {long} }}"), &lengths(output, output_cv))
    } else {
        case
    };
    limits(draw, case, &gpu, (input, input_cv), (output, output_cv))
}

/// Draws one to three limits, relative to the time of an unloaded request at that percentile.
fn limits(draw: &mut Draw, case: Case, gpu: &Gpu, input: (f64, f64), output: (f64, f64)) -> Case {
    let token_ms = (gpu.base_us + gpu.weights_us) / 1e3;
    let prefill_ms =
        |z: f64| (gpu.base_us + (gpu.token_us * quantile(input.0, input.1, z)).max(gpu.weights_us)) / 1e3;
    let (ttft, tpot, e2e) = (percentile(draw), percentile(draw), percentile(draw));
    let ttft_ms = digits(prefill_ms(ttft.1) * room(draw));
    let tpot_ms = digits(token_ms * draw.scale(1.1, 10.0));
    let e2e_ms =
        digits((prefill_ms(0.0) + token_ms * quantile(output.0, output.1, e2e.1)) * draw.scale(1.1, 6.0));
    let on_ttft = |case: Case| case.limit_at(Ttft, ttft.0, ttft_ms);
    let on_tpot = |case: Case| case.limit_at(Tpot, tpot.0, tpot_ms);
    let on_e2e = |case: Case| case.limit_at(E2e, e2e.0, e2e_ms);
    match draw.uniform(0.0, 1.0) {
        u if u < 0.25 => on_ttft(case),
        u if u < 0.4 => on_tpot(case),
        u if u < 0.55 => on_e2e(case),
        u if u < 0.8 => on_tpot(on_ttft(case)),
        _ => on_e2e(on_tpot(on_ttft(case))),
    }
}
