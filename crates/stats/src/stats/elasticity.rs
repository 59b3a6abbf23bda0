//! Elasticity of the goodput: the relative change of the boundary rate r\* for a relative change of a workload factor x, d ln
//! r\*/d ln x.
//!
//! r\* is the rate at which the tail of the latency reaches its limit. Write g(r, x) for the logarithm of that tail over its
//! limit, so that g(r\*(x), x) = 0. Differentiating along this curve (the implicit function theorem) gives
//!
//! ```text
//! d ln r*/d ln x = − (∂g/∂ ln x) / (∂g/∂ ln r)        both at r*
//! ```
//!
//! Both slopes are central differences between steps that were sent the same requests at the same unit times (common random
//! numbers): only the rate, or only x, differs. Whatever is common to a pair, above all the bursts that happened to arrive,
//! cancels in the difference. The tail is measured at its own quantile and not by counting misses at the limit: near r\* a step
//! has a handful of misses, and a step without any tells nothing, while its quantile always tells how far it is from the limit.
//!
//! With one pair of slopes (bₜ, aₜ) per turn, e = −ā/b̄, and Fieller's theorem bounds it: e is compatible with the turns if the
//! mean of aₜ + e·bₜ is within Student's t of zero (Fieller, Journal of the Royal Statistical Society B 16, 1954). If the slope
//! of the rate itself cannot be told from zero, the interval is unbounded and none is given.
//!
//! Assumed: the steps are centred on r\* and long enough for the tail to settle. Both hold only roughly, and no number of turns
//! shows it, so the interval is widened by [`MODEL_ERROR`]; `docs/sensitivity.md` reports the coverage that results.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Relative error of an elasticity due to the finite length of steps, the finite differences and an inexact centre r\*: added to
/// the half-width of the interval in quadrature.
pub const MODEL_ERROR: f64 = 0.1;
/// Smallest number of turns with an interval.
pub const MIN_TURNS: usize = 3;
/// Start of the part of the tail that is averaged, as a multiple of the allowed share of misses.
const TAIL_FROM: f64 = 3.0;
/// End of that part, as a multiple of the allowed share of misses.
const TAIL_TO: f64 = 0.3;

/// An elasticity with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Elasticity {
    /// d ln r\*/d ln x: −0.8 means 8 % less goodput for 10 % more of the factor.
    pub value: f64,
    /// 90 % confidence interval; `None` if the turns do not bound it.
    pub interval90: Option<[f64; 2]>,
}

/// Returns the mean logarithm of the latencies around the quantile 1 − `allowed`: those between the quantiles 1 − 3·`allowed` and
/// 1 − 0.3·`allowed`, p97 to p99.7 for a p99.
///
/// An average of order statistics varies less from step to step than the single order statistic at the quantile. `None` if there
/// is no value, or if requests that failed (infinite) reach into that part of the tail.
pub fn tail_log(latencies: &mut [f64], allowed: f64) -> Option<f64> {
    latencies.sort_unstable_by(f64::total_cmp);
    let n = latencies.len();
    let at = |share: f64| ((1.0 - share).max(0.0) * n as f64) as usize;
    let from = at((TAIL_FROM * allowed).min(1.0)).min(n.checked_sub(1)?);
    let to = (((1.0 - TAIL_TO * allowed) * n as f64).ceil() as usize).clamp(from + 1, n);
    let tail = &latencies[from..to];
    let mean = tail.iter().map(|ms| ms.ln()).sum::<f64>() / tail.len() as f64;
    mean.is_finite().then_some(mean)
}

/// Estimates an elasticity from the slopes of each turn: `rate` are ∂g/∂ ln r and `factor` ∂g/∂ ln x, paired by turn.
///
/// `None` without a turn, and if the tail does not grow with the rate: then there is no boundary.
pub fn elasticity(rate: &[f64], factor: &[f64]) -> Option<Elasticity> {
    let turns = rate.len().min(factor.len());
    let (a, b) = (mean(factor)?, mean(rate)?);
    if turns == 0 || b <= 0.0 {
        return None;
    }
    let value = -a / b;
    Some(Elasticity { value, interval90: interval(rate, factor, value) })
}

/// Returns Fieller's 90 % interval of −ā/b̄, widened by [`MODEL_ERROR`].
fn interval(rate: &[f64], factor: &[f64], value: f64) -> Option<[f64; 2]> {
    let turns = rate.len().min(factor.len());
    if turns < MIN_TURNS {
        return None;
    }
    let (a, b) = (mean(factor)?, mean(rate)?);
    let of_mean = |x: &[f64], y: &[f64], (mx, my): (f64, f64)| {
        let products = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my));
        products.sum::<f64>() / (turns * (turns - 1)) as f64
    };
    let (vaa, vbb) = (of_mean(factor, factor, (a, a)), of_mean(rate, rate, (b, b)));
    let vab = of_mean(factor, rate, (a, b));
    let t = StudentsT::new(0.0, 1.0, (turns - 1) as f64).ok()?.inverse_cdf(0.95);
    // (ā + e·b̄)² ≤ t²·(vaa + 2·e·vab + e²·vbb), a quadratic in e.
    let squared = b * b - t * t * vbb;
    let (half, constant) = (a * b - t * t * vab, a * a - t * t * vaa);
    if squared <= 0.0 {
        return None;
    }
    let root = (half * half - squared * constant).max(0.0).sqrt();
    let [low, high] = [(-half - root) / squared, (-half + root) / squared];
    let model = MODEL_ERROR * value.abs();
    let wider = |to: f64| (to - value).hypot(model);
    Some([value - wider(low.min(value)), value + wider(high.max(value))])
}

/// Returns the mean of values; `None` if there are none, or if one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    (!values.is_empty() && sum.is_finite()).then(|| sum / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_engine::truth::{boundary, md1_wait_cdf};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::time::Duration;

    #[test]
    fn the_tail_surrounds_the_quantile() {
        let mut values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let got = tail_log(&mut values, 0.01).unwrap().exp();
        assert!((975.0..992.0).contains(&got), "{got}: around p99 of 1 … 1000");
        assert_eq!(tail_log(&mut [5.0], 0.01), Some(5.0_f64.ln()));
        assert_eq!(tail_log(&mut [], 0.01), None);
        let mut failed = vec![1.0; 990];
        failed.extend([f64::INFINITY; 10]);
        assert_eq!(tail_log(&mut failed, 0.01), None, "1 % failed");
        let mut few = vec![2.0; 999];
        few.push(f64::INFINITY);
        let left = tail_log(&mut few, 0.01).unwrap();
        assert!((left - 2.0_f64.ln()).abs() < 1e-9, "0.1 % failed: {left}");
    }

    #[test]
    fn exact_slopes_give_the_exact_ratio() {
        let e = elasticity(&[2.0; 5], &[1.0; 5]).unwrap();
        assert!((e.value + 0.5).abs() < 1e-12);
        let [low, high] = e.interval90.unwrap();
        assert!(
            (low + 0.55).abs() < 1e-9 && (high + 0.45).abs() < 1e-9,
            "the model's error is left: {low} {high}"
        );
    }

    #[test]
    fn unbounded_elasticities_have_no_interval() {
        let e = elasticity(&[3.0, -1.0, 2.0, -1.0], &[1.0, 0.5, 0.2, 0.4]).unwrap();
        assert_eq!(e.interval90, None, "the rate's slope may be zero");
        assert_eq!(elasticity(&[1.0, 1.0], &[1.0, 1.0]).unwrap().interval90, None, "two turns");
        assert_eq!(elasticity(&[], &[]), None);
        assert_eq!(elasticity(&[-1.0; 4], &[1.0; 4]), None, "more load makes it faster");
        assert_eq!(elasticity(&[1.0; 4], &[f64::NAN; 4]), None);
    }

    /// Returns the times in system of an M/D/1 queue over `seconds`, after a settling time of 10 s.
    fn md1(rate: f64, service: f64, seconds: f64, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut now, mut free, mut all) = (0.0_f64, 0.0_f64, Vec::new());
        loop {
            now -= (1.0 - rng.random::<f64>()).ln() / rate;
            if now > 10.0 + seconds {
                return all;
            }
            free = free.max(now) + service;
            if now > 10.0 {
                all.push(free - now);
            }
        }
    }

    /// M/D/1 with 50 ms of service and a limit of 200 ms on p99: the closed form gives an elasticity in the service time of −2.0.
    #[test]
    fn estimates_match_the_closed_form_of_md1() {
        let limit = 0.2;
        let boundary_at = |service: f64| {
            boundary(1.0 / service, 0.99, |r| {
                let wait = Duration::from_secs_f64(limit - service);
                md1_wait_cdf(r, Duration::from_secs_f64(service), wait)
            })
        };
        let truth = (boundary_at(0.051) / boundary_at(0.049)).ln() / (51.0_f64 / 49.0).ln();
        assert!((truth + 2.0).abs() < 0.05, "{truth}");
        let (rate, by, turns, runs) = (boundary_at(0.05), 1.15_f64, 5, 60);
        let (mut covers, mut squares) = (0, 0.0);
        for run in 0..runs {
            let slopes = |cell: &dyn Fn(f64, u64) -> Vec<f64>| -> Vec<f64> {
                let one = |turn: u64| {
                    let tail = |by: f64| tail_log(&mut cell(by, 1_000 * run + turn), 0.01).unwrap();
                    (tail(by) - tail(1.0 / by)) / (2.0 * by.ln())
                };
                (0..turns).map(one).collect()
            };
            let of_rate = slopes(&|by, seed| md1(rate * by, 0.05, 60.0, seed));
            let of_service = slopes(&|by, seed| md1(rate, 0.05 * by, 60.0, seed));
            let e = elasticity(&of_rate, &of_service).unwrap();
            squares += (e.value - truth).powi(2);
            covers += u32::from(e.interval90.is_none_or(|[l, h]| l <= truth && truth <= h));
        }
        let rmse = (squares / runs as f64).sqrt();
        assert!(covers >= 51 && rmse < 0.35, "covers {covers} of {runs}, RMSE {rmse}");
    }
}
