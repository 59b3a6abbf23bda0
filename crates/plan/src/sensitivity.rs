//! `[sensitivity]`: the workload factors to change after the search, and the plan of the paired steps, whose variants change them.

use super::{Plan, Purpose, Variant};
use anyhow::{Context, Result};
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use goodput_core::units::{Fraction, NonEmpty, Rate, Span};
use goodput_stats::search::config::{Mode, SearchPlan};
use goodput_workload::factors::{Factor, FactorKind};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;

/// Paired steps near the goodput after the search, each with one factor of the workload changed. They show how the goodput depends on each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SensitivityPlan {
    /// The factors to change: `prompt-length`, `answer-length`, `cache-share` (input tokens in shared prefixes of a warm cache), `burstiness`
    /// (the spread of the arrivals) and `mix` (the share of each class). By default all that apply to the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factors: Option<NonEmpty<FactorKind>>,
    /// Maximum change of a factor up and down, as a share of it. The change is smaller where it would overload the server.
    #[serde(rename = "move")]
    pub most: Fraction,
    /// Time budget of all paired steps, in addition to that of the search.
    pub budget: Span,
}

impl Default for SensitivityPlan {
    fn default() -> Self {
        let most = Fraction::try_from(0.2).expect("0.2 is a share");
        Self { factors: None, most, budget: Span::secs(1800) }
    }
}

/// A factor that cannot be changed in a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Immovable {
    /// The factor.
    pub factor: Factor,
    /// The reason, for people.
    pub why: String,
}

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A smaller value.
    Down,
    /// A larger value.
    Up,
}

impl Side {
    /// Both directions, in the order of measurement.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// Returns the name in series.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }

    /// Returns the multiplier for a relative change `by`: 1 + by, or its inverse.
    pub fn times(self, by: f64) -> f64 {
        match self {
            Self::Down => 1.0 / (1.0 + by),
            Self::Up => 1.0 + by,
        }
    }
}

/// Returns the name of the series with the rate changed.
pub fn rate_series(side: Side) -> String {
    format!("rate {}", side.name())
}

/// Returns the name of the series with a factor changed.
pub fn factor_series(factor: &Factor, side: Side) -> String {
    format!("{factor} {}", side.name())
}

/// Level and times of the paired steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairing {
    /// The level at which factors are changed.
    pub centre: f64,
    /// Relative change of the rate, up and down.
    pub rate_move: f64,
    /// Number of steps per series.
    pub turns: NonZeroU32,
    /// Settling time.
    pub settle: Duration,
    /// The measured window.
    pub measure: Duration,
}

impl SensitivityPlan {
    /// Returns the factors that can be changed in the plan's workload, and those that cannot.
    pub fn factors(&self, plan: &Plan) -> (Vec<Factor>, Vec<Immovable>) {
        let kinds = self.factors.as_deref().unwrap_or(&FactorKind::ALL);
        let (mut movable, mut immovable) = (Vec::new(), Vec::new());
        for factor in Factor::of_kinds(kinds, &plan.workload) {
            match factor.value(&plan.workload) {
                Ok(_) => movable.push(factor),
                Err(why) => immovable.push(Immovable { factor, why }),
            }
        }
        (movable, immovable)
    }

    /// Returns the reason why the sensitivity of this plan cannot be measured.
    pub fn problem(&self, plan: &Plan) -> Option<String> {
        let problem = |text: &str| Some(format!("[sensitivity] {text}"));
        if !(0.02..=0.5).contains(&self.most.get()) {
            return problem(&format!("move = {}: write a share from 0.02 to 0.5", self.most));
        }
        if !plan.purpose.is_goodput() || !plan.rows.is_empty() {
            return problem("needs a search for the goodput: leave out purpose and [[row]]");
        }
        if !plan.variants().is_empty() || plan.try_series().is_ok_and(|all| all.len() > 1) {
            return problem(
                "needs a plan with a single series: leave out [[variant]], [grid], cache = \"pair\" and alone = true, or choose one with --set",
            );
        }
        let closed = match &plan.search.mode {
            Mode::Adaptive(a) => a.over != goodput_stats::search::config::Over::Rate,
            Mode::Rates(_) | Mode::Ramp(_) => false,
            Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => true,
        };
        if closed || plan.workload.control() == Control::TraceScale {
            return problem(
                "needs a rate of requests or conversations, so no closed loop and no trace: use a search over rates",
            );
        }
        if !plan.slo.as_slice().first().is_some_and(has_request_limit) {
            return problem("is measured by the tail of a latency: add a limit on ttft, ttfc, tpot or e2e");
        }
        let (movable, immovable) = self.factors(plan);
        match immovable.first() {
            Some(first) if self.factors.is_some() => {
                problem(&format!("cannot change {}: {}", first.factor, first.why))
            }
            _ if movable.is_empty() => problem("has no factor that applies to this workload: leave it out"),
            _ => None,
        }
    }
}

/// Returns true if a tier has a limit on a latency that each request has, unlike gaps between tokens.
fn has_request_limit(slo: &Slo) -> bool {
    slo.limit_groups().iter().any(|part| part.slo.limits().iter().any(|l| l.metric.is_per_request()))
}

impl Plan {
    /// Returns the plan that measures the pairs in turns. Its series change the rate up and down and, at the centre, each factor up and down by its
    /// share.
    ///
    /// # Errors
    /// A factor cannot be changed by its share, or the resulting plan is not valid.
    pub fn paired(&self, factors: &[(Factor, f64)], pairing: &Pairing) -> Result<Self> {
        let turns = pairing.turns.get() as usize;
        let variant = |name: String, key: &str, value: toml::Value| {
            Variant::new(name, toml::Table::from_iter([(key.to_owned(), value)]))
        };
        let rate = |side: Side| {
            let rate = toml::Value::Float(pairing.centre * side.times(pairing.rate_move));
            variant(rate_series(side), "search.rates", toml::Value::Array(vec![rate; turns]))
        };
        let mut variants: Vec<Variant> = Side::BOTH.map(rate).into();
        for (factor, by) in factors {
            for side in Side::BOTH {
                let moved = factor.scaled(&self.workload, side.times(*by)).map_err(anyhow::Error::msg)?;
                let table = toml::Value::try_from(&moved).context("failed to write the workload as TOML")?;
                variants.push(variant(factor_series(factor, side), "workload", table));
            }
        }
        let centre = Rate::try_from(pairing.centre).map_err(anyhow::Error::msg)?;
        let mut plan = self.clone();
        plan.name = format!("{}: sensitivity", self.name);
        plan.purpose = Purpose::Sensitivity;
        plan.alternate = Some(pairing.turns);
        plan.variants = variants;
        plan.search = SearchPlan {
            mode: Mode::Rates(NonEmpty::try_from(vec![centre]).map_err(anyhow::Error::msg)?),
            max_rate: self.search.max_rate,
            ..SearchPlan::default()
        };
        (plan.step.settle, plan.step.measure) = (Span(pairing.settle), Span(pairing.measure));
        (plan.step.min_requests, plan.step.window) = (0, None);
        // A step that is stopped for failures would leave its pair without a partner.
        plan.step.max_error_share = Fraction::try_from(1.0).ok();
        (plan.sensitivity, plan.recovery, plan.profile) = (None, None, None);
        let text = plan.to_toml()?;
        Self::from_text(&text).context("the plan of the paired steps is not valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rest: &str) -> Result<Plan> {
        Plan::from_text(&format!(
            "name = \"x\"\nserver.simulated.preset = \"demo\"\nslo.ttft.p99 = \"200ms\"\n{rest}\n[workload]\n\
             prompts.synthetic = {{ input-tokens = {{ fixed = 100 }}, output-tokens = {{ fixed = 30 }} }}"
        ))
    }

    #[test]
    fn pairs_are_variants_in_turns() {
        let plan = plan("sensitivity = {}").unwrap();
        let (factors, immovable) = plan.sensitivity.clone().unwrap().factors(&plan);
        let names: Vec<String> = factors.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["prompt-length", "answer-length", "burstiness"]);
        assert_eq!(immovable.len(), 2, "{immovable:?}");
        let pairing = Pairing {
            centre: 20.0,
            rate_move: 0.1,
            turns: NonZeroU32::new(3).unwrap(),
            settle: Duration::from_secs(5),
            measure: Duration::from_secs(20),
        };
        let by: Vec<(Factor, f64)> = factors.into_iter().map(|f| (f, 0.2)).collect();
        let paired = plan.paired(&by, &pairing).unwrap();
        let series = paired.series();
        assert_eq!(series.len(), 8);
        let of = |name: &str| &series.iter().find(|s| s.name == name).unwrap().plan;
        let rates = |name: &str| match &of(name).search.mode {
            Mode::Rates(rates) => rates.iter().map(|r| r.get()).collect::<Vec<_>>(),
            _ => panic!("a list"),
        };
        assert_eq!(rates("rate up"), [22.0; 3]);
        assert_eq!(rates("prompt-length down"), [20.0; 3]);
        assert!(of("prompt-length up").workload.to_string().starts_with("120 in / 30 out"));
        assert!(of("burstiness up").workload.to_string().contains("cv 1.2"));
        assert_eq!(of("rate down").workload, plan.workload);
        assert_eq!(
            Plan::parse(&paired.to_toml().unwrap()).unwrap(),
            paired,
            "it reads back from the run folder"
        );
    }

    #[test]
    fn plans_without_measurable_factors_are_refused() {
        for (rest, message) in [
            ("sensitivity = { move = 0.8 }", "0.02 to 0.5"),
            (
                "sensitivity = { factors = [\"mix\"] }",
                "cannot change mix: the workload has one kind of request",
            ),
            ("sensitivity = { factors = [\"luck\"] }", "unknown name `luck`"),
            ("sensitivity = {}\nsearch.concurrency = [4]", "no closed loop"),
            (
                "sensitivity = {}\nvariant = [{ name = \"a\" }, { name = \"b\" }]",
                "a plan with a single series",
            ),
        ] {
            let e = format!("{:#}", plan(rest).unwrap_err());
            assert!(e.contains(message), "{rest}: {e}");
        }
    }
}
