//! The steps as curves: the steps each line joins, its colours, and its marks.

use crate::escape::clip;
use crate::words::{IN_A_PLOT, short_names};
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use goodput_stats::stats::summary::tier_verdict;

use super::canvas::Point;
use super::hue::{Hue, hue_of, overlaid};
use super::mark::Mark;

/// Returns the quantity that the charts step through: the control of the answer, else of the first step that carries a
/// load.
pub(crate) fn control(run: &Run) -> Control {
    let step = run.steps.iter().find(|s| !s.kind.is_outside_search());
    run.answers.first().map(|a| a.control).or_else(|| step.map(|s| s.level.control)).unwrap_or(Control::Rate)
}

/// Returns the steps that belong on a curve: of the charts' control, and not the baseline or auxiliary.
pub(crate) fn charted(run: &Run) -> impl Iterator<Item = &Step> {
    let control = control(run);
    run.steps.iter().filter(move |s| !s.kind.is_outside_search() && s.level.control == control)
}

/// The steps of one series.
#[derive(Debug)]
pub(crate) struct Curve<'a> {
    /// Name of the series.
    pub(crate) series: &'a str,
    /// The name that fits into a plot.
    pub(crate) name: String,
    /// Its colours.
    pub(crate) hue: Hue,
    /// Its steps, by level.
    pub(crate) steps: Vec<&'a Step>,
}

/// Returns the curves of a run, in the order in which their series first appear.
pub(crate) fn curves(run: &Run) -> Vec<Curve<'_>> {
    let mut out: Vec<Curve<'_>> = Vec::new();
    for step in charted(run) {
        match out.iter_mut().find(|c| c.series == step.series) {
            Some(c) => c.steps.push(step),
            None => {
                let hue = hue_of(out.len());
                out.push(Curve { series: &step.series, name: String::new(), hue, steps: vec![step] });
            }
        }
    }
    let names = short_names(out.iter().map(|c| c.series), IN_A_PLOT);
    for (c, name) in out.iter_mut().zip(names) {
        c.steps.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
        c.name = name;
    }
    out
}

/// Returns the curve of each series of a run that has several, with the series: in its own colour, and named among the
/// others.
pub(crate) fn overlaid_curves(run: &Run) -> Vec<(&Run, Curve<'_>)> {
    let names = short_names(run.parts.iter().map(Run::series), IN_A_PLOT);
    let parts = run.parts.iter().zip(names).enumerate();
    let one = |(i, (part, name))| {
        let own = curves(part).into_iter().next()?;
        Some((part, Curve { hue: overlaid(i), name, ..own }))
    };
    parts.filter_map(one).collect()
}

/// The quantity on a horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Requests per second that were completed.
    Achieved,
    /// The load that was offered.
    Offered,
}

impl Across {
    /// Returns the coordinate of a step on this axis. A rate is the one that came due in the window, not the one asked
    /// for: in a short window, chance alone may make them differ by a third.
    pub(crate) fn of(self, step: &Step) -> f64 {
        match (self, step.level.control) {
            (Self::Achieved, _) => step.achieved_rate,
            (Self::Offered, Control::Rate) if step.offered_rate > 0.0 => step.offered_rate,
            (Self::Offered, _) => step.level.value,
        }
    }

    /// Returns true if the line may run through a step: not if its achieved rate is biased and the axis shows that
    /// rate.
    pub(crate) fn joins(self, step: &Step) -> bool {
        steady(step) && (self == Self::Offered || !brief(step))
    }
}

/// Levels within this ratio count as one level.
const SAME: f64 = 1.015;

impl<'a> Curve<'a> {
    /// Returns the steps that the line runs through: those accepted by [`Across::joins`]. Of several steps
    /// within one and a half per cent of one level only one is joined, since the line would otherwise show their
    /// scatter as a shape: the longest of those with a verdict (meets or fails), else the longest. A refinement that
    /// was abandoned early has a p99 of only a few requests, next to steps with one of many: the line skips it, and only
    /// its mark is drawn. A short step of the ramp beyond the lowest refined one is left out too: the line would run back from
    /// it, or on to the few requests of a step that the search has since left behind.
    ///
    /// Ordered by level. With offered rates it is ordered by `across`: the steps then sort by achieved rate, while the
    /// curve of a closed loop may bend back.
    pub(crate) fn joined(&self, across: Across) -> Vec<&'a Step> {
        let most = self.refine_steps().filter(|s| across.joins(s)).map(|s| s.due_n).max().unwrap_or(0) as f64;
        let given_up = |s: &Step| {
            s.kind == StepKind::Refine
                && !matches!(s.verdict, Verdict::Meets | Verdict::Fails)
                && (s.due_n as f64) < GIVEN_UP * most
        };
        let refined = self.refine_steps().map(|s| s.level.value).fold(f64::INFINITY, f64::min);
        let left_behind = |s: &Step| s.kind == StepKind::Ramp && s.level.value > refined;
        let joins = |s: &&Step| across.joins(s) && !given_up(s) && !left_behind(s);
        let own: Vec<&Step> = self.steps.iter().copied().filter(joins).collect();
        let rank = |s: &Step| (matches!(s.verdict, Verdict::Meets | Verdict::Fails), s.measure_s);
        let better = |a: &&Step, b: &&Step| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        let mut out: Vec<&Step> = Vec::new();
        let mut rest = own.as_slice();
        while let Some(first) = rest.first() {
            let end = rest.partition_point(|s| s.level.value <= first.level.value * SAME);
            let (group, after) = rest.split_at(end.max(1));
            out.extend(group.iter().copied().max_by(better));
            rest = after;
        }
        if out.first().is_some_and(|s| s.level.control == Control::Rate) {
            out.sort_by(|a, b| across.of(a).total_cmp(&across.of(b)));
        }
        out
    }
}

impl<'a> Curve<'a> {
    /// Returns the last step of the line, and the failing steps beyond it that the line does not join, ascending by
    /// `across`; empty if there are none. A thin line runs through them.
    pub(crate) fn failing_beyond(&self, across: Across) -> Vec<&'a Step> {
        let joined = self.joined(across);
        let Some(last) = joined.last() else { return Vec::new() };
        let is_beyond = |s: &&Step| {
            matches!(Mark::of(s), Mark::Fails | Mark::Overloaded) && across.of(s) > across.of(last)
        };
        let mut beyond: Vec<&Step> = self.steps.iter().copied().filter(is_beyond).collect();
        beyond.sort_by(|a, b| across.of(a).total_cmp(&across.of(b)));
        beyond.dedup_by(|b, a| across.of(b) <= across.of(a) * SAME);
        if !beyond.is_empty() {
            beyond.insert(0, *last);
        }
        beyond
    }

    /// Returns the points of a thin line through [`Curve::failing_beyond`], as far as they have values.
    pub(crate) fn tail(&self, across: Across, at: impl Fn(&Step) -> Option<Point>) -> Vec<Point> {
        self.failing_beyond(across).into_iter().filter_map(at).collect()
    }

    /// Returns true if no line joins its steps on this axis: replays of a trace at several speeds achieve rates in no
    /// order, so a line would only connect their scatter.
    pub(crate) fn is_scattered(&self, across: Across) -> bool {
        let replayed = self.steps.first().is_some_and(|s| s.level.control == Control::TraceScale);
        replayed && across == Across::Achieved
    }

    fn refine_steps(&self) -> impl Iterator<Item = &'a Step> {
        self.steps.iter().copied().filter(|s| s.kind == StepKind::Refine)
    }
}

/// A refinement with fewer requests than this share of the most of any counts as abandoned.
const GIVEN_UP: f64 = 0.2;

/// Returns the radius of a step's mark, in logical pixels: smaller if there are many.
pub(crate) fn radius(run: &Run) -> f64 {
    if charted(run).count() > 13 { 3.9 } else { 4.6 }
}

/// Returns true if a step is neither overloaded nor invalid: only such steps are joined to a curve.
pub(crate) fn steady(step: &Step) -> bool {
    !step.overloaded() && step.verdict != Verdict::Invalid
}

/// Returns the verdict of a step on a tier.
pub(crate) fn shown(step: &Step, tier: &str) -> Verdict {
    match step.limits.iter().any(|l| l.tier == tier) {
        true if step.verdict != Verdict::Invalid => tier_verdict(&step.limits, tier).0,
        _ => step.verdict,
    }
}

/// Returns ` (gold)` if there are several tiers, else an empty string.
pub(crate) fn tier_name(run: &Run, tier: &str) -> String {
    if run.tiers.len() > 1 { format!(" ({})", clip(tier, 20)) } else { String::new() }
}

/// Minimum length of a window, in medians of e2e, for its completed requests to represent the achieved rate.
const ENOUGH: f64 = 5.0;

/// Maximum share of a window's requests that were cancelled for the window to represent the achieved rate.
const CUT: f64 = 0.1;

/// Returns true if a window is so short that its achieved rate is biased: many of its requests ended after it, or were
/// cancelled before they ended. If nothing was completed, the achieved rate is unknown.
fn brief(step: &Step) -> bool {
    let cut = step.cut as f64 > CUT * step.due_n as f64;
    let e2e = step.quantiles(Metric::E2e).p50;
    let short = e2e.is_none_or(|ms| step.measure_s < ENOUGH * ms / 1e3);
    step.abort.is_some() || step.completed == 0 || cut || short
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;
    use goodput_run::fixture;
    use goodput_stats::stats::step::Abort;

    #[test]
    fn the_baseline_is_no_part_of_a_curve() {
        let mut run = fixture::found();
        let mut unloaded = run.steps[0].clone();
        (unloaded.kind, unloaded.level, unloaded.step) = (StepKind::Baseline, Level::concurrency(1), 0);
        run.steps.insert(0, unloaded);
        assert_eq!(control(&run), Control::Rate);
        assert_eq!(curves(&run).iter().map(|c| c.steps.len()).sum::<usize>(), 11);
        run.answers.clear();
        assert_eq!(control(&run), Control::Rate, "nor does it say what the levels are");
    }

    #[test]
    fn the_line_runs_through_the_longest_step_of_a_level() {
        let mut run = fixture::found();
        let mut again = run.steps[7].clone();
        (again.step, again.measure_s, again.level.value) = (12, 300.0, 32.2);
        run.steps.push(again);
        let curves = curves(&run);
        let joined: Vec<u32> = curves[0].joined(Across::Offered).iter().map(|s| s.step).collect();
        assert_eq!(
            joined,
            [1, 2, 3, 4, 5, 6, 7, 12, 9, 10],
            "not 8 beside 12, and not 11, whose backlog grew"
        );
    }

    #[test]
    fn a_refinement_that_was_soon_given_up_is_on_no_curve() {
        let mut run = fixture::found();
        let mut open = run.steps[1].clone();
        (open.kind, open.verdict, open.step) = (StepKind::Refine, Verdict::Undecided, 12);
        (open.due_n, open.level.value) = (1_000, open.level.value * 1.06);
        let mut brief = open.clone();
        (brief.step, brief.due_n, brief.level.value) = (13, 100, open.level.value * 1.05);
        run.steps.extend([open, brief]);
        let curves = curves(&run);
        let joined: Vec<u32> = curves[0].joined(Across::Offered).iter().map(|s| s.step).collect();
        assert!(joined.contains(&12) && !joined.contains(&13), "{joined:?}");
    }

    #[test]
    fn a_rate_is_placed_where_it_came_due() {
        let mut step = fixture::found().steps.swap_remove(3);
        step.offered_rate = 26.5;
        for (control, offered, x) in [
            (Control::Rate, 26.5, 26.5),
            (Control::Rate, 0.0, step.level.value), // not known: another tool's results
            (Control::Concurrency, 26.5, step.level.value),
        ] {
            (step.level.control, step.offered_rate) = (control, offered);
            assert!((Across::Offered.of(&step) - x).abs() < 1e-9, "{control:?} {offered}");
        }
    }

    #[test]
    fn a_ramp_step_beyond_the_refined_ones_is_on_no_curve() {
        let mut run = fixture::found();
        let last = |run: &Run| curves(run)[0].joined(Across::Offered).last().map(|s| s.step);
        run.steps[9].kind = StepKind::Ramp;
        assert_eq!(last(&run), Some(10), "a ramp alone is a curve");
        run.steps[7].kind = StepKind::Refine;
        assert_eq!(last(&run), Some(9), "a listed level stays");
        run.steps[8].kind = StepKind::Ramp;
        assert_eq!(last(&run), Some(8));
        run.steps[9].kind = StepKind::Refine;
        let joined: Vec<u32> = curves(&run)[0].joined(Across::Offered).iter().map(|s| s.step).collect();
        assert_eq!(joined[6..], [7, 8, 10], "nor is one between two of them");
    }

    #[test]
    fn failing_steps_beyond_the_line_hang_on_a_thin_one() {
        let mut run = fixture::found();
        let beyond = |run: &Run, across| -> Vec<u32> {
            curves(run)[0].failing_beyond(across).iter().map(|s| s.step).collect()
        };
        assert_eq!(beyond(&run, Across::Offered), [10, 11]);
        run.steps[10].achieved_rate = 20.0;
        assert_eq!(beyond(&run, Across::Achieved), [0_u32; 0], "it never runs backwards");
        run.steps[9].abort = Some(Abort::Gross);
        assert_eq!(beyond(&run, Across::Offered), [9, 10, 11]);
    }

    #[test]
    fn a_decided_step_of_a_level_goes_before_a_longer_undecided_one() {
        let mut run = fixture::found();
        let mut open = run.steps[9].clone();
        (open.step, open.measure_s, open.verdict) = (12, 300.0, Verdict::Undecided);
        run.steps.push(open);
        let joined = |run: &Run, across| -> Vec<u32> {
            curves(run)[0].joined(across).iter().map(|s| s.step).collect()
        };
        assert_eq!(run.steps[9].verdict, Verdict::Fails);
        assert_eq!(joined(&run, Across::Offered)[9], 10, "the failing one is not left off");
        run.steps[9].abort = Some(Abort::Gross);
        assert_eq!(joined(&run, Across::Offered)[9], 12, "one that was cut short is on no curve");
    }

    #[test]
    fn a_window_of_a_few_requests_in_a_row_has_no_achieved_rate() {
        let mut run = fixture::found();
        let e2e = run.steps[0].quantiles(Metric::E2e).p50.unwrap() / 1e3;
        run.steps[0].measure_s = 4.0 * e2e;
        let first = |across| curves(&run)[0].joined(across)[0].step;
        assert_eq!((first(Across::Offered), first(Across::Achieved)), (1, 2));
    }

    /// The few requests completed by then understate the server: the line would start far left of its level.
    #[test]
    fn a_window_whose_requests_were_cut_off_is_on_no_curve_of_what_was_achieved() {
        let mut run = fixture::found();
        let step = &mut run.steps[5];
        let number = step.step;
        let whole = step.clone();
        let joined = |run: &Run, across| curves(run)[0].joined(across).iter().any(|s| s.step == number);
        assert!(joined(&run, Across::Achieved));
        let all = whole.completed;
        for (cut, e2e, joins) in [(all, false, false), (all / 5, true, false), (all / 50, true, true)] {
            let step = &mut run.steps[5];
            *step = whole.clone();
            (step.completed, step.cut) = (all - cut, cut);
            if !e2e {
                step.latency.remove(&Metric::E2e);
            }
            assert_eq!(joined(&run, Across::Achieved), joins, "{cut} of {all}");
            assert!(joined(&run, Across::Offered), "what was offered is known");
        }
    }
}
