//! How requests are spread over time: rates, and how much counts and gaps vary.

use serde::Serialize;

/// Widths over which counts are compared, in milliseconds.
const WIDTHS_MS: [u64; 5] = [100, 1_000, 10_000, 60_000, 600_000];
/// Counts of fewer intervals than this tell nothing of their variance.
const LEAST: u64 = 20;
/// Bins of the rate over time, at most.
const MOST_BINS: usize = 200;
/// Widths of those bins in milliseconds; each is a multiple of the one before.
const LADDER_MS: [u64; 17] = [
    1, 2, 10, 20, 100, 200, 1_000, 2_000, 10_000, 20_000, 60_000, 120_000, 600_000, 1_200_000, 3_600_000,
    21_600_000, 86_400_000,
];
const MS: u64 = 1_000_000;

/// Counts in intervals of one width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dispersion {
    /// Width of an interval in seconds.
    pub width_s: f64,
    /// How many whole intervals there are.
    pub intervals: u64,
    /// Variance of the counts over their mean: 1 for Poisson arrivals, whatever their rate; `None` where there are too few.
    pub index: Option<f64>,
    /// Requests per second in the busiest of them.
    pub peak_rate: f64,
}

/// Requests and tokens of one bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Requests.
    pub requests: u64,
    /// Tokens of their prompts.
    pub input_tokens: u64,
    /// Tokens of their answers, where they are known.
    pub output_tokens: u64,
}

/// What came when, in bins of one width, from the first request on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverTime {
    /// Width of a bin in seconds.
    pub width_s: f64,
    /// The bins; the last is cut by the end of the trace.
    pub bins: Vec<Bin>,
}

/// Counts of one width while they are taken: mean and variance by Welford's method.
#[derive(Debug, Clone)]
struct Counter {
    width: u64,
    /// Number of the interval that is counted.
    current: u64,
    count: u64,
    n: f64,
    mean: f64,
    square: f64,
    most: u64,
}

impl Counter {
    fn new(width: u64) -> Self {
        Self { width, current: 0, count: 0, n: 0.0, mean: 0.0, square: 0.0, most: 0 }
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
        let index = (intervals >= LEAST && self.mean > 0.0).then(|| self.square / self.n / self.mean);
        let width_s = self.width as f64 / 1e9;
        Dispersion { width_s, intervals, index, peak_rate: self.most as f64 / width_s }
    }
}

/// Takes times in nanoseconds from the first request, in their order.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    counters: Vec<Counter>,
    gaps: u64,
    gap_mean: f64,
    gap_square: f64,
    same: u64,
    grid: u64,
    last: u64,
    bins: Vec<Bin>,
    width: usize,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self {
            counters: WIDTHS_MS.map(|w| Counter::new(w * MS)).into(),
            gaps: 0,
            gap_mean: 0.0,
            gap_square: 0.0,
            same: 0,
            grid: 0,
            last: 0,
            bins: Vec::new(),
            width: 0,
        }
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
                self.same += 1;
            } else if self.grid != 1 {
                self.grid = greatest_divisor(self.grid, gap);
            }
        }
        self.last = at;
        let mut place = (at / (LADDER_MS[self.width] * MS)) as usize;
        while place >= MOST_BINS && self.width + 1 < LADDER_MS.len() {
            let factor = (LADDER_MS[self.width + 1] / LADDER_MS[self.width]) as usize;
            self.bins =
                self.bins.chunks(factor).map(|c| c.iter().copied().fold(Bin::default(), plus)).collect();
            self.width += 1;
            place = (at / (LADDER_MS[self.width] * MS)) as usize;
        }
        // Beyond two hundred days everything falls into the last bin.
        let place = place.min(MOST_BINS - 1);
        if place >= self.bins.len() {
            self.bins.resize(place + 1, Bin::default());
        }
        self.bins[place] = plus(self.bins[place], bin);
    }

    /// Adds what follows the request that came last: it has no time of its own.
    pub(super) fn follow(&mut self, bin: Bin) {
        if let Some(last) = self.bins.last_mut() {
            *last = plus(*last, bin);
        }
    }

    /// Mean gap in seconds, its coefficient of variation, the share of gaps that are zero.
    pub(super) fn gaps(&self) -> Option<(f64, f64, f64)> {
        let n = self.gaps as f64;
        (self.gap_mean > 0.0).then(|| {
            (self.gap_mean / 1e9, (self.gap_square / n).sqrt() / self.gap_mean, self.same as f64 / n)
        })
    }

    /// The step in seconds of which all times are multiples, where it is 10 ms or more and there are enough rows to tell.
    pub(super) fn grid_s(&self) -> Option<f64> {
        (self.gaps >= 20 && self.grid >= 10 * MS).then_some(self.grid as f64 / 1e9)
    }

    pub(super) fn finish(self) -> (Vec<Dispersion>, OverTime) {
        let width_s = LADDER_MS[self.width] as f64 / 1e3;
        let all = self.counters.into_iter().map(|c| c.finish(self.last)).filter(|d| d.intervals > 0);
        (all.collect(), OverTime { width_s, bins: self.bins })
    }
}

fn plus(a: Bin, b: Bin) -> Bin {
    Bin {
        requests: a.requests + b.requests,
        input_tokens: a.input_tokens + b.input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
    }
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spread(times: &[u64]) -> Spread {
        let mut spread = Spread::new();
        for (i, at) in times.iter().enumerate() {
            spread.push(*at, i == 0, Bin { requests: 1, input_tokens: 2, output_tokens: 3 });
        }
        spread
    }

    #[test]
    fn even_and_clumped_arrivals_are_told_apart() {
        let even: Vec<u64> = (0..1_000).map(|i| i * 100 * MS).collect();
        let clumped: Vec<u64> = (0..1_000).map(|i| i / 30 * 3_000 * MS).collect();
        let (e, c) = (spread(&even), spread(&clumped));
        assert!(e.gaps().unwrap().1 < 1e-9 && e.grid_s() == Some(0.1));
        let (mean, cv, same) = c.gaps().unwrap();
        assert!((mean - 0.099).abs() < 0.001 && cv > 5.0 && same > 0.96 && c.grid_s() == Some(3.0));
        let of =
            |s: Spread| s.finish().0.iter().map(|d| (d.width_s, d.index, d.peak_rate)).collect::<Vec<_>>();
        assert!(of(e)[1].1.unwrap() < 0.1);
        let (width, index, peak) = of(c)[1];
        assert!((width - 1.0).abs() < 1e-9 && index.unwrap() > 15.0 && (peak - 30.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_textbook(mut times in proptest::collection::vec(0..100_000u64, 2..300)) {
            times.sort_unstable();
            let first = times[0];
            let times: Vec<u64> = times.iter().map(|t| (t - first) * MS).collect();
            let span = times[times.len() - 1];
            let (dispersions, over) = spread(&times).finish();
            prop_assert_eq!(over.bins.iter().map(|b| b.requests).sum::<u64>(), times.len() as u64);
            prop_assert!(over.bins.len() <= MOST_BINS);
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
