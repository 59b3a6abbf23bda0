//! `[[row]]`: one question of a matrix, with its load and the expected bottleneck.

use super::{Plan, Tiers};
use goodput_core::named_enum;
use goodput_core::slo::{AnswerPart, Metric, Slo};
use goodput_core::units::{Fraction, NonEmpty, Rate, Span};
use goodput_stats::search::config::{Mode, SearchPlan};
use goodput_workload::config::{Cache, Source};
use goodput_workload::lengths::{Lengths, TokenCount};
use goodput_workload::sources::Prompts;
use goodput_workload::synthetic::{SharedPrefix, Synthetic, prefix_of_share};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroU32;

/// One row of a matrix. It becomes a series of the same name with one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MatrixRow {
    /// Name of the row.
    pub name: String,
    /// The question that the row answers, in your words; shown in the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The latency in question: `ttft`, `tpot` or `e2e`.
    #[serde(default = "MatrixRow::e2e")]
    pub metric: Metric,
    /// The expected bottleneck: the largest part of that latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Bottleneck>,
    /// Requests in flight, in a closed loop. With `rate`, the loop sends no faster than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Requests per second; an open loop unless `concurrency` is set too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Share of all input tokens in a warm prefix that the requests share; none by default. Requests shorter than the prefix use its
    /// beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_reuse: Option<Fraction>,
    /// Prefix cache, cold or warm; warm by default if a prefix is reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Measured window; `step.measure` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Span>,
    /// Input tokens. Set both `input-tokens` and `output-tokens` to replace the requests of `[workload]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<Lengths>,
    /// Output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Lengths>,
    /// SLO of the row, instead of the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
}

named_enum! {
    /// The part that dominates a latency, as seen by the client. `rundir::matrix` documents how each is detected.
    pub enum Bottleneck {
        /// Fixed cost of a request before prefill: network, scheduling, one iteration of the server.
        Overhead = "overhead",
        /// Processing the prompt.
        Prefill = "prefill",
        /// Generating the answer, at the speed of a single request.
        Decode = "decode",
        /// Slower tokens than for a single request, because each iteration serves other requests too.
        Batching = "batching",
        /// A later first token than for a single request, because it waits behind other requests.
        Queue = "queue",
        /// The prefix cache: the first token comes sooner than the whole prompt could be processed.
        Cache = "cache",
    }
}

impl Bottleneck {
    /// Returns true if it can dominate this latency.
    const fn sets(self, metric: Metric) -> bool {
        match self {
            Self::Decode | Self::Batching => match metric.part() {
                AnswerPart::Pace | AnswerPart::Whole => true,
                AnswerPart::First => false,
            },
            Self::Overhead | Self::Prefill | Self::Queue | Self::Cache => metric.is_from_due(),
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl MatrixRow {
    fn e2e() -> Metric {
        Metric::E2e
    }

    /// Returns true if the load is one request at a time, so that the row needs no unloaded reference step.
    pub fn unloaded(&self) -> bool {
        self.concurrency.is_some_and(|c| c.get() == 1)
    }

    /// Returns the cache setting of the row; `None` for the plan's.
    fn cache(&self) -> Option<Cache> {
        let by_reuse =
            self.prefix_reuse.map(|share| if share.get() > 0.0 { Cache::Warm } else { Cache::Cold });
        self.cache.or(by_reuse).or(self.input_tokens.map(|_| Cache::Cold))
    }

    /// Returns the problem if a row has no lengths in a plan without `[workload]`.
    pub(super) fn lengths_missing(rows: &[Self]) -> Option<String> {
        let bare = rows.iter().find(|row| row.input_tokens.is_none() && row.output_tokens.is_none())?;
        Some(format!(
            "[[row]] {}: it has no lengths, and the plan has no [workload]: add input-tokens and output-tokens to the row",
            bare.name
        ))
    }

    /// Returns the synthetic prompts of the row; `None` if it has no lengths.
    fn prompts(&self) -> Option<Synthetic> {
        let (input_tokens, output_tokens) = (self.input_tokens?, self.output_tokens?);
        let share = self.prefix_reuse.map_or(0.0, Fraction::get);
        // A prefix of zero tokens is not a token count, so there is no shared prefix then.
        let tokens = TokenCount::try_from(prefix_of_share(&input_tokens, share)).ok();
        let shared_prefix = tokens.map(|tokens| SharedPrefix { tokens, groups: TokenCount::ONE });
        Some(Synthetic { input_tokens, output_tokens, shared_prefix, images: None })
    }

    /// Turns the plan of the matrix into the plan of this row.
    pub(super) fn apply(&self, plan: &mut Plan) {
        plan.rows.clear();
        if let Some(prompts) = self.prompts() {
            plan.workload.source = Source::Prompts(Prompts::Synthetic(prompts));
            plan.workload.conversation = None;
            plan.workload.file_summaries.clear();
        }
        plan.workload.cache = self.cache().unwrap_or(plan.workload.cache);
        plan.workload.pace = self.rate.filter(|_| self.concurrency.is_some());
        let mode = match (self.concurrency, self.rate) {
            (Some(slots), _) => NonEmpty::try_from(vec![slots]).ok().map(Mode::Concurrency),
            (None, Some(rate)) => NonEmpty::try_from(vec![rate]).ok().map(Mode::Rates),
            (None, None) => None,
        };
        plan.search = SearchPlan { baseline: !self.unloaded(), ..SearchPlan::default() };
        if let Some(mode) = mode {
            plan.search.mode = mode;
        }
        plan.step.measure = self.measure.unwrap_or(plan.step.measure);
        if let Some(slo) = &self.slo {
            plan.slo = Tiers::of(slo.clone());
        }
    }

    /// Returns the first problem with the row by itself.
    fn problem(&self) -> Option<String> {
        if self.name.trim().is_empty() || self.name == super::MAIN {
            return Some(format!(
                "name = {:?}: a row needs a name, other than \"{}\"",
                self.name,
                super::MAIN
            ));
        }
        if self.concurrency.is_none() && self.rate.is_none() {
            return Some(
                "it has no load: add concurrency, rate, or both (a closed loop no faster than the rate)"
                    .into(),
            );
        }
        if !self.metric.is_principal() {
            return Some(format!("metric = \"{}\": write ttft, tpot or e2e", self.metric.name()));
        }
        if let Some(expect) = self.expect.filter(|e| !e.sets(self.metric)) {
            return Some(format!(
                "expect = \"{expect}\" cannot dominate {}: choose another metric",
                self.metric.title()
            ));
        }
        if self.cache == Some(Cache::Pair) {
            return Some("cache = \"pair\": write two rows, one cold and one warm".into());
        }
        match (self.input_tokens, self.output_tokens) {
            (Some(_), None) => return Some("output-tokens is missing: add it to input-tokens".into()),
            (None, Some(_)) => return Some("input-tokens is missing: add it to output-tokens".into()),
            (None, None) if self.prefix_reuse.is_some() => {
                return Some(
                    "prefix-reuse is a share of the row's own lengths: add input-tokens and output-tokens"
                        .into(),
                );
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        if self.measure.is_some_and(|m| m.0.is_zero()) {
            return Some("measure is zero: no request would be counted; write a longer time".into());
        }
        self.slo.clone().and_then(|slo| slo.resolve().problem())
    }
}

/// Returns the first problem with the rows of a plan; the message names the row.
pub(super) fn problem(plan: &Plan) -> Option<String> {
    let mut names = HashSet::new();
    for row in &plan.rows {
        if let Some(problem) = row.problem() {
            return Some(format!("[[row]] {}: {problem}", row.name));
        }
        if !names.insert(&row.name) {
            return Some(format!("[[row]] two rows are named {:?}: give each its own name", row.name));
        }
    }
    if plan.rows.is_empty() {
        return None;
    }
    if !plan.variants.is_empty() || plan.grid.is_some() {
        return Some(
            "[[variant]] and [grid] cannot be combined with [[row]]: write a plan with the matrix for each server"
                .into(),
        );
    }
    if plan.search != SearchPlan::default() {
        return Some(
            "[search] cannot be combined with [[row]], since each row sets its own level: leave out [search]"
                .into(),
        );
    }
    if plan.workload.alone || plan.workload.cache == Cache::Pair {
        return Some(
            "[workload] alone and cache = \"pair\" cannot be combined with [[row]]: write a row for each case".into(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Control;

    fn plan(rest: &str) -> anyhow::Result<Plan> {
        Plan::from_text(&format!("name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\n{rest}"))
    }

    const A: &str =
        "[[row]]\nname = \"A\"\ninput-tokens = { fixed = 256 }\noutput-tokens = { fixed = 128 }\n";

    #[test]
    fn each_row_is_a_series_with_one_level() {
        let text = format!(
            "{A}concurrency = 1\nrate = 2\nexpect = \"decode\"\n[[row]]\nname = \"E\"\ninput-tokens = {{ fixed = 4000 }}\n\
             output-tokens = {{ quantiles = {{ p50 = 100, p90 = 300, max = 900 }} }}\nconcurrency = 16\nprefix-reuse = 0.75\n\
             slo.ttft.p99 = \"1s\"\nmeasure = \"7s\"\n[[row]]\nname = \"R\"\ninput-tokens = {{ fixed = 9 }}\n\
             output-tokens = {{ fixed = 9 }}\nrate = 3\n"
        );
        let whole = plan(&text).unwrap();
        let all = whole.series();
        let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["A", "E", "R"]);
        let [a, e, r] = &all[..] else { panic!("three series") };
        assert_eq!(a.plan.workload.to_string(), "256 in / 128 out tokens, Poisson arrivals, cold cache");
        assert_eq!(a.plan.workload.pace.map(Rate::get), Some(2.0));
        assert!(!a.plan.search.baseline && e.plan.search.baseline && r.plan.search.baseline);
        assert!(e.plan.workload.closed().contains("3000 shared, closed loop, warm cache"));
        assert_eq!((e.plan.slo.summary().as_str(), a.plan.slo.is_none()), ("p99 TTFT ≤ 1 s", true));
        assert_eq!((e.plan.step.measure, a.plan.step.measure), (Span::secs(7), Span::secs(60)));
        assert!(
            matches!(&r.plan.search.mode, Mode::Rates(rates) if rates.len() == 1)
                && r.plan.workload.pace.is_none()
        );
        assert_eq!(r.plan.workload.control(), Control::Rate);
        assert!(all.iter().all(|s| s.plan.rows.is_empty() && s.plan.series().len() == 1));
        let again = Plan::from_text(&whole.to_toml().unwrap()).unwrap();
        assert_eq!(again, whole, "it reads back from the run folder");
    }

    #[test]
    fn a_row_without_lengths_uses_the_plans_workload() {
        let workload = "[workload]\nprompts.synthetic = { input-tokens = { fixed = 70 }, output-tokens = { fixed = 7 } }\n";
        let whole = plan(&format!("{workload}[[row]]\nname = \"A\"\nconcurrency = 4\n")).unwrap();
        let [a] = &whole.series()[..] else { panic!("one series") };
        assert_eq!(
            (a.name.as_str(), a.plan.workload.closed()),
            ("A", "70 in / 7 out tokens, closed loop, cold cache".into())
        );
    }

    #[test]
    fn errors_name_the_row() {
        for (rest, message) in [
            (A.to_owned(), "[[row]] A: it has no load"),
            (format!("{A}concurrency = 1\n{A}rate = 1\n"), "two rows are named \"A\""),
            (format!("{A}rate = 1\nmetric = \"itl\"\n"), "[[row]] A: metric = \"itl\""),
            (format!("{A}rate = 1\nmetric = \"tpot\"\nexpect = \"queue\"\n"), "cannot dominate TPOT"),
            (format!("{A}rate = 1\ncache = \"pair\"\n"), "write two rows"),
            (format!("{A}rate = 1\nexpect = \"luck\"\n"), "unknown name `luck`"),
            (format!("{A}rate = 1\nslo.ttft.p99 = \"0s\"\n"), "[[row]] A: [slo] ttft.p99 is zero"),
            (format!("search.rates = [1]\n{A}rate = 1\n"), "leave out [search]"),
            (format!("step.max-in-flight = 8\n{A}concurrency = 16\n"), "A: [search] concurrency 16 is above"),
            ("[[row]]\nname = \"A\"\nrate = 1\n".into(), "[[row]] A: it has no lengths"),
            (String::new(), "the key `workload` is missing"),
            (
                "[[row]]\nname = \"A\"\nrate = 1\ninput-tokens = { fixed = 9 }\n".into(),
                "output-tokens is missing",
            ),
            (
                format!("{A}concurrency = 1\n[[row]]\nname = \"B\"\nrate = 1\n"),
                "[[row]] B: it has no lengths",
            ),
        ] {
            let e = format!("{:#}", plan(&rest).unwrap_err());
            assert!(e.contains(message), "{rest}: {e}");
        }
    }
}
