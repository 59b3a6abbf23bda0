//! Means, deviations and percentiles as other tools compute them.

use super::requests::Gaps;

/// A value and its weight.
pub(super) type Weighted = (f64, f64);

/// Values with the percentile definition of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    /// Percentiles by linear interpolation between order statistics, the default of numpy.
    Linear(Vec<f64>),
    /// Gaps in buckets, with percentiles by linear interpolation.
    Pooled(Gaps),
    /// Percentiles as the least value whose cumulative weight reaches the share, as in GuideLLM.
    Step(Vec<Weighted>),
}

impl Values {
    /// Makes values of equal weight, in any order.
    pub(super) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_unstable_by(f64::total_cmp);
        Self::Linear(values)
    }

    /// Makes weighted values; merges equal ones.
    pub(super) fn step(values: impl Iterator<Item = Weighted>) -> Self {
        let mut values: Vec<Weighted> = values.filter(|(_, w)| *w > 0.0).collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        values.dedup_by(|next, kept| {
            let same = next.0.total_cmp(&kept.0).is_eq();
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        Self::Step(values)
    }

    fn each(&self) -> Vec<Weighted> {
        match self {
            Self::Linear(values) => values.iter().map(|v| (*v, 1.0)).collect(),
            Self::Pooled(gaps) => gaps.0.iter().map(|(v, n)| (*v, *n as f64)).collect(),
            Self::Step(values) => values.clone(),
        }
    }

    /// Returns the weighted mean; `None` without values.
    pub(super) fn mean(&self) -> Option<f64> {
        let each = self.each();
        let weight: f64 = each.iter().map(|(_, w)| w).sum();
        (weight > 0.0).then(|| each.iter().map(|(v, w)| v * w).sum::<f64>() / weight)
    }

    /// Returns the population standard deviation, without a sample correction.
    pub(super) fn deviation(&self) -> Option<f64> {
        let (mean, each) = (self.mean()?, self.each());
        let weight: f64 = each.iter().map(|(_, w)| w).sum();
        Some((each.iter().map(|(v, w)| w * (v - mean).powi(2)).sum::<f64>() / weight).sqrt())
    }

    /// Returns the value at a share between 0 and 1; `None` without values.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        match self {
            Self::Linear(values) => between(values.len() as u64, share, |i| values.get(i as usize).copied()),
            Self::Pooled(gaps) => {
                let n = gaps.0.iter().map(|(_, n)| n).sum();
                between(n, share, |i| at(gaps, i))
            }
            Self::Step(values) => {
                let weight: f64 = values.iter().map(|(_, w)| w).sum();
                let mut sum = 0.0;
                let reached = values.iter().find(|(_, w)| {
                    sum += w / weight;
                    sum >= share
                });
                reached.or(values.last()).map(|(v, _)| *v)
            }
        }
    }
}

/// Returns the gap with this index in ascending order.
fn at(gaps: &Gaps, mut index: u64) -> Option<f64> {
    gaps.0.iter().find_map(|(value, n)| {
        let here = index < *n;
        index = index.saturating_sub(*n);
        here.then_some(*value)
    })
}

/// Interpolates linearly between the two order statistics around (n − 1) · share.
fn between(n: u64, share: f64, value: impl Fn(u64) -> Option<f64>) -> Option<f64> {
    let last = n.checked_sub(1)?;
    let place = share * last as f64;
    let (low, high) = (place.floor() as u64, (place.ceil() as u64).min(last));
    let (a, b) = (value(low)?, value(high)?);
    Some(a + (b - a) * (place - place.floor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_their_estimators() {
        let linear = Values::linear([4.0, 1.0, 2.0, 3.0].into_iter());
        // numpy.percentile([1, 2, 3, 4], [0, 50, 90, 100])
        let got = [0.0, 0.5, 0.9, 1.0].map(|p| linear.percentile(p).unwrap());
        for (got, want) in got.into_iter().zip([1.0, 2.5, 3.7, 4.0]) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
        assert!((linear.deviation().unwrap() - 1.25_f64.sqrt()).abs() < 1e-12, "numpy.std, ddof = 0");
        let pooled = Values::Pooled(Gaps(vec![(1.0, 1), (2.0, 2), (5.0, 1)]));
        assert_eq!([0.5, 1.0].map(|p| pooled.percentile(p).unwrap() as u32), [2, 5]);
        assert_eq!(pooled.mean(), Some(2.5));
        let step = Values::step([(3.0, 1.0), (1.0, 1.0), (3.0, 1.0), (9.0, 0.0)].into_iter());
        assert_eq!([0.3, 0.34, 0.99].map(|p| step.percentile(p).unwrap() as u32), [1, 3, 3]);
    }

    #[test]
    fn nothing_has_no_statistics() {
        for of in
            [Values::linear([].into_iter()), Values::Pooled(Gaps::default()), Values::step([].into_iter())]
        {
            assert_eq!((of.mean(), of.deviation(), of.percentile(0.99)), (None, None, None));
        }
    }
}
