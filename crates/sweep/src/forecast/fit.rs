//! The time of an iteration, fitted to the steps of a run.
//!
//! One request alone gives the first estimates. Then steps of the run are simulated, with the requests that were sent, and the
//! parts of the time are varied one after the other, by factors that shrink, as long as the latencies come nearer to the
//! measured ones (a pattern search: Hooke and Jeeves, Journal of the ACM 8, 1961).

use super::iteration::Iteration;
use super::load::Load;
use super::model::{Engine, Modelled};
use super::target::{Target, answered, longest_alone, targets};
use crate::bare::Lengths;
use anyhow::Result;
use goodput_core::slo::Metric;
use goodput_stats::diagnosis::{
    Curve, Facts, NoForecast, QUICK_MS, is_flat, is_one, least_computing_ms, most_computing_ms, per_token_ms,
    uncached,
};
use goodput_stats::stats::step::Step;

/// Factors by which the parts are varied, in turn: of a sum, and once the sum is fitted.
const FACTORS: [f64; 3] = [1.5, 1.25, 1.1];
const LATER_FACTORS: [f64; 2] = [1.4, 1.15];
/// Times that a factor is tried on all parts, as long as it helps.
const ROUNDS: u32 = 4;
/// Factor on the deviation below which a variation is taken: less is the noise of the simulation.
const BETTER: f64 = 0.99;
/// Largest mean deviation from the measured latencies, as a logarithm, of a fit that is believed.
const BELIEVED: f64 = 0.25;
/// Least number of requests of a step with one at a time.
const LEAST_ALONE: u64 = 6;
/// Largest share of the fixed part that hides others at the start of the fit.
const MOST_HIDING: f64 = 0.6;
/// Share of a sequence's part that is hidden, at the start of the fit.
const HIDDEN: f64 = 0.2;
/// Share of the fixed part that is memory, if the plan does not declare the model, at least and at most: of a short iteration
/// little, since the host's work takes some milliseconds in every engine.
const MEMORY_OF_QUICK: [f64; 2] = [0.15, 0.5];
const MEMORY_OF_SLOW: [f64; 2] = [0.6, 0.9];
/// Share of a prompt token's products that attending to one token takes, if the model is not declared: that of 8 billion
/// parameters in 32 layers.
const ATTENTION: f64 = 1.1e-4;
/// Time to read the keys and values of a token, if the model is not declared: 131 kB (8 billion parameters with grouped
/// heads, 16 bits) at 2 TB/s.
const KV_TOKEN_MS: f64 = 65e-6;
/// Most that the host works for a sequence in an iteration, in milliseconds: it schedules, samples and writes one token. What a
/// sequence takes beyond that is the GPU's.
const MOST_OF_HOST_MS: f64 = 0.08;
/// Share of the time of reading a prompt that depends on its tokens, at the start of the fit, where longer prompts are not slower.
const OF_FLAT: f64 = 0.05;
/// Share of the time of reading a prompt that does not depend on its tokens, at the start of the fit with such a part.
const OVERHEAD: f64 = 0.3;

/// The parts that are varied.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parts {
    /// Time of an iteration with one sequence and no prompt.
    fixed: f64,
    /// Share of it that can hide prompt tokens.
    hiding: f64,
    /// More for an iteration with prompt tokens.
    prompt: f64,
    /// For each prompt token.
    prompt_token: f64,
    /// For each sequence beyond the first, with keys and values of a mean request.
    sequence: f64,
    /// Share of it that the reading of the weights can hide.
    hidden: f64,
}

/// The composition of the parts, known before the fit.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// Share of the fixed part that is memory, at least and at most.
    memory: [f64; 2],
    /// Share of a sequence's part that is reading keys and values.
    kv: f64,
    /// Time in which a prompt token attends to one token before it, as a share of that of its other products.
    attention: f64,
    /// Tokens of a mean request at half of its answer.
    context: f64,
    /// Longest time that a prompt token can take by computing, if the plan declares the hardware.
    most_computing_ms: Option<f64>,
    /// Time of a token's products at the full rate of the declared hardware; 0 if the plan declares none.
    least_computing_ms: f64,
}

/// Returns the engines that reproduce the steps: with times that are a sum, with times in which reading the weights hides a
/// part, and with a cost of its own for an iteration that reads prompts, since latencies hardly tell which is true; or why
/// there are none.
pub(super) fn fit(
    load: &Load<'_>,
    engine: &Engine,
    curve: &Curve,
    facts: &Facts,
    steps: &[&Step],
    measured: Option<f64>,
) -> Result<Result<Vec<Modelled>, NoForecast>> {
    let Some(alone) = longest_alone(steps, LEAST_ALONE) else {
        let requests = steps.iter().filter(|s| is_one(s)).map(|s| answered(s)).max().unwrap_or(0);
        return Ok(Err(NoForecast::FewUnloaded { requests, least: LEAST_ALONE }));
    };
    let targets = targets(load.plan, engine, steps, alone, measured);
    let Some((start, shares)) = start(engine, curve, facts, alone, &targets) else {
        return Ok(Err(NoForecast::UnloadedIncomplete));
    };
    // The mean over the steps, or more than `most` as soon as that is certain.
    let server = |parts: &Parts| Modelled {
        engine: *engine,
        iteration: parts.iteration(&shares),
        lengths: Lengths::AS_PLANNED,
    };
    let misfit = &|parts: &Parts, most: f64| -> Result<f64> {
        let (server, n) = (server(parts), targets.len() as f64);
        let mut sum = 0.0;
        for target in &targets {
            sum += target.deviation(load, &server)? / n;
            if sum > most {
                break;
            }
        }
        Ok(sum)
    };
    // Where prompts of several lengths tell that an iteration with prompts takes longer, by how much is as uncertain as the rest.
    let of_sum = if start.prompt > 0.0 { FittedPart::OVERHEAD } else { FittedPart::LINEAR };
    let linear = search((start, misfit(&start, f64::INFINITY)?), of_sum, &FACTORS, misfit)?;
    let hiding = Parts { hiding: mean(shares.memory).min(MOST_HIDING), hidden: HIDDEN, ..linear.0 };
    let roofline =
        search((hiding, misfit(&hiding, f64::INFINITY)?), FittedPart::ROOFLINE, &LATER_FACTORS, misfit)?;
    let overhead = linear.0.with_overhead(alone, engine);
    let overhead =
        search((overhead, misfit(&overhead, f64::INFINITY)?), FittedPart::OVERHEAD, &LATER_FACTORS, misfit)?;
    let fits = [linear, roofline, overhead];
    for (parts, deviation) in &fits {
        tracing::debug!("{}: {parts:?} deviates from the steps by {deviation:.3}", load.plan.name);
    }
    let deviation = fits.iter().map(|(_, deviation)| *deviation).fold(f64::INFINITY, f64::min);
    if deviation > BELIEVED {
        return Ok(Err(NoForecast::Latencies { deviation, allowed: BELIEVED }));
    }
    let believed = fits.into_iter().filter(|(_, deviation)| *deviation <= BELIEVED);
    Ok(Ok(believed.map(|(parts, _)| server(&parts)).collect()))
}

impl Parts {
    fn iteration(&self, shares: &Shares) -> Iteration {
        let token_ms = self.hidden * self.sequence;
        let seen = self.sequence - token_ms;
        let kv_token_ms = shares.kv * seen / shares.context;
        let sequence_ms = (1.0 - shares.kv) * seen;
        // A token of an answer takes the products of a prompt token, unless they are known to be hidden.
        let products_ms = (self.prompt_token.max(shares.least_computing_ms) - token_ms)
            .max(sequence_ms - MOST_OF_HOST_MS)
            .clamp(0.0, sequence_ms);
        let fixed = (self.fixed - seen).max(0.1 * self.fixed);
        let weights_ms = fixed * self.hiding;
        Iteration {
            host_ms: fixed - weights_ms,
            weights_ms,
            prompt_ms: self.prompt,
            prompt_token_ms: self.prompt_token,
            attention_ms: shares.attention * self.prompt_token,
            token_ms,
            sequence_ms,
            products_ms,
            kv_token_ms,
            memory: shares.memory,
            computing: shares
                .most_computing_ms
                .map_or(1.0, |most| (most / self.prompt_token.max(1e-12)).min(1.0)),
        }
    }

    /// Returns parts that read prompts in nearly the same time, but a share of it for an iteration and not for a token.
    fn with_overhead(&self, alone: &Step, engine: &Engine) -> Self {
        let most = f64::from(engine.limits.max_num_batched_tokens.get());
        let read = uncached(alone).unwrap_or(1.0).clamp(1.0, most);
        let moved = OVERHEAD * self.prompt_token;
        Self { prompt_token: self.prompt_token - moved, prompt: self.prompt + moved * read, ..*self }
    }

    /// Returns the parts with one of them larger or smaller by a factor.
    fn varied(&self, part: FittedPart, factor: f64) -> Self {
        match part {
            FittedPart::PromptToken => Self { prompt_token: self.prompt_token * factor, ..*self },
            FittedPart::Prompt => Self { prompt: self.prompt * factor, ..*self },
            // It is the least certain at the start.
            FittedPart::Sequence => Self { sequence: self.sequence * factor.powi(2), ..*self },
            FittedPart::Fixed => Self { fixed: self.fixed * factor.sqrt(), ..*self },
            FittedPart::Hiding => Self { hiding: shifted(self.hiding, factor), ..*self },
            FittedPart::Hidden => Self { hidden: shifted(self.hidden, factor), ..*self },
        }
    }
}

/// Returns a share that is moved by the logarithm of a factor.
fn shifted(share: f64, factor: f64) -> f64 {
    (share + factor.ln()).clamp(0.0, 0.95)
}

/// A part that is varied.
#[derive(Debug, Clone, Copy)]
enum FittedPart {
    PromptToken,
    Prompt,
    Sequence,
    Fixed,
    Hiding,
    Hidden,
}

impl FittedPart {
    /// The parts of a time that is a sum.
    const LINEAR: &[Self] = &[Self::PromptToken, Self::Sequence, Self::Fixed];
    /// Those of a sum, with a part for an iteration with prompts.
    const OVERHEAD: &[Self] = &[Self::PromptToken, Self::Prompt, Self::Sequence, Self::Fixed];
    /// Those of a time in which reading the weights hides a part.
    const ROOFLINE: &[Self] = &[Self::Hiding, Self::Hidden, Self::PromptToken, Self::Sequence, Self::Fixed];
}

/// Returns the parts with the least misfit that the pattern search finds, with the misfit.
fn search(
    mut best: (Parts, f64),
    parts: &[FittedPart],
    factors: &[f64],
    misfit: impl Fn(&Parts, f64) -> Result<f64>,
) -> Result<(Parts, f64)> {
    for factor in factors {
        for _ in 0..ROUNDS {
            let tried = round(best, parts, *factor, &misfit)?;
            let helped = tried.1 < best.1;
            best = tried;
            if !helped {
                break;
            }
        }
    }
    Ok(best)
}

/// Tries each part larger and smaller by a factor, and keeps what comes nearer.
fn round(
    mut best: (Parts, f64),
    parts: &[FittedPart],
    factor: f64,
    misfit: impl Fn(&Parts, f64) -> Result<f64>,
) -> Result<(Parts, f64)> {
    for part in parts {
        for factor in [factor, 1.0 / factor] {
            let varied = best.0.varied(*part, factor);
            let deviation = misfit(&varied, best.1)?;
            if deviation < BETTER * best.1 {
                best = (varied, deviation);
                break;
            }
        }
    }
    Ok(best)
}

/// Returns the first estimates, from one request alone and the growth of TPOT; `None` without a TPOT or a TTFT.
fn start(
    engine: &Engine,
    curve: &Curve,
    facts: &Facts,
    alone: &Step,
    targets: &[Target<'_>],
) -> Option<(Parts, Shares)> {
    let ttft = alone.quantiles(Metric::Ttft).p50?;
    let fixed = alone.quantiles(Metric::Tpot).p50.filter(|t| *t > 0.0).unwrap_or(0.5 * ttft);
    let input = alone.input_tokens_mean?.max(1.0);
    let output = alone.output_tokens_mean.unwrap_or(1.0).max(1.0);
    let read = uncached(alone)?.max(1.0);
    let parts = (read / f64::from(engine.limits.max_num_batched_tokens.get())).ceil();
    let rest = (ttft - parts * fixed).max(0.05 * ttft);
    let attention = attention(curve);
    // With the attention of a mean prompt token to those before it.
    let attending = 1.0 + attention * (input - 0.5 * read);
    let share = || if is_flat(&facts.lengths, &curve.deployment) { OF_FLAT } else { 1.0 };
    let slope = per_token_ms(&facts.lengths, &curve.deployment).unwrap_or_else(|| share() * rest / read);
    let prompt_token = slope / attending;
    let prompt = ((rest - prompt_token * attending * read) / parts).max(0.0);
    let more = targets.iter().filter(|t| !is_one(t.step)).filter_map(|t| {
        let tpot = t.step.quantiles(Metric::Tpot).p50?;
        let busy = (t.ask.level.value * read * prompt_token / 1e3).min(0.9);
        let running = (t.ask.level.value * (output * tpot + ttft) / 1e3).max(1.0);
        (running > 1.5).then(|| ((tpot * (1.0 - busy) - fixed) / (running - 1.0)).max(0.0))
    });
    let growth = more.fold((0.0, 0.0), |(sum, n), x| (sum + x, n + 1.0));
    let sequence = if growth.1 > 0.0 { growth.0 / growth.1 } else { 0.0 };
    let sequence = sequence.clamp(0.002 * fixed, 0.5 * fixed);
    let context = input + output / 2.0;
    let (memory, kv) = memory_shares(curve, fixed, sequence, context);
    let parts = Parts { fixed, hiding: 0.0, prompt, prompt_token, sequence, hidden: 0.0 };
    let (most_computing_ms, least_computing_ms) =
        (most_computing_ms(curve), least_computing_ms(curve).unwrap_or(0.0));
    Some((parts, Shares { memory, kv, attention, context, most_computing_ms, least_computing_ms }))
}

/// Returns the time in which a prompt token attends to one token before it, as a share of that of its other products.
fn attention(curve: &Curve) -> f64 {
    let declared = curve
        .hardware
        .as_ref()
        .and_then(|(_, model)| Some(attention_of(model.parameters.get(), f64::from(model.layers?.get()))));
    declared.unwrap_or(ATTENTION)
}

/// Returns the same for a decoder of so many parameters and layers.
///
/// With L layers of width d it has about P = 12·L·d² parameters. A token takes 2·P operations of matrix products, and 4·L·d for
/// each token before it: a ratio of 1/(6d). Attention is assumed to reach a third of the rate of large matrix products.
fn attention_of(parameters: f64, layers: f64) -> f64 {
    let width = (parameters / (12.0 * layers)).sqrt();
    3.0 / (6.0 * width)
}

/// Returns the shares of the fixed part and of a sequence's part that are reading memory, by the declared hardware.
fn memory_shares(curve: &Curve, fixed: f64, sequence: f64, context: f64) -> ([f64; 2], f64) {
    let kv = (KV_TOKEN_MS * context / sequence.max(1e-9)).clamp(0.1, 0.9);
    let unknown = (if fixed < QUICK_MS { MEMORY_OF_QUICK } else { MEMORY_OF_SLOW }, kv);
    let Some((machine, model)) = &curve.hardware else { return unknown };
    let weights = machine.decode(model, 1.0, 0.0).floor_ms;
    if weights > fixed {
        // A token that takes less than reading the weights: they are not what the plan declares.
        return unknown;
    }
    let with_context = machine.decode(model, 1.0, context).floor_ms;
    let share = |part: f64, whole: f64| (part / whole.max(1e-9)).clamp(0.05, 0.95);
    let memory = share(weights, fixed);
    ([memory, memory], share(with_context - weights, sequence))
}

fn mean([low, high]: [f64; 2]) -> f64 {
    low.midpoint(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_dearer_in_narrow_models() {
        // 12 · 32 · 4096² parameters: a width of 4,096.
        assert!((attention_of(12.0 * 32.0 * 4096.0_f64.powi(2), 32.0) - 1.0 / 8192.0).abs() < 1e-12);
        assert!((attention_of(8e9, 32.0) / ATTENTION - 1.0).abs() < 0.01);
        assert!(attention_of(0.6e9, 28.0) > 5.0 * attention_of(70e9, 80.0));
    }
}
