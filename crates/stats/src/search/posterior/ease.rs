//! How far latencies lie below a limit where there is hardly any load: whether single requests, or two that meet, can miss it.

use super::prior::Ease;
use crate::stats::step::{LimitRow, Quantiles, Step};
use goodput_core::slo::Metric;
use statrs::function::erf::erfc_inv;
use std::f64::consts::SQRT_2;

/// Fewer requests say nothing of a spread.
const FEW: u64 = 20;
/// From here on the p99 counts as well.
const MANY: u64 = 200;
/// Standard normal quantiles of 95 % and 99 %.
const Z95: f64 = 1.645;
const Z99: f64 = 2.326;
/// Farther than this makes no difference.
const FAR: f64 = 8.0;
/// What chance takes from a distance that rests on n requests: this over √n of it.
const CHANCE: f64 = 1.5;
/// The p95 alone is trusted where the p99 lies below this share of the limit. Nearer to it a few requests are of another kind than the rest,
/// such as rare long prompts, and a log-normal distribution through the median and the p95 tells nothing of them.
const WELL_BELOW: f64 = 0.5;

/// The distance of a limit by the step that shows most of it: load makes latencies longer, so the largest is the nearest to that of an
/// idle server. For all limits together it is that of the nearest one.
///
/// Distances are those of a p99: where the limit allows another share of misses, `p0`, they are shifted by the difference of the normal
/// quantiles, so that the same distance is left to where the limit would be missed too often.
pub(super) fn ease(steps: &[&Step], tier: &str, limit: &str, p0: f64) -> Ease {
    let shift = Z99 - SQRT_2 * erfc_inv(2.0 * p0);
    let own = |r: &&LimitRow| r.tier == tier && (r.is(limit) || limit == "joint");
    let of_step = |step: &&&Step| {
        let of_row =
            |r: &LimitRow| of(&step.quantiles_of(&r.class, Metric::of_limit(&r.limit)?), r.limit_ms?);
        let all = step.limits.iter().filter(own).filter_map(of_row);
        all.reduce(|a, b| Ease { alone: a.alone.min(b.alone), pair: a.pair.min(b.pair) })
    };
    let whole = steps.iter().filter(|s| s.abort.is_none());
    whole.filter_map(|s| of_step(&s)).fold(Ease::UNKNOWN, |a, b| Ease {
        alone: a.alone.max(b.alone + shift),
        pair: a.pair.max(b.pair + shift),
    })
}

/// From the quantiles of a step: standard deviations of ln latency between its median and the limit, the deviation being that of a
/// log-normal distribution with these quantiles; for two requests together with half of the limit.
fn of(q: &Quantiles, limit_ms: f64) -> Option<Ease> {
    let (p50, p95, p99) = (q.p50?, q.p95?, q.p99?);
    if q.n < FEW || p50 <= 0.0 {
        return None;
    }
    let distance = |limit: f64| {
        let far = (limit / p50).ln();
        let by = |z: f64, p: f64| match () {
            () if far <= 0.0 => 0.0,
            () if p > p50 => z * far / (p / p50).ln(),
            () => FAR,
        };
        let tail_counts = q.n >= MANY || p99 > WELL_BELOW * limit;
        let z = if tail_counts { by(Z95, p95).min(by(Z99, p99)) } else { by(Z95, p95) };
        (z * (1.0 - CHANCE / (q.n as f64).sqrt())).min(FAR)
    };
    Some(Ease { alone: distance(limit_ms), pair: distance(0.5 * limit_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a p99 and a p90 need is 2.326 and 1.282 deviations; the rest is what is left.
    #[test]
    fn other_percentiles_are_told_by_what_is_left() {
        let shift = |p0: f64| Z99 - SQRT_2 * erfc_inv(2.0 * p0);
        assert!(shift(0.01).abs() < 1e-3, "{}", shift(0.01));
        assert!((shift(0.1) - 1.0448).abs() < 1e-3 && (shift(0.5) - Z99).abs() < 1e-9);
    }

    #[test]
    fn the_distance_of_known_distributions() {
        let q = |n, p50, p95, p99| Quantiles {
            n,
            p50: Some(p50),
            p95: Some(p95),
            p99: Some(p99),
            ..Quantiles::default()
        };
        // ln latency normal with deviation .7: the limit at e^(3·.7) medians is three deviations away, half of it ln 2/.7 less.
        let normal = q(1_000_000, 100.0, 100.0 * (0.7 * Z95).exp(), 100.0 * (0.7 * Z99).exp());
        for (what, quantiles, limit, alone, pair) in [
            ("log-normal", normal, 100.0 * 2.1_f64.exp(), 3.0, 3.0 - 2_f64.ln() / 0.7),
            ("all the same, far below", q(1_000_000, 50.0, 50.0, 50.0), 200.0, 8.0, 8.0),
            ("all the same, two are just as long", q(1_000_000, 50.0, 50.0, 50.0), 100.0, 8.0, 0.0),
            ("the median is above", q(1_000_000, 50.0, 60.0, 70.0), 40.0, 0.0, 0.0),
            // Few requests: 1.5/√25 of the distance goes to chance.
            (
                "few",
                q(25, 100.0, 100.0 * (0.5 * Z95).exp(), 100.0 * (0.5 * Z99).exp()),
                100.0 * 1.5_f64.exp(),
                2.1,
                1.13,
            ),
            // Their longest is near the limit: the p95 is not trusted, and the p99 says 2.33·ln 10/ln 9.
            ("few, one of them long", q(25, 100.0, 110.0, 900.0), 1000.0, 1.71, 1.2),
        ] {
            let got = of(&quantiles, limit).unwrap();
            assert!((got.alone - alone).abs() < 0.02, "{what}: {got:?}");
            assert!((got.pair - pair).abs() < 0.02, "{what}: {got:?}");
        }
        assert_eq!(of(&q(5, 50.0, 50.0, 50.0), 200.0), None, "too few");
    }
}
