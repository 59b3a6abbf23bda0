//! Requests over time: rates, and the variation of counts and gaps.

use serde::Serialize;

/// Interval widths over which counts are compared, in milliseconds.
const WIDTHS_MS: [u64; 5] = [100, 1_000, 10_000, 60_000, 600_000];
/// Smallest number of intervals from which a variance is computed.
const MIN_INTERVALS: u64 = 20;
/// Largest number of bins of the rate over time.
const MAX_BINS: usize = 200;
/// Possible widths of those bins in milliseconds; each is a multiple of the one before.
const BIN_WIDTHS_MS: [u64; 17] = [
    1, 2, 10, 20, 100, 200, 1_000, 2_000, 10_000, 20_000, 60_000, 120_000, 600_000, 1_200_000, 3_600_000,
    21_600_000, 86_400_000,
];
const MS: u64 = 1_000_000;

/// Variation of the counts in intervals of one width.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Dispersion {
    /// Width of an interval, in seconds.
    pub width_s: f64,
    /// Number of complete intervals.
    pub intervals: u64,
    /// Index of dispersion, the variance of the counts divided by their mean: 1 for Poisson arrivals at any rate.
    /// `None` for too few intervals.
    pub index: Option<f64>,
    /// Requests per second in the busiest interval.
    pub peak_rate: f64,
}

/// Requests and tokens in one bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Number of requests.
    pub requests: u64,
    /// Total prompt tokens.
    pub input_tokens: u64,
    /// Total answer tokens, as far as recorded.
    pub output_tokens: u64,
}

/// Load over time in bins of one width, from the first request on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverTime {
    /// Width of a bin, in seconds.
    pub width_s: f64,
    /// The bins; the last one is incomplete.
    pub bins: Vec<Bin>,
}

/// Running mean and variance of the counts in intervals of one width, by Welford's method.
#[derive(Debug, Clone, Default)]
struct Counter {
    width: u64,
    /// Index of the current interval.
    current: u64,
    count: u64,
    n: f64,
    mean: f64,
    square: f64,
    most: u64,
}

impl Counter {
    fn new(width: u64) -> Self {
        Self { width, ..Self::default() }
    }

    fn push(&mut self, at: u64) {
        self.close_before(at / self.width);
        self.count += 1;
        self.most = self.most.max(self.count);
    }

    fn close_before(&mut self, interval: u64) {
        if interval <= self.current {
            return;
        }
        let x = self.count as f64;
        self.n += 1.0;
        let delta = x - self.mean;
        self.mean += delta / self.n;
        self.square += delta * (x - self.mean);
        let empty = (interval - self.current - 1) as f64;
        if empty > 0.0 {
            let all = self.n + empty;
            self.square += self.mean * self.mean * self.n * empty / all;
            self.mean *= self.n / all;
            self.n = all;
        }
        (self.current, self.count) = (interval, 0);
    }

    fn finish(mut self, span: u64) -> Dispersion {
        self.close_before(span / self.width);
        let intervals = self.n as u64;
        let index = (intervals >= MIN_INTERVALS && self.mean > 0.0).then(|| self.square / self.n / self.mean);
        let width_s = self.width as f64 / 1e9;
        Dispersion { width_s, intervals, index, peak_rate: self.most as f64 / width_s }
    }
}

/// Accumulator of arrival statistics. Takes times in nanoseconds from the first request, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct ArrivalStats {
    counters: Vec<Counter>,
    gaps: u64,
    gap_mean: f64,
    gap_square: f64,
    zero_gaps: u64,
    /// Greatest common divisor of the gaps, in ns.
    grid: u64,
    last: u64,
    bins: Vec<Bin>,
    /// Index of the bins' width in [`BIN_WIDTHS_MS`].
    width: usize,
}

impl ArrivalStats {
    pub(super) fn new() -> Self {
        Self { counters: WIDTHS_MS.map(|w| Counter::new(w * MS)).into(), ..Self::default() }
    }

    pub(super) fn push(&mut self, at: u64, first: bool, bin: Bin) {
        self.counters.iter_mut().for_each(|c| c.push(at));
        if !first {
            let gap = at - self.last;
            self.gaps += 1;
            let delta = gap as f64 - self.gap_mean;
            self.gap_mean += delta / self.gaps as f64;
            self.gap_square += delta * (gap as f64 - self.gap_mean);
            if gap == 0 {
                self.zero_gaps += 1;
            } else if self.grid != 1 {
                self.grid = greatest_common_divisor(self.grid, gap);
            }
        }
        self.last = at;
        let mut index = (at / (BIN_WIDTHS_MS[self.width] * MS)) as usize;
        while index >= MAX_BINS && self.width + 1 < BIN_WIDTHS_MS.len() {
            let factor = (BIN_WIDTHS_MS[self.width + 1] / BIN_WIDTHS_MS[self.width]) as usize;
            self.bins =
                self.bins.chunks(factor).map(|c| c.iter().copied().fold(Bin::default(), sum)).collect();
            self.width += 1;
            index = (at / (BIN_WIDTHS_MS[self.width] * MS)) as usize;
        }
        // Beyond two hundred days everything counts for the last bin.
        let index = index.min(MAX_BINS - 1);
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins[index] = sum(self.bins[index], bin);
    }

    /// Adds a follow-up, which has no time of its own, to the bin of the latest request.
    pub(super) fn add_follow_up(&mut self, bin: Bin) {
        if let Some(last) = self.bins.last_mut() {
            *last = sum(*last, bin);
        }
    }

    /// Returns the mean gap in seconds, its coefficient of variation, and the share of zero gaps.
    pub(super) fn gaps(&self) -> Option<(f64, f64, f64)> {
        let n = self.gaps as f64;
        (self.gap_mean > 0.0).then(|| {
            (self.gap_mean / 1e9, (self.gap_square / n).sqrt() / self.gap_mean, self.zero_gaps as f64 / n)
        })
    }

    /// Returns the resolution of the timestamps in seconds, if all are multiples of 10 ms or more and there are enough
    /// rows to tell.
    pub(super) fn grid_s(&self) -> Option<f64> {
        (self.gaps >= 20 && self.grid >= 10 * MS).then_some(self.grid as f64 / 1e9)
    }

    pub(super) fn finish(self) -> (Vec<Dispersion>, OverTime) {
        let width_s = BIN_WIDTHS_MS[self.width] as f64 / 1e3;
        let all = self.counters.into_iter().map(|c| c.finish(self.last)).filter(|d| d.intervals > 0);
        (all.collect(), OverTime { width_s, bins: self.bins })
    }
}

fn sum(a: Bin, b: Bin) -> Bin {
    Bin {
        requests: a.requests + b.requests,
        input_tokens: a.input_tokens + b.input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stats(times: &[u64]) -> ArrivalStats {
        let mut stats = ArrivalStats::new();
        for (i, at) in times.iter().enumerate() {
            stats.push(*at, i == 0, Bin { requests: 1, input_tokens: 2, output_tokens: 3 });
        }
        stats
    }

    #[test]
    fn dispersion_distinguishes_even_and_clumped_arrivals() {
        let even: Vec<u64> = (0..1_000).map(|i| i * 100 * MS).collect();
        let clumped: Vec<u64> = (0..1_000).map(|i| i / 30 * 3_000 * MS).collect();
        let (e, c) = (stats(&even), stats(&clumped));
        assert!(e.gaps().unwrap().1 < 1e-9 && e.grid_s() == Some(0.1));
        let (mean, cv, same) = c.gaps().unwrap();
        assert!((mean - 0.099).abs() < 0.001 && cv > 5.0 && same > 0.96 && c.grid_s() == Some(3.0));
        let dispersions = |s: ArrivalStats| {
            s.finish().0.iter().map(|d| (d.width_s, d.index, d.peak_rate)).collect::<Vec<_>>()
        };
        assert!(dispersions(e)[1].1.unwrap() < 0.1);
        let (width, index, peak) = dispersions(c)[1];
        assert!((width - 1.0).abs() < 1e-9 && index.unwrap() > 15.0 && (peak - 30.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn dispersion_agrees_with_its_definition(mut times in proptest::collection::vec(0..100_000u64, 2..300)) {
            times.sort_unstable();
            let first = times[0];
            let times: Vec<u64> = times.iter().map(|t| (t - first) * MS).collect();
            let span = times[times.len() - 1];
            let (dispersions, over) = stats(&times).finish();
            prop_assert_eq!(over.bins.iter().map(|b| b.requests).sum::<u64>(), times.len() as u64);
            prop_assert!(over.bins.len() <= MAX_BINS);
            for d in dispersions {
                let width = (d.width_s * 1e9) as u64;
                let n = span / width;
                prop_assert_eq!(d.intervals, n);
                let counts: Vec<f64> =
                    (0..n).map(|i| times.iter().filter(|t| **t / width == i).count() as f64).collect();
                let mean = counts.iter().sum::<f64>() / n as f64;
                let var = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n as f64;
                if let Some(index) = d.index {
                    prop_assert!((index - var / mean).abs() < 1e-6, "{} {}", index, var / mean);
                }
            }
        }
    }
}
