//! The upper end of an axis of latencies, and labels for the values beyond it.

use super::canvas::Point;

/// Returns labels of the values beyond an axis; steps that overlap share one with their range.
pub(crate) fn together(beyond: &[Point], say: fn(f64) -> String) -> Vec<(f64, String)> {
    let mut sorted = beyond.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let near = |a: &Point, b: &Point| b.0 - a.0 < 24.0;
    let label = |group: &[Point]| {
        let value = |pick: fn(f64, f64) -> f64| say(group.iter().map(|p| p.1).fold(group[0].1, pick));
        let (low, high) = (value(f64::min), value(f64::max));
        let x = group.iter().map(|p| p.0).sum::<f64>() / group.len() as f64;
        (x, if low == high { format!("↑ {low}") } else { format!("↑ {low} – {high}") })
    };
    sorted.chunk_by(near).map(label).collect()
}

/// Returns the upper end of the axis of latencies, in milliseconds.
///
/// Steady steps are shown up to four times the reference (the limit, or the lowest p99 if that is higher), steps whose
/// backlog grew up to two and a half times: higher values would squash the relevant range. A limit far above all
/// measured values is named, not drawn.
pub(crate) fn ceiling(calm: &[f64], wild: &[f64], limits: &[f64]) -> f64 {
    let least = |v: &[f64]| v.iter().copied().min_by(f64::total_cmp);
    let most = |v: &[f64]| v.iter().copied().max_by(f64::total_cmp);
    let lowest = least(calm).or_else(|| least(wild));
    let highest = most(calm).into_iter().chain(most(wild)).fold(0.0, f64::max);
    let Some(limit) = most(limits) else {
        let calm_top = most(calm).unwrap_or(highest);
        return 1.08 * if highest > 2.5 * calm_top { 1.15 * calm_top } else { highest };
    };
    let Some(lowest) = lowest else { return 1.4 * limit };
    if limit > 5.0 * highest {
        return 1.3 * highest;
    }
    let matters = limit.max(lowest);
    let below = |v: &[f64], cap: f64| v.iter().copied().filter(|x| *x <= cap).fold(0.0, f64::max);
    let shown = below(calm, 4.0 * matters).max(below(wild, 2.5 * matters));
    let cut = calm.iter().any(|v| *v > 4.0 * matters) || wild.iter().any(|v| *v > 2.5 * matters);
    let top = (1.08 * shown).max(1.2 * limit);
    if cut { top.max(1.5 * matters) } else { top }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    #[test]
    fn the_axis_shows_what_decides() {
        for (calm, wild, limits, low, high) in [
            (vec![20.0, 150.0, 260.0], vec![], vec![200.0], 260.0, 300.0), // all in view
            (vec![20.0, 150.0], vec![30_000.0], vec![200.0], 200.0, 400.0), // an overload does not squash it
            (vec![20.0, 150.0], vec![450.0], vec![200.0], 450.0, 500.0),   // a near one is shown
            (vec![2_000.0, 3_000.0], vec![], vec![200.0], 3_000.0, 3_600.0), // everything fails
            (vec![10.0, 12.0], vec![], vec![2_000.0], 12.0, 20.0),         // a limit out of reach
            (vec![], vec![9_000.0], vec![200.0], 9_000.0, 10_000.0),       // only overloaded steps
            (vec![], vec![], vec![200.0], 200.0, 300.0),                   // nothing answered
            (vec![50.0, 70.0], vec![5_000.0], vec![], 70.0, 100.0),        // no limit on this metric
        ] {
            let top = ceiling(&calm, &wild, &limits);
            assert!((low..=high).contains(&top), "{calm:?} {wild:?} {limits:?}: {top}");
        }
    }

    #[test]
    fn values_beyond_the_axis_share_labels() {
        let labels = together(&[(680.0, 9_000.0), (100.0, 400.0), (690.0, 12_000.0)], words::latency);
        let texts: Vec<&str> = labels.iter().map(|l| l.1.as_str()).collect();
        assert_eq!(texts, ["↑ 400 ms", "↑ 9 s – 12 s"]);
    }
}
