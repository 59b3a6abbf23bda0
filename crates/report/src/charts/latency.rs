//! Latency against achieved throughput or against the offered rate: one plot per metric, with p50, p90 and p99 in three
//! shades, limits and goodput.

use super::axis::Plot;
use super::boundary::Boundary;
use super::canvas::Canvas;
use super::curves::{Across, Mark, charted, control, curves, hue_of, without_afar};
use super::frame::{Frame, Slot, x_axis};
use super::labels::end_width;
use super::legend::marks;
use super::panel::Panel;
use super::scene::{Format, Scene};
use super::throughput::level_title;
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// Returns true if any step has a usable latency: one whose backlog grew has none.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let own = |s: &Step| Mark::of(s) != Mark::Overloaded;
    Metric::ALL.into_iter().any(|m| charted(run).any(|s| own(s) && s.quantiles(m).p50.is_some()))
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
    let mut curves = curves(run);
    let boundary = Boundary::new(run, across, scene.format);
    let afar = match across {
        Across::Achieved => None,
        Across::Offered => without_afar(&mut curves, boundary.values()),
    };
    let mut metrics = metrics(run);
    if scene.format == Format::Slide {
        // Only two fit; those with a limit are more informative.
        metrics.sort_by_key(|m| !limited(run, *m));
        metrics.truncate(if curves.len() > 1 { 1 } else { 2 });
        metrics.sort();
    }
    let panels: Vec<Panel> = metrics.into_iter().map(|m| Panel::new(run, &curves, m, across)).collect();
    let height = [300.0, 300.0, 212.0, 172.0][panels.len().min(3)];
    let slots: Vec<Slot> =
        panels.iter().map(|p| Slot { height, values_above: p.clipped, own_x: false }).collect();
    let mut legend = marks(panels.iter().flat_map(|p| p.marks_drawn(&curves)), Mark::words);
    legend.extend(boundary.entries());
    let mut frame = Frame::new(scene, &slots, 24.0 + end_width(&curves), legend);
    let all = curves.iter().flat_map(|c| &c.steps);
    let x = x_axis(control(run), across, all.map(|s| across.of(s)).chain(boundary.values()));
    let title = match (x_title(scene, across), afar) {
        (title, Some(afar)) => format!("{title};  {afar}"),
        (title, None) => title,
    };
    for (i, panel) in panels.iter().enumerate() {
        let plot = Plot { area: frame.areas[i], x, y: panel.y };
        let ground = panel.draw(&mut frame, i, &plot, &curves, &boundary, &title);
        let c = &mut frame.canvas;
        let mut taken = panel.obstacles(&plot, &curves);
        boundary.take(&mut taken, &plot);
        panel.label_ends(c, &plot, &curves, &mut taken);
        panel.label_limits(c, &plot, &mut taken);
        if i == 0 && scene.format == Format::Report {
            boundary.label(c, &plot, &mut taken);
        }
        panel.unloaded(c, &plot, &mut taken, ground);
    }
    frame.finish(curves.first().map_or(hue_of(0), |c| c.hue))
}

fn x_title(scene: &Scene<'_>, across: Across) -> String {
    let run = scene.run;
    let what = match across {
        Across::Achieved => "achieved throughput, requests/s",
        Across::Offered => level_title(control(run)),
    };
    let who = words::subject(&run.meta).replacen("One", "one", 1).replacen("The ", "the ", 1);
    match scene.format {
        Format::Report => format!("{what}  ({who})"),
        Format::Slide => what.to_owned(),
    }
}

fn limited(run: &Run, metric: Metric) -> bool {
    run.tiers.iter().any(|t| t.limits().iter().any(|l| l.metric == metric))
}

/// Returns TTFT and TPOT, and every other metric with a limit, if they have values; TTFT if none has.
fn metrics(run: &Run) -> Vec<Metric> {
    // A metric that is zero in every step is no property of the server: all tokens of a response arrived in one piece.
    let valued = |m: Metric| {
        let tells = |v: f64| v > 0.0 || limited(run, m);
        charted(run).any(|s| s.quantiles(m).p50.is_some_and(tells))
    };
    let wanted = |m: Metric| matches!(m, Metric::Ttft | Metric::Tpot) || limited(run, m);
    let found: Vec<Metric> = Metric::ALL.into_iter().filter(|m| wanted(*m) && valued(*m)).collect();
    if found.is_empty() { vec![Metric::Ttft] } else { found }
}
