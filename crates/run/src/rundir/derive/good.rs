//! Which step tells the figures that stand beside an answer, for every place that tells them.

use super::interval;
use crate::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{Step, Verdict};

impl Run {
    /// The steps of the search that an answer rests on: of its series and its kind of level.
    pub fn steps_of(&self, answer: &Answer) -> Vec<&Step> {
        let own = |s: &&Step| {
            s.series == answer.series && s.level.control == answer.control && !s.kind.is_auxiliary()
        };
        self.steps.iter().filter(own).collect()
    }

    /// The step that the figures of an answer are told of: the one that shows the highest level to meet, else the nearest to its rate.
    pub fn answering_step(&self, answer: &Answer) -> Option<&Step> {
        let shown = answer.goodput.met.and_then(|met| self.step_at(answer, met, Verdict::Meets));
        let near = || interval(&answer.goodput).and_then(|(rate, _)| self.nearest(answer, rate));
        shown.or_else(near)
    }

    /// The step by which good requests are told: that of [`Self::answering_step`]; where there is none, the one with the most of them,
    /// which is the unloaded server's where no other was measured.
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
