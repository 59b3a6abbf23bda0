//! Posterior of one limit's boundary.
//!
//! The share of misses at rate r is p(r) = 1 − e^(−L(r)). With x = r/r*, C0 = −ln(1 − p0) and p0 the share that the limit allows:
//!
//! - L = C0·(f + (1 − f)·G(x)) with a floor f < 1, so that L(r*) = C0: the limit can be met, and r* is its boundary;
//! - L = C0·(f + G(r/r1)) with f > 1: even the unloaded server misses more than is allowed.
//!
//! G rises from 0 to 1 at x = 1 ([`super::prior`]). The posterior is a sum over a grid: nothing is sampled, so the same steps
//! give the same answer (source: the held-out study of the search, §5).

use super::cliff;
use super::prior::{self, Clearance, Floor, Prior, Shapes, floors, infeasible_floors, shapes};
use super::table::ln_share;

/// Number of points of the grid of ln r*.
const POINTS: usize = 41;
/// Number of points of the grid of ln r1.
const COARSE_POINTS: usize = 11;
/// Mass below which a cell is negligible; there are some twenty thousand cells.
const NEGLIGIBLE_MASS: f64 = 1e-9;
/// Mass of all cells together that a curve for a chart leaves out: it moves the level of a quantile by no more than this.
const UNDRAWN_MASS: f64 = 1e-4;
/// Bounds of L: from one miss in ten million to 98 %, or higher if the limit itself is there.
const MIN_L: f64 = 1e-7;
const USUAL_MAX_L: f64 = 4.0;

/// Returns the upper bound of L for a limit with `c0` at its boundary; the table ends at 8.
fn max_l(c0: f64) -> f64 {
    (2.0 * c0).clamp(USUAL_MAX_L, 7.9)
}

/// Counts of one step for a limit, with the weight of the step: one over the number of its requests that count as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WeightedCounts {
    /// Requests per second or in flight; 0 for the unloaded server.
    pub(super) rate: f64,
    pub(super) n: f64,
    pub(super) misses: f64,
    pub(super) weight: f64,
    /// How far (in ln rate) the step may be beyond the capacity without detection.
    pub(super) undetected: f64,
}

/// Posterior of a boundary on a grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BoundaryDensity {
    /// Logarithm of the boundary, evenly spaced.
    pub(super) grid: Vec<f64>,
    /// Probability mass at each point of the grid; adds up to 1.
    pub(super) mass: Vec<f64>,
}

impl BoundaryDensity {
    /// Creates a density from masses that need not add up to 1.
    pub(super) fn new(mut mass: Vec<f64>, grid: Vec<f64>) -> Self {
        let sum: f64 = mass.iter().sum();
        mass.iter_mut().for_each(|m| *m /= sum);
        Self { grid, mass }
    }

    /// Returns the mean of the logarithm.
    pub(super) fn centre(&self) -> f64 {
        self.grid.iter().zip(&self.mass).map(|(x, m)| x * m).sum()
    }

    /// Returns the probability that the boundary lies below e^`ln_level`. Each point's mass is spread evenly over its cell.
    pub(super) fn below(&self, ln_level: f64) -> f64 {
        let width = self.grid[1] - self.grid[0];
        let part = |x: f64| ((ln_level - x) / width + 0.5).clamp(0.0, 1.0);
        self.grid.iter().zip(&self.mass).map(|(x, m)| m * part(*x)).sum()
    }
}

/// Prior knowledge of a limit, besides its counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LimitPrior {
    /// Squared coefficient of variation of the gaps between arrivals.
    pub(super) dispersion: f64,
    pub(super) clearance: Clearance,
    /// The limit's share of the prior probability that some limit of the tier cannot be met: one over the number of limits.
    pub(super) share: f64,
}

impl LimitPrior {
    /// Returns the prior probability that the limit cannot be met: 1 − (1 − c)^share, so that all limits together have c, the
    /// probability of a single limit.
    fn infeasible(self) -> f64 {
        1.0 - (1.0 - self.clearance.infeasible()).powf(self.share)
    }
}

/// Posterior of one limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    c0: f64,
    /// Posterior of r*, given that the limit can be met.
    pub(super) boundary: BoundaryDensity,
    /// Probability that the limit cannot be met.
    pub(super) infeasible: f64,
    /// Posterior mean of d ln p / d ln r at r*, given that the limit can be met.
    pub(super) slope: f64,
    /// Masses by boundary, floor and shape.
    cells: Vec<f64>,
    /// Mass of a cliff at each boundary.
    cliff: Vec<f64>,
    floors: Vec<Floor>,
    shapes: Shapes,
}

/// Ranges of ln r*: the one covered by the grid, and that of the prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) prior: Prior,
}

impl Range {
    pub(super) const fn wide(prior: Prior) -> Self {
        Self { low: prior.low, high: prior.high, prior }
    }

    fn points(self, n: usize) -> Vec<f64> {
        let step = (self.high - self.low) / (n - 1) as f64;
        (0..n).map(|i| self.low + step * i as f64).collect()
    }
}

impl Fit {
    pub(super) fn of(rows: &[WeightedCounts], p0: f64, range: Range, known: LimitPrior) -> Self {
        let LimitPrior { dispersion, clearance, .. } = known;
        let shapes = &shapes(dispersion, clearance, range.prior.ln_capacity);
        let c0 = -(-p0).ln_1p();
        let (floors, infeasible_floors) = (floors(clearance), infeasible_floors());
        let grid = range.points(POINTS);
        let mut cells = Grid { c0, shapes, floors: &floors }.ln_posterior(rows, &grid);
        let coarse = Range::wide(range.prior).points(COARSE_POINTS);
        let without = Grid { c0, shapes, floors: &infeasible_floors }.ln_posterior(rows, &coarse);
        let per_point = floors.len() * shapes.all.len();
        // The part of the prior's range outside a narrow grid has negligible posterior mass, but had its share of the prior.
        let width = grid[1] - grid[0];
        let mass = prior::cliff(dispersion, range.prior.ln_capacity);
        let mut cliff = if mass > 0.0 { cliff::ln_likelihoods(rows, p0, &grid) } else { vec![] };
        for (at, (x, of_point)) in grid.iter().zip(cells.chunks_mut(per_point)).enumerate() {
            // The trapezoidal rule: end points count half.
            let part = if at == 0 || at + 1 == POINTS { 0.5 } else { 1.0 };
            let ln_prior = (range.prior.density(*x) * width * part).ln();
            of_point.iter_mut().for_each(|c| *c += ln_prior + (-mass).ln_1p());
            if let Some(c) = cliff.get_mut(at) {
                *c += (range.prior.density(*x) * width * part).ln() + mass.ln();
            }
        }
        let smooth = cells.len();
        cells.append(&mut cliff);
        let ln_with = normalise(&mut cells) + (1.0 - known.infeasible()).ln();
        let cliff = cells.split_off(smooth);
        let ln_without = sum_exp(&without) - (COARSE_POINTS as f64).ln() + known.infeasible().ln();
        let at_point = |(at, c): (usize, &[f64])| c.iter().sum::<f64>() + cliff.get(at).unwrap_or(&0.0);
        let mass: Vec<f64> = cells.chunks(per_point).enumerate().map(at_point).collect();
        let mut fit = Self {
            c0,
            boundary: BoundaryDensity::new(mass, grid),
            infeasible: 1.0 / (1.0 + (ln_with - ln_without).exp()),
            slope: 0.0,
            cells,
            cliff,
            floors,
            shapes: shapes.clone(),
        };
        fit.slope = fit.mean_slope();
        fit
    }

    /// Iterates over the boundaries; for each, over the floors with the masses of all shapes.
    fn by_boundary(&self) -> impl Iterator<Item = (f64, impl Iterator<Item = (f64, &[f64])>)> {
        let per_floor = self.shapes.all.len();
        let points = self.cells.chunks(per_floor * self.floors.len());
        self.boundary.grid.iter().copied().zip(points).map(move |(ln_boundary, of_point)| {
            (ln_boundary, self.floors.iter().map(|f| f.share).zip(of_point.chunks(per_floor)))
        })
    }

    /// Sums `term` over all cells, given the slope d ln p / d ln r at the boundary and the mass of each.
    fn over_slopes(&self, term: impl Fn(f64, f64) -> f64) -> f64 {
        let of_point = |(ln_boundary, floors): (f64, _)| {
            let rise = slopes(&self.shapes, ln_boundary);
            let of_floor = |(floor, masses): (f64, &[f64])| {
                masses.iter().zip(&rise).map(|(m, r)| term((1.0 - floor) * r, *m)).sum::<f64>()
            };
            Iterator::map(floors, of_floor).sum::<f64>()
        };
        self.by_boundary().map(of_point).sum()
    }

    fn mean_slope(&self) -> f64 {
        // A cliff has no slope by which steps could be weighted.
        self.over_slopes(|slope, mass| slope * mass) / self.no_cliff().max(1e-9)
    }

    /// Returns the probability that there is no cliff, given that the limit can be met.
    pub(super) fn no_cliff(&self) -> f64 {
        1.0 - self.cliff.iter().sum::<f64>()
    }

    /// Returns the probability that d ln p / d ln r at the boundary is below `slope`, given that the limit can be met. A cliff
    /// has no small slope.
    pub(super) fn slope_below(&self, slope: f64) -> f64 {
        self.over_slopes(|s, mass| if s < slope { mass } else { 0.0 })
    }

    /// Returns the posterior mean of the share of misses at a rate, given that the limit can be met and that there is no cliff.
    pub(super) fn mean_share(&self, rate: f64) -> f64 {
        let mut rises = vec![0.0; self.shapes.all.len()];
        let mut sum = 0.0;
        for (ln_boundary, floors) in self.by_boundary() {
            rise(&self.shapes, rate, ln_boundary, &mut rises);
            for (floor, masses) in floors {
                // Most cells have negligible mass, and each share costs an exponential.
                let some = masses.iter().zip(&rises).filter(|(m, _)| **m > NEGLIGIBLE_MASS);
                sum += some.map(|(m, g)| m * share(self.c0, floor, *g)).sum::<f64>();
            }
        }
        sum / self.no_cliff().max(1e-9)
    }

    /// Returns quantiles of the share of misses at each rate, given that the limit can be met. The lightest cells, of
    /// [`UNDRAWN_MASS`] together, are left out: most cells are among them.
    pub(super) fn shares<const N: usize>(&self, rates: &[f64], quantiles: [f64; N]) -> Vec<[f64; N]> {
        let mut ascending: Vec<f64> = self.cells.iter().chain(&self.cliff).copied().collect();
        ascending.sort_unstable_by(f64::total_cmp);
        let mut left_out = 0.0;
        let lightest = ascending.into_iter().find(|m| {
            left_out += m;
            left_out > UNDRAWN_MASS
        });
        rates.iter().map(|rate| self.shares_at(*rate, quantiles, lightest.unwrap_or(0.0))).collect()
    }

    /// Returns quantiles of the share of misses at a rate over the cells of at least this mass.
    pub(super) fn shares_at<const N: usize>(
        &self,
        rate: f64,
        quantiles: [f64; N],
        lightest: f64,
    ) -> [f64; N] {
        // Of −ln(1 − share), which rises with the share and takes no exponential for each cell.
        let mut all: Vec<(f64, f64)> = Vec::new();
        let mut rises = vec![0.0; self.shapes.all.len()];
        for (at, (ln_boundary, floors)) in self.by_boundary().enumerate() {
            rise(&self.shapes, rate, ln_boundary, &mut rises);
            for (floor, masses) in floors {
                let some = rises.iter().zip(masses).filter(|(_, m)| **m >= lightest);
                all.extend(some.map(|(g, m)| (ln_none(self.c0, floor, *g), *m)));
            }
            if let Some(mass) = self.cliff.get(at).filter(|m| **m >= lightest) {
                all.push((if rate.ln() > ln_boundary { f64::INFINITY } else { 0.0 }, *mass));
            }
        }
        let total: f64 = all.iter().map(|a| a.1).sum();
        quantiles.map(|u| -(-weighted_quantile(&mut all, u * total)).exp_m1())
    }
}

/// Returns the least value at which the masses of the values up to it add up to `mass`; the highest value if they never
/// do, and 0 without values. Reorders the values: each round halves them, which takes less time than to sort all.
pub(super) fn weighted_quantile(mut all: &mut [(f64, f64)], mass: f64) -> f64 {
    let mut below = 0.0;
    while all.len() > 1 {
        let middle = all.len() / 2;
        all.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0));
        let (lower, upper) = all.split_at_mut(middle);
        let sum = below + lower.iter().map(|a| a.1).sum::<f64>();
        if sum >= mass {
            all = lower;
        } else {
            (all, below) = (upper, sum);
        }
    }
    all.first().map_or(0.0, |a| a.0)
}

/// The cells of one kind: feasible floors, or infeasible ones.
struct Grid<'a> {
    c0: f64,
    shapes: &'a Shapes,
    floors: &'a [Floor],
}

impl Grid<'_> {
    /// Returns ln(prior × likelihood) by boundary, floor and shape.
    fn ln_posterior(&self, rows: &[WeightedCounts], grid: &[f64]) -> Vec<f64> {
        let (n, max_l) = (self.shapes.all.len(), max_l(self.c0));
        let mut cells = Vec::with_capacity(grid.len() * self.floors.len() * n);
        let mut rises = vec![0.0; n];
        for ln_boundary in grid {
            let from = cells.len();
            for floor in self.floors {
                let kind = usize::from(floor.share > 0.0);
                cells.extend(self.shapes.all.iter().map(|s| floor.ln_mass + s.ln_mass[kind]));
            }
            for row in rows {
                rise(self.shapes, row.rate, *ln_boundary, &mut rises);
                let (misses, hits) = (row.weight * row.misses, row.weight * (row.n - row.misses));
                for (floor, of_floor) in self.floors.iter().zip(cells[from..].chunks_mut(n)) {
                    // A feasible floor leaves a part of C0 to the rise. An infeasible one does not: the rise is C0 at r1.
                    let left = if floor.share < 1.0 { 1.0 - floor.share } else { 1.0 };
                    let (base, part) = (self.c0 * floor.share, self.c0 * left);
                    if misses > 0.0 {
                        for (cell, g) in of_floor.iter_mut().zip(&rises) {
                            let l = (base + part * g).clamp(MIN_L, max_l);
                            *cell += misses * ln_share(l) - hits * l;
                        }
                    } else {
                        for (cell, g) in of_floor.iter_mut().zip(&rises) {
                            *cell -= hits * (base + part * g).clamp(MIN_L, max_l);
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Largest exponent that is evaluated: beyond it every share of misses is 1.
const MAX_EXPONENT: f64 = 600.0;

/// Computes G(x) of every shape at a rate, where x is the rate over the boundary e^`ln_boundary`.
fn rise(shapes: &Shapes, rate: f64, ln_boundary: f64, out: &mut [f64]) {
    let x = rate / ln_boundary.exp();
    let mut steep = shapes.bends(ln_boundary);
    for b in &mut steep {
        *b = (*b * x).min(MAX_EXPONENT).exp_m1() / b.exp_m1();
    }
    let mut power = [x; 2];
    for (to, c) in power.iter_mut().zip(&shapes.powers).skip(1) {
        *to = x.powf(*c);
    }
    for (to, s) in out.iter_mut().zip(&shapes.all) {
        *to = s.w * steep[s.bend] + (1.0 - s.w) * power[s.power];
    }
}

/// Returns −ln(1 − share) for the share of misses of a feasible floor and a rise G.
fn ln_none(c0: f64, floor: f64, g: f64) -> f64 {
    (c0 * (floor + (1.0 - floor) * g)).clamp(MIN_L, max_l(c0))
}

/// Returns the share of misses for a feasible floor and a rise G.
fn share(c0: f64, floor: f64, g: f64) -> f64 {
    -(-ln_none(c0, floor, g)).exp_m1()
}

/// Returns dG/d ln x of every shape at the boundary e^`ln_boundary`.
fn slopes(shapes: &Shapes, ln_boundary: f64) -> Vec<f64> {
    let bends = shapes.bends(ln_boundary);
    let slope = |b: f64| b * b.exp() / b.exp_m1();
    let of = |s: &super::prior::Shape| s.w * slope(bends[s.bend]) + (1.0 - s.w) * shapes.powers[s.power];
    shapes.all.iter().map(of).collect()
}

/// Returns ln Σ e^v (log-sum-exp).
fn sum_exp(values: &[f64]) -> f64 {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + values.iter().map(|v| (v - top).exp()).sum::<f64>().ln()
}

/// Turns logarithms into masses that add up to 1; returns ln of the sum before normalising.
fn normalise(values: &mut [f64]) -> f64 {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for v in values.iter_mut() {
        // Below e^-40 of the largest a mass is negligible, which saves the exponential.
        *v = if *v < top - 40.0 { 0.0 } else { (*v - top).exp() };
        sum += *v;
    }
    values.iter_mut().for_each(|v| *v /= sum);
    top + sum.ln()
}
