//! Several boundaries joined: the lowest of them is where the SLO ends.
//!
//! With S_m the chance that the boundary of limit m lies above a level, independent boundaries would have Π S_m above it together, and fully
//! dependent ones min S_m. Limits that are missed together are learned of together, so the truth lies between:
//! S = (1 − ρ)·S_a·S_b + ρ·min(S_a, S_b), ρ being the correlation of their misses ([`crate::stats::co_misses`]). More than two are joined
//! two at a time, those that depend most on one another first.

use crate::stats::co_misses::pooled_correlation;
use crate::stats::step::Step;

/// The order in which boundaries are joined, with the correlation of each pair.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Joined {
    /// The second of each pair is joined into the first, which stands for both from then on.
    pairs: Vec<(usize, usize, f64)>,
}

impl Joined {
    /// Plans how `n` boundaries are joined, given the correlation of any two; that of groups is the mean over their members.
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

    /// Plans it for the limits of a tier, given by their keys and the shares of misses that they allow, and `others` independent boundaries.
    pub(super) fn of_limits(steps: &[&Step], tier: &str, limits: &[(&str, f64)], others: usize) -> Self {
        Self::new(limits.len() + others, |a, b| match (limits.get(a), limits.get(b)) {
            (Some(a), Some(b)) => pooled_correlation(steps.iter().copied(), tier, [*a, *b]),
            _ => 0.0,
        })
    }

    /// Returns the chance that all boundaries lie above a level, given that of each.
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
            |rho: f64, chances: &[f64]| Joined::new(chances.len(), |_, _| rho).all(chances.iter().copied());
        assert!((all(0.0, &[0.9, 0.8, 0.5]) - 0.36).abs() < 1e-12);
        assert!((all(1.0, &[0.9, 0.8, 0.5]) - 0.5).abs() < 1e-12);
        assert!((all(0.5, &[0.9, 0.8]) - 0.76).abs() < 1e-12);
        assert!((all(0.7, &[0.9]) - 0.9).abs() < 1e-12 && (all(0.0, &[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_most_dependent_are_joined_first() {
        // 0 and 2 are one; 1 is independent of both: min(.9, .6)·.5.
        let joined = Joined::new(3, |a, b| if (a, b) == (0, 2) { 1.0 } else { 0.0 });
        assert!((joined.all([0.9, 0.5, 0.6].into_iter()) - 0.3).abs() < 1e-12, "{joined:?}");
    }
}
