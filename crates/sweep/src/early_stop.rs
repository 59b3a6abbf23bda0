//! The schedule of looks at a running step, and the reasons to end it early; independent of the clock.

use super::tally::StepTally;
use goodput_core::level::Control;
use goodput_core::units::Fraction;
use goodput_plan::Plan;
use goodput_stats::search::{Ask, Ends};
use goodput_stats::stats::step::{Abort, StepKind};
use goodput_stats::stats::verdict::{GROSS_INFLATION, UNLOADED_INFLATION};
use std::time::Duration;

/// Number of parts of the window; a look for excess misses is due at the end of each but the last.
const LOOKS: u32 = 16;

/// Interval at which the director updates progress and checks deadlines and early ends.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// A server is behind if it answers less than this share of the requests due, by more than [`SIGNIFICANT`] standard
/// errors.
const BEHIND: f64 = 0.9;
const SIGNIFICANT: f64 = 4.0;
/// Factor of growth in answers above which their rate is still rising.
const STEADY: f64 = 1.1;
/// Longest drain of a step that failed by a wide margin.
const DRAIN_AFTER_GROSS: Duration = Duration::from_secs(5);

/// Returns the longest time to wait for open requests after the last request of a step was sent.
pub(crate) fn drain(ask: &Ask, abort: Option<Abort>) -> Duration {
    if matches!(abort, Some(Abort::Gross | Abort::Errors)) {
        ask.drain.min(DRAIN_AFTER_GROSS)
    } else {
        ask.drain
    }
}

/// Returns the reason to end a step whose requests fail: all of them, or more than the plan allows.
pub(crate) fn failing(plan: &Plan, tally: &StepTally, in_flight: u64) -> Option<Abort> {
    let most = plan.step.max_error_share.map_or(1.0, Fraction::get);
    if tally.all_failed(in_flight) {
        Some(Abort::AllFailed)
    } else {
        tally.fails_beyond(most, in_flight).then_some(Abort::Errors)
    }
}

/// The remaining looks of one step.
#[derive(Debug, Clone)]
pub(crate) struct Looks {
    ask: Ask,
    next: u32,
    /// Shares of the window at the looks so far, each with the number of measured requests finished by then.
    home: Vec<(f64, u64)>,
}

impl Looks {
    /// Makes the schedule for a step.
    pub(crate) fn new(ask: &Ask) -> Self {
        Self { ask: *ask, next: 1, home: Vec::new() }
    }

    /// Returns the share of the window at which the next look is due. There is none at its end, where the verdict is
    /// made.
    pub(crate) fn due(&self) -> Option<f64> {
        (self.ask.ends != Ends::AtItsTime && self.next < LOOKS)
            .then(|| f64::from(self.next) / f64::from(LOOKS))
    }

    /// Takes the look that is due when `share` of the window is over, if there is one. Returns true if the step must
    /// end for its misses.
    pub(crate) fn take(&mut self, share: f64, tally: &StepTally) -> bool {
        if self.due().is_none_or(|due| share < due * (1.0 - 1e-9)) {
            return false;
        }
        self.next += 1;
        match self.ask.ends {
            Ends::AtItsTime => false,
            Ends::WhenGross if self.ask.kind == StepKind::Baseline => tally.gross(UNLOADED_INFLATION),
            Ends::WhenGross => tally.gross(GROSS_INFLATION),
            Ends::WhenFarOver => {
                // The number of requests in a closed loop is only known as it runs.
                let planned = self.planned().unwrap_or_else(|| tally.measured() as f64 / share);
                tally.far_over(planned)
            }
            Ends::WhenBehind => self.is_behind(share, tally.measured()) && tally.gross(GROSS_INFLATION),
        }
    }

    /// Returns the number of requests due in the whole window, if the level is a rate.
    fn planned(&self) -> Option<f64> {
        let level = self.ask.level;
        (level.control == Control::Rate).then_some(level.value * self.ask.measure.as_secs_f64())
    }

    /// Records the number of requests finished when `share` of the window is over. Returns true if far fewer requests
    /// finished in the second half of that time than were due in it, which means that a backlog grows. Returns false if
    /// none finished in the first half, or if the rate of answers still rises: answers may just take long. Always
    /// returns true if the number of due requests is unknown.
    fn is_behind(&mut self, share: f64, home: u64) -> bool {
        self.home.push((share, home));
        let Some(planned) = self.planned() else { return true };
        let at = |part: f64| self.home.iter().rfind(|(at, _)| *at <= part * share * (1.0 + 1e-9)).copied();
        let (Some((from, before)), Some((late, between))) = (at(0.5).filter(|(_, n)| *n > 0), at(0.75))
        else {
            return false;
        };
        let (due, came) = (planned * (share - from), home.saturating_sub(before) as f64);
        let pace = |n: u64, time: f64| n as f64 / time.max(f64::MIN_POSITIVE);
        let (first, second) = (pace(between - before, late - from), pace(home - between, share - late));
        came < BEHIND * due && due - came > SIGNIFICANT * due.sqrt() && second <= STEADY * first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;

    fn looks(rate: f64) -> Looks {
        let ask = Ask {
            level: Level::rate(rate),
            kind: StepKind::Ramp,
            settle: Duration::from_secs(10),
            measure: Duration::from_secs(60),
            extend: false,
            tail: Duration::ZERO,
            drain: Duration::ZERO,
            ends: Ends::WhenBehind,
            confidence: 0.95,
        };
        Looks::new(&ask)
    }

    /// Rows: requests finished (of 6,000) as a function of seconds in the window, and true if the server is ever found
    /// behind.
    #[test]
    fn a_server_is_behind_that_answers_less_than_is_due() {
        let capacity = |c: f64| move |t: f64| c * t;
        let slow = |e2e: f64| move |t: f64| 100.0 * (t - e2e).max(0.0);
        let spread = |mean: f64| move |t: f64| 100.0 * (t - mean * (1.0 - (-t / mean).exp()));
        type Home = Box<dyn Fn(f64) -> f64>;
        let rows: [(&str, Home, bool); 6] = [
            ("it keeps up", Box::new(capacity(100.0)), false),
            ("4 % short", Box::new(capacity(96.0)), false),
            ("a third short", Box::new(capacity(67.0)), true),
            ("answers take 20 s", Box::new(slow(20.0)), false),
            ("answers take 20 s on average", Box::new(spread(20.0)), false),
            ("none comes", Box::new(capacity(0.0)), false),
        ];
        for (what, home, behind) in rows {
            let mut looks = looks(100.0);
            let called = (1..LOOKS).any(|i| {
                let share = f64::from(i) / f64::from(LOOKS);
                looks.is_behind(share, home(60.0 * share) as u64)
            });
            assert_eq!(called, behind, "{what}");
        }
    }
}
