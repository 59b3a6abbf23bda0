//! The changes that are simulated, one at a time.

use super::iteration::Iteration;
use super::model::{Engine, Modelled};
use crate::bare::Lengths;
use goodput_engine::batch::Limits;
use goodput_stats::diagnosis::{Altered, Curve, Flags, Knob, Load, Server};
use std::num::NonZeroU32;

/// Factors on the sequences that run at a time.
const FEWER_SEQUENCES: [f64; 6] = [0.75, 0.5, 0.25, 0.125, 0.0625, 0.03125];
const MORE_SEQUENCES: [f64; 5] = [1.5, 2.0, 4.0, 8.0, 16.0];
/// Factors on the tokens of an iteration.
const FEWER_TOKENS: [f64; 4] = [0.5, 0.25, 0.125, 0.0625];
const MORE_TOKENS: [f64; 4] = [2.0, 4.0, 8.0, 16.0];
/// Most sequences and tokens that are tried.
const MOST_SEQUENCES: f64 = 4096.0;
const MOST_TOKENS: f64 = 65_536.0;

/// One change: a server in which one thing differs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    pub(super) altered: Altered,
    pub(super) server: Modelled,
}

/// Returns the changes of a server: ladders, each of which is climbed as long as it helps.
pub(super) fn changes(server: &Modelled, curve: &Curve) -> Vec<Vec<Changed>> {
    let mut all = settings(&server.engine, curve, &|altered, engine| Changed {
        altered,
        server: Modelled { engine, ..*server },
    });
    let iteration = &server.iteration;
    let mut faster = |altered, iteration: Iteration| {
        all.push(vec![Changed { altered, server: Modelled { iteration, ..*server } }]);
    };
    faster(Altered::FasterCompute, iteration.with_compute(2.0));
    faster(Altered::FasterMemory, iteration.with_memory(2.0));
    faster(Altered::FasterHost, iteration.with_host(2.0));
    let mut shorter = |altered, lengths: Lengths| {
        all.push(vec![Changed { altered, server: Modelled { lengths, ..*server } }]);
    };
    shorter(Altered::HalfThePrompts, Lengths { prompts: 0.5, ..Lengths::AS_PLANNED });
    shorter(Altered::HalfTheAnswers, Lengths { answers: 0.5, ..Lengths::AS_PLANNED });
    all
}

/// Returns the changes of settings, within the bounds of the server.
fn settings(engine: &Engine, curve: &Curve, of: &dyn Fn(Altered, Engine) -> Changed) -> Vec<Vec<Changed>> {
    let limits = engine.limits;
    let with = |altered, limits| of(altered, Engine { limits, ..*engine });
    let seated = |altered: fn(u32) -> Altered| {
        move |n: NonZeroU32| with(altered(n.get()), Limits { max_num_seqs: n, ..limits })
    };
    let sized = |altered: fn(u32) -> Altered| {
        move |n: NonZeroU32| with(altered(n.get()), Limits { max_num_batched_tokens: n, ..limits })
    };
    let server = Server {
        flags: curve.flags.unwrap_or(Flags::Vllm),
        is_guess: curve.flags.is_none(),
        settings: &curve.settings,
        load: Load::default(),
    };
    let bounded = |now, factors: &[f64], knob, most| {
        let (low, high) = server.bounds(knob);
        scaled(now, factors, low, f64::min(high, most)).into_iter()
    };
    let mut all: Vec<Vec<Changed>> = Vec::new();
    if engine.knows.sequences {
        let of = |factors| bounded(limits.max_num_seqs, factors, Knob::Sequences, MOST_SEQUENCES);
        all.extend(of(&FEWER_SEQUENCES).map(seated(Altered::FewerSequences)).map(|change| vec![change]));
        all.push(of(&MORE_SEQUENCES).map(seated(Altered::MoreSequences)).collect());
    }
    if engine.knows.tokens {
        let of = |factors| bounded(limits.max_num_batched_tokens, factors, Knob::Tokens, MOST_TOKENS);
        all.extend(of(&FEWER_TOKENS).map(sized(Altered::FewerTokens)).map(|change| vec![change]));
        all.push(of(&MORE_TOKENS).map(sized(Altered::MoreTokens)).collect());
    }
    if engine.knows.kv_cache {
        let kv_blocks = limits.kv_blocks.saturating_add(limits.kv_blocks.get());
        all.push(vec![with(Altered::TwiceTheKvCache, Limits { kv_blocks, ..limits })]);
    }
    if !limits.prefix_cache && curve.shared.is_some() {
        all.push(vec![with(Altered::PrefixCache, Limits { prefix_cache: true, ..limits })]);
    }
    if !limits.chunked_prefill {
        all.push(vec![with(Altered::ChunkedPrefill, Limits { chunked_prefill: true, ..limits })]);
    }
    all
}

/// Returns multiples of a number within bounds, without the number itself and without repetitions.
fn scaled(now: NonZeroU32, factors: &[f64], low: f64, high: f64) -> Vec<NonZeroU32> {
    let of = |factor: &f64| (f64::from(now.get()) * factor).round().clamp(low, high.max(low)) as u32;
    let mut all: Vec<NonZeroU32> = factors.iter().map(of).filter_map(NonZeroU32::new).collect();
    // A bound on the wrong side of the present number would turn a change round.
    let up = factors.first().is_some_and(|factor| *factor > 1.0);
    all.retain(|n| if up { *n > now } else { *n < now });
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_within_bounds_and_never_the_other_way() {
        let of = |now, factors: &[f64], low, high| -> Vec<u32> {
            scaled(NonZeroU32::new(now).unwrap(), factors, low, high)
                .into_iter()
                .map(NonZeroU32::get)
                .collect()
        };
        assert_eq!(of(64, &MORE_SEQUENCES, 1.0, 300.0), [96, 128, 256, 300]);
        assert_eq!(of(2, &FEWER_SEQUENCES, 1.0, 4096.0), [1], "once");
        assert!(of(512, &MORE_SEQUENCES, 1.0, 256.0).is_empty(), "more is not fewer");
        assert!(of(128, &FEWER_TOKENS, 256.0, 65_536.0).is_empty(), "fewer is not more");
    }
}
