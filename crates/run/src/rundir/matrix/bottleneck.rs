//! Finds the bottleneck from the parts of a latency.

use super::Parts;
use goodput_core::slo::{AnswerPart, Metric};
use goodput_plan::Bottleneck;
use goodput_stats::stats::step::Abort;

/// Factor by which load must raise a median to count as slow-down: medians of a few dozen requests scatter by some
/// per cent from step to step, and less than a quarter is not called a slow-down in practice.
const GROWN: f64 = 1.25;

/// Minimum share of the latency that a part must have to be a bottleneck, however much it has grown.
const MATERIAL: f64 = 0.1;

/// Factor by which the largest part must exceed the second largest; if they are closer, the result is undecided.
const CLEAR: f64 = 1.1;

/// Minimum ratio of the prompt lengths of cold rows for the line of TTFT: with closer lengths the scatter of the two
/// medians would be taken for a slope.
pub const LEAST_RATIO: f64 = 2.0;

/// Minimum reported hit rate at which the cache counts as used.
const HITS: f64 = 0.05;

/// Medians in milliseconds: TTFT, TPOT and e2e of the row, TTFT and TPOT of its reference.
#[derive(Clone, Copy)]
pub(super) struct Medians {
    pub(super) ttft: f64,
    pub(super) tpot: f64,
    pub(super) e2e: f64,
    pub(super) alone_ttft: f64,
    pub(super) alone_tpot: f64,
}

/// Evidence for the bottleneck of a row, or the reason why it is undecided. Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// The backlog grows at this rate: the wait for the first token has no end.
    BacklogGrows,
    /// This part is the largest.
    Largest(LatencyPart),
    /// The row was not measured.
    NotMeasured,
    /// The unloaded reference of the row was not measured.
    NoReference,
    /// A step of the row has no usable latencies.
    UnusableStep(UnusableStep),
    /// The answers have no time of a first token.
    NoFirstToken,
    /// The prompt is read during this part, and no line tells its fixed cost.
    NoLine(PartShare),
    /// The two largest parts are too close together.
    Alike([LatencyPart; 2]),
}

/// A possible bottleneck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyPart {
    /// Load raised a median: of TTFT by the queue, of TPOT by batching.
    Load {
        /// Queue or batching.
        bottleneck: Bottleneck,
        /// Median of the row.
        median_ms: f64,
        /// Median of one request alone.
        alone_ms: f64,
        /// Share of the part.
        share: PartShare,
    },
    /// The cache shortens the time to the first token.
    Cache {
        /// Median TTFT with the cache: unloaded, or under the load of the row if it is held against its cold twin.
        alone_ms: f64,
        /// Reduction compared with a cold prompt of this length.
        saved_ms: f64,
        /// True if the cold prompt was measured under the same load, false if a line over unloaded ones gives it.
        twin: bool,
        /// Hit rate reported by the server.
        hit_rate: Option<f64>,
    },
    /// A part that exists without load and cache: decode, prefill or overhead.
    Base {
        /// The kind of part.
        bottleneck: Bottleneck,
        /// Share of the part.
        share: PartShare,
    },
}

/// A part as a share of a median latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartShare {
    /// Length of the part.
    pub part_ms: f64,
    /// The share.
    pub share: f64,
    /// Metric of the latency.
    pub metric: Metric,
    /// Median of the metric.
    pub median_ms: f64,
}

/// A step without usable latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnusableStep {
    /// True if it is the unloaded reference of the row.
    pub is_reference: bool,
    /// Why its latencies are not usable.
    pub fault: StepFault,
}

/// Reason why the latencies of a step are not usable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepFault {
    /// It was aborted.
    Aborted(Abort),
    /// This share of its requests failed.
    Failed(f64),
    /// The server restarted within the step.
    Restarted,
    /// The client was the limit.
    ClientLimit,
    /// It has this few answers.
    FewAnswers(u64),
}

impl LatencyPart {
    /// Returns the kind of bottleneck.
    pub const fn bottleneck(&self) -> Bottleneck {
        match self {
            Self::Load { bottleneck, .. } | Self::Base { bottleneck, .. } => *bottleneck,
            Self::Cache { .. } => Bottleneck::Cache,
        }
    }

    const fn part_ms(&self) -> f64 {
        match self {
            Self::Load { share, .. } | Self::Base { share, .. } => share.part_ms,
            Self::Cache { saved_ms, .. } => *saved_ms,
        }
    }
}

/// The latency of a row, split into parts.
pub(super) struct SplitLatency {
    /// Latency metric of the question, one of the principal ones.
    pub(super) metric: Metric,
    pub(super) medians: Medians,
    pub(super) parts: Parts,
    pub(super) hit_rate: Option<f64>,
}

impl SplitLatency {
    fn has_first_token(&self) -> bool {
        self.metric.part() != AnswerPart::Pace
    }

    fn has_later_tokens(&self) -> bool {
        self.metric.part() != AnswerPart::First
    }

    /// Returns the total in ms that shares of parts refer to.
    fn total(&self) -> f64 {
        match self.metric.part() {
            AnswerPart::First => self.medians.ttft,
            AnswerPart::Pace => self.parts.decode + self.parts.batching,
            AnswerPart::Whole => self.medians.e2e,
        }
    }

    fn share(&self, part_ms: f64) -> PartShare {
        let median_ms = match self.metric.part() {
            AnswerPart::Pace => self.medians.tpot,
            AnswerPart::First | AnswerPart::Whole => self.total(),
        };
        PartShare { part_ms, share: part_ms / self.total(), metric: self.metric, median_ms }
    }

    /// Returns the bottleneck: the largest effect of load or cache if there is one, else the largest basic part.
    /// Otherwise returns the reason why it is undecided.
    pub(super) fn bottleneck(&self) -> Result<LatencyPart, Evidence> {
        let effects: Vec<LatencyPart> =
            [self.queue(), self.batching(), self.cache()].into_iter().flatten().collect();
        let part = match largest(effects)? {
            Some(effect) => effect,
            // There is always a basic part.
            None => largest(self.base())?.ok_or(Evidence::NotMeasured)?,
        };
        if part.bottleneck() == Bottleneck::Prefill && self.parts.overhead.is_none() {
            return Err(Evidence::NoLine(self.share(self.parts.prefill)));
        }
        Ok(part)
    }

    fn is_material(&self, part: f64) -> bool {
        part >= MATERIAL * self.total()
    }

    fn queue(&self) -> Option<LatencyPart> {
        let (m, part) = (&self.medians, self.parts.queue);
        let shown = self.has_first_token() && m.ttft >= GROWN * m.alone_ttft && self.is_material(part);
        let (median_ms, alone_ms, share) = (m.ttft, m.alone_ttft, self.share(part));
        shown.then_some(LatencyPart::Load { bottleneck: Bottleneck::Queue, median_ms, alone_ms, share })
    }

    fn batching(&self) -> Option<LatencyPart> {
        let (m, part) = (&self.medians, self.parts.batching);
        let shown = self.has_later_tokens() && m.tpot >= GROWN * m.alone_tpot && self.is_material(part);
        let (median_ms, alone_ms, share) = (m.tpot, m.alone_tpot, self.share(part));
        shown.then_some(LatencyPart::Load { bottleneck: Bottleneck::Batching, median_ms, alone_ms, share })
    }

    fn cache(&self) -> Option<LatencyPart> {
        let twin = self.parts.cold_twin.is_some();
        let alone_ms = if twin { self.medians.ttft } else { self.medians.alone_ttft };
        let used = self.has_first_token() && self.hit_rate.is_none_or(|rate| rate >= HITS);
        let shown = |saved: &f64| used && saved + alone_ms >= GROWN * alone_ms && self.is_material(*saved);
        let saved_ms = self.parts.saved.filter(shown)?;
        Some(LatencyPart::Cache { alone_ms, saved_ms, twin, hit_rate: self.hit_rate })
    }

    /// Returns the parts that exist without load and cache.
    fn base(&self) -> Vec<LatencyPart> {
        let p = &self.parts;
        let of = |bottleneck, part| LatencyPart::Base { bottleneck, share: self.share(part) };
        let all = [
            self.has_later_tokens().then(|| of(Bottleneck::Decode, p.decode)),
            self.has_first_token().then(|| of(Bottleneck::Prefill, p.prefill)),
            p.overhead.filter(|_| self.has_first_token()).map(|part| of(Bottleneck::Overhead, part)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Returns the largest part; fails if the second is too close to it.
fn largest(mut all: Vec<LatencyPart>) -> Result<Option<LatencyPart>, Evidence> {
    all.sort_by(|a, b| b.part_ms().total_cmp(&a.part_ms()));
    match all[..] {
        [first, second, ..] if first.part_ms() < CLEAR * second.part_ms() => {
            Err(Evidence::Alike([first, second]))
        }
        _ => Ok(all.first().copied()),
    }
}
