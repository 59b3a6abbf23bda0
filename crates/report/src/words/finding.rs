//! Findings in English: title, evidence, advice, and the next measurement.

mod advice;
mod evidence;
mod expected;
mod next;
mod no_forecast;
mod tried;
mod value;

pub use advice::advice;
pub(crate) use evidence::evidence;
pub(crate) use expected::expected;
pub(crate) use next::next;
pub(crate) use no_forecast::{assumed, without_forecast};
pub(crate) use tried::tried;

use goodput_stats::diagnosis::{Altered, Evidence, Fact, Figure, Finding, Kind, LongerBy, Source};

/// Returns the title of a finding, in a few words.
pub(crate) fn title(f: &Finding) -> &'static str {
    match f.kind {
        Kind::ClientLimited => "the client was the limit, not the server",
        Kind::Errors => "errors: requests fail, and their failures are the misses",
        Kind::Preemption => "requests are preempted: they lose their KV cache and are computed again",
        Kind::KvExhaustion => "the KV cache is full",
        Kind::BatchTooSmall => "the batch is too small: requests wait while the server has room",
        Kind::CacheMisses => "the prefix cache hits less than the prompts allow",
        Kind::BatchTooLarge => "the batch is too large for the limit on TPOT",
        Kind::Network => "network: time passes between the client and the server's clock",
        Kind::Throttled => "throttled: the clocks of a GPU are held down",
        Kind::IdleGpus => "idle GPUs: they wait for their host while requests are in flight",
        Kind::DraftingCosts => "drafting costs: too few of the drafted tokens are accepted",
        Kind::SmallIterations => "small iterations: the fixed part of each takes much of its time",
        Kind::PrefillStalls => {
            "prefill stalls decoding: an iteration that reads a long prompt is longer than TPOT may be"
        }
        Kind::CommunicationBound => "the GPUs wait for one another",
        Kind::BatchingTradeOff => "batching: more tokens in total, but each of them later",
        Kind::Queueing => "queueing: requests wait before their first token",
        Kind::Unstable => "unstable: more requests arrive than the server completes",
        Kind::PrefillBound | Kind::DecodeBound => title_of_part(f),
    }
}

/// Returns the title of a finding about a part of the latency: what its evidence shows.
fn title_of_part(f: &Finding) -> &'static str {
    let by_model = |e: &Evidence| match &e.fact {
        Fact::Forecast { altered, .. } => foreseen_title(*altered),
        _ => None,
    };
    if let Some(title) = f.evidence.iter().find_map(by_model) {
        return title;
    }
    let shows = |figure: Figure| f.evidence.iter().any(|e| e.figure == figure);
    if f.kind == Kind::DecodeBound {
        return if shows(Figure::ReadingOverBase) {
            "decoding: requests wait for iterations that mostly write tokens"
        } else {
            "decoding: a token takes long even with little load"
        };
    }
    if shows(Figure::PrefillOfTtft) || shows(Figure::ServerPrefillOfTtft) {
        "prefill: reading the prompt is most of the TTFT of a request alone"
    } else if shows(Figure::ReadingOverBase) {
        "prefill: requests wait while the prompts of others are read"
    } else {
        "prefill: tokens wait while the prompts of other requests are read"
    }
}

/// Returns the title of a finding that only a model of the server shows; `None` for a change of a setting, whose kind has one.
const fn foreseen_title(altered: Altered) -> Option<&'static str> {
    match altered {
        Altered::FasterCompute => Some("computing is the bottleneck, by a model of the server"),
        Altered::FasterMemory => Some("memory bandwidth is the bottleneck, by a model of the server"),
        Altered::FasterHost => Some("the host is the bottleneck, by a model of the server"),
        Altered::HalfThePrompts => Some("the length of the prompts sets the limit, by a model of the server"),
        Altered::HalfTheAnswers => Some("the length of the answers sets the limit, by a model of the server"),
        Altered::FewerSequences(_)
        | Altered::MoreSequences(_)
        | Altered::FewerTokens(_)
        | Altered::MoreTokens(_)
        | Altered::TwiceTheKvCache
        | Altered::PrefixCache
        | Altered::ChunkedPrefill => None,
    }
}

/// Returns the question that a kind of finding answers, as part of a sentence.
pub(crate) const fn question(kind: Kind) -> &'static str {
    match kind {
        Kind::ClientLimited => "whether the client was the limit",
        Kind::Errors => "whether failures are the misses",
        Kind::Preemption => "preemption",
        Kind::KvExhaustion => "whether the KV cache is full",
        Kind::BatchTooSmall => "whether the batch is too small",
        Kind::CacheMisses => "whether the cache misses",
        Kind::BatchTooLarge => "whether the batch is too large",
        Kind::Network => "whether time passes between client and server",
        Kind::Throttled => "whether the clocks of a GPU are held down",
        Kind::IdleGpus => "whether the GPUs wait for their host",
        Kind::DraftingCosts => "whether drafting tokens costs more than it gains",
        Kind::SmallIterations => "whether iterations are too small",
        Kind::PrefillStalls => "whether prefills stall decoding",
        Kind::CommunicationBound => "whether GPUs wait for one another",
        Kind::PrefillBound => "whether prefill is the largest part",
        Kind::DecodeBound => "whether TPOT is decode-bound",
        Kind::BatchingTradeOff => "what batching costs",
        Kind::Queueing => "whether requests queue",
        Kind::Unstable => "whether more requests arrive than the server completes",
    }
}

/// Returns the data that a figure requires, as part of a sentence.
pub(crate) fn source(source: Source) -> String {
    let fixed = match source {
        Source::UnloadedRequests { requests, least, by } => {
            let longer = match by {
                LongerBy::Budget => "a larger search.adaptive.budget lengthens the baseline",
                LongerBy::StepLength => "a larger step.measure lengthens it",
            };
            return format!("at least {least} requests in an unloaded step, which had {requests} ({longer})");
        }
        Source::SteadyStep { step } => {
            return format!(
                "a step whose backlog does not grow: the latencies of step {step} have no steady value"
            );
        }
        Source::Steps => "the latencies of the examined step",
        Source::LongerStep => {
            "a longer step: the examined one is too short to tell (search.adaptive.budget, or step.measure)"
        }
        Source::UnloadedStep => "an unloaded step (search.baseline = true, or one request in flight)",
        Source::LighterStep => "a step with less load",
        Source::Counters => "the server's counters",
        Source::ServerTimes => "the server's own times of queue and prefill",
        Source::CacheHits => "the server's prefix cache hits",
        Source::SharedPrompts => "what prompts share, in a warm cache",
        Source::Lengths => "prompts of different lengths with one request at a time",
        Source::SequenceLimit => "the server's own limit of sequences",
        Source::Hardware => "the plan's [model] and [hardware]",
        Source::TensorParallel => "the plan's hardware.tensor-parallel",
        Source::OtherGpuCount => "the same with another number of GPUs to a copy of the model",
        Source::GpuMetrics => "clocks and power of the GPUs ([[metrics]] of DCGM's exporter)",
    };
    fixed.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::diagnosis::{Confidence, Expected, Measurement, Next, ServerFact};

    /// Rows: kind, figures that show it, and the start of the title.
    #[test]
    fn the_title_of_a_part_of_the_latency_says_what_its_evidence_shows() {
        let fact = || Fact::Server(ServerFact::RunningMost { requests: 4.0 });
        let of = |kind, figures: &[Figure]| {
            let evidence = figures.iter().map(|figure| Evidence {
                figure: *figure,
                value: 1.0,
                steps: vec![3],
                fact: fact(),
            });
            let command = String::new();
            Finding {
                kind,
                series: "main".into(),
                limit: None,
                step: 3,
                weight: 1.0,
                confidence: Confidence::High,
                evidence: evidence.collect(),
                advice: Vec::new(),
                next: Next { measurement: Measurement::Again, command },
            }
        };
        for (kind, figures, starts) in [
            (Kind::PrefillBound, &[Figure::PrefillOfTtft][..], "prefill: reading the prompt is most"),
            (Kind::PrefillBound, &[Figure::ServerPrefillOfTtft], "prefill: reading the prompt is most"),
            (Kind::PrefillBound, &[Figure::ReadingOverBase], "prefill: requests wait"),
            (Kind::PrefillBound, &[Figure::PrefillBusy], "prefill: tokens wait"),
            (Kind::DecodeBound, &[Figure::ReadingOverBase], "decoding: requests wait"),
            (Kind::DecodeBound, &[Figure::TpotAloneOfLoaded], "decoding: a token takes long"),
            (Kind::KvExhaustion, &[Figure::KvMost], "the KV cache is full"),
        ] {
            assert!(title(&of(kind, figures)).starts_with(starts), "{kind:?} {figures:?}");
        }
        let mut foreseen = of(Kind::PrefillBound, &[Figure::ForecastGain]);
        let expected = Expected { present: 5.0, changed: 9.0 };
        foreseen.evidence[0].fact = Fact::Forecast { altered: Altered::FasterCompute, expected };
        assert!(title(&foreseen).starts_with("computing is the bottleneck"));
        foreseen.kind = Kind::SmallIterations;
        foreseen.evidence[0].fact = Fact::Forecast { altered: Altered::MoreTokens(4096), expected };
        assert!(title(&foreseen).starts_with("small iterations"));
    }

    #[test]
    fn missing_data_says_how_much_there_was_and_what_to_do() {
        let few = |by| source(Source::UnloadedRequests { requests: 3, least: 6, by });
        assert_eq!(
            few(LongerBy::Budget),
            "at least 6 requests in an unloaded step, which had 3 (a larger search.adaptive.budget lengthens the baseline)"
        );
        assert!(few(LongerBy::StepLength).ends_with("(a larger step.measure lengthens it)"));
        assert_eq!(
            source(Source::SteadyStep { step: 7 }),
            "a step whose backlog does not grow: the latencies of step 7 have no steady value"
        );
    }
}
