//! Percentiles of a latency.

use serde::Serialize;

/// Percentiles of one latency over the measured requests of a step, in milliseconds.
///
/// Percentiles are the order statistics ⌈p·n⌉ of the exact values. `p99_low` and `p99_high` are 95 % bounds of the p99 by rank,
/// at the effective sample size n / `inflation`; `p99_high` is `None` if that is too small for a bound (below 368).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LatencyQuantiles")]
pub struct Quantiles {
    /// Number of values.
    pub n: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Lower 95 % bound of the p99.
    pub p99_low: Option<f64>,
    /// Upper 95 % bound of the p99.
    pub p99_high: Option<f64>,
    /// Number of values that count as one independent value in these bounds; `None` in folders of earlier versions, whose bounds
    /// assume independent requests.
    pub inflation: Option<f64>,
}

impl Quantiles {
    /// The percentiles that are kept, as shares of the values.
    pub const SHARES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

    /// Returns the percentile that a share of the values does not exceed; `None` if it is unknown or not among
    /// [`Quantiles::SHARES`].
    pub fn at(&self, share: f64) -> Option<f64> {
        let values = [self.p50, self.p90, self.p95, self.p99];
        let kept = Self::SHARES.into_iter().zip(values).find(|(kept, _)| is_same_share(*kept, share));
        kept.and_then(|(_, value)| value)
    }

    /// Returns true if the percentile of a share of the values is among those kept.
    pub fn keeps(share: f64) -> bool {
        Self::SHARES.into_iter().any(|kept| is_same_share(kept, share))
    }

    /// Returns the effective sample size: how many independent values these count as in the bounds of the p99; `None` if not
    /// estimated.
    pub fn effective(&self) -> Option<f64> {
        self.inflation.map(|inflation| self.n as f64 / inflation)
    }
}

/// Compares shares that were computed from a percentile in different ways.
fn is_same_share(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}
