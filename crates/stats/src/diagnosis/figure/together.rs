//! Figures that combine several steps or series, or use the plan's declarations.

use super::super::fact::{CacheFact, GpusTpot, HardwareFact, IterationFact, LatencyFact, LengthTtft, Place};
use super::super::fit::{Line, line};
use super::super::floor::{BELOW, uncached};
use super::super::pace::{self, Pace};
use super::super::subject::{Subject, is_one, told};
use super::Reading;
use crate::stats::step::Step;
use goodput_core::slo::Metric;

/// Returns the line of TTFT over prompt length, with the tokens that the unloaded step had to read, its TTFT, and the
/// step.
fn prefill<'a>(s: &Subject<'a>) -> Option<(Line, f64, f64, &'a Step)> {
    let alone = s.alone.filter(|a| is_one(a))?;
    let line = line(&s.facts.lengths, &s.curve.deployment)?;
    let ttft = s.quantiles(alone, Metric::Ttft).p50?;
    Some((line, uncached(alone)?, ttft, alone))
}

pub(super) fn prefill_of_ttft(s: &Subject<'_>) -> Option<Reading> {
    let (line, tokens, ttft_ms, alone) = prefill(s)?;
    let share = (line.per_token_ms * tokens).min(ttft_ms) / ttft_ms;
    let [low, high] = &line.ends;
    let [shortest, longest] = [low, high].map(|end| LengthTtft { tokens: end.tokens, ttft_ms: end.ttft_ms });
    let (per_token_ms, at) = (line.per_token_ms, Place::of(alone));
    let fact = LatencyFact::TtftByLength { shortest, longest, per_token_ms, ttft_ms, at, share };
    let steps = if low.step == high.step { vec![low.step] } else { vec![low.step, high.step] };
    (ttft_ms > 0.0).then(|| Reading::new(share, steps, fact))
}

pub(super) fn prefill_of_missed(s: &Subject<'_>) -> Option<Reading> {
    let (line, tokens, ttft, alone) = prefill(s)?;
    let reading = (line.per_token_ms * tokens).min(ttft);
    if alone.step == s.at.step {
        return Some(Reading::silent(reading / ttft.max(1e-9), [alone.step]));
    }
    let (missed_ms, percentile) = s.missed_ttft()?;
    Some(super::latency::part_of_missed(s, reading / missed_ms, missed_ms, percentile, alone))
}

pub(super) fn line_rises(s: &Subject<'_>) -> Option<Reading> {
    let (line, ..) = prefill(s)?;
    Some(Reading::silent(f64::from(u8::from(line.rises)), []))
}

pub(super) fn base_of_chunk(s: &Subject<'_>) -> Option<Reading> {
    let (pace, tokens) = (Pace::of(s)?, pace::iteration_tokens(s)?);
    let reading_ms = pace.token_ms? * tokens;
    let (base_ms, at_most) = (pace.base_ms, pace.is_upper_bound);
    let fact = IterationFact::IterationOfPrompts { tokens, base_ms, reading_ms, at_most };
    let alone: Vec<u32> = s.alone.map(|alone| alone.step).into_iter().collect();
    Some(Reading::new(base_ms / reading_ms, alone, fact).on(pace.reading_side().inverse()))
}

/// Compares the prompt and output tokens that arrive while an iteration lasts, or those of a mean prompt, with the tokens that it can
/// take. An iteration writes one token of each running sequence, so that it lasts as long as a token: the median TPOT.
pub(super) fn iteration_filled(s: &Subject<'_>) -> Option<Reading> {
    let most = pace::iteration_tokens(s)?;
    let prompt = uncached(s.at)?;
    let arriving = s.quantiles(s.at, Metric::Tpot).p50.map(|iteration_ms| {
        let per_s = s.at.achieved_rate * prompt + s.at.output_tokens_per_s;
        per_s / s.copies() * iteration_ms / 1e3
    });
    Some(Reading::silent(arriving.unwrap_or(0.0).max(prompt) / most, [s.at.step]))
}

pub(super) fn chunk_of_limit(s: &Subject<'_>) -> Option<Reading> {
    let (pace, tokens, limit_ms) = (Pace::of(s)?, pace::stalling_tokens(s)?, s.tpot_limit()?);
    let median = s.token_median(s.at).unwrap_or(pace.base_ms);
    let chunk_ms = median + pace.token_ms? * tokens;
    let fact = IterationFact::Chunk { tokens, chunk_ms, limit_ms, at_most: pace.is_upper_bound };
    Some(Reading::new(chunk_ms / limit_ms, [s.at.step], fact).on(pace.reading_side()))
}

pub(super) fn reading_of_limit(s: &Subject<'_>) -> Option<Reading> {
    let pace = Pace::of(s)?;
    let reading_ms = pace.token_ms? * pace::stalling_tokens(s)?;
    Some(Reading::silent(reading_ms / s.tpot_limit()?, [s.at.step]).on(pace.reading_side()))
}

pub(super) fn base_of_limit(s: &Subject<'_>) -> Option<Reading> {
    let Some(limit) = s.tpot_limit() else { return Some(Reading::silent(0.0, [])) };
    Some(Reading::silent(Pace::of(s)?.base_ms / limit, [s.at.step]))
}

pub(super) fn reading_over_base(s: &Subject<'_>) -> Option<Reading> {
    let (pace, alone) = (Pace::of(s)?, s.alone?);
    let tokens = uncached(alone)?;
    // Prompts too short to tell take hardly longer than a token.
    let reading_ms = pace.token_ms.unwrap_or(0.0) * tokens;
    let (base_ms, at_most) = (pace.base_ms, pace.is_upper_bound);
    let fact = IterationFact::Prompt { tokens, base_ms, reading_ms, at_most };
    Some(Reading::new(reading_ms / base_ms, [alone.step], fact).on(pace.reading_side()))
}

pub(super) fn seats_within_tpot(s: &Subject<'_>) -> Option<Reading> {
    let (seats, within) = (super::seats(s)?, pace::sequences_within_tpot(s)? * s.counted_copies());
    let fact = IterationFact::SequencesWithin { within, seats, limit_ms: s.tpot_limit()? };
    Some(Reading::new(within / seats, [s.at.step], fact))
}

pub(super) fn chunk_within_limit(s: &Subject<'_>) -> Option<Reading> {
    let (chunk, within) = (pace::stalling_tokens(s)?, pace::tokens_within_tpot(s)?);
    Some(Reading::silent(within / chunk, [s.at.step]).on(Pace::of(s)?.reading_side().inverse()))
}

pub(super) fn longest_over_mean(s: &Subject<'_>) -> Option<Reading> {
    let longest = s.curve.settings.longest_prompt? as f64;
    let mean = s.at.input_tokens_mean?;
    let fact = IterationFact::LongestPrompt { tokens: longest, mean };
    (mean > 0.0).then(|| Reading::new(longest / mean, [s.at.step], fact))
}

pub(super) fn prefill_busy(s: &Subject<'_>) -> Option<Reading> {
    let (share, pace) = (pace::prefill_busy(s)?, Pace::of(s)?);
    let at_most = pace.is_upper_bound;
    let fact = IterationFact::PrefillOfTime { share: share.min(1.0), at_most, at: Place::of(s.at) };
    Some(Reading::new(share, [s.at.step], fact).on(pace.reading_side()))
}

/// Compares the median TTFT of a warm and of a cold series under one load, or unloaded.
pub(super) fn warm_times_cold(s: &Subject<'_>) -> Option<Reading> {
    let cold = s.curve.cold.as_ref()?;
    let of_cold = || s.all.iter().filter(|x| x.series == *cold && told(x) && !x.overloaded());
    let same = |x: &Step, warm: &Step| {
        x.kind == warm.kind
            && x.level.control == warm.level.control
            && (x.level.value / warm.level.value).ln().abs() < 0.02
    };
    // Unloaded steps come first: under load only one of the two may wait.
    let warm = s.own().filter(|x| told(x) && !x.overloaded());
    let mut pairs: Vec<(&Step, &Step)> =
        warm.filter_map(|w| Some((w, of_cold().find(|x| same(x, w))?))).collect();
    pairs.sort_by(|a, b| is_one(b.0).cmp(&is_one(a.0)).then(a.0.level.value.total_cmp(&b.0.level.value)));
    let (warm, cold) = *pairs.first()?;
    let [w, c] = [warm, cold].map(|x| x.quantiles(Metric::Ttft).p50);
    let (w, c) = (w?, c.filter(|c| *c > 0.0)?);
    let fact =
        CacheFact::WarmAndCold { warm_ms: w, warm: Place::of(warm), cold_ms: c, cold: Place::of(cold) };
    Some(Reading::new(w / c, [cold.step, warm.step], fact))
}

/// Returns the TPOT of one request alone, with the step.
fn tpot_alone<'a>(steps: impl Iterator<Item = &'a Step>) -> Option<(f64, &'a Step)> {
    let one = steps.filter(|x| is_one(x) && told(x)).max_by_key(|x| x.due_n)?;
    Some((one.quantiles(Metric::Tpot).p50.filter(|t| *t > 0.0)?, one))
}

/// Returns the TPOT of one request alone, its floor, and the step; `None` if it is faster than can be, so that what was served is
/// not what the plan declares.
fn floor_of<'a>(s: &Subject<'a>) -> Option<(f64, f64, &'a Step)> {
    let (machine, model) = s.curve.hardware.as_ref()?;
    let (tpot, alone) = tpot_alone(s.own())?;
    let context = alone.input_tokens_mean.unwrap_or(0.0) + alone.output_tokens_mean.unwrap_or(0.0) / 2.0;
    let floor_ms = machine.decode(model, 1.0, context).floor_ms;
    (tpot >= BELOW * floor_ms).then_some((tpot, floor_ms, alone))
}

pub(super) fn tpot_times_floor(s: &Subject<'_>) -> Option<Reading> {
    let (tpot_ms, floor_ms, alone) = floor_of(s)?;
    let fact = HardwareFact::Floor { floor_ms, tpot_ms, at: Place::of(alone) };
    Some(Reading::new(tpot_ms / floor_ms, [alone.step], fact))
}

pub(super) fn gpus(s: &Subject<'_>) -> Option<Reading> {
    let gpus = s.curve.tensor_parallel?;
    Some(Reading::new(f64::from(gpus), [], HardwareFact::GpusTogether { gpus }))
}

/// Returns the curve that differs in the number of GPUs per copy of the model, the one with the fewest: its subject,
/// and the number of GPUs.
fn fewer<'a>(s: &Subject<'a>) -> Option<(Subject<'a>, u32)> {
    let own = s.curve.tensor_parallel?;
    let others = s.facts.curves.iter().filter(|c| c.tensor_parallel.is_some_and(|n| n < own));
    let model = |c: &super::super::Curve| c.hardware.as_ref().map(|(_, m)| *m);
    let alike = others.filter(|c| model(c) == model(s.curve));
    let least = alike.min_by_key(|c| c.tensor_parallel)?;
    Some((Subject::of(s.all, s.facts, least)?, least.tensor_parallel?))
}

pub(super) fn gain_of_gpus(s: &Subject<'_>) -> Option<Reading> {
    let (fewer, n) = fewer(s)?;
    let own = s.curve.tensor_parallel?;
    let ((now, alone), (before, with_fewer)) = (tpot_alone(s.own())?, tpot_alone(fewer.own())?);
    let added = f64::from(own) / f64::from(n) - 1.0;
    let fact = HardwareFact::TpotByGpus {
        more: GpusTpot { gpus: own, tpot_ms: now, step: alone.step },
        fewer: GpusTpot { gpus: n, tpot_ms: before, step: with_fewer.step },
    };
    (added > 0.0).then(|| Reading::new((before / now - 1.0) / added, [with_fewer.step, alone.step], fact))
}

pub(super) fn lost_between_gpus(s: &Subject<'_>) -> Option<Reading> {
    let (fewer, n) = fewer(s)?;
    let ((now, floor, alone), (before, floor_before, other)) = (floor_of(s)?, floor_of(&fewer)?);
    let (more_ms, fewer_ms) = (now - floor, before - floor_before);
    let fact = HardwareFact::BeyondFloor { more_ms, fewer_ms, fewer: n };
    Some(Reading::new((more_ms - fewer_ms) / now, [other.step, alone.step], fact))
}
