//! Where the boundary of a tier may lie, by all steps together: a posterior for each limit, joined.

mod cliff;
mod dependence;
mod ease;
mod edge;
mod evidence;
mod fit;
mod prior;
mod scatter;
mod table;

use super::change::found;
use super::seen::unloaded_e2e;
use super::view::{Fitted, FittedPoint};
use crate::stats::step::{Step, StepKind, Verdict};
use crate::stats::summary::tier_verdict;
use dependence::Joined;
use evidence::Evidence;
use fit::{Fit, Known, Range, Row, Spread};
use goodput_core::slo::{Metric, Part, Slo};
use prior::Prior;

/// How far below the lowest rate under load, and above the highest, the boundary is sought.
const BELOW: f64 = 30.0;
const ABOVE: f64 = 2.0;
const FAR_ABOVE: f64 = 6.0;
/// Slopes below this are called flat. On such curves a rate half as high again has hardly more misses, and the safe rate was found to be too
/// high more often than it says.
const FLAT: f64 = 1.5;
/// Passes of the fit: each takes the weights of its steps from the one before.
const PASSES: usize = 3;

/// The limits of a tier by their keys ([`goodput_core::slo::key`]), those of classes included, with the share of misses that each allows.
pub(super) fn limits(slo: &Slo) -> Vec<(String, f64)> {
    let of_part = |part: Part<'_>| {
        let latencies =
            part.slo.limits().into_iter().map(|l| (part.key(&l.name()), l.percentile.miss_share()));
        let errors = part.slo.error_rate.map(|p0| (part.key("error-rate"), p0.get()));
        latencies.chain(errors).collect::<Vec<_>>()
    };
    slo.parts().into_iter().flat_map(of_part).collect()
}

/// Whether a limit asks for nothing of a step, by plan: gaps between tokens, and every answer is one token long.
pub(super) fn void(step: &Step, tier: &str, limit: &str) -> bool {
    step.row(tier, limit).is_none_or(|r| r.n == 0 && r.verdict == Verdict::Meets)
}

/// The posterior of a tier's boundary.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Posterior {
    limits: Vec<(Evidence, Fit)>,
    /// The largest scatter of the limits: how much larger variances are than chance within the steps explains.
    scatter: f64,
    /// The boundary of stability, where no limit sees a backlog by itself.
    stability: Option<Spread>,
    joined: Joined,
    range: (f64, f64),
}

impl Posterior {
    /// From the steps of a series, for the limits of a tier; `dispersion` is the squared coefficient of variation of the arrivals' gaps. `None` where no step
    /// ran under a load, or no limit allows a miss.
    pub(super) fn of(steps: &[&Step], tier: &str, limits: &[(String, f64)], dispersion: f64) -> Option<Self> {
        let change = found(steps);
        let prior = prior(steps, tier)?.after(change);
        let range = (prior.low, prior.high);
        let baselines: Vec<&Step> = steps.iter().copied().filter(|s| s.kind == StepKind::Baseline).collect();
        let e2e_s = unloaded_e2e(&baselines);
        // Neither a limit that allows no miss nor one that allows all has a curve; the first caps the answer by its verdicts.
        let some = limits
            .iter()
            .filter(|(limit, p0)| *p0 > 0.0 && *p0 < 1.0 && !steps.iter().all(|s| void(s, tier, limit)));
        let mut all: Vec<Evidence> = Vec::new();
        for (limit, p0) in some {
            let evidence = Evidence::of(steps, tier, limit, *p0, e2e_s, dispersion, change);
            // TTFC beside TTFT, on a server that does not reason, is one limit under two names.
            if !all.iter().any(|e| e.says_as_much_as(&evidence)) {
                all.push(evidence);
            }
        }
        if all.is_empty() {
            return None;
        }
        let named: Vec<(&str, f64)> = all.iter().map(|e| (e.limit.as_str(), e.p0)).collect();
        let joined = Joined::of_limits(steps, tier, &named, 0);
        let wide = Range::wide(prior);
        let share = 1.0 / all.len() as f64;
        let known = |e: &Evidence| Known { dispersion, ease: e.ease, share };
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
                let rows: Vec<Row> = rows.iter().map(|r| Row { weight: r.weight / phi, ..*r }).collect();
                Fit::of(&rows, e.p0, narrow(f, prior, phi.sqrt()), known(e))
            };
            fits = all.iter().zip(&fits).map(&mut again).collect();
        }
        let stability = unseen_backlog(steps, tier, limits)
            .then(|| edge::edge(steps, range, prior::bursts(dispersion)))
            .flatten();
        let joined = Joined::of_limits(steps, tier, &named, usize::from(stability.is_some()));
        let limits = all.into_iter().zip(fits).collect();
        Some(Self { joined, limits, scatter: most_scatter, stability, range })
    }

    /// Chance that no rate meets all limits: even unloaded, one of them is missed too often.
    pub(super) fn infeasible(&self) -> f64 {
        let can_be_met = self.limits.iter().map(|(_, f)| 1.0 - f.infeasible);
        1.0 - self.joined.all(can_be_met.chain(self.stability.iter().map(|_| 1.0)))
    }

    /// Chance that the boundary lies below `rate`, given that all limits can be met.
    fn feasible_below(&self, rate: f64) -> f64 {
        self.lowest_below(rate.ln())
    }

    /// Chance that the lowest boundary lies below e^`x`.
    fn lowest_below(&self, x: f64) -> f64 {
        1.0 - self.joined.all(self.boundaries().map(|b| 1.0 - b.below(x)))
    }

    fn boundaries(&self) -> impl Iterator<Item = &Spread> {
        self.limits.iter().map(|(_, f)| &f.boundary).chain(&self.stability)
    }

    /// Chance that the boundary lies below `rate`, or that there is none.
    pub(super) fn below(&self, rate: f64) -> f64 {
        let infeasible = self.infeasible();
        infeasible + (1.0 - infeasible) * self.feasible_below(rate)
    }

    /// Quantile of the boundary given that there is one.
    pub(super) fn feasible_quantile(&self, u: f64) -> f64 {
        quantile(self.range, u, |x| self.lowest_below(x)).exp()
    }

    /// Quantile of the boundary; 0 where that much of the chance is for none.
    pub(super) fn quantile(&self, u: f64) -> f64 {
        let infeasible = self.infeasible();
        if u <= infeasible { 0.0 } else { self.feasible_quantile((u - infeasible) / (1.0 - infeasible)) }
    }

    /// How well the boundary is known: ln of the 95 % quantile over the 5 % quantile, given that there is one.
    pub(super) fn spread(&self) -> f64 {
        (self.feasible_quantile(0.95) / self.feasible_quantile(0.05)).ln()
    }

    /// The limit that binds: the one whose boundary is lowest.
    pub(super) fn binding(&self) -> &str {
        let limits = self.limits.iter().map(|(e, f)| (e.limit.as_str(), f.boundary.centre()));
        let all = limits.chain(self.stability.iter().map(|s| ("stability", s.centre())));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(limit, _)| limit)
    }

    /// Chance that the curve of the limit that binds is flat at the boundary: d ln p / d ln r below [`FLAT`]. 0 where stability binds.
    pub(super) fn flat(&self) -> f64 {
        let binding = self.binding();
        self.limits.iter().find(|(e, _)| e.limit == binding).map_or(0.0, |(_, f)| f.slope_below(FLAT))
    }

    /// How many times as wide the interval is for steps that scatter more than chance within them explains: √φ; `None` where they do not.
    pub(super) fn widened(&self) -> Option<f64> {
        (self.scatter > 1.0).then(|| self.scatter.sqrt())
    }

    /// The limit that is most likely not met from `level` on.
    pub(super) fn missed(&self, level: f64) -> &str {
        let below = |f: &Fit| f.infeasible + (1.0 - f.infeasible) * f.boundary.below(level.ln());
        let worst = self.limits.iter().max_by(|a, b| below(&a.1).total_cmp(&below(&b.1)));
        worst.map_or("", |(e, _)| &e.limit)
    }

    /// The miss curve of each limit at these levels.
    pub(super) fn fitted(&self, levels: &[f64]) -> Vec<Fitted> {
        let point = |fit: &Fit, level: f64| {
            let [low, median, high] = fit.shares(level, [0.05, 0.5, 0.95]);
            FittedPoint { level, low, median, high }
        };
        let of = |(e, f): &(Evidence, Fit)| Fitted {
            limit: e.limit.clone(),
            allowed: e.p0,
            points: levels.iter().map(|level| point(f, *level)).collect(),
        };
        self.limits.iter().map(of).collect()
    }
}

/// Where `below`, which rises over the range, reaches `u`.
fn quantile((mut low, mut high): (f64, f64), u: f64, below: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if below(middle) < u { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Whether the backlog may grow and no limit see it: none counts from `due`, or a step was unstable that none of them failed.
fn unseen_backlog(steps: &[&Step], tier: &str, limits: &[(String, f64)]) -> bool {
    let from_due = |limit: &str| {
        limit == "joint" || Metric::of_limit(limit).is_some_and(|m| Metric::FROM_DUE.contains(&m))
    };
    let failed = |s: &Step| {
        let fails = |limit: &str| s.row(tier, limit).is_some_and(|r| r.verdict == Verdict::Fails);
        limits.iter().any(|(limit, _)| fails(limit))
    };
    !limits.iter().any(|(limit, _)| from_due(limit))
        || steps.iter().any(|s| s.stable == Some(false) && !failed(s))
}

/// Where the boundary is likely to be, from nothing but which steps of the ramp held. Steps in which the client was the limit say nothing.
fn prior(steps: &[&Step], tier: &str) -> Option<Prior> {
    let verdict = |s: &Step| tier_verdict(&s.limits, tier).0;
    let loaded = || steps.iter().filter(|s| s.kind != StepKind::Baseline && verdict(s) != Verdict::Invalid);
    let ramp = || loaded().filter(|s| s.kind == StepKind::Ramp);
    let failed = ramp().filter(|s| s.too_much() || verdict(s) == Verdict::Fails);
    let failed = failed.map(|s| s.effective_level()).fold(f64::INFINITY, f64::min);
    let held = ramp().map(|s| s.effective_level()).filter(|r| *r < failed).fold(0.0, f64::max);
    let lowest = loaded().map(|s| s.effective_level()).fold(f64::INFINITY, f64::min);
    let highest = loaded().map(|s| s.effective_level()).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let refined = loaded().filter(|s| s.kind != StepKind::Ramp).map(|s| s.effective_level());
    let (refined_low, refined_high) =
        refined.fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    let from = if held > 0.0 { held } else { lowest };
    let low = from.min(refined_low) / BELOW;
    let high = if failed.is_finite() { ABOVE * failed } else { FAR_ABOVE * highest };
    let ln_capacity = failed.is_finite().then(|| (failed * held.max(failed / 2.0)).sqrt().ln());
    Some(Prior { low: low.ln(), high: high.max(ABOVE * refined_high).ln(), ln_capacity })
}

/// The part of the range that has all but a thousandth of the mass on each side, `stretch` times as wide, and a little more.
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
