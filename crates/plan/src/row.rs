//! `[[row]]`: one question of a matrix, the load that is to answer it, and what is expected.

use super::{Plan, Tiers};
use goodput_core::slo::{Metric, Slo};
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

/// One row of the matrix. It becomes a series of its name, with one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it is to answer, in the reader's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The latency that the question is about: `ttft`, `tpot` or `e2e`.
    #[serde(default = "Row::e2e")]
    pub metric: Metric,
    /// What is expected to set that latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Bottleneck>,
    /// Requests in flight: a closed loop. Beside `rate` it sends no faster than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Requests per second; without `concurrency` an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The share of all input tokens that lies in a warm prefix which the requests have in common; none where it is absent. Requests too
    /// short for the whole prefix have its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_reuse: Option<Fraction>,
    /// Cold or warm; by default warm where a prefix is reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// The measured window, where it is not the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Span>,
    /// Input tokens; with `output-tokens`, in the place of what the plan's `[workload]` sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<Lengths>,
    /// Output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Lengths>,
    /// Limits of its own in the place of the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
}

/// What sets a latency, as the client sees it. How each is told is written at `rundir::matrix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    /// What every request costs before a token of its prompt is read: network, scheduling, one iteration of the server.
    Overhead,
    /// Reading the prompt.
    Prefill,
    /// Writing the answer token by token, at the pace of one request alone.
    Decode,
    /// Tokens come slower than to one request alone: each iteration serves others as well.
    Batching,
    /// The first token comes later than to one request alone: it waits behind others.
    Queue,
    /// The prefix cache: the first token comes sooner than the whole prompt could be read.
    Cache,
}

impl Bottleneck {
    /// The name in plans and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overhead => "overhead",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Batching => "batching",
            Self::Queue => "queue",
            Self::Cache => "cache",
        }
    }

    /// Whether it can set this latency at all.
    const fn sets(self, metric: Metric) -> bool {
        match self {
            Self::Decode | Self::Batching => matches!(metric, Metric::Tpot | Metric::E2e),
            Self::Overhead | Self::Prefill | Self::Queue | Self::Cache => {
                matches!(metric, Metric::Ttft | Metric::E2e)
            }
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Row {
    fn e2e() -> Metric {
        Metric::E2e
    }

    /// Whether its own load is one request at a time, so that it needs no other to compare with.
    pub fn unloaded(&self) -> bool {
        self.concurrency.is_some_and(|c| c.get() == 1)
    }

    /// The cache that it asks for, where it does.
    fn cache(&self) -> Option<Cache> {
        let own = self.prefix_reuse.map(|share| if share.get() > 0.0 { Cache::Warm } else { Cache::Cold });
        self.cache.or(own).or(self.input_tokens.map(|_| Cache::Cold))
    }

    /// What is wrong with rows of a plan that has no `[workload]`, if anything.
    pub(super) fn lengths_missing(rows: &[Self]) -> Option<String> {
        let bare = rows.iter().find(|row| row.input_tokens.is_none() && row.output_tokens.is_none())?;
        Some(format!(
            "[[row]] {}: it says no lengths, and the plan has no [workload]: give the row input-tokens and output-tokens",
            bare.name
        ))
    }

    /// Prompts of its own, where it has them.
    fn prompts(&self) -> Option<Synthetic> {
        let (input_tokens, output_tokens) = (self.input_tokens?, self.output_tokens?);
        let share = self.prefix_reuse.map_or(0.0, Fraction::get);
        // None where nothing is shared.
        let tokens = TokenCount::try_from(prefix_of_share(&input_tokens, share)).ok();
        let groups = TokenCount::try_from(1).ok();
        let shared_prefix = tokens.zip(groups).map(|(tokens, groups)| SharedPrefix { tokens, groups });
        Some(Synthetic { input_tokens, output_tokens, shared_prefix })
    }

    /// Makes the plan the row's own.
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

    /// What is wrong with it on its own, if anything.
    fn problem(&self) -> Option<String> {
        if self.name.trim().is_empty() || self.name == super::MAIN {
            return Some(format!("name = {:?}: a row needs a name of its own", self.name));
        }
        if self.concurrency.is_none() && self.rate.is_none() {
            return Some(
                "it has no load: give it concurrency, rate, or both (a closed loop no faster than the rate)"
                    .into(),
            );
        }
        if !matches!(self.metric, Metric::Ttft | Metric::Tpot | Metric::E2e) {
            return Some(format!("metric = \"{}\": it is one of ttft, tpot, e2e", self.metric.name()));
        }
        if let Some(expect) = self.expect.filter(|e| !e.sets(self.metric)) {
            return Some(format!(
                "expect = \"{expect}\" can set no {}: name another metric",
                self.metric.title()
            ));
        }
        if self.cache == Some(Cache::Pair) {
            return Some("cache = \"pair\": write two rows, one cold and one warm".into());
        }
        match (self.input_tokens, self.output_tokens) {
            (Some(_), None) => return Some("it has input-tokens and no output-tokens".into()),
            (None, Some(_)) => return Some("it has output-tokens and no input-tokens".into()),
            (None, None) if self.prefix_reuse.is_some() => {
                return Some("prefix-reuse is a share of input-tokens: give it lengths of its own".into());
            }
            _ => {}
        }
        if self.measure.is_some_and(|m| m.0.is_zero()) {
            return Some("measure is zero: nothing would be counted".into());
        }
        self.slo.clone().and_then(|slo| slo.resolve().problem())
    }
}

/// What is wrong with the rows of a plan, if anything; the message names the row.
pub(super) fn problem(plan: &Plan) -> Option<String> {
    let mut names = HashSet::new();
    for row in &plan.rows {
        if let Some(problem) = row.problem() {
            return Some(format!("[[row]] {}: {problem}", row.name));
        }
        if !names.insert(&row.name) {
            return Some(format!("[[row]] two rows are called {:?}", row.name));
        }
    }
    if plan.rows.is_empty() {
        return None;
    }
    if !plan.variants.is_empty() || plan.grid.is_some() {
        return Some(
            "[[variant]] and [grid] do not go with [[row]]: write a plan with the matrix for each server"
                .into(),
        );
    }
    if plan.search != SearchPlan::default() {
        return Some("[search] beside [[row]]: each row is its own level; drop [search]".into());
    }
    if plan.workload.alone || plan.workload.cache == Cache::Pair {
        return Some(
            "[workload] alone and cache = \"pair\" do not go with [[row]]: write a row for each".into(),
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
        let [a, e, r] = &all[..] else { panic!("three") };
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
        assert_eq!(again, whole, "what the run folder keeps says the same");
    }

    #[test]
    fn a_row_without_lengths_takes_the_plans_workload() {
        let workload = "[workload]\nprompts.synthetic = { input-tokens = { fixed = 70 }, output-tokens = { fixed = 7 } }\n";
        let whole = plan(&format!("{workload}[[row]]\nname = \"A\"\nconcurrency = 4\n")).unwrap();
        let [a] = &whole.series()[..] else { panic!("one") };
        assert_eq!(
            (a.name.as_str(), a.plan.workload.closed()),
            ("A", "70 in / 7 out tokens, closed loop, cold cache".into())
        );
    }

    #[test]
    fn faults_name_the_row() {
        for (rest, says) in [
            (A.to_owned(), "[[row]] A: it has no load"),
            (format!("{A}concurrency = 1\n{A}rate = 1\n"), "two rows are called \"A\""),
            (format!("{A}rate = 1\nmetric = \"itl\"\n"), "[[row]] A: metric = \"itl\""),
            (format!("{A}rate = 1\nmetric = \"tpot\"\nexpect = \"queue\"\n"), "can set no TPOT"),
            (format!("{A}rate = 1\ncache = \"pair\"\n"), "write two rows"),
            (format!("{A}rate = 1\nexpect = \"luck\"\n"), "unknown variant `luck`"),
            (format!("{A}rate = 1\nslo.ttft.p99 = \"0s\"\n"), "[[row]] A: [slo] ttft.p99 is zero"),
            (format!("search.rates = [1]\n{A}rate = 1\n"), "drop [search]"),
            (format!("step.max-in-flight = 8\n{A}concurrency = 16\n"), "A: [search] concurrency 16 is above"),
            ("[[row]]\nname = \"A\"\nrate = 1\n".into(), "[[row]] A: it says no lengths"),
            (String::new(), "missing field `workload`"),
            ("[[row]]\nname = \"A\"\nrate = 1\ninput-tokens = { fixed = 9 }\n".into(), "no output-tokens"),
            (
                format!("{A}concurrency = 1\n[[row]]\nname = \"B\"\nrate = 1\n"),
                "[[row]] B: it says no lengths",
            ),
        ] {
            let e = format!("{:#}", plan(&rest).unwrap_err());
            assert!(e.contains(says), "{rest}: {e}");
        }
    }
}
