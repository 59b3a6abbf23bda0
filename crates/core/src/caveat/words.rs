//! Each caveat as a sentence, and what to do about it.

use super::{Caveat, LengthsOf, OwnFault, answers, cache, ended, origin, server, trace, way};
use crate::key::{ALL, split};
use crate::level::Control;
use crate::units::short;
use std::fmt;

impl fmt::Display for LengthsOf {
    /// ` of class chat in the series mix`, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.class.iter().try_for_each(|class| write!(f, " of class {class}"))?;
        self.series.iter().try_for_each(|series| write!(f, " in the series {series}"))
    }
}

impl Caveat {
    /// What is the case, as a sentence.
    pub fn text(&self) -> String {
        match self {
            Self::InflationAssumed { inflation, limit, pooled } => inflated(*inflation, limit, *pooled),
            Self::BracketOnly => {
                "The answer is the bracket between two measured levels; it carries no interval and no safe rate.".into()
            }
            Self::WideBracket { tier, control, factor } => wide(tier.as_deref(), *control, *factor),
            Self::BeyondCalibration { asked, most, unit } => beyond(*asked, *most, unit),
            Self::Imported { .. } | Self::VirtualTime | Self::Simulated => origin::text(self),
            Self::PinningRefused { field, message, held } => refused(field, message, *held),
            Self::LengthsNotPinned { asked, got, of } => {
                format!("Answers{of} had {got:.1} output tokens on average where {asked:.1} were asked for: output lengths were not pinned.")
            }
            Self::UsageRefused { message } => format!("The server refused stream_options ({message}): it sends no usage in streams."),
            Self::TokensEstimated { requests } => format!(
                "The server sent no usage for {requests} requests: their output tokens are estimated, one per event with text."
            ),
            Self::TokensUnknown { requests } => {
                format!("The server sent no usage for {requests} answers in one piece: how many tokens they have is not known.")
            }
            Self::InputLengthOff { asked, got, of } => {
                format!("Prompts{of} had {got:.1} input tokens on average where {asked:.1} were asked for.")
            }
            Self::InputNotCalibrated { reason } => format!("Input lengths were not calibrated: {reason}."),
            Self::NoFinishReason { requests } => {
                format!("{requests} streams ended with [DONE] but without a finish reason; they count as answered.")
            }
            Self::TimedOut { .. } | Self::NoContent { .. } | Self::HiddenReasoning { .. } => answers::text(self),
            Self::ColdCacheHits { .. } | Self::ColdHits { .. } | Self::WarmMisses { .. } => cache::text(self),
            Self::HitRatesDiffer { .. } | Self::OtherClients { .. } => cache::text(self),
            Self::MetricsSilent { .. } | Self::ServerRestarted { .. } | Self::ServerChanged { .. } => server::text(self),
            Self::TtftDiffers { .. } | Self::TokensDiffer { .. } | Self::InFlightDiffers { .. } => server::text(self),
            Self::NotVerified | Self::Proxy { .. } => way::text(self),
            Self::TracePart { .. } | Self::TraceRepeated { .. } => trace::text(self),
            Self::ClosedLoop => {
                "A closed loop hides the queue that independent arrivals build: on ordinary servers its answer is 1.1–2.4 times the rate that Poisson traffic may have.".into()
            }
            Self::Failures { requests, of, kind, most } => format!(
                "{requests} of {of} measured requests failed, {} {kind}; failures count as misses.",
                if *most { "most of them as" } else { "most often as" }
            ),
            Self::SlowReplica { url, metric, p99_ms, others_ms, step, steps, of } => format!(
                "Replica {url} is the slow one: in step {step} its p99 {metric} was {} ms, that of the others {} ms{}.",
                short(*p99_ms), short(*others_ms), among(*steps, *of)
            ),
            Self::FailingReplica { url, share, others, step, steps, of } => format!(
                "Replica {url} is the failing one: in step {step} {} % of its requests failed, of those of the others {} %{}.",
                short(share * 100.0), short(others * 100.0), among(*steps, *of)
            ),
            Self::Client { step, fault, invalid } => client(*step, fault, *invalid),
            Self::Profiler { step, tried, why } => format!("Step {step} was to be profiled, but {tried}: {why}."),
            Self::SharedCores { step, steps, of, neighbours } => neighbours.text(*step, *steps, *of),
            Self::NotDrained { step, left } => format!("Step {step} began while the server still reported {left:.0} requests."),
            Self::FewRequests { steps, refine } => few(*steps, *refine),
            Self::BudgetSpent { next } => {
                format!("The budget ended the sweep: the step at {} could have ended after it.", short(*next))
            }
            Self::Refused { step, how } => how.text(*step),
            Self::Interrupted
            | Self::ServerGone { .. }
            | Self::PartialStep { .. }
            | Self::TornRow { .. }
            | Self::Resumed { .. }
            | Self::BrokenOff { .. }
            | Self::Deadline { .. }
            | Self::DiskLow { .. }
            | Self::PlanChanged { .. } => ended::text(self),
        }
    }

    /// Returns the advice that only the adaptive search can follow, where there is one.
    const fn adaptive_advice(&self) -> Option<&'static str> {
        match self {
            Self::InflationAssumed { .. } => {
                Some("More time (--budget) decides more; the assumption is on the cautious side.")
            }
            Self::BracketOnly => {
                Some("More time narrows it (--budget), down to search.adaptive.width where that is set.")
            }
            Self::WideBracket { .. } | Self::FewRequests { .. } | Self::BudgetSpent { .. } => {
                Some("Give it more time (--budget).")
            }
            _ => None,
        }
    }

    /// What to do about it. `adaptive`: whether the search chose its own levels, which then has other keys than a list.
    pub const fn advice(&self, adaptive: bool) -> &'static str {
        if adaptive && let Some(advice) = self.adaptive_advice() {
            return advice;
        }
        match self {
            Self::InflationAssumed { .. } => {
                "Longer steps (step.measure, step.min-requests) decide more; the assumption is on the cautious side."
            }
            Self::BracketOnly => MORE_LEVELS,
            Self::WideBracket { .. } => {
                "Measure levels between its two ends (search.rates, search.concurrency), or let the search choose them (search.adaptive, --budget)."
            }
            Self::BeyondCalibration { .. } => {
                "Measure from a machine with more cores, or split the load over several; `goodput calibrate` tells what each can do."
            }
            Self::Imported { .. } | Self::VirtualTime | Self::Simulated => origin::advice(self),
            Self::PinningRefused { .. } | Self::LengthsNotPinned { .. } => {
                "Compare with other servers only at equal output lengths; see output_tokens_mean in steps.csv."
            }
            Self::UsageRefused { .. } | Self::TokensEstimated { .. } => {
                "Trust TTFT and e2e; TPOT and token rates are estimates where events carry several tokens."
            }
            Self::TokensUnknown { .. } => "Trust e2e; token rates leave these answers out.",
            Self::InputLengthOff { .. } | Self::InputNotCalibrated { .. } => {
                "Quote the measured input length, not the one asked for; see input_tokens_mean in steps.csv."
            }
            Self::NoFinishReason { .. } => NO_FINISH,
            Self::TimedOut { .. } | Self::NoContent { .. } | Self::HiddenReasoning { .. } => {
                answers::advice(self)
            }
            Self::ColdCacheHits { .. }
            | Self::ColdHits { .. }
            | Self::WarmMisses { .. }
            | Self::HitRatesDiffer { .. }
            | Self::OtherClients { .. } => cache::advice(self),
            Self::MetricsSilent { .. }
            | Self::ServerRestarted { .. }
            | Self::ServerChanged { .. }
            | Self::TtftDiffers { .. }
            | Self::TokensDiffer { .. }
            | Self::InFlightDiffers { .. } => server::advice(self),
            Self::NotVerified | Self::Proxy { .. } => way::advice(self),
            Self::TracePart { .. } | Self::TraceRepeated { .. } => trace::advice(self),
            Self::ClosedLoop => {
                "Before promising a rate to independent users, measure it: search.rates or search.ramp."
            }
            Self::Failures { .. } => "See failures.csv for the kinds and one body of each.",
            Self::SlowReplica { .. } | Self::FailingReplica { .. } => WORST_REPLICA,
            Self::Client { fault, .. } => fault.advice(),
            Self::SharedCores { neighbours, .. } => neighbours.advice(),
            Self::Profiler { .. } => PROFILER,
            Self::NotDrained { .. } => {
                "Give step.drain more time, and make sure nobody else uses the server."
            }
            Self::FewRequests { .. } => "Use longer steps (step.measure, step.min-requests).",
            Self::BudgetSpent { .. } => {
                "Give it more time (--budget), or shorter steps (step.measure, step.settle, step.drain)."
            }
            Self::Refused { how, .. } => how.advice(),
            Self::Interrupted
            | Self::ServerGone { .. }
            | Self::PartialStep { .. }
            | Self::TornRow { .. }
            | Self::Resumed { .. }
            | Self::BrokenOff { .. }
            | Self::Deadline { .. }
            | Self::DiskLow { .. }
            | Self::PlanChanged { .. } => ended::advice(self),
        }
    }
}

/// What narrows a bracket between levels of a list.
const MORE_LEVELS: &str = "More levels between its two ends narrow it (search.rates, search.concurrency).";

/// What to do where nothing could be profiled.
const PROFILER: &str = "vLLM has these paths only where it was started with --profiler-config (or, before, VLLM_TORCH_PROFILER_DIR); profile.start and \
                        profile.stop name others, profile.before and profile.after commands.";

/// What to do where streams end without saying why.
const NO_FINISH: &str = "Look at the server or the proxy in front of it: answers may have been cut short.";

/// What to do where one replica is worse than the others.
const WORST_REPLICA: &str = "Requests are dealt in turn, so the service can take no more than its worst replica: look at that one, or measure it alone (server.url).";

fn refused(field: &str, message: &str, held: bool) -> String {
    let so = if held { "the other one still pins output lengths" } else { "output lengths were not pinned" };
    format!("The server refused {field} ({message}): {so}.")
}

/// Says that the client reached a limit of its own in a step.
fn client(step: u32, fault: &OwnFault, invalid: bool) -> String {
    if invalid {
        format!("Step {step} is invalid, it tells nothing of the server: {}.", fault.text())
    } else {
        format!("In step {step} {}. Its verdict stands all the same.", fault.text())
    }
}

/// In how many steps a replica stood apart; nothing where there is but one step.
fn among(steps: u32, of: u32) -> String {
    if of > 1 { format!(" (it stood apart in {steps} of {of} steps)") } else { String::new() }
}

fn beyond(asked: f64, most: f64, unit: &str) -> String {
    format!(
        "The plan asks for up to {} {unit}, and this machine's client was calibrated for {}: beyond that it is the client that is \
         measured.",
        short(asked),
        short(most)
    )
}

fn inflated(assumed: f64, limit: &str, pooled: f64) -> String {
    let assumed = short(assumed);
    if short(pooled.round()) == assumed {
        return format!(
            "Misses come in bunches, so {assumed} requests count as one independent request (assumed: the sweep saw too few misses to tell)."
        );
    }
    format!(
        "Misses come in bunches, so several requests count as one: assumed {assumed} at first, {} by what the sweep saw for {}.",
        short(pooled),
        title(limit)
    )
}

fn wide(tier: Option<&str>, control: Control, factor: f64) -> String {
    let what = match control {
        Control::Rate | Control::Sessions => "rate",
        Control::Concurrency => "number in flight",
        Control::TraceScale => "speed",
    };
    format!(
        "The bracket{} is wide: it fails at {} times the {what} shown to meet; between them nothing is decided.",
        tier.map(|t| format!(" of {t}")).unwrap_or_default(),
        short(factor)
    )
}

fn few(steps: u32, refine: Option<u32>) -> String {
    let of = match (refine, steps) {
        (Some(all), 1) => format!("1 of {all} refinement steps has"),
        (Some(all), n) => format!("{n} of {all} refinement steps have"),
        (None, 1) => "1 step has".into(),
        (None, n) => format!("{n} steps have"),
    };
    format!("{of} too few requests for an upper bound of the p99 (below 368 independent requests).")
}

/// The name of a limit for people: `ttft.p99` becomes `p99 TTFT`.
fn title(key: &str) -> String {
    let (class, limit) = split(key);
    let of = if class == ALL { String::new() } else { format!(" of class {class}") };
    let name = match limit.split_once('.') {
        Some(("e2e", percentile)) => format!("{percentile} e2e"),
        Some((metric, percentile)) => format!("{percentile} {}", metric.to_uppercase()),
        None => limit.to_owned(),
    };
    name + &of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assumption_says_what_it_came_to() {
        let text =
            |pooled| Caveat::InflationAssumed { inflation: 16.0, limit: "ttft.p99.9".into(), pooled }.text();
        assert!(text(15.8).contains("so 16 requests count as one independent request (assumed"));
        assert!(text(6.93).ends_with("assumed 16 at first, 6.93 by what the sweep saw for p99.9 TTFT."));
    }

    #[test]
    fn advice_names_keys_that_the_search_uses() {
        let all = [
            Caveat::BracketOnly,
            Caveat::WideBracket { tier: None, control: Control::Rate, factor: 3.6 },
            Caveat::FewRequests { steps: 1, refine: Some(5) },
            Caveat::BudgetSpent { next: 3.0 },
            Caveat::InflationAssumed { inflation: 16.0, limit: "e2e.p95".into(), pooled: 4.0 },
        ];
        for c in all {
            let (chosen, listed) = (c.advice(true), c.advice(false));
            assert!(chosen.contains("--budget") && !chosen.contains("step."), "{chosen}");
            assert!(listed.contains("step.") || listed.contains("search.rates"), "{listed}");
        }
        assert_eq!(
            Caveat::FewRequests { steps: 1, refine: Some(5) }.text(),
            "1 of 5 refinement steps has too few requests for an upper bound of the p99 (below 368 independent requests)."
        );
    }
}
