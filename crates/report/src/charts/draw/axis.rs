//! Axes with round ticks: linear from zero, logarithmic, and shares on a scale that widens towards 100 %.

use super::canvas::{Point, Rect};
use goodput_core::units::{short, thousands};

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Linear.
    Linear,
    /// Linear, of factors: its ticks are `× 0.5` and so on.
    Times,
    /// Logarithmic.
    Log,
    /// Logarithmic, with ticks at powers of two: for numbers in flight that double.
    Doubling,
    /// Shares by the logarithm of their distance from one, plus this small number, so that one itself has a position.
    Share(f64),
    /// Linear, without ticks: for named rows.
    Rows,
}

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    /// Value at the near end.
    pub(crate) min: f64,
    /// Value at the far end.
    pub(crate) max: f64,
    /// Distance between the ticks of a linear axis: 1, 2, 2.5 or 5 times a power of ten.
    pub(crate) step: f64,
    /// The scale between the ends.
    pub(crate) scale: Scale,
}

impl Axis {
    /// Returns a linear axis from zero up to `max` with about `about` ticks.
    pub(crate) fn upto(max: f64, about: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let rough = max / about;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * 0.999);
        Self { min: 0.0, max, step: step.unwrap_or(10.0 * power), scale: Scale::Linear }
    }

    /// Returns a linear axis between two values, widened to whole steps.
    pub(crate) fn between(min: f64, max: f64, about: f64) -> Self {
        let step = Self::upto(max - min, about).step;
        Self {
            min: (min / step).floor().max(0.0) * step,
            max: (max / step).ceil() * step,
            step,
            scale: Scale::Linear,
        }
    }

    /// Returns a logarithmic axis; both ends must be positive.
    pub(crate) fn log(min: f64, max: f64) -> Self {
        let min = if min > 0.0 && min.is_finite() { min } else { 1.0 };
        Self { min, max: max.max(min * 1.5), step: 0.0, scale: Scale::Log }
    }

    /// Returns an axis of whole numbers that double, with some margin at both ends.
    pub(crate) fn doubling(min: f64, max: f64) -> Self {
        let min = if min >= 1.0 && min.is_finite() { min } else { 1.0 };
        let room = (max / min).max(2.0).powf(0.04);
        Self { min: min / room, max: max.max(min * 2.0) * room, step: 0.0, scale: Scale::Doubling }
    }

    /// Returns an axis of shares from `min` to 100 %, resolved down to misses of a tenth of `miss`.
    pub(crate) fn shares(min: f64, miss: f64) -> Self {
        Self { min, max: 1.0, step: 0.0, scale: Scale::Share((miss / 10.0).clamp(1e-6, 0.05)) }
    }

    /// Returns the ticks with their labels, the lowest first.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Rows => Vec::new(),
            Scale::Linear => self.round_ticks(),
            Scale::Times => {
                self.round_ticks().into_iter().map(|(v, _)| (v, format!("× {}", short(v)))).collect()
            }
            Scale::Log => self.log_ticks(),
            Scale::Doubling => {
                let all = (0..32).map(|i| 2_f64.powi(i)).filter(|v| (self.min..=self.max).contains(v));
                all.map(|v| (v, if v >= 1_000.0 { thousands(v) } else { format!("{v}") })).collect()
            }
            Scale::Share(least) => {
                let ticks = [0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];
                let ticks = ticks.into_iter().filter(|v| *v >= self.min && 1.0 - v > 0.9 * least);
                let percent = |v: f64| (v, format!("{} %", (v * 1e7).round() / 1e5));
                ticks.chain([1.0]).map(percent).collect()
            }
        }
    }

    fn round_ticks(&self) -> Vec<(f64, String)> {
        let digits = (0..9).find(|d| {
            let scaled = self.step * 10f64.powi(*d);
            (scaled - scaled.round()).abs() < 1e-6 * scaled
        });
        let digits = digits.unwrap_or(9) as usize;
        let count = (self.max / self.step + 1e-6).floor() as u32;
        let first = (self.min / self.step - 1e-6).ceil().max(0.0) as u32;
        (first..=count)
            .map(|i| f64::from(i) * self.step)
            .map(|v| (v, if v >= 1_000.0 { thousands(v) } else { format!("{v:.digits$}") }))
            .collect()
    }

    /// Returns powers of ten, and 2 and 5 times them if there is room.
    fn log_ticks(&self) -> Vec<(f64, String)> {
        let decades = (self.max / self.min).log10();
        let factors: &[f64] = match decades {
            d if d > 4.0 => &[1.0],
            d if d > 1.6 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let powers = (self.min.log10().floor() as i32)..=(self.max.log10().ceil() as i32);
        let all = powers.flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)));
        let label = |v: f64| if v >= 1_000.0 { thousands(v) } else { short(v) };
        all.filter(|v| (self.min * 0.999..=self.max * 1.001).contains(v)).map(|v| (v, label(v))).collect()
    }

    /// Returns the position of a value as a share of the axis.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let place = |v: f64| match self.scale {
            Scale::Linear | Scale::Times | Scale::Rows => v,
            Scale::Log | Scale::Doubling => v.max(self.min).ln(),
            Scale::Share(least) => -(1.0 - v + least).ln(),
        };
        (place(value) - place(self.min)) / (place(self.max) - place(self.min))
    }
}

/// A plot with its two axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plot {
    /// The area between the axes.
    pub(crate) area: Rect,
    /// Horizontal axis.
    pub(crate) x: Axis,
    /// Vertical axis.
    pub(crate) y: Axis,
}

impl Plot {
    /// Returns the x coordinate of a value.
    pub(crate) fn at_x(&self, x: f64) -> f64 {
        self.area.x + self.area.w * self.x.share(x)
    }

    /// Returns the y coordinate of a value.
    pub(crate) fn at_y(&self, y: f64) -> f64 {
        self.area.bottom() - self.area.h * self.y.share(y)
    }

    /// Returns the coordinates of a point.
    pub(crate) fn at(&self, x: f64, y: f64) -> Point {
        (self.at_x(x), self.at_y(y))
    }

    /// Returns the coordinates of a point; one above the plot is moved to its upper edge.
    pub(crate) fn at_top(&self, p: Point) -> Point {
        self.at(p.0, p.1.min(self.y.max))
    }

    /// Returns the horizontal line at a value, from the left to the right.
    pub(crate) fn across(&self, y: f64) -> [Point; 2] {
        let y = self.at_y(y);
        [(self.area.x, y), (self.area.right(), y)]
    }

    /// Returns the vertical line at a value, upwards.
    pub(crate) fn upright(&self, x: f64) -> [Point; 2] {
        let x = self.at_x(x);
        [(x, self.area.bottom()), (x, self.area.y)]
    }

    /// Returns a line through values, cut at the top of the plot.
    pub(crate) fn line(&self, values: &[Point]) -> Vec<Vec<Point>> {
        let mut pieces = Vec::new();
        let mut piece: Vec<Point> = Vec::new();
        for (i, v) in values.iter().enumerate() {
            let inside = v.1 <= self.y.max;
            if let Some(before) = i.checked_sub(1).map(|b| values[b])
                && inside != (before.1 <= self.y.max)
            {
                let t = (self.y.max - before.1) / (v.1 - before.1);
                piece.push(self.at(before.0 + t * (v.0 - before.0), self.y.max));
            }
            if inside {
                piece.push(self.at(v.0, v.1));
            } else if !piece.is_empty() {
                pieces.push(std::mem::take(&mut piece));
            }
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        for (max, about, labels) in [
            (39.5, 7.0, "0 10 20 30"),
            (283.0, 6.0, "0 50 100 150 200 250"),
            (0.23, 5.0, "0.00 0.05 0.10 0.15 0.20"), // servers slower than a request per second
            (23_000.0, 4.0, "0 10,000 20,000"),
            (f64::NAN, 4.0, "0.00 0.25 0.50 0.75 1.00"), // nothing measured
        ] {
            let labels_got: Vec<String> = Axis::upto(max, about).ticks().into_iter().map(|t| t.1).collect();
            assert_eq!(labels_got.join(" "), labels, "{max}");
        }
        let between =
            |min, max| Axis::between(min, max, 4.0).ticks().into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(between(28.2, 39.1).join(" "), "25 30 35 40");
        assert_eq!(between(-1.0, 3.9).join(" "), "0 2 4", "no level is below zero");
    }

    #[test]
    fn factors_say_that_they_are() {
        let axis = Axis { min: 0.3, scale: Scale::Times, ..Axis::upto(2.1, 5.0) };
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels.join(" "), "× 0.5 × 1 × 1.5 × 2", "{axis:?}");
    }

    #[test]
    fn shares_widen_towards_the_whole() {
        let axis = Axis::shares(0.0, 0.01);
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels.join(" "), "0 % 50 % 90 % 95 % 99 % 99.9 % 100 %");
        let at: Vec<f64> = axis.ticks().iter().map(|t| axis.share(t.0)).collect();
        assert!(at[0].abs() < 1e-9 && (at[6] - 1.0).abs() < 1e-9 && at.is_sorted(), "{at:?}");
        assert!(at[6] - at[2] > 0.6, "90 to 100 % takes most of the axis: {at:?}");
    }

    #[test]
    fn logarithmic_ticks_are_few_and_round() {
        for (min, max, labels) in [
            (8.0, 70.0, "10 20 50"),
            (1.5, 400.0, "3 10 30 100 300"),
            (0.9, 90_000.0, "1 10 100 1,000 10,000"),
        ] {
            let got: Vec<String> = Axis::log(min, max).ticks().into_iter().map(|t| t.1).collect();
            assert_eq!(got.join(" "), labels);
        }
        assert!((Axis::log(1.0, 100.0).share(10.0) - 0.5).abs() < 1e-9);
        let doubling: Vec<String> = Axis::doubling(1.0, 32.0).ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(doubling.join(" "), "1 2 4 8 16 32");
        assert!(Axis::doubling(1.0, 32.0).share(1.0) > 0.02 && Axis::doubling(3.0, 3.0).max > 3.0);
    }

    #[test]
    fn lines_are_cut_at_the_top() {
        let area = Rect { x: 0.0, y: 0.0, w: 100.0, h: 100.0 };
        let plot = Plot { area, x: Axis::upto(10.0, 5.0), y: Axis::upto(10.0, 5.0) };
        let pieces = plot.line(&[(0.0, 0.0), (4.0, 8.0), (6.0, 12.0), (8.0, 8.0)]);
        assert_eq!(pieces.len(), 2);
        let end = pieces[0].last().unwrap();
        assert!((end.0 - 50.0).abs() < 1e-9 && end.1.abs() < 1e-9, "leaves the plot half way: {end:?}");
        assert_eq!(pieces[1].len(), 2);
    }
}
