//! The previous held-out cases. They have been looked at since, so they are no longer fresh, but they are not used for
//! tuning one by one.
//! *flat* became a development case.

use super::drawn::drawn;
use super::engines::{Gpu, exponential, fixed, lognormal, quantile, several, single};
use super::{Case, TruthLine};
use goodput::sim::engine::truth::{boundary, md1_wait_cdf, mm1_sojourn_cdf, mmc_wait_cdf};
use goodput::slo::Metric::{E2e, Tpot, Ttft};
use std::time::Duration;

/// Found by `accuracy truths --former --requests 4000000`; md80 and drawn-3 with 8000000.
const TRUTHS: &[TruthLine] = &[
    ("md1-80", [5.36081, 0.293, 5.118, 3.77, 12.500, 0.0000]),
    ("mm1-fast", [269.12781, 0.494, 4.982, 11.59, 498.957, 0.0043]),
    ("md80", [25.24670, 0.166, 23.289, 39.21, 32.000, 0.0000]),
    ("mm20-slow", [1.91661, 0.285, 10.132, 13.52, 3.369, 0.0000]),
    ("13b-kv", [3.93298, 0.418, 16.103, 73.41, 5.013, 0.0000]),
    ("13b-burst", [2.32772, 1.096, 2.229, 9.82, 7.452, 0.0003]),
    ("13b-rag", [0.75814, 0.337, 4.341, 3.51, 1.959, 0.0000]),
    ("1b-fast", [706.10248, 0.248, 18.286, 36.97, 938.502, 0.0000]),
    ("13b-e2e", [4.21450, 0.251, 3.597, 1.48, 7.439, 0.0495]),
    ("drawn-0", [23.63620, 0.468, 3.164, 3.65, 80.595, 0.0537]),
    ("drawn-2", [18.98347, 0.234, 14.672, 19.14, 27.491, 0.0248]),
    ("drawn-1", [0.42287, 2.923, 0.530, 4.12, 6.274, 0.2195]),
    ("drawn-3", [8.55638, 0.235, 111.255, 927.07, 8.830, 0.0000]),
    ("drawn-5", [30.21776, 0.258, 13.209, 17.48, 38.841, 0.0080]),
    ("drawn-4", [2.06293, 0.810, 2.088, 5.17, 12.608, 0.0030]),
    ("drawn-6", [0.32775, 1.291, 0.761, 1.61, 7.453, 0.1532]),
    ("none-1.05", [0.00000, 0.000, 0.000, 1.00, 33.378, 1.0453]),
    ("none-1.3", [0.00000, 0.000, 0.000, 1.00, 133.182, 1.3030]),
    ("none-2", [0.00000, 0.000, 0.000, 1.00, 14.989, 1.9870]),
    ("none-5", [0.00000, 0.000, 0.000, 1.00, 7.435, 4.8327]),
    ("none-50", [0.00000, 0.000, 0.000, 1.00, 1.944, 50.1873]),
    ("drawn-7", [4.93263, 0.606, 1.933, 2.25, 11.151, 0.0745]),
    ("capped-1.5", [17.19859, 0.381, 4.933, 5.40, 37.480, 0.0000]),
    ("capped-4", [6.55959, 0.476, 4.199, 7.59, 14.257, 0.0187]),
    ("capped-1.15", [3.54465, 0.289, 7.494, 7.40, 7.395, 0.0000]),
];

const ASSIST: (&str, &str) = (
    "{ lognormal = { mean = 900, cv = 0.9, max = 12000 } }",
    "{ lognormal = { mean = 180, cv = 0.7, max = 1500 } }",
);
const RAG: (&str, &str) = (
    "{ lognormal = { mean = 4500, cv = 0.8, max = 30000 } }",
    "{ lognormal = { mean = 70, cv = 0.6, max = 600 } }",
);
const CLASSIFY: (&str, &str) =
    ("{ uniform = { min = 50, max = 350 } }", "{ uniform = { min = 4, max = 28 } }");

/// A 13B model on one older card.
const B13: Gpu = Gpu {
    base_us: 3000.0,
    weights_us: 14_000.0,
    token_us: 95.0,
    sequence_us: 45.0,
    kv_token_ns: 90.0,
    attention_ns: 2.5,
    seats: 128,
    batched_tokens: 4096,
    kv_tokens: 250_000,
    cv: 0.12,
};

/// A model of one billion parameters.
const B1: Gpu = Gpu {
    base_us: 900.0,
    weights_us: 700.0,
    token_us: 4.0,
    sequence_us: 8.0,
    kv_token_ns: 6.0,
    attention_ns: 0.3,
    seats: 384,
    batched_tokens: 4096,
    kv_tokens: 1_500_000,
    cv: 0.2,
};

fn engine(name: &str, gpu: Gpu, (input, output): (&str, &str)) -> Case {
    Case::new(name, gpu.engine()).tokens(input, output)
}

/// Returns all of these cases.
pub(crate) fn former() -> Vec<Case> {
    let mut cases = queues();
    cases.extend(engines());
    cases.extend(drawn(8));
    cases.extend(none());
    cases.extend(capped());
    cases.into_iter().map(|case| exact(case.with(TRUTHS))).collect()
}

/// Sets the truths with a closed form.
fn exact(case: Case) -> Case {
    let ms = Duration::from_millis;
    match case.name.as_str() {
        "md1-80" => case.exactly(boundary(12.5, 0.99, |r| md1_wait_cdf(r, ms(80), ms(220)))),
        "mm1-fast" => case.exactly(boundary(500.0, 0.99, |r| mm1_sojourn_cdf(r, ms(2), ms(20)))),
        "mm20-slow" => case.exactly(boundary(20.0 / 6.0, 0.99, |r| mmc_wait_cdf(r, ms(6000), 20, ms(300)))),
        "capped-4" => case.exactly(boundary(1000.0 / 70.0, 0.99, |r| mm1_sojourn_cdf(r, ms(70), ms(600)))),
        _ => case,
    }
}

fn queues() -> Vec<Case> {
    vec![
        Case::new("md1-80", single(fixed(80.0))).limit(Ttft, 300.0),
        Case::new("mm1-fast", single(exponential(2.0))).limit(Ttft, 20.0),
        Case::new("mm20-slow", several(20, exponential(6000.0), 100.0)).limit(Ttft, 400.0),
        Case::new("md80", several(80, fixed(2500.0), 50.0)).limit(Ttft, 150.0),
    ]
}

fn engines() -> Vec<Case> {
    vec![
        engine("13b-kv", Gpu { kv_tokens: 40_000, ..B13 }, ASSIST).limit(Ttft, 2500.0).limit(Tpot, 70.0),
        engine("13b-burst", B13, ASSIST).bursts(2.5).limit(Ttft, 1500.0).limit(Tpot, 60.0),
        engine("13b-e2e", B13, ASSIST).limit(E2e, 20_000.0),
        engine("13b-rag", B13, RAG).limit(Ttft, 5000.0).limit(Tpot, 150.0),
        engine("1b-fast", B1, CLASSIFY).limit(Ttft, 40.0).limit(Tpot, 8.0),
    ]
}

/// Points of the standard normal distribution with 1.05 % and 2 % above them.
const Z_1_05: f64 = 2.307_9;
const Z_2: f64 = 2.053_7;

/// Servers that miss their limits without load, named by the share of misses in %.
fn none() -> Vec<Case> {
    vec![
        Case::new("none-1.05", single(lognormal(30.0, 0.7))).limit(Ttft, quantile(30.0, 0.7, Z_1_05)),
        engine("none-1.3", B1, ASSIST).limit(E2e, 973.0),
        Case::new("none-2", several(12, lognormal(800.0, 0.6), 20.0)).limit(E2e, quantile(800.0, 0.6, Z_2)),
        engine("none-5", B13, ASSIST).limit(E2e, 7280.0),
        engine("none-50", B13, RAG).limit(Ttft, 350.0),
    ]
}

/// Servers that are never offered their capacity.
fn capped() -> Vec<Case> {
    vec![
        engine("capped-1.15", B13, ASSIST).limit(Ttft, 2000.0).limit(Tpot, 45.0).capped(1.15),
        engine("capped-1.5", B1, RAG).limit(Ttft, 400.0).limit(Tpot, 12.0).capped(1.5),
        Case::new("capped-4", single(exponential(70.0))).limit(Ttft, 600.0).capped(4.0),
    ]
}
