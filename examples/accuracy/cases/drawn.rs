//! Cases drawn from a distribution of servers and workloads. The first draws are used without selection.

use super::Case;
use super::draw::{Draw, digits};
use super::engines::Gpu;
use goodput::slo::Metric::{E2e, Tpot, Ttft};

/// Fixed once: another seed would select other cases.
const SEED: u64 = 20_261_120;

/// Returns the 99 % quantile of a lognormal distribution.
fn p99(mean: f64, cv: f64) -> f64 {
    let sigma = (cv * cv).ln_1p().sqrt();
    mean * (2.326 * sigma - sigma * sigma / 2.0).exp()
}

/// Returns the first `n` draws.
pub(super) fn drawn(n: usize) -> Vec<Case> {
    let mut draw = Draw::seeded(SEED);
    (0..n).map(|i| one(&mut draw, &format!("drawn-{i}"))).collect()
}

/// Draws a batching engine with a model of 1 to 70 billion parameters. For each billion, loading the weights takes 0.3
/// to 0.8 ms, and matrix products take 2.5 to 6 µs per token.
fn one(draw: &mut Draw, name: &str) -> Case {
    let billions = draw.scale(1.0, 70.0);
    let gpu = Gpu {
        base_us: draw.scale(1000.0, 6000.0),
        weights_us: digits(billions * draw.scale(300.0, 800.0)),
        token_us: digits(billions * draw.scale(2.5, 6.0)),
        sequence_us: draw.scale(5.0, 80.0),
        kv_token_ns: draw.scale(4.0, 80.0),
        attention_ns: digits(billions * draw.scale(0.05, 0.2)),
        seats: 16 << (draw.uniform(0.0, 5.0) as u32),
        batched_tokens: 1024 << (draw.uniform(0.0, 4.0) as u32),
        kv_tokens: draw.scale(100_000.0, 1_000_000.0) as u32,
        cv: digits(draw.uniform(0.05, 0.3)),
    };
    let (input, input_cv) = (draw.scale(150.0, 3000.0), digits(draw.uniform(0.3, 1.5)));
    let (output, output_cv) = (draw.scale(30.0, 300.0), digits(draw.uniform(0.3, 1.2)));
    let lognormal = |mean: f64, cv: f64, max: f64| {
        format!("{{ lognormal = {{ mean = {}, cv = {cv}, max = {max:.0} }} }}", mean.round())
    };
    let tokens = (lognormal(input, input_cv, 20.0 * input), lognormal(output, output_cv, 20.0 * output));
    let case = Case::new(name, gpu.engine()).tokens(&tokens.0, &tokens.1);
    let case = if draw.chance(0.4) { case.bursts(digits(draw.uniform(1.5, 3.0))) } else { case };
    // Limits are multiples of the time of an unloaded request that is longer than 99 % of them.
    let prefill_ms = (gpu.base_us + (gpu.token_us * p99(input, input_cv)).max(gpu.weights_us)) / 1e3;
    let token_ms = (gpu.base_us + gpu.weights_us) / 1e3;
    if draw.chance(0.25) {
        let unloaded = prefill_ms + token_ms * p99(output, output_cv);
        return case.limit(E2e, digits(unloaded * draw.scale(1.2, 4.0)));
    }
    let ttft = digits(prefill_ms * draw.scale(1.5, 10.0));
    let tpot = digits(token_ms * draw.scale(1.5, 6.0));
    case.limit(Ttft, ttft).limit(Tpot, tpot)
}
