//! Whole sweeps against known truth: the M/D/1 queue in virtual time and through a socket.

use crate::common::{result, rows};
use goodput::sim::engine::truth::{md1_mean_wait, md1_wait_cdf};
use std::path::Path;
use std::time::Duration;
use tempfile::tempdir;

const SERVICE: Duration = Duration::from_millis(50);
/// tokio's timers, which the simulated server sleeps by, round up to whole milliseconds.
const GRAIN_MS: f64 = 1.0;

fn sweep(dir: &Path, step: &str, rates: &str, flags: &[&str]) -> serde_json::Value {
    let text = format!(
        "name = \"md1\"\nseed = 1\n[server]\nsimulated = {{ preset = \"md1\", service = \"50ms\" }}\n\
         warmup-requests = 2\n[slo]\nttft.p99 = \"200ms\"\n[workload.prompts.synthetic]\n\
         input-tokens = {{ fixed = 30 }}\noutput-tokens = {{ fixed = 2 }}\n[step]\n{step}\n[search]\nrates = {rates}\n"
    );
    result(&crate::common::sweep(dir, &text, flags).0)
}

/// TTFT of the measured requests of a step, in milliseconds, from `requests.csv`.
fn ttfts(dir: &Path, step: u64) -> Vec<f64> {
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    rows(&dir.join("run/requests.csv"))
        .iter()
        .filter(|r| r["step"] == step.to_string() && r["phase"] == "measure")
        .map(|r| number(&r["first_token_ms"]) - number(&r["due_ms"]))
        .collect()
}

/// How much a share of `p` may be off over `n` requests of a queue at load `rho`: four standard errors, the variance of an
/// autocorrelated share being `1 + 2·λ·τ` times the binomial one, with the queue's relaxation time τ = D / (1 − √ρ)².
fn tolerance(p: f64, n: f64, rate: f64) -> f64 {
    let d = SERVICE.as_secs_f64();
    let relaxation = d / (1.0 - (rate * d).sqrt()).powi(2);
    4.0 * ((1.0 + 2.0 * rate * relaxation) * p * (1.0 - p) / n).sqrt()
}

/// P(TTFT ≤ t) of the queue: TTFT is wait and service.
fn cdf(rate: f64, ttft_ms: f64) -> f64 {
    let wait = (ttft_ms - 50.0) / 1e3;
    if wait < 0.0 { 0.0 } else { md1_wait_cdf(rate, SERVICE, Duration::from_secs_f64(wait)) }
}

#[test]
fn md1_in_virtual_time_agrees_with_the_closed_form() {
    let dir = tempdir().unwrap();
    // 10,000 requests a step: 36 minutes at the lowest rate, in a few seconds.
    let step = "settle = \"30s\"\nmeasure = \"1m\"\nmin-requests = 10000\nmax-duration = \"2h\"";
    let rates = [4.63, 9.26, 13.9];
    let result = sweep(dir.path(), step, "[4.63, 9.26, 13.9]", &["--virtual-time"]);
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 3);
    for (step, rate) in steps.iter().zip(rates) {
        let n = step["due_n"].as_f64().unwrap();
        assert!(n > 9_500.0, "{n} requests at {rate}");
        for (name, p) in [("p50", 0.5), ("p99", 0.99)] {
            let measured = step["ttft_ms"][name].as_f64().unwrap();
            let tolerance = tolerance(p, n, rate);
            // The model is exact to the grain of the clock: the truth lies between the two.
            let (low, high) = (cdf(rate, measured - GRAIN_MS), cdf(rate, measured + 0.001));
            assert!(
                low <= p + tolerance && high >= p - tolerance,
                "{name} at {rate} req/s: {measured} ms, where the truth has {low:.4} to {high:.4} ± {tolerance:.4}"
            );
            // On the scale of misses, where a p99 that is far too large shows: at most a few times too many or too few.
            let (most, least) = (1.0 - low, 1.0 - high);
            let factor = (tolerance / (1.0 - p)).exp();
            assert!(
                least <= (1.0 - p) * factor && most >= (1.0 - p) / factor,
                "{name} at {rate} req/s: {measured} ms is missed by {least:.5} to {most:.5} in truth"
            );
        }
        let ttfts = ttfts(dir.path(), step["step"].as_u64().unwrap());
        let mean = ttfts.iter().sum::<f64>() / ttfts.len() as f64;
        let sd = (ttfts.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let truth = 50.0 + md1_mean_wait(rate, SERVICE).unwrap().as_secs_f64() * 1e3;
        // The same standard error as of a share, for a value of standard deviation sd.
        let error = tolerance(0.5, n, rate) / 0.5 * sd;
        assert!((mean - truth).abs() <= error + GRAIN_MS, "mean at {rate}: {mean} ms for {truth} ± {error}");
    }
    assert_eq!(steps[0]["verdict"], "meets", "half of the true goodput");
    assert_eq!(steps[2]["verdict"], "fails", "one and a half times the true goodput");
}

#[test]
fn the_same_plan_and_seed_measure_the_same() {
    let step = "settle = \"5s\"\nmeasure = \"60s\"";
    let [a, b] = [(); 2].map(|()| {
        let dir = tempdir().unwrap();
        sweep(dir.path(), step, "[10]", &["--virtual-time"]);
        ttfts(dir.path(), 1)
    });
    assert!(a.len() > 400);
    assert_eq!(a, b);
}

/// Through a socket on the real clock at a low rate: the same queue, on a machine that may wake late.
#[test]
fn md1_through_a_socket_agrees_loosely() {
    let dir = tempdir().unwrap();
    let result = sweep(dir.path(), "settle = \"500ms\"\nmeasure = \"8s\"\ndrain = \"1m\"", "[4.63]", &[]);
    let step = &result["steps"][0];
    let n = step["due_n"].as_u64().unwrap();
    assert!((15..70).contains(&n), "{n}");
    assert_eq!(step["completed"].as_u64().unwrap(), n);
    let p50 = step["ttft_ms"]["p50"].as_f64().unwrap();
    // At this load three of four requests do not wait: the median is the service time and the way to it, however long
    // a busy machine takes for that.
    assert!((50.0..1_000.0).contains(&p50), "{p50} ms");
}
