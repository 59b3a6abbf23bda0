//! Chart data of the adaptive search beyond its answer: its target, its fit, and its convergence.

use super::SloScale;
use super::recovery::Recovery;
use super::sensitivity::Sensitivity;
use goodput_stats::search::Search;
use goodput_stats::search::answer::{Answer, Goodput};
use goodput_stats::search::view::{Fitted, PathPoint};
use goodput_stats::stats::step::Step;
use std::collections::BTreeMap;

/// Fitted curves for the first answer, computed once when a folder is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Fitted miss curve of each limit over the offered levels.
    pub fitted: Vec<Fitted>,
    /// State of the search after each step under load.
    pub path: Vec<PathPoint>,
    /// 95 % bounds of the median TTFT of each step, in milliseconds; only for runs with several series, which are
    /// compared.
    pub medians: BTreeMap<u32, [f64; 2]>,
    /// Effect of tighter and looser limits on the same requests; `None` if there are no requests or no limit to
    /// scale, or if it was not read: see [`super::read_with_scale`].
    pub scale: Option<SloScale>,
    /// Sensitivity of the answer to other settings, if pairs were measured for it.
    pub sensitivity: Option<Sensitivity>,
    /// Recovery of the server from a surge, if the plan asks for one.
    pub recovery: Option<Recovery>,
}

impl View {
    /// Computes the curves of an answer from the steps; empty if there is no answer.
    pub fn of(search: &Search, steps: &[Step], answer: Option<&Answer>) -> Self {
        let Some(a) = answer else { return Self::default() };
        let levels = levels(steps, a);
        Self {
            fitted: search.fitted(&a.series, steps, &a.tier, &levels),
            path: search.path(&a.series, steps, &a.tier),
            medians: BTreeMap::new(),
            scale: None,
            sensitivity: None,
            recovery: None,
        }
    }
}

/// Number of intervals that the range of levels is divided into, linearly and logarithmically, because axes may be
/// either.
const PARTS: u32 = 36;

/// Largest factor by which the interval may extend a curve beyond the steps.
const BEYOND: f64 = 1.25;

/// Returns the range of levels to draw: from the lowest step to the highest, extended to the ends of the interval by
/// at most `BEYOND`, because a fit is evidence only near the steps.
pub fn reach(g: &Goodput, (low, high): (f64, f64)) -> (f64, f64) {
    let Some([l, h]) = g.interval90() else { return (low, high) };
    (low.min(l.max(low / BEYOND)), high.max(h.min(high * BEYOND)))
}

/// Returns the levels at which to draw a curve, ascending, within its range.
fn levels(steps: &[Step], a: &Answer) -> Vec<f64> {
    let own = |s: &&Step| s.series == a.series && s.level.control == a.control;
    let loaded = steps.iter().filter(own).filter(|s| !s.kind.is_outside_search());
    let values: Vec<f64> = loaded.map(|s| s.level.value).filter(|v| *v > 0.0 && v.is_finite()).collect();
    let (low, high) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    if low >= high {
        return Vec::new();
    }
    let (low, high) = reach(&a.goodput, (low, high));
    let part = |i: u32| f64::from(i) / f64::from(PARTS);
    // Points are denser around the answer, where the curve bends.
    let [from, to] = a.goodput.interval90().map_or([low, high], |[l, h]| [0.8 * l, 1.2 * h]);
    let mut all: Vec<f64> = (0..=PARTS)
        .flat_map(|i| {
            let by_ratio = low * (high / low).powf(part(i));
            [low + (high - low) * part(i), by_ratio, from + (to - from) * part(i)]
        })
        .chain(values.iter().copied())
        .map(|v| v.clamp(low, high))
        .collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by(|b, a| *b <= *a * (1.0 + 1e-9));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rundir::Run;
    use goodput_core::times::StepTimes;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Status;
    use goodput_stats::search::config::{Open, SearchPlan};
    use goodput_stats::stats::step::StepKind;
    use goodput_workload::arrivals::Arrivals;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    fn search(run: &Run, text: &str) -> (Search, Option<goodput_stats::search::view::Terms>) {
        let plan: SearchPlan = toml::from_str(text).unwrap();
        let search =
            Search::new(&plan, &StepTimes::default(), &run.tiers, Open::rate(Arrivals::Poisson), None)
                .unwrap();
        let terms = search.terms();
        (search, terms)
    }

    /// The fit is made by the search within the offered levels, and the path has one point for each loaded step.
    #[test]
    fn a_view_holds_a_curve_for_each_limit_and_a_point_for_each_step() {
        let mut run = case("adaptive");
        run.steps.drain(2..5);
        let (search, terms) = search(&run, "adaptive = { budget = \"15m\" }");
        let view = View::of(&search, &run.steps, run.answers.first());
        let names: Vec<&str> = view.fitted.iter().map(|f| f.limit.as_str()).collect();
        assert_eq!(names, ["ttft.p99", "tpot.p99"]);
        let loaded: Vec<&Step> = run.steps.iter().filter(|s| s.kind != StepKind::Baseline).collect();
        let steps: Vec<u32> = loaded.iter().map(|s| s.step).collect();
        assert_eq!(view.path.iter().map(|p| p.step).collect::<Vec<_>>(), steps);
        let top = loaded.iter().map(|s| s.level.value).fold(0.0, f64::max);
        for p in &view.fitted[0].points {
            assert!(p.low <= p.median && p.median <= p.high && p.level <= top * 1.000_001, "{p:?}");
        }
        assert!(terms.is_some_and(|t| (t.lowest - 299.0 / 900.0).abs() < 1e-9 && t.confidence > 0.9));
        assert_eq!(View::of(&search, &run.steps, None), View::default());
    }

    #[test]
    fn listed_levels_have_a_fit_and_no_path() {
        let run = case("found");
        let (search, terms) = search(&run, "rates = [1, 2]");
        let view = View::of(&search, &run.steps, run.answers.first());
        assert_eq!((view.path.len(), terms), (0, None), "they were not searched");
        let names: Vec<&str> = view.fitted.iter().map(|f| f.limit.as_str()).collect();
        assert_eq!(names, ["ttft.p99", "tpot.p99"]);
    }

    #[test]
    fn a_curve_ends_where_the_steps_do() {
        let mut run = case("found");
        let all = levels(&run.steps, &run.answers[0]);
        assert!((all[0] - 5.0).abs() < 1e-9 && (all[all.len() - 1] - 48.0).abs() < 1e-9 && all.is_sorted());
        run.answers[0].goodput.conclusion =
            conclusion(Status::Found, Some(32.0), Some([4.5, 90.0]), Some(4.5));
        let all = levels(&run.steps, &run.answers[0]);
        let ends = (all[0], all[all.len() - 1]);
        assert!(
            (ends.0 - 4.5).abs() < 1e-9 && (ends.1 - 60.0).abs() < 1e-9,
            "to the interval's ends, but not far: {ends:?}"
        );
        run.steps.truncate(1);
        assert!(levels(&run.steps, &run.answers[0]).is_empty(), "one level is no curve");
    }
}
