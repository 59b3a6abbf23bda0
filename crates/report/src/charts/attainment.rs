//! Attainment against the level: for each limit the share of requests within it, with its bounds, its target and the
//! bracket.

use super::draw::{
    Across, Axis, Bar, Canvas, Curve, Dot, Entry, Fit, Format, LevelChart, LevelPlot, Mark, Names, Rule,
    Scene, Series, Symbol, charted, of_step, radius, steady, tier_name,
};
use crate::words;
use crate::words::thousands;
use goodput_core::slo::{Limit, limit_key};
use goodput_run::rundir::{Run, Traces, reach};
use goodput_stats::stats::step::{LimitRow, Step, Verdict};

/// Maximum number of plots on a page.
const MOST: usize = 4;

/// A limit whose attainment is shown.
struct Target {
    /// Name of the limit in `limits.csv`.
    name: String,
    tier: String,
    class: String,
    /// The limit in words.
    text: String,
    /// Share that must be within it.
    share: f64,
}

impl Target {
    /// Returns the tooltip of a step: the share within the limit, its bounds and the misses.
    fn hint(&self, step: &Step, mark: Mark) -> String {
        let share = |row: &LimitRow| {
            let bounds = row.low.zip(row.high).map(|(l, h)| format!(" [{}, {}]", percent(l), percent(h)));
            Some(format!("{} {}{}", percent(row.attainment?), self.text, bounds.unwrap_or_default()))
        };
        let misses = |row: &LimitRow| {
            format!("{} of {} missed", thousands(row.misses as f64), thousands(row.n as f64))
        };
        let parts = self.row(step).into_iter().flat_map(|row| share(row).into_iter().chain([misses(row)]));
        of_step(step, parts, mark)
    }

    fn row<'a>(&self, step: &'a Step) -> Option<&'a LimitRow> {
        let own = |l: &&LimitRow| l.limit == self.name && l.tier == self.tier && l.class == self.class;
        step.limits.iter().find(own).filter(|l| l.attainment.is_some())
    }
}

/// Returns a share in per cent, never rounded up to the whole.
pub(super) fn percent(share: f64) -> String {
    let floor = (share * 1e5 + 1e-6).floor() / 1e3;
    format!("{floor} %")
}

/// Returns true if any limit was counted.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    !targets(run).is_empty()
}

/// Returns the limits of the answer's tier that were counted in any step, the one that binds first.
fn targets(run: &Run) -> Vec<Target> {
    let Some(answer) = run.answers.first() else { return Vec::new() };
    let Some(tier) = words::tier_of(run, answer) else { return Vec::new() };
    let target = |class: &str, name: String, text: String, share: f64| Target {
        name,
        tier: tier.tier().to_owned(),
        class: class.to_owned(),
        text,
        share,
    };
    let parts = tier.limit_groups();
    let latencies = parts.iter().flat_map(|p| p.slo.limits().into_iter().map(move |l| (p, l)));
    let mut all: Vec<Target> = latencies
        .map(|(p, l)| target(p.class(), l.name(), p.title(&within(&l)), l.percentile.share()))
        .collect();
    let joint = tier.joint_attainment;
    all.extend(
        joint.map(|a| target(&answer.class, "joint".into(), "within every limit together".into(), a.get())),
    );
    let errors = parts.iter().filter_map(|p| Some((p, p.slo.error_rate?)));
    all.extend(errors.map(|(p, e)| {
        target(p.class(), "error-rate".into(), p.title("answered without an error"), 1.0 - e.get())
    }));
    all.retain(|t| charted(run).any(|s| t.row(s).is_some()));
    let binding = answer.goodput.binding.as_deref();
    all.sort_by_key(|t| binding != Some(limit_key(&t.class, &t.name).as_str()));
    all.truncate(MOST);
    all
}

fn within(l: &Limit) -> String {
    format!("with {} ≤ {}", l.metric.title(), words::value_of(l.metric, l.limit_ms()))
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let chart = LevelChart::new(scene, Across::Offered);
    let mut targets = targets(run);
    if scene.format == Format::Slide {
        targets.truncate(if chart.curves.len() > 1 { 1 } else { 2 });
    }
    let height = [300.0, 300.0, 225.0, 178.0, 150.0][targets.len().min(MOST)];
    let plot = |t: &Target| LevelPlot { height, ..plot(run, t, &chart) };
    let plots: Vec<LevelPlot> = targets.iter().map(plot).collect();
    let fitted = plots.iter().any(|p| p.fit.is_some()).then_some(Entry::Fit("fit and its 90 % band"));
    let legend = chart.legend(&plots, Mark::words_of_limit, fitted);
    chart.draw(&plots, None, legend).finish(chart.hue())
}

/// Describes the plot of a target.
fn plot(run: &Run, target: &Target, chart: &LevelChart<'_>) -> LevelPlot {
    let curves = &chart.curves;
    let fit = fit(run, target, curves);
    let y = axis(curves, target);
    let series = curves.iter().map(|curve| {
        // The fit replaces the line of its series.
        let has_line = fit.is_none() || curve.series != run.answers[0].series;
        let name = if curves.len() > 1 { curve.name.clone() } else { String::new() };
        let series = series(target, curve, y.min, radius(run)).named(name, curve.hue.dark);
        if has_line { series } else { Series { line: Vec::new(), tail: Vec::new(), ..series } }
    });
    let series = series.collect();
    let what = if target.name.starts_with("itl") { "gaps" } else { "requests" };
    let heading = format!("Share of {what} {}{}", target.text, tier_name(run, &target.tier));
    let notes = ["scale widens towards 100 %", "bars: the verdict’s bounds"].map(str::to_owned);
    let least = Rule {
        value: target.share,
        texts: vec![format!("SLO: at least {} %", (target.share * 1e5).round() / 1e3)],
        hint: format!("SLO: at least {}", percent(target.share)),
        labelled_below: true,
    };
    LevelPlot {
        notes: chart.afar.iter().cloned().chain(notes).collect(),
        names: Names::Near,
        limits: vec![least],
        fit,
        ..LevelPlot::new(heading, y, series)
    }
}

/// Returns an axis from 90 %, or from a lower value if a share is below.
fn axis(curves: &[Curve<'_>], target: &Target) -> Axis {
    let all = curves.iter().flat_map(|c| &c.steps);
    let least = all.filter_map(|s| target.row(s)?.attainment).fold(target.share, f64::min);
    let min = [0.9, 0.5, 0.0].into_iter().find(|m| *m <= least && *m < target.share).unwrap_or(0.0);
    Axis::shares(min, 1.0 - target.share)
}

/// Returns the fitted curve of a target, over the levels of the steps shown.
fn fit(run: &Run, target: &Target, curves: &[Curve<'_>]) -> Option<Fit> {
    let answer = run.answers.first().filter(|a| a.tier == target.tier)?;
    let fitted = run.view.fitted.iter().find(|f| f.limit == limit_key(&target.class, &target.name))?;
    let own = curves.iter().filter(|c| c.series == answer.series).flat_map(|c| &c.steps);
    let levels = own.map(|s| s.level.value).fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    Fit::of(fitted, reach(&answer.goodput, levels))
}

/// Returns the shares of a curve with their bounds, at the loads that the fit is made from; shares below the axis are drawn
/// at its lower end.
fn series(target: &Target, curve: &Curve<'_>, bottom: f64, r: f64) -> Series {
    let at = |s: &Step| Some((s.effective_level(), target.row(s)?.attainment?.max(bottom)));
    let bar = |s: &Step| {
        let (low, high) = target.row(s).and_then(|l| l.low.zip(l.high))?;
        let (low, x, colour) = (low.max(bottom), s.effective_level(), curve.hue.middle);
        Some(Bar { x, low, high: Some(high), value: high, colour })
    };
    let dot = |s: &&Step| {
        let mark = Mark::by(s, target.row(s)?.verdict);
        let hint = target.hint(s, mark);
        Some(Dot { at: at(s)?, symbol: Symbol::Mark(mark, r), hint, beyond: None })
    };
    // Bars at almost one place stand side by side, in the order of their places.
    let mut bars: Vec<&Step> = curve.steps.iter().copied().filter(|s| steady(s)).collect();
    bars.sort_by(|a, b| a.effective_level().total_cmp(&b.effective_level()));
    // Decided steps are drawn above undecided ones.
    let mut steps = curve.steps.clone();
    steps.sort_by_key(|s| target.row(s).is_some_and(|row| row.verdict != Verdict::Undecided));
    Series {
        line: curve.joined(Across::Offered).into_iter().filter_map(at).collect(),
        tail: curve.tail(Across::Offered, at),
        bars: bars.into_iter().filter_map(bar).collect(),
        spreads_bars: true,
        dots: steps.iter().filter_map(dot).collect(),
        ..Series::new(curve.hue.dark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::draw::curves::curves;
    use goodput_run::fixture;

    #[test]
    fn the_limit_that_binds_comes_first() {
        let mut run = fixture::found();
        run.answers[0].goodput.binding = Some("tpot.p99".into());
        let names: Vec<String> = targets(&run).into_iter().map(|t| t.name).collect();
        assert_eq!(names, ["tpot.p99", "ttft.p99"]);
        run.answers[0].tier = "elsewhere".into();
        run.tiers.clear();
        assert!(targets(&run).is_empty() && !applies(&run, &Traces::default()));
    }

    #[test]
    fn the_scale_reaches_down_to_what_was_measured() {
        let mut run = fixture::found();
        run.steps.truncate(5);
        let target = &targets(&run)[0];
        assert!((axis(&curves(&run), target).min - 0.9).abs() < 1e-9);
        run.steps[4].limits[0].attainment = Some(0.3);
        assert!(axis(&curves(&run), target).min.abs() < 1e-9);
    }

    #[test]
    fn decided_marks_are_on_top() {
        let mut run = fixture::found();
        let mut open = run.steps[3].clone();
        (open.step, open.verdict) = (12, Verdict::Undecided);
        open.limits.iter_mut().for_each(|l| l.verdict = Verdict::Undecided);
        run.steps.push(open);
        let series = series(&targets(&run)[0], &curves(&run)[0], 0.9, 4.0);
        let at_level = series.dots.iter().filter(|d| (d.at.0 - 20.0).abs() < 1e-9);
        let marks: Vec<bool> = at_level.map(|d| matches!(d.symbol, Symbol::Mark(Mark::Meets, _))).collect();
        assert_eq!(marks, [false, true], "the step that meets comes last");
    }
}
