//! The bottleneck of each row of a matrix: its measured cause of latency as the client sees it, compared with the
//! expected one.
//!
//! Every row has an *unloaded reference*: one request at a time with the same prompts, measured before the row (a row
//! with one request in flight is its own reference). The median request of the row is split into parts against it.
//! TTFT splits into the TTFT of the reference and the *wait* beyond it; the decode time splits into the time of the
//! reference for as many tokens and the *slowdown*. The TTFTs of the references of cold rows with different prompt
//! lengths lie on a line over the prompt length: its intercept is the *overhead* of any request, and the rest is
//! prefill. If a warm prompt gets its first token sooner than that line predicts, the *cache* saved the difference.
//! Better evidence than the line is a *cold twin*: a row with the same requests and the same load but a cold cache. Under
//! load a cold prompt costs more than its own reading, since prompts wait for one another.
//!
//! The bottleneck is the largest part caused by load or cache, if there is one; otherwise the largest of the other
//! parts.

mod bottleneck;

pub use bottleneck::{Evidence, LEAST_RATIO, LatencyPart, PartShare, StepFault, UnusableStep};

use bottleneck::{Medians, SplitLatency};
use goodput_core::slo::Metric;
use goodput_plan::{Bottleneck, MatrixRow, Plan, Series};
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use goodput_workload::config::Cache;
use goodput_workload::lengths::Lengths;
use serde::Serialize;

/// Minimum number of answers for a usable median: with 20, the 95 % bounds of the median lie at the 6th and the 15th
/// value.
pub const LEAST_ANSWERS: u64 = 20;

/// Largest share of failures at which the latency of a step is still usable.
const MOST_FAILED: f64 = 0.05;

/// The answer to one row of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RowAnswer {
    /// Name of the row.
    pub row: String,
    /// The question that the row answers.
    pub question: Option<String>,
    /// The latency metric of the question.
    pub metric: Metric,
    /// One-line description of the load that was sent.
    pub ran: String,
    /// Expected bottleneck.
    pub expected: Option<Bottleneck>,
    /// Measured bottleneck; `None` if undecided.
    pub measured: Option<Bottleneck>,
    /// True if the measured bottleneck is the expected one; `None` if none was expected, or it is undecided.
    pub held: Option<bool>,
    /// Evidence for the bottleneck, or the reason why it is undecided. Not part of this type's JSON: the report writes
    /// it in English.
    #[serde(skip)]
    pub evidence: Evidence,
    /// Measured figures; `None` if the row was not measured.
    pub figures: Option<Figures>,
    /// Breakdown of the time of the median request, if it is known.
    pub parts: Option<Parts>,
}

/// The measured figures of a row. Latencies in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RowFigures")]
pub struct Figures {
    /// Number of the step.
    pub step: u32,
    /// Number of the step with the unloaded reference; `None` if the row is its own reference.
    pub reference: Option<u32>,
    /// Requests measured.
    pub requests: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests completed per second.
    pub achieved_rate: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Mean output tokens per request.
    pub output_tokens: Option<f64>,
    /// Median TTFT.
    pub ttft_p50_ms: Option<f64>,
    /// 99th percentile of TTFT.
    pub ttft_p99_ms: Option<f64>,
    /// Median TPOT.
    pub tpot_p50_ms: Option<f64>,
    /// 99th percentile of TPOT.
    pub tpot_p99_ms: Option<f64>,
    /// Median end-to-end latency.
    pub e2e_p50_ms: Option<f64>,
    /// 99th percentile of end-to-end latency.
    pub e2e_p99_ms: Option<f64>,
    /// Share of prompt tokens from the server's prefix cache, if the server reports it.
    pub hit_rate: Option<f64>,
    /// Verdict of the step on the SLO, if the row has one.
    pub verdict: Option<Verdict>,
}

/// Breakdown of the time of the median request, in milliseconds. The parts add up to its end-to-end latency, except
/// `saved`, which is time not spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RowParts")]
pub struct Parts {
    /// Fixed cost of any request before its prompt is read; `None` if no line could be fitted.
    pub overhead: Option<f64>,
    /// Time to read the prompt; includes the overhead if that is unknown.
    pub prefill: f64,
    /// Delay of the first token compared with the unloaded server.
    pub queue: f64,
    /// Time to generate the answer at the pace of a single request.
    pub decode: f64,
    /// Additional time to generate the answer under load.
    pub batching: f64,
    /// TTFT saved by the cache: compared with the cold twin under the same load, or without one the unloaded TTFT
    /// compared with a cold prompt of equal length.
    pub saved: Option<f64>,
    /// Median TTFT of the cold twin; `None` if no other row has the same requests and load with a cold cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_twin: Option<f64>,
}

/// A linear fit of unloaded TTFT over the length of a cold prompt, in ms and ms per token.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    overhead: f64,
    per_token: f64,
}

/// A row with its step and the step of its unloaded reference.
struct Measured<'a> {
    row: &'a MatrixRow,
    plan: &'a Plan,
    own: Option<&'a Step>,
    reference: Option<&'a Step>,
}

/// Returns the answers to the rows of a plan from the steps measured so far; empty if the plan has no rows.
pub(crate) fn answers(plan: &Plan, series: &[Series], steps: &[Step]) -> Vec<RowAnswer> {
    let find = |row: &'_ MatrixRow| series.iter().find(|s| s.name == row.name);
    let rows: Vec<Measured<'_>> = plan
        .rows
        .iter()
        .filter_map(|row| {
            let of = |baseline: bool| {
                let fits =
                    move |s: &&Step| s.series == row.name && (s.kind == StepKind::Baseline) == baseline;
                steps.iter().rfind(fits)
            };
            let own = of(false);
            let reference = if row.unloaded() { own } else { of(true) };
            Some(Measured { row, plan: &find(row)?.plan, own, reference })
        })
        .collect();
    let line = line(&rows);
    rows.iter().map(|m| m.answer(line, m.cold_twin(&rows))).collect()
}

/// Fits a least-squares line to the median TTFTs of the references of cold rows with a fixed prompt length. Returns
/// `None` if the lengths are too close together or the slope is not positive.
fn line(rows: &[Measured<'_>]) -> Option<Line> {
    let point = |m: &Measured<'_>| {
        let fixed = matches!(m.row.input_tokens, Some(Lengths::Fixed(_)));
        let step =
            m.reference.filter(|s| fixed && m.plan.workload.cache == Cache::Cold && unusable(s).is_none())?;
        Some((m.input(step), step.quantiles(Metric::Ttft).p50?))
    };
    let points: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
    let (low, high) = points.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), p| (l.min(p.0), h.max(p.0)));
    if high < LEAST_RATIO * low {
        return None;
    }
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let across = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>();
    let per_token = across / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    (per_token > 0.0).then(|| Line { overhead: (y - per_token * x).max(0.0), per_token })
}

/// Returns the reason why the latency of a step is unusable, if there is one.
fn unusable(step: &Step) -> Option<UnusableStep> {
    let failed = step.failed as f64 / step.due_n.max(1) as f64;
    let fault = if let Some(abort) = step.abort {
        StepFault::Aborted(abort)
    } else if failed > MOST_FAILED {
        StepFault::Failed(failed)
    } else if step.verdict == Verdict::Invalid {
        if step.server.restarted { StepFault::Restarted } else { StepFault::ClientLimit }
    } else if step.completed < LEAST_ANSWERS {
        StepFault::FewAnswers(step.completed)
    } else {
        return None;
    };
    Some(UnusableStep { is_reference: step.kind == StepKind::Baseline, fault })
}

impl Measured<'_> {
    /// Returns the mean number of input tokens: as counted by the server if it reports it, else from the plan.
    fn input(&self, step: &Step) -> f64 {
        step.input_tokens_mean.unwrap_or_else(|| self.row.input_tokens.map_or(0.0, |l| l.mean()))
    }

    /// Returns the median TTFT of the row with the same requests and load as this warm one, but a cold cache.
    fn cold_twin(&self, rows: &[Self]) -> Option<f64> {
        let load = |m: &Self| {
            let MatrixRow { concurrency, rate, input_tokens, output_tokens, .. } = m.row;
            (*concurrency, *rate, *input_tokens, *output_tokens)
        };
        let cache = |m: &Self| m.plan.workload.cache;
        let is_twin = |other: &&Self| cache(other) == Cache::Cold && load(other) == load(self);
        let twin = rows.iter().find(is_twin).filter(|_| cache(self) == Cache::Warm)?;
        twin.own.filter(|s| unusable(s).is_none() && s.stable != Some(false))?.quantiles(Metric::Ttft).p50
    }

    fn answer(&self, line: Option<Line>, cold_twin: Option<f64>) -> RowAnswer {
        let (evidence, parts) = self.evidence(line, cold_twin);
        let measured = match evidence {
            Evidence::BacklogGrows => Some(Bottleneck::Queue),
            Evidence::Largest(part) => Some(part.bottleneck()),
            Evidence::NotMeasured
            | Evidence::NoReference
            | Evidence::UnusableStep(_)
            | Evidence::NoFirstToken
            | Evidence::NoLine(_)
            | Evidence::Alike(_) => None,
        };
        let expected = self.row.expect;
        RowAnswer {
            row: self.row.name.clone(),
            question: self.row.question.clone(),
            metric: self.row.metric,
            ran: self.ran(),
            expected,
            measured,
            held: expected.zip(measured).map(|(expected, measured)| expected == measured),
            evidence,
            figures: self.own.map(|s| self.figures(s)),
            parts,
        }
    }

    fn ran(&self) -> String {
        match (self.row.concurrency, self.row.rate) {
            (Some(n), _) => format!("{n} in flight: {}", self.plan.workload.closed()),
            (None, Some(rate)) => format!("{rate} per second: {}", self.plan.workload),
            (None, None) => self.plan.workload.to_string(),
        }
    }

    fn figures(&self, s: &Step) -> Figures {
        let (ttft, tpot, e2e) =
            (s.quantiles(Metric::Ttft), s.quantiles(Metric::Tpot), s.quantiles(Metric::E2e));
        Figures {
            step: s.step,
            reference: self.reference.filter(|r| r.step != s.step).map(|r| r.step),
            requests: s.due_n,
            failed: s.failed,
            achieved_rate: s.achieved_rate,
            output_tokens_per_s: s.output_tokens_per_s,
            output_tokens: s.output_tokens_mean,
            ttft_p50_ms: ttft.p50,
            ttft_p99_ms: ttft.p99,
            tpot_p50_ms: tpot.p50,
            tpot_p99_ms: tpot.p99,
            e2e_p50_ms: e2e.p50,
            e2e_p99_ms: e2e.p99,
            hit_rate: s.server.hit_rate,
            verdict: (!self.plan.slo.is_none()).then_some(s.verdict),
        }
    }

    /// Returns the evidence for the bottleneck, and the breakdown of the time, if known.
    fn evidence(&self, line: Option<Line>, cold_twin: Option<f64>) -> (Evidence, Option<Parts>) {
        let Some(own) = self.own else { return (Evidence::NotMeasured, None) };
        if own.stable == Some(false) && self.row.concurrency.is_none() && self.row.metric.is_from_due() {
            return (Evidence::BacklogGrows, None);
        }
        let Some(reference) = self.reference else { return (Evidence::NoReference, None) };
        if let Some(unusable) = unusable(own).or_else(|| unusable(reference)) {
            return (Evidence::UnusableStep(unusable), None);
        }
        let median = |s: &Step, m| s.quantiles(m).p50;
        let (Some(ttft), Some(e2e), Some(alone_ttft)) =
            (median(own, Metric::Ttft), median(own, Metric::E2e), median(reference, Metric::Ttft))
        else {
            return (Evidence::NoFirstToken, None);
        };
        let tpot = median(own, Metric::Tpot).unwrap_or(0.0);
        let alone_tpot = median(reference, Metric::Tpot).unwrap_or(tpot);
        let medians = Medians { ttft, tpot, e2e, alone_ttft, alone_tpot };
        let parts = self.parts(&medians, line, cold_twin, self.input(own));
        let hit_rate = own.server.hit_rate;
        let latency = SplitLatency { metric: self.row.metric, medians, parts, hit_rate };
        (latency.bottleneck().map_or_else(|undecided| undecided, Evidence::Largest), Some(parts))
    }

    fn parts(&self, m: &Medians, line: Option<Line>, cold_twin: Option<f64>, input: f64) -> Parts {
        // With this number of tokens the parts add up to the e2e of the median request.
        let tokens = if m.tpot > 0.0 { (m.e2e - m.ttft).max(0.0) / m.tpot } else { 0.0 };
        let alone = m.alone_ttft.min(m.ttft);
        let overhead = line.map(|l| l.overhead.min(alone));
        let warm = self.plan.workload.cache == Cache::Warm;
        let cold = line.map(|l| l.overhead + l.per_token * input);
        Parts {
            overhead,
            prefill: alone - overhead.unwrap_or(0.0),
            queue: m.ttft - alone,
            decode: m.alone_tpot.min(m.tpot) * tokens,
            batching: (m.tpot - m.alone_tpot).max(0.0) * tokens,
            saved: match cold_twin {
                Some(cold) => Some((cold - m.ttft).max(0.0)),
                None => cold.filter(|_| warm).map(|cold| (cold - m.alone_ttft).max(0.0)),
            },
            cold_twin,
        }
    }
}

#[cfg(test)]
mod tests;
