//! The plan's `[search]` table.

use goodput_core::level::Control;
use goodput_core::units::{Fraction, NonEmpty, Rate, Span, plain_number};
use goodput_workload::arrivals::Arrivals;
use serde::{Deserialize, Serialize};
use std::{fmt, num::NonZeroU32};

/// What the adaptive search steps through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Requests per second, open loop.
    #[default]
    Rate,
    /// Requests in flight, closed loop.
    Concurrency,
}

/// What an open loop steps through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open {
    /// Requests, conversations, or the speed of a trace.
    pub control: Control,
    /// The shape of its arrivals.
    pub arrivals: Arrivals,
    /// Requests per second at level 1: the turns of a conversation, the mean rate of a trace.
    pub per_level: f64,
    /// How long the users of a conversation think in all, in seconds.
    pub think_s: f64,
}

impl Open {
    /// Requests per second with these arrivals.
    pub const fn rate(arrivals: Arrivals) -> Self {
        Self { control: Control::Rate, arrivals, per_level: 1.0, think_s: 0.0 }
    }
}

/// The search that chooses its own levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Adaptive {
    /// What it steps through.
    pub over: Over,
    /// Wall time it may spend, settle, tail, drain and baseline included.
    pub budget: Span,
    /// Confidence of the safe rate.
    pub confidence: Fraction,
    /// Stop once the bracket, or an interval, is narrower than this share of the rate.
    pub width: Fraction,
}

impl Default for Adaptive {
    fn default() -> Self {
        let share = |x: f64| Fraction::try_from(x).expect("it is a share");
        Self { over: Over::Rate, budget: Span::secs(900), confidence: share(0.95), width: share(0.1) }
    }
}

/// When a ramp ends, besides at `max-rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// At the knee, whatever the SLO says: once a step completes fewer requests than are due, or its backlog grows, up to four more between it and
    /// the last one that did not place the knee within a tenth.
    #[default]
    Knee,
    /// At the first step shown to miss the SLO (each tier of it, where there are several).
    SloMissed,
}

/// The factor between two rates of a ramp: finite, and at least 1.01, so that the ramp gets anywhere.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
pub struct Factor(f64);

impl Factor {
    /// The plain number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for Factor {
    fn default() -> Self {
        Self(1.5)
    }
}

impl TryFrom<f64> for Factor {
    type Error = String;
    fn try_from(x: f64) -> Result<Self, String> {
        if x >= 1.01 && x.is_finite() {
            Ok(Self(x))
        } else {
            Err(format!("the factor of a ramp must be 1.01 or more, got {}", plain_number(x)))
        }
    }
}

impl From<Factor> for f64 {
    fn from(f: Factor) -> Self {
        f.0
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Rates that grow by a factor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ramp {
    /// The first rate.
    pub start: Rate,
    /// Each rate over the one before.
    #[serde(default)]
    pub factor: Factor,
    /// When to end.
    #[serde(default)]
    pub until: Until,
}

/// Numbers in flight that double until more of them buys no more throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ladder {
    /// The first number in flight.
    #[serde(default = "Ladder::one")]
    pub start: NonZeroU32,
    /// No number in flight is above this.
    pub max: NonZeroU32,
    /// It ends where a doubling adds less than this share to the output tokens per second.
    #[serde(default = "Ladder::least_growth")]
    pub growth: Fraction,
}

impl Ladder {
    fn one() -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// Below a twentieth a doubling has bought nothing worth its latency; steps of some hundred requests scatter by less.
    pub fn least_growth() -> Fraction {
        Fraction::try_from(0.05).expect("it is a share")
    }

    /// The number in flight of step number `done`, from 0.
    pub fn level(&self, done: usize) -> u32 {
        let doublings = u32::try_from(done).unwrap_or(u32::MAX).min(32);
        let wanted = u64::from(self.start.get()) << doublings;
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.max.get())
    }
}

/// A closed loop beside the search, at so many requests in flight that the server is always full: what it completes at the most,
/// however long that takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Peak {
    /// Requests in flight.
    pub concurrency: NonZeroU32,
    /// Load before anything counts, where it is not the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
    /// The measured window, where it is not the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Span>,
}

/// How levels are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// By the search itself.
    Adaptive(Adaptive),
    /// The rates of a list, in its order.
    Rates(NonEmpty<Rate>),
    /// Rates that grow by a factor until a stop rule fires.
    Ramp(Ramp),
    /// The numbers in flight of a list, in its order; closed loop.
    Concurrency(NonEmpty<NonZeroU32>),
    /// Numbers in flight that double until throughput stops growing; closed loop.
    Ladder(Ladder),
    /// So many requests, all at once: one step, which ends with the last answer.
    Burst(NonZeroU32),
}

/// The plan's `[search]`: at most one mode (adaptive where there is none), and what holds for every mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawSearch", into = "RawSearch")]
pub struct SearchPlan {
    /// How levels are chosen.
    pub mode: Mode,
    /// No rate above this is ever offered; one request at a time, before the others, is held to it as well.
    pub max_rate: Option<Rate>,
    /// Length of a last step at the answer.
    pub confirm: Option<Span>,
    /// When the sweep is ended, whatever the server does; reckoned from the rest where it is left out.
    pub deadline: Option<Span>,
    /// Whether one request at a time is measured before the levels of a list, for as long as each of them. The adaptive search has a
    /// baseline of its own.
    pub baseline: bool,
    /// The closed loop that is measured after the search, where one is.
    pub peak: Option<Peak>,
}

impl Default for SearchPlan {
    fn default() -> Self {
        let mode = Mode::Adaptive(Adaptive::default());
        Self { mode, max_rate: None, confirm: None, deadline: None, baseline: false, peak: None }
    }
}

/// The `[search]` table as written.
// A mirror of `SearchPlan`: six keys, of which at most one is set, become its mode. `#[serde(flatten)]` would lose the position of a
// mistake in the plan.
#[derive(Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct RawSearch {
    /// These rates in requests per second, one after the other (conversations per second, or the speed of a trace).
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<NonEmpty<Rate>>,
    /// These numbers in flight, one after the other: a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<NonEmpty<NonZeroU32>>,
    /// So many requests all at once; the step ends with the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<NonZeroU32>,
    /// One request at a time first, before the levels of a list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    baseline: bool,
    /// No rate above this is ever offered; one request at a time, before the others, is held to it as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rate: Option<Rate>,
    /// A soak of this length at the safe rate after the search, with a verdict of its own; no part of the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm: Option<Span>,
    /// The sweep is ended after so long, whatever the server does: counted from its start, or from when it was resumed, with everything
    /// that is waited for. Where it is left out: half as long again as all steps can take at the longest, and the time that servers may
    /// take to start, to get ready and to end. Of variants the plan's own holds for all of them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Span>,
    // Tables last, so that they can be written as tables.
    /// The search chooses its levels itself; the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<Adaptive>,
    /// Rates that grow by a factor until a stop rule fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    ramp: Option<Ramp>,
    /// Numbers in flight that double until more of them buys no more throughput: a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    ladder: Option<Ladder>,
    /// After the search, a closed loop that keeps the server full: the raw peak beside the goodput.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<Peak>,
}

impl TryFrom<RawSearch> for SearchPlan {
    type Error = String;
    fn try_from(raw: RawSearch) -> Result<Self, String> {
        let modes = [
            raw.adaptive.map(Mode::Adaptive),
            raw.rates.map(Mode::Rates),
            raw.ramp.map(Mode::Ramp),
            raw.concurrency.map(Mode::Concurrency),
            raw.ladder.map(Mode::Ladder),
            raw.burst.map(Mode::Burst),
        ];
        let mut modes: Vec<Mode> = modes.into_iter().flatten().collect();
        if modes.len() > 1 {
            return Err("[search] takes only one of adaptive, rates, ramp, concurrency, ladder, burst".into());
        }
        let mode = modes.pop().unwrap_or_else(|| Mode::Adaptive(Adaptive::default()));
        if raw.baseline && !matches!(mode, Mode::Rates(_) | Mode::Concurrency(_)) {
            return Err(
                "[search] baseline = true goes before the levels of a list: rates or concurrency".into()
            );
        }
        if let Mode::Ladder(ladder) = &mode
            && ladder.start > ladder.max
        {
            return Err(format!(
                "[search] ladder.start ({}) is above ladder.max ({})",
                ladder.start, ladder.max
            ));
        }
        if raw.peak.and_then(|peak| peak.measure).is_some_and(|m| m.0.is_zero()) {
            return Err("[search] peak.measure is zero: nothing would be counted".into());
        }
        if raw.deadline.is_some_and(|d| d.0.is_zero()) {
            return Err("[search] deadline is zero: the sweep would end before it began".into());
        }
        let (max_rate, confirm, baseline, peak) = (raw.max_rate, raw.confirm, raw.baseline, raw.peak);
        let plan = Self { mode, max_rate, confirm, deadline: raw.deadline, baseline, peak };
        plan.above_max().map_or(Ok(plan), Err)
    }
}

impl SearchPlan {
    /// What is wrong if the plan lists a rate above its own `max-rate`.
    fn above_max(&self) -> Option<String> {
        let max = self.max_rate?;
        let (key, above) = match &self.mode {
            Mode::Rates(rates) => ("rates", rates.iter().find(|r| **r > max)?),
            Mode::Ramp(ramp) if ramp.start > max => ("ramp.start", &ramp.start),
            _ => return None,
        };
        Some(format!("[search] {key} has {above}, above max-rate = {max}: raise max-rate or drop that rate"))
    }
}

impl From<SearchPlan> for RawSearch {
    fn from(plan: SearchPlan) -> Self {
        let (max_rate, confirm, baseline, peak) = (plan.max_rate, plan.confirm, plan.baseline, plan.peak);
        let mut raw = Self { max_rate, confirm, deadline: plan.deadline, baseline, peak, ..Self::default() };
        match plan.mode {
            Mode::Adaptive(a) => raw.adaptive = Some(a),
            Mode::Rates(r) => raw.rates = Some(r),
            Mode::Ramp(r) => raw.ramp = Some(r),
            Mode::Concurrency(c) => raw.concurrency = Some(c),
            Mode::Ladder(l) => raw.ladder = Some(l),
            Mode::Burst(n) => raw.burst = Some(n),
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_parse_and_write_the_same() {
        for text in [
            "",
            "rates = [1, 2.5, 4]\nmax-rate = 500",
            "rates = [4, 1]", // any order
            "concurrency = [1, 8]",
            "ramp = { start = 1 }",
            "ramp = { start = 1, factor = 2, until = \"slo-missed\" }\nmax-rate = 40.5",
            "adaptive = { budget = \"15m\", confidence = 0.95, width = 0.1 }\nconfirm = \"10m\"",
            "adaptive = { over = \"concurrency\" }",
            "concurrency = [8]\nbaseline = true",
            "ladder = { start = 2, max = 64, growth = 0.1 }",
            "burst = 500",
            "peak = { concurrency = 64 }",
            "rates = [1]\ndeadline = \"2h\"",
            "rates = [1]\npeak = { concurrency = 64, settle = \"1m\", measure = \"2m\" }",
        ] {
            let plan: SearchPlan = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let written = toml::to_string(&plan).unwrap();
            assert_eq!(toml::from_str::<SearchPlan>(&written).unwrap(), plan, "{text}: {written}");
        }
        assert_eq!(toml::from_str::<SearchPlan>("").unwrap(), SearchPlan::default());
        let Mode::Ramp(ramp) = toml::from_str::<SearchPlan>("ramp = { start = 1 }").unwrap().mode else {
            panic!("a ramp")
        };
        assert!((ramp.factor.get() - 1.5).abs() < 1e-12 && ramp.until == Until::Knee);
    }

    #[test]
    fn faults_are_named() {
        for (text, says) in [
            ("rates = [1]\nconcurrency = [1]", "only one of adaptive, rates, ramp, concurrency"),
            ("rates = []", "empty"),
            ("rates = [0]", "positive"),
            ("rates = [1, -2]", "positive"),
            ("concurrency = [0]", "nonzero"),
            ("concurrency = [1.5]", "u32"),
            ("ramp = { factor = 2 }", "start"),
            ("ramp = { start = 1, factor = 1 }", "1.01 or more"),
            ("ramp = { start = 1, until = \"death\" }", "slo-missed"),
            ("ramp = { start = 9 }\nmax-rate = 5", "ramp.start has 9, above max-rate = 5"),
            ("rates = [1, 9]\nmax-rate = 5", "rates has 9, above max-rate = 5"),
            ("rate = [1]", "unknown field"),
            ("burst = 0", "nonzero"),
            ("burst = 5\nconcurrency = [1]", "only one of"),
            ("ladder = { start = 8, max = 4 }", "ladder.start (8) is above ladder.max (4)"),
            ("ladder = { start = 8 }", "max"),
            ("burst = 5\nbaseline = true", "before the levels of a list"),
            ("adaptive = { budgets = \"1m\" }", "unknown field"),
            ("peak = { concurrency = 0 }", "nonzero"),
            ("peak = { measure = \"1m\" }", "concurrency"),
            ("deadline = \"0s\"", "before it began"),
            ("peak = { concurrency = 1, measure = \"0s\" }", "peak.measure is zero"),
        ] {
            let e = toml::from_str::<SearchPlan>(text).unwrap_err().to_string();
            assert!(e.contains(says), "{text}: {e}");
        }
    }
}
