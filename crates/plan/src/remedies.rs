//! The plan that tries remedies: one variant for each, shorter than the sweep whose report advises them.

use super::{Plan, Series, Variant};
use anyhow::{Result, anyhow};
use goodput_core::units::Span;
use goodput_stats::search::config::Mode;
use std::time::Duration;

/// Part of the time budget of the search that each remedy gets.
const PART: u32 = 2;
/// The shortest budget of a remedy; a plan with less keeps its own.
const LEAST: Duration = Duration::from_secs(5 * 60);

/// The change that a remedy makes.
#[derive(Debug, Clone, PartialEq)]
pub enum Trial {
    /// Keys of the plan, dotted, with their values.
    Keys(toml::Table),
    /// The command that starts the server.
    Command(Vec<String>),
}

impl Plan {
    /// Returns the plan that tries remedies on the server of a series, each under its name: the same requests, limits and
    /// seed, and half of the search's time budget.
    ///
    /// # Errors
    /// A remedy does not make a valid plan; the message names it.
    pub fn trying(&self, series: &Series, remedies: &[(String, Trial)]) -> Result<Self> {
        let mut plan = series.plan.clone();
        plan.name = format!("{}: advice tried", self.name);
        (plan.grid, plan.alternate) = (None, None);
        (plan.search.peak, plan.search.confirm) = (None, None);
        (plan.sensitivity, plan.recovery, plan.profile) = (None, None, None);
        if let Mode::Adaptive(adaptive) = &mut plan.search.mode {
            let part = (adaptive.budget.0 / PART).max(LEAST);
            adaptive.budget = Span(part.min(adaptive.budget.0));
        }
        let one = |(name, trial): &(String, Trial)| {
            let variant = series.variant.clone().unwrap_or_default();
            let variant =
                Variant { name: name.clone(), knobs: Vec::new(), set: toml::Table::new(), ..variant };
            match trial {
                Trial::Keys(keys) => Variant { set: keys.clone(), ..variant },
                Trial::Command(command) => Variant { command: Some(command.clone()), ..variant },
            }
        };
        plan.variants = remedies.iter().map(one).collect();
        // Not by way of its text, in which secrets of a start command are masked.
        plan.try_series()
            .map_err(|problem| anyhow!("the plan that tries the advice is not valid: {problem}"))?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name = \"a\"\n[server.simulated]\npreset = \"demo\"\nmax-num-seqs = 4\n[slo]\nttft.p99 = \"50ms\"\n\
        [workload.prompts.synthetic]\ninput-tokens = { fixed = 50 }\noutput-tokens = { fixed = 4 }\n\
        [search]\nadaptive = { budget = \"16m\" }\nmax-rate = 1000\nconfirm = \"5m\"\n";

    #[test]
    fn remedies_are_variants_with_half_of_the_time() {
        let plan = Plan::from_text(PLAN).unwrap();
        let series = &plan.series()[0];
        let of = |key: &str| Trial::Keys(toml::Table::from_iter([(key.to_owned(), 16.into())]));
        let seats = of("server.simulated.max-num-seqs");
        let tried = plan.trying(series, &[("max-num-seqs=16".into(), seats)]).unwrap();
        let Mode::Adaptive(adaptive) = &tried.search.mode else { panic!("it is adaptive") };
        assert_eq!((adaptive.budget, tried.search.confirm), (Span::secs(480), None));
        let variants = tried.series();
        assert_eq!(variants.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["max-num-seqs=16"]);
        let sim = variants[0].plan.simulated().unwrap().unwrap();
        assert!(sim.to_string().contains("max-num-seqs 16"), "{sim}");
        let wrong = of("server.simulated.seats");
        assert!(plan.trying(series, &[("seats".into(), wrong)]).is_err());
        let short = Plan::from_text(&PLAN.replace("16m", "2m")).unwrap();
        let tried = short.trying(&short.series()[0], &[]).unwrap();
        let Mode::Adaptive(adaptive) = &tried.search.mode else { panic!("it is adaptive") };
        assert_eq!(adaptive.budget, Span::secs(120));
    }
}
