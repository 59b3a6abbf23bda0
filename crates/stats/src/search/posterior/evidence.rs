//! Evidence of the steps on each limit of a tier, and the weight of each step.

use super::clearance::clearance;
use super::fit::{Fit, WeightedCounts};
use super::prior::{Clearance, burst_variance};
use super::scatter;
use super::stability::undetected_overload;
use crate::search::change::Change;
use crate::search::refused::served;
use crate::stats::cluster::{inflation, is_near_boundary};
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use goodput_core::level::Control;

/// Smallest length of a step under load, in end-to-end times: a shorter step has not reached the steady state, so that it holds
/// is no evidence.
const STEADY_E2E: f64 = 5.0;
/// The assumed inflation is this times a power of the slope at the boundary, but at least [`MIN_PRIOR`].
const PER_SLOPE: f64 = 1.3;
const SLOPE_POWER: f64 = 1.3;
const MIN_PRIOR: f64 = 1.5;
/// Weight of counts from before the server changed, at their rate times the change of speed: hardly more than a hint where to
/// look.
const OUTDATED_WEIGHT: f64 = 0.05;
/// Growth of clusters with the level, per unit of slope.
const CLUSTER_GROWTH: f64 = 0.3;

/// Counts of one step for one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepCounts {
    pub(super) rate: f64,
    pub(super) n: f64,
    pub(super) misses: f64,
    cluster_sq: f64,
    /// Number of independent arrivals: requests, or conversations.
    arrivals: f64,
    /// True if the server has changed since.
    outdated: bool,
    /// True for a step of the ramp that was stopped for its misses.
    stopped: bool,
}

impl StepCounts {
    /// Returns the inflation that the step's own clusters show, for a ramp step stopped for its misses; else 1. It is used where it
    /// exceeds the pooled one: a short step was stopped because it had many misses, so their number says less than in a step of fixed length.
    fn own_inflation(&self) -> f64 {
        if self.stopped && self.misses > 0.0 { self.cluster_sq / self.misses } else { 1.0 }
    }
}

/// Evidence of all steps on one limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evidence {
    pub(super) limit: String,
    pub(super) p0: f64,
    pub(super) counts: Vec<StepCounts>,
    bursts: f64,
    pub(super) clearance: Clearance,
}

impl Evidence {
    pub(super) fn of(
        steps: &[&Step],
        tier: &str,
        limit: &str,
        p0: f64,
        e2e_s: f64,
        dispersion: f64,
        change: Option<Change>,
    ) -> Self {
        let moved = |s: &&Step| {
            let count = count(s, tier, limit, p0, e2e_s)?;
            let before = change.filter(|c| s.started_s < c.before_s);
            Some(StepCounts {
                rate: count.rate * before.map_or(1.0, |c| c.speed()),
                outdated: before.is_some(),
                ..count
            })
        };
        let counts = steps.iter().filter_map(moved).collect();
        Self {
            limit: limit.to_owned(),
            p0,
            counts,
            bursts: burst_variance(dispersion),
            clearance: clearance(steps, tier, limit, p0),
        }
    }

    /// Returns true if another limit has the same counts in every step, so that it adds no evidence.
    pub(super) fn has_same_counts_as(&self, other: &Self) -> bool {
        (self.p0 - other.p0).abs() < 1e-12 && self.counts == other.counts && self.clearance == other.clearance
    }

    /// Returns how many requests count as one at the boundary e^`centre`: (10·A + Σ C²/g) / (10 + Σ C) over the clusters C of
    /// misses in the steps under load that are not overloaded, at least 1.
    ///
    /// The assumed A is 1.3·slope^1.3: steep curves are those of long queues, and long queues make large clusters. Bursts of
    /// gamma arrivals make them (1 + cv²)/2 times as large (fitted to the truths of the development cases of the accuracy
    /// harness). g is the size of clusters at the step's level relative to the boundary.
    fn inflation(&self, slope: f64, centre: Option<f64>) -> f64 {
        let near = self.counts.iter().filter(|c| c.rate > 0.0 && is_near_boundary(c.misses, c.n, self.p0));
        let (misses, sum_sq) = near.fold((0.0, 0.0), |(k, sq), c| {
            let relative_size = centre.map_or(1.0, |x| growth(slope, c.rate.ln() - x));
            (k + c.misses, sq + c.cluster_sq / relative_size)
        });
        let assumed = (PER_SLOPE * slope.powf(SLOPE_POWER)).max(MIN_PRIOR) * self.bursts;
        inflation(assumed, misses, sum_sq)
    }

    /// Returns the rows of the likelihood, weighted for a boundary near e^`centre` and this slope.
    ///
    /// A step far from the boundary says less about it than its number of requests suggests, since no curve of the family is
    /// quite the true one: its log odds are assumed to be off by clip(slope/2, .3, 1) per unit of ln rate. The variance that this
    /// adds is computed from the expected misses and not from the observed ones, else a lucky step would weigh more.
    pub(super) fn rows(&self, centre: f64, slope: f64) -> Vec<WeightedCounts> {
        let inflation = self.inflation(slope, Some(centre));
        let misfit = (0.5 * slope).clamp(0.3, 1.0);
        let row = |c: &StepCounts| {
            let weight = if c.rate > 0.0 {
                let d = c.rate.ln() - centre;
                let expected = c.n * (self.p0 * (slope * d).min(5.0).exp()).min(0.6);
                let inflation = (inflation * growth(slope, d)).max(1.0).max(c.own_inflation());
                1.0 / (inflation + misfit.powi(2) * (expected + 1.0) * d * d)
            } else {
                1.0
            };
            self.row(c, weight)
        };
        self.counts.iter().map(row).collect()
    }

    /// Returns the scatter φ of the steps about a fitted curve, relative to their weights ([`scatter`]). Leaves out overloaded
    /// steps, and those from before the server changed.
    pub(super) fn scatter(&self, rows: &[WeightedCounts], fit: &Fit) -> f64 {
        let near = |c: &StepCounts| c.rate > 0.0 && !c.outdated && is_near_boundary(c.misses, c.n, self.p0);
        let near_steps = self.counts.iter().zip(rows).filter(|(c, _)| near(c));
        scatter::phi(
            near_steps.map(|(_, row)| scatter::deviance(row, fit.mean_share(row.rate))),
            fit.no_cliff(),
        )
    }

    /// Returns the rows of the first pass, in which neither boundary nor slope is known.
    pub(super) fn first_rows(&self) -> Vec<WeightedCounts> {
        let inflation = self.inflation(4.0, None);
        let weight = |c: &StepCounts| if c.rate > 0.0 { 1.0 / (inflation + 0.1 * c.misses) } else { 1.0 };
        self.counts.iter().map(|c| self.row(c, weight(c))).collect()
    }

    fn row(&self, c: &StepCounts, weight: f64) -> WeightedCounts {
        let weight = if c.outdated { OUTDATED_WEIGHT * weight } else { weight };
        WeightedCounts {
            rate: c.rate,
            n: c.n,
            misses: c.misses,
            weight,
            undetected: undetected_overload(self.bursts, c.arrivals),
        }
    }
}

/// Returns the size of clusters at e^d times the boundary, relative to those at the boundary.
///
/// In an M/M/1 queue they grow as 1/(1 − ρ)², which near the boundary is this power of the rate for a queue whose misses rise
/// with the slope. The same is assumed for other servers.
fn growth(slope: f64, d: f64) -> f64 {
    (CLUSTER_GROWTH * slope * d.clamp(-1.0, 0.2)).exp()
}

/// Returns the counts of a step for a limit; `None` if the step is no evidence on it.
///
/// Requests cut off before they could be judged are treated conservatively: a step that holds must still hold if all of them
/// missed, and then they count as misses; a step that fails must fail without them.
fn count(step: &Step, tier: &str, limit: &str, p0: f64, e2e_s: f64) -> Option<StepCounts> {
    let row = step.row(tier, limit).filter(|r| r.verdict != Verdict::Invalid && r.n > 0)?;
    let each = row.per_request(step.due_n);
    let [n, misses, cut] = [row.n, row.misses, row.censored].map(|x| x as f64 / each);
    let loaded = step.kind != StepKind::Baseline;
    let (misses, n) = if loaded { (misses, n) } else { served(step, row, (misses, n))? };
    let holds = misses <= p0 * (n - cut);
    let ended = step.unanswered() || matches!(step.abort, Some(Abort::Gross | Abort::Errors));
    let failed = row.verdict == Verdict::Fails || (ended && !holds);
    let short = step.kind == StepKind::Ramp && STEADY_E2E * e2e_s > step.measure_s;
    if (loaded && !failed && (short || (holds && misses + cut > p0 * n))) || n - cut <= 0.0 {
        return None;
    }
    let (n, misses) = if holds && loaded { (n, misses + cut) } else { (n - cut, misses) };
    let rate = if loaded { step.effective_level() } else { 0.0 };
    let sessions = step.level.control == Control::Sessions;
    let arrivals = if sessions { n.min(step.level.value * step.measure_s) } else { n };
    let stopped = step.kind == StepKind::Ramp && step.abort == Some(Abort::Gross);
    Some(StepCounts {
        rate,
        n,
        misses,
        cluster_sq: row.cluster_sq as f64 / each.powi(2),
        arrivals,
        outdated: false,
        stopped,
    })
}
