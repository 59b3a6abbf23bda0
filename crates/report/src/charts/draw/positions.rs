//! Positions of levels on the horizontal axis of a chart.

use super::canvas::Point;
use super::curves::{Across, curves, shown};
use goodput_core::level::Control;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::{Answer, Knee};
use goodput_stats::stats::step::{Step, Verdict};

/// Maps the levels of an answer to the horizontal axis.
pub(super) struct Positions<'a> {
    answer: &'a Answer,
    across: Across,
    /// The steps of the answer's series.
    pub(super) steps: Vec<&'a Step>,
    /// Levels and the rates achieved there, ascending.
    achieved: Vec<Point>,
}

impl<'a> Positions<'a> {
    /// Collects the steps of an answer.
    pub(super) fn new(run: &'a Run, answer: &'a Answer, across: Across) -> Self {
        let curve = curves(run).into_iter().find(|c| c.series == answer.series);
        let steps = curve.as_ref().map(|c| c.steps.clone()).unwrap_or_default();
        let joined = curve.map(|c| c.joined(Across::Achieved)).unwrap_or_default();
        let mut achieved: Vec<Point> = joined.iter().map(|s| (s.level.value, s.achieved_rate)).collect();
        achieved.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { answer, across, steps, achieved }
    }

    /// Returns the coordinate of a level.
    ///
    /// A rate that a server sustains is also the rate that it achieves, so an answer in requests/s has one place on both
    /// axes: the achieved rates of single steps scatter around it, and mapping through them would move the answer away
    /// from its number. Other levels are placed at the rate achieved there.
    pub(super) fn of(&self, level: f64) -> f64 {
        match (self.across, self.answer.control) {
            (Across::Offered, _) | (Across::Achieved, Control::Rate) => level,
            (Across::Achieved, Control::Concurrency | Control::Sessions | Control::TraceScale) => {
                self.decided_at(level).unwrap_or_else(|| achieved_at(&self.achieved, level))
            }
        }
    }

    /// Returns the coordinate of the knee. Beyond it a server achieves less than is offered, so on an axis of achieved
    /// rates it stands at the throughput that was found there.
    pub(super) fn of_knee(&self, knee: &Knee) -> f64 {
        match self.across {
            Across::Achieved => knee.throughput,
            Across::Offered => knee.rate,
        }
    }

    /// Returns the rate achieved by the step that shows the level to meet or to fail; the longest of several.
    fn decided_at(&self, level: f64) -> Option<f64> {
        let g = &self.answer.goodput;
        let same = |other: Option<f64>| other.is_some_and(|o| (o - level).abs() <= 1e-9 * level.abs());
        let verdict = if same(g.bracket.met) {
            Verdict::Meets
        } else if same(g.bracket.failed) {
            Verdict::Fails
        } else {
            return None;
        };
        let own = self.steps.iter().filter(|s| same(Some(s.level.value)));
        let decided = own.filter(|s| shown(s, &self.answer.tier) == verdict);
        decided.max_by(|a, b| a.measure_s.total_cmp(&b.measure_s)).map(|s| s.achieved_rate)
    }
}

fn achieved_at(levels: &[Point], level: f64) -> f64 {
    let above = levels.iter().position(|p| p.0 >= level - 1e-9);
    match above {
        Some(0) | None => {
            // Beyond the measured range: in proportion to the nearest step.
            let nearest = if above.is_none() { levels.last() } else { levels.first() };
            nearest.map_or(level, |(l, r)| if *l > 0.0 { level * r / l } else { level })
        }
        Some(i) => {
            let ((l0, r0), (l1, r1)) = (levels[i - 1], levels[i]);
            if l1 - l0 < 1e-12 { r1 } else { r0 + (r1 - r0) * (level - l0) / (l1 - l0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn levels_lie_where_their_steps_are() {
        let levels = [(8.0, 4.0), (16.0, 6.0)];
        for (level, x) in [(8.0, 4.0), (12.0, 5.0), (16.0, 6.0), (32.0, 12.0), (4.0, 2.0)] {
            assert!((achieved_at(&levels, level) - x).abs() < 1e-9, "{level}");
        }
        assert!((achieved_at(&[], 5.0) - 5.0).abs() < 1e-9, "no step at all");
    }

    /// Rows: the axis, the kind of level, and the place of level 32 where the steps achieved half of what was offered.
    #[test]
    fn a_rate_is_drawn_at_its_own_number() {
        let mut run = fixture::found();
        run.steps.iter_mut().for_each(|s| s.achieved_rate = 0.5 * s.level.value);
        for (across, control, x) in [
            (Across::Offered, Control::Rate, 32.0),
            (Across::Achieved, Control::Rate, 32.0),
            (Across::Offered, Control::Sessions, 32.0),
            (Across::Achieved, Control::Sessions, 16.0),
        ] {
            run.answers[0].control = control;
            run.steps.iter_mut().for_each(|s| s.level.control = control);
            let place = Positions::new(&run, &run.answers[0], across).of(32.0);
            assert!((place - x).abs() < 1e-9, "{across:?} {control:?}: {place}");
        }
    }
}
