//! The plan's `[step]` table.

use crate::units::{Fraction, Span};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Default upper bound on the requests in one window of a listed level; they take about 100 MB of memory.
const MOST_REQUESTS: f64 = 1_000_000.0;

/// Durations and limits of a load step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StepTimes {
    /// Load before measuring begins.
    pub settle: Span,
    /// The measured window.
    pub measure: Span,
    /// Longest window of a listed level. A level measured for longer is split into windows, each a step of its own
    /// whose load drains before the next begins; their counts are judged together. Memory holds the requests of one
    /// window, and a kill loses no more than one. By default the time that a million requests take, where the plan
    /// lists rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// The window is extended until this many requests were due in it.
    pub min_requests: u32,
    /// Upper bound on the extended window.
    pub max_duration: Span,
    /// Longest time for open requests to finish after the load has stopped.
    pub drain: Span,
    /// Longest time from `due` to the last byte of a request. With a value set here, a request that takes longer is an
    /// error; its latency limits count what was known by then. By default twice the longest answer expected from the
    /// limits on TPOT, ITL or e2e (else from 100 ms a token, or more if the server is measured to be slower), and at
    /// least a minute; a request that exceeds the default is cut off and is not an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// True if `timeout` is the default. Written into resolved plans, so that they can be read again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timeout_by_default: bool,
    /// Most requests in flight; reaching it makes the step invalid.
    pub max_in_flight: u32,
    /// Largest share of requests that may fail. Once more are shown to fail, the step stops and no level as high
    /// follows, so that a server that is dying or answers 429 is not loaded further. By default a tenth, or twice the
    /// SLO's `error-rate` if that is more; 1 never stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error_share: Option<Fraction>,
}

impl Default for StepTimes {
    fn default() -> Self {
        Self {
            settle: Span::secs(10),
            measure: Span::secs(60),
            window: None,
            min_requests: 0,
            max_duration: Span::secs(600),
            drain: Span::secs(30),
            timeout: None,
            timeout_by_default: false,
            max_in_flight: 4096,
            max_error_share: None,
        }
    }
}

impl StepTimes {
    /// Returns the first contradiction among the settings, as an error message.
    pub fn problem(&self) -> Option<String> {
        if self.measure.0.is_zero() {
            return Some("[step] measure is zero: it must be positive, or no request is counted".into());
        }
        if let Some(window) = self.window.filter(|w| w.0 < Duration::from_secs(1)) {
            return Some(format!(
                "[step] window ({window}) is below 1s: each window is judged separately and needs requests"
            ));
        }
        if self.max_in_flight == 0 {
            return Some("[step] max-in-flight is zero: it must be at least 1 to send requests".into());
        }
        (self.min_requests > 0 && self.max_duration < self.measure).then(|| {
            format!(
                "[step] max-duration ({}) is below measure ({}): it bounds the extended window",
                self.max_duration, self.measure
            )
        })
    }

    /// Returns the longest time from `due` to the last byte of a request; a minute in a plan that is not resolved yet.
    pub fn longest_request(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(60), |t| t.0)
    }

    /// Returns how long load continues after the measured window of a listed step, so that measured requests finish
    /// under load: half the timeout (by default the longest answer expected within the SLO), or `drain` if that is
    /// longer.
    pub fn tail(&self) -> Duration {
        self.drain.0.max(self.longest_request() / 2)
    }

    /// Returns the length of the measured window at `rate` requests per second: `measure`, extended until
    /// `min_requests` are expected, up to `max_duration`.
    pub fn window(&self, rate: Option<f64>) -> Duration {
        match rate {
            Some(rate) if self.min_requests > 0 => {
                let needed = Duration::from_secs_f64((f64::from(self.min_requests) / rate).min(1e9));
                self.measure.0.max(needed.min(self.max_duration.0))
            }
            _ => self.measure.0,
        }
    }

    /// Returns the number of windows that a listed level at `rate` is split into, and the length of each.
    pub fn windows(&self, rate: Option<f64>) -> (u32, Duration) {
        let whole = self.window(rate);
        let by_requests = rate.map_or(f64::INFINITY, |rate| MOST_REQUESTS / rate);
        let longest = self.window.map_or(by_requests, |w| w.0.as_secs_f64());
        let n = (whole.as_secs_f64() / longest).ceil().clamp(1.0, f64::from(u16::MAX)) as u32;
        // A NaN rate casts to 0.
        let n = n.max(1);
        (n, whole / n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_with_min_requests() {
        let s = StepTimes { min_requests: 600, ..Default::default() };
        for (rate, secs) in [(100.0, 60), (5.0, 120), (0.5, 600)] {
            assert_eq!(s.window(Some(rate)), Duration::from_secs(secs), "{rate} req/s");
        }
        assert_eq!(StepTimes::default().window(Some(0.1)), Duration::from_secs(60));
    }

    #[test]
    fn long_levels_are_split_into_windows() {
        let hours = StepTimes { measure: Span::secs(3 * 3600), ..Default::default() };
        let quarter = StepTimes { window: Some(Span::secs(900)), ..hours };
        for (times, rate, n, secs) in [
            (StepTimes::default(), Some(500.0), 1, 60),
            (StepTimes { measure: Span::secs(1800), ..hours }, Some(100.0), 1, 1800),
            (hours, Some(1.0), 1, 10800),
            (hours, None, 1, 10800),
            (hours, Some(1000.0), 11, 981),
            (quarter, Some(1000.0), 12, 900),
            (quarter, None, 12, 900),
        ] {
            let (windows, each) = times.windows(rate);
            assert_eq!((windows, each.as_secs()), (n, secs), "{rate:?}");
        }
        let short = StepTimes { window: Some(Span(Duration::from_millis(9))), ..Default::default() };
        assert!(short.problem().is_some_and(|p| p.contains("window")));
    }

    #[test]
    fn contradictions_are_named() {
        assert!(StepTimes::default().problem().is_none());
        let s = StepTimes { min_requests: 1, max_duration: Span::secs(5), ..Default::default() };
        assert!(s.problem().is_some_and(|p| p.contains("max-duration")));
    }
}
