//! Latency distribution of any number of requests in little memory: a histogram with bins that grow by one per cent.

/// Lower end of the smallest bin, in milliseconds.
const LEAST_MS: f64 = 1e-3;
/// Growth factor from one bin to the next.
const GROWTH: f64 = 1.01;
/// Maximum number of bins, which cover about two months.
const MOST: usize = 2_900;

/// A histogram of latencies; a value read from it is within half a per cent of the true one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sketch {
    bins: Vec<u32>,
    n: u64,
}

fn middle(bin: usize) -> f64 {
    LEAST_MS * GROWTH.powf(bin as f64 + 0.5)
}

impl Sketch {
    /// Adds one latency in milliseconds.
    pub fn add(&mut self, ms: f64) {
        let bin = ((ms.max(LEAST_MS) / LEAST_MS).ln() / GROWTH.ln()).floor() as usize;
        let bin = bin.min(MOST);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.n += 1;
    }

    /// Adds the counts of another sketch.
    pub fn merge(&mut self, other: &Self) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (own, more) in self.bins.iter_mut().zip(&other.bins) {
            *own += more;
        }
        self.n += other.n;
    }

    /// Returns the number of latencies.
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// Returns the order statistic ⌈share·of⌉ in milliseconds, for `of` values of which those not counted are larger
    /// than all counted.
    pub fn quantile_of(&self, share: f64, of: u64) -> Option<f64> {
        let rank = ((share * of as f64 - 1e-9).ceil() as u64).max(1);
        let mut seen = 0;
        self.bins.iter().enumerate().find_map(|(bin, n)| {
            seen += u64::from(*n);
            (seen >= rank && *n > 0).then(|| middle(bin))
        })
    }

    /// Returns the order statistic ⌈share·n⌉ in milliseconds; `None` if the sketch is empty.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.quantile_of(share, self.n)
    }

    /// Returns the corners of the cumulative count over latency in milliseconds: rising over non-empty bins as if
    /// their latencies were spread evenly, and constant between them.
    pub fn curve(&self) -> Vec<(f64, u64)> {
        let mut out: Vec<(f64, u64)> = Vec::new();
        let (mut seen, mut end) = (0, None);
        for (bin, n) in self.bins.iter().enumerate().filter(|(_, n)| **n > 0) {
            let edge = |bin: usize| LEAST_MS * GROWTH.powf(bin as f64);
            if end != Some(bin) {
                out.push((edge(bin), seen));
            }
            seen += u64::from(*n);
            out.push((edge(bin + 1), seen));
            end = Some(bin + 1);
        }
        out
    }

    /// Returns the latency in milliseconds and the cumulative count for each non-empty bin.
    pub fn cumulated(&self) -> Vec<(f64, u64)> {
        let mut seen = 0;
        let held = self.bins.iter().enumerate().filter(|(_, n)| **n > 0);
        held.map(|(bin, n)| {
            seen += u64::from(*n);
            (middle(bin), seen)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_within_half_a_per_cent() {
        let mut s = Sketch::default();
        for i in 1..=1000 {
            s.add(f64::from(i) * 0.7);
        }
        for (share, true_value) in [(0.5, 350.0), (0.9, 630.0), (0.99, 693.0), (0.001, 0.7), (1.0, 700.0)] {
            let got = s.quantile(share).unwrap();
            assert!((got / true_value - 1.0).abs() < 0.0051, "{share}: {got}");
        }
        assert_eq!(s.cumulated().last().map(|c| c.1), Some(1000));
        assert_eq!(Sketch::default().quantile(0.5), None);
    }

    #[test]
    fn the_line_rises_where_latencies_are_and_nowhere_else() {
        let mut s = Sketch::default();
        [5.0, 5.0, 5.04, 80.0].iter().for_each(|ms| s.add(*ms));
        let curve = s.curve();
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{curve:?}");
        let (first, last) = (curve[0], curve[curve.len() - 1]);
        assert!(first.1 == 0 && (4.9..=5.0).contains(&first.0) && last.1 == 4, "{curve:?}");
        let flat = curve.windows(2).filter(|w| w[0].1 == w[1].1).collect::<Vec<_>>();
        assert_eq!(flat.len(), 1, "{curve:?}");
        assert!(flat[0][0].0 < 5.2 && flat[0][1].0 > 79.0 && flat[0][0].1 == 3, "{flat:?}");
        assert!(Sketch::default().curve().is_empty());
    }

    #[test]
    fn what_never_came_is_larger_than_all() {
        let mut s = Sketch::default();
        (0..90).for_each(|_| s.add(10.0));
        assert!(s.quantile_of(0.9, 100).is_some(), "ten of a hundred failed");
        assert_eq!(s.quantile_of(0.91, 100), None);
    }

    #[test]
    fn odd_values_have_a_bin() {
        let mut s = Sketch::default();
        for ms in [0.0, -1.0, 1e300, f64::INFINITY] {
            s.add(ms);
        }
        let mut other = Sketch::default();
        other.merge(&s);
        assert_eq!((other.n(), other.cumulated().len()), (4, 2));
    }
}
