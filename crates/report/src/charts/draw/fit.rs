//! A fitted curve of misses with its band, on a plot of attainment.

use super::axis::Plot;
use super::canvas::{Canvas, Point};
use super::hue::{Hue, hue_of};
use super::place::Taken;
use goodput_stats::search::view::{Fitted, FittedPoint};
use plotters::style::{Color, RGBAColor};

/// A curve of attainment: at each level the low end of its band, the median and the high end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    points: Vec<(f64, [f64; 3])>,
}

/// Returns the shade of the band.
pub(crate) fn shade(hue: Hue) -> RGBAColor {
    hue.light.mix(0.34)
}

impl Fit {
    /// Returns the part of a fitted curve between two levels: beyond the steps it is no evidence. `None` if fewer than
    /// two points are left.
    pub(crate) fn of(fitted: &Fitted, (low, high): (f64, f64)) -> Option<Self> {
        let inside = |p: &&FittedPoint| p.level >= low * (1.0 - 1e-9) && p.level <= high * (1.0 + 1e-9);
        let attained = |p: &FittedPoint| (p.level, [1.0 - p.high, 1.0 - p.median, 1.0 - p.low]);
        let points: Vec<_> = fitted.points.iter().filter(inside).map(attained).collect();
        (points.len() > 1).then_some(Self { points })
    }

    /// Draws band and line, clipped to the plot, and marks the line as occupied for labels.
    pub(crate) fn draw(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let hue = hue_of(0);
        let clipped = |v: f64| v.clamp(plot.y.min, plot.y.max);
        let edge = |pick: usize| self.points.iter().map(move |(x, y)| plot.at(*x, clipped(y[pick])));
        let around: Vec<Point> = edge(2).chain(edge(0).collect::<Vec<_>>().into_iter().rev()).collect();
        c.polygon(&around, shade(hue));
        let line = self.above(plot.y.min);
        let line: Vec<Point> = line.into_iter().map(|(x, y)| plot.at(x, y)).collect();
        c.line(&line, 2.2, hue.middle);
        taken.line(&line, 3.0);
        for pick in [0, 2] {
            taken.line(&edge(pick).collect::<Vec<_>>(), 1.0);
        }
    }

    /// Returns the median up to where it falls below `least`.
    fn above(&self, least: f64) -> Vec<Point> {
        let mut line: Vec<Point> = Vec::new();
        for (x, [_, y, _]) in &self.points {
            if *y < least {
                if let Some((x0, y0)) = line.last().copied() {
                    line.push((x0 + (x - x0) * (y0 - least) / (y0 - y), least));
                }
                break;
            }
            line.push((*x, *y));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted() -> Fitted {
        let point =
            |level: f64| FittedPoint { level, low: 0.005 * level, median: 0.01 * level, high: 0.02 * level };
        Fitted {
            limit: "ttft.p99".into(),
            allowed: 0.01,
            points: (1..=20).map(|i| point(f64::from(i))).collect(),
        }
    }

    #[test]
    fn it_is_drawn_between_the_steps_alone() {
        let fit = Fit::of(&fitted(), (3.0, 12.0)).unwrap();
        let levels: Vec<f64> = fit.points.iter().map(|p| p.0).collect();
        assert!(
            (levels[0] - 3.0).abs() < 1e-9 && (levels[levels.len() - 1] - 12.0).abs() < 1e-9,
            "{levels:?}"
        );
        let [low, median, high] = fit.points[0].1;
        assert!(
            low < median && median < high && (median - 0.97).abs() < 1e-9,
            "shares of requests within the limit"
        );
        assert_eq!(Fit::of(&fitted(), (3.2, 3.9)), None);
    }

    #[test]
    fn the_line_ends_where_it_leaves_the_plot() {
        let line = Fit::of(&fitted(), (1.0, 20.0)).unwrap().above(0.905);
        let last = line[line.len() - 1];
        assert!((last.0 - 9.5).abs() < 1e-9 && (last.1 - 0.905).abs() < 1e-9, "{last:?}");
    }
}
