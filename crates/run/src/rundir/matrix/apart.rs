//! Finds the bottleneck from the parts of a latency: thresholds, and the text of the evidence.

use super::Parts;
use goodput_core::slo::Metric;
use goodput_core::units::short;
use goodput_plan::Bottleneck;

/// Factor by which load must raise a median to count as slow-down: medians of a few dozen requests scatter by some
/// per cent from step to step, and less than a quarter is not called a slow-down in practice.
const GROWN: f64 = 1.25;

/// Minimum share of the latency that a part must have to be a bottleneck, however much it has grown.
const MATERIAL: f64 = 0.1;

/// Factor by which the largest part must exceed the second largest; if they are closer, the result is undecided.
const CLEAR: f64 = 1.1;

/// Minimum ratio of the prompt lengths of cold rows for the line of TTFT: with closer lengths the scatter of the two
/// medians would be taken for a slope.
pub(super) const APART: f64 = 2.0;

/// Minimum reported hit rate at which the cache counts as used.
const HITS: f64 = 0.05;

/// Formats a time in ms or s.
fn time(ms: f64) -> String {
    if ms < 999.5 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1e3)) }
}

/// Formats a share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", short((1000.0 * share).round() / 10.0))
}

/// Medians in milliseconds: TTFT, TPOT and e2e of the row, TTFT and TPOT of its reference.
#[derive(Clone, Copy)]
pub(super) struct Medians {
    pub(super) ttft: f64,
    pub(super) tpot: f64,
    pub(super) e2e: f64,
    pub(super) alone_ttft: f64,
    pub(super) alone_tpot: f64,
}

/// The bottleneck with its evidence, or the reason why it is undecided.
pub(super) type Told = Result<(Bottleneck, String), String>;

/// A possible bottleneck: kind, size in milliseconds, and evidence.
struct Candidate(Bottleneck, f64, String);

/// The latency of a row, split into parts.
pub(super) struct Apart {
    /// Latency metric of the question.
    pub(super) metric: Metric,
    pub(super) medians: Medians,
    pub(super) parts: Parts,
    pub(super) hit_rate: Option<f64>,
}

impl Apart {
    fn of_first(&self) -> bool {
        self.metric != Metric::Tpot
    }

    fn of_rest(&self) -> bool {
        self.metric != Metric::Ttft
    }

    /// Returns the total in ms that shares of parts refer to.
    fn total(&self) -> f64 {
        match self.metric {
            Metric::Ttft => self.medians.ttft,
            Metric::Tpot => self.parts.decode + self.parts.batching,
            _ => self.medians.e2e,
        }
    }

    /// Formats a part as a share: `35 % of a median e2e of 9.99 s`.
    fn share(&self, part: f64) -> String {
        let value = if self.metric == Metric::Tpot { self.medians.tpot } else { self.total() };
        format!("{} of a median {} of {}", percent(part / self.total()), self.metric.title(), time(value))
    }

    /// Returns the bottleneck: the largest effect of load or cache if there is one, else the largest basic part.
    pub(super) fn largest(&self) -> Told {
        let effects = [self.queue(), self.batching(), self.cache()].into_iter().flatten().collect();
        let found = match clear(effects)? {
            Some(effect) => effect,
            None => clear(self.base())?.ok_or("nothing of it was measured")?,
        };
        if found.0 == Bottleneck::Prefill && self.parts.overhead.is_none() {
            return Err(format!(
                "the unloaded TTFT is {}, and nothing tells reading the prompt from what any request costs: that takes cold rows whose \
                 fixed input-tokens differ by a factor of {APART} or more",
                self.share(self.parts.prefill)
            ));
        }
        Ok((found.0, found.2))
    }

    fn material(&self, part: f64) -> bool {
        part >= MATERIAL * self.total()
    }

    fn queue(&self) -> Option<Candidate> {
        let (m, part) = (&self.medians, self.parts.queue);
        let shown = self.of_first() && m.ttft >= GROWN * m.alone_ttft && self.material(part);
        shown.then(|| {
            let (now, times, alone) = (time(m.ttft), short(m.ttft / m.alone_ttft), time(m.alone_ttft));
            let of = self.share(part);
            let text = format!("the median TTFT is {now}, {times} times that of one request alone ({alone}): the wait is {of}");
            Candidate(Bottleneck::Queue, part, text)
        })
    }

    fn batching(&self) -> Option<Candidate> {
        let (m, part) = (&self.medians, self.parts.batching);
        let shown = self.of_rest() && m.tpot >= GROWN * m.alone_tpot && self.material(part);
        shown.then(|| {
            let (now, times, alone) = (time(m.tpot), short(m.tpot / m.alone_tpot), time(m.alone_tpot));
            let of = self.share(part);
            let text =
                format!("the median TPOT is {now}, {times} times that of one request alone ({alone}): what that adds is {of}");
            Candidate(Bottleneck::Batching, part, text)
        })
    }

    fn cache(&self) -> Option<Candidate> {
        let alone = self.medians.alone_ttft;
        let used = self.of_first() && self.hit_rate.is_none_or(|rate| rate >= HITS);
        let saved = self
            .parts
            .saved
            .filter(|saved| used && saved + alone >= GROWN * alone && self.material(*saved))?;
        let hits = self.hit_rate.map(|r| format!(", at a hit rate of {}", percent(r))).unwrap_or_default();
        let text = format!(
            "unloaded, the first token comes after {}; the cold rows put a prompt of this length at {}: the cache saves {}{hits}",
            time(alone),
            time(saved + alone),
            time(saved)
        );
        Some(Candidate(Bottleneck::Cache, saved, text))
    }

    /// Returns the parts that exist without load and cache.
    fn base(&self) -> Vec<Candidate> {
        let p = &self.parts;
        let of =
            |what, part: f64, name: &str| Candidate(what, part, format!("{name} is {}", self.share(part)));
        let decode = "writing the answer, token by token as to one request alone,";
        let overhead = "what any request costs, whatever its prompt,";
        let all = [
            self.of_rest().then(|| of(Bottleneck::Decode, p.decode, decode)),
            self.of_first().then(|| of(Bottleneck::Prefill, p.prefill, "reading the prompt")),
            p.overhead.filter(|_| self.of_first()).map(|part| of(Bottleneck::Overhead, part, overhead)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Returns the largest candidate; fails if the second is too close to it.
fn clear(mut all: Vec<Candidate>) -> Result<Option<Candidate>, String> {
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    if let [first, second, ..] = &all[..]
        && first.1 < CLEAR * second.1
    {
        return Err(format!("{} and {} are alike: {}; and {}", first.0, second.0, first.2, second.2));
    }
    Ok(if all.is_empty() { None } else { Some(all.swap_remove(0)) })
}
