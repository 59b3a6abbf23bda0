//! Verdicts from counts: misses of a limit compared with the share that it allows, and an early test for gross misses.

use super::binomial::{at_least, at_most, lower, upper};
use super::step::Verdict;

/// Assumed number of requests that count as one independent request, before the sweep has shown how its misses cluster
/// ([`super::cluster::pooled_inflation`]).
///
/// **Assumed, not measured**: near the boundary misses cluster, and the true values of simulated servers lie between 2 and 51; 16
/// was the prior mean of the study. Without it, the bound for independent requests passes a server that misses its limit in 36–55
/// % of runs instead of 5 %.
pub const INFLATION: f64 = 16.0;

/// Inflation assumed for an unloaded server, which has one request at a time and no queue: only a stall of its own can delay two
/// in a row.
pub const UNLOADED_INFLATION: f64 = 2.0;

/// Inflation used by [`gross`]: half of [`INFLATION`], since it only has to detect overload. With 8 it flagged 0–3 % of steps at
/// the boundary in simulation, and 95 % of those at 1.1 × capacity within 10–20 s (slow engines within 60–120 s).
pub const GROSS_INFLATION: f64 = 8.0;

/// Threshold of [`gross`], an e-value: above it, misses are far more than allowed, with an error of at most one in twenty.
pub const GROSS: f64 = 20.0;

/// Counts of one limit. `n` includes the misses and the censored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Number of requests (gaps, for ITL) judged.
    pub n: u64,
    /// Number of misses among them.
    pub misses: u64,
    /// Number cut off before they could be judged.
    pub censored: u64,
}

impl Counts {
    /// Returns the share that met the limit, without the censored ones; `None` if nothing was judged.
    pub fn attainment(self) -> Option<f64> {
        let judged = self.n.saturating_sub(self.censored);
        (judged > 0).then(|| judged.saturating_sub(self.misses) as f64 / judged as f64)
    }
}

/// A verdict on counts, with confidence bounds of the true attainment (as shares).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Meets, fails or undecided.
    pub verdict: Verdict,
    /// Lower bound of the attainment; `None` if nothing was counted.
    pub low: Option<f64>,
    /// Upper bound of the attainment.
    pub high: Option<f64>,
}

/// Judges counts against the allowed share `p0` of misses: *meets* if the upper bound of the true miss share is at most p0,
/// *fails* if the lower bound is above p0, else *undecided*.
///
/// The bounds are Clopper–Pearson's, one-sided with probability of error `error`, on counts divided by `inflation`. Censored
/// requests count as misses when *meets* is judged and as hits when *fails* is. `p0` = 0 is not a statistical test: any miss
/// fails, and only a step without a miss meets.
pub fn judge(counts: Counts, p0: f64, error: f64, inflation: f64) -> Judgement {
    if counts.n == 0 {
        return Judgement { verdict: Verdict::Undecided, low: None, high: None };
    }
    let inflation = inflation.max(1.0);
    let n = counts.n as f64 / inflation;
    let (sure, possible) = (counts.misses, (counts.misses + counts.censored).min(counts.n));
    let max_share = upper(possible as f64 / inflation, n, error);
    let min_share = lower(sure as f64 / inflation, n, error);
    let verdict = match (p0 > 0.0, sure, possible) {
        (false, 1.., _) => Verdict::Fails,
        (false, _, 0) => Verdict::Meets,
        (false, _, _) => Verdict::Undecided,
        (true, _, _) if max_share <= p0 => Verdict::Meets,
        (true, _, _) if min_share > p0 => Verdict::Fails,
        (true, _, _) => Verdict::Undecided,
    };
    Judgement { verdict, low: Some(1.0 - max_share), high: Some(1.0 - min_share) }
}

/// Returns the verdict that [`judge`] would give for `misses` of `n`. For expected counts, which need not be whole.
pub fn expected_verdict(misses: f64, n: f64, p0: f64, error: f64, inflation: f64) -> Verdict {
    let (k, n) = (misses / inflation, n / inflation);
    match p0 > 0.0 {
        _ if n <= 0.0 => Verdict::Undecided,
        false if misses < 0.5 => Verdict::Meets,
        false => Verdict::Fails,
        // A bound lies on one side of p0 exactly if the tail at p0 is that small, so no bound has to be solved for.
        true if at_most(k, n, p0) <= error => Verdict::Meets,
        true if at_least(k, n, p0) < error => Verdict::Fails,
        true => Verdict::Undecided,
    }
}

/// Returns the evidence that `k` of `n` misses are far more than the share `p0` allows: an e-value, which exceeds [`GROSS`] in at
/// most one of twenty steps while the limit holds, however often one looks (Ville's inequality).
///
/// The mean over alternatives q of (q/p0)^k · ((1−q)/(1−p0))^(n−k), exponents divided by `inflation`; q is 1.4, 2, 4, 12 and 50
/// times p0, kept below 1. Infinite if p0 is 0 and anything missed.
pub fn gross(k: u64, n: u64, p0: f64, inflation: f64) -> f64 {
    if p0 <= 0.0 || p0 >= 1.0 {
        return if p0 <= 0.0 && k > 0 { f64::INFINITY } else { 1.0 };
    }
    let (misses, hits) = (k as f64 / inflation, n.saturating_sub(k) as f64 / inflation);
    // Keeps every alternative in (p0, 1), whatever p0 is.
    let max_q = p0 + 0.75 * (1.0 - p0);
    let ln_e = [1.4, 2.0, 4.0, 12.0, 50.0].map(|m: f64| {
        let q = (m * p0).min(max_q);
        misses * (q / p0).ln() + hits * ((1.0 - q) / (1.0 - p0)).ln()
    });
    // Log-sum-exp: the largest term is factored out, so that the sum cannot overflow.
    let top = ln_e.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (top + (ln_e.iter().map(|l| (l - top).exp()).sum::<f64>() / ln_e.len() as f64).ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(misses: u64, n: u64) -> Counts {
        Counts { n, misses, censored: 0 }
    }

    fn verdict(misses: u64, n: u64, p0: f64, inflation: f64) -> Verdict {
        judge(counts(misses, n), p0, 0.05, inflation).verdict
    }

    #[test]
    fn the_smallest_accepting_n_matches_published_tables() {
        for (p0, table) in [
            (0.01, vec![(0, 299), (1, 473), (2, 628), (5, 1049), (10, 1693), (20, 2902)]),
            (0.05, vec![(0, 59), (1, 93), (2, 124), (5, 208), (10, 336), (20, 577)]),
            (0.10, vec![(0, 29), (1, 46), (2, 61), (5, 103), (10, 167), (20, 286)]),
        ] {
            for (k, n) in table {
                assert_eq!(verdict(k, n, p0, 1.0), Verdict::Meets, "{k} of {n} at {p0}");
                assert_ne!(verdict(k, n - 1, p0, 1.0), Verdict::Meets, "{k} of {} at {p0}", n - 1);
            }
        }
        // ln .05 / ln .99 = 298.07 independent requests, 4769.2 of them in clusters.
        assert_eq!(verdict(0, 4770, 0.01, INFLATION), Verdict::Meets);
        assert_eq!(verdict(0, 4769, 0.01, INFLATION), Verdict::Undecided);
    }

    /// For whole counts, the expected verdict equals the judged one.
    #[test]
    fn the_expected_verdict_of_whole_counts_is_the_judged_one() {
        for (k, n) in [(0, 299), (0, 298), (1, 473), (5, 30), (1, 30), (30, 1000), (9, 1000)] {
            for inflation in [1.0, 4.0] {
                let judged = verdict(k, n, 0.01, inflation);
                assert_eq!(
                    expected_verdict(k as f64, n as f64, 0.01, 0.05, inflation),
                    judged,
                    "{k} of {n} / {inflation}"
                );
            }
        }
        assert_eq!(expected_verdict(0.0, 0.0, 0.01, 0.05, 1.0), Verdict::Undecided);
        assert_eq!(expected_verdict(1.0, 9.0, 0.0, 0.05, 1.0), Verdict::Fails, "none is allowed");
    }

    #[test]
    fn few_requests_suffice_to_reject() {
        for (k, n, p0, inflation, want) in [
            (5, 30, 0.01, 1.0, Verdict::Fails),      // rejects at more than 99.99 %
            (1, 30, 0.01, 1.0, Verdict::Undecided),  // P(≥ 1 of 30) = 26 %
            (5, 30, 0.01, 16.0, Verdict::Undecided), // may be one cluster
            (600, 1200, 0.01, 16.0, Verdict::Fails), // half of them
            (600, 1200, 0.50, 16.0, Verdict::Undecided),
            (1, 1_000_000, 0.0, 16.0, Verdict::Fails), // none is allowed
            (0, 5, 0.0, 16.0, Verdict::Meets),
            (30, 30, 1.0, 1.0, Verdict::Meets), // all may miss
        ] {
            assert_eq!(verdict(k, n, p0, inflation), want, "{k} of {n} at {p0}");
        }
        assert_eq!(verdict(0, 0, 0.01, 1.0), Verdict::Undecided, "nothing measured");
    }

    #[test]
    fn censored_requests_are_judged_both_ways() {
        for (n, misses, censored, want) in [
            (299, 0, 0, Verdict::Meets),
            (299, 0, 1, Verdict::Undecided), // it may have missed
            (30, 5, 10, Verdict::Fails),     // even if all of them met
            (30, 0, 20, Verdict::Undecided), // they may all have met
        ] {
            let got = judge(Counts { n, misses, censored }, 0.01, 0.05, 1.0);
            assert_eq!(got.verdict, want, "{misses} + {censored} of {n}");
            assert!(got.low <= got.high);
        }
        let one = |censored| judge(Counts { n: 9, misses: 0, censored }, 0.0, 0.05, 1.0).verdict;
        assert_eq!((one(0), one(1)), (Verdict::Meets, Verdict::Undecided), "p0 = 0");
        assert_eq!(Counts { n: 10, misses: 1, censored: 2 }.attainment(), Some(0.875));
        assert_eq!(Counts { n: 2, misses: 0, censored: 2 }.attainment(), None);
    }

    #[test]
    fn gross_detects_overload_only() {
        for (k, n, p0, gross_misses) in [
            (0, 10_000, 0.01, false),
            (100, 10_000, 0.01, false), // at the boundary
            (16, 100, 0.01, false),     // two clusters of eight
            (60, 100, 0.01, true),
            (100, 100, 0.01, true),
            (30, 100, 0.5, false),
            (100, 100, 0.5, true),
            (50, 100, 0.999, false), // hardly anything is asked for
            (1, 1_000_000, 0.0, true),
            (1, 1, 1.0, false),
        ] {
            let e = gross(k, n, p0, GROSS_INFLATION);
            assert_eq!(e > GROSS, gross_misses, "{k} of {n} at {p0}: {e}");
        }
        let (k, n): (u64, u64) = (40, 200);
        let plain = [1.4_f64, 2.0, 4.0, 12.0, 50.0]
            .map(|m| m.powf(k as f64 / 8.0) * ((1.0 - 0.01 * m) / 0.99).powf((n - k) as f64 / 8.0));
        let mean = plain.iter().sum::<f64>() / 5.0;
        assert!((gross(k, n, 0.01, 8.0) / mean - 1.0).abs() < 1e-9, "as the simulation wrote it");
        assert!(gross(1_000_000, 1_000_000, 0.001, 1.0) > GROSS, "no overflow into NaN");
    }

    #[test]
    fn a_server_at_the_boundary_passes_no_more_often_than_promised() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        let (mut passed, mut rejected, mut alarmed) = (0, 0, 0);
        for _ in 0..4000 {
            let misses = (0..700).filter(|_| rng.random::<f64>() < 0.01).count() as u64;
            match verdict(misses, 700, 0.01, 1.0) {
                Verdict::Meets => passed += 1,
                Verdict::Fails => rejected += 1,
                _ => {}
            }
            alarmed += u32::from(gross(misses, 700, 0.01, 1.0) > GROSS);
        }
        // 5 % of 4000 is 200; the exact bound stays below it because counts are whole.
        assert!(passed <= 230 && rejected <= 230 && alarmed <= 230, "{passed} {rejected} {alarmed} of 4000");
        assert!(passed >= 40, "the bound is not useless either: {passed}");
    }

    proptest! {
        #[test]
        fn more_misses_never_look_better(n in 1_u64..5000, k in 0_u64..5000, p0 in 0.001..0.6_f64, inflation in 1.0..20.0_f64) {
            let k = k.min(n - 1);
            let (a, b) = (judge(counts(k, n), p0, 0.05, inflation), judge(counts(k + 1, n), p0, 0.05, inflation));
            prop_assert!(b.low <= a.low && b.high <= a.high);
            prop_assert!(!(b.verdict == Verdict::Meets && a.verdict != Verdict::Meets));
            prop_assert!(!(a.verdict == Verdict::Fails && b.verdict != Verdict::Fails));
            prop_assert!(gross(k + 1, n, p0, inflation) >= gross(k, n, p0, inflation));
        }
    }
}
