//! A Prometheus histogram: sum, count, and cumulative counts by upper bound.

use super::reading::MAX_VALUE;

/// Largest number of buckets kept; servers have some dozens.
const MAX_BUCKETS: usize = 1_000;

/// Latencies in seconds, possibly of several engines together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// Sum of all values.
    pub sum: f64,
    /// Number of values.
    pub count: f64,
    /// Upper bound and number of values at or below it, with rising bounds, the last infinite. Empty if the page has no buckets,
    /// or if histograms with different bounds were added up.
    pub buckets: Vec<(f64, f64)>,
}

impl Histogram {
    /// Adds one line of a page: `sum`, `count`, or `bucket` with its bound. Ignores new bounds beyond the first thousand.
    pub(super) fn add(&mut self, part: &str, bound: Option<&str>, value: f64) {
        if !value.is_finite() {
            return;
        }
        match (part, bound.and_then(|b| b.parse::<f64>().ok())) {
            ("sum", _) => self.sum += value,
            ("count", _) => self.count += value,
            ("bucket", Some(bound)) if bound.abs() <= MAX_VALUE || bound == f64::INFINITY => {
                match self.buckets.binary_search_by(|b| b.0.total_cmp(&bound)) {
                    Ok(at) => self.buckets[at].1 += value,
                    Err(at) if self.buckets.len() < MAX_BUCKETS => self.buckets.insert(at, (bound, value)),
                    Err(_) => {}
                }
            }
            _ => {}
        }
    }

    /// Returns the histogram if it is valid; `None` without count and sum. Drops buckets that are inconsistent.
    pub(super) fn validated(mut self) -> Option<Self> {
        let rising = self.buckets.is_sorted_by(|a, b| a.1 <= b.1);
        let open = self.buckets.last().filter(|b| b.0 == f64::INFINITY).map(|b| b.1);
        if self.count <= 0.0
            && let Some(all) = open
        {
            self.count = all;
        }
        if !rising || open.is_none() {
            self.buckets.clear();
        }
        (self.sum <= MAX_VALUE
            && self.count <= MAX_VALUE
            && (self.count > 0.0 || open.is_some() || self.sum == 0.0))
            .then_some(self)
    }

    /// Adds another histogram. If their bounds differ, only sum and count are kept.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            count: self.count + other.count,
            buckets: self.combined(other, |a, b| a + b),
        }
    }

    /// Returns the values since an earlier histogram; `None` if a count went back.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let buckets = self.combined(earlier, |now, then| now - then);
        let back = self.count < earlier.count || buckets.iter().any(|b| b.1 < 0.0);
        (!back).then(|| Self {
            sum: (self.sum - earlier.sum).max(0.0),
            count: self.count - earlier.count,
            buckets,
        })
    }

    fn combined(&self, other: &Self, each: impl Fn(f64, f64) -> f64) -> Vec<(f64, f64)> {
        let same = self.buckets.len() == other.buckets.len()
            && self.buckets.iter().zip(&other.buckets).all(|(a, b)| a.0.to_bits() == b.0.to_bits());
        if !same {
            return Vec::new();
        }
        self.buckets.iter().zip(&other.buckets).map(|(a, b)| (a.0, each(a.1, b.1))).collect()
    }

    /// Returns the mean in seconds, exact; `None` without values, or if it is implausible.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count).filter(|mean| *mean <= MAX_VALUE)
    }

    /// Returns a quantile in seconds, interpolated linearly within its bucket, so as coarse as the buckets.
    ///
    /// `None` without buckets or values, and if the quantile lies within the first bucket or the one without an upper end: the
    /// first may hold anything from zero on (vLLM's queue times begin with a bucket of 0.3 s), the last anything above.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = q * self.buckets.last().map(|b| b.1).filter(|n| *n > 0.0)?;
        let at = self.buckets.iter().position(|b| b.1 >= rank)?;
        let (bound, below) = self.buckets[at];
        let Some(last) = at.checked_sub(1) else { return (rank >= below).then_some(bound) };
        let (from, before) = self.buckets[last];
        let share = if below > before { (rank - before) / (below - before) } else { 1.0 };
        bound.is_finite().then_some(from + (bound - from) * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sum: f64, count: f64, buckets: &[(f64, f64)]) -> Histogram {
        Histogram { sum, count, buckets: buckets.to_vec() }
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn quantiles_are_as_coarse_as_the_buckets() {
        let h = of(12.0, 10.0, &[(0.5, 4.0), (1.0, 8.0), (2.0, 9.0), (INF, 10.0)]);
        for (q, want, why) in [
            (0.2, None, "somewhere in the first bucket"),
            (0.4, Some(0.5), "at a bound"),
            (0.6, Some(0.75), "within"),
            (0.9, Some(2.0), "at the last bound"),
            (0.99, None, "beyond it nothing is known"),
        ] {
            let got = h.quantile(q);
            assert!(got.zip(want).map_or(got == want, |(g, w)| (g - w).abs() < 1e-12), "{why}: {got:?}");
        }
        assert_eq!((h.mean(), of(0.0, 0.0, &[]).mean()), (Some(1.2), None));
        assert_eq!(of(3.0, 4.0, &[]).quantile(0.5), None, "no buckets");
        assert_eq!(of(0.0, 0.0, &[(1.0, 0.0), (INF, 0.0)]).quantile(0.5), None, "no values");
    }

    #[test]
    fn differences_are_histograms() {
        let then = of(1.0, 2.0, &[(1.0, 2.0), (INF, 2.0)]);
        let now = of(4.0, 5.0, &[(1.0, 4.0), (INF, 5.0)]);
        assert_eq!(now.since(&then), Some(of(3.0, 3.0, &[(1.0, 2.0), (INF, 3.0)])));
        assert_eq!(then.since(&now), None, "it went back");
        let other = of(1.0, 1.0, &[(2.0, 1.0), (INF, 1.0)]);
        assert_eq!(now.and(&other), of(5.0, 6.0, &[]), "other bounds");
        assert_eq!(now.and(&then).buckets, [(1.0, 6.0), (INF, 7.0)]);
    }

    /// A page of 100,000 falling bounds: a linear search for each would take minutes.
    #[test]
    fn the_number_of_buckets_is_bounded() {
        let mut h = Histogram::default();
        h.add("bucket", Some("+Inf"), 1e6);
        for i in (0..100_000_u32).rev() {
            h.add("bucket", Some(&i.to_string()), f64::from(i));
            h.add("bucket", Some("99999"), 0.0);
        }
        let h = h.validated().unwrap();
        assert_eq!((h.buckets.len(), h.buckets[0].0, h.count), (MAX_BUCKETS, 99_001.0, 1e6));
        assert_eq!(of(f64::INFINITY, 1.0, &[]).validated(), None, "added up to more than can be");
    }

    #[test]
    fn inconsistent_parts_are_ignored() {
        let mut h = Histogram::default();
        for (part, bound, value) in [
            ("sum", None, 2.0),
            ("count", None, 3.0),
            ("sum", None, f64::NAN),
            ("bucket", Some("+Inf"), 3.0),
            ("bucket", Some("1.0"), 9.0),
            ("bucket", Some("x"), 1.0),
            ("bucket", None, 1.0),
        ] {
            h.add(part, bound, value);
        }
        let h = h.validated().unwrap();
        assert_eq!((h.sum, h.count, h.buckets.len()), (2.0, 3.0, 0), "more below 1 than in all");
        assert_eq!(
            of(0.0, 0.0, &[(1.0, 1.0), (INF, 4.0)]).validated().map(|h| h.count),
            Some(4.0),
            "no count"
        );
    }
}
