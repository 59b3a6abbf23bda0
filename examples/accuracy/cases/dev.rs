//! The development cases, on which the search may be tuned.

use super::engines::{Gpu, exponential, fixed, lognormal, several, single};
use super::{Case, Engine, Group, TruthLine, changes, curves, items, limits, talks};
use goodput::sim::engine::truth::{boundary, md1_wait_cdf, mm1_sojourn_cdf, mmc_wait_cdf};
use goodput::slo::Metric::{E2e, Tpot, Ttft};
use std::time::Duration;

/// Found by `accuracy truths --requests 4000000`; the queues with 30000000, 8b, 8b-floor, 8b-slots, 8b-pairs, 70b-long and
/// 8b-kv with 12000000, a40-chat with 8000000.
const TRUTHS: &[TruthLine] = &[
    ("md1", [9.25567, 0.109, 5.512, 4.53, 20.000, 0.0000]),
    ("mm1", [10.80305, 0.175, 5.399, 10.59, 19.880, 0.0049]),
    ("mg1", [16.02422, 0.245, 3.588, 9.68, 33.285, 0.0709]),
    ("mm32", [10.71125, 0.095, 15.008, 23.79, 15.938, 0.0000]),
    ("md16", [9.53282, 0.086, 9.136, 7.69, 16.000, 0.0000]),
    ("shallow", [1.85052, 0.438, 0.937, 2.15, 10.010, 0.4194]),
    ("8b", [14.18210, 0.444, 2.213, 4.65, 30.664, 0.1162]),
    ("8b-tpot", [18.16277, 0.280, 8.892, 9.58, 30.672, 0.0000]),
    ("8b-e2e", [20.61689, 0.212, 4.778, 1.74, 30.842, 0.0380]),
    ("8b-floor", [9.34021, 0.448, 1.126, 1.06, 30.653, 0.3653]),
    ("8b-burst", [20.06822, 0.460, 11.718, 42.60, 31.051, 0.0000]),
    ("8b-long", [3.52363, 0.390, 5.373, 7.12, 6.485, 0.0000]),
    ("8b-slots", [16.01870, 0.158, 21.611, 57.34, 20.070, 0.0000]),
    ("70b", [4.12476, 0.321, 6.370, 7.43, 5.743, 0.0020]),
    ("8b-kv", [16.78739, 0.203, 22.225, 108.88, 20.281, 0.0000]),
    ("70b-equal", [3.13260, 0.214, 16.231, 17.96, 5.274, 0.0000]),
    ("fast", [401.74567, 0.236, 7.603, 5.77, 658.654, 0.0010]),
    ("none-1.2", [0.00000, 0.000, 0.000, 1.00, 30.863, 1.1747]),
    ("none-20", [0.00000, 0.000, 0.000, 1.00, 24.955, 18.1273]),
    ("none-3", [0.00000, 0.000, 0.000, 1.00, 5.734, 2.8843]),
    ("capped-2", [15.26530, 0.098, 12.631, 20.19, 24.030, 0.0000]),
    ("capped-1.3", [35.07133, 0.264, 9.611, 10.09, 65.023, 0.0000]),
    ("70b-long", [0.34479, 0.813, 0.996, 2.79, 1.327, 0.3867]),
    ("a40-chat", [36.22619, 0.144, 74.862, 357.31, 40.056, 0.0000]),
    ("8b-pairs", [2.04670, 1.229, 0.807, 4.66, 30.870, 0.0594]),
];

pub(super) const CHAT: (&str, &str) = (
    "{ lognormal = { mean = 500, cv = 1, max = 8000 } }",
    "{ lognormal = { mean = 120, cv = 0.8, max = 1000 } }",
);
pub(super) const SHORT: (&str, &str) = (
    "{ lognormal = { mean = 250, cv = 0.7, max = 4000 } }",
    "{ lognormal = { mean = 60, cv = 0.6, max = 500 } }",
);
pub(super) const LONG: (&str, &str) = (
    "{ lognormal = { mean = 3000, cv = 1.2, max = 24000 } }",
    "{ lognormal = { mean = 100, cv = 0.8, max = 1000 } }",
);
pub(super) const EQUAL: (&str, &str) = ("{ fixed = 600 }", "{ fixed = 100 }");

pub(super) fn engine(name: &str, gpu: Gpu, (input, output): (&str, &str)) -> Case {
    Case::new(name, gpu.engine()).tokens(input, output)
}

/// Returns all development cases.
pub(crate) fn development() -> Vec<Case> {
    let mut cases = queues();
    cases.extend(engines());
    cases.extend(others());
    let mut cases: Vec<Case> = cases.into_iter().map(|case| exact(case.with(TRUTHS))).collect();
    cases.extend(curves::curves());
    cases.extend(limits::limits());
    cases.extend(items::items());
    cases.extend(talks::talks());
    cases.extend(changes::changes());
    cases
}

/// Sets the truths with a closed form.
fn exact(case: Case) -> Case {
    let (ms50, ms150) = (Duration::from_millis(50), Duration::from_millis(150));
    match case.name.as_str() {
        "md1" => case.exactly(boundary(20.0, 0.99, |r| md1_wait_cdf(r, ms50, ms150))),
        "mm1" => case.exactly(boundary(20.0, 0.99, |r| mm1_sojourn_cdf(r, ms50, ms50 * 10))),
        "mm32" => case.exactly(boundary(16.0, 0.99, |r| mmc_wait_cdf(r, ms50 * 40, 32, ms150))),
        "capped-2" => {
            case.exactly(boundary(24.0, 0.99, |r| mmc_wait_cdf(r, ms50 * 20, 24, Duration::from_millis(110))))
        }
        _ => case,
    }
}

fn queues() -> Vec<Case> {
    vec![
        Case::new("md1", single(fixed(50.0))).limit(Ttft, 200.0),
        Case::new("mm1", single(exponential(50.0))).limit(Ttft, 500.0),
        Case::new("mg1", single(lognormal(30.0, 1.0))).limit(Ttft, 300.0),
        Case::new("mm32", several(32, exponential(2000.0), 50.0)).limit(Ttft, 200.0),
        Case::new("md16", several(16, fixed(1000.0), 50.0)).limit(Ttft, 200.0),
        // 0.6 % of the service times exceed the limit: a flat curve.
        Case::new("shallow", single(lognormal(100.0, 0.8))).limit(Ttft, 500.0).group(Group::Flat),
    ]
}

fn engines() -> Vec<Case> {
    vec![
        engine("8b", Gpu::B8, CHAT).limit(Ttft, 200.0).limit(Tpot, 50.0),
        engine("8b-tpot", Gpu::B8, CHAT).limit(Ttft, 500.0).limit(Tpot, 22.0),
        engine("8b-e2e", Gpu::B8, CHAT).limit(E2e, 7000.0),
        engine("8b-floor", Gpu::B8, CHAT).limit(E2e, 4360.0).group(Group::Flat),
        engine("8b-pairs", Gpu::B8, CHAT).bursts(2.5).limit(Ttft, 240.0).group(Group::Flat),
        engine("8b-burst", Gpu::B8, CHAT).bursts(2.5).limit(Ttft, 1000.0).limit(Tpot, 50.0),
        engine("8b-slots", Gpu { seats: 32, ..Gpu::B8 }, CHAT).limit(Ttft, 500.0),
        engine("8b-long", Gpu::B8, LONG).limit(Ttft, 3000.0).limit(Tpot, 80.0),
        engine("8b-kv", Gpu { kv_tokens: 24_000, ..Gpu::B8 }, CHAT).limit(Ttft, 1000.0).limit(Tpot, 50.0),
        engine("70b", Gpu::B70, CHAT).limit(Ttft, 2000.0).limit(Tpot, 120.0),
        engine("70b-equal", Gpu::B70, EQUAL).limit(Ttft, 1000.0).limit(Tpot, 80.0),
        engine("70b-long", Gpu::B70, LONG).limit(Ttft, 6250.0).limit(Tpot, 186.0).group(Group::Flat),
        engine("fast", Gpu::B05, SHORT).limit(Ttft, 12.0).limit(Tpot, 5.0),
        // The shipped plan `default`. Near the boundary, TPOT exceeds its limit in rare spells of hundreds of requests.
        Case::new("a40-chat", Engine::Preset("a40-qwen3-0.6b"))
            .tokens("{ lognormal = { mean = 500, cv = 0.4, max = 1600 } }", "{ fixed = 100 }")
            .limit(Ttft, 200.0)
            .limit(Tpot, 50.0),
    ]
}

/// Servers that miss their limits without load, and servers that are never offered their capacity.
fn others() -> Vec<Case> {
    vec![
        engine("none-1.2", Gpu::B8, CHAT).limit(E2e, 3260.0),
        engine("none-3", Gpu::B70, CHAT).limit(E2e, 11_800.0),
        Case::new("none-20", single(lognormal(40.0, 0.5))).limit(Ttft, 55.0),
        engine("capped-1.3", Gpu::B8, SHORT).limit(Ttft, 300.0).limit(Tpot, 16.0).capped(1.3),
        Case::new("capped-2", several(24, exponential(1000.0), 40.0)).limit(Ttft, 150.0).capped(2.0),
    ]
}
