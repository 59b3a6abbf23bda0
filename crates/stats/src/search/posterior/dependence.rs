//! Combination of several boundaries: the SLO ends at the lowest of them.
//!
//! Let S_m be the probability that the boundary of limit m lies above a level. Independent boundaries would all lie above it with
//! probability Π S_m, fully dependent ones with min S_m. The estimates of limits that are missed by the same requests have correlated
//! errors, so the truth lies between: S = (1 − ρ)·S_a·S_b + ρ·min(S_a, S_b), where ρ is the correlation of their misses
//! ([`crate::stats::co_misses`]). More than two are combined two at a time, the most dependent ones first.

use crate::stats::co_misses::pooled_correlation;
use crate::stats::step::Step;

/// The order in which boundaries are combined, with the correlation of each pair.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct JoinTree {
    /// The second of each pair is merged into the first, which stands for both from then on.
    pairs: Vec<(usize, usize, f64)>,
}

impl JoinTree {
    /// Plans how to combine `n` boundaries, given the correlation of any two; that of groups is the mean over their members.
    pub(super) fn new(n: usize, correlation: impl Fn(usize, usize) -> f64) -> Self {
        let mut groups: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
        let mut pairs = Vec::with_capacity(n.saturating_sub(1));
        while groups.len() > 1 {
            let of = |a: &[usize], b: &[usize]| {
                let all = a.iter().flat_map(|i| b.iter().map(|j| correlation(*i, *j)));
                all.sum::<f64>() / (a.len() * b.len()) as f64
            };
            let all = (1..groups.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            let best = all
                .map(|(a, b)| (a, b, of(&groups[a], &groups[b])))
                .reduce(|x, y| if y.2 > x.2 { y } else { x });
            let Some((a, b, rho)) = best else { break };
            pairs.push((groups[a][0], groups[b][0], rho.clamp(0.0, 1.0)));
            let second = groups.swap_remove(b);
            groups[a].extend(second);
        }
        Self { pairs }
    }

    /// Plans how to combine the limits of a tier, given by their keys and allowed shares of misses, and `others` independent
    /// boundaries.
    pub(super) fn of_limits(steps: &[&Step], tier: &str, limits: &[(&str, f64)], others: usize) -> Self {
        Self::new(limits.len() + others, |a, b| match (limits.get(a), limits.get(b)) {
            (Some(a), Some(b)) => pooled_correlation(steps.iter().copied(), tier, [*a, *b]),
            _ => 0.0,
        })
    }

    /// Returns the probability that all boundaries lie above a level, given that of each.
    pub(super) fn all(&self, chances: impl Iterator<Item = f64>) -> f64 {
        let mut chances: Vec<f64> = chances.collect();
        for (a, b, rho) in &self.pairs {
            let (x, y) = (chances[*a], chances[*b]);
            chances[*a] = (1.0 - rho) * x * y + rho * x.min(y);
        }
        self.pairs.last().map_or(chances.first().copied().unwrap_or(1.0), |(a, ..)| chances[*a])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependent_boundaries_count_once() {
        let all =
            |rho: f64, chances: &[f64]| JoinTree::new(chances.len(), |_, _| rho).all(chances.iter().copied());
        assert!((all(0.0, &[0.9, 0.8, 0.5]) - 0.36).abs() < 1e-12);
        assert!((all(1.0, &[0.9, 0.8, 0.5]) - 0.5).abs() < 1e-12);
        assert!((all(0.5, &[0.9, 0.8]) - 0.76).abs() < 1e-12);
        assert!((all(0.7, &[0.9]) - 0.9).abs() < 1e-12 && (all(0.0, &[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_most_dependent_boundaries_are_combined_first() {
        // 0 and 2 are fully dependent; 1 is independent of both: min(.9, .6)·.5.
        let tree = JoinTree::new(3, |a, b| if (a, b) == (0, 2) { 1.0 } else { 0.0 });
        assert!((tree.all([0.9, 0.5, 0.6].into_iter()) - 0.3).abs() < 1e-12, "{tree:?}");
    }
}
