//! Faults of the client itself in a step, detected so that they are never mistaken for a slow server.

use super::client::{ClientTiming, due};
use super::compact_record::{CompactRecord, Nanos};
use super::halt::Halts;
use super::summary::StepInput;
use super::workers::lateness_of_worst;
use goodput_core::caveat::OwnFault;
use goodput_core::record::{Failure, MOST_CHOICES, Outcome, Phase};
use goodput_core::slo::Metric;
use goodput_core::units::ms;
use std::num::NonZeroU32;
use std::time::Duration;

/// Faults of the client in one step.
#[derive(Debug)]
pub(super) struct ClientFaults {
    /// The client reached a limit of its own and held requests back.
    pub(super) limited: Option<OwnFault>,
    /// The client sent fewer requests than were due.
    pub(super) behind: Option<OwnFault>,
    /// The client's delays, and the use of its threads.
    pub(super) timing: ClientTiming,
    /// Stretches in which the client was halted.
    pub(super) halts: Halts,
    /// The fault if a halt touches any measured request.
    pub(super) halted: Option<OwnFault>,
    /// p99 of sent − due over requests not affected by halts, in ms.
    lateness_without_halts: f64,
}

impl ClientFaults {
    /// Detects the faults in the measured records of a step.
    pub(super) fn of(input: &StepInput<'_>, measured: &[&CompactRecord]) -> Self {
        let lateness_ms = lateness_ms(measured, 990).unwrap_or(0.0);
        let window_s = input.measure.as_secs_f64();
        let timing = ClientTiming {
            allowed: input.allowed,
            due: due(measured.len() as u64, input.level, window_s, lateness_ms, input.abort),
            sent: sent_in_window(input) as u64,
            // Merged, a worker that is late hides among many that are not.
            lateness_ms: lateness_of_worst(measured).unwrap_or(lateness_ms),
            lag_ms: input.receive_lag_p99_ms.unwrap_or(0.0).max(0.0),
            busy: input.client_busy,
            waiting: input.client_waiting,
        };
        let limited = input.client_limit.then(|| {
            let held =
                input.records.iter().filter(|r| r.failure == Some(Failure::ClientLimit)).count() as u64;
            match input.in_flight_limit {
                Some(allowed) => OwnFault::MaxInFlight { allowed, held },
                None => OwnFault::Exhausted { held },
            }
        });
        let halts = Halts::of(input.records, input.halts);
        let calm = measured.iter().copied().filter(|r| halts.spared(r));
        let lateness_without_halts = if halts.is_empty() {
            timing.lateness_ms
        } else {
            let calm: Vec<&CompactRecord> = calm.collect();
            lateness_of_worst(&calm).or_else(|| self::lateness_ms(&calm, 990)).unwrap_or(0.0)
        };
        let halted = halts.fault().filter(|_| !measured.iter().all(|r| halts.spared(r)));
        Self { limited, behind: timing.behind(), timing, halts, halted, lateness_without_halts }
    }

    /// Returns a fault that makes a verdict doubtful: see [`ClientTiming::doubt`]. A halt counts as well, since a p99 need not
    /// show it, and is the fault returned if the client was late only because of it.
    pub(super) fn doubt(&self, from_due: Option<f64>, by_lag: Option<f64>) -> Option<OwnFault> {
        let otherwise =
            ClientTiming { lateness_ms: self.lateness_without_halts, ..self.timing }.doubt(from_due, by_lag);
        let stood_still = self.halts.fault().filter(|_| otherwise.is_none());
        stood_still.or_else(|| self.timing.doubt(from_due, by_lag))
    }

    /// Returns the record as a client without any delay would have kept it (see [`without_delay`]), with time stopped during
    /// halts.
    pub(super) fn ideal(&self, r: &CompactRecord, lag: Duration, metric: Metric) -> CompactRecord {
        self.halts.without(without_delay(r, lag, metric))
    }

    /// Returns the receive lag that every timestamp is assumed to have.
    pub(super) fn lag(&self) -> Duration {
        Duration::from_secs_f64(self.timing.lag_ms / 1e3)
    }
}

/// Returns true if the client had not sent the request when the step ended: the request says nothing about the server.
pub(super) fn is_unsent(r: &CompactRecord) -> bool {
    r.sent.is_none() && r.outcome == Outcome::Cut
}

/// Returns the number of requests sent within the measured window, whenever they were due. A request that failed without being
/// handed to a connection (refused, say) counts as sent when due, unless the client's own limit held it back.
pub(super) fn sent_in_window(input: &StepInput<'_>) -> usize {
    let window = input.settle..input.settle + input.measure;
    let sent = |r: &CompactRecord| {
        let tried = r.outcome == Outcome::Failed && r.failure != Some(Failure::ClientLimit);
        r.sent.or(tried.then_some(r.due))
    };
    let loaded = input.records.iter().filter(|r| r.phase != Phase::Warmup);
    loaded.filter(|r| sent(r).is_some_and(|t| window.contains(&t.get()))).count()
}

/// Returns a percentile (in thousandths) of sent − due, in ms. The lateness of a request that was never sent is the time it had
/// waited.
pub(super) fn lateness_ms(records: &[&CompactRecord], permille: u64) -> Option<f64> {
    let late = |r: &&CompactRecord| {
        let waited = || is_unsent(r).then(|| r.end.get().saturating_sub(r.due.get()));
        r.record().lateness().or_else(waited)
    };
    let mut late: Vec<f64> = records.iter().filter_map(late).map(ms).collect();
    late.sort_unstable_by(f64::total_cmp);
    super::percentile::order_statistic(&late, permille)
}

/// Returns the due time of the first request that the client could not send.
pub(super) fn client_limit_at(input: &StepInput<'_>) -> Option<Duration> {
    let held_back =
        input.records.iter().filter(|r| input.client_limit && r.failure == Some(Failure::ClientLimit));
    held_back.map(|r| r.due.get()).min()
}

/// Returns the record that a client which sends when due and stamps at once would have kept, for one metric. Metrics that count
/// from `due` are too long by the lateness and by the lag of their stamp; TPOT by the lag of the last stamp, if the first had
/// none. (The p99 of the lag is used: hardly any stamp had more.)
fn without_delay(r: &CompactRecord, lag: Duration, metric: Metric) -> CompactRecord {
    let mut r = *r;
    r.due = r.sent.unwrap_or(r.due);
    if metric.is_from_due() {
        r.due = Nanos::from(r.due.get() + lag);
    } else {
        let earlier = |t: Nanos| Nanos::from(t.get().saturating_sub(lag));
        r.last_token = r.last_token.map(|t| r.first_token.map_or(earlier(t), |first| earlier(t).max(first)));
        // Each choice has a last stamp of its own. Every choice that has begun counts for the tokens of a first event.
        let choices = r.first_event_tokens.map_or(1, NonZeroU32::get).min(MOST_CHOICES.into());
        r.decoding = r.decoding.map(|t| t.get().saturating_sub(lag.saturating_mul(choices)).into());
    }
    r
}
