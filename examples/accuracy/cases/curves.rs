//! Development cases by the shape of their miss curve: cliffs, arrivals smoother than Poisson, and true rates far below
//! the capacity.

use super::dev::{CHAT, SHORT, engine};
use super::engines::{Gpu, fixed, lognormal, quantile, several, single, two_sizes};
use super::{Case, Group, TruthLine};
use goodput::slo::Metric::{Tpot, Ttft};

/// Found by `accuracy truths` with 300,000 requests (flat with 8 million, near-cliffs with 16 million, other queues
/// with a million).
const TRUTHS: &[TruthLine] = &[
    ("flat", [2.03150, 1.749, 0.376, 1.55, 25.024, 0.7015]),
    ("two-sizes", [1.79203, 5.770, 0.410, 2.58, 29.812, 0.5242]),
    ("gd32", [31.10683, 0.037, 159.520, 203.33, 31.983, 0.0000]),
    ("dg24", [21.72464, 0.029, 38.766, 7.83, 24.022, 0.0000]),
    ("md16-wide", [14.57758, 0.122, 47.801, 220.04, 16.000, 0.0000]),
    ("gd16-0.5", [13.48161, 0.241, 24.731, 13.31, 16.000, 0.0000]),
    ("8b-slots-even", [19.13916, 0.092, 85.082, 325.14, 20.203, 0.0000]),
    ("8b-smooth", [19.76388, 1.686, 4.101, 4.62, 30.777, 0.0737]),
    ("two-prompts", [0.77022, 10.475, 0.380, 2.12, 45.176, 0.5333]),
    ("bursts", [1.92532, 4.534, 0.897, 2.71, 30.791, 0.1825]),
    ("8b-tight", [4.17219, 4.662, 0.744, 1.89, 30.673, 0.4421]),
    ("8b-tpot-tight", [2.29562, 1.937, 1.933, 1.74, 30.416, 0.0000]),
];

/// The point of the standard normal distribution with 0.7 % above it.
const Z_0_7: f64 = 2.457_3;

pub(super) fn curves() -> Vec<Case> {
    let all = cliffs().into_iter().map(|c| c.group(Group::Cliff)).chain(smooth());
    all.chain(flats().into_iter().map(|c| c.group(Group::Flat))).map(|c| exact(c.with(TRUTHS))).collect()
}

/// Cases without misses until the server is full.
fn cliffs() -> Vec<Case> {
    vec![
        // D/D/1 and D/D/16: no request ever waits up to the capacity.
        Case::new("dd1", single(fixed(50.0))).evenly().limit(Ttft, 200.0),
        Case::new("dd16", several(16, fixed(1000.0), 50.0)).evenly().limit(Ttft, 200.0),
        // Only the backlog can fail: the longest service time that occurs is below the limit.
        Case::new("dg24", several(24, lognormal(1000.0, 0.3), 40.0)).evenly().limit(Ttft, 150.0),
        Case::new("gd32", several(32, fixed(1000.0), 50.0)).bursts(0.3).limit(Ttft, 250.0),
        // The limit is so loose that it is missed only when the queue is about to grow without bound.
        Case::new("md16-wide", several(16, fixed(1000.0), 50.0)).limit(Ttft, 1500.0),
        engine("8b-slots-even", Gpu { seats: 32, ..Gpu::B8 }, CHAT).evenly().limit(Ttft, 1000.0),
    ]
}

/// Gamma arrivals with cv below 1.
fn smooth() -> Vec<Case> {
    vec![
        Case::new("gd16-0.5", several(16, fixed(1000.0), 50.0)).bursts(0.5).limit(Ttft, 200.0),
        engine("8b-smooth", Gpu::B8, CHAT).bursts(0.5).limit(Ttft, 200.0).limit(Tpot, 50.0),
    ]
}

/// Cases whose true rate is a small part of the capacity, or depends on rare requests.
fn flats() -> Vec<Case> {
    vec![
        // 0.7 % of the service times exceed the limit, so the slope is nearly zero.
        Case::new("flat", single(lognormal(40.0, 1.0))).limit(Ttft, quantile(40.0, 1.0, Z_0_7)),
        // 0.6 % of the requests exceed the limit by themselves, which leaves 0.4 % for those queued after them.
        Case::new("two-sizes", single(two_sizes(30.0, 600.0, 0.006))).limit(Ttft, 300.0),
        engine("two-prompts", Gpu::B8, SHORT)
            .rarely(0.006, "{ lognormal = { mean = 20000, cv = 0.3, max = 60000 } }", "{ fixed = 60 }")
            .limit(Ttft, 300.0),
        engine("bursts", Gpu::B8, CHAT).bursts(1.8).limit(Ttft, 170.0),
        // r*/capacity below a tenth.
        engine("8b-tight", Gpu::B8, CHAT).limit(Ttft, 135.0),
        engine("8b-tpot-tight", Gpu::B8, CHAT).limit(Tpot, 9.2),
    ]
}

fn exact(case: Case) -> Case {
    match case.name.as_str() {
        "dd1" => case.cliff_at(20.0),
        "dd16" => case.cliff_at(16.0),
        _ => case,
    }
}
