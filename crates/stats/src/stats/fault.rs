//! What the client itself did wrong in a step, so that it is never mistaken for a slow server.

use super::halt::Halts;
use super::kept::{Kept, Nanos};
use super::own::{Own, due};
use super::summary::StepInput;
use goodput_core::caveat::OwnFault;
use goodput_core::record::{Failure, Outcome, Phase};
use goodput_core::slo::Metric;
use goodput_core::units::ms;
use std::time::Duration;

/// What the client did wrong.
#[derive(Debug)]
pub(super) struct Client {
    /// It reached a limit of its own and held requests back.
    pub(super) limited: Option<OwnFault>,
    /// It sent fewer requests than were due.
    pub(super) behind: Option<OwnFault>,
    /// Its delays, and what its threads did.
    pub(super) own: Own,
    /// When it stood still.
    pub(super) halts: Halts,
    /// p99 of sent − due of what does not come of that, in ms.
    otherwise: f64,
}

impl Client {
    /// Looks at the measured records of a step.
    pub(super) fn of(input: &StepInput<'_>, measured: &[&Kept]) -> Self {
        let lateness_ms = lateness_ms(measured, 990).unwrap_or(0.0);
        let window_s = input.measure.as_secs_f64();
        let own = Own {
            allowed: input.allowed,
            due: due(measured.len() as u64, input.level, window_s, lateness_ms, input.abort),
            sent: sent_in_window(input) as u64,
            lateness_ms,
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
        let halts = Halts::of(input.records);
        let calm = measured.iter().copied().filter(|r| halts.is_calm(r.due.get()));
        let otherwise = if halts.is_empty() {
            lateness_ms
        } else {
            super::fault::lateness_ms(&calm.collect::<Vec<_>>(), 990).unwrap_or(0.0)
        };
        Self { limited, behind: own.behind(), own, halts, otherwise }
    }

    /// Why a verdict may rest on the client's delay: [`Own::doubt`], or that it stood still for a while, which a p99 need not show. Where it
    /// was late for that alone, that is what is said.
    pub(super) fn doubt(&self, from_due: Option<f64>, by_lag: Option<f64>) -> Option<OwnFault> {
        let otherwise = Own { lateness_ms: self.otherwise, ..self.own }.doubt(from_due, by_lag);
        let stood_still = self.halts.fault().filter(|_| otherwise.is_none());
        stood_still.or_else(|| self.own.doubt(from_due, by_lag))
    }

    /// A record as a client without any delay would have kept it: see [`without_delay`]; while this one stood still, no time passed.
    pub(super) fn ideal(&self, r: &Kept, lag: Duration, metric: Metric) -> Kept {
        self.halts.without(without_delay(r, lag, metric))
    }

    /// The receive lag that every stamp is taken to have suffered.
    pub(super) fn lag(&self) -> Duration {
        Duration::from_secs_f64(self.own.lag_ms / 1e3)
    }
}

/// Whether the client never got to send a request before the step was over: then it says nothing of the server.
pub(super) fn is_unsent(r: &Kept) -> bool {
    r.sent.is_none() && r.outcome == Outcome::Cut
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

/// A percentile (in thousandths) of sent − due, in ms. One that was never sent was late for as long as it was waited for.
pub(super) fn lateness_ms(records: &[&Kept], permille: u64) -> Option<f64> {
    let late = |r: &&Kept| {
        let waited = || is_unsent(r).then(|| r.end.get().saturating_sub(r.due.get()));
        r.record().lateness().or_else(waited)
    };
    let mut late: Vec<f64> = records.iter().filter_map(late).map(ms).collect();
    late.sort_unstable_by(f64::total_cmp);
    super::percentile::order_statistic(&late, permille)
}

/// When the first request that the client could not send was due.
pub(super) fn client_limit_at(input: &StepInput<'_>) -> Option<Duration> {
    let held = input.records.iter().filter(|r| input.client_limit && r.failure == Some(Failure::ClientLimit));
    held.map(|r| r.due.get()).min()
}

/// What a client that sends when due and stamps at once would have kept, as one metric sees it. What counts from `due` is too
/// long by the lateness and by the lag of its stamp; TPOT by the lag of the last stamp, where the first had none. (p99 of the
/// lag: hardly any stamp had more.)
fn without_delay(r: &Kept, lag: Duration, metric: Metric) -> Kept {
    let mut r = *r;
    r.due = r.sent.unwrap_or(r.due);
    if Metric::FROM_DUE.contains(&metric) {
        r.due = Nanos::from(r.due.get() + lag);
    } else {
        let earlier = |t: Nanos| Nanos::from(t.get().saturating_sub(lag));
        r.last_token = r.last_token.map(|t| r.first_token.map_or(earlier(t), |first| earlier(t).max(first)));
    }
    r
}
