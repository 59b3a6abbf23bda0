//! Servers that change during the sweep.

use super::engines::{Gpu, exponential, fixed, several, single};
use super::{Case, Group, TruthLine};
use goodput::search::Ask;
use goodput::sim::engine::truth::{md1_wait_cdf, mm1_sojourn_cdf, mmc_wait_cdf};
use goodput::sim::engine::variable_speed::VariableSpeed;
use goodput::slo::Metric::{Tpot, Ttft};
use goodput::stats::step::{Step, StepKind};
use std::time::Duration;

/// A change of the server during a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// It pauses once, within the `nth` step of a kind (from 1).
    Pause { kind: StepKind, nth: usize, length_s: f64 },
    /// It runs at `speed` from the middle of the budget on.
    Break { speed: f64 },
    /// Its speed moves from 1 − `by` to 1 + `by` over the budget.
    Drift { by: f64 },
    /// It has another speed in every twelfth of the budget, evenly distributed over 1 − `by` to 1 + `by`.
    Scatter { by: f64 },
}

/// Number of constant pieces that approximate a drift.
const PIECES: u32 = 90;
/// Number of speeds of a server whose speed varies at random.
const SPEEDS: u32 = 12;
const GOLDEN: f64 = 0.618_034;

impl Change {
    pub(crate) const fn group(self) -> Group {
        match self {
            Self::Pause { .. } => Group::Stall,
            Self::Break { .. } => Group::Break,
            Self::Drift { .. } => Group::Drift,
            Self::Scatter { .. } => Group::Scatter,
        }
    }

    /// Returns the speed for which the truth holds: that of the last segment, or the mean.
    pub(crate) const fn final_speed(self) -> f64 {
        match self {
            Self::Break { speed } => speed,
            Self::Pause { .. } | Self::Drift { .. } | Self::Scatter { .. } => 1.0,
        }
    }

    /// Applies the changes that are known before the run begins.
    pub(super) fn plan(self, server: &mut VariableSpeed, budget_s: f64) {
        let at = |share: f64| Duration::from_secs_f64(share * budget_s);
        match self {
            Self::Pause { .. } => {}
            Self::Break { speed } => server.set_speed(at(0.5), speed),
            Self::Drift { by } => {
                for i in 0..PIECES {
                    let share = f64::from(i) / f64::from(PIECES);
                    server.set_speed(at(share), 1.0 - by + 2.0 * by * share);
                }
                server.set_speed(at(1.0), 1.0 + by);
            }
            Self::Scatter { by } => {
                for i in 0..SPEEDS {
                    // The fractional parts of multiples of the golden ratio are evenly distributed over 0 to 1 and
                    // never repeat.
                    let u = (f64::from(i) * GOLDEN).fract();
                    server.set_speed(at(f64::from(i) / f64::from(SPEEDS)), 1.0 - by + 2.0 * by * u);
                }
            }
        }
    }

    /// Applies a change within the step that begins now. `at` is a random share of its window.
    pub(crate) fn within(
        self,
        server: &mut VariableSpeed,
        steps: &[Step],
        ask: &Ask,
        now: Duration,
        at: f64,
    ) {
        if let Self::Pause { kind, nth, length_s } = self
            && ask.kind == kind
            && steps.iter().filter(|s| s.kind == kind).count() + 1 == nth
        {
            let from = now + ask.settle + ask.measure.mul_f64(0.8 * at);
            server.pause(from, Duration::from_secs_f64(length_s));
        }
    }
}

/// Found by `accuracy truths`: the stalls with 4 million requests, the breaks with 250,000.
const TRUTHS: &[TruthLine] = &[
    ("stall-8b-ramp-1s", [18.16277, 0.280, 8.892, 9.58, 30.672, 0.0000]),
    ("stall-8b-refine-2s", [18.16277, 0.280, 8.892, 9.58, 30.672, 0.0000]),
    ("scatter-8b-15", [18.16277, 0.280, 8.892, 9.58, 30.672, 0.0000]),
    ("break-8b-faster-1.1", [21.82598, 1.471, 6.647, 11.39, 33.852, 0.0000]),
    ("break-8b-slower-1.25", [11.64469, 1.048, 6.918, 4.52, 24.407, 0.0000]),
];

fn md1(name: &str) -> Case {
    Case::new(name, single(fixed(50.0))).limit(Ttft, 200.0)
}

fn mm1(name: &str) -> Case {
    Case::new(name, single(exponential(50.0))).limit(Ttft, 500.0)
}

fn mm32(name: &str) -> Case {
    Case::new(name, several(32, exponential(2000.0), 50.0)).limit(Ttft, 200.0)
}

/// Many servers with short service times. The ramp begins far below the true rate.
fn wide(name: &str) -> Case {
    Case::new(name, several(32, exponential(80.0), 5.0)).limit(Ttft, 20.0)
}

/// A single server with a true rate of 304 req/s. The ramp begins at its capacity.
fn quick(name: &str) -> Case {
    Case::new(name, single(exponential(2.0))).limit(Ttft, 23.5)
}

fn gpu(name: &str) -> Case {
    Case::new(name, Gpu::B8.engine())
        .tokens(
            "{ lognormal = { mean = 500, cv = 1, max = 8000 } }",
            "{ lognormal = { mean = 120, cv = 0.8, max = 1000 } }",
        )
        .limit(Ttft, 500.0)
        .limit(Tpot, 22.0)
}

pub(super) fn changes() -> Vec<Case> {
    let pause = |kind, nth, length_s| Change::Pause { kind, nth, length_s };
    let ramp = StepKind::Ramp;
    vec![
        wide("stall-wide-ramp-1s").changing(pause(ramp, 2, 1.0)),
        wide("stall-wide-ramp-2s").changing(pause(ramp, 2, 2.0)),
        wide("stall-wide-refine-1s").changing(pause(StepKind::Refine, 2, 1.0)),
        quick("stall-304-ramp-1s").changing(pause(ramp, 2, 1.0)),
        mm1("stall-mm1-ramp-1s").changing(pause(ramp, 2, 1.0)),
        mm1("stall-mm1-ramp-2s").changing(pause(ramp, 2, 2.0)),
        mm1("stall-mm1-refine-1s").changing(pause(StepKind::Refine, 2, 1.0)),
        gpu("stall-8b-ramp-1s").changing(pause(ramp, 3, 1.0)),
        gpu("stall-8b-refine-2s").changing(pause(StepKind::Refine, 1, 2.0)),
        mm32("drift-mm32-10").changing(Change::Drift { by: 0.1 }),
        md1("drift-md1-5").changing(Change::Drift { by: 0.05 }),
        mm32("break-mm32-slower-1.1").changing(Change::Break { speed: 1.0 / 1.1 }),
        mm32("break-mm32-slower-1.25").changing(Change::Break { speed: 0.8 }),
        mm32("break-mm32-faster-1.1").changing(Change::Break { speed: 1.1 }),
        md1("break-md1-slower-1.25").changing(Change::Break { speed: 0.8 }),
        md1("break-md1-faster-1.25").changing(Change::Break { speed: 1.25 }),
        mm1("break-mm1-slower-1.1").changing(Change::Break { speed: 1.0 / 1.1 }),
        gpu("break-8b-faster-1.1").changing(Change::Break { speed: 1.1 }),
        gpu("break-8b-slower-1.25").changing(Change::Break { speed: 0.8 }),
        md1("scatter-md1-15").changing(Change::Scatter { by: 0.15 }),
        gpu("scatter-8b-15").changing(Change::Scatter { by: 0.15 }),
    ]
    .into_iter()
    .map(|case| exact(case.with(TRUTHS)))
    .collect()
}

/// Sets the truths with a closed form: those of the steady server, with service times divided by the speed.
fn exact(case: Case) -> Case {
    let speed = case.change.map_or(1.0, Change::final_speed);
    let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3 / speed);
    let limit = |ms: u64| Duration::from_millis(ms);
    // The limit less the prefill time is left for waiting.
    let left = |whole: f64, prefill: f64| Duration::from_secs_f64((whole - prefill / speed) / 1e3);
    let name = case.name.clone();
    let is = |what: &str| name.split('-').any(|part| part == what);
    if is("wide") {
        case.closed_form(400.0 * speed, 40.0, |r| mmc_wait_cdf(r, ms(80.0), 32, left(20.0, 5.0)))
    } else if is("304") {
        case.closed_form(500.0, 19.0, |r| mm1_sojourn_cdf(r, ms(2.0), Duration::from_micros(23_500)))
    } else if is("mm1") {
        case.closed_form(20.0 * speed, 10.6, |r| mm1_sojourn_cdf(r, ms(50.0), limit(500)))
    } else if is("md1") {
        case.closed_form(20.0 * speed, 4.5, |r| md1_wait_cdf(r, ms(50.0), left(200.0, 50.0)))
    } else if is("mm32") {
        case.closed_form(16.0 * speed, 23.8, |r| mmc_wait_cdf(r, ms(2000.0), 32, left(200.0, 50.0)))
    } else {
        case
    }
}
