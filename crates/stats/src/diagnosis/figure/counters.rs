//! Figures from the server's counters, and from the client's.

use super::super::fact::{CacheFact, Fact, Place, ServerFact};
use super::super::facts::StepFailures;
use super::super::flags::Knob;
use super::super::settings::Value;
use super::super::subject::Subject;
use super::Reading;
use crate::stats::step::{Step, Verdict};
use goodput_core::record::Failure;
use goodput_core::slo::limit_percentile;
use goodput_core::units::Percentile;

pub(super) fn client_was_limit(s: &Subject<'_>) -> Option<Reading> {
    if s.at.verdict != Verdict::Invalid {
        return Some(Reading::silent(0.0, [s.at.step]));
    }
    let fault = s.facts.own.iter().find(|o| o.step == s.at.step).map(|o| o.fault);
    let fact = Fact::ClientWasLimit { at: Place::of(s.at), fault, reason: s.at.reason.clone() };
    Some(Reading::new(1.0, [s.at.step], fact))
}

/// Compares failures with the misses that the binding limit allows; 0 for fewer than five failures.
pub(super) fn failed_of_allowed(s: &Subject<'_>) -> Option<Reading> {
    /// Failures that no accident of a single connection explains.
    const SEVERAL: u64 = 5;
    let percentile = s.curve.limit.as_deref().and_then(limit_percentile).unwrap_or(Percentile::P99);
    let allowed = percentile.miss_share();
    let failed = broken(s);
    let share = failed as f64 / s.at.due_n.max(1) as f64;
    Some(Reading::silent(if failed >= SEVERAL { share / allowed } else { 0.0 }, [s.at.step]))
}

/// Returns the failures that more load does not explain: neither refused requests, nor those that ran into the timeout, nor
/// those that were never sent because too many others were open.
fn broken(s: &Subject<'_>) -> u64 {
    let step = s.at;
    let unsent = |f: &&StepFailures| f.step == step.step && f.kind == Failure::ClientLimit.name();
    let unsent: u64 = s.facts.failures.iter().filter(unsent).map(|f| f.count).sum();
    step.failed.saturating_sub(step.failed_timeout).saturating_sub(step.refused).saturating_sub(unsent)
}

/// Compares failures with the misses of the binding limit: a failed request misses every limit.
pub(super) fn failed_of_misses(s: &Subject<'_>) -> Option<Reading> {
    let (failed, due) = (broken(s), s.at.due_n);
    if failed == 0 {
        return Some(Reading::silent(0.0, [s.at.step]));
    }
    let misses =
        s.limit_row().map_or(failed as f64, |row| (row.misses as f64 / row.per_request(due)).max(1.0));
    let kinds = s.facts.failures.iter().filter(|f| f.step == s.at.step).cloned().collect();
    let fact = Fact::Failed { failed, due, kinds, at: Place::of(s.at) };
    Some(Reading::new(failed as f64 / misses, [s.at.step], fact))
}

pub(super) fn preempted(s: &Subject<'_>) -> Option<Reading> {
    let (v, requests) = (&s.at.server, s.at.server.finished.unwrap_or(s.at.completed as f64));
    let preemptions = v.preemptions?;
    let share = preemptions / requests.max(1.0);
    let fact = ServerFact::Preempted { preemptions, requests, share, at: Place::of(s.at) };
    Some(Reading::new(share, [s.at.step], fact))
}

pub(super) fn kv_most(s: &Subject<'_>) -> Option<Reading> {
    let most = s.at.server.kv_max?;
    let fact = ServerFact::KvUse { most, mean: s.at.server.kv_mean, at: Place::of(s.at) };
    Some(Reading::new(most, [s.at.step], fact))
}

pub(super) fn waiting_most(s: &Subject<'_>) -> Option<Reading> {
    let requests = s.at.server.waiting_max?;
    Some(Reading::new(requests, [s.at.step], ServerFact::WaitingMost { requests, at: Place::of(s.at) }))
}

pub(super) fn waiting_mean(s: &Subject<'_>) -> Option<Reading> {
    let requests = s.at.server.waiting_mean?;
    Some(Reading::new(requests, [s.at.step], ServerFact::WaitingMean { requests, at: Place::of(s.at) }))
}

pub(super) fn running_most(s: &Subject<'_>) -> Option<Reading> {
    let requests = s.at.server.running_max?;
    Some(Reading::new(requests, [s.at.step], ServerFact::RunningMost { requests }))
}

/// Returns the largest number of requests that can run at a time: as the server reports it, or the largest number that
/// ran in steps with a queue. The latter needs two such steps at different levels with that number, or one with clearly
/// more requests in flight.
pub(in crate::diagnosis) fn seats(s: &Subject<'_>) -> Option<f64> {
    if let Some(seats) = s.curve.seats {
        return Some(f64::from(seats));
    }
    let queued = |x: &&Step| x.server.waiting_mean.is_some_and(|w| w > 0.5);
    let running = |x: &Step| x.server.running_max.filter(|r| *r > 0.0);
    let most = s.own().filter(queued).filter_map(running).fold(0.0, f64::max);
    let full: Vec<&Step> =
        s.own().filter(queued).filter(|x| running(x).is_some_and(|r| r >= 0.98 * most)).collect();
    let levels = full.iter().map(|x| x.level.value);
    let (low, high) = levels.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let beyond = full.iter().any(|x| x.in_flight_mean > 1.2 * most);
    (most > 0.0 && (beyond || high > 1.1 * low)).then_some(most)
}

pub(super) fn seats_taken(s: &Subject<'_>) -> Option<Reading> {
    let (running, seats) = (s.at.server.running_mean?, seats(s)?);
    let fact = ServerFact::SeatsTaken { running, seats, at: Place::of(s.at) };
    Some(Reading::new(running / seats, [s.at.step], fact))
}

pub(super) fn seats_reached(s: &Subject<'_>) -> Option<Reading> {
    let (running, seats) = (s.at.server.running_max?, seats(s)?);
    let fact = ServerFact::SeatsReached { running, seats, at: Place::of(s.at) };
    Some(Reading::new(running / seats, [s.at.step], fact))
}

pub(super) fn cache_is_off(s: &Subject<'_>) -> Option<Reading> {
    let current = s.curve.settings.get(Knob::PrefixCache)?;
    let off = current.value == Value::Switch(false);
    Some(Reading::new(f64::from(u8::from(off)), [], CacheFact::Off { origin: current.origin }))
}

pub(super) fn seats_told(s: &Subject<'_>) -> Option<Reading> {
    s.curve.seats.map(|_| Reading::silent(1.0, []))
}

pub(super) fn shared(s: &Subject<'_>) -> Option<Reading> {
    let share = s.curve.shared?;
    Some(Reading::new(share, [], CacheFact::Shared { share }))
}

pub(super) fn hits_of_shared(s: &Subject<'_>) -> Option<Reading> {
    let (hits, shared) = (s.at.server.hit_rate?, s.curve.shared.filter(|x| *x > 0.0)?);
    let fact = CacheFact::Hits { share: hits, at: Place::of(s.at) };
    Some(Reading::new(hits / shared, [s.at.step], fact))
}

pub(super) fn hits_alone(s: &Subject<'_>) -> Option<Reading> {
    let alone = s.low().or(s.alone).filter(|low| low.step != s.at.step)?;
    let share = alone.server.hit_rate?;
    Some(Reading::new(share, [alone.step], CacheFact::Hits { share, at: Place::of(alone) }))
}

pub(super) fn hits_times_alone(s: &Subject<'_>) -> Option<Reading> {
    let (now, before) = (s.at.server.hit_rate?, hits_alone(s)?);
    let fact = CacheFact::HitsLoaded { share: now, at: Place::of(s.at) };
    Some(Reading::new(now / before.value.max(1e-9), [before.steps, vec![s.at.step]].concat(), fact))
}

pub(super) fn queue_of_ttft(s: &Subject<'_>) -> Option<Reading> {
    let v = &s.at.server;
    let (queue, ttft) = (v.queue?, v.ttft?);
    let fact = ServerFact::Queue { queue_ms: queue.mean_ms, ttft_ms: ttft.mean_ms, at: Place::of(s.at) };
    (ttft.mean_ms > 0.0 && queue.n > 0.0)
        .then(|| Reading::new(queue.mean_ms / ttft.mean_ms, [s.at.step], fact))
}

pub(super) fn prefill_of_ttft(s: &Subject<'_>) -> Option<Reading> {
    let alone = s.alone?;
    let (prefill, ttft) = (alone.server.prefill?, alone.server.ttft?);
    let at = Place::of(alone);
    let fact = ServerFact::Prefill { prefill_ms: prefill.mean_ms, ttft_ms: ttft.mean_ms, at };
    (ttft.mean_ms > 0.0 && prefill.n > 0.0)
        .then(|| Reading::new(prefill.mean_ms / ttft.mean_ms, [alone.step], fact))
}

pub(super) fn prefill_of_missed(s: &Subject<'_>) -> Option<Reading> {
    let alone = s.alone?;
    let (prefill, (missed_ms, percentile)) = (alone.server.prefill?, s.missed_ttft()?);
    Some(super::latency::part_of_missed(s, prefill.mean_ms / missed_ms, missed_ms, percentile, alone))
}
