//! The words of caveats on the state of the server and on refused requests.

use super::CaveatWords;
use goodput_core::caveat::{ProfilerCall, Refusal, ServerCaveat};
use goodput_core::units::short;

/// Advice if a rate limit was hit.
const RATE_LIMIT: &str = "A rate limit in front of the server is part of what was measured: raise it to measure the server itself.";

pub(super) fn words(caveat: &ServerCaveat) -> CaveatWords {
    match caveat {
        ServerCaveat::MetricsSilent { source, why } => CaveatWords::new(
            format!("The metrics of {source} are missing or incomplete: {why}."),
            "Check the URL with curl, and the names of its series; the sweep itself does not depend on it.",
        ),
        ServerCaveat::MetricsStale { source, steps } => CaveatWords::new(
            format!(
                "The GPUs of {source} are left out of {steps} {}: their page showed the same power in each reading, so the exporter renews it \
                 less often than the step lasted.",
                if *steps == 1 { "step" } else { "steps" }
            ),
            "Let the exporter renew its page every second (dcgm-exporter: --collect-interval 1000, from 30000 by default).",
        ),
        ServerCaveat::ServerRestarted { step } => CaveatWords::new(
            format!("Step {step} is invalid: the server restarted during it (its counters went back)."),
            "Look at its log for why it ended: the load itself may have done it, which is worse than a missed limit. Behind a balancer that \
             sends each request elsewhere, read the servers' own pages (server.metrics-urls).",
        ),
        ServerCaveat::ServerChanged { what, was, is } => CaveatWords::new(
            format!(
                "The server is not as it was before the sweep was resumed: its {what} was {was} and is {is}."
            ),
            "Steps before and after are not of the same server: start a new sweep, unless the difference cannot matter.",
        ),
        ServerCaveat::ServerGone { step } => CaveatWords::new(
            format!("The server stopped answering in step {step}: nothing was measured on it after that."),
            "Look at the server's log; the last step shows the load that it died under. Once it is back, goodput sweep --resume RUN goes on.",
        ),
        ServerCaveat::ClosesConnections => CaveatWords::new(
            "The server closes each connection after its answer, although its clients would use it again: every request opened a connection, and \
             the time for that is part of its TTFT.",
            "Users pay the same unless a proxy keeps connections for them. llama-server does so after streamed answers; set server.connections = \
             \"cold\" if it is meant.",
        ),
        ServerCaveat::NotDrained { step, left } => CaveatWords::new(
            format!("Step {step} began while the server still reported {left:.0} requests."),
            "Give step.drain more time, and make sure nobody else uses the server.",
        ),
        ServerCaveat::Refused { step, how } => refused(*step, how),
        ServerCaveat::Profiler { step, tried, why } => CaveatWords::new(
            format!("Step {step} was to be profiled, but {}: {why}.", failed_call(tried)),
            "vLLM has these paths only where it was started with --profiler-config (or, before, VLLM_TORCH_PROFILER_DIR); profile.start and \
             profile.stop name others, profile.before and profile.after commands.",
        ),
    }
}

/// Returns the call of a profiler, and that it failed.
fn failed_call(call: &ProfilerCall) -> String {
    match call {
        ProfilerCall::Post(path) => format!("POST {path} failed"),
        ProfilerCall::Command(argv) => format!("`{}` failed", argv.join(" ")),
        ProfilerCall::Text(text) => text.clone(),
    }
}

fn refused(step: u32, how: &Refusal) -> CaveatWords {
    match how {
        Refusal::TooManyErrors { failed, of } => CaveatWords::new(
            format!(
                "Step {step} was stopped because {failed} of its {of} requests failed; no level as high was tried after it."
            ),
            "See failures.csv for the kinds; step.max-error-share sets how many are tolerated.",
        ),
        Refusal::RateLimited { refused, of } => CaveatWords::new(
            format!(
                "The server refused {refused} of the {of} requests of step {step} (429, or 503 with Retry-After): a rate limit, which says \
                 nothing about how fast the server is."
            ),
            RATE_LIMIT,
        ),
        Refusal::AskedToWait { asked_s, waited_s } => CaveatWords::new(
            format!(
                "The server refused requests and asked the client to wait {} s (Retry-After): step {step} began after {} s.",
                short(asked_s.ceil()),
                short(waited_s.ceil())
            ),
            RATE_LIMIT,
        ),
    }
}
