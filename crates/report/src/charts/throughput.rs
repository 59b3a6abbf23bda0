//! Offered, achieved and good requests per second; below, output tokens or items per second.

use super::draw::{
    Across, Axis, Canvas, Curve, Dot, Entry, Format, GOOD, GREEN_TEXT, LevelChart, LevelPlot, Mark, Point,
    Scene, Series, Symbol, achieved, charted, control, of_step, radius, rgb, steady, widest_name,
};
use crate::words;
use goodput_core::level::Control;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// Returns true if any step was measured.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    charted(run).next().is_some()
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let mut chart = LevelChart::new(scene, ACROSS);
    let mut plots = vec![requests(scene, &chart)];
    if scene.format == Format::Report {
        plots.push(output(scene.run, &chart.curves));
    }
    chart.right = 22.0 + widest_name(&plots);
    chart.finished(&plots, Some(Entry::Good("good: within every limit together")))
}

/// Returns the name of a curve: `single` if there is only one.
fn name(curves: &[Curve<'_>], c: &Curve<'_>, single: &str) -> String {
    if curves.len() == 1 { single.to_owned() } else { c.name.clone() }
}

/// A value of a step.
type Value = fn(&Step) -> f64;

/// The axis of all plots.
const ACROSS: Across = Across::Offered;

/// Returns the line through the steps whose windows are long enough for their rates.
fn line(curve: &Curve<'_>, of: Value) -> Vec<Point> {
    let joined = curve.joined(ACROSS).into_iter().filter(|s| Across::Achieved.joins(s));
    joined.map(|s| (ACROSS.of(s), of(s))).collect()
}

fn tail(curve: &Curve<'_>, of: Value) -> Vec<Point> {
    curve.tail(ACROSS, |s| Some((ACROSS.of(s), of(s))))
}

fn dots(
    curve: &Curve<'_>,
    of: Value,
    symbol: impl Fn(&Step) -> Symbol,
    hint: impl Fn(&Step) -> String,
) -> Vec<Dot> {
    let dot = |s: &&Step| Dot {
        at: (ACROSS.of(s), of(s)),
        symbol: symbol(s),
        hint: of_step(s, [achieved(s), hint(s)], Mark::of(s)),
        beyond: None,
    };
    curve.steps.iter().map(dot).collect()
}

/// Returns the highest value of all steps.
fn most(curves: &[Curve<'_>], of: Value) -> f64 {
    curves.iter().flat_map(|c| &c.steps).map(|s| of(s)).fold(0.0, f64::max)
}

fn requests(scene: &Scene<'_>, chart: &LevelChart<'_>) -> LevelPlot {
    let (curves, r) = (&chart.curves, radius(scene.run));
    let top = most(curves, |s| s.achieved_rate.max(s.good_rate));
    // If nothing was achieved, the axis still shows the offered rate.
    let top = if top > 0.0 { top } else { chart.x.max };
    let good_rate: fn(&Step) -> String = |s| format!("good {} req/s", words::figure(s.good_rate));
    let both = |(i, curve): (usize, &Curve<'_>)| {
        let good_name = if i == 0 { "good" } else { "" };
        let good = Series {
            line: line(curve, |s| s.good_rate),
            // Wide and pale, so that it is visible under the line of the achieved rate.
            halo: Some((6.5, rgb(0xa5dcbc))),
            dots: dots(curve, |s| s.good_rate, |s| Symbol::Square(r - 1.2, !steady(s)), good_rate),
            ..Series::new(GOOD).named(good_name, GREEN_TEXT)
        };
        let achieved = Series {
            line: line(curve, |s| s.achieved_rate),
            tail: tail(curve, |s| s.achieved_rate),
            dots: dots(curve, |s| s.achieved_rate, |s| Symbol::Mark(Mark::of(s), r), good_rate),
            ..Series::new(curve.hue.dark).named(name(curves, curve, "achieved"), curve.hue.dark)
        };
        [good, achieved]
    };
    let series = curves.iter().enumerate().flat_map(both).collect();
    // Good and achieved count different requests, which shows where a backlog grows.
    let counts = "good: of those due in the window, achieved: completed in it, so good may lie above";
    LevelPlot {
        notes: chart.afar.iter().cloned().chain([counts.to_owned()]).collect(),
        height: 262.0,
        has_diagonal: control(scene.run) == Control::Rate,
        ..LevelPlot::new("Achieved and good requests/s", Axis::upto(top * 1.14, 6.5), series)
    }
}

/// Returns the plot of what the server turns out besides requests: output tokens, or items.
fn output(run: &Run, curves: &[Curve<'_>]) -> LevelPlot {
    let (value, short, unit): (Value, _, _) = match run.result_item() {
        Some(item) => (|s| s.items_per_s, item.plural(), format!("{}/s", item.plural())),
        None => (|s| s.output_tokens_per_s, "output", "output tokens/s".to_owned()),
    };
    let symbol = |s: &Step| if steady(s) { Symbol::Disc(3.4) } else { Symbol::Ring(3.4, 1.9) };
    let series = curves.iter().map(|curve| Series {
        line: line(curve, value),
        tail: tail(curve, value),
        width: 2.0,
        dots: dots(curve, value, symbol, |s| format!("{} {unit}", words::figure(value(s)))),
        ..Series::new(curve.hue.middle).named(name(curves, curve, short), curve.hue.middle_text)
    });
    let y = Axis::upto(most(curves, value) * 1.14, 4.0);
    LevelPlot { height: 150.0, ..LevelPlot::new(words::capital(&unit), y, series.collect()) }
}
