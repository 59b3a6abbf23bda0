//! What is known of a case.

/// What is known of a case, from closed forms or by `accuracy truths`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Truth {
    /// The true goodput in requests/s (sessions/s, requests in flight); none where the unloaded server misses the SLO.
    pub(crate) rate: Option<f64>,
    /// Its standard error, relative; zero where it is exact.
    pub(crate) error: f64,
    /// d ln p / d ln r there, p being the share of misses of the limit that binds; infinite at a cliff.
    pub(crate) slope: f64,
    /// Variance of the count of misses there over the binomial one, in blocks of 3000 requests.
    pub(crate) inflation: f64,
    /// Requests/s of the saturated server.
    pub(crate) capacity: f64,
    /// Share of misses one request at a time: the largest of the limits, relative to what each allows, times the smallest share allowed.
    pub(crate) unloaded: f64,
    /// Share of misses that the strictest limit allows.
    pub(crate) allowed: f64,
}

/// A line of `accuracy truths`: rate, relative standard error in %, slope, inflation, capacity, unloaded misses in %.
pub(crate) type Found = (&'static str, [f64; 6]);

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
    /// Nothing is known yet.
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

    /// Returns true if it has been found: every server has a capacity.
    pub(crate) fn is_known(&self) -> bool {
        self.capacity > 0.0
    }

    /// The best that counting can do in `budget_s` at the true rate, its slope and inflation known: the standard deviation of
    /// the logarithm of the rate.
    pub(crate) fn bound(&self, budget_s: f64) -> Option<f64> {
        self.rate.map(|rate| (self.inflation / (self.allowed * rate * budget_s)).sqrt() / self.slope)
    }
}
