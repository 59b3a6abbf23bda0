//! Names the cause of a latency in a row of a matrix, as a clause.

use goodput_core::units::short;
use goodput_plan::Bottleneck;
use goodput_run::rundir::matrix::{
    Evidence, LEAST_ANSWERS, LEAST_RATIO, LatencyPart, PartShare, StepFault, UnusableStep,
};

/// Returns the evidence for the bottleneck of a row, or the reason why it is undecided.
pub(crate) fn bottleneck(evidence: &Evidence) -> String {
    match evidence {
        Evidence::BacklogGrows => {
            "the backlog grows at this rate: the wait for the first token has no end".into()
        }
        Evidence::Largest(of) => part(of),
        Evidence::NotMeasured => "it was not measured".into(),
        Evidence::NoReference => "its unloaded reference was not measured".into(),
        Evidence::UnusableStep(step) => unusable(step),
        Evidence::NoFirstToken => "its answers have no time of a first token".into(),
        Evidence::NoLine(prefill) => format!(
            "the unloaded TTFT is {}, and nothing tells reading the prompt from what any request costs: that takes cold rows whose \
             fixed input-tokens differ by a factor of {LEAST_RATIO} or more",
            share(prefill)
        ),
        Evidence::Alike([first, second]) => format!(
            "{} and {} are alike: {}; and {}",
            first.bottleneck(),
            second.bottleneck(),
            part(first),
            part(second)
        ),
    }
}

fn part(of: &LatencyPart) -> String {
    match of {
        LatencyPart::Load { bottleneck, median_ms, alone_ms, share: part } => {
            let (metric, adds) = match bottleneck {
                Bottleneck::Queue => ("TTFT", "the wait"),
                Bottleneck::Batching
                | Bottleneck::Cache
                | Bottleneck::Decode
                | Bottleneck::Prefill
                | Bottleneck::Overhead => ("TPOT", "what that adds"),
            };
            let (now, times, alone) = (time(*median_ms), short(median_ms / alone_ms), time(*alone_ms));
            let of = share(part);
            format!(
                "the median {metric} is {now}, {times} times that of one request alone ({alone}): {adds} is {of}"
            )
        }
        LatencyPart::Cache { alone_ms, saved_ms, twin, hit_rate } => {
            let hits = hit_rate.map(|r| format!(", at a hit rate of {}", percent(r))).unwrap_or_default();
            if *twin {
                return format!(
                    "the first token comes after {}, and after {} under the same load with a cold cache: the cache saves {}{hits}",
                    time(*alone_ms),
                    time(saved_ms + alone_ms),
                    time(*saved_ms)
                );
            }
            format!(
                "unloaded, the first token comes after {}; the cold rows put a prompt of this length at {}: the cache saves {}{hits}",
                time(*alone_ms),
                time(saved_ms + alone_ms),
                time(*saved_ms)
            )
        }
        LatencyPart::Base { bottleneck, share: part } => {
            let name = match bottleneck {
                Bottleneck::Prefill => "reading the prompt",
                Bottleneck::Overhead => "what any request costs, whatever its prompt,",
                Bottleneck::Decode | Bottleneck::Batching | Bottleneck::Queue | Bottleneck::Cache => {
                    "writing the answer, token by token as to one request alone,"
                }
            };
            format!("{name} is {}", share(part))
        }
    }
}

fn unusable(step: &UnusableStep) -> String {
    let which = if step.is_reference { "its unloaded reference" } else { "it" };
    match step.fault {
        StepFault::Aborted(abort) => format!("{which} was broken off ({abort})"),
        StepFault::Failed(failed) => format!("{} of the requests of {which} failed", percent(failed)),
        StepFault::Restarted => format!("in {which} the server was started anew"),
        StepFault::ClientLimit => format!("in {which} the client was the limit, not the server"),
        StepFault::FewAnswers(n) => {
            format!(
                "{which} has {n} answers, and a median takes {LEAST_ANSWERS}: give the row a longer measure"
            )
        }
    }
}

/// Formats a part: `35 % of a median e2e of 9.99 s`.
fn share(part: &PartShare) -> String {
    format!("{} of a median {} of {}", percent(part.share), part.metric.title(), time(part.median_ms))
}

/// Formats a time in ms or s.
fn time(ms: f64) -> String {
    if ms < 999.5 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1e3)) }
}

/// Formats a share in per cent with at most one decimal.
fn percent(share: f64) -> String {
    format!("{} %", short((1000.0 * share).round() / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::slo::Metric;

    #[test]
    fn parts_are_told_by_their_share_of_a_median() {
        let share =
            |part_ms, median_ms, metric| PartShare { part_ms, share: part_ms / median_ms, metric, median_ms };
        let queue = LatencyPart::Load {
            bottleneck: Bottleneck::Queue,
            median_ms: 400.0,
            alone_ms: 25.0,
            share: share(375.0, 910.0, Metric::E2e),
        };
        let batching = LatencyPart::Load {
            bottleneck: Bottleneck::Batching,
            median_ms: 11.0,
            alone_ms: 5.0,
            share: share(600.0, 1130.0, Metric::E2e),
        };
        let base = |bottleneck| LatencyPart::Base { bottleneck, share: share(15.0, 20.0, Metric::Ttft) };
        let cache = |twin| LatencyPart::Cache { alone_ms: 8.0, saved_ms: 17.0, twin, hit_rate: Some(0.9) };
        for (evidence, says) in [
            (
                Evidence::Largest(queue),
                "the median TTFT is 400 ms, 16 times that of one request alone (25 ms): the wait is 41.2 % of a median e2e of 910 ms",
            ),
            (Evidence::Largest(batching), "what that adds is 53.1 % of a median e2e of 1.13 s"),
            (
                Evidence::Largest(base(Bottleneck::Decode)),
                "writing the answer, token by token as to one request alone, is 75 % of a median TTFT of 20 ms",
            ),
            (Evidence::Largest(base(Bottleneck::Prefill)), "reading the prompt is 75 %"),
            (
                Evidence::Largest(cache(false)),
                "put a prompt of this length at 25 ms: the cache saves 17 ms, at a hit rate of 90 %",
            ),
            (
                Evidence::Largest(cache(true)),
                "the first token comes after 8 ms, and after 25 ms under the same load with a cold cache: the cache saves 17 ms",
            ),
            (Evidence::Alike([batching, queue]), "batching and queue are alike: the median TPOT is 11 ms"),
            (Evidence::NoLine(share(15.0, 20.0, Metric::Ttft)), "differ by a factor of 2 or more"),
        ] {
            let text = bottleneck(&evidence);
            assert!(text.contains(says), "{text}");
        }
        for (is_reference, fault, says) in [
            (false, StepFault::Failed(0.1), "10 % of the requests of it failed"),
            (true, StepFault::FewAnswers(3), "its unloaded reference has 3 answers, and a median takes 20"),
            (false, StepFault::ClientLimit, "in it the client was the limit, not the server"),
        ] {
            let text = bottleneck(&Evidence::UnusableStep(UnusableStep { is_reference, fault }));
            assert!(text.contains(says), "{text}");
        }
    }
}
