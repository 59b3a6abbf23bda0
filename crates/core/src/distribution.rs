//! Distributions of prompt and answer lengths in tokens, accumulated in constant memory.

use crate::units::thousands;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Summary of lengths in tokens; all zero if there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Distribution {
    /// Number of lengths.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest length.
    pub max: u64,
    /// Histogram for charts, in ascending order.
    pub bars: Vec<Bar>,
}

impl fmt::Display for Distribution {
    /// `mean 212, p50 180, p90 402, p99 811, longest 1,024`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99, max] = [self.p50, self.p90, self.p99, self.max].map(|n| thousands(n as f64));
        write!(f, "mean {}, p50 {p50}, p90 {p90}, p99 {p99}, longest {max}", thousands(self.mean))
    }
}

/// One bar of a length histogram, covering `from..to` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bar {
    /// Shortest length, inclusive.
    pub from: u64,
    /// Longest length, exclusive.
    pub to: u64,
    /// Number of lengths in the bar.
    pub n: u64,
}

/// Bars per decade, tried in order: narrower bars where lengths are so similar that wide ones would be few.
const BARS: [f64; 4] = [10.0, 20.0, 40.0, 100.0];
/// Fewer bars than this show no shape.
const FEW: usize = 12;

/// Accumulator of lengths in tokens.
#[derive(Debug, Clone)]
pub struct LengthHistogram {
    histogram: Histogram<u64>,
    sum: u64,
    max: u64,
}

impl Default for LengthHistogram {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, u64::from(u32::MAX), 3);
        Self {
            histogram: histogram.expect("the bounds are in order and three digits are allowed"),
            sum: 0,
            max: 0,
        }
    }
}

impl LengthHistogram {
    /// Adds one length.
    pub fn push(&mut self, tokens: u32) {
        self.histogram.saturating_record(u64::from(tokens));
        self.sum += u64::from(tokens);
        self.max = self.max.max(u64::from(tokens));
    }

    /// Adds all lengths of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Both have equal bounds, so every value fits.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Returns the total number of tokens.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the summary; `None` if there are no lengths.
    pub fn finish(&self) -> Option<Distribution> {
        let n = self.histogram.len();
        let at = |q: f64| self.histogram.value_at_quantile(q).min(self.max);
        let bars = self.bars();
        let (p50, p90, p99) = (at(0.5), at(0.9), at(0.99));
        (n > 0).then(|| Distribution {
            n,
            mean: self.sum as f64 / n as f64,
            p50,
            p90,
            p99,
            max: self.max,
            bars,
        })
    }

    /// Returns the widest bars that show a shape.
    fn bars(&self) -> Vec<Bar> {
        let mut all = BARS.into_iter().map(|per_decade| self.bars_per_decade(per_decade));
        let widest = all.next().unwrap_or_default();
        if widest.len() >= FEW {
            widest
        } else {
            all.fold(widest, |best, next| if best.len() >= FEW { best } else { next })
        }
    }

    /// Returns bars of equal width on a logarithmic axis, except that the shortest lengths get one bar each.
    fn bars_per_decade(&self, per_decade: f64) -> Vec<Bar> {
        let edge = |i: i32| 10f64.powf(f64::from(i) / per_decade).round() as u64;
        let index = |v: u64| {
            let near = ((v.max(1) as f64).log10() * per_decade).floor() as i32;
            (near - 1..=near + 2).rev().find(|i| edge(*i) <= v.max(1)).unwrap_or(near)
        };
        let mut bars: Vec<Bar> = Vec::new();
        for value in self.histogram.iter_recorded() {
            let v = value.value_iterated_to().min(self.max);
            let i = index(v);
            // Short lengths round several edges to one number; a bar covers at least one length.
            let (from, to) = (edge(i), edge(i + 1).max(edge(i) + 1));
            match bars.last_mut() {
                Some(bar) if bar.from == from => bar.n += value.count_at_value(),
                _ => bars.push(Bar { from, to, n: value.count_at_value() }),
            }
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_bars_count_every_length() {
        let mut lengths = LengthHistogram::default();
        assert_eq!(lengths.finish(), None);
        for n in 1..=1000 {
            lengths.push(n);
        }
        let d = lengths.finish().unwrap();
        assert_eq!((d.n, d.p50, d.p90, d.p99, d.max), (1000, 500, 900, 990, 1000));
        assert!((d.mean - 500.5).abs() < 1e-9);
        assert_eq!(d.bars.iter().map(|b| b.n).sum::<u64>(), 1000);
        let mut more = LengthHistogram::default();
        more.push(5000);
        more.merge(&lengths);
        let both = more.finish().unwrap();
        assert_eq!((both.n, both.p50, both.max), (1001, 501, 5000));
        let alike = |from: u32, to: u32| {
            let mut lengths = LengthHistogram::default();
            (from..=to).for_each(|n| lengths.push(n));
            lengths.finish().unwrap().bars
        };
        assert_eq!(d.bars[d.bars.len() - 1].to, 1000 + 259, "ten bars per decade are enough here");
        let narrow = alike(500, 800);
        assert!((FEW..25).contains(&narrow.len()), "similar lengths still show a shape: {narrow:?}");
        assert_eq!(narrow.iter().map(|b| b.n).sum::<u64>(), 301);
        assert_eq!(alike(600, 600).len(), 1);
        assert!(narrow.windows(2).all(|w| w[0].to <= w[1].from));
        assert!(d.bars.windows(2).all(|w| w[0].to <= w[1].from), "bars overlap: {:?}", d.bars);
    }
}
