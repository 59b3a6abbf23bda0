//! The evidence of a finding in English.

mod drafting;
mod gpu;

use super::expected::foreseen;
use super::value::by;
use crate::words::{level_number, thousands};
use goodput_core::units::short;
use goodput_stats::diagnosis::{
    CacheFact, Fact, HardwareFact, IterationFact, LatencyFact, LengthTtft, Place, Reference, ServerFact,
    StepFailures, ThroughputFact,
};
use goodput_stats::stats::client_fault;

/// Returns the fact that shows a finding, as a clause without a full stop.
pub(crate) fn evidence(fact: &Fact) -> String {
    match fact {
        Fact::ClientWasLimit { at, fault, reason } => {
            let why = fault.as_ref().map_or_else(|| reason.clone(), client_fault::text);
            format!("{}: {}", place(at), why)
        }
        Fact::Failed { failed, due, kinds, at } => failures(*failed, *due, kinds, at),
        Fact::Server(fact) => server(fact),
        Fact::Cache(fact) => cache(fact),
        Fact::Latency(fact) => latency(fact),
        Fact::Iteration(fact) => iteration(fact),
        Fact::Throughput(fact) => throughput(fact),
        Fact::Hardware(fact) => hardware(fact),
        Fact::Forecast { altered, expected } => foreseen(*altered, expected),
        Fact::Gpu(fact) => gpu::gpu(fact),
        Fact::Drafting(fact) => drafting::drafting(fact),
    }
}

fn failures(failed: u64, due: u64, kinds: &[StepFailures], at: &Place) -> String {
    let kind = |f: &StepFailures| {
        let status = f.status.map(|status| format!(" {status}")).unwrap_or_default();
        format!("{} × {}{status}", f.count, f.kind)
    };
    // Those that were due before or after the measured window are among the kinds.
    let whole = kinds.iter().map(|f| f.count).sum::<u64>() > failed;
    let of = if whole { "; in the whole step " } else { ": " };
    let kinds: Vec<String> = kinds.iter().map(kind).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!("{of}{}", kinds.join(", ")) };
    format!(
        "{} of {} requests failed ({}) {}{kinds}",
        thousands(failed as f64),
        thousands(due as f64),
        percent(failed as f64 / due.max(1) as f64),
        place(at)
    )
}

fn server(fact: &ServerFact) -> String {
    match fact {
        ServerFact::Preempted { preemptions, requests, share, at } => format!(
            "{} preemptions of {} requests ({}) {}",
            level_number(*preemptions),
            level_number(*requests),
            percent(*share),
            place(at)
        ),
        ServerFact::KvUse { most, mean, at } => {
            let mean = mean.map(|m| format!(", {} of it on average", percent(m))).unwrap_or_default();
            format!("{} of the KV cache in use at most{mean}, {}", percent(*most), place(at))
        }
        ServerFact::WaitingMost { requests, at } if *requests > 0.0 => {
            format!("up to {} waiting in the server {}", requests_of(*requests), place(at))
        }
        ServerFact::WaitingMost { at, .. } => {
            format!("no request was seen waiting in the server {}", place(at))
        }
        ServerFact::WaitingMean { requests, at } => {
            format!("{} requests waiting in the server on average {}", level_number(*requests), place(at))
        }
        ServerFact::RunningMost { requests } => {
            format!("up to {} running", requests_of(*requests))
        }
        ServerFact::SeatsTaken { running, seats, at } => format!(
            "{} requests running on average, of {} at the most, {}",
            level_number(*running),
            level_number(*seats),
            place(at)
        ),
        ServerFact::SeatsReached { running, seats, at } => format!(
            "up to {} running, of {} at the most, {}",
            requests_of(*running),
            level_number(*seats),
            place(at)
        ),
        ServerFact::Queue { queue_ms, ttft_ms, at } => format!(
            "a request waits {} for its place in the batch on average, of a TTFT of {} by the server's clock, {}",
            time(*queue_ms),
            time(*ttft_ms),
            place(at)
        ),
        ServerFact::Prefill { prefill_ms, ttft_ms, at } => format!(
            "reading the prompt takes {} of a TTFT of {} by the server's clock, {}",
            time(*prefill_ms),
            time(*ttft_ms),
            place(at)
        ),
    }
}

/// Returns a number of requests: `1 request`, `12 requests`.
fn requests_of(n: f64) -> String {
    let number = level_number(n);
    let noun = if number == "1" { "request" } else { "requests" };
    format!("{number} {noun}")
}

fn cache(fact: &CacheFact) -> String {
    match fact {
        CacheFact::Off { origin } => format!("the prefix cache is off ({})", by(*origin)),
        CacheFact::Shared { share } => format!("{} of the prompt tokens are shared", percent(*share)),
        CacheFact::Hits { share, at } => {
            format!("{} of the prompt tokens came from the prefix cache {}", percent(*share), place(at))
        }
        CacheFact::HitsLoaded { share, at } => format!("and {} {}", percent(*share), place(at)),
        CacheFact::WarmAndCold { warm_ms, warm, cold_ms, cold } => format!(
            "the median TTFT is {} warm {} and {} cold {}",
            time(*warm_ms),
            place(warm),
            time(*cold_ms),
            place(cold)
        ),
    }
}

fn latency(fact: &LatencyFact) -> String {
    match fact {
        LatencyFact::SlowerTtft { percentile, now_ms, at, before_ms, reference: other } => format!(
            "the {percentile} TTFT is {} {}, {} times the {} {}",
            time(*now_ms),
            place(at),
            level_number(now_ms / before_ms),
            time(*before_ms),
            reference(other)
        ),
        LatencyFact::MedianTtft { now_ms, before_ms } => {
            let rise = now_ms / before_ms;
            let how = if rise < 1.5 { "hardly rises" } else { "rises less" };
            format!(
                "the median {how}, to {} times: {} against {}",
                level_number(rise),
                time(*now_ms),
                time(*before_ms)
            )
        }
        LatencyFact::WaitOfTail { share, percentile } => {
            format!("{} of the {percentile} is wait", percent(*share))
        }
        LatencyFact::ShareOfTail { share, percentile, tail_ms, at } => format!(
            "that is {} of the {percentile} TTFT of {} {}",
            percent(*share),
            time(*tail_ms),
            place(at)
        ),
        LatencyFact::TpotUnloaded { tpot_ms, at } => {
            format!("the median TPOT is {} {}: that is without any load", time(*tpot_ms), place(at))
        }
        LatencyFact::TpotOfReference { before_ms, reference: other, share, now_ms, at } => format!(
            "the median TPOT {} is {}, {} of that {} ({})",
            reference(other),
            time(*before_ms),
            percent(*share),
            place(at),
            time(*now_ms)
        ),
        LatencyFact::TpotRise { now_ms, before_ms } => format!(
            "and the median TPOT {} times: {} against {}",
            level_number(now_ms / before_ms),
            time(*now_ms),
            time(*before_ms)
        ),
        LatencyFact::TpotAdded { share } => format!("load adds {} of the TPOT", percent(*share)),
        LatencyFact::BetweenClocks { client_ms, server_ms, at } => format!(
            "the mean TTFT is {} by the client's clock and {} by the server's, {}",
            time(*client_ms),
            time(*server_ms),
            place(at)
        ),
        LatencyFact::TtftByLength { shortest, longest, per_token_ms, ttft_ms, at, share } => {
            let end = |end: &LengthTtft| (time(end.ttft_ms), level_number(end.tokens.round()));
            let ((low_ms, low), (high_ms, high)) = (end(shortest), end(longest));
            format!(
                "one request at a time, TTFT grows with the prompt: {low_ms} at {low} tokens, {high_ms} at {high} ({} for each 100); of the {} {} that is {}",
                time(100.0 * per_token_ms),
                time(*ttft_ms),
                place(at),
                percent(*share)
            )
        }
    }
}

fn iteration(fact: &IterationFact) -> String {
    match fact {
        IterationFact::IterationOfPrompts { tokens, base_ms, reading_ms, at_most } => format!(
            "an iteration takes {} without any prompt, and reading the {} prompt tokens that fit into one takes {}{}",
            time(*base_ms),
            level_number(*tokens),
            if *at_most { "at most " } else { "" },
            time(*reading_ms)
        ),
        IterationFact::Prompt { tokens, base_ms, reading_ms, at_most } => {
            let reading = match (*reading_ms > 0.0, *at_most) {
                (true, false) => format!("takes {}", time(*reading_ms)),
                (true, true) => format!("takes at most {}", time(*reading_ms)),
                (false, _) => "takes too little time to be measured".into(),
            };
            format!(
                "an iteration takes {} without any prompt, and reading the {} tokens of a mean prompt {reading}",
                time(*base_ms),
                level_number(*tokens)
            )
        }
        IterationFact::Chunk { tokens, chunk_ms, limit_ms, at_most } => format!(
            "an iteration that reads {} tokens of a prompt takes {} {}, where a token may take {}",
            level_number(*tokens),
            if *at_most { "at most" } else { "about" },
            time(*chunk_ms),
            time(*limit_ms)
        ),
        IterationFact::TpotTail { tail_ms, percentile, median_ms, at } => format!(
            "the {percentile} TPOT is {} {}, {} times its median of {}",
            time(*tail_ms),
            place(at),
            level_number(tail_ms / median_ms),
            time(*median_ms)
        ),
        IterationFact::LongestPrompt { tokens, mean } => format!(
            "the longest prompt has {} tokens, a mean one {}",
            level_number(tokens.round()),
            level_number(mean.round())
        ),
        IterationFact::SequencesWithin { within, seats, limit_ms } => format!(
            "about {} sequences keep a TPOT of {}, and {} can run",
            level_number(within.floor()),
            time(*limit_ms),
            level_number(*seats)
        ),
        IterationFact::PrefillOfTime { share, at_most, at } => {
            let most = if *at_most { "at most " } else { "" };
            format!("prompts are read {most}{} of the time {}", percent(*share), place(at))
        }
    }
}

fn throughput(fact: &ThroughputFact) -> String {
    match fact {
        ThroughputFact::OutputTokens { now, at, before, reference: other } => format!(
            "output tokens/s are {} times those {}: {} against {} {}",
            level_number(now / before),
            reference(other),
            level_number(now.round()),
            level_number(before.round()),
            place(at)
        ),
        ThroughputFact::BacklogGrows { per_second, at } => {
            let by = per_second.map(|n| format!(" by {} requests a second", level_number(n)));
            format!("the requests in flight grow{} {}", by.unwrap_or_default(), place(at))
        }
        ThroughputFact::Completed { completed, offered } => format!(
            "{} of {} requests/s were completed in the measured window",
            level_number(*completed),
            level_number(*offered)
        ),
    }
}

fn hardware(fact: &HardwareFact) -> String {
    match fact {
        HardwareFact::Floor { floor_ms, tpot_ms, at } => format!(
            "reading weights and KV cache takes {} of a TPOT of {} at the least, {}",
            time(*floor_ms),
            time(*tpot_ms),
            place(at)
        ),
        HardwareFact::GpusTogether { gpus } => format!("{gpus} GPUs hold one copy of the model"),
        HardwareFact::TpotByGpus { more, fewer } => format!(
            "the median TPOT of one request alone is {} with {} GPUs (step {}) and {} with {} (step {})",
            time(more.tpot_ms),
            more.gpus,
            more.step,
            time(fewer.tpot_ms),
            fewer.gpus,
            fewer.step
        ),
        HardwareFact::BeyondFloor { more_ms, fewer_ms, fewer } => {
            format!("beyond its floor that is {} against {} with {fewer}", time(*more_ms), time(*fewer_ms))
        }
    }
}

/// Formats a time for people, from milliseconds.
pub(super) fn time(ms: f64) -> String {
    if ms < 999.5 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1e3)) }
}

/// Formats a share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", short((1000.0 * share).round() / 10.0))
}

/// Returns `at 37.3 req/s (step 12)`, `unloaded (step 1)`.
fn place(place: &Place) -> String {
    match place.level {
        Some(level) => {
            format!("at {}{} (step {})", level_number(level.value), level.control.unit(), place.step)
        }
        None => format!("unloaded (step {})", place.step),
    }
}

/// Returns `of one request alone (step 1)`, or the place of a step with less load.
fn reference(reference: &Reference) -> String {
    if reference.one_request {
        format!("of one request alone (step {})", reference.place.step)
    } else {
        place(&reference.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;

    #[test]
    fn places_and_times_are_told_as_in_the_tables() {
        let at = |level| place(&Place { step: 4, level });
        assert_eq!(at(None), "unloaded (step 4)");
        assert_eq!(at(Some(Level::rate(1000.0))), "at 1,000 req/s (step 4)");
        let alone = Reference { place: Place { step: 1, level: None }, one_request: true };
        assert_eq!(reference(&alone), "of one request alone (step 1)");
        assert_eq!([time(12.34), time(1280.0), percent(0.1234)], ["12.3 ms", "1.28 s", "12.3 %"]);
    }

    #[test]
    fn facts_are_told_with_their_figures() {
        let at = Place { step: 4, level: Some(Level::rate(20.0)) };
        let alone = Reference { place: Place { step: 1, level: None }, one_request: true };
        for (fact, says) in [
            (
                Fact::from(ServerFact::Preempted { preemptions: 90.0, requests: 2400.0, share: 0.0375, at }),
                "90 preemptions of 2,400 requests (3.8 %) at 20 req/s (step 4)",
            ),
            (
                ServerFact::KvUse { most: 0.99, mean: Some(0.7), at }.into(),
                "99 % of the KV cache in use at most, 70 % of it on average, at 20 req/s (step 4)",
            ),
            (
                ServerFact::WaitingMost { requests: 0.0, at }.into(),
                "no request was seen waiting in the server at 20 req/s (step 4)",
            ),
            (
                LatencyFact::SlowerTtft {
                    percentile: "p99",
                    now_ms: 90.0,
                    at,
                    before_ms: 20.0,
                    reference: alone,
                }
                .into(),
                "the p99 TTFT is 90 ms at 20 req/s (step 4), 4.5 times the 20 ms of one request alone (step 1)",
            ),
            (
                LatencyFact::MedianTtft { now_ms: 22.0, before_ms: 15.0 }.into(),
                "the median hardly rises, to 1.47 times: 22 ms against 15 ms",
            ),
            (
                ThroughputFact::BacklogGrows { per_second: Some(2.5), at }.into(),
                "the requests in flight grow by 2.5 requests a second at 20 req/s (step 4)",
            ),
            (
                HardwareFact::BeyondFloor { more_ms: 10.0, fewer_ms: 4.0, fewer: 1 }.into(),
                "beyond its floor that is 10 ms against 4 ms with 1",
            ),
        ] {
            assert_eq!(evidence(&fact), says);
        }
    }
}
