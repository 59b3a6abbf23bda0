//! The held-out cases: forty draws from a wide distribution of servers, workloads and limits, run to report and never to tune on.
//!
//! The seed was fixed on 23 November 2026, before the first of these cases was ever simulated; none was replaced. What can be drawn:
//!
//! - arrivals: half Poisson, a third gamma with cv .3 to 3, the rest constant;
//! - servers: a sixth single ones, a fifth several with one queue (2 to 64), the rest batch engines with models of 1 to 70 billion
//!   parameters, 8 to 1024 seats and 20,000 to a million KV tokens;
//! - lengths: lognormal; a third of the batch engines have rare prompts (.1 to 2 %) that are 10 to 30 times as long, and a third of the
//!   single servers rare holding times like that;
//! - limits: one to three of TTFT, TPOT and e2e, each at its p90, p95 or p99; from 1.05 times what an unloaded request takes at that
//!   percentile, so that r\* is a small part of the capacity or there is none, to 30 times, where nothing is missed until the server is full.
//!
//! The mean answer of an unloaded server takes four seconds at most: the default timeout, a minute, is to play no part.

use super::engines::{
    Gpu, P90, P95, P99, exponential, fixed, lognormal, quantile, several, single, two_sizes,
};
use super::{Case, Found};
use goodput::slo::Metric::{E2e, Tpot, Ttft};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Fixed once, before any of these cases was run.
const SEED: u64 = 20_261_123_19;

/// How many there are.
const DRAWS: usize = 40;

/// By `accuracy truths --held-out`.
const TRUTHS: &[Found] = &[];

/// All of them.
pub(crate) fn held_out() -> Vec<Case> {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(SEED));
    (0..DRAWS).map(|i| one(&mut draw, &format!("wide-{i}")).with(TRUTHS)).collect()
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// Its logarithm is uniform. To three digits, so that no platform's logarithm makes another case of it.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        digits(self.uniform(low.ln(), high.ln()).exp())
    }

    fn chance(&mut self, p: f64) -> bool {
        self.0.random::<f64>() < p
    }

    /// A percentile with the standard normal point under it.
    fn percentile(&mut self) -> (f64, f64) {
        match self.uniform(0.0, 1.0) {
            u if u < 0.25 => (90.0, P90),
            u if u < 0.5 => (95.0, P95),
            _ => (99.0, P99),
        }
    }

    /// A limit over the unloaded value.
    fn room(&mut self) -> f64 {
        self.scale(1.05, 30.0)
    }
}

fn digits(x: f64) -> f64 {
    let unit = 10_f64.powi(x.log10().floor() as i32 - 2);
    ((x / unit).round() * unit * 1e6).round() / 1e6
}

fn one(draw: &mut Draw, name: &str) -> Case {
    let arrivals = draw.uniform(0.0, 1.0);
    let cv = draw.scale(0.3, 3.0);
    let kind = draw.uniform(0.0, 1.0);
    let case = match kind {
        u if u < 1.0 / 6.0 => one_server(draw, name),
        u if u < 11.0 / 30.0 => servers(draw, name),
        _ => engine(draw, name),
    };
    match arrivals {
        u if u < 0.5 => case,
        u if u < 0.5 + 1.0 / 3.0 => case.bursts(cv),
        _ => case.evenly(),
    }
}

/// A single server with a queue before it.
fn one_server(draw: &mut Draw, name: &str) -> Case {
    let mean = draw.scale(3.0, 300.0);
    let ((percentile, z), room) = (draw.percentile(), draw.room());
    let cv = draw.scale(0.3, 1.5);
    let (service, unloaded) = match draw.uniform(0.0, 1.0) {
        u if u < 1.0 / 3.0 => {
            let long = digits(mean * draw.scale(10.0, 30.0));
            (two_sizes(mean, long, draw.scale(0.001, 0.02)), mean)
        }
        u if u < 0.5 => (fixed(mean), mean),
        u if u < 0.7 => (exponential(mean), mean * (1.0 / (1.0 - percentile / 100.0)).ln()),
        _ => (lognormal(mean, cv), quantile(mean, cv, z)),
    };
    Case::new(name, single(service)).limit_at(Ttft, percentile, digits(unloaded * room))
}

/// Several servers with one queue before them: TTFT is the wait and a prefill, and e2e the whole holding time behind the wait.
fn servers(draw: &mut Draw, name: &str) -> Case {
    let count = draw.scale(2.0, 64.0).round() as u32;
    let mean = draw.scale(100.0, 4000.0);
    let prefill = digits(mean * draw.scale(0.02, 0.2));
    let cv = draw.scale(0.3, 1.5);
    let (first, last) = (draw.percentile(), draw.percentile());
    let (service, unloaded) = match draw.uniform(0.0, 1.0) {
        u if u < 0.25 => (fixed(mean), mean),
        u if u < 0.6 => (exponential(mean), mean * (1.0 / (1.0 - last.0 / 100.0)).ln()),
        _ => (lognormal(mean, cv), quantile(mean, cv, last.1)),
    };
    let case = Case::new(name, several(count, service, prefill));
    let (of_first, of_last) = (draw.room(), draw.room());
    let ttft = |case: Case| case.limit_at(Ttft, first.0, digits(prefill * of_first));
    let e2e = |case: Case| case.limit_at(E2e, last.0, digits(unloaded * of_last));
    match draw.uniform(0.0, 1.0) {
        u if u < 0.5 => ttft(case),
        u if u < 0.75 => e2e(case),
        _ => e2e(ttft(case)),
    }
}

/// A batch engine: its times as in `drawn.rs`, with more and fewer seats, and less room for KV.
fn engine(draw: &mut Draw, name: &str) -> Case {
    let billions = draw.scale(1.0, 70.0);
    let gpu = Gpu {
        base_us: draw.scale(1000.0, 6000.0),
        weights_us: digits(billions * draw.scale(300.0, 800.0)),
        token_us: digits(billions * draw.scale(2.5, 6.0)),
        sequence_us: draw.scale(5.0, 80.0),
        kv_token_ns: draw.scale(4.0, 80.0),
        attention_ns: digits(billions * draw.scale(0.05, 0.2)),
        seats: 8 << (draw.uniform(0.0, 8.0) as u32),
        batched_tokens: 1024 << (draw.uniform(0.0, 4.0) as u32),
        kv_tokens: draw.scale(20_000.0, 1_000_000.0) as u32,
        cv: digits(draw.uniform(0.05, 0.3)),
    };
    let token_ms = (gpu.base_us + gpu.weights_us) / 1e3;
    let (input, input_cv) = (draw.scale(100.0, 2000.0).round(), digits(draw.uniform(0.3, 1.5)));
    let output = draw.scale(20.0, 300.0).min(4000.0 / token_ms).max(5.0).round();
    let output_cv = digits(draw.uniform(0.3, 1.2));
    let lengths = |mean: f64, cv: f64| {
        format!("{{ lognormal = {{ mean = {mean}, cv = {cv}, max = {:.0} }} }}", (10.0 * mean).min(15_000.0))
    };
    let case = Case::new(name, gpu.engine()).tokens(&lengths(input, input_cv), &lengths(output, output_cv));
    let (share, times) = (draw.scale(0.001, 0.02), draw.scale(10.0, 30.0));
    let case = if draw.chance(1.0 / 3.0) {
        let long = (input * times).min(18_000.0).round();
        case.rarely(share, &format!("{{ fixed = {long} }}"), &lengths(output, output_cv))
    } else {
        case
    };
    limits(draw, case, &gpu, (input, input_cv), (output, output_cv))
}

/// One to three limits, over what an unloaded request takes at that percentile.
fn limits(draw: &mut Draw, case: Case, gpu: &Gpu, input: (f64, f64), output: (f64, f64)) -> Case {
    let token_ms = (gpu.base_us + gpu.weights_us) / 1e3;
    let prefill_ms =
        |z: f64| (gpu.base_us + (gpu.token_us * quantile(input.0, input.1, z)).max(gpu.weights_us)) / 1e3;
    let (ttft, tpot, e2e) = (draw.percentile(), draw.percentile(), draw.percentile());
    let ttft_ms = digits(prefill_ms(ttft.1) * draw.room());
    let tpot_ms = digits(token_ms * draw.scale(1.1, 10.0));
    let e2e_ms =
        digits((prefill_ms(0.0) + token_ms * quantile(output.0, output.1, e2e.1)) * draw.scale(1.1, 6.0));
    let on_ttft = |case: Case| case.limit_at(Ttft, ttft.0, ttft_ms);
    let on_tpot = |case: Case| case.limit_at(Tpot, tpot.0, tpot_ms);
    let on_e2e = |case: Case| case.limit_at(E2e, e2e.0, e2e_ms);
    match draw.uniform(0.0, 1.0) {
        u if u < 0.25 => on_ttft(case),
        u if u < 0.4 => on_tpot(case),
        u if u < 0.55 => on_e2e(case),
        u if u < 0.8 => on_tpot(on_ttft(case)),
        _ => on_e2e(on_tpot(on_ttft(case))),
    }
}
