//! `[recovery]`: after the search, one step that holds the safe rate, then a surge, then the safe rate again. No
//! verdict and no answer depends on it.

use super::ask::{Ask, Ends};
use super::reason::Ended;
use super::series::{Search, of_series};
use super::single_step::interrupted;
use crate::stats::recovery::Course;
use crate::stats::step::{Abort, Step, StepKind};
use goodput_core::level::{Control, Level};
use goodput_core::units::{Positive, Span, three_digits};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `[recovery]`: whether, and how fast, the server recovers from a surge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Recovery {
    /// Rate of the surge over the safe rate, above 1 and at most 10; 1.4 where it is left out. The surge is never above `search.max-rate`:
    /// where it would be, the step is left out and the report says so.
    pub factor: Positive,
    /// Length of the surge; a minute where it is left out.
    pub surge: Span,
    /// How long the safe rate is held before the surge, and again after it; three minutes each where it is left out. Not part of the budget.
    pub hold: Span,
}

impl Default for Recovery {
    fn default() -> Self {
        let factor = Positive::try_from(1.4).expect("1.4 is positive");
        Self { factor, surge: Span::secs(60), hold: Span::secs(180) }
    }
}

/// The shortest hold: with less, the band before the surge would rest on too few windows.
const LEAST_HOLD: Duration = Duration::from_secs(20);

impl Recovery {
    /// Returns the length of the measured window: both holds and the surge.
    pub fn measure(&self) -> Duration {
        2 * self.hold.0 + self.surge.0
    }

    /// Returns the course of the load, for a step with this settling period in seconds.
    pub fn course(&self, settle_s: f64) -> Course {
        let [hold_s, surge_s] = [self.hold, self.surge].map(|span| span.0.as_secs_f64());
        Course { from_s: settle_s, hold_s, surge_s }
    }

    /// Returns the error in the table, if it has one.
    pub fn problem(&self) -> Option<String> {
        let factor = self.factor.get();
        if !(factor > 1.0 && factor <= 10.0) {
            return Some(format!(
                "[recovery] factor = {factor}: the surge is above the safe rate, so that it must be above 1, and at most 10"
            ));
        }
        if self.hold.0 < LEAST_HOLD {
            return Some(format!(
                "[recovery] hold = \"{}\": the band before the surge needs {} at the least",
                self.hold,
                Span(LEAST_HOLD)
            ));
        }
        (self.surge.0 < Duration::from_secs(1))
            .then(|| format!("[recovery] surge = \"{}\": a surge takes a second at the least", self.surge))
    }
}

/// The reason why the recovery step of a series is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum NotMeasured {
    /// No level was shown to be safe.
    NoSafeRate,
    /// The surge would be above `search.max-rate`.
    AboveMaxRate {
        /// Level of the surge.
        surge: f64,
        /// The plan's highest level.
        max: f64,
    },
}

impl Search {
    /// Returns this search with a recovery step after it.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Option<Recovery>) -> Self {
        self.recovery = recovery;
        self
    }

    /// Returns the recovery step once the search is done, unless it was measured already, the server is gone, or it
    /// cannot be measured. `own` are the steps of the search.
    pub(super) fn recovery_step(&self, own: &[&Step], series: &str, steps: &[Step]) -> Option<Ask> {
        let recovery = self.recovery?;
        let measured = |s: &Step| s.series == series && s.kind == StepKind::Recovery && !interrupted(s);
        let gone = own.iter().any(|s| s.abort == Some(Abort::ServerGone));
        if gone || steps.iter().any(measured) {
            return None;
        }
        let level = self.recovery_level(&recovery, own).ok()?;
        let ask = self.ask(level, StepKind::Recovery, Ends::AtItsTime);
        Some(Ask { measure: recovery.measure(), extend: false, ..ask })
    }

    /// Returns the reason why no recovery step is measured after these steps of a series; `None` if one is, or if the
    /// plan asks for none.
    pub fn recovery_not_measured(&self, series: &str, steps: &[Step]) -> Option<NotMeasured> {
        self.recovery_level(&self.recovery?, &of_series(series, steps)).err()
    }

    /// Returns the level to hold: the safe rate, or the highest level shown to meet if no interval is published.
    fn recovery_level(&self, recovery: &Recovery, own: &[&Step]) -> Result<Level, NotMeasured> {
        let answer = self.tiers.first().map(|slo| self.goodput(own, &Ended::NotSearched, slo));
        // Rounded down: the level held is never above the one called safe.
        let value = answer
            .and_then(|a| a.safe_or_met())
            .map(|safe| three_digits(safe, f64::floor))
            .filter(|v| *v > 0.0);
        let value =
            value.filter(|_| self.control() != Control::Concurrency).ok_or(NotMeasured::NoSafeRate)?;
        let surge = value * recovery.factor.get();
        match self.max_rate {
            Some(max) if surge > max * (1.0 + 1e-9) => Err(NotMeasured::AboveMaxRate { surge, max }),
            _ => Ok(Level::new(self.control(), value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let of = |text: &str| toml::from_str::<Recovery>(text).unwrap();
        assert_eq!(of("").problem(), None);
        assert_eq!(of("").measure(), Duration::from_secs(420));
        for (text, says) in [
            ("factor = 1", "must be above 1"),
            ("factor = 20", "at most 10"),
            ("hold = \"5s\"", "needs 20s"),
            ("surge = \"0s\"", "a second at the least"),
        ] {
            let said = of(text).problem().unwrap();
            assert!(said.contains(says), "{text}: {said}");
        }
        assert!(toml::from_str::<Recovery>("level = 3").unwrap_err().to_string().contains("unknown field"));
    }
}
