//! Selects the step whose figures are shown with an answer, for all reports.

use super::interval;
use crate::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{Step, Verdict};

impl Run {
    /// Returns the steps of the search that an answer is based on: of its series and its kind of level.
    pub fn steps_of(&self, answer: &Answer) -> Vec<&Step> {
        let own = |s: &&Step| {
            s.series == answer.series && s.level.control == answer.control && !s.kind.is_auxiliary()
        };
        self.steps.iter().filter(own).collect()
    }

    /// Returns the step whose figures represent an answer: the one that shows the highest level to meet, else the
    /// nearest to its rate.
    pub fn answering_step(&self, answer: &Answer) -> Option<&Step> {
        let shown = answer.goodput.bracket.met.and_then(|met| self.step_at(answer, met, Verdict::Meets));
        let near = || interval(&answer.goodput).and_then(|(rate, _)| self.nearest(answer, rate));
        shown.or_else(near)
    }

    /// Returns the step for the rate of good requests: that of [`Self::answering_step`]; if there is none, the one
    /// with the highest such rate, which is the baseline if no other was measured.
    pub fn good_step(&self, answer: &Answer) -> Option<&Step> {
        let most = || {
            let loaded = self.steps_of(answer);
            let unloaded = self.steps.iter().filter(|s| loaded.is_empty() && s.series == answer.series);
            let good = |s: &Step| s.good_rate_of(&answer.tier);
            loaded.iter().copied().chain(unloaded).max_by(|x, y| good(x).total_cmp(&good(y)))
        };
        self.answering_step(answer).or_else(most)
    }
}
