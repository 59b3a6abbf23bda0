//! Suggested numbers: counts and shares.

use super::super::flags::{Flags, Knob};
use super::super::settings::{Current, Origin, Settings, Value};
use super::{Basis, Bound, Flag, NewValue, Server, Suggestion};

/// Largest share of a GPU's memory that is advised. vLLM needs the rest for CUDA graphs and communication, which it
/// does not count.
const MOST_MEMORY: f64 = 0.95;
/// Step of a share of memory. SGLang's tuning guide raises its share in steps of 0.01, since nothing checks it at the
/// start.
const SHARE_STEP: f64 = 0.05;
const SGLANG_STEP: f64 = 0.02;
/// Largest multiple of a present number.
const MOST: f64 = 4.0;
/// Multiple of the present sequences where memory and the limit on TPOT have room.
const MOST_SEQUENCES: f64 = 8.0;
/// Parts of the running requests that remain: while the cache is full, and otherwise.
const SHORT_OF_MEMORY: f64 = 0.75;
const HALF: f64 = 0.5;
/// Lengths are rounded up to a multiple of this.
const LENGTH_STEP: u64 = 256;

/// A suggested number with what it follows from.
type Target = (f64, Basis);

impl Server<'_> {
    /// Returns the suggestion for a number.
    pub(super) fn number(&self, flag: Flag, knob: Knob, from: Option<Current>, raise: bool) -> Suggestion {
        let (settings, flags) = (self.settings, self.flags);
        // Without a value it is unlimited.
        let unlimited = (flags, knob, raise) == (Flags::Tgi, Knob::Sequences, true);
        if unlimited && from.as_ref().is_none_or(|c| c.origin == Origin::Seen) {
            return Suggestion::NoFlag;
        }
        let now = from.as_ref().and_then(|c| c.value.number());
        // Gauges are sampled, so that the peak may be higher.
        let unused = |now: f64| self.load.running_most.is_some_and(|most| most < HALF * now);
        if let Some(current) =
            from.clone().filter(|_| raise && knob == Knob::Sequences && now.is_some_and(unused))
        {
            return Suggestion::AtBound(current, Bound::Unused);
        }
        let target = match knob {
            // Nothing tells how many bytes are left.
            Knob::KvSize if flags == Flags::Vllm => None,
            Knob::Sequences if raise => now.map(|now| self.more_sequences(now)),
            Knob::Sequences => self.fewer_sequences(now),
            Knob::Tokens if raise => now.map(|now| (more_tokens(settings, now), Basis::Multiple)),
            Knob::Tokens => now.map(|now| self.fewer_tokens(now)),
            Knob::Memory => now.map(|now| (self.share(now, raise), Basis::Step)),
            Knob::MaxLength if !raise => settings.longest_request.map(longest),
            Knob::PrefillChunk => self.chunk(now, raise),
            Knob::Replicas => now.map(|now| (if raise { now + 1.0 } else { now - 1.0 }, Basis::Multiple)),
            Knob::KvSize
            | Knob::KvBlocks
            | Knob::MaxLength
            | Knob::TensorParallel
            | Knob::MaxQueued
            | Knob::ChunkedPrefill
            | Knob::KvType
            | Knob::Quantisation
            | Knob::PrefixCache
            | Knob::Graphs
            | Knob::Speculative => {
                now.map(|now| (if raise { 2.0 * now } else { HALF * now }, Basis::Multiple))
            }
        };
        let Some((target, basis)) = target else { return Suggestion::Toward { flag, from } };
        let (low, high) = self.bounds(knob);
        // Rounding must not make a length too short.
        let exact = knob == Knob::Memory || matches!(basis, Basis::LongestRequest { .. });
        let to = if exact { target.clamp(low.min(high), high) } else { whole(target, low, high, raise) };
        let least = if knob == Knob::Memory { 0.0099 } else { 0.5 };
        let moves = now.is_none_or(|now| if raise { to - now > least } else { now - to > least });
        let outside = to < low || to > high;
        match from {
            None if outside => Suggestion::Toward { flag, from: None },
            Some(current) if !moves || outside => {
                let full = matches!(basis, Basis::KvRoom { .. }) && target < high;
                Suggestion::AtBound(current, if full { Bound::KvCache } else { Bound::Range })
            }
            from => {
                let to = if knob == Knob::Memory {
                    Value::Share((to * 100.0).round() / 100.0)
                } else {
                    Value::Count(to as u64)
                };
                let with = self.with(knob, now, &to);
                Suggestion::Set(NewValue { flag, from, to, basis, with })
            }
        }
    }

    /// Returns the smallest and the largest number that the engine accepts for a setting and that is safe.
    pub fn bounds(&self, knob: Knob) -> (f64, f64) {
        let count = |knob| self.settings.count(knob).map(|n| n as f64);
        let batches = match self.flags {
            Flags::Vllm | Flags::Simulated => true,
            Flags::Sglang | Flags::Tgi | Flags::LlamaCpp | Flags::TensorRtLlm | Flags::SimulatedQueue => {
                false
            }
        };
        let most = f64::from(u32::MAX);
        let (low, high) = match knob {
            Knob::Memory => (0.01, if self.flags == Flags::Tgi { 1.0 } else { MOST_MEMORY }),
            // vLLM does not start with more sequences than tokens in an iteration.
            Knob::Sequences if batches => (1.0, count(Knob::Tokens).unwrap_or(most)),
            Knob::Tokens => {
                let whole = count(Knob::MaxLength).filter(|_| self.settings.is_off(Knob::ChunkedPrefill));
                let block = self.settings.block_tokens.map(f64::from);
                let least = [count(Knob::Sequences), whole, block].into_iter().flatten();
                (least.fold(1.0, f64::max), most)
            }
            Knob::PrefillChunk => (1.0, count(Knob::MaxLength).unwrap_or(most)),
            Knob::KvSize if self.flags == Flags::Vllm => (1.0, f64::INFINITY),
            Knob::Sequences
            | Knob::KvSize
            | Knob::KvBlocks
            | Knob::ChunkedPrefill
            | Knob::KvType
            | Knob::Quantisation
            | Knob::TensorParallel
            | Knob::Replicas
            | Knob::PrefixCache
            | Knob::MaxLength
            | Knob::Graphs
            | Knob::Speculative
            | Knob::MaxQueued => (1.0, most),
        };
        let range = self.settings.range(knob);
        (range.min.map_or(low, |min| low.max(min)), range.max.map_or(high, |max| high.min(max)))
    }

    /// Returns the requests of mean length that the KV cache has room for, as the basis of a value. Each takes whole blocks.
    fn room(&self) -> Option<Target> {
        let tokens = self.load.request_tokens.filter(|n| *n >= 1.0)?;
        let block_tokens = self.settings.block_tokens.filter(|n| *n > 0);
        let block = f64::from(block_tokens.unwrap_or(1));
        let taken = (tokens / block).ceil() * block;
        let requests = self.settings.kv_tokens? as f64 / taken;
        Some((requests.floor(), Basis::KvRoom { requests, tokens, block_tokens }))
    }

    /// Returns eight times as many sequences, as far as the KV cache has room for them and the limit on TPOT allows; twice
    /// as many if the room is not known.
    ///
    /// Seats that stay empty cost nothing, and too few of them cost a queue: where nothing forbids it, the advice does not
    /// creep.
    fn more_sequences(&self, now: f64) -> Target {
        let Some(room) = self.room() else { return (2.0 * now, Basis::Multiple) };
        let wanted = (MOST_SEQUENCES * now, Basis::Multiple);
        let allowed = self.load.sequences_within_tpot.zip(self.load.tpot_limit_ms);
        let allowed = allowed.map(|(n, limit_ms)| (n.max(2.0 * now), Basis::TpotLimit { limit_ms }));
        let least = |a: Target, b: Target| if b.0 < a.0 { b } else { a };
        least(allowed.map_or(wanted, |allowed| least(wanted, allowed)), room)
    }

    /// Returns fewer sequences than ran: as many as the KV cache has room for if it was full, or as the limit on TPOT
    /// allows, else half.
    fn fewer_sequences(&self, now: Option<f64>) -> Option<Target> {
        let allowed = self.load.sequences_within_tpot.zip(self.load.tpot_limit_ms);
        if let Some((n, limit_ms)) = allowed.filter(|_| !self.load.short_of_memory) {
            return Some((n.floor().max(1.0), Basis::TpotLimit { limit_ms }));
        }
        let ran = self.load.running.map(f64::ceil);
        let most = now.into_iter().chain(ran).reduce(f64::min)?;
        let room = self.room().filter(|(room, _)| self.load.short_of_memory && *room < most);
        let part = if self.load.short_of_memory { SHORT_OF_MEMORY } else { HALF };
        let basis = match self.load.running {
            Some(running) if now.is_none_or(|now| running < now) => Basis::Running { running },
            Some(_) | None => Basis::Multiple,
        };
        Some(room.unwrap_or(((part * most).floor(), basis)))
    }

    /// Returns fewer tokens per iteration: beside the running sequences as many prompt tokens as the limit on TPOT allows,
    /// else half.
    fn fewer_tokens(&self, now: f64) -> Target {
        match self.iteration_within_tpot().zip(self.load.tpot_limit_ms) {
            Some((n, limit_ms)) => (n, Basis::TpotLimit { limit_ms }),
            None => (HALF * now, Basis::Multiple),
        }
    }

    fn share(&self, now: f64, raise: bool) -> f64 {
        let step = if self.flags == Flags::Sglang { SGLANG_STEP } else { SHARE_STEP };
        if raise { now + step } else { now - step }
    }

    /// Returns the part of an iteration for a long prompt: half or twice the present one, or half an iteration where
    /// there is no limit yet.
    fn chunk(&self, now: Option<f64>, raise: bool) -> Option<Target> {
        match now.filter(|now| *now > 0.0) {
            Some(now) => Some((if raise { 2.0 * now } else { HALF * now }, Basis::Multiple)),
            None if raise => None,
            None => self.settings.count(Knob::Tokens).map(|n| (HALF * n as f64, Basis::HalfIteration)),
        }
    }

    /// Returns another setting that has to follow: the context of llama-server, which its slots divide.
    fn with(&self, knob: Knob, now: Option<f64>, to: &Value) -> Option<(Flag, Value)> {
        let (now, Value::Count(to)) = (now?, to) else { return None };
        if knob != Knob::Sequences || !self.settings.divided_context {
            return None;
        }
        let context = self.settings.count(Knob::KvSize).filter(|n| *n > 0)?;
        let scaled = (context as f64 * *to as f64 / now).round() as u64;
        Some((self.flag(Knob::KvSize)?, Value::Count(scaled)))
    }
}

/// Returns four times as many tokens per iteration, but no more than the longest request has, or at least twice as many.
fn more_tokens(settings: &Settings, now: f64) -> f64 {
    let longest = settings.count(Knob::MaxLength).map_or(0.0, |n| n as f64);
    (MOST * now).min(longest).max(2.0 * now)
}

fn longest(tokens: u64) -> Target {
    (tokens.next_multiple_of(LENGTH_STEP) as f64, Basis::LongestRequest { tokens })
}

/// Rounds a number to four binary digits, away from no bound: 153 becomes 144. A number at a bound is left as it is.
fn whole(target: f64, low: f64, high: f64, raise: bool) -> f64 {
    let within = target.clamp(low.min(high), high).floor().max(0.0);
    if within < 16.0 || within >= f64::from(u32::MAX) {
        return within;
    }
    let unit = 2.0_f64.powf(within.log2().floor() - 3.0);
    let rounded = (within / unit).floor() * unit;
    // Only numbers that grow may lose by rounding without missing the lower bound.
    if raise || rounded >= low { rounded.max(low) } else { within }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: tokens of a request and of a block, of a cache of 682 blocks of 128 tokens; the requests it has room for.
    #[test]
    fn a_request_takes_whole_blocks() {
        for (tokens, block_tokens, requests) in [
            (476.0, Some(128), 170.5),
            (128.0, Some(128), 682.0),
            (129.0, Some(128), 341.0),
            (476.0, None, 183.4),
        ] {
            let mut settings = Settings::default();
            (settings.kv_tokens, settings.block_tokens) = (Some(682 * 128), block_tokens);
            settings.set(Knob::Sequences, Value::Count(32), Origin::CommandLine);
            let load = super::super::Load { request_tokens: Some(tokens), ..Default::default() };
            let server = Server { flags: Flags::Vllm, is_guess: false, settings: &settings, load };
            let (room, _) = server.room().unwrap();
            assert!((room - f64::floor(requests)).abs() < 1e-9, "{tokens} in {block_tokens:?}: {room}");
        }
    }

    #[test]
    fn numbers_are_rounded_within_their_bounds() {
        for (target, low, high, raise, rounded) in [
            (9.7, 1.0, 100.0, true, 9.0),
            (153.0, 1.0, 1e9, true, 144.0),
            (256.0, 1.0, 1e9, true, 256.0),
            (300.0, 1.0, 200.0, true, 192.0),
            (17.0, 17.0, 100.0, false, 17.0),
            (0.5, 1.0, 100.0, false, 1.0),
        ] {
            assert!((whole(target, low, high, raise) - rounded).abs() < 1e-9, "{target}");
        }
    }
}
