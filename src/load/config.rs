//! The plan's `[step]` table.

use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a step takes and what it may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StepTimes {
    /// Load before anything counts.
    pub settle: Span,
    /// The measured window.
    pub measure: Span,
    /// The window is extended until this many requests were due in it.
    pub min_requests: u32,
    /// Longest that the window may become.
    pub max_duration: Span,
    /// Longest time for open requests to finish after the load has stopped.
    pub drain: Span,
    /// Longest time from `due` to the last byte of a request; by default derived from the SLO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Most requests in flight; reaching it makes the step invalid.
    pub max_in_flight: u32,
}

impl Default for StepTimes {
    fn default() -> Self {
        Self {
            settle: Span::secs(10),
            measure: Span::secs(60),
            min_requests: 0,
            max_duration: Span::secs(600),
            drain: Span::secs(30),
            timeout: None,
            max_in_flight: 4096,
        }
    }
}

impl StepTimes {
    /// What contradicts itself, if anything.
    pub fn problem(&self) -> Option<String> {
        if self.measure.0.is_zero() {
            return Some("[step] measure is zero: nothing would be counted".into());
        }
        if self.max_in_flight == 0 {
            return Some("[step] max-in-flight is zero: nothing could be sent".into());
        }
        (self.min_requests > 0 && self.max_duration < self.measure).then(|| {
            format!(
                "[step] max-duration ({}) is below measure ({}): it bounds the extended window",
                self.max_duration, self.measure
            )
        })
    }

    /// Longest time from `due` to the last byte of a request; a minute where the plan has not been resolved.
    pub fn longest_request(&self) -> Duration {
        self.timeout.map_or(Duration::from_secs(60), |t| t.0)
    }

    /// How long the load of a step that the plan lists is kept on for measured requests: what a request may take within the
    /// SLO (half of the timeout's default), or `drain` where that is longer.
    pub fn tail(&self) -> Duration {
        self.drain.0.max(self.longest_request() / 2)
    }

    /// The measured window at `rate`: `measure`, or longer until `min_requests` are expected, up to `max_duration`.
    pub fn window(&self, rate: Option<f64>) -> Duration {
        match rate {
            Some(rate) if self.min_requests > 0 => {
                let needed = Duration::from_secs_f64((f64::from(self.min_requests) / rate).min(1e9));
                self.measure.0.max(needed.min(self.max_duration.0))
            }
            _ => self.measure.0,
        }
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
    fn contradictions_are_named() {
        assert!(StepTimes::default().problem().is_none());
        let s = StepTimes { min_requests: 1, max_duration: Span::secs(5), ..Default::default() };
        assert!(s.problem().is_some_and(|p| p.contains("max-duration")));
    }
}
