//! The server's own counters over a step, and the client's observations over the same interval.

use super::compact_record::{CompactRecord, Tokens};
use super::step::{Step, Verdict};
use crate::server::watch::{Gauges, ObservedWindow};
use crate::server::{Histogram, Latency, Signal, TokenCounting};
use goodput_core::units::ms;
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// One of the server's own latency histograms over the measured window, in milliseconds.
///
/// The mean is exact (the histogram carries sum and count). Percentiles are interpolated linearly within a bucket, so they are as
/// coarse as the buckets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ServerLatency {
    /// Observations within the window.
    pub n: f64,
    /// Mean of the observations.
    pub mean_ms: f64,
    /// Median; `None` if the page has no buckets, or if it lies within the first.
    pub p50_ms: Option<f64>,
    /// 99th percentile; `None` also if it lies in the bucket without an upper end.
    pub p99_ms: Option<f64>,
}

/// The server's own counters over the measured window, summed over its engines and all servers of the plan; `None` for what it
/// does not report. Gauges are sampled. Counters are differences between the readings nearest to both ends of the window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, schemars::JsonSchema)]
pub struct ServerSide {
    /// Number of gauge samples within the window.
    pub samples: Option<u64>,
    /// Seconds between the two readings that the counters are differences of.
    pub seconds: Option<f64>,
    /// Mean number of running requests.
    pub running_mean: Option<f64>,
    /// Largest number of running requests.
    pub running_max: Option<f64>,
    /// Mean number of waiting requests.
    pub waiting_mean: Option<f64>,
    /// Largest number of waiting requests.
    pub waiting_max: Option<f64>,
    /// Mean share of the KV cache in use, of the fullest engine.
    pub kv_mean: Option<f64>,
    /// Largest share of the KV cache in use.
    pub kv_max: Option<f64>,
    /// Number of preemptions.
    pub preemptions: Option<f64>,
    /// Number of requests the server finished.
    pub finished: Option<f64>,
    /// Prompt tokens by the server's count, those from the cache included.
    pub prompt_tokens: Option<f64>,
    /// Output tokens by the server's count.
    pub generation_tokens: Option<f64>,
    /// Share of prompt tokens taken from the prefix cache.
    pub hit_rate: Option<f64>,
    /// Time from arrival at the server to the first token, queueing included.
    pub ttft: Option<ServerLatency>,
    /// Time spent waiting for a place in the batch.
    pub queue: Option<ServerLatency>,
    /// Time from the first iteration to the first token.
    pub prefill: Option<ServerLatency>,
    /// Time from the first to the last token.
    pub decode: Option<ServerLatency>,
    /// Time between two tokens.
    pub itl: Option<ServerLatency>,
    /// Time of whole requests.
    pub e2e: Option<ServerLatency>,
    /// The client's observations between the same two readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientSide>,
    /// True if a counter went back: the server restarted within the step.
    pub restarted: bool,
    /// Mean number of tokens that speculative decoding drafts before each check by the model.
    pub drafted_mean: Option<f64>,
    /// Mean number of these that the model accepts; an iteration writes one more.
    pub accepted_mean: Option<f64>,
    /// Time per output token after the first, of whole requests.
    pub tpot: Option<ServerLatency>,
    /// The buckets of `ttft`; empty if the page has none, as for the next three.
    #[serde(skip)]
    pub ttft_buckets: Buckets,
    /// The buckets of `tpot`.
    #[serde(skip)]
    pub tpot_buckets: Buckets,
    /// The buckets of `itl`.
    #[serde(skip)]
    pub itl_buckets: Buckets,
    /// The buckets of `e2e`.
    #[serde(skip)]
    pub e2e_buckets: Buckets,
}

/// The buckets of one of the server's own histograms over the measured window: upper bound in seconds, and number of observations
/// at or below it, with rising bounds, the last infinite.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Buckets(pub Vec<(f64, f64)>);

/// The client's observations between the two readings that the server's counters are differences of, for comparison with these.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, schemars::JsonSchema)]
pub struct ClientSide {
    /// Number of first tokens received.
    pub first_tokens: u64,
    /// Mean time from sending to these first tokens. Counts from `sent`, since the server cannot know of the client's lateness.
    pub ttft_mean_ms: Option<f64>,
    /// Prompt tokens, each counted at the moment the engine counts it.
    pub prompt_tokens: f64,
    /// Output tokens, each counted at the moment the engine counts it.
    pub output_tokens: f64,
    /// Mean number of requests sent and not yet finished.
    pub in_flight_mean: Option<f64>,
}

impl ServerSide {
    /// Summarises the observed counters of a step. `records` are its requests, with times since its start.
    pub fn of(seen: &ObservedWindow, records: &[CompactRecord]) -> Self {
        let gauges = &seen.gauges;
        let (counted, range) = match &seen.counted {
            Some((range, counted)) => (Some(counted), Some(range)),
            None => (None, None),
        };
        let value = |signal| counted.and_then(|c| c.value(signal));
        let histogram = |of| counted.and_then(|c| c.histogram(of));
        let latency = |of| histogram(of).and_then(ServerLatency::of);
        let buckets = |of| histogram(of).map(|h| Buckets(h.buckets.clone())).unwrap_or_default();
        let (drafted_mean, accepted_mean) = drafting(value, gauges);
        Self {
            samples: Some(u64::from(gauges.samples)),
            seconds: range.map(|r| (r.end - r.start).as_secs_f64()),
            running_mean: gauges.running.mean(),
            running_max: gauges.running.max(),
            waiting_mean: gauges.waiting.mean(),
            waiting_max: gauges.waiting.max(),
            kv_mean: gauges.kv_use.mean(),
            kv_max: gauges.kv_use.max(),
            preemptions: value(Signal::Preemptions),
            finished: value(Signal::Finished),
            prompt_tokens: value(Signal::PromptTokens),
            generation_tokens: value(Signal::GenerationTokens),
            hit_rate: None,
            ttft: latency(Latency::Ttft),
            queue: latency(Latency::Queue),
            prefill: latency(Latency::Prefill),
            decode: latency(Latency::Decode),
            itl: latency(Latency::Itl),
            e2e: latency(Latency::E2e),
            client: range.map(|range| ClientSide::of(records, range, seen.engine.token_counting())),
            restarted: seen.restarted,
            drafted_mean,
            accepted_mean,
            tpot: latency(Latency::Tpot),
            ttft_buckets: buckets(Latency::Ttft),
            tpot_buckets: buckets(Latency::Tpot),
            itl_buckets: buckets(Latency::Itl),
            e2e_buckets: buckets(Latency::E2e),
        }
    }

    /// Returns every latency.
    pub const fn latencies(&self) -> [Option<ServerLatency>; 7] {
        [self.ttft, self.queue, self.prefill, self.decode, self.itl, self.e2e, self.tpot]
    }

    /// Returns true if the server reported anything.
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }
}

/// Returns the tokens that a draft has on average, and those of them that are accepted: from counters, or else from gauges of
/// the tokens that an iteration writes and of the share that is accepted.
fn drafting(value: impl Fn(Signal) -> Option<f64>, gauges: &Gauges) -> (Option<f64>, Option<f64>) {
    if let Some(drafts) = value(Signal::Drafts).filter(|n| *n > 0.0) {
        return (
            value(Signal::DraftTokens).map(|n| n / drafts),
            value(Signal::AcceptedTokens).map(|n| n / drafts),
        );
    }
    let accepted = gauges.accepted_length.mean().map(|length| (length - 1.0).max(0.0));
    let share = gauges.accepted_share.mean().filter(|share| *share > 0.0);
    (accepted.zip(share).map(|(accepted, share)| accepted / share), accepted)
}

impl ServerLatency {
    fn of(h: &Histogram) -> Option<Self> {
        // Rounded to the nanosecond: the difference of two large sums depends, in its last digits, on earlier observations.
        let ms = |s: f64| (s * 1e9).round() / 1e6;
        Some(Self {
            n: h.count,
            mean_ms: ms(h.mean()?),
            p50_ms: h.quantile(0.5).map(ms),
            p99_ms: h.quantile(0.99).map(ms),
        })
    }
}

impl ClientSide {
    fn of(records: &[CompactRecord], range: &Range<Duration>, counts: TokenCounting) -> Self {
        let seconds = (range.end - range.start).as_secs_f64();
        let mut all = Self::default();
        let (mut ttft_ms, mut in_flight_s) = (0.0, 0.0);
        for r in records {
            let Some(sent) = r.sent.map(super::compact_record::Nanos::get) else { continue };
            let over = r.end.get();
            let open = over.min(range.end).saturating_sub(sent.max(range.start));
            in_flight_s += open.as_secs_f64();
            let Some(first) = r.first_token.map(super::compact_record::Nanos::get) else { continue };
            if range.contains(&first) {
                all.first_tokens += 1;
                ttft_ms += ms(first.saturating_sub(sent));
            }
            let counted = if counts == TokenCounting::WhenOver { over } else { first };
            if range.contains(&counted) {
                all.prompt_tokens += f64::from(r.input_tokens.map_or(r.input_asked, Tokens::get));
            }
            let output = f64::from(r.output_tokens.map_or(0, Tokens::get));
            all.output_tokens += match counts {
                TokenCounting::AsTheyCome => {
                    let last = r.last_token.map_or(first, super::compact_record::Nanos::get);
                    output * share_within(first..last, range)
                }
                _ if range.contains(&over) => output,
                _ => 0.0,
            };
        }
        all.ttft_mean_ms = (all.first_tokens > 0).then(|| ttft_ms / all.first_tokens as f64);
        all.in_flight_mean = (seconds > 0.0).then(|| in_flight_s / seconds);
        all
    }
}

/// Returns the share of an interval that lies within a range; 0 or 1 for an interval without length.
fn share_within(stretch: Range<Duration>, range: &Range<Duration>) -> f64 {
    let length = stretch.end.saturating_sub(stretch.start).as_secs_f64();
    if length <= 0.0 {
        return f64::from(u8::from(range.contains(&stretch.start)));
    }
    stretch.end.min(range.end).saturating_sub(stretch.start.max(range.start)).as_secs_f64() / length
}

impl Step {
    /// Marks the step as invalid because the server restarted within it.
    pub fn restarted(&mut self) {
        self.verdict = Verdict::Invalid;
        self.limits.iter_mut().for_each(|l| l.verdict = Verdict::Invalid);
        (self.binding, self.stable) = (None, None);
        self.reason = RESTARTED.into();
    }

    /// Returns the reason why an invalid step is invalid, in short.
    pub fn fault(&self) -> &'static str {
        if self.server.restarted { "the server was started anew" } else { "the client was the limit" }
    }
}

/// Reason of a step that is invalid because the server restarted within it.
pub const RESTARTED: &str = "the server was started anew within the step: its counters went back";

/// One series of `[[metrics]]` over a step: a row of `metrics.csv`. Each set of labels is a series of its own.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MetricRow {
    /// The entry of the plan it comes from.
    pub source: String,
    /// Name of the metric.
    pub name: String,
    /// Labels as written on the page.
    pub labels: String,
    /// Number of values within the measured window.
    pub n: u64,
    /// Smallest value; `None` for a counter, like `mean` and `max`.
    pub min: Option<f64>,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Growth of a counter per second.
    pub per_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Reading;
    use crate::server::watch::Watch;
    use goodput_core::record::{Outcome, Phase, Record};

    /// Builds a request from its times in milliseconds: sent, first token, last token and end.
    fn request(times: [u64; 4], input: u32, output: u32) -> CompactRecord {
        let [sent, first, last, end] = times.map(Duration::from_millis);
        let record = Record {
            sent: Some(sent),
            first_token: Some(first),
            last_token: Some(last),
            end,
            input_tokens: Some(input),
            output_tokens: Some(output),
            outcome: Outcome::Ok,
            ..Record::due(0, Phase::Measure, sent)
        };
        CompactRecord::from(&record)
    }

    #[test]
    fn the_client_counts_tokens_when_the_engine_does() {
        let records = [
            request([0, 900, 1_900, 2_000], 10, 11), // first token before, nine tenths of the answer within
            request([1_000, 1_500, 2_500, 2_500], 20, 5), // all within
            request([2_000, 2_500, 3_500, 3_600], 30, 7), // half of the answer within
            request([2_900, 3_100, 3_200, 3_300], 40, 9), // only sent within
        ];
        let range = Duration::from_secs(1)..Duration::from_secs(3);
        for (counts, prompt, output) in [
            (TokenCounting::AsTheyCome, 50.0, 11.0 * 0.9 + 5.0 + 7.0 * 0.5),
            (TokenCounting::PromptFirst, 50.0, 16.0),
            (TokenCounting::WhenOver, 30.0, 16.0),
        ] {
            let c = ClientSide::of(&records, &range, counts);
            assert_eq!(
                (c.first_tokens, c.ttft_mean_ms, c.prompt_tokens),
                (2, Some(500.0), prompt),
                "{counts:?}"
            );
            assert!((c.output_tokens - output).abs() < 1e-9, "{counts:?}: {}", c.output_tokens);
            // 1 + 1.5 + 1 + 0.1 s of two.
            assert!((c.in_flight_mean.unwrap() - 1.8).abs() < 1e-9);
        }
    }

    /// Rows: two pages, and the tokens that are drafted and accepted at a time between them.
    #[test]
    fn drafts_are_summarised() {
        let vllm = include_str!("../../../../tests/fixtures/metrics/vllm-speculative.txt");
        let later =
            vllm.replace(" 2000.0", " 3000.0").replace(" 10000.0", " 15000.0").replace(" 1200.0", " 1500.0");
        let sglang = "sglang:spec_accept_length 1.5\nsglang:spec_accept_rate 0.1\n";
        let off = "sglang:spec_accept_length 0.0\nsglang:spec_accept_rate 0.0\n";
        for (pages, drafted, accepted) in [
            ([vllm, &later], Some(5.0), Some(0.3)),
            ([vllm, vllm], None, None),
            ([sglang, sglang], Some(5.0), Some(0.5)),
            ([off, off], None, None),
        ] {
            let [before, after] = pages.map(|page| Reading::read(page).unwrap());
            let end = Duration::from_secs(10);
            let mut watch = Watch::new(Duration::ZERO, Some(vec![before]));
            watch.add(end, vec![after], end);
            let side = ServerSide::of(&watch.over(&(Duration::ZERO..end)).unwrap(), &[]);
            assert_eq!((side.drafted_mean, side.accepted_mean), (drafted, accepted), "{}", pages[1]);
        }
    }

    #[test]
    fn recorded_pages_are_summarised() {
        let before =
            Reading::read(include_str!("../../../../tests/fixtures/metrics/vllm-preempt-before.txt"))
                .unwrap();
        let after =
            Reading::read(include_str!("../../../../tests/fixtures/metrics/vllm-preempt-after.txt")).unwrap();
        let mut watch = Watch::new(Duration::ZERO, Some(vec![before]));
        let end = Duration::from_secs(60);
        watch.add(end, vec![after], end);
        let side = ServerSide::of(&watch.over(&(Duration::ZERO..end)).unwrap(), &[]);
        assert_eq!((side.seconds, side.samples), (Some(60.0), Some(1)));
        assert!(side.preemptions.is_some_and(|n| n > 0.0), "{side:?}");
        let (ttft, queue) = (side.ttft.unwrap(), side.queue.unwrap());
        assert!(
            ttft.mean_ms > queue.mean_ms && ttft.p50_ms.is_some(),
            "its TTFT includes the queue: {side:?}"
        );
        assert!(!side.restarted && side.is_known() && !ServerSide::default().is_known());
    }
}
