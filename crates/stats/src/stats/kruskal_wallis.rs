//! The rank test of Kruskal and Wallis: do several groups of values come from one distribution?

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Returns the probability that the mean ranks of the groups differ by chance as much as they do, if all values are independent
/// and of one distribution; `None` unless at least two groups have values that are not all equal.
///
/// H = 12 / (N (N + 1)) · Σ n (r̄ − (N + 1) / 2)², with tied values at their mean rank and H divided by 1 − Σ (t³ − t) / (N³ − N)
/// over the sizes t of the ties. Its distribution is approximated by chi-squared with one degree of freedom less than there are
/// groups, which is good from about five values in each (Kruskal & Wallis, J. Am. Stat. Assoc. 47, 1952). Sorts the values.
pub(super) fn p_value(values: &mut [(f64, usize)], groups: usize) -> Option<f64> {
    let (h, occupied) = statistic(values, groups)?;
    Some(ChiSquared::new(occupied as f64 - 1.0).ok()?.sf(h))
}

/// Returns H, corrected for ties, and the number of groups that have values. `values` are pairs of a value and its group.
fn statistic(values: &mut [(f64, usize)], groups: usize) -> Option<(f64, usize)> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let n = values.len() as f64;
    let mut sums = vec![(0.0, 0.0); groups];
    let (mut tied, mut before) = (0.0, 0.0);
    for same in values.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let count = same.len() as f64;
        let rank = before + (count + 1.0) / 2.0;
        for (_, group) in same {
            sums[*group].0 += 1.0;
            sums[*group].1 += rank;
        }
        tied += count.powi(3) - count;
        before += count;
    }
    let occupied = || sums.iter().filter(|(count, _)| *count > 0.0);
    let untied = 1.0 - tied / (n.powi(3) - n);
    if occupied().count() < 2 || untied <= 0.0 {
        return None;
    }
    let middle = (n + 1.0) / 2.0;
    let between: f64 = occupied().map(|(count, sum)| count * (sum / count - middle).powi(2)).sum();
    Some((12.0 / (n * (n + 1.0)) * between / untied, occupied().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pooled(groups: &[&[f64]]) -> Vec<(f64, usize)> {
        groups.iter().enumerate().flat_map(|(i, own)| own.iter().map(move |v| (*v, i))).collect()
    }

    /// Rows: groups, H and p. The first two are the examples of `scipy.stats.kruskal`; without ties and for two groups, H is the
    /// square of the normal score of the rank sum, (W − E W)² / Var W.
    #[test]
    fn known_values() {
        let (one, two) = ([1.0, 3.0, 5.0, 7.0, 9.0], [2.0, 4.0, 6.0, 8.0, 10.0]);
        let apart = [11.0, 12.0, 13.0, 14.0, 15.0];
        // Ranks 1 to 5 and 6 to 10: W = 15, E W = 27.5, Var W = 5 · 5 · 11 / 12.
        let square = (15.0_f64 - 27.5).powi(2) / (25.0 * 11.0 / 12.0);
        for (what, groups, h, p) in [
            ("interleaved", vec![&one[..], &two], 0.272_727_272_727_273, Some(0.601_508_134_440_589)),
            ("ties", vec![&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0], &[2.0, 2.0]], 7.0, Some(0.030_197_383_422_318)),
            ("two groups apart", vec![&one, &apart], square, None),
            ("an empty group counts for nothing", vec![&one, &[], &apart], square, None),
        ] {
            let mut values = pooled(&groups);
            let (got, _) = statistic(&mut values, groups.len()).unwrap();
            assert!((got - h).abs() < 1e-12, "{what}: {got}");
            if let Some(p) = p {
                let got = p_value(&mut values, groups.len()).unwrap();
                assert!((got - p).abs() < 1e-9, "{what}: {got}");
            }
        }
    }

    /// With two degrees of freedom chi-squared has the closed form exp(−H / 2).
    #[test]
    fn three_groups_follow_the_exponential() {
        let groups: [&[f64]; 3] = [&[1.0, 4.0, 6.0, 2.0], &[3.0, 8.0, 11.0, 5.0], &[9.0, 12.0, 7.0, 10.0]];
        let mut values = pooled(&groups);
        let (h, _) = statistic(&mut values, 3).unwrap();
        assert!((p_value(&mut values, 3).unwrap() - (-h / 2.0).exp()).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_compared_without_two_groups_or_with_one_value_only() {
        for groups in
            [vec![], vec![&[1.0, 2.0][..]], vec![&[1.0, 2.0][..], &[]], vec![&[3.0, 3.0][..], &[3.0]]]
        {
            assert_eq!(p_value(&mut pooled(&groups), groups.len()), None, "{groups:?}");
        }
    }

    /// If all groups are alike, p is below any bound about as often as the bound says.
    #[test]
    fn groups_of_one_distribution_are_rarely_told_apart() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
        let mut below = [0, 0];
        for _ in 0..2000 {
            // Whole numbers up to ten, so that many values are tied.
            let mut values: Vec<(f64, usize)> =
                (0..120).map(|i| ((rng.random::<f64>() * 10.0).round(), i % 4)).collect();
            let p = p_value(&mut values, 4).unwrap();
            below = [below[0] + u32::from(p < 0.05), below[1] + u32::from(p < 0.001)];
        }
        assert!((60..=140).contains(&below[0]) && below[1] <= 8, "{below:?} of 2000");
    }
}
