//! A run as one tier of its SLO sees it: the answer of that tier alone, and every step with the tier's verdict.

use super::Run;
use anyhow::{Result, bail};
use goodput_core::slo::Slo;
use goodput_stats::stats::step::{Step, Verdict};
use goodput_stats::stats::summary::tier_verdict;

impl Run {
    /// Returns the run as a tier sees it.
    ///
    /// # Errors
    /// The run has no tier of that name.
    pub(super) fn of_tier(mut self, tier: &str) -> Result<Self> {
        let names: Vec<&str> = self.tiers.iter().map(Slo::tier).collect();
        if !names.contains(&tier) {
            match &names[..] {
                [] | [_] => bail!("the run has no tier {tier:?}: its SLO has no tiers"),
                several => bail!("the run has no tier {tier:?}: it has {}", several.join(", ")),
            }
        }
        self.keep_tier(tier);
        Ok(self)
    }

    fn keep_tier(&mut self, tier: &str) {
        self.is_of_tier = self.tiers.len() > 1;
        self.answers.retain(|a| a.tier == tier);
        self.tiers.retain(|t| t.tier() == tier);
        for step in &mut self.steps {
            judge_by(step, tier);
        }
        self.parts.iter_mut().for_each(|part| part.keep_tier(tier));
    }
}

/// Gives a step the verdict and the good requests of a tier. An invalid step tells nothing in any tier.
fn judge_by(step: &mut Step, tier: &str) {
    step.good_rate = step.good_rate_of(tier);
    if step.verdict != Verdict::Invalid {
        step.verdict = tier_verdict(&step.limits, tier).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_tier_has_its_own_answer_and_verdicts() {
        let mut run = fixture::found();
        let mut loose = run.answers[0].clone();
        loose.tier = "loose".into();
        run.answers.push(loose);
        run.tiers.push(Slo { name: Some("loose".into()), ..run.tiers[0].clone() });
        for step in &mut run.steps {
            let mut rows = step.limits.clone();
            for row in &mut rows {
                (row.tier, row.verdict) = ("loose".into(), Verdict::Meets);
            }
            step.limits.extend(rows);
        }
        assert!(run.steps.iter().any(|s| s.verdict == Verdict::Fails));
        let loose = run.clone().of_tier("loose").unwrap();
        assert_eq!((loose.answers.len(), loose.tiers.len(), loose.is_of_tier), (1, 1, true));
        assert!(loose.steps.iter().all(|s| s.verdict == Verdict::Meets));
        let error = run.of_tier("gold").unwrap_err().to_string();
        assert_eq!(error, "the run has no tier \"gold\": it has main, loose");
        let error = fixture::found().of_tier("gold").unwrap_err().to_string();
        assert_eq!(error, "the run has no tier \"gold\": its SLO has no tiers");
    }
}
