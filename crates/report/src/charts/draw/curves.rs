//! The steps as curves: the steps each line joins, its colours, and its marks.

use crate::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_core::units::short;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{Quantiles, Step, StepKind, Verdict};
use goodput_stats::stats::summary::tier_verdict;

use super::hue::{Hue, hue_of};
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

/// Returns the latencies of the unloaded server: of the baseline step with the most requests that has values of a
/// metric.
pub(crate) fn baseline(run: &Run, metric: Metric) -> Option<Quantiles> {
    let steps = run.steps.iter().filter(|s| s.kind == StepKind::Baseline && steady(s));
    let quantiles = steps.map(|s| s.quantiles(metric)).filter(|q| q.p50.is_some());
    quantiles.max_by_key(|q| q.n)
}

/// The steps of one series.
#[derive(Debug)]
pub(crate) struct Curve<'a> {
    /// Name of the series.
    pub(crate) series: &'a str,
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
                out.push(Curve { series: &step.series, hue, steps: vec![step] });
            }
        }
    }
    for c in &mut out {
        c.steps.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    }
    out
}

/// The quantity on a horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Requests per second that were completed.
    Achieved,
    /// The level that was offered.
    Offered,
}

impl Across {
    /// Returns the coordinate of a step on this axis.
    pub(crate) fn of(self, step: &Step) -> f64 {
        match self {
            Self::Achieved => step.achieved_rate,
            Self::Offered => step.level.value,
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
    /// its mark is drawn.
    ///
    /// Ordered by level. With offered rates it is ordered by `across`: the steps then sort by achieved rate, while the
    /// curve of a closed loop may bend back.
    pub(crate) fn joined(&self, across: Across) -> Vec<&'a Step> {
        let longest = self.refine_steps().map(|s| s.measure_s).fold(0.0, f64::max);
        let given_up = |s: &Step| {
            s.kind == StepKind::Refine
                && !matches!(s.verdict, Verdict::Meets | Verdict::Fails)
                && s.measure_s < GIVEN_UP * longest
        };
        let joins = |s: &&Step| across.joins(s) && !given_up(s);
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
    fn refine_steps(&self) -> impl Iterator<Item = &'a Step> {
        self.steps.iter().copied().filter(|s| s.kind == StepKind::Refine)
    }
}

/// A refinement whose window is shorter than this share of the longest one counts as abandoned.
const GIVEN_UP: f64 = 0.2;

/// Ratio to the highest steady level above which an aborted or overloaded step is listed in words instead of drawn.
const AFAR: f64 = 1.6;

/// Removes aborted or overloaded steps far above all others from the curves, since they would squash the relevant
/// range. Returns a sentence that lists them, if any.
pub(crate) fn without_afar(curves: &mut [Curve<'_>], boundary: impl Iterator<Item = f64>) -> Option<String> {
    let all = || curves.iter().flat_map(|c| c.steps.iter().copied());
    let near = all().filter(|s| steady(s)).map(|s| s.level.value).chain(boundary).fold(0.0, f64::max);
    let mut afar: Vec<&Step> = all().filter(|s| !steady(s) && s.level.value > AFAR * near).collect();
    if near <= 0.0 || afar.is_empty() {
        return None;
    }
    for c in curves {
        c.steps.retain(|s| steady(s) || s.level.value <= AFAR * near);
    }
    afar.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    let of = |mark: Mark| afar.iter().filter(|s| Mark::of(s) == mark).count();
    let what = match (of(Mark::Overloaded), of(Mark::Fails)) {
        (n, _) if n == afar.len() => "overloaded",
        (_, n) if n == afar.len() => "fails",
        _ => "cut short or overloaded",
    };
    let mut levels: Vec<String> = afar.iter().map(|s| short(s.level.value)).collect();
    levels.dedup();
    let shown = if levels.len() > 3 {
        format!("{} steps up to {}", levels.len(), levels[levels.len() - 1])
    } else {
        levels.join(", ")
    };
    Some(format!("{what} beyond this axis: {shown} →"))
}

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
        assert!(baseline(&run, Metric::Ttft).is_some());
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
        (open.measure_s, open.level.value) = (open.measure_s * 0.9, open.level.value * 1.06);
        let mut brief = open.clone();
        (brief.step, brief.measure_s, brief.level.value) =
            (13, open.measure_s * 0.1, open.level.value * 1.05);
        run.steps.extend([open, brief]);
        let curves = curves(&run);
        let joined: Vec<u32> = curves[0].joined(Across::Offered).iter().map(|s| s.step).collect();
        assert!(joined.contains(&12) && !joined.contains(&13), "{joined:?}");
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

    #[test]
    fn an_overload_far_above_is_named_instead() {
        let mut run = fixture::found();
        let mut all = curves(&run);
        assert_eq!(without_afar(&mut all, [34.0].into_iter()), None, "48 is not far above 36");
        run.steps[10].level.value = 81.0;
        let mut all = curves(&run);
        let said = without_afar(&mut all, std::iter::empty()).unwrap();
        assert!(said.contains("overloaded") && said.contains("81") && all[0].steps.len() == 10, "{said}");
        run.steps[10].stable = None;
        let said = without_afar(&mut curves(&run), std::iter::empty()).unwrap();
        assert!(said.starts_with("fails beyond"), "cut short, and no backlog: {said}");
        run.steps.drain(..10);
        let mut only = curves(&run);
        assert_eq!(without_afar(&mut only, std::iter::empty()), None, "where nothing else is, it is drawn");
    }
}
