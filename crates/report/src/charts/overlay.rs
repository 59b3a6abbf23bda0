//! Several series in one picture: latency against achieved throughput, a colour for each. The metric that binds comes
//! first.

use super::draw::{
    Across, Axis, Boundary, Canvas, Curve, Entry, Format, Hue, LevelChart, LevelPlot, Mark, Scene,
    overlaid_curves, steady, widest_name, without_afar, x_axis,
};
use super::latencies::Latencies;
use super::panel::{Panel, has_class_limits};
use crate::sections::mixing;
use crate::words::{IN_A_TABLE, messages, short_names};
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::{Run, Traces};

/// With more series than this, medians are omitted, and names next to lines are shorter.
const MANY: usize = 4;
/// Length of a name next to its line, if there are many.
const BRIEF: usize = 12;

/// Returns true if at least two series have a TTFT from a steady step.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let has_ttft = |p: &&Run| p.steps.iter().any(|s| steady(s) && s.quantiles(Metric::Ttft).p50.is_some());
    run.parts.iter().filter(has_ttft).count() > 1
}

/// Returns what the chart shows: what mixing costs, if classes of a mix were measured alone, else the latency of the series.
pub(super) fn message(run: &Run) -> Option<String> {
    mixing::message(run).or_else(|| messages::overlay(run))
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let mut curves: Vec<Curve<'_>> = overlaid_curves(run).into_iter().map(|(_, curve)| curve).collect();
    let series: Vec<&str> = curves.iter().map(|c| c.series).collect();
    let entry = |(c, name): (&Curve<'_>, String)| Entry::Series(c.hue.dark, name);
    let named: Vec<Entry> =
        curves.iter().zip(short_names(series.iter().copied(), IN_A_TABLE)).map(entry).collect();
    if curves.len() > MANY {
        // One step far beyond would squash all curves.
        let boundaries: Vec<Boundary> =
            run.parts.iter().map(|p| Boundary::new(p, Across::Achieved)).collect();
        without_afar(&mut curves, boundaries.iter().flat_map(Boundary::values));
        for (curve, name) in curves.iter_mut().zip(short_names(series.iter().copied(), BRIEF)) {
            curve.name = name;
        }
    }
    let mut panels = panels(run);
    if scene.format == Format::Slide {
        panels.truncate(1);
    }
    let height = if panels.len() > 1 { 230.0 } else { 300.0 };
    let medians = curves.len() <= MANY;
    let plot = |p| LevelPlot {
        height,
        own_x: own_axis(run, &curves, p),
        ..Latencies::new(run, &curves, p, Across::Achieved).plot_of_tails(&curves, medians)
    };
    let plots: Vec<LevelPlot> = panels.into_iter().map(plot).collect();
    let achieved = curves.iter().flat_map(|c| &c.steps).map(|s| s.achieved_rate);
    let x = x_axis(Control::Rate, Across::Achieved, achieved);
    let mut chart = LevelChart::of_curves(scene, curves, x, "achieved throughput, requests/s");
    chart.right = 24.0 + widest_name(&plots);
    let legend = named.into_iter().chain(chart.legend(&plots, Mark::words, None)).collect();
    chart.draw(&plots, None, legend).finish(Hue::INK)
}

/// Returns the axis of the class of a panel, whose rates in a mix and alone are compared; `None` if no class has limits of its own.
fn own_axis(run: &Run, curves: &[Curve<'_>], panel: Panel<'_>) -> Option<(Axis, String)> {
    has_class_limits(run).then(|| {
        let steps = curves.iter().flat_map(|c| &c.steps).filter(|s| panel.is_sent_in(s));
        let places = steps.map(|s| panel.place(s, Across::Achieved));
        (x_axis(Control::Rate, Across::Achieved, places), panel.own_rate_title())
    })
}

/// Returns the metric that binds in most series; `None` if no latency binds.
fn binding_metric(run: &Run) -> Option<Metric> {
    let binds = |m: Metric| {
        let own = |p: &&Run| {
            let binding = p.answers.first().and_then(|a| a.goodput.binding.as_deref());
            binding.and_then(Metric::of_limit) == Some(m)
        };
        run.parts.iter().filter(own).count()
    };
    Metric::ALL.into_iter().filter(|m| binds(*m) > 0).max_by_key(|m| binds(*m))
}

/// Returns the panels: of each class with limits of its own, else TTFT and every other metric with a limit, the one that binds first.
fn panels(run: &Run) -> Vec<Panel<'_>> {
    if has_class_limits(run) {
        return Panel::all(run).into_iter().filter(|p| p.is_limited(run)).map(Panel::by_own_rate).collect();
    }
    let has_values = |m: Metric| run.steps.iter().any(|s| s.quantiles(m).p50.is_some());
    let all = Metric::ALL.into_iter().filter(|m| has_values(*m)).map(Panel::of_all);
    let mut all: Vec<Panel<'_>> = all.filter(|p| p.metric == Metric::Ttft || p.is_limited(run)).collect();
    let binding = binding_metric(run);
    all.sort_by_key(|p| (Some(p.metric) != binding, !p.is_limited(run)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::draw::hue::OVERLAID;
    use crate::charts::{Look, OVER, Raster, over};
    use goodput_run::fixture;

    #[test]
    fn several_series_have_an_overlay_and_one_has_none() {
        let run = fixture::pair();
        let names =
            |run: &Run| -> Vec<&str> { over(run, &Traces::default()).iter().map(|c| c.name).collect() };
        assert_eq!(names(&run), ["goodputs", "overlay", "attained", "pareto"]);
        assert!(names(&fixture::found()).is_empty());
        let mut one = run.clone();
        one.parts[1].steps.clear();
        assert!(!names(&one).contains(&"overlay"), "nothing to compare with");
    }

    #[test]
    fn every_series_is_named_in_its_colour() {
        let run = fixture::pair();
        let (none, mut raster) = (Traces::default(), Raster::default());
        let overlay = OVER.iter().find(|c| c.name == "overlay").unwrap();
        let picture = overlay.picture(&run, &none, &Look::default());
        let svg = picture.svg();
        for name in ["cold", "warm", "strong: p99, pale: p50"] {
            assert!(svg.contains(name), "{name}");
        }
        let colours: std::collections::HashSet<u32> = OVERLAID.into_iter().collect();
        assert_eq!(colours.len(), OVERLAID.len());
        assert!(picture.png(&mut raster).unwrap().len() > 3_000);
        assert!(picture.slide_png(&mut raster).unwrap().is_some());
    }

    #[test]
    fn the_metric_that_binds_comes_first() {
        let mut run = fixture::pair();
        for (binding, first) in
            [("ttft.p99", Metric::Ttft), ("tpot.p99", Metric::Tpot), ("stability", Metric::Ttft)]
        {
            run.parts.iter_mut().for_each(|p| p.answers[0].goodput.binding = Some(binding.into()));
            assert_eq!(panels(&run).first().map(|p| p.metric), Some(first), "{binding}");
        }
    }
}
