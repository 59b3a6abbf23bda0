//! Clearance of a limit: how far latencies lie below it under hardly any load, and so whether single requests, or two that meet,
//! can miss it.

use super::prior::Clearance;
use crate::stats::step::{LimitRow, Quantiles, Step};
use goodput_core::slo::Metric;
use statrs::function::erf::erfc_inv;
use std::f64::consts::SQRT_2;

/// Smallest number of requests whose quantiles show a spread.
const MIN_N: u64 = 20;
/// Number of requests from which the p99 is used as well.
const MIN_N_P99: u64 = 200;
/// Standard normal quantiles of 95 % and 99 %.
const Z95: f64 = 1.645;
const Z99: f64 = 2.326;
/// Largest clearance: anything more makes no difference.
const MAX_CLEARANCE: f64 = 8.0;
/// Relative reduction of a clearance estimated from n requests, times √n: an allowance for chance.
const CHANCE_ALLOWANCE: f64 = 1.5;
/// The p95 alone is trusted if the p99 lies below this share of the limit. Closer to it, a few requests may be of another kind
/// than the rest, such as rare long prompts, which a log-normal distribution through the median and the p95 does not describe.
const WELL_BELOW: f64 = 0.5;

/// Returns the clearance of a limit from the step that shows most of it: load makes latencies longer, so the largest clearance is
/// closest to that of an idle server. The clearance of `joint` is the smallest of all limits.
///
/// Clearances are those of a p99. If the limit allows another share of misses, `p0`, they are shifted by the difference of the
/// normal quantiles, so that the same clearance is left to the point at which the limit is missed too often.
pub(super) fn clearance(steps: &[&Step], tier: &str, limit: &str, p0: f64) -> Clearance {
    let shift = Z99 - SQRT_2 * erfc_inv(2.0 * p0);
    let own = |r: &&LimitRow| r.tier == tier && (r.is(limit) || limit == "joint");
    let of_step = |step: &&&Step| {
        let of_row =
            |r: &LimitRow| of(&step.quantiles_of(&r.class, Metric::of_limit(&r.limit)?), r.limit_ms?);
        let all = step.limits.iter().filter(own).filter_map(of_row);
        all.reduce(|a, b| Clearance { alone: a.alone.min(b.alone), pair: a.pair.min(b.pair) })
    };
    let whole = steps.iter().filter(|s| s.abort.is_none());
    whole.filter_map(|s| of_step(&s)).fold(Clearance::UNKNOWN, |a, b| Clearance {
        alone: a.alone.max(b.alone + shift),
        pair: a.pair.max(b.pair + shift),
    })
}

/// Computes the clearance from the quantiles of a step: the number of standard deviations of ln latency between its median and
/// the limit, assuming a log-normal distribution with these quantiles; for two requests together, between its median and half of
/// the limit.
fn of(q: &Quantiles, limit_ms: f64) -> Option<Clearance> {
    let (p50, p95, p99) = (q.p50?, q.p95?, q.p99?);
    if q.n < MIN_N || p50 <= 0.0 {
        return None;
    }
    let distance = |limit: f64| {
        let far = (limit / p50).ln();
        let by = |z: f64, p: f64| match () {
            () if far <= 0.0 => 0.0,
            () if p > p50 => z * far / (p / p50).ln(),
            () => MAX_CLEARANCE,
        };
        let tail_counts = q.n >= MIN_N_P99 || p99 > WELL_BELOW * limit;
        let z = if tail_counts { by(Z95, p95).min(by(Z99, p99)) } else { by(Z95, p95) };
        (z * (1.0 - CHANCE_ALLOWANCE / (q.n as f64).sqrt())).min(MAX_CLEARANCE)
    };
    Some(Clearance { alone: distance(limit_ms), pair: distance(0.5 * limit_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A p99 and a p90 need 2.326 and 1.282 deviations; the shift is the difference.
    #[test]
    fn other_percentiles_shift_the_clearance() {
        let shift = |p0: f64| Z99 - SQRT_2 * erfc_inv(2.0 * p0);
        assert!(shift(0.01).abs() < 1e-3, "{}", shift(0.01));
        assert!((shift(0.1) - 1.0448).abs() < 1e-3 && (shift(0.5) - Z99).abs() < 1e-9);
    }

    #[test]
    fn clearances_of_known_distributions() {
        let q = |n, p50, p95, p99| Quantiles {
            n,
            p50: Some(p50),
            p95: Some(p95),
            p99: Some(p99),
            ..Quantiles::default()
        };
        // ln latency normal with deviation .7: a limit of e^(3·.7) medians is three deviations away, half of it ln 2/.7 less.
        let normal = q(1_000_000, 100.0, 100.0 * (0.7 * Z95).exp(), 100.0 * (0.7 * Z99).exp());
        for (what, quantiles, limit, alone, pair) in [
            ("log-normal", normal, 100.0 * 2.1_f64.exp(), 3.0, 3.0 - 2_f64.ln() / 0.7),
            ("all the same, far below", q(1_000_000, 50.0, 50.0, 50.0), 200.0, 8.0, 8.0),
            ("all the same, two are just as long", q(1_000_000, 50.0, 50.0, 50.0), 100.0, 8.0, 0.0),
            ("the median is above", q(1_000_000, 50.0, 60.0, 70.0), 40.0, 0.0, 0.0),
            // Few requests: 1.5/√25 of the clearance is an allowance for chance.
            (
                "few",
                q(25, 100.0, 100.0 * (0.5 * Z95).exp(), 100.0 * (0.5 * Z99).exp()),
                100.0 * 1.5_f64.exp(),
                2.1,
                1.13,
            ),
            // The longest is near the limit: the p95 is not trusted, and the p99 gives 2.33·ln 10/ln 9.
            ("few, one of them long", q(25, 100.0, 110.0, 900.0), 1000.0, 1.71, 1.2),
        ] {
            let got = of(&quantiles, limit).unwrap();
            assert!((got.alone - alone).abs() < 0.02, "{what}: {got:?}");
            assert!((got.pair - pair).abs() < 0.02, "{what}: {got:?}");
        }
        assert_eq!(of(&q(5, 50.0, 50.0, 50.0), 200.0), None, "too few");
    }
}
