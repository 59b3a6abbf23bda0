//! The variants of a run: the state of each variant's server, and the results of each.

use super::{FirstRequests, Run, derive};
use goodput_core::caveat::Caveat;
use goodput_core::level::{Control, Level};
use goodput_core::slo::{AnswerPart, Metric};
use goodput_plan::MeasuredServer;
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::server::facts::Facts;
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use goodput_workload::rate::WordRates;
use serde::{Deserialize, Serialize};

/// State of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "VariantState")]
pub enum State {
    /// Not started yet.
    #[default]
    Waiting,
    /// Being started or measured; in a finished sweep, interrupted.
    Running,
    /// Measured completely.
    Done,
    /// The server did not start or could not be measured, so there are no results.
    Failed,
    /// The server went away during the measurement.
    Died,
}

impl State {
    /// Returns the name used in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "not measured",
            Self::Running => "interrupted",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Died => "died",
        }
    }
}

/// A variant as recorded in `meta` of `result.json`. Contains no secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VariantRun {
    /// Name of the variant.
    pub name: String,
    /// State of the variant.
    pub state: State,
    /// Reason for the failure or the death of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if the server ran out of memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
    /// Last lines of server output, if it failed or died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Path of the full server output, relative to the run folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Command line that started the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Knobs of the grid point and their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knobs: Vec<(String, String)>,
    /// The measured server of the variant.
    pub server: MeasuredServer,
    /// The requested model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Seconds from the start of the server until it was ready and had answered a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// Word-to-token rates of the server, so that prompts keep their lengths when the sweep is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordRates>,
    /// Facts reported by the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Facts>,
    /// The first requests to each model, if there are several or adapters were loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_requests: Vec<FirstRequests>,
    /// Caveats about the server raised before anything was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted: Vec<Caveat>,
}

/// The result of one series of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct VariantAnswer {
    /// Name of the variant.
    pub variant: String,
    /// Name of the series: one for each variant, unless the plan asks for several per variant.
    pub series: String,
    /// State of the variant.
    pub state: State,
    /// Reason for the failure or the death of the server.
    pub reason: Option<String>,
    /// True if the server ran out of memory.
    pub out_of_memory: bool,
    /// Last lines of server output, if it failed or died.
    pub last_lines: Vec<String>,
    /// Path of the full server output, relative to the run folder.
    pub log: Option<String>,
    /// The answer of the first tier; `None` if nothing was measured.
    pub answer: Option<Answer>,
    /// Output tokens per second at the goodput, or at the highest level shown to meet the SLO.
    pub output_tokens_per_s: Option<f64>,
    /// Figures of the saturated server, if it was measured.
    pub peak: Option<Peak>,
    /// Preemptions in all steps of the series, if the server reports them.
    pub preemptions: Option<f64>,
    /// Seconds from the start of the server until it was ready and had answered a request.
    pub ready_s: Option<f64>,
    /// Room for requests in the server's KV cache, if the server reports it.
    pub room: Option<Room>,
    /// Latencies at the level that the answer states, or at the only level that was measured.
    pub at: Option<AtLevel>,
}

/// Room for requests in a server's KV cache, from the facts that it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Room {
    /// Blocks of the KV cache.
    pub blocks: u64,
    /// Number of requests of the longest prompt and answer that fit at once, beside vLLM's null block; `None` without
    /// the size of a block and `max-model-len`.
    pub sequences: Option<u64>,
}

/// Latencies of one level of a variant, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "VariantAtLevel")]
pub struct AtLevel {
    /// Number of the step.
    pub step: u32,
    /// The level of the step.
    pub level: Level,
    /// Verdict of the step on the SLO.
    pub verdict: Verdict,
    /// True if no other level was measured under load.
    pub only: bool,
    /// Median TTFT.
    pub ttft_p50_ms: Option<f64>,
    /// 99th percentile of TTFT.
    pub ttft_p99_ms: Option<f64>,
    /// Median TPOT.
    pub tpot_p50_ms: Option<f64>,
    /// 99th percentile of TPOT.
    pub tpot_p99_ms: Option<f64>,
}

/// Peak throughput of a server. Latencies in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "VariantPeak")]
pub struct Peak {
    /// Number of the step.
    pub step: u32,
    /// Requests in flight.
    pub in_flight: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Requests completed per second.
    pub achieved_rate: f64,
    /// Median TPOT.
    pub tpot_p50_ms: Option<f64>,
    /// 99th percentile of TPOT.
    pub tpot_p99_ms: Option<f64>,
    /// Preemptions, if the server reports them.
    pub preemptions: Option<f64>,
    /// True if this step meets every limit on token pace (TPOT and ITL); `None` if there is no such limit.
    pub keeps_pace: Option<bool>,
}

/// The best variants by several criteria, as indexes into the answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Best {
    /// Highest goodput; `None` if no variant has any.
    pub at_slo: Option<usize>,
    /// Variants whose interval overlaps that of the best: they cannot be distinguished from it.
    pub not_told_apart: Vec<usize>,
    /// Highest output throughput (tokens per second) when saturated.
    pub raw_peak: Option<usize>,
    /// Highest saturated output throughput among the variants that still meet the limits on token pace.
    pub peak_within_pace: Option<usize>,
}

/// Returns the result of each series of each variant; empty if the plan has no variants.
pub(super) fn answers(run: &Run, series: &[goodput_plan::Series]) -> Vec<VariantAnswer> {
    let one = |(part, series): (&Run, &goodput_plan::Series)| {
        let name = &series.variant.as_ref()?.name;
        let own = run.meta.variants.iter().find(|v| v.name == *name).cloned().unwrap_or_default();
        Some(of_part(part, own, name, &series.name))
    };
    run.parts.iter().zip(series).filter_map(one).collect()
}

fn of_part(part: &Run, own: VariantRun, variant: &str, series: &str) -> VariantAnswer {
    // A server that misses the SLO unloaded gets no load: that one step decides the answer.
    let told = |a: &&Answer| {
        let none = a.goodput.status() == Status::None;
        part.steps.iter().any(|s| if none { !s.kind.is_auxiliary() } else { !s.kind.is_outside_search() })
    };
    let answer = part.answers.first().filter(told).cloned();
    let capacity = answer.as_ref().and_then(|a| part.capacity(a));
    let peak =
        part.steps.iter().rfind(|s| s.kind == StepKind::Peak && s.completed > 0).map(|s| peak(part, s));
    // The answer is bounded by the requests per second of the peak; rounding must not put its tokens above.
    let bounded =
        answer.as_ref().is_some_and(|a| a.control == Control::Rate).then_some(peak.as_ref()).flatten();
    let most = bounded.filter(|p| capacity.as_ref().is_some_and(|c| c.requests_per_s <= p.achieved_rate));
    let most = most.map_or(f64::INFINITY, |p| p.output_tokens_per_s);
    let preempted = part.steps.iter().filter_map(|s| s.server.preemptions);
    VariantAnswer {
        variant: variant.to_owned(),
        series: series.to_owned(),
        state: own.state,
        reason: own.reason,
        out_of_memory: own.out_of_memory,
        last_lines: own.last_lines,
        log: own.log,
        output_tokens_per_s: capacity.and_then(|c| c.output_tokens_per_s).map(|tokens| tokens.min(most)),
        at: at_level(part, answer.as_ref()),
        answer,
        peak,
        room: own.facts.first().and_then(room),
        preemptions: preempted.fold(None, |sum, n| Some(sum.unwrap_or(0.0) + n)),
        ready_s: own.ready_s,
    }
}

/// Returns the room in the KV cache of a server. A block of vLLM's is the null block, which holds no tokens.
fn room(facts: &Facts) -> Option<Room> {
    let flag =
        |name: &str| facts.flags.get(name).and_then(|text| text.parse::<u64>().ok()).filter(|n| *n > 0);
    let blocks = flag("num_gpu_blocks")?;
    let longest = facts.max_model_len.map(u64::from).filter(|n| *n > 0).zip(flag("block_size"));
    let sequences = longest.map(|(tokens, size)| (blocks - 1) / tokens.div_ceil(size));
    Some(Room { blocks, sequences })
}

/// Returns the latencies at the level of an answer: of the nearest step, or of the only level, whatever its verdict.
fn at_level(part: &Run, answer: Option<&Answer>) -> Option<AtLevel> {
    let answer = answer?;
    let own = |s: &&Step| s.level.control == answer.control && !s.kind.is_outside_search();
    let mut levels: Vec<f64> = part.steps.iter().filter(own).map(|s| s.level.value).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let only = levels.len() == 1;
    let told =
        answer.goodput.rate().or(answer.goodput.bracket.met).and_then(|rate| part.nearest(answer, rate));
    let longest = || part.steps.iter().filter(own).max_by(|a, b| a.measure_s.total_cmp(&b.measure_s));
    let step = if only { longest() } else { told }?;
    let (ttft, tpot) = (step.quantiles(Metric::Ttft), step.quantiles(Metric::Tpot));
    Some(AtLevel {
        step: step.step,
        level: step.level,
        verdict: step.verdict,
        only,
        ttft_p50_ms: ttft.p50,
        ttft_p99_ms: ttft.p99,
        tpot_p50_ms: tpot.p50,
        tpot_p99_ms: tpot.p99,
    })
}

fn peak(part: &Run, s: &Step) -> Peak {
    let tpot = s.quantiles(Metric::Tpot);
    Peak {
        step: s.step,
        in_flight: s.level.value,
        output_tokens_per_s: s.output_tokens_per_s,
        achieved_rate: s.achieved_rate,
        tpot_p50_ms: tpot.p50,
        tpot_p99_ms: tpot.p99,
        preemptions: s.server.preemptions,
        keeps_pace: keeps_pace(part, s),
    }
}

/// Returns true if at most the allowed share of requests in a step misses each limit on the token pace of the first tier.
fn keeps_pace(part: &Run, s: &Step) -> Option<bool> {
    let tier = part.tiers.first()?;
    let mut kept = None;
    for row in s.limits.iter().filter(|l| l.tier == tier.tier()) {
        let limit =
            tier.limits().into_iter().find(|l| l.metric.part() == AnswerPart::Pace && l.name() == row.limit);
        let Some(limit) = limit.filter(|_| row.n > 0) else { continue };
        let share = row.misses as f64 / row.n as f64;
        kept = Some(kept.unwrap_or(true) && share <= limit.percentile.miss_share() + 1e-12);
    }
    kept.filter(|_| s.verdict != Verdict::Invalid)
}

impl VariantAnswer {
    /// Returns the goodput rate with the ends of its interval or bracket, if there is one.
    pub fn goodput(&self) -> Option<(f64, [f64; 2])> {
        let g = &self.answer.as_ref()?.goodput;
        if !matches!(g.status(), Status::Found | Status::NotReached) {
            return None;
        }
        if let Some((rate, ends)) = derive::interval(g) {
            return Some((rate, ends));
        }
        let rate = g.rate().or(g.bracket.met)?;
        Some((rate, [g.bracket.met.unwrap_or(rate), g.bracket.failed.unwrap_or(f64::INFINITY)]))
    }
}

impl Best {
    /// Picks the best of these answers. Compares goodputs only with the same kind of level.
    pub fn of(all: &[VariantAnswer]) -> Self {
        let first = all.iter().find_map(|v| v.answer.as_ref()).map(|a| a.control);
        let alike = |v: &VariantAnswer| v.answer.as_ref().map(|a| a.control) == first;
        let rates = all.iter().map(|v| v.goodput().filter(|_| alike(v))).collect::<Vec<_>>();
        let at_slo = highest(rates.iter().map(|g| g.map(|(rate, _)| rate)));
        let mut not_told_apart = Vec::new();
        if let Some((best, (_, ends))) = at_slo.and_then(|i| Some((i, rates[i]?))) {
            let overlaps = |g: &Option<(f64, [f64; 2])>| g.is_some_and(|(_, e)| e[1] >= ends[0]);
            not_told_apart.extend((0..all.len()).filter(|i| *i != best && overlaps(&rates[*i])));
        }
        let tokens = |v: &VariantAnswer| v.peak.as_ref().map(|p| p.output_tokens_per_s);
        let paced = |v: &VariantAnswer| {
            tokens(v).filter(|_| v.peak.as_ref().is_some_and(|p| p.keeps_pace == Some(true)))
        };
        Self {
            at_slo,
            not_told_apart,
            raw_peak: highest(all.iter().map(tokens)),
            peak_within_pace: highest(all.iter().map(paced)),
        }
    }
}

/// Returns the index of the largest value, the first one in a tie.
fn highest(values: impl Iterator<Item = Option<f64>>) -> Option<usize> {
    let known = values.enumerate().filter_map(|(i, v)| Some((i, v.filter(|v| v.is_finite())?)));
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(i, _)| i)
}

#[cfg(test)]
#[path = "variants_tests.rs"]
mod tests;
