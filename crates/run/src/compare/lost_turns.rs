//! Levels that one side could not sustain, for sides that were measured in turns.
//!
//! Latencies are compared at stable steps only. A server that is overloaded in some turns contributes only its calm
//! ones, and one that is overloaded in all turns contributes none, so the omitted turns are a finding of their own.
//! Fisher's exact test decides if a side lost more of its turns than the baseline.

use super::noise::ALPHA;
use super::{Side, same};
use goodput_core::level::Level;
use goodput_stats::stats::step::{Step, Verdict};
use serde::Serialize;

/// Turns of one level that overloaded a side, compared with the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LostTurns {
    /// Load level.
    pub level: Level,
    /// Label of the side.
    pub side: String,
    /// Label of the baseline.
    pub against: String,
    /// Number of turns that were not sustained: baseline, side.
    pub lost: [u32; 2],
    /// Total number of turns: baseline, side.
    pub turns: [u32; 2],
}

impl LostTurns {
    /// Returns true if the side lost significantly more turns than the baseline, false if significantly fewer, `None`
    /// otherwise.
    ///
    /// Each direction is tested at α/2: such small counts rarely come near it by chance, which leaves room for the
    /// few levels.
    pub fn worse(&self) -> Option<bool> {
        let ([old, new], [of_old, of_new]) = (self.lost, self.turns);
        let sure = |a: [u32; 2], b: [u32; 2]| tail(a, b) <= ALPHA / 2.0;
        if sure([new, of_new], [old, of_old]) {
            Some(true)
        } else if sure([old, of_old], [new, of_new]) {
            Some(false)
        } else {
            None
        }
    }
}

/// Returns the probability that at least as many of all losses fall on the first side if both are equal: the upper
/// tail of the hypergeometric distribution.
fn tail([lost, of]: [u32; 2], [other, of_other]: [u32; 2]) -> f64 {
    let (all, n) = (lost + other, of + of_other);
    let ln_choose =
        |n: u32, k: u32| -> f64 { (0..k).map(|i| (f64::from(n - i) / f64::from(i + 1)).ln()).sum() };
    let most = all.min(of);
    let ways = |k: u32| match all.checked_sub(k).filter(|rest| *rest <= of_other) {
        Some(rest) => (ln_choose(of, k) + ln_choose(of_other, rest) - ln_choose(n, all)).exp(),
        None => 0.0,
    };
    (lost..=most).map(ways).sum()
}

/// Returns true if a step shows its server's ability to sustain the level: it was not aborted, and the client was not
/// the limit.
fn tells(step: &Step) -> bool {
    !step.kind.is_outside_search() && !step.broken_off() && step.verdict != Verdict::Invalid
}

/// Returns the lost turns of each side but the first, at each level where it or the baseline lost any.
pub(super) fn all(sides: &[Side]) -> Vec<LostTurns> {
    let own = |side: &Side| -> Vec<Step> { side.run.steps.iter().filter(|s| tells(s)).cloned().collect() };
    let steps: Vec<Vec<Step>> = sides.iter().map(own).collect();
    let mut levels: Vec<Level> = Vec::new();
    for step in steps.iter().flatten() {
        if !levels.iter().any(|l| l.control == step.level.control && same(l.value, step.level.value)) {
            levels.push(step.level);
        }
    }
    levels.sort_by(|a, b| a.value.total_cmp(&b.value));
    let count = |side: usize, level: &Level| {
        let here = steps[side]
            .iter()
            .filter(|s| s.level.control == level.control && same(s.level.value, level.value));
        let (lost, turns) = here
            .fold((0, 0), |(lost, all), s| (lost + u32::from(s.overloaded() || s.completed == 0), all + 1));
        [lost, turns]
    };
    let mut found = Vec::new();
    for level in &levels {
        let old = count(0, level);
        for (i, side) in sides.iter().enumerate().skip(1) {
            let new = count(i, level);
            if old[0] + new[0] > 0 {
                found.push(LostTurns {
                    level: *level,
                    side: side.label.clone(),
                    against: sides[0].label.clone(),
                    lost: [old[0], new[0]],
                    turns: [old[1], new[1]],
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_lost_far_more_of_its_turns_is_told_apart() {
        for (lost, turns, worse) in [
            ([0, 10], [10, 10], Some(true)),
            ([0, 4], [4, 4], Some(true)),
            ([4, 0], [4, 4], Some(false)),
            ([0, 3], [4, 4], None),
            ([0, 6], [10, 10], Some(true)),
            ([1, 2], [10, 10], None),
            ([10, 10], [10, 10], None),
            ([0, 2], [10, 0], None),
        ] {
            let turns: [u32; 2] = turns;
            let lost = [lost[0], u32::min(lost[1], turns[1])];
            let (side, against) = ("b".to_owned(), "a".to_owned());
            let one = LostTurns { level: Level::rate(20.0), side, against, lost, turns };
            assert_eq!(one.worse(), worse, "{one:?}");
        }
        // 5 of 10 against 0 of 10: C(10, 5) / C(20, 5).
        assert!((tail([5, 10], [0, 10]) - 252.0 / 15_504.0).abs() < 1e-12);
        assert!((tail([0, 10], [3, 10]) - 1.0).abs() < 1e-12);
    }
}
