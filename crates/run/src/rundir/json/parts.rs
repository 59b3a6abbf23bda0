//! The objects of `result.json`. Its JSON Schema is derived from them, so that neither can change without the other.

use super::{SCHEMA, nothing};
use crate::rundir::matrix::RowAnswer;
use crate::rundir::offline::{self, Offline};
use crate::rundir::recovery::Recovery;
use crate::rundir::sensitivity::Sensitivity;
use crate::rundir::tried::Tried;
use crate::rundir::variants::{Best, VariantAnswer};
use crate::rundir::{Meta, Pair, Run, SloScale};
use goodput_core::caveat::Caveat;
use goodput_core::level::Control;
use goodput_core::output_schema;
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_stats::capacity::{Capacity, CostRange};
use goodput_stats::diagnosis::{Finding, Roofline, Untold};
use goodput_stats::search::answer::{Answer, Goodput, Knee};
use goodput_stats::stats::client::Margin;
use goodput_stats::stats::step::{AllColumns, Quantiles, Step, by_column};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the JSON Schema of `result.json` as a running sweep writes it, and the definitions that the generator has made
/// before.
pub fn schema(generator: SchemaGenerator) -> Value {
    output_schema::root::<ResultFile<'_>>(generator, "A result of goodput")
}

/// The result of a run: its answers, its steps, and the caveats. Fields may be added under the same `schema`; none changes its
/// meaning. A number that is not finite is null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultFile<'a> {
    /// Name and version of the format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The plan's name.
    name: &'a str,
    /// Versions, machine, server, workload and times.
    meta: &'a Meta,
    /// The quantity that the levels of the first answer measure; null without an answer.
    control: Option<Control>,
    /// The main answer: that of the first series, tier and class.
    goodput: Goodput,
    /// The main answer by the joint criterion: the share of requests that meet all limits at once is at least the target.
    joint_goodput: Goodput,
    /// The main answer in other units; null if no rate is known to meet the SLO.
    capacity: Option<CapacityEntry>,
    /// The point where more load stops buying throughput; null if none was found.
    knee: Option<Knee>,
    /// One answer for each series, tier and class.
    answers: Vec<AnswerEntry<'a>>,
    /// How close the client came to its own limits.
    client: Margin,
    /// Every step, in order, including those that a worker spoilt.
    steps: Vec<StepEntry<'a>>,
    /// Warnings about the result.
    caveats: Vec<CaveatEntry<'a>>,
    /// Causes of missed limits, the most important first; empty while a sweep runs.
    findings: &'a [Finding],
    /// Causes that could not be checked.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    untold: &'a [Untold],
    /// By series, the limits set by the GPU's memory and arithmetic.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    roofline: &'a [Roofline],
    /// Advice that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<&'a Tried>,
    /// Series with a cold cache against those with a warm one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<Pair>,
    /// One entry for each row of a matrix.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    matrix: &'a [RowAnswer],
    /// The variants of the plan with their answers.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    variants: &'a [VariantAnswer],
    /// The best variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestEntry<'a>>,
    /// Factors that move the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<&'a Sensitivity>,
    /// How the server of each series with `[recovery]` recovered from a surge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recovery: Vec<&'a Recovery>,
    /// Figures of `goodput latency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Offline>,
    /// Figures of `goodput throughput`.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<Offline>,
}

impl<'a> ResultFile<'a> {
    /// Collects the result of a run.
    pub fn of(run: &'a Run) -> Self {
        let first = run.answers.first();
        let recoveries = std::iter::once(run).chain(&run.parts).filter_map(|r| r.view.recovery.as_ref());
        Self {
            schema: SCHEMA,
            name: &run.name,
            meta: &run.meta,
            control: first.map(|a| a.control),
            goodput: first.map_or_else(|| nothing(run), |a| a.goodput.clone()),
            joint_goodput: first.map_or_else(|| nothing(run), |a| a.joint_goodput.clone()),
            capacity: first.and_then(|a| CapacityEntry::of(run.part(&a.series), a)),
            knee: first.and_then(|a| a.knee),
            answers: run.answers.iter().map(|a| AnswerEntry::of(run.part(&a.series), a)).collect(),
            client: run.margin(),
            steps: run.all_steps().into_iter().map(StepEntry::of).collect(),
            caveats: run
                .caveats
                .iter()
                .map(|c| CaveatEntry { caveat: c, series: run.series_of(c) })
                .collect(),
            findings: &run.why.findings,
            untold: &run.why.untold,
            roofline: &run.why.roofline,
            tried: run.why.tried.as_ref(),
            pairs: Pair::all(run),
            matrix: &run.matrix,
            variants: &run.variants,
            best: (!run.variants.is_empty()).then(|| BestEntry::of(&run.variants)),
            sensitivity: run.view.sensitivity.as_ref(),
            recovery: recoveries.collect(),
            latency: offline::of(run).filter(|_| run.purpose == Purpose::Latency),
            throughput: offline::of(run).filter(|_| run.purpose == Purpose::Throughput),
        }
    }
}

/// A caveat of the result.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CaveatEntry")]
struct CaveatEntry<'a> {
    /// Its kind and figures.
    caveat: &'a Caveat,
    /// The affected series; absent if the caveat is about all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    series: Vec<&'a str>,
}

/// An answer with its capacity.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AnswerEntry")]
struct AnswerEntry<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    /// The goodput in other units; null if no rate is known to meet the SLO.
    capacity: Option<CapacityEntry>,
    /// The goodput under tighter and looser limits, for the first tier of each series.
    #[serde(skip_serializing_if = "Option::is_none")]
    slo_scale: Option<&'a SloScale>,
}

impl<'a> AnswerEntry<'a> {
    fn of(run: &'a Run, answer: &'a Answer) -> Self {
        // Only the first tier has a scale.
        let slo_scale = run.view.scale.as_ref().filter(|_| run.answers.first() == Some(answer));
        Self { answer, capacity: CapacityEntry::of(run, answer), slo_scale }
    }
}

/// A capacity at the rate of an answer and at its safe rate.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AnswerCapacity")]
struct CapacityEntry {
    #[serde(flatten)]
    capacity: Capacity,
    /// The capacity at the safe rate; null without one.
    at_safe_rate: Option<Capacity>,
    /// The range of rates that keep the cost limit of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_limit: Option<CostRange>,
}

impl CapacityEntry {
    fn of(run: &Run, answer: &Answer) -> Option<Self> {
        let at_safe_rate = run.capacity_at_safe_rate(answer);
        Some(Self { capacity: run.capacity(answer)?, at_safe_rate, cost_limit: run.cost_range(answer) })
    }
}

/// Names of the best series by several criteria.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BestVariants")]
struct BestEntry<'a> {
    /// The series with the highest goodput.
    at_slo: Option<&'a str>,
    /// Series whose goodput is not significantly below the highest.
    not_told_apart: Vec<&'a str>,
    /// The series with the most output tokens per second of a saturated server.
    raw_peak: Option<&'a str>,
    /// The series with the most output tokens per second among those whose TPOT stays within the SLO.
    peak_within_pace: Option<&'a str>,
}

impl<'a> BestEntry<'a> {
    fn of(variants: &'a [VariantAnswer]) -> Self {
        let best = Best::of(variants);
        let name = |i: usize| variants.get(i).map(|v| v.series.as_str());
        Self {
            at_slo: best.at_slo.and_then(name),
            not_told_apart: best.not_told_apart.into_iter().filter_map(name).collect(),
            raw_peak: best.raw_peak.and_then(name),
            peak_within_pace: best.peak_within_pace.and_then(name),
        }
    }
}

/// The columns of `steps.csv`, with nested objects for each latency, the server and the client's threads.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Step")]
struct StepEntry<'a> {
    #[serde(flatten)]
    step: &'a Step,
    /// The quantity that the step held constant.
    control: Control,
    /// Its value, in the unit of the control.
    #[schemars(range(min = 0.0))]
    level: f64,
    /// Use of the client's sending threads.
    client: ClientThreads,
    /// Percentiles of each latency.
    #[serde(flatten, serialize_with = "by_column")]
    #[schemars(with = "AllColumns")]
    latency: BTreeMap<Metric, Quantiles>,
}

/// Use of the client's sending threads in the measured window of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClientThreads")]
struct ClientThreads {
    /// Share that the busiest sending thread spent on a core.
    busy: Option<f64>,
    /// Largest share in which a sending thread was runnable but had no core.
    waiting: Option<f64>,
}

impl<'a> StepEntry<'a> {
    fn of(step: &'a Step) -> Self {
        Self {
            step,
            control: step.level.control,
            level: step.level.value,
            client: ClientThreads { busy: step.client_busy, waiting: step.client_waiting },
            latency: Metric::ALL.into_iter().map(|m| (m, step.quantiles(m))).collect(),
        }
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
