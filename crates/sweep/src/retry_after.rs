//! Waiting for servers that refused requests with `Retry-After`.

use super::termination::Termination;
use anyhow::Result;
use goodput_core::caveat::{Caveat, Refusal, ServerCaveat};
use goodput_core::units::{Fraction, Span};
use goodput_plan::{Plan, Series};
use goodput_run::rundir::{LeftAlone, Meta};
use goodput_stats::stats::step::{Abort, Step};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Longest wait for a server's `Retry-After`; the sweep does not wait for any time beyond it.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Returns the key of a server in [`Waits`]: the name of its series if variants alternate, each on a separate server;
/// otherwise empty, since there is one server at a time.
pub(super) fn server_key(plan: &Plan, series: &str) -> String {
    if plan.alternate.is_some() { series.to_owned() } else { String::new() }
}

/// The servers that sent `Retry-After`, each with the end of its wait.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<String, Instant>);

impl Waits {
    /// Restores the waits of a resumed sweep, five minutes each at most, in case the wall clock was changed. In
    /// simulated time, no time has passed since the interruption.
    pub(super) fn restored(earlier: &Meta) -> Self {
        let left = |asked: &LeftAlone| {
            if earlier.virtual_time {
                return Duration::try_from_secs_f64(asked.left_s).ok();
            }
            let until: Timestamp = asked.until.parse().ok()?;
            Duration::try_from(until.duration_since(Timestamp::now())).ok()
        };
        let now = Instant::now();
        let until = |asked: &LeftAlone| left(asked).map(|left| now + left.min(LONGEST_WAIT));
        let all = earlier.left_alone.iter();
        Self(all.filter_map(|(server, asked)| Some((server.clone(), until(asked)?))).collect())
    }

    /// Returns the waits in the form for the run folder, for resuming.
    pub(super) fn to_meta(&self) -> BTreeMap<String, LeftAlone> {
        let at = |until: &Instant| {
            let left = until.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
            let moment = Timestamp::now().checked_add(left).ok().filter(|_| !left.is_zero())?;
            Some(LeftAlone { until: moment.to_string(), left_s: left.as_secs_f64() })
        };
        self.0.iter().filter_map(|(server, until)| Some((server.clone(), at(until)?))).collect()
    }

    /// Returns the remaining wait that a server asked for, if it did.
    pub(super) fn asked(&self, server: &str) -> Option<Duration> {
        self.0.get(server).map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Returns the time that the next step on a server has to wait: five minutes at most.
    pub(super) fn left(&self, server: &str) -> Duration {
        self.asked(server).unwrap_or_default().min(LONGEST_WAIT)
    }

    /// Records that a server asked to wait until `until`.
    pub(super) fn add(&mut self, server: String, until: Instant) {
        self.0.insert(server, until);
    }

    /// Removes a server after the wait.
    pub(super) fn remove(&mut self, server: &str) {
        self.0.remove(server);
    }

    /// Removes all servers, after they have been stopped.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns true if the `Retry-After` of a step's refusals must be respected: they stopped the step, or exceeded the
/// share of errors that the plan allows.
pub(super) fn is_respected(plan: &Plan, step: &Step) -> bool {
    let most = plan.step.max_error_share.map_or(1.0, Fraction::get);
    let stopped = step.unanswered() || matches!(step.abort, Some(Abort::Errors | Abort::Gross));
    stopped || step.refused_beyond(most)
}

/// Waits until requests may be sent to the only server of a resumed sweep, and returns a caveat about the wait. In
/// simulated time, the next step waits instead.
///
/// # Errors
/// The sweep was ended during the wait.
pub(super) async fn wait_on_resume(
    earlier: &Meta,
    step: u32,
    termination: &Termination,
) -> Result<Option<Caveat>> {
    let waits = Waits::restored(earlier);
    let Some(left) = waits.asked("").filter(|_| !earlier.virtual_time) else { return Ok(None) };
    tracing::info!("the server asked the client to wait (Retry-After): {} left", whole_seconds(left));
    let interrupt = termination.token();
    tokio::select! {
        biased;
        () = interrupt.cancelled() => return Err(termination.too_early()),
        () = sleep(left) => {}
    }
    let waited_s = left.as_secs_f64();
    Ok(Some(Caveat::Server(ServerCaveat::Refused {
        step,
        how: Refusal::AskedToWait { asked_s: waited_s, waited_s },
    })))
}

impl super::director::Sweep<'_> {
    /// Waits for the time that the server of a series asked for, five minutes at most. Returns false if the sweep was
    /// interrupted during the wait.
    pub(super) async fn leave_alone(&mut self, series: &Series) -> bool {
        let (server, step) = (server_key(self.plan, &series.name), self.number());
        let Some(asked) = self.waits.asked(&server) else { return true };
        let wait = asked.min(LONGEST_WAIT);
        if wait.is_zero() {
            return true;
        }
        let (asked_s, waited_s) = (asked.as_secs_f64(), wait.as_secs_f64());
        self.journal.say(&format!(
            "the server asks the client to wait {} (Retry-After): step {step} begins after {}",
            whole_seconds(asked),
            whole_seconds(wait),
        ));
        self.note(ServerCaveat::Refused { step, how: Refusal::AskedToWait { asked_s, waited_s } });
        let interrupt = self.termination.token();
        tokio::select! {
            biased;
            // A resumed sweep waits for the rest.
            () = interrupt.cancelled() => return false,
            () = sleep(wait) => {}
        }
        self.waits.remove(&server);
        true
    }
}

fn whole_seconds(d: Duration) -> Span {
    Span::secs(d.as_secs_f64().ceil() as u64)
}
