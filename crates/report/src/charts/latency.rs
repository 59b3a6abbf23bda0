//! Latency against achieved throughput or against the offered rate: one plot per panel, with p50, p90 and p99 in three shades, limits
//! and goodput.

use super::draw::{
    Across, Canvas, Format, LevelChart, LevelPlot, Mark, Scene, charted, control, widest_name,
};
use super::latencies::Latencies;
use super::panel::{Panel, for_slide};
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// Returns true if any step has a usable latency: one whose backlog grew has none.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let is_usable = |s: &Step| Mark::of(s) != Mark::Overloaded;
    Metric::ALL.into_iter().any(|m| charted(run).any(|s| is_usable(s) && s.quantiles(m).p50.is_some()))
}

/// Returns true if latency can also be drawn against the offered rate: a closed loop offers none.
pub(super) fn applies_offered(run: &Run, traces: &Traces) -> bool {
    control(run) != Control::Concurrency && applies(run, traces)
}

/// Returns true if latency can be drawn against the level of a closed loop.
pub(super) fn applies_in_flight(run: &Run, traces: &Traces) -> bool {
    control(run) == Control::Concurrency && applies(run, traces)
}

/// Draws the chart against achieved throughput.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    plots(scene, Across::Achieved)
}

/// Draws the chart against the level.
pub(super) fn draw_offered(scene: &Scene<'_>) -> Canvas {
    plots(scene, Across::Offered)
}

fn plots(scene: &Scene<'_>, across: Across) -> Canvas {
    let run = scene.run;
    let mut chart = LevelChart::new(scene, across);
    let mut panels = Panel::all(run);
    if scene.format == Format::Slide {
        for_slide(run, &mut panels, if chart.curves.len() > 1 { 1 } else { 2 });
    }
    let height = [300.0, 300.0, 212.0, 172.0][panels.len().min(3)];
    let plot = |p| Latencies::new(run, &chart.curves, p, across).plot(&chart.curves, height);
    let plots: Vec<LevelPlot> = panels.into_iter().map(plot).collect();
    chart.right = 24.0 + widest_name(&plots);
    chart.title = x_title(scene, across, &chart.title);
    if let Some(afar) = &chart.afar {
        chart.title = format!("{};  {afar}", chart.title);
    }
    chart.finished(&plots, None)
}

fn x_title(scene: &Scene<'_>, across: Across, level: &str) -> String {
    let what = match across {
        Across::Achieved => "achieved throughput, requests/s",
        Across::Offered => level,
    };
    let who = words::lower(&words::subject(&scene.run.meta));
    match scene.format {
        Format::Report => format!("{what}  ({who})"),
        Format::Slide => what.to_owned(),
    }
}
