//! Prior of a miss curve, before requests are counted: the position of the boundary, and the floors and shapes that a curve may
//! have, with their masses.
//!
//! Two parts of it come from the same steps as the counts, which makes it an empirical prior: the range and its centre from which
//! ramp steps held, and the mass of floors from how far latencies lie below the limit. The accuracy harness measures how well
//! calibrated the answers are nevertheless.

use crate::search::change::Change;

/// Prior probability that the limit is missed too often even unloaded; the second if the latencies of a lightly loaded server lie
/// far below it.
const INFEASIBLE: f64 = 0.15;
const CLEARLY_FEASIBLE: f64 = 0.02;
/// Clearances (in standard deviations) between which the prior probability is interpolated: up to the first, nothing is
/// concluded; from the second on, everything.
const CLEARANCE_RANGE: (f64, f64) = (3.2, 4.5);
/// Mass of no floor, and of a purely exponential rise, at the second clearance.
const CLEAR_MASS: f64 = 0.97;

/// Share of the prior of ln r* that is concentrated around the capacity shown by the ramp, and the scale of that part.
const PEAK_MASS: f64 = 0.7;
const PEAK_SCALE: f64 = 0.5;
/// Prior mass of a cliff; the second under arrivals with a squared coefficient of variation below the third.
const CLIFF: f64 = 0.05;
const SMOOTH_CLIFF: f64 = 0.3;
const SMOOTH_ARRIVALS: f64 = 0.5;
/// Likely position of the boundary, as a share of the capacity.
const BOUNDARY_OVER_CAPACITY: f64 = 0.7;

/// Feasible floors, as shares of the allowed misses; most of the mass is on no floor.
const NO_FLOOR: f64 = 0.6;
const FLOORS: [f64; 13] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97];
/// Floors of a limit that cannot be met.
const INFEASIBLE_FLOORS: [f64; 17] =
    [1.03, 1.06, 1.1, 1.15, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.5, 5.0, 8.0, 15.0, 30.0, 60.0, 110.0];

/// Exponents of a purely exponential rise. Concave ones are rare.
const BENDS: [f64; 15] = [-1.5, -0.5, 0.3, 1.0, 1.7, 2.5, 3.5, 5.0, 7.0, 9.5, 13.0, 18.0, 25.0, 35.0, 50.0];
/// Exponents of the exponential part of a mixed rise, in units of the boundary: used while the capacity is not known.
const MIXED_BENDS: [f64; 7] = [1.2, 2.2, 3.5, 5.5, 9.0, 15.0, 25.0];
/// Exponents of the exponential part of a mixed rise, in units of the capacity. Queueing grows towards the capacity, wherever the
/// boundary lies: in units of the boundary, a boundary at a tenth of the capacity could not explain the overload in the ramp.
const OF_CAPACITY_BENDS: [f64; 7] = [2.0, 3.5, 5.5, 9.0, 15.0, 25.0, 40.0];
/// Highest boundary, as a share of the capacity, up to which an exponent is scaled: the capacity is known from only two ramp
/// steps.
const MAX_OF_CAPACITY: f64 = 1.5;
/// Smallest exponent: a straight line.
const MIN_BEND: f64 = 0.02;
const CENTRE: f64 = 9.0;
/// Shares of the exponential part in a rise, with their prior masses without a floor and with one.
const SHARES: [(f64, f64, f64); 4] =
    [(1.0, 0.85, 0.4), (0.5, 0.08, 0.2), (0.15, 0.04, 0.2), (0.03, 0.03, 0.2)];

/// A floor, as a share of the allowed misses, and ln of its prior mass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Floor {
    pub(super) share: f64,
    pub(super) ln_mass: f64,
}

/// A rise G(x) = w·(e^(b·x) − 1)/(e^b − 1) + (1 − w)·x^c over x = r/r*, and ln of its prior mass without a floor and with one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) w: f64,
    /// Index of the exponent in [`Shapes::bends`].
    pub(super) bend: usize,
    /// Index of the power in [`Shapes::powers`].
    pub(super) power: usize,
    pub(super) ln_mass: [f64; 2],
}

/// All rises, with their exponents and powers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shapes {
    pub(super) all: Vec<Shape>,
    pub(super) powers: Vec<f64>,
    /// ln of the capacity that the exponents of mixed rises are scaled by; `None` if no overload has shown one.
    ln_capacity: Option<f64>,
}

impl Shapes {
    /// Number of different exponents.
    pub(super) const BENDS: usize = BENDS.len() + MIXED_BENDS.len();

    /// Returns the exponents of all rises for a boundary at e^`ln_boundary`, indexed by [`Shape::bend`].
    pub(super) fn bends(&self, ln_boundary: f64) -> [f64; Self::BENDS] {
        let mut all = [0.0; Self::BENDS];
        let (pure, mixed) = all.split_at_mut(BENDS.len());
        pure.copy_from_slice(&BENDS);
        match self.ln_capacity {
            None => mixed.copy_from_slice(&MIXED_BENDS),
            Some(ln_capacity) => {
                let share = (ln_boundary - ln_capacity).exp().min(MAX_OF_CAPACITY);
                for (bend, of_capacity) in mixed.iter_mut().zip(OF_CAPACITY_BENDS) {
                    *bend = (of_capacity * share).max(MIN_BEND);
                }
            }
        }
        all
    }
}

/// Prior of ln r*.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prior {
    pub(super) low: f64,
    pub(super) high: f64,
    /// ln of the capacity shown by an overload in the ramp; `None` if no ramp step overloaded the server.
    pub(super) ln_capacity: Option<f64>,
}

impl Prior {
    /// Adjusts the prior to a server that changed its speed after the ramp: the capacity moves with it.
    pub(super) fn after(self, change: Option<Change>) -> Self {
        let by = change.map_or(0.0, |c| c.speed().ln());
        let ln_capacity = self.ln_capacity.map(|c| c + by);
        Self { low: self.low + by.min(0.0), high: self.high + by.max(0.0), ln_capacity }
    }

    /// Returns the density at ln r*: uniform, mixed with a Laplace distribution around the likely boundary if the capacity is
    /// known.
    pub(super) fn density(&self, x: f64) -> f64 {
        let even = 1.0 / (self.high - self.low);
        let Some(centre) = self.ln_capacity.map(|c| c + BOUNDARY_OVER_CAPACITY.ln()) else { return even };
        // The part of the Laplace distribution within the range.
        let tail = |d: f64| 0.5 * (-d / PEAK_SCALE).exp();
        let inside = 1.0 - tail(centre - self.low) - tail(self.high - centre);
        let peak = (-(x - centre).abs() / PEAK_SCALE).exp() / (2.0 * PEAK_SCALE * inside);
        (1.0 - PEAK_MASS) * even + PEAK_MASS * peak
    }
}

/// How far the latencies of a lightly loaded server lie below a limit, in standard deviations of their logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clearance {
    /// Clearance of single requests.
    pub(super) alone: f64,
    /// Clearance of two requests served together.
    pub(super) pair: f64,
}

impl Clearance {
    /// No evidence.
    pub(super) const UNKNOWN: Self = Self { alone: 0.0, pair: 0.0 };

    fn between(self, z: f64, near: f64, far: f64) -> f64 {
        let (a, b) = CLEARANCE_RANGE;
        near + (far - near) * ((z - a) / (b - a)).clamp(0.0, 1.0)
    }

    pub(super) fn infeasible(self) -> f64 {
        self.between(self.alone, INFEASIBLE, CLEARLY_FEASIBLE)
    }
}

/// Returns the variance of arrivals and Poisson departures together, relative to Poisson's: (1 + cv²)/2, where cv² is the
/// `dispersion` of the gaps.
pub(super) fn burst_variance(dispersion: f64) -> f64 {
    0.5 * (1.0 + dispersion)
}

/// Returns the prior mass of a cliff; 0 unless an overload has shown a capacity. The smoother the arrivals, the less announces a
/// cliff.
pub(super) fn cliff(dispersion: f64, ln_capacity: Option<f64>) -> f64 {
    match ln_capacity {
        None => 0.0,
        Some(_) if dispersion < SMOOTH_ARRIVALS => SMOOTH_CLIFF,
        Some(_) => CLIFF,
    }
}

/// Returns the feasible floors.
pub(super) fn floors(clearance: Clearance) -> Vec<Floor> {
    let none = clearance.between(clearance.alone, NO_FLOOR, CLEAR_MASS);
    let spread = spacing(&FLOORS);
    let sum: f64 = spread.iter().sum();
    let some = FLOORS.iter().zip(spread).map(|(f, s)| (*f, (1.0 - none) * s / sum));
    std::iter::once((0.0, none)).chain(some).map(|(share, m)| Floor { share, ln_mass: m.ln() }).collect()
}

/// Returns the infeasible floors.
pub(super) fn infeasible_floors() -> Vec<Floor> {
    let spread = spacing(&INFEASIBLE_FLOORS);
    let sum: f64 = spread.iter().sum();
    INFEASIBLE_FLOORS.iter().zip(spread).map(|(f, s)| Floor { share: *f, ln_mass: (s / sum).ln() }).collect()
}

/// Returns the rises under arrivals whose gaps have this `dispersion`.
///
/// The number of arrivals within a short time t after another grows as t^c: c is 1 for independent users, and the shape of gamma
/// gaps, 1/cv², if arrivals come in bursts. If two requests close together already miss, misses grow with the rate as such
/// encounters do.
pub(super) fn shapes(dispersion: f64, clearance: Clearance, ln_capacity: Option<f64>) -> Shapes {
    let power = dispersion.max(1.0).recip();
    let powers: Vec<f64> = if power < 1.0 { vec![1.0, power] } else { vec![1.0] };
    let log_normal = |b: f64, sd: f64| (-0.5 * ((b / CENTRE).ln() / sd).powi(2)).exp();
    let convex = &BENDS[2..];
    let mut pure: Vec<f64> =
        convex.iter().zip(spacing(convex)).map(|(b, s)| log_normal(*b, 1.0) * s).collect();
    let concave = 0.5 * pure[0];
    pure.splice(0..0, [concave, concave]);
    let mixed: Vec<f64> =
        MIXED_BENDS.iter().zip(spacing(&MIXED_BENDS)).map(|(b, s)| log_normal(*b, 2.0) * s).collect();
    let mut all = Vec::new();
    let all_exponential =
        if power < 1.0 { SHARES[0].1 } else { clearance.between(clearance.pair, SHARES[0].1, CLEAR_MASS) };
    for (w, without, with) in SHARES {
        let without =
            if w < 1.0 { without * (1.0 - all_exponential) / (1.0 - SHARES[0].1) } else { all_exponential };
        let (masses, first) = if w < 1.0 { (&mixed, BENDS.len()) } else { (&pure, 0) };
        let sum: f64 = masses.iter().sum();
        let own = if w < 1.0 { powers.len() } else { 1 };
        for (at, mass) in masses.iter().enumerate() {
            let ln = (mass / sum / own as f64).ln();
            let ln_mass = [ln + without.ln(), ln + with.ln()];
            all.extend((0..own).map(|power| Shape { w, bend: first + at, power, ln_mass }));
        }
    }
    Shapes { all, powers, ln_capacity }
}

/// Returns the width in ln that each value of an ascending list stands for: central differences, one-sided at the ends.
fn spacing(values: &[f64]) -> Vec<f64> {
    let ln: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let last = ln.len() - 1;
    (0..=last)
        .map(|i| match i {
            0 => ln[1] - ln[0],
            i if i == last => ln[last] - ln[last - 1],
            i => 0.5 * (ln[i + 1] - ln[i - 1]),
        })
        .collect()
}
