//! Posterior of the boundary of a tier, from all steps together: one posterior per limit, combined into that of the lowest
//! boundary.

mod clearance;
mod cliff;
mod dependence;
mod evidence;
mod fit;
mod prior;
mod scatter;
mod stability;
mod table;

use super::change::Change;
use super::steps_by_purpose::unloaded_e2e;
use super::view::{Fitted, FittedPoint};
use crate::stats::step::{Step, StepKind, Verdict};
use crate::stats::summary::tier_verdict;
use dependence::JoinTree;
use evidence::Evidence;
use fit::{BoundaryDensity, Fit, LimitPrior, Range, WeightedCounts};
use goodput_core::slo::{LimitGroup, Metric, Slo};
use prior::Prior;

/// Factor by which the range of the boundary extends below the highest ramp step that held (without one, below the lowest rate under
/// load), and below the lowest refinement step.
const RANGE_BELOW: f64 = 30.0;
/// Factor by which it extends above the lowest ramp step that failed, and above the highest refinement step.
const RANGE_ABOVE: f64 = 2.0;
/// Factor by which it extends above the highest rate under load if no ramp step failed.
const RANGE_ABOVE_UNFAILED: f64 = 6.0;
/// Slopes below this count as flat. On such curves, half as much load again has hardly more misses, and the safe rate was found
/// to be too high more often than promised.
const FLAT: f64 = 1.5;
/// Number of passes of the fit; each takes the weights of the steps from the one before.
const PASSES: usize = 3;

/// Returns the limits of a tier, those of classes included, by their keys ([`goodput_core::slo::limit_key`]), with the allowed share of
/// misses of each.
pub(super) fn limits(slo: &Slo) -> Vec<(String, f64)> {
    let of_part = |part: LimitGroup<'_>| {
        let latencies =
            part.slo.limits().into_iter().map(|l| (part.key(&l.name()), l.percentile.miss_share()));
        let errors = part.slo.error_rate.map(|p0| (part.key("error-rate"), p0.get()));
        latencies.chain(errors).collect::<Vec<_>>()
    };
    slo.limit_groups().into_iter().flat_map(of_part).collect()
}

/// Returns true if a limit cannot apply to a step, by plan: it is about gaps between tokens, and every answer has a single token.
pub(super) fn void(step: &Step, tier: &str, limit: &str) -> bool {
    step.row(tier, limit).is_none_or(|r| r.n == 0 && r.verdict == Verdict::Meets)
}

/// Posterior of a tier's boundary.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Posterior {
    limits: Vec<(Evidence, Fit)>,
    /// Largest scatter φ of the limits: the factor by which variances exceed what chance within the steps explains.
    scatter: f64,
    /// Boundary of stability; `None` unless the backlog can grow without a limit being missed.
    stability: Option<BoundaryDensity>,
    joined: JoinTree,
    range: (f64, f64),
    change: Option<Change>,
}

impl Posterior {
    /// Computes the posterior from the steps of a series, for the limits of a tier. `dispersion` is the squared coefficient of
    /// variation of the gaps between arrivals, `change` the last change of the server that the steps show. `None` if no step ran
    /// under load, or if no limit allows a miss.
    pub(super) fn of(
        steps: &[&Step],
        tier: &str,
        limits: &[(String, f64)],
        dispersion: f64,
        change: Option<Change>,
    ) -> Option<Self> {
        let prior = prior(steps, tier)?.after(change);
        let range = (prior.low, prior.high);
        let baselines: Vec<&Step> = steps.iter().copied().filter(|s| s.kind == StepKind::Baseline).collect();
        let e2e_s = unloaded_e2e(&baselines);
        // A limit that allows no miss, or all, has no curve. The former caps the answer by its verdicts.
        let with_curve = limits
            .iter()
            .filter(|(limit, p0)| *p0 > 0.0 && *p0 < 1.0 && !steps.iter().all(|s| void(s, tier, limit)));
        let mut all: Vec<Evidence> = Vec::new();
        for (limit, p0) in with_curve {
            let evidence = Evidence::of(steps, tier, limit, *p0, e2e_s, dispersion, change);
            // TTFC and TTFT, on a server without reasoning, are one limit under two names.
            if !all.iter().any(|e| e.has_same_counts_as(&evidence)) {
                all.push(evidence);
            }
        }
        if all.is_empty() {
            return None;
        }
        let named: Vec<(&str, f64)> = all.iter().map(|e| (e.limit.as_str(), e.p0)).collect();
        let joined = JoinTree::of_limits(steps, tier, &named, 0);
        let wide = Range::wide(prior);
        let share = 1.0 / all.len() as f64;
        let known = |e: &Evidence| LimitPrior { dispersion, clearance: e.clearance, share };
        let mut fits: Vec<Fit> = all.iter().map(|e| Fit::of(&e.first_rows(), e.p0, wide, known(e))).collect();
        let mut most_scatter = 1.0_f64;
        for pass in 1..PASSES {
            let below = |x: f64| 1.0 - joined.all(fits.iter().map(|f| 1.0 - f.boundary.below(x)));
            let centre = quantile(range, 0.5, below);
            let last = pass + 1 == PASSES;
            let mut again = |(e, f): (&Evidence, &Fit)| {
                let rows = e.rows(centre, f.slope.max(0.3));
                let fit = Fit::of(&rows, e.p0, if last { narrow(f, prior, 1.0) } else { wide }, known(e));
                let phi = if last { e.scatter(&rows, &fit) } else { 1.0 };
                if phi <= 1.0 {
                    return fit;
                }
                most_scatter = most_scatter.max(phi);
                let rows: Vec<WeightedCounts> =
                    rows.iter().map(|r| WeightedCounts { weight: r.weight / phi, ..*r }).collect();
                Fit::of(&rows, e.p0, narrow(f, prior, phi.sqrt()), known(e))
            };
            fits = all.iter().zip(&fits).map(&mut again).collect();
        }
        let stability = backlog_without_miss(steps, tier, limits)
            .then(|| stability::stability_boundary(steps, range, prior::burst_variance(dispersion)))
            .flatten();
        let joined = if stability.is_some() { JoinTree::of_limits(steps, tier, &named, 1) } else { joined };
        let limits = all.into_iter().zip(fits).collect();
        Some(Self { joined, limits, scatter: most_scatter, stability, range, change })
    }

    /// Returns the last change of the server that the steps show.
    pub(super) const fn change(&self) -> Option<Change> {
        self.change
    }

    /// Returns the probability that no rate meets all limits: even unloaded, one of them is missed too often.
    pub(super) fn infeasible(&self) -> f64 {
        let can_be_met = self.limits.iter().map(|(_, f)| 1.0 - f.infeasible);
        1.0 - self.joined.all(can_be_met.chain(self.stability.iter().map(|_| 1.0)))
    }

    /// Returns the probability that the boundary lies below `rate`, given that all limits can be met.
    fn feasible_below(&self, rate: f64) -> f64 {
        self.lowest_below(rate.ln())
    }

    /// Returns the probability that the lowest boundary lies below e^`x`.
    fn lowest_below(&self, x: f64) -> f64 {
        1.0 - self.joined.all(self.boundaries().map(|b| 1.0 - b.below(x)))
    }

    fn boundaries(&self) -> impl Iterator<Item = &BoundaryDensity> {
        self.limits.iter().map(|(_, f)| &f.boundary).chain(&self.stability)
    }

    /// Returns the probability that the boundary lies below `rate`, or that there is none.
    pub(super) fn below(&self, rate: f64) -> f64 {
        let infeasible = self.infeasible();
        infeasible + (1.0 - infeasible) * self.feasible_below(rate)
    }

    /// Returns a quantile of the boundary, given that there is one.
    pub(super) fn feasible_quantile(&self, u: f64) -> f64 {
        quantile(self.range, u, |x| self.lowest_below(x)).exp()
    }

    /// Returns a quantile of the boundary; 0 if the probability that there is none is at least `u`.
    pub(super) fn quantile(&self, u: f64) -> f64 {
        let infeasible = self.infeasible();
        if u <= infeasible { 0.0 } else { self.feasible_quantile((u - infeasible) / (1.0 - infeasible)) }
    }

    /// Returns the width of the posterior: ln of the 95 % quantile over the 5 % quantile, given that there is a boundary.
    pub(super) fn spread(&self) -> f64 {
        (self.feasible_quantile(0.95) / self.feasible_quantile(0.05)).ln()
    }

    /// Returns the binding limit: the one with the lowest boundary.
    pub(super) fn binding(&self) -> &str {
        let limits = self.limits.iter().map(|(e, f)| (e.limit.as_str(), f.boundary.centre()));
        let all = limits.chain(self.stability.iter().map(|s| ("stability", s.centre())));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(limit, _)| limit)
    }

    /// Returns the probability that the curve of the binding limit is flat at the boundary: d ln p / d ln r below [`FLAT`]. 0 if
    /// stability binds.
    pub(super) fn flat(&self) -> f64 {
        let binding = self.binding();
        self.limits.iter().find(|(e, _)| e.limit == binding).map_or(0.0, |(_, f)| f.slope_below(FLAT))
    }

    /// Returns the factor √φ by which the interval is widened, if the steps scatter more than chance within them explains; `None`
    /// if they do not.
    pub(super) fn widened(&self) -> Option<f64> {
        (self.scatter > 1.0).then(|| self.scatter.sqrt())
    }

    /// Returns the limit that is most likely missed at `level`.
    pub(super) fn missed(&self, level: f64) -> &str {
        let below = |f: &Fit| f.infeasible + (1.0 - f.infeasible) * f.boundary.below(level.ln());
        let worst = self.limits.iter().max_by(|a, b| below(&a.1).total_cmp(&below(&b.1)));
        worst.map_or("", |(e, _)| &e.limit)
    }

    /// Returns the fitted miss curve of each limit at these levels.
    pub(super) fn fitted(&self, levels: &[f64]) -> Vec<Fitted> {
        let point =
            |(level, [low, median, high]): (&f64, [f64; 3])| FittedPoint { level: *level, low, median, high };
        let of = |(e, f): &(Evidence, Fit)| Fitted {
            limit: e.limit.clone(),
            allowed: e.p0,
            points: levels.iter().zip(f.shares(levels, [0.05, 0.5, 0.95])).map(point).collect(),
        };
        self.limits.iter().map(of).collect()
    }
}

/// Returns the point of the range at which `below`, which rises over it, reaches `u`.
fn quantile((mut low, mut high): (f64, f64), u: f64, below: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if below(middle) < u { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Returns true if the backlog may grow without a limit being missed: no limit counts from `due`, or a step was unstable that
/// failed none of them.
fn backlog_without_miss(steps: &[&Step], tier: &str, limits: &[(String, f64)]) -> bool {
    let from_due = |limit: &str| limit == "joint" || Metric::of_limit(limit).is_some_and(Metric::is_from_due);
    let failed = |s: &Step| {
        let fails = |limit: &str| s.row(tier, limit).is_some_and(|r| r.verdict == Verdict::Fails);
        limits.iter().any(|(limit, _)| fails(limit))
    };
    !limits.iter().any(|(limit, _)| from_due(limit))
        || steps.iter().any(|s| s.stable == Some(false) && !failed(s))
}

/// Returns the prior of the boundary, which depends only on which ramp steps held. Steps in which the client was the limit are
/// ignored.
fn prior(steps: &[&Step], tier: &str) -> Option<Prior> {
    let verdict = |s: &Step| tier_verdict(&s.limits, tier).0;
    let loaded = || steps.iter().filter(|s| s.kind != StepKind::Baseline && verdict(s) != Verdict::Invalid);
    let ramp = || loaded().filter(|s| s.kind == StepKind::Ramp);
    let failed = ramp().filter(|s| s.too_much() || verdict(s) == Verdict::Fails);
    let failed = failed.map(|s| s.effective_level()).fold(f64::INFINITY, f64::min);
    let passed = ramp().map(|s| s.effective_level()).filter(|r| *r < failed).fold(0.0, f64::max);
    let lowest = loaded().map(|s| s.effective_level()).fold(f64::INFINITY, f64::min);
    let highest = loaded().map(|s| s.effective_level()).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let refined = loaded().filter(|s| s.kind != StepKind::Ramp).map(|s| s.effective_level());
    let (refined_low, refined_high) =
        refined.fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    let from = if passed > 0.0 { passed } else { lowest };
    let low = from.min(refined_low) / RANGE_BELOW;
    let high = if failed.is_finite() { RANGE_ABOVE * failed } else { RANGE_ABOVE_UNFAILED * highest };
    let ln_capacity = failed.is_finite().then(|| (failed * passed.max(failed / 2.0)).sqrt().ln());
    Some(Prior { low: low.ln(), high: high.max(RANGE_ABOVE * refined_high).ln(), ln_capacity })
}

/// Returns the part of the range that leaves out a thousandth of the mass on each side, `stretch` times as wide and with a margin
/// of two cells.
fn narrow(fit: &Fit, prior: Prior, stretch: f64) -> Range {
    let step = fit.boundary.grid[1] - fit.boundary.grid[0];
    let find = |u: f64| {
        let mut sum = 0.0;
        let at = fit.boundary.mass.iter().position(|m| {
            sum += m;
            sum >= u
        });
        fit.boundary.grid[at.unwrap_or(fit.boundary.grid.len() - 1)]
    };
    let (from, to) = (find(0.001), find(0.999));
    let more = 0.5 * (stretch - 1.0) * (to - from) + 2.0 * step;
    let (low, high) = ((from - more).max(prior.low), (to + more).min(prior.high));
    Range { low, high, prior }
}

#[cfg(test)]
mod tests;
