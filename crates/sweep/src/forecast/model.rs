//! The engine of a forecast: the settings of one copy of the server, as far as they are known.

use super::iteration::Iteration;
use super::target::longest_alone;
use crate::bare::Lengths;
use goodput_core::slo::Metric;
use goodput_engine::Model;
use goodput_engine::batch::Drift;
use goodput_engine::batch::cost::{Cost, Formula, PromptCost};
use goodput_engine::batch::{Batch, Limits, Settings};
use goodput_stats::diagnosis::{Assumed, Curve, Knob, NoForecast};
use goodput_stats::stats::step::Step;
use std::num::NonZeroU32;
use std::time::Duration;

/// Coefficient of variation of the time of an iteration, chosen: that of the presets that were fitted to real engines is
/// 10 and 15 %.
const NOISE: f64 = 0.1;
/// Sequences and tokens of an engine whose limits are not known: vLLM's defaults.
const SEQUENCES: NonZeroU32 = NonZeroU32::new(256).expect("positive");
const TOKENS: NonZeroU32 = NonZeroU32::new(8192).expect("positive");
/// Blocks of a KV cache that nothing fills.
const ROOMY: NonZeroU32 = NonZeroU32::new(4_000_000).expect("positive");
/// Tokens of a block, if they are not known.
const BLOCK: NonZeroU32 = NonZeroU32::new(16).expect("positive");
/// Number of values from which a ninetieth percentile is taken.
const LEAST_OF_P90: u64 = 10;
/// Drift that is told from noise, and the most that is taken for drift.
const LEAST_DRIFT: f64 = 0.03;
const MOST_DRIFT: f64 = 0.4;
/// Share of the KV cache in use below which its size does not matter.
const HALF_EMPTY: f64 = 0.5;
const NS_PER_MS: f64 = 1e6;
/// Time over which the speed of an engine drifts: longer than most answers. Fitted to a published table once (the presets of
/// the simulator have 8 s).
const DRIFT_OVER: Duration = Duration::from_secs(8);

/// An engine with its times, and the lengths of the requests that it gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Modelled {
    pub(super) engine: Engine,
    pub(super) iteration: Iteration,
    pub(super) lengths: Lengths,
}

impl Modelled {
    /// Returns the engine, idle, with its times.
    pub(super) fn model(&self) -> Model {
        self.engine.model(&self.iteration)
    }
}

/// An engine without its times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Engine {
    pub(super) limits: Limits,
    pub(super) block_size: NonZeroU32,
    /// Number of copies that share the load.
    pub(super) copies: f64,
    /// Coefficient of variation of its speed over seconds.
    pub(super) drift: f64,
    /// True for the settings that are known, and so can be changed.
    pub(super) knows: Knows,
}

/// The settings of an engine that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Knows {
    pub(super) sequences: bool,
    pub(super) tokens: bool,
    pub(super) kv_cache: bool,
}

fn count(n: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(n).ok()?)
}

impl Engine {
    /// Returns the engine of a curve.
    ///
    /// # Errors
    /// The size of its KV cache is not known, although it fills.
    pub(super) fn of(curve: &Curve, steps: &[&Step]) -> Result<Self, NoForecast> {
        let settings = &curve.settings;
        let block = settings.block_tokens.and_then(NonZeroU32::new).unwrap_or(BLOCK);
        let known = |knob| settings.count(knob).and_then(count);
        let each = curve.seats.map(|n| (f64::from(n) / f64::from(settings.copies())) as u64);
        let sequences = known(Knob::Sequences).or_else(|| each.and_then(count));
        let blocks = settings.kv_tokens.and_then(|n| count(n / u64::from(block.get()) + 1));
        let most_used = steps.iter().filter_map(|s| s.server.kv_max).fold(0.0, f64::max);
        if blocks.is_none() && most_used > HALF_EMPTY {
            return Err(NoForecast::KvCacheUnknown { most_used });
        }
        let tokens = known(Knob::Tokens);
        Ok(Self {
            limits: Limits {
                max_num_seqs: sequences.unwrap_or(SEQUENCES),
                max_num_batched_tokens: tokens.unwrap_or(TOKENS),
                kv_blocks: blocks.unwrap_or(ROOMY),
                // Requests that share nothing have no use for it.
                prefix_cache: curve.shared.is_some() && !settings.is_off(Knob::PrefixCache),
                chunked_prefill: !settings.is_off(Knob::ChunkedPrefill),
            },
            block_size: block,
            copies: f64::from(curve.copies()),
            drift: longest_alone(steps, 0).map_or(0.0, drift),
            knows: Knows {
                sequences: sequences.is_some(),
                tokens: tokens.is_some(),
                kv_cache: blocks.is_some(),
            },
        })
    }

    /// Returns the settings that are not known, with the values taken for them.
    pub(super) fn assumed(&self) -> Assumed {
        let unless = |known: bool, value: NonZeroU32| (!known).then_some(value.get());
        Assumed {
            sequences: unless(self.knows.sequences, self.limits.max_num_seqs),
            tokens: unless(self.knows.tokens, self.limits.max_num_batched_tokens),
        }
    }

    /// Returns the engine, idle, with these times.
    fn model(&self, iteration: &Iteration) -> Model {
        let t = iteration;
        let formula = Formula {
            base_ns: t.host_ms * NS_PER_MS,
            weights_ns: t.weights_ms * NS_PER_MS,
            token_ns: t.token_ms * NS_PER_MS,
            prompt: Some(PromptCost {
                token_ns: t.prompt_token_ms * NS_PER_MS,
                iteration_ns: t.prompt_ms * NS_PER_MS,
            }),
            sequence_ns: t.sequence_ms * NS_PER_MS,
            kv_token_ns: t.kv_token_ms * NS_PER_MS,
            attention_ns: t.attention_ms * NS_PER_MS,
            eager: None,
        };
        Model::Batch(Box::new(Batch::new(Settings {
            limits: self.limits,
            block_size: self.block_size,
            cost: Cost::Formula(formula),
            cv: NOISE,
            drift: (self.drift > 0.0).then_some(Drift { cv: self.drift, over: DRIFT_OVER }),
            seed: 1,
        })))
    }
}

/// Returns the coefficient of variation of an engine's speed over seconds, from the TPOT of one request at a time: the noise
/// of single iterations averages out over an answer, and what is left is drift. Both are taken to be lognormal: the
/// logarithms of the ninetieth percentile and the median are 1.2816 standard deviations apart.
fn drift(alone: &Step) -> f64 {
    let tpot = alone.quantiles(Metric::Tpot);
    let (Some(p50), Some(p90)) = (tpot.p50, tpot.p90) else { return 0.0 };
    if tpot.n < LEAST_OF_P90 || p50 <= 0.0 {
        return 0.0;
    }
    let spread = (p90 / p50).ln() / 1.2816;
    let gaps = alone.output_tokens_mean.unwrap_or(1.0).max(2.0) - 1.0;
    let left = spread.powi(2) - NOISE.powi(2) / gaps;
    if left > LEAST_DRIFT.powi(2) { left.exp_m1().sqrt().min(MOST_DRIFT) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::stats::step::Quantiles;

    /// A step with one request at a time whose TPOT is lognormal with this standard deviation of the logarithm.
    fn alone(sigma: f64, output: f64, n: u64) -> Step {
        let tpot = Quantiles {
            n,
            p50: Some(10.0),
            p90: Some(10.0 * (1.2816 * sigma).exp()),
            ..Quantiles::default()
        };
        let mut step = Step { output_tokens_mean: Some(output), ..Step::default() };
        step.latency.insert(Metric::Tpot, tpot);
        step
    }

    #[test]
    fn drift_is_the_spread_that_single_iterations_do_not_explain() {
        let of = |sigma: f64, output, n| drift(&alone(sigma, output, n));
        // A coefficient of variation c of a lognormal has a variance ln(1 + c²) of the logarithm.
        let sigma = 0.2_f64.powi(2).ln_1p().sqrt();
        assert!((of(sigma, 1e9, 30) - 0.2).abs() < 1e-9);
        assert!(of(NOISE / 3.0, 10.0, 30).abs() < 1e-12, "noise of nine iterations");
        assert!(of(sigma, 1e9, LEAST_OF_P90 - 1).abs() < 1e-12, "too few answers");
        assert!((of(1.0, 100.0, 30) - MOST_DRIFT).abs() < 1e-12);
    }
}
