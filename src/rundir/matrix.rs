//! What sets the latency of each row of a matrix, as the client sees it, and whether that is what was expected.
//!
//! Every row has an *unloaded reference*: one request at a time with the same prompts, measured before it (a row with one request in flight
//! is its own). The median request of the row is taken apart against it: TTFT into what the reference takes and what it *waits* beyond that;
//! the writing of the answer into what the reference takes for as many tokens and what it is *slowed down*. The TTFT of the references of cold
//! rows with different prompt lengths is a line over these lengths: where it begins is the *overhead* of any request, the rest reads the prompt;
//! and where a warm prompt gets its first token sooner than that line says, the *cache* has saved the rest.
//!
//! What load or cache does to the latency comes first, the largest such part; else the largest of the parts that are there without them.

use crate::plan::{Bottleneck, Plan, Row, Series};
use crate::slo::Metric;
use crate::stats::step::{Step, StepKind, Verdict};
use crate::units::short;
use crate::workload::config::Cache;
use crate::workload::lengths::Lengths;
use serde::Serialize;

/// A median that load has not raised by this factor has not been raised: medians of a few dozen requests scatter by some per cent from step
/// to step, and nobody calls less than a quarter more a slow-down.
const GROWN: f64 = 1.25;

/// A part of the latency below this share of it does not set it, however much it has grown.
const MATERIAL: f64 = 0.1;

/// Of the two largest parts the one must be larger than the other by this factor; nearer than that they are alike.
const CLEAR: f64 = 1.1;

/// Fewer answers than this have no median to speak of: the 95 % bounds of the median of 20 lie at the 6th and the 15th.
const LEAST: u64 = 20;

/// A step with a larger share of failures than this tells of those, and not of latency.
const MOST_FAILED: f64 = 0.05;

/// The line of TTFT over prompt lengths takes cold rows whose lengths differ by this factor at least: nearer together the scatter of the two
/// medians would be taken for a slope.
const APART: f64 = 2.0;

/// A server that tells a hit rate below this has not used its cache.
const HITS: f64 = 0.05;

/// The answer to a row of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowAnswer {
    /// The row.
    pub row: String,
    /// What it was to answer.
    pub question: Option<String>,
    /// The latency that the question is about.
    pub metric: Metric,
    /// What was sent, in one line.
    pub ran: String,
    /// What was expected to set the latency.
    pub expected: Option<Bottleneck>,
    /// What does; `None` where that is undecided.
    pub measured: Option<Bottleneck>,
    /// Whether it is what was expected; `None` where nothing was, or it is undecided.
    pub held: Option<bool>,
    /// What shows it, or why it is undecided.
    pub evidence: String,
    /// What was measured; `None` where the row was not.
    pub figures: Option<Figures>,
    /// Where the time of the median request goes, where that is known.
    pub parts: Option<Parts>,
}

/// What a row measured. Latencies in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Its step.
    pub step: u32,
    /// The step of its unloaded reference.
    pub reference: Option<u32>,
    /// Requests measured.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
    /// Requests completed per second.
    pub achieved_rate: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Output tokens of a request, mean.
    pub output_tokens: Option<f64>,
    /// TTFT.
    pub ttft_p50_ms: Option<f64>,
    /// TTFT.
    pub ttft_p99_ms: Option<f64>,
    /// TPOT.
    pub tpot_p50_ms: Option<f64>,
    /// TPOT.
    pub tpot_p99_ms: Option<f64>,
    /// e2e.
    pub e2e_p50_ms: Option<f64>,
    /// e2e.
    pub e2e_p99_ms: Option<f64>,
    /// Share of prompt tokens from the server's prefix cache, where it tells.
    pub hit_rate: Option<f64>,
    /// What the step shows of the SLO, where the row has one.
    pub verdict: Option<Verdict>,
}

/// Where the time of the median request goes, in milliseconds. They add up to its e2e but for `saved`, which it did not take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parts {
    /// What any request costs before its prompt is read; `None` where no line could be drawn.
    pub overhead: Option<f64>,
    /// Reading the prompt, with the overhead where that is not known.
    pub prefill: f64,
    /// What the first token comes later than unloaded.
    pub queue: f64,
    /// Writing the answer at the pace of one request alone.
    pub decode: f64,
    /// What the answer takes beyond that.
    pub batching: f64,
    /// What the first token comes sooner, unloaded, than a cold prompt of that length would have it.
    pub saved: Option<f64>,
}

/// A line of unloaded TTFT over the length of a cold prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    overhead: f64,
    per_token: f64,
}

/// A row with its steps.
struct Measured<'a> {
    row: &'a Row,
    plan: &'a Plan,
    own: Option<&'a Step>,
    reference: Option<&'a Step>,
}

/// The answers to the rows of a plan from the steps there are; none where it has no rows.
pub(crate) fn answers(plan: &Plan, series: &[Series], steps: &[Step]) -> Vec<RowAnswer> {
    let find = |row: &'_ Row| series.iter().find(|s| s.name == row.name);
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
    rows.iter().map(|m| m.answer(line)).collect()
}

/// The least-squares line through the medians of the references of cold rows of one length each.
fn line(rows: &[Measured<'_>]) -> Option<Line> {
    let point = |m: &Measured<'_>| {
        let fixed = matches!(m.row.input_tokens, Some(Lengths::Fixed(_)));
        let step =
            m.reference.filter(|s| fixed && m.plan.workload.cache == Cache::Cold && faults(s).is_none())?;
        Some((m.input(step), step.quantiles(Metric::Ttft).p50?))
    };
    let points: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
    let (low, high) = points.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), p| (l.min(p.0), h.max(p.0)));
    if high < APART * low {
        return None;
    }
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let across = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>();
    let per_token = across / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    (per_token > 0.0).then(|| Line { overhead: (y - per_token * x).max(0.0), per_token })
}

/// Why a step says nothing of latency, if it does not.
fn faults(step: &Step) -> Option<String> {
    let which = if step.kind == StepKind::Baseline { "its unloaded reference" } else { "it" };
    let failed = step.failed as f64 / step.due_n.max(1) as f64;
    if let Some(abort) = step.abort {
        return Some(format!("{which} was broken off ({abort})"));
    }
    if failed > MOST_FAILED {
        return Some(format!("{} % of the requests of {which} failed", short(100.0 * failed)));
    }
    if step.verdict == Verdict::Invalid {
        return Some(format!("in {which} the client was the limit, not the server"));
    }
    (step.completed < LEAST).then(|| {
        format!(
            "{which} has {} answers, and a median takes {LEAST}: give the row a longer measure",
            step.completed
        )
    })
}

/// A time for people.
fn time(ms: f64) -> String {
    if ms < 999.5 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1e3)) }
}

fn percent(share: f64) -> String {
    format!("{} %", short((1000.0 * share).round() / 10.0))
}

/// The medians that are taken apart: TTFT, TPOT and e2e of the row, TTFT and TPOT of its reference.
#[derive(Clone, Copy)]
struct Medians {
    ttft: f64,
    tpot: f64,
    e2e: f64,
    alone_ttft: f64,
    alone_tpot: f64,
}

/// A part that may set the latency: what it is, how large, and what shows it.
struct Candidate(Bottleneck, f64, String);

impl Measured<'_> {
    /// Mean input tokens, as the server counts them where it does.
    fn input(&self, step: &Step) -> f64 {
        step.input_tokens_mean.unwrap_or_else(|| self.row.input_tokens.map_or(0.0, |l| l.mean()))
    }

    fn answer(&self, line: Option<Line>) -> RowAnswer {
        let told = self.told(line);
        let (measured, evidence, parts) = match told {
            Ok((bottleneck, evidence, parts)) => (Some(bottleneck), evidence, parts),
            Err((why, parts)) => (None, why, parts),
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

    /// What sets the latency, with the evidence; or why that is undecided.
    fn told(
        &self,
        line: Option<Line>,
    ) -> Result<(Bottleneck, String, Option<Parts>), (String, Option<Parts>)> {
        let Some(own) = self.own else { return Err(("it was not measured".into(), None)) };
        if own.stable == Some(false) && self.row.concurrency.is_none() && self.row.metric != Metric::Tpot {
            let grows = "the backlog grows at this rate: the wait for the first token has no end".into();
            return Ok((Bottleneck::Queue, grows, None));
        }
        let Some(reference) = self.reference else {
            return Err(("its unloaded reference was not measured".into(), None));
        };
        if let Some(fault) = faults(own).or_else(|| faults(reference)) {
            return Err((fault, None));
        }
        let median = |s: &Step, m| s.quantiles(m).p50;
        let (Some(ttft), Some(e2e), Some(alone_ttft)) =
            (median(own, Metric::Ttft), median(own, Metric::E2e), median(reference, Metric::Ttft))
        else {
            return Err(("its answers have no time of a first token".into(), None));
        };
        let tpot = median(own, Metric::Tpot).unwrap_or(0.0);
        let alone_tpot = median(reference, Metric::Tpot).unwrap_or(tpot);
        let medians = Medians { ttft, tpot, e2e, alone_ttft, alone_tpot };
        let parts = self.parts(&medians, line, self.input(own));
        self.largest(&medians, &parts, own.server.hit_rate)
            .map(|Candidate(what, _, evidence)| (what, evidence, Some(parts)))
            .map_err(|why| (why, Some(parts)))
    }

    fn parts(&self, m: &Medians, line: Option<Line>, input: f64) -> Parts {
        // So many tokens make the parts add up to the e2e of the median request.
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
            saved: cold.filter(|_| warm).map(|cold| (cold - m.alone_ttft).max(0.0)),
        }
    }

    /// What sets the latency that the row is about.
    fn largest(&self, m: &Medians, parts: &Parts, hit_rate: Option<f64>) -> Result<Candidate, String> {
        let metric = self.row.metric;
        let (of_first, of_rest) = (metric != Metric::Tpot, metric != Metric::Ttft);
        let total = match metric {
            Metric::Ttft => m.ttft,
            Metric::Tpot => parts.decode + parts.batching,
            _ => m.e2e,
        };
        let of = format!(
            "of a median {} of {}",
            metric.title(),
            time(if metric == Metric::Tpot { m.tpot } else { total })
        );
        let share = |part: f64| percent(part / total);
        let mut effects = Vec::new();
        if of_first && m.ttft >= GROWN * m.alone_ttft && parts.queue >= MATERIAL * total {
            let text = format!(
                "the median TTFT is {}, {} times that of one request alone ({}): the wait is {} {of}",
                time(m.ttft),
                short(m.ttft / m.alone_ttft),
                time(m.alone_ttft),
                share(parts.queue)
            );
            effects.push(Candidate(Bottleneck::Queue, parts.queue, text));
        }
        if of_rest && m.tpot >= GROWN * m.alone_tpot && parts.batching >= MATERIAL * total {
            let text = format!(
                "the median TPOT is {}, {} times that of one request alone ({}): what that adds is {} {of}",
                time(m.tpot),
                short(m.tpot / m.alone_tpot),
                time(m.alone_tpot),
                share(parts.batching)
            );
            effects.push(Candidate(Bottleneck::Batching, parts.batching, text));
        }
        let used = hit_rate.is_none_or(|rate| rate >= HITS);
        if let Some(saved) = parts.saved.filter(|_| of_first && used)
            && saved + m.alone_ttft >= GROWN * m.alone_ttft
            && saved >= MATERIAL * total
        {
            let hits = hit_rate.map(|r| format!(", at a hit rate of {}", percent(r))).unwrap_or_default();
            let text = format!(
                "unloaded, the first token comes after {}; the cold rows put a prompt of this length at {}: the cache saves {}{hits}",
                time(m.alone_ttft),
                time(saved + m.alone_ttft),
                time(saved)
            );
            effects.push(Candidate(Bottleneck::Cache, saved, text));
        }
        if let Some(effect) = clear(effects)? {
            return Ok(effect);
        }
        let base =
            |what, part: f64, name: &str| Candidate(what, part, format!("{name} is {} {of}", share(part)));
        let mut parts_alone = Vec::new();
        if of_rest {
            parts_alone.push(base(
                Bottleneck::Decode,
                parts.decode,
                "writing the answer, token by token as to one request alone,",
            ));
        }
        if of_first {
            parts_alone.push(base(Bottleneck::Prefill, parts.prefill, "reading the prompt"));
            parts_alone.extend(parts.overhead.map(|part| {
                base(Bottleneck::Overhead, part, "what any request costs, whatever its prompt,")
            }));
        }
        let found = clear(parts_alone)?.ok_or("nothing of it was measured")?;
        if found.0 == Bottleneck::Prefill && parts.overhead.is_none() {
            return Err(format!(
                "the unloaded TTFT is {} {of}, and nothing tells reading the prompt from what any request costs: that takes cold rows whose \
                 fixed input-tokens differ by a factor of {APART} or more",
                share(parts.prefill)
            ));
        }
        Ok(found)
    }
}

/// The largest, where it is clearly that.
fn clear(mut all: Vec<Candidate>) -> Result<Option<Candidate>, String> {
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    if let [first, second, ..] = &all[..]
        && first.1 < CLEAR * second.1
    {
        return Err(format!("{} and {} are alike: {}; and {}", first.0, second.0, first.2, second.2));
    }
    Ok(if all.is_empty() { None } else { Some(all.swap_remove(0)) })
}

#[cfg(test)]
mod tests;
