//! Admission limits at the safe rate for Envoy, NGINX and LiteLLM: what is beyond is refused with a 429, which costs less than a
//! queue in which everybody waits.

use super::alerts::source;
use super::figures::Figures;
use super::text::Quoted;
use anyhow::{Context, Result};
use askama::Template;
use goodput_core::units::short;

/// Standard deviations of Poisson arrivals above the mean of a second that are let through at once.
const BURST_SIGMAS: f64 = 3.0;

/// The limits of one server.
struct Limits {
    source: Vec<String>,
    comments: Vec<String>,
    model: Quoted,
    /// The model as LiteLLM asks a server of OpenAI's kind for it.
    upstream: Quoted,
    name: String,
    /// Requests that are let through at once after a pause.
    burst: u64,
    /// Tokens that are added at a time, and the seconds between: their ratio is the safe rate.
    tokens: u64,
    every_s: String,
    /// Whole requests per minute, rounded down.
    per_minute: u64,
    /// Most requests in flight; `None` if no step tells it.
    in_flight: Option<u64>,
}

#[derive(Template)]
#[template(path = "envoy.yaml", escape = "none")]
struct Envoy {
    l: Limits,
}

#[derive(Template)]
#[template(path = "nginx.conf", escape = "none")]
struct Nginx {
    l: Limits,
}

#[derive(Template)]
#[template(path = "litellm.yaml", escape = "none")]
struct LiteLlm {
    l: Limits,
}

/// Returns a local rate limit and circuit breakers of Envoy.
pub(crate) fn envoy(f: &Figures<'_>) -> Result<String> {
    Envoy { l: limits(f) }.render().context("failed to fill in the template for Envoy")
}

/// Returns limits on requests and connections of NGINX.
pub(crate) fn nginx(f: &Figures<'_>) -> Result<String> {
    Nginx { l: limits(f) }.render().context("failed to fill in the template for NGINX")
}

/// Returns the limits of a deployment in the configuration of LiteLLM's proxy.
pub(crate) fn litellm(f: &Figures<'_>) -> Result<String> {
    LiteLlm { l: limits(f) }.render().context("failed to fill in the template for LiteLLM")
}

fn limits(f: &Figures<'_>) -> Limits {
    let rate = f.safe_each();
    let burst = (rate + BURST_SIGMAS * rate.sqrt()).ceil().max(1.0);
    let tokens = rate.floor().max(1.0);
    let at_safe = f.at_safe();
    let in_flight = at_safe.map(|s| f.each(s.in_flight_max as f64).ceil().max(1.0));
    let mut comments = vec![
        format!("Rate: the safe rate of one server, {} requests/s.", short(rate)),
        format!(
            "Burst: a second of Poisson arrivals at that rate, and {BURST_SIGMAS} standard deviations of them."
        ),
    ];
    comments.extend(at_safe.zip(in_flight).map(|(s, most)| {
        format!(
            "In flight: at most {most} per server in step {}, at {} requests/s, not above the safe rate.",
            s.step,
            short(s.offered_rate)
        )
    }));
    Limits {
        source: source(f),
        comments,
        model: Quoted(f.run.meta.model.clone()),
        upstream: Quoted(format!("openai/{}", f.run.meta.model)),
        name: f.service(),
        burst: burst as u64,
        tokens: tokens as u64,
        // Rounded up, so that the rate is not above the safe one.
        every_s: format!("{:.3}", (tokens / rate * 1e3).ceil() / 1e3),
        per_minute: (60.0 * rate).floor().max(1.0) as u64,
        in_flight: in_flight.map(|n| n as u64),
    }
}
