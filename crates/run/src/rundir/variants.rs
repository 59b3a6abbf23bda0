//! The variants of a run: what became of the server of each, and what each came to.

use super::{Run, derive};
use goodput_core::caveat::Caveat;
use goodput_core::slo::Metric;
use goodput_plan::MeasuredServer;
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::server::facts::Facts;
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use goodput_workload::rate::WordRates;
use serde::{Deserialize, Serialize};

/// What became of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its turn has not come.
    #[default]
    Waiting,
    /// It is being started or measured; in a sweep that has ended: it was interrupted.
    Running,
    /// Everything was measured that was to be.
    Done,
    /// Its server did not start, or could not be measured: nothing was.
    Failed,
    /// Its server went away while it was measured.
    Died,
}

impl State {
    /// The name in files and tables.
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

/// A variant in a run: what `meta` of `result.json` keeps of it. Carries no secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VariantRun {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub state: State,
    /// Why it failed or died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it was memory that ran out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
    /// The last lines that its server wrote, where it failed or died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// The file with all that its server wrote, within the run folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The command that its server was started with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Each knob of the grid that it is a point of, and its value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knobs: Vec<(String, String)>,
    /// Its server.
    pub server: MeasuredServer,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Seconds from its start until it was ready and had answered a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// How its server counts words, so that prompts keep their lengths when the sweep is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordRates>,
    /// What its server told of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Facts>,
    /// What the sweep noticed of its server before anything was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted: Vec<Caveat>,
}

/// What a series of a variant came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantAnswer {
    /// The variant.
    pub variant: String,
    /// The series: one for each variant, unless the plan asks for several of each.
    pub series: String,
    /// What became of the variant.
    pub state: State,
    /// Why it failed or died.
    pub reason: Option<String>,
    /// Whether it was memory that ran out.
    pub out_of_memory: bool,
    /// The last lines that its server wrote, where it failed or died.
    pub last_lines: Vec<String>,
    /// The file with all that its server wrote, within the run folder.
    pub log: Option<String>,
    /// The answer of the first tier; `None` where nothing was measured.
    pub answer: Option<Answer>,
    /// Output tokens per second at the goodput, or at the highest level shown to meet.
    pub output_tokens_per_s: Option<f64>,
    /// The saturated server, where it was measured.
    pub peak: Option<Peak>,
    /// Preemptions in all steps of the series under load, where the server tells.
    pub preemptions: Option<f64>,
    /// Seconds from its start until it was ready and had answered a request.
    pub ready_s: Option<f64>,
}

/// The most that a server completes. Latencies in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peak {
    /// The step.
    pub step: u32,
    /// Requests in flight.
    pub in_flight: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Requests completed per second.
    pub achieved_rate: f64,
    /// TPOT.
    pub tpot_p50_ms: Option<f64>,
    /// TPOT.
    pub tpot_p99_ms: Option<f64>,
    /// Preemptions, where the server tells.
    pub preemptions: Option<f64>,
    /// Whether every limit on the pace of tokens, TPOT and ITL, is met by the percentiles of this step; `None` where there is none.
    pub keeps_pace: Option<bool>,
}

/// Which variants are best, by what; indexes of the answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Best {
    /// The highest goodput; `None` where no variant has any.
    pub at_slo: Option<usize>,
    /// Those whose interval overlaps that of the highest: they are not told apart from it.
    pub not_told_apart: Vec<usize>,
    /// The most output tokens per second saturated.
    pub raw_peak: Option<usize>,
    /// The most output tokens per second saturated, of those that keep the limits on the pace of tokens all the same.
    pub peak_within_pace: Option<usize>,
}

/// What each series of each variant came to; empty where the plan has no variants.
pub(super) fn answers(run: &Run, series: &[goodput_plan::Series]) -> Vec<VariantAnswer> {
    let one = |(part, series): (&Run, &goodput_plan::Series)| {
        let name = &series.variant.as_ref()?.name;
        let own = run.meta.variants.iter().find(|v| v.name == *name).cloned().unwrap_or_default();
        Some(of_part(part, own, name, &series.name))
    };
    run.parts.iter().zip(series).filter_map(one).collect()
}

fn of_part(part: &Run, own: VariantRun, variant: &str, series: &str) -> VariantAnswer {
    // No load is offered to a server that misses unloaded: that one step is all there is to measure, and the answer is known.
    let told = |a: &&Answer| {
        let none = a.goodput.status == Status::None;
        part.steps.iter().any(|s| if none { !s.kind.is_auxiliary() } else { !s.kind.is_outside_search() })
    };
    let answer = part.answers.first().filter(told).cloned();
    let capacity = answer.as_ref().and_then(|a| part.capacity(a));
    let preempted = part.steps.iter().filter_map(|s| s.server.preemptions);
    VariantAnswer {
        variant: variant.to_owned(),
        series: series.to_owned(),
        state: own.state,
        reason: own.reason,
        out_of_memory: own.out_of_memory,
        last_lines: own.last_lines,
        log: own.log,
        output_tokens_per_s: capacity.and_then(|c| c.output_tokens_per_s),
        answer,
        peak: part.steps.iter().rfind(|s| s.kind == StepKind::Peak && s.completed > 0).map(|s| peak(part, s)),
        preemptions: preempted.fold(None, |sum, n| Some(sum.unwrap_or(0.0) + n)),
        ready_s: own.ready_s,
    }
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

/// Whether a step keeps every limit on TPOT and ITL of the first tier, by its counts: at most the allowed share was missed.
fn keeps_pace(part: &Run, s: &Step) -> Option<bool> {
    let tier = part.tiers.first()?;
    let mut kept = None;
    for row in s.limits.iter().filter(|l| l.tier == tier.tier()) {
        let limit = tier
            .limits()
            .into_iter()
            .find(|l| matches!(l.metric, Metric::Tpot | Metric::Itl) && l.name() == row.limit);
        let Some(limit) = limit.filter(|_| row.n > 0) else { continue };
        let share = row.misses as f64 / row.n as f64;
        kept = Some(kept.unwrap_or(true) && share <= limit.percentile.miss_share() + 1e-12);
    }
    kept.filter(|_| s.verdict != Verdict::Invalid)
}

impl VariantAnswer {
    /// Its goodput, where it has one: the rate, and the ends of its interval or bracket.
    pub fn goodput(&self) -> Option<(f64, [f64; 2])> {
        let g = &self.answer.as_ref()?.goodput;
        if !matches!(g.status, Status::Found | Status::NotReached) {
            return None;
        }
        if let Some((rate, ends)) = derive::interval(g) {
            return Some((rate, ends));
        }
        let rate = g.rate.or(g.met)?;
        Some((rate, [g.met.unwrap_or(rate), g.failed.unwrap_or(f64::INFINITY)]))
    }
}

impl Best {
    /// Of these answers. Goodputs of different kinds of level are not compared.
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

/// Where the largest value stands, the first of several.
fn highest(values: impl Iterator<Item = Option<f64>>) -> Option<usize> {
    let known = values.enumerate().filter_map(|(i, v)| Some((i, v.filter(|v| v.is_finite())?)));
    known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(i, _)| i)
}

#[cfg(test)]
#[path = "variants_tests.rs"]
mod tests;
