//! What the client itself did wrong in a step, so that it is never mistaken for a slow server.

use super::kept::{Kept, Nanos};
use super::summary::StepInput;
use crate::level::Control;
use crate::record::{Failure, Outcome, Phase};
use crate::slo::{Metric, Slo};
use crate::units::ms;
use std::time::Duration;

/// Share of a limit that the client's own delay may have.
pub(super) const OWN_DELAY: f64 = 0.05;

/// What the client did wrong.
#[derive(Debug)]
pub(super) struct Client {
    /// It reached a limit of its own, and how.
    pub(super) limited: Option<String>,
    /// It sent fewer requests than were due.
    pub(super) behind: Option<String>,
    /// p99 of sent − due.
    pub(super) lateness_ms: f64,
    /// p99 of socket readable → stamp.
    pub(super) lag_ms: f64,
}

impl Client {
    /// Looks at the measured records of a step.
    pub(super) fn of(input: &StepInput<'_>, measured: &[&Kept]) -> Self {
        let (due, sent) = (measured.len() as f64, sent_in_window(input) as f64);
        // A request due at the very end may be sent just after it, so up to three are no shortfall.
        let open = input.level.control != Control::Concurrency;
        let behind = open && input.abort.is_none() && due - sent > (0.01 * due).max(3.0);
        Self {
            limited: input.client_limit.then(|| {
                let held = measured.iter().filter(|r| r.failure == Some(Failure::ClientLimit)).count();
                format!("the client reached its own limit (max-in-flight, descriptors or ports): {held} of {due} requests were not sent")
            }),
            behind: behind.then(|| format!("the client sent {sent} of {due} requests that were due")),
            lateness_ms: lateness_ms(measured, 990).unwrap_or(0.0),
            lag_ms: input.receive_lag_p99_ms.unwrap_or(0.0).max(0.0),
        }
    }
}

/// Requests sent within the measured window, whenever they were due. One that failed without being handed to a connection
/// (refused, say) was sent when due, unless it was the client's own limit that held it.
pub(super) fn sent_in_window(input: &StepInput<'_>) -> usize {
    let window = input.settle..input.settle + input.measure;
    let sent = |r: &Kept| {
        let tried = r.outcome == Outcome::Failed && r.failure != Some(Failure::ClientLimit);
        r.sent.or(tried.then_some(r.due))
    };
    let loaded = input.records.iter().filter(|r| r.phase != Phase::Warmup);
    loaded.filter(|r| sent(r).is_some_and(|t| window.contains(&t.get()))).count()
}

/// A percentile (in thousandths) of sent − due, in ms.
pub(super) fn lateness_ms(records: &[&Kept], permille: u64) -> Option<f64> {
    let mut late: Vec<f64> = records.iter().filter_map(|r| r.record().lateness().map(ms)).collect();
    late.sort_unstable_by(f64::total_cmp);
    super::percentile::order_statistic(&late, permille)
}

/// When the first request that the client could not send was due.
pub(super) fn client_limit_at(input: &StepInput<'_>) -> Option<Duration> {
    let held = input.records.iter().filter(|r| input.client_limit && r.failure == Some(Failure::ClientLimit));
    held.map(|r| r.due.get()).min()
}

/// What a client that sends when due and stamps at once would have kept.
pub(super) fn without_delay(r: &Kept, lag: Duration) -> Kept {
    let mut r = *r;
    r.due = r.sent.unwrap_or(r.due);
    let last = r.last_token.map(|t| Nanos::from(t.get().saturating_sub(lag)));
    r.last_token = last.map(|t| r.first_token.map_or(t, |first| t.max(first)));
    r
}

/// The smallest limit that counts from `due`, in ms.
pub(super) fn tightest_from_due(slo: &Slo) -> Option<f64> {
    slo.tightest_from_due().map(ms)
}

/// The smallest limit that the receive lag touches, in ms.
pub(super) fn tightest_by_lag(slo: &Slo) -> Option<f64> {
    [Metric::Tpot, Metric::Itl].into_iter().filter_map(|m| slo.smallest(m)).min().map(ms)
}
