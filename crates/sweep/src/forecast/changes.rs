//! The changes that are simulated, one at a time.

use super::iteration::Iteration;
use super::model::Engine;
use goodput_engine::batch::Limits;
use goodput_stats::diagnosis::{Altered, Curve, Knob};
use std::num::NonZeroU32;

/// Factors on the sequences that run at a time.
const FEWER_SEQUENCES: [f64; 6] = [0.75, 0.5, 0.25, 0.125, 0.0625, 0.03125];
const MORE_SEQUENCES: [f64; 5] = [1.5, 2.0, 4.0, 8.0, 16.0];
/// Factors on the tokens of an iteration.
const FEWER_TOKENS: [f64; 4] = [0.5, 0.25, 0.125, 0.0625];
const MORE_TOKENS: [f64; 2] = [2.0, 4.0];
/// Most sequences and tokens that are tried.
const MOST_SEQUENCES: f64 = 4096.0;
const MOST_TOKENS: f64 = 65_536.0;

/// One change: an engine and its times, in which one thing differs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    pub(super) altered: Altered,
    pub(super) engine: Engine,
    pub(super) iteration: Iteration,
}

/// Returns the changes of a server: ladders, each of which is climbed as long as it helps.
pub(super) fn changes(engine: &Engine, iteration: &Iteration, curve: &Curve) -> Vec<Vec<Changed>> {
    let of = |altered, engine, iteration| Changed { altered, engine, iteration };
    let mut all = settings(engine, curve, &|altered, engine| of(altered, engine, *iteration));
    let faster = |altered, iteration| vec![of(altered, *engine, iteration)];
    all.push(faster(Altered::FasterCompute, iteration.with_compute(2.0)));
    all.push(faster(Altered::FasterMemory, iteration.with_memory(2.0)));
    all.push(faster(Altered::FasterHost, iteration.with_host(2.0)));
    all
}

/// Returns the changes of settings.
fn settings(engine: &Engine, curve: &Curve, of: &dyn Fn(Altered, Engine) -> Changed) -> Vec<Vec<Changed>> {
    let limits = engine.limits;
    let (sequences, tokens) = (limits.max_num_seqs.get(), limits.max_num_batched_tokens.get());
    let seated = |altered: fn(u32) -> Altered, n: u32| {
        let max_num_seqs = NonZeroU32::new(n)?;
        let limits = Limits { max_num_seqs, ..limits };
        Some(of(altered(n), Engine { limits, ..*engine }))
    };
    let sized = |altered: fn(u32) -> Altered, n: u32| {
        let max_num_batched_tokens = NonZeroU32::new(n)?;
        let limits = Limits { max_num_batched_tokens, ..limits };
        Some(of(altered(n), Engine { limits, ..*engine }))
    };
    let mut all: Vec<Vec<Changed>> = Vec::new();
    if engine.knows.sequences {
        let fewer = scaled(sequences, &FEWER_SEQUENCES, 1.0..=MOST_SEQUENCES);
        all.extend(fewer.into_iter().map(|n| Vec::from_iter(seated(Altered::FewerSequences, n))));
        // vLLM does not start with more sequences than tokens in an iteration.
        let most = MOST_SEQUENCES.min(if engine.knows.tokens { f64::from(tokens) } else { MOST_SEQUENCES });
        let more = scaled(sequences, &MORE_SEQUENCES, 1.0..=most);
        all.push(more.into_iter().filter_map(|n| seated(Altered::MoreSequences, n)).collect());
    }
    if engine.knows.tokens {
        let range = curve.settings.range(Knob::Tokens);
        let whole = curve.settings.count(Knob::MaxLength).filter(|_| !limits.chunked_prefill);
        let least = [
            if engine.knows.sequences { f64::from(sequences) } else { 1.0 },
            whole.map_or(1.0, |n| n as f64),
            f64::from(engine.block_size.get()),
            range.min.unwrap_or(1.0),
        ];
        let least = least.into_iter().fold(1.0, f64::max);
        let fewer = scaled(tokens, &FEWER_TOKENS, least..=MOST_TOKENS);
        all.extend(fewer.into_iter().map(|n| Vec::from_iter(sized(Altered::FewerTokens, n))));
        let more = scaled(tokens, &MORE_TOKENS, least..=range.max.unwrap_or(MOST_TOKENS));
        all.push(more.into_iter().filter_map(|n| sized(Altered::MoreTokens, n)).collect());
    }
    let with = |altered, limits| vec![of(altered, Engine { limits, ..*engine })];
    if engine.knows.kv_cache {
        let kv_blocks = limits.kv_blocks.saturating_mul(NonZeroU32::MIN.saturating_add(1));
        all.push(with(Altered::TwiceTheKvCache, Limits { kv_blocks, ..limits }));
    }
    if !limits.prefix_cache && curve.shared.is_some() {
        all.push(with(Altered::PrefixCache, Limits { prefix_cache: true, ..limits }));
    }
    if !limits.chunked_prefill {
        all.push(with(Altered::ChunkedPrefill, Limits { chunked_prefill: true, ..limits }));
    }
    all
}

/// Returns multiples of a number within bounds, without the number itself and without repetitions.
fn scaled(now: u32, factors: &[f64], within: std::ops::RangeInclusive<f64>) -> Vec<u32> {
    let of = |factor: &f64| {
        (f64::from(now) * factor).round().clamp(*within.start(), within.end().max(*within.start()))
    };
    let mut all: Vec<u32> = factors.iter().map(|factor| of(factor) as u32).collect();
    // A bound on the wrong side of the present number would turn a change round.
    let up = factors.first().is_some_and(|factor| *factor > 1.0);
    all.retain(|n| if up { *n > now } else { *n < now });
    all.dedup();
    all
}
