//! Servers drawn at random: the settings, hardware, requests and limits of a wide distribution.
//!
//! Some are for development beside the named servers, among them those that were held out once; others
//! are held out, and neither rules nor forecasts are tuned on them. Their seed was fixed on 27 November 2026, before any of
//! them was run, and none was replaced.
//!
//! The distribution: presets of 0.6 and 70 billion parameters with memory, compute and host from half to three times as
//! fast; 4 to 512 seats, 256 to 16,384 tokens an iteration, a KV cache for 4 to 400 mean requests; prompts of 50 to 4,000
//! tokens and answers of 10 to 300, half of them of one length, a fifth with rare prompts ten times as long, a sixth with
//! a shared prefix and in half of those the prefix cache off; a fifth of the arrivals bursty; in a twelfth errors, in a
//! twelfth a network; half of the plans declare hardware and model. Limits on TTFT, TPOT, both, or e2e, 1.5 to 12 times what one request alone takes.

use crate::case::{Case, Workload};
use anyhow::{Context, Result};
use goodput::sim::engine::Request;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

const DEVELOPMENT: u64 = 21;
/// Seed, number and name of the servers that were held out once.
const ONCE_HELD_OUT: [(u64, u32, &str); 8] = [
    (2_026_112_421, 34, "held"),
    (2_026_112_422, 34, "kept"),
    (2_026_112_423, 68, "fresh"),
    (2_026_112_525, 68, "unseen"),
    (2_026_112_626, 68, "later"),
    (2_026_112_727, 68, "spare"),
    (2_026_112_828, 100, "blind"),
    (2_026_112_929, 100, "sealed"),
];
const HELD_OUT: u64 = 2_026_112_930;
/// Number of drawn servers for development, beside the named ones.
const FOR_DEVELOPMENT: u32 = 12;
/// Number of servers that are held out.
const KEPT_BACK: u32 = 100;

/// Returns the drawn servers for development.
pub(crate) fn development() -> Result<Vec<Case>> {
    let mut drawn = all(DEVELOPMENT, FOR_DEVELOPMENT, "draw")?;
    for (seed, number, name) in ONCE_HELD_OUT {
        drawn.extend(all(seed, number, name)?);
    }
    Ok(drawn)
}

/// Returns the held-out servers.
pub(crate) fn held_out() -> Result<Vec<Case>> {
    all(HELD_OUT, KEPT_BACK, "hidden")
}

fn all(seed: u64, number: u32, name: &str) -> Result<Vec<Case>> {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed));
    (0..number).map(|i| one(&mut draw, format!("{name}-{i}"))).collect()
}

struct Draw(ChaCha8Rng);

impl Draw {
    /// Draws a number whose logarithm is uniform.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.random::<f64>())
    }

    fn chance(&mut self, share: f64) -> bool {
        self.0.random::<f64>() < share
    }

    /// Draws one of the powers of two from `2^low` to `2^high`.
    fn power(&mut self, low: u32, high: u32) -> u32 {
        2_u32.pow(self.0.random_range(low..=high))
    }
}

fn one(draw: &mut Draw, name: String) -> Result<Case> {
    let small = draw.chance(0.65);
    let preset = if small { "a40-qwen3-0.6b" } else { "4xa100-llama-70b" };
    let mut workload = Workload::fixed(draw.scale(50.0, 4000.0).round(), draw.scale(10.0, 300.0).round());
    if draw.chance(0.5) {
        workload.cv = 0.5;
    }
    if draw.chance(0.2) {
        let long = (10.0 * workload.input).min(16_000.0) as u32;
        workload.long = Some((draw.scale(0.005, 0.05), long));
    }
    let off = draw.chance(0.5);
    if draw.chance(1.0 / 6.0) {
        workload.shared = Some((workload.input * 0.8) as u32);
    }
    if draw.chance(0.2) {
        workload.arrivals_cv = 2.0;
    }
    let [memory, compute, host] = [0, 1, 2].map(|_| draw.scale(0.5, 3.0));
    let seats = draw.power(2, 9);
    let tokens = draw.power(8, 14).max(seats);
    let longest =
        f64::from(workload.long.map_or(0, |l| l.1)).max(6.0 * workload.input) + 6.0 * workload.output;
    let requests = draw.scale(4.0, 400.0);
    let blocks = (requests * (workload.input + workload.output)).max(1.1 * longest) / 16.0 + 2.0;
    let mut case = Case::new(name, preset, workload)
        .set("max-num-seqs", seats)
        .set("max-num-batched-tokens", tokens)
        .set("kv-blocks", blocks.ceil() as u32);
    (case.speed, case.declared) = ([memory, compute, host], draw.chance(0.5));
    if workload.shared.is_some() && off {
        case = case.set("prefix-cache", false);
    }
    // Longer requests than the preset takes.
    if served_length(&case)? < longest {
        case = case.set("max-model-len", longest.ceil() as u32);
    }
    let [first_ms, token_ms] = alone(&case)?;
    let kind = draw.0.random_range(0..4);
    let (for_first, for_token) = (draw.scale(1.5, 12.0), draw.scale(1.5, 6.0));
    let whole_ms = first_ms * for_first + token_ms * for_token * workload.output;
    case = match kind {
        0 => case.limit("ttft.p99", first_ms * for_first),
        1 => case.limit("tpot.p99", token_ms * for_token),
        2 => case.limit("ttft.p99", first_ms * for_first).limit("tpot.p99", token_ms * for_token),
        _ => case.limit("e2e.p99", whole_ms),
    };
    let (errors, network) = (draw.chance(1.0 / 12.0), draw.chance(1.0 / 12.0));
    if errors {
        (case.failed, case.error_rate) = (0.04, Some(0.01));
    } else if network {
        case.network_ms = first_ms * 0.3;
    }
    Ok(case)
}

/// Returns the longest prompt and answer together that the server takes, in tokens.
fn served_length(case: &Case) -> Result<f64> {
    let plan = case.clone().limit("e2e.p99", 1e6).plan(&[])?;
    Ok(f64::from(plan.simulated()?.context("a case has a simulated server")?.max_model_len.get()))
}

/// Returns the TTFT and the TPOT of a request of mean lengths alone, in milliseconds.
fn alone(case: &Case) -> Result<[f64; 2]> {
    let mut model = case
        .clone()
        .limit("e2e.p99", 1e6)
        .plan(&[])?
        .simulated()?
        .context("a case has a simulated server")?
        .build();
    let output = (case.workload.output as u32).max(2);
    let longest = case.workload.long.map_or(case.workload.input as u32, |l| l.1);
    model.arrive(Duration::ZERO, Request::new(0, longest, output));
    let events = model.advance(Duration::MAX);
    let ms = |i: usize| events.get(i).map_or(0.0, |e| e.at.as_secs_f64() * 1e3);
    let (first, last) = (ms(0), ms(events.len().saturating_sub(1)));
    Ok([first, (last - first) / f64::from(output - 1)])
}
