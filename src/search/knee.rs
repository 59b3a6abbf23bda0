//! The knee of a curve after Satopää, Albrecht, Irwin & Raghavan, "Finding a Kneedle in a Haystack", 2011.

use super::answer::Knee;
use crate::stats::step::{Step, StepKind, Verdict};

/// Sensitivity: how many mean distances the difference curve must fall below its maximum. 1 is the paper's online value.
const SENSITIVITY: f64 = 1.0;

/// One step on the curve of latency against throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Offered level.
    pub level: f64,
    /// Achieved requests per second.
    pub throughput: f64,
    /// Latency in any unit.
    pub latency: f64,
}

/// The knee of a convex, increasing curve given in order of level; `None` under four points or where none stands out.
///
/// Throughput x and latency y are scaled to [0, 1]; the knee is the first local maximum of x − y that is followed by a fall
/// of more than the mean distance of x (S = 1). Nothing is smoothed: a sweep has a handful of points. Past saturation
/// throughput may fall again; the order by level keeps such points on the far side.
pub fn kneedle(points: &[Point]) -> Option<Knee> {
    if points.len() < 4 {
        return None;
    }
    let x = scaled(points.iter().map(|p| p.throughput))?;
    let y = scaled(points.iter().map(|p| p.latency))?;
    let d: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
    let spacing = x.windows(2).map(|w| (w[1] - w[0]).abs()).sum::<f64>() / (x.len() - 1) as f64;
    for at in 1..d.len() - 1 {
        if d[at] < d[at - 1] || d[at] < d[at + 1] || d[at] <= 0.0 {
            continue;
        }
        let threshold = d[at] - SENSITIVITY * spacing;
        // Confirmed by a fall below the threshold before the curve rises above this maximum.
        let after = d[at + 1..].iter().find(|later| **later < threshold || **later > d[at]);
        if after.is_some_and(|later| *later < threshold) {
            return Some(Knee { rate: points[at].level, throughput: points[at].throughput });
        }
    }
    None
}

/// A p99 of fewer requests is just the largest of them.
const ENOUGH: u64 = 100;

/// The knee of a series' steps: p99 TTFT (e2e, where answers came in one piece) against achieved rate, or the median where p99 shows none. Invalid steps are left
/// out, and those with fewer than a hundred requests; of several steps at one level the last counts.
pub fn of_steps(steps: &[&Step]) -> Option<Knee> {
    let mut by_level: Vec<&Step> = vec![];
    for step in steps
        .iter()
        .filter(|s| s.verdict != Verdict::Invalid && s.kind != StepKind::Baseline && s.due_n >= ENOUGH)
    {
        by_level.retain(|s| (s.level.value - step.level.value).abs() > 1e-9 * step.level.value);
        by_level.push(step);
    }
    by_level.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    let curve = |latency: fn(&Step) -> Option<f64>| -> Vec<Point> {
        let point = |s: &&Step| {
            Some(Point { level: s.level.value, throughput: s.achieved_rate, latency: latency(s)? })
        };
        by_level.iter().filter_map(point).collect()
    };
    kneedle(&curve(|s| s.quantiles(s.response()).p99))
        .or_else(|| kneedle(&curve(|s| s.quantiles(s.response()).p50)))
}

/// Scaled to [0, 1]; `None` where all are the same or one is no number.
fn scaled(values: impl Iterator<Item = f64> + Clone) -> Option<Vec<f64>> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let range = values.clone().fold(f64::NEG_INFINITY, f64::max) - low;
    (range.is_finite() && range > 0.0).then(|| values.map(|v| (v - low) / range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(throughput: &[f64], latency: &[f64]) -> Vec<Point> {
        let pairs = throughput.iter().zip(latency).enumerate();
        pairs.map(|(i, (t, l))| Point { level: (i + 1) as f64, throughput: *t, latency: *l }).collect()
    }

    #[test]
    fn knees_of_known_shapes() {
        for (what, throughput, latency, level) in [
            ("hockey stick", &[1., 2., 3., 4., 5., 6.][..], &[10., 10., 10., 10., 60., 110.][..], Some(4.0)),
            (
                "saturation folds back",
                &[1., 2., 4., 8., 9., 8.5],
                &[10., 11., 12., 20., 300., 900.],
                Some(4.0),
            ),
            ("straight line", &[1., 2., 3., 4., 5.], &[1., 2., 3., 4., 5.], None),
            ("concave", &[1., 2., 3., 4., 5.], &[1., 8., 9., 9.5, 10.], None),
            ("flat", &[1., 2., 3., 4., 5.], &[7., 7., 7., 7., 7.], None),
            ("still before the knee", &[1., 2., 3., 4., 5.], &[10., 10.5, 11.2, 12., 12.8], None),
            ("three points", &[1., 2., 3.], &[1., 1., 9.], None),
        ] {
            let knee = kneedle(&points(throughput, latency));
            assert_eq!(knee.map(|k| k.rate.to_string()), level.map(|l: f64| l.to_string()), "{what}");
        }
    }

    #[test]
    fn the_knee_of_a_queue_lies_where_theory_puts_it() {
        // M/M/1: 1/(1 − x) on [0, 0.9]. The scaled slope is 1 where (1 − x)² = 0.1, at x = 0.684.
        let x: Vec<f64> = (0..=90).map(|i| f64::from(i) / 100.0).collect();
        let y: Vec<f64> = x.iter().map(|x| 1.0 / (1.0 - x)).collect();
        let knee = kneedle(&points(&x, &y)).unwrap();
        assert!((knee.throughput - 0.684).abs() < 0.01, "{knee:?}");
    }
}
