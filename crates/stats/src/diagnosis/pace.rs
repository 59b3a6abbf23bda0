//! The duration of an iteration, as far as latencies tell: its fixed part, what a prompt token adds, and what a sequence
//! adds. From it follow how many of both keep a limit on TPOT.
//!
//! A continuous-batching engine writes one token of every running sequence in an iteration, and reads prompts in the
//! tokens that are left (Yu et al., *Orca*, OSDI 2022; Agrawal et al., *Sarathi-Serve*, OSDI 2024). The time of an
//! iteration is taken as linear in the sequences that decode and in the prompt tokens that it reads.

use super::facts::Curve;
use super::figure::{Figure, Side};
use super::flags::Knob;
use super::floor::uncached;
use super::subject::Subject;
use goodput_core::slo::Metric;

/// Share of the time above which the estimate of reading is wrong: prompts cannot be read for longer than there is time.
const MOST_BUSY: f64 = 1.2;
/// Least mean number of running requests from which the growth of TPOT is read.
const SEVERAL: f64 = 2.0;
/// Least share of the declared rate of computing at which an engine reads prompts, where that is what takes the time: time beyond it
/// is spent on something else, such as the host. Good engines reach 0.4 to 0.7 with long prompts.
const LEAST_EFFICIENCY: f64 = 0.2;
/// Part of a limit that a suggested value uses: medians of a few dozen requests scatter by some per cent.
const ROOM: f64 = 0.9;
/// Least factor by which a step beyond the limit lowers the sequences that keep it.
const LEAST_ROOM: f64 = 0.7;
/// Least share of prompt throughput to spare: a smaller chunk that cannot read the prompts in time makes a queue.
const SPARE: f64 = 1.5;

/// The duration of an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// Time of a token of one request alone, in milliseconds: an iteration without prompts.
    pub(super) base_ms: f64,
    /// Time to read one prompt token, in milliseconds; `None` if the prompts are too short to tell.
    pub(super) token_ms: Option<f64>,
    /// True if `token_ms` is an upper bound: prompts of one length do not tell reading from what every request costs before
    /// its first token (tokenising, scheduling, the first sampling).
    pub(super) is_upper_bound: bool,
}

impl Pace {
    /// Returns the pace of a curve's server; `None` without a step with one request at a time.
    pub(super) fn of(s: &Subject<'_>) -> Option<Self> {
        let alone = s.alone.filter(|step| super::is_one(step))?;
        let base_ms = s.quantiles(alone, Metric::Tpot).p50.filter(|t| *t > 0.0)?;
        let line = super::fit::line(&s.facts.lengths, &s.curve.deployment);
        let is_upper_bound = line.is_none();
        let token_ms = line.map(|line| line.per_token_ms).or_else(|| most_token_ms(s, base_ms));
        Some(Self { base_ms, token_ms, is_upper_bound })
    }

    /// Returns how a figure that grows with `token_ms` relates to its true value.
    pub(super) const fn reading_side(self) -> Side {
        if self.is_upper_bound { Side::AtMost } else { Side::Exact }
    }
}

/// Returns the longest time per prompt token that a step with one request at a time allows: what its TTFT leaves after an
/// iteration for each part of its prompt. `None` if longer prompts are not slower, so that reading is no part of it.
fn most_token_ms(s: &Subject<'_>, base_ms: f64) -> Option<f64> {
    if super::fit::is_flat(&s.facts.lengths, &s.curve.deployment) {
        return None;
    }
    let alone = s.alone?;
    let ttft = s.quantiles(alone, Metric::Ttft).p50?;
    let read = uncached(alone)?;
    // The time between client and server is no reading.
    let network = Figure::NetworkOfTtft.of(s).map_or(0.0, |share| share.value.max(0.0));
    let parts = iteration_tokens(s).map_or(1.0, |n| (read / n).ceil().max(1.0));
    let reading = ttft * (1.0 - network) - parts * base_ms;
    let token_ms = (reading > 0.1 * base_ms && read > 0.0).then_some(reading / read)?;
    Some(most_computing_ms(s.curve).map_or(token_ms, |most| token_ms.min(most)))
}

/// Returns the longest time, in milliseconds, that a prompt token can take by computing on the declared hardware; `None` if the plan
/// declares none.
pub fn most_computing_ms(curve: &Curve) -> Option<f64> {
    Some(least_computing_ms(curve)? / LEAST_EFFICIENCY)
}

/// Returns the time, in milliseconds, that the products of a token take at the full rate of the declared hardware; `None` if the
/// plan declares none.
pub fn least_computing_ms(curve: &Curve) -> Option<f64> {
    let (machine, model) = curve.hardware.as_ref()?;
    machine.prefill(model, 1.0).compute_ms
}

/// Returns the most tokens of an iteration, if known.
pub(super) fn iteration_tokens(s: &Subject<'_>) -> Option<f64> {
    s.curve.settings.count(Knob::Tokens).map(|n| n as f64).filter(|n| *n > 0.0)
}

/// Returns true if prompts are read whole.
pub(super) fn reads_whole_prompts(s: &Subject<'_>) -> bool {
    s.curve.settings.is_off(Knob::ChunkedPrefill)
}

/// Returns the tokens of the longest prompt that an iteration can take at once.
fn chunk(s: &Subject<'_>) -> Option<f64> {
    let longest = s.curve.settings.longest_prompt? as f64;
    Some(if reads_whole_prompts(s) { longest } else { iteration_tokens(s)?.min(longest) })
}

/// Returns the prompt tokens that one copy reads in a second at the examined step.
fn tokens_read_per_s(s: &Subject<'_>) -> Option<f64> {
    Some(s.at.achieved_rate * uncached(s.at)? / s.copies())
}

/// Returns the share of the time in which the engine reads prompts at the examined step.
pub(super) fn prefill_busy(s: &Subject<'_>) -> Option<f64> {
    let token_ms = Pace::of(s)?.token_ms?;
    let share = tokens_read_per_s(s)? * token_ms / 1e3;
    (share < MOST_BUSY).then_some(share)
}

/// Returns the prompt tokens by which the longest prompt delays each token of a mean answer: those of an iteration, or the
/// whole prompt spread over the answer if that is less.
///
/// An answer of O tokens meets min(O, L/B) of the iterations that read a prompt of L tokens in chunks of B, each longer by
/// the time of B tokens: its TPOT grows by the time of min(B, L/O). Chunks above L/O are no worse than a prompt read whole.
pub(super) fn stalling_tokens(s: &Subject<'_>) -> Option<f64> {
    let longest = s.curve.settings.longest_prompt? as f64;
    let answer = s.at.output_tokens_mean?.max(1.0);
    Some(chunk(s)?.min(longest / answer))
}

/// Returns how many prompt tokens an iteration can read beside the running sequences within the limit on TPOT; `None`
/// if they could not read the prompts in time.
pub(super) fn tokens_within_tpot(s: &Subject<'_>) -> Option<f64> {
    let limit = s.tpot_limit()?;
    let token_ms = Pace::of(s)?.token_ms?;
    let decode = s.token_median(s.at)?;
    let tokens = (ROOM * limit - decode) / token_ms;
    let per_second = 1e3 * tokens / limit;
    (tokens >= 1.0 && per_second > SPARE * tokens_read_per_s(s)?).then_some(tokens)
}

/// Returns how many sequences can run on one copy within the limit on TPOT: those at the examined step, with two standard
/// deviations of a number that varies as that of a Poisson process does, for a step whose tail of TPOT is at the limit.
///
/// A tail is made of the times at which the most sequences ran. In proportion to what the limit leaves above the time of
/// one request alone, for a step that is not at its limit.
pub(super) fn sequences_within_tpot(s: &Subject<'_>) -> Option<f64> {
    let (limit, base) = (s.tpot_limit()?, Pace::of(s)?.base_ms);
    let running = s.at.server.running_mean.map(|n| n / s.counted_copies()).filter(|n| *n > SEVERAL)?;
    let tail = s.token_tail(s.at)?.0;
    let most = running + 2.0 * running.sqrt();
    // Far beyond the limit a tail tells little about the boundary.
    let room = ((limit - base) / (tail - base)).max(LEAST_ROOM);
    (tail > base && limit > base).then(|| (most * room).max(1.0))
}
