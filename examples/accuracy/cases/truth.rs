//! The true goodput of a case, and related figures.

/// The true goodput of a case and related figures, from closed forms or by `accuracy truths`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Truth {
    /// The true goodput in requests/s (or sessions/s, or requests in flight); `None` if the unloaded server misses the
    /// SLO.
    pub(crate) rate: Option<f64>,
    /// Relative standard error of `rate`; zero if it is exact.
    pub(crate) error: f64,
    /// d ln p / d ln r at `rate`, where p is the share of misses of the binding limit; infinite at a cliff.
    pub(crate) slope: f64,
    /// Variance of the count of misses at `rate` over the binomial variance, in blocks of 3000 requests.
    pub(crate) inflation: f64,
    /// Throughput of the saturated server in requests/s.
    pub(crate) capacity: f64,
    /// Share of misses with one request at a time: the largest of all limits relative to its allowed share, times the
    /// smallest allowed share.
    pub(crate) unloaded: f64,
    /// Share of misses that the strictest limit allows.
    pub(crate) allowed: f64,
}

/// A line of `accuracy truths`: rate, relative standard error in %, slope, inflation, capacity, unloaded misses in %.
pub(crate) type TruthLine = (&'static str, [f64; 6]);

impl From<[f64; 6]> for Truth {
    fn from([rate, error, slope, inflation, capacity, unloaded]: [f64; 6]) -> Self {
        let rate = (rate > 0.0).then_some(rate);
        Self {
            rate,
            error: error / 100.0,
            slope,
            inflation,
            capacity,
            unloaded: unloaded / 100.0,
            allowed: 0.01,
        }
    }
}

impl Truth {
    /// An unknown truth.
    pub(crate) const UNKNOWN: Self = Self {
        rate: None,
        error: 0.0,
        slope: 0.0,
        inflation: 1.0,
        capacity: 0.0,
        unloaded: 0.0,
        allowed: 0.01,
    };

    /// A cliff at the capacity.
    pub(crate) const fn cliff(rate: f64, allowed: f64) -> Self {
        Self {
            rate: Some(rate),
            error: 0.0,
            slope: f64::INFINITY,
            inflation: 1.0,
            capacity: rate,
            unloaded: 0.0,
            allowed,
        }
    }

    /// Returns true if the truth is known: every server has a capacity.
    pub(crate) fn is_known(&self) -> bool {
        self.capacity > 0.0
    }

    /// Returns the best possible accuracy of counting in `budget_s` at the true rate, if slope and inflation are known:
    /// the standard deviation of the logarithm of the rate.
    pub(crate) fn bound(&self, budget_s: f64) -> Option<f64> {
        self.rate.map(|rate| (self.inflation / (self.allowed * rate * budget_s)).sqrt() / self.slope)
    }
}
