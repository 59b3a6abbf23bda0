//! `[sensitivity]`: which workload factors are moved after the search, and the plan that moves them, as variants of the plan itself.

use super::{Plan, Purpose, Variant};
use anyhow::{Context, Result};
use goodput_core::level::Control;
use goodput_core::slo::{Metric, Slo};
use goodput_core::units::{Fraction, NonEmpty, Rate, Span};
use goodput_stats::search::config::{Mode, SearchPlan};
use goodput_workload::factors::{Factor, FactorKind};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;

/// `[sensitivity]`: after the search, paired steps near the goodput with one property of the workload moved at a time: what moves the answer,
/// and by how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SensitivityPlan {
    /// The factors to move: `prompt-length`, `answer-length`, `cache-share` (input tokens in shared prefixes of a warm cache), `burstiness`
    /// (the spread of the arrivals) and `mix` (the share of each class). Where it is left out: all that this workload has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factors: Option<NonEmpty<FactorKind>>,
    /// The most by which a factor is moved up and down, as a share of it: 0.2 where it is left out. Servers near their capacity are moved by
    /// less, so that none is overloaded.
    #[serde(rename = "move")]
    pub most: Fraction,
    /// Wall time of all paired steps, beside the search's own budget: 30 minutes where it is left out.
    pub budget: Span,
}

impl Default for SensitivityPlan {
    fn default() -> Self {
        let most = Fraction::try_from(0.2).expect("0.2 is a share");
        Self { factors: None, most, budget: Span::secs(1800) }
    }
}

/// A factor that cannot be moved on this workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Immovable {
    /// The factor.
    pub factor: Factor,
    /// Why, in words.
    pub why: String,
}

/// The direction in which a cell is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Less of it.
    Down,
    /// More of it.
    Up,
}

impl Side {
    /// Both, in the order in which they are measured.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// The name in series.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }

    /// The multiplier that moves something by a share `by`: 1 + by, or its inverse.
    pub fn times(self, by: f64) -> f64 {
        match self {
            Self::Down => 1.0 / (1.0 + by),
            Self::Up => 1.0 + by,
        }
    }
}

/// Name of the series with the rate moved to this side.
pub fn rate_series(side: Side) -> String {
    format!("rate {}", side.name())
}

/// Name of the series with a factor moved to this side.
pub fn factor_series(factor: &Factor, side: Side) -> String {
    format!("{factor} {}", side.name())
}

/// How the paired steps are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairing {
    /// The level that every factor is moved at.
    pub centre: f64,
    /// The share by which the rate is moved to either side.
    pub rate_move: f64,
    /// Steps of each series.
    pub turns: NonZeroU32,
    /// Load before anything counts.
    pub settle: Duration,
    /// The measured window.
    pub measure: Duration,
}

impl SensitivityPlan {
    /// Returns the factors that can be moved on the plan's workload, and those that cannot.
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

    /// Returns why these factors cannot be moved on this plan, if so.
    pub fn problem(&self, plan: &Plan) -> Option<String> {
        let says = |text: &str| Some(format!("[sensitivity] {text}"));
        if !(0.02..=0.5).contains(&self.most.get()) {
            return says(&format!("move = {}: a factor is moved by 0.02 to 0.5 of it", self.most));
        }
        if !plan.purpose.is_goodput() || !plan.rows.is_empty() {
            return says("moves the answer of a search for the goodput: leave out purpose and [[row]]");
        }
        if !plan.variants().is_empty() || plan.try_series().is_ok_and(|all| all.len() > 1) {
            return says(
                "needs a plan of one curve: leave out [[variant]], [grid], cache = \"pair\" and alone = true, or choose one of them with --set",
            );
        }
        let closed = match &plan.search.mode {
            Mode::Adaptive(a) => a.over != goodput_stats::search::config::Over::Rate,
            Mode::Rates(_) | Mode::Ramp(_) => false,
            Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => true,
        };
        if closed || plan.workload.control() == Control::TraceScale {
            return says(
                "moves a rate of requests or conversations: it goes with no closed loop and no trace",
            );
        }
        if !plan.slo.as_slice().first().is_some_and(has_request_limit) {
            return says("needs a limit on ttft, ttfc, tpot or e2e, by whose tail it is measured");
        }
        let (movable, immovable) = self.factors(plan);
        match immovable.first() {
            Some(first) if self.factors.is_some() => {
                says(&format!("cannot move {}: {}", first.factor, first.why))
            }
            _ if movable.is_empty() => says("has nothing to move: no factor of it applies to this workload"),
            _ => None,
        }
    }
}

/// Returns true for a tier with a limit on a latency that every request has by itself.
fn has_request_limit(slo: &Slo) -> bool {
    slo.parts().iter().any(|part| part.slo.limits().iter().any(|l| l.metric != Metric::Itl))
}

impl Plan {
    /// Returns the plan that measures the pairs in turns: a series for the rate moved to each side, and for every factor, each with its share,
    /// moved to each side at the centre.
    ///
    /// # Errors
    /// A factor cannot be moved by so much, or the moved plan is not sound.
    pub fn paired(&self, factors: &[(Factor, f64)], pairing: &Pairing) -> Result<Self> {
        let turns = pairing.turns.get() as usize;
        let variant = |name: String, key: &str, value: toml::Value| Variant {
            name,
            set: toml::Table::from_iter([(key.to_owned(), value)]),
            url: None,
            start: None,
            knobs: Vec::new(),
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
        // A step with failures still has a tail, and one that was left out would have no partner.
        plan.step.max_error_share = Fraction::try_from(1.0).ok();
        (plan.sensitivity, plan.recovery, plan.profile) = (None, None, None);
        let text = plan.to_toml()?;
        Self::from_text(&text).context("the moved plans make no plan together")
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
        assert_eq!(Plan::parse(&paired.to_toml().unwrap()).unwrap(), paired, "it can be written and read");
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        for (rest, says) in [
            ("sensitivity = { move = 0.8 }", "0.02 to 0.5"),
            (
                "sensitivity = { factors = [\"mix\"] }",
                "cannot move mix: the workload has one kind of request",
            ),
            ("sensitivity = { factors = [\"luck\"] }", "unknown variant"),
            ("sensitivity = {}\nsearch.concurrency = [4]", "no closed loop"),
            ("sensitivity = {}\nvariant = [{ name = \"a\" }, { name = \"b\" }]", "a plan of one curve"),
        ] {
            let e = format!("{:#}", plan(rest).unwrap_err());
            assert!(e.contains(says), "{rest}: {e}");
        }
    }
}
