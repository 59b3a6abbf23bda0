//! Sampling error of the logarithm of a median latency, for log-normal latencies: its asymptotic variance is π/2·σ²/n
//! for n independent values.

/// 90 % quantile of the standard normal distribution.
const Z90: f64 = 1.2816;
/// Assumed number of requests under load that count as one independent request: those in one queue or batch have
/// similar latencies.
const INFLATION: f64 = 16.0;

/// Returns σ, the standard deviation of the logarithm of log-normal values with these percentiles: ln(p90/p50)/1.2816,
/// at least `min`.
pub(super) fn sigma(p50: f64, p90: f64, min: f64) -> f64 {
    ((p90 / p50).ln() / Z90).max(min)
}

/// Returns the variance of the logarithm of the median of `n` requests under load. `asymptotic` is n times that of
/// independent requests, π/2·σ².
pub(super) fn variance_under_load(asymptotic: f64, n: f64) -> f64 {
    asymptotic * INFLATION / n
}
