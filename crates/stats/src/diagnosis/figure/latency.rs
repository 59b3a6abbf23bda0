//! Figures of latency under load, compared with one request alone or with less load.

use super::super::fact::{IterationFact, LatencyFact, Place, Reference, ThroughputFact};
use super::super::subject::Subject;
use super::Reading;
use crate::stats::step::Step;
use goodput_core::slo::Metric;

/// Returns the unloaded step, unless it is the examined one.
fn other<'a>(s: &Subject<'a>) -> Option<&'a Step> {
    s.alone.filter(|a| a.step != s.at.step)
}

/// Returns the tails of TTFT of the examined and the unloaded step, the name of the percentile, and the medians of
/// both. None of them has a steady value if the backlog grows.
fn tails(s: &Subject<'_>) -> Option<([f64; 2], &'static str, [f64; 2])> {
    let alone = other(s)?;
    let (now, name) = s.tail(s.at, Metric::Ttft).filter(|_| s.at.stable != Some(false))?;
    let (before, _) = s.tail(alone, Metric::Ttft)?;
    let medians = [s.at, alone].map(|step| s.quantiles(step, Metric::Ttft).p50);
    let [Some(p50), Some(p50_before)] = medians else { return None };
    (before > 0.0 && p50_before > 0.0).then_some(([now, before], name, [p50, p50_before]))
}

pub(super) fn ttft_tail(s: &Subject<'_>) -> Option<Reading> {
    let alone = other(s)?;
    let ([now_ms, before_ms], percentile, _) = tails(s)?;
    let (at, reference) = (Place::of(s.at), Reference::of(alone));
    let fact = LatencyFact::SlowerTtft { percentile, now_ms, at, before_ms, reference };
    Some(Reading::new(now_ms / before_ms, [alone.step, s.at.step], fact))
}

pub(super) fn tail_over_median(s: &Subject<'_>) -> Option<Reading> {
    let alone = other(s)?;
    let ([now, before], _, [now_ms, before_ms]) = tails(s)?;
    let fact = LatencyFact::MedianTtft { now_ms, before_ms };
    Some(Reading::new(now / before / (now_ms / before_ms), [alone.step, s.at.step], fact))
}

pub(super) fn wait_of_missed(s: &Subject<'_>) -> Option<Reading> {
    let alone = other(s)?;
    let ([now, before], percentile, _) = tails(s)?;
    let share = ((now - before) / now).max(0.0);
    Some(Reading::new(share, [alone.step, s.at.step], LatencyFact::WaitOfTail { share, percentile }))
}

/// Returns the reading of a part of the TTFT of one request alone as a share of the TTFT that misses, at most 1. The fact is left out
/// where that is the limit (no percentile), or the backlog grows, so that the tail has no steady value.
pub(super) fn part_of_missed(
    s: &Subject<'_>,
    share: f64,
    missed_ms: f64,
    percentile: Option<&'static str>,
    alone: &Step,
) -> Reading {
    let (share, steps) = (share.min(1.0), [alone.step, s.at.step]);
    match percentile.filter(|_| s.at.stable != Some(false)) {
        Some(percentile) => {
            let at = Place::of(s.at);
            Reading::new(share, steps, LatencyFact::ShareOfTail { share, percentile, tail_ms: missed_ms, at })
        }
        None => Reading::silent(share, steps),
    }
}

fn tpot(s: &Subject<'_>, step: &Step) -> Option<f64> {
    s.quantiles(step, Metric::Tpot).p50.filter(|t| *t > 0.0)
}

/// Returns the median TPOT of the examined and of the unloaded step, with the unloaded step, which may be the examined
/// one.
fn tpots<'a>(s: &Subject<'a>) -> Option<(f64, f64, &'a Step)> {
    let alone = s.alone?;
    Some((tpot(s, s.at)?, tpot(s, alone)?, alone))
}

pub(super) fn tpot_alone_of_loaded(s: &Subject<'_>) -> Option<Reading> {
    let (now_ms, before_ms, alone) = tpots(s)?;
    let share = (before_ms / now_ms).min(1.0);
    let at = Place::of(s.at);
    let fact = if alone.step == s.at.step {
        LatencyFact::TpotUnloaded { tpot_ms: now_ms, at }
    } else {
        LatencyFact::TpotOfReference { before_ms, reference: Reference::of(alone), share, now_ms, at }
    };
    Some(Reading::new(share, [alone.step, s.at.step], fact))
}

pub(super) fn tpot_of_limit(s: &Subject<'_>) -> Option<Reading> {
    let Some(limit) = s.tpot_limit() else { return Some(Reading::silent(0.0, [])) };
    let (tail, _) = s.token_tail(s.at)?;
    Some(Reading::silent(tail / limit, [s.at.step]))
}

pub(super) fn tpot_tail_over_median(s: &Subject<'_>) -> Option<Reading> {
    let (tail_ms, percentile) = s.tail(s.at, Metric::Tpot)?;
    let median_ms = tpot(s, s.at)?;
    let fact = IterationFact::TpotTail { tail_ms, percentile, median_ms, at: Place::of(s.at) };
    Some(Reading::new(tail_ms / median_ms, [s.at.step], fact))
}

pub(super) fn first_is_limited(s: &Subject<'_>) -> Option<Reading> {
    Some(Reading::silent(f64::from(u8::from(s.first_is_limited())), []))
}

/// Returns the mean TTFT by the clocks of client and server of one step: the unloaded one if it has both, since neither
/// clock sees a queue there.
fn clocks<'a>(s: &Subject<'a>) -> Option<(f64, f64, &'a Step)> {
    let of = |step: &'a Step| {
        let client_ms = step.server.client?.ttft_mean_ms.filter(|t| *t > 0.0)?;
        let server_ms = step.server.ttft.filter(|t| t.n > 0.0)?.mean_ms;
        Some((client_ms, server_ms, step))
    };
    s.alone.and_then(of).or_else(|| of(s.at))
}

pub(super) fn network_of_ttft(s: &Subject<'_>) -> Option<Reading> {
    let (client_ms, server_ms, at) = clocks(s)?;
    let fact = LatencyFact::BetweenClocks { client_ms, server_ms, at: Place::of(at) };
    Some(Reading::new((client_ms - server_ms) / client_ms, [at.step], fact))
}

pub(super) fn network_of_missed(s: &Subject<'_>) -> Option<Reading> {
    let (client_ms, server_ms, at) = clocks(s)?;
    let (missed_ms, _) = s.missed_ttft()?;
    Some(Reading::silent((client_ms - server_ms) / missed_ms, [at.step, s.at.step]))
}

pub(super) fn tpot_times_low(s: &Subject<'_>) -> Option<Reading> {
    let low = s.low().filter(|low| low.step != s.at.step)?;
    let (now_ms, before_ms) = (tpot(s, s.at)?, tpot(s, low)?);
    let fact = LatencyFact::TpotRise { now_ms, before_ms };
    Some(Reading::new(now_ms / before_ms, [low.step, s.at.step], fact))
}

pub(super) fn tpot_added(s: &Subject<'_>) -> Option<Reading> {
    let times = tpot_times_low(s)?;
    let share = (1.0 - 1.0 / times.value).max(0.0);
    Some(Reading::new(share, times.steps, LatencyFact::TpotAdded { share }))
}

pub(super) fn tokens_times_low(s: &Subject<'_>) -> Option<Reading> {
    let low = s.low().filter(|low| low.step != s.at.step)?;
    let [now, before] = [s.at, low].map(|x| x.output_tokens_per_s);
    let fact =
        ThroughputFact::OutputTokens { now, at: Place::of(s.at), before, reference: Reference::of(low) };
    (before > 0.0).then(|| Reading::new(now / before, [low.step, s.at.step], fact))
}

pub(super) fn backlog_grows(s: &Subject<'_>) -> Option<Reading> {
    let grows = s.is_open() && s.at.stable?.eq(&false);
    if !grows {
        return Some(Reading::silent(0.0, [s.at.step]));
    }
    let per_second = s.at.in_flight_slope.filter(|slope| *slope > 0.0);
    Some(Reading::new(1.0, [s.at.step], ThroughputFact::BacklogGrows { per_second, at: Place::of(s.at) }))
}

pub(super) fn completed_of_offered(s: &Subject<'_>) -> Option<Reading> {
    let (completed, offered) = (s.at.achieved_rate, s.at.offered_rate);
    (s.is_open() && offered > 0.0).then(|| {
        Reading::new(completed / offered, [s.at.step], ThroughputFact::Completed { completed, offered })
    })
}
