//! The words of caveats on the state of the server and on what it refused.

use super::CaveatWords;
use goodput_core::caveat::{Refusal, ServerCaveat};
use goodput_core::units::short;

/// Advice where a rate limit was met.
const RATE_LIMIT: &str = "A limit of requests before the server is part of what was measured: raise it where the server itself is in question.";

pub(super) fn words(caveat: &ServerCaveat) -> CaveatWords {
    match caveat {
        ServerCaveat::MetricsSilent { source, why } => CaveatWords::new(
            format!("The metrics of {source} tell nothing: {why}."),
            "Check the URL with curl and the names of its series; the sweep itself misses nothing.",
        ),
        ServerCaveat::ServerRestarted { step } => CaveatWords::new(
            format!("Step {step} is invalid: the server was started anew within it, its counters went back."),
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
            format!("The server stopped answering in step {step}: nothing more was measured on it."),
            "Look at the server's log; the last step shows the load that it died under. Once it is back, goodput sweep --resume RUN goes on.",
        ),
        ServerCaveat::NotDrained { step, left } => CaveatWords::new(
            format!("Step {step} began while the server still reported {left:.0} requests."),
            "Give step.drain more time, and make sure nobody else uses the server.",
        ),
        ServerCaveat::Refused { step, how } => refused(*step, how),
        ServerCaveat::Profiler { step, tried, why } => CaveatWords::new(
            format!("Step {step} was to be profiled, but {tried}: {why}."),
            "vLLM has these paths only where it was started with --profiler-config (or, before, VLLM_TORCH_PROFILER_DIR); profile.start and \
             profile.stop name others, profile.before and profile.after commands.",
        ),
    }
}

fn refused(step: u32, how: &Refusal) -> CaveatWords {
    match how {
        Refusal::TooManyErrors { failed, of } => CaveatWords::new(
            format!(
                "Step {step} was stopped, since {failed} of its {of} requests failed: no level as high was tried after it."
            ),
            "See failures.csv for the kinds; step.max-error-share says how many are put up with.",
        ),
        Refusal::RateLimited { refused, of } => CaveatWords::new(
            format!(
                "The server refused {refused} of the {of} requests of step {step} (429, or 503 with Retry-After): a limit of requests, which says \
                 nothing of how fast it serves."
            ),
            RATE_LIMIT,
        ),
        Refusal::AskedToWait { asked_s, waited_s } => CaveatWords::new(
            format!(
                "The server refused requests and asked to be left alone for {} s (Retry-After): step {step} began after {} s.",
                short(asked_s.ceil()),
                short(waited_s.ceil())
            ),
            RATE_LIMIT,
        ),
    }
}
