//! The charts of `goodput latency` and `goodput throughput`: percentiles against requests in flight, the throughput
//! ceiling and its latency, and the progress of a burst.

use super::draw::{
    Align, Axis, Canvas, Entry, Frame, GREY, Hue, Plot, Point, REACH, Rect, Scene, Slot, Type, hue_of,
    metric_title, rgb, spread,
};
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_run::rundir::offline::{LevelFigures, is_burst, levels, most};
use goodput_run::rundir::{Run, Trace, Traces};
use goodput_stats::stats::step::{Quantiles, StepKind};
use plotters::style::{Color, RGBColor};

/// File names, in the order of the charts.
pub(super) const NAMES: [&str; 3] = ["latency-levels", "ceiling", "all-at-once"];

/// Room to the right of a plot for the names of its lines.
const RIGHT: f64 = 48.0;
const RADIUS: f64 = 3.6;
/// Title of the horizontal axis, which is logarithmic with ticks at powers of two.
const IN_FLIGHT: &str = "requests in flight (closed loop), logarithmic";

/// Returns true for a measured latency run.
pub(super) fn applies_latency(run: &Run, _: &Traces) -> bool {
    run.purpose == Purpose::Latency && levels(run).iter().any(|l| l.ttft_ms.n > 0)
}

/// Returns true if the ceiling was searched step by step.
pub(super) fn applies_ceiling(run: &Run, _: &Traces) -> bool {
    run.purpose == Purpose::Throughput && !is_burst(run) && !levels(run).is_empty()
}

/// Returns true if everything was sent at once, and its trace is known.
pub(super) fn applies_burst(run: &Run, traces: &Traces) -> bool {
    run.purpose == Purpose::Throughput && trace(run, traces).is_some()
}

fn trace<'a>(run: &Run, traces: &'a Traces) -> Option<&'a Trace> {
    traces.of(run.steps.iter().find(|s| s.kind == StepKind::Burst)?)
}

fn x_of(all: &[LevelFigures]) -> Axis {
    let (low, high) =
        all.iter().fold((f64::INFINITY, 1.0_f64), |(l, h), v| (l.min(v.in_flight), h.max(v.in_flight)));
    Axis::doubling(low, high)
}

/// One line of a plot: its name, its colours, and its values by level.
struct Line {
    name: &'static str,
    colour: RGBColor,
    text: RGBColor,
    values: Vec<Point>,
}

/// Returns percentiles of a metric as lines, in a unit of `unit` milliseconds.
fn percentiles(all: &[LevelFigures], metric: Metric, unit: f64, hue: Hue) -> Vec<Line> {
    let line = |name, colour, text, pick: fn(&Quantiles) -> Option<f64>| {
        let value = |l: &LevelFigures| Some((l.in_flight, pick(&l.quantiles(metric))? / unit));
        Line { name, colour, text, values: all.iter().filter_map(value).collect() }
    };
    vec![
        line("p50", hue.light, hue.light_text, |q| q.p50),
        line("p90", hue.middle, hue.middle_text, |q| q.p90),
        line("p99", hue.dark, hue.dark, |q| q.p99),
    ]
}

/// Draws lines with a disc and a tooltip at each level, and their names at the right end.
fn draw_lines(c: &mut Canvas, plot: &Plot, lines: &[Line], told: impl Fn(f64) -> String) {
    for line in lines {
        let points: Vec<Point> = line.values.iter().map(|v| plot.at(v.0, v.1)).collect();
        c.line(&points, 2.2, line.colour);
        for (p, (level, value)) in points.into_iter().zip(&line.values) {
            c.disc(p, RADIUS, line.colour);
            let at = words::level(Control::Concurrency, *level);
            c.hint(p, REACH, format!("{at} · {} {}", line.name, told(*value)).replace("  ", " "));
        }
    }
    let ends: Vec<(Point, &Line)> =
        lines.iter().filter_map(|l| l.values.last().map(|v| (plot.at(v.0, v.1), l))).collect();
    let mut ys: Vec<f64> = ends.iter().map(|e| e.0.1).collect();
    spread(&mut ys, 14.0, (plot.area.y, plot.area.bottom() - 4.0));
    for (y, (at, line)) in ys.iter().zip(&ends) {
        c.text((at.0 + 9.0, y + 4.3), Align::Left, &Type::bold(12.0, line.text), line.name);
    }
}

/// Draws the bounds of the p99 as thin bars; one without an upper bound is dotted upwards.
fn bars(c: &mut Canvas, plot: &Plot, all: &[LevelFigures], metric: Metric, unit: f64, colour: RGBColor) {
    for l in all {
        let q = l.quantiles(metric);
        let (Some(p99), Some(low)) = (q.p99, q.p99_low) else { continue };
        let x = plot.at_x(l.in_flight);
        let at = |ms: f64| plot.at_y((ms / unit).min(plot.y.max));
        c.stroke((x, at(low)), (x, at(q.p99_high.unwrap_or(p99))), 1.3, colour);
        if q.p99_high.is_none() {
            c.dashes([(x, at(p99)), (x, (at(p99) - 18.0).max(plot.area.y))], 1.3, (1.6, 2.4), colour);
        }
    }
}

fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|l| &l.values).map(|v| v.1).fold(0.0, f64::max)
}

/// Draws TTFT, TPOT and e2e against requests in flight.
pub(super) fn draw_latency(scene: &Scene<'_>) -> Canvas {
    let all = levels(scene.run);
    let shown = [Metric::Ttft, Metric::Tpot, Metric::E2e];
    let metrics: Vec<Metric> =
        shown.into_iter().filter(|m| all.iter().any(|l| l.quantiles(*m).n > 0)).collect();
    let slots = vec![Slot::of(168.0); metrics.len()];
    let legend = vec![Entry::Say("a closed loop with no limit to keep: how fast, not how much".into())];
    let mut frame = Frame::new(scene, &slots, RIGHT, legend);
    let (x, hue) = (x_of(&all), hue_of(0));
    for (i, metric) in metrics.into_iter().enumerate() {
        latency_plot(&mut frame, i, metric, &all, x);
    }
    frame.finish(hue)
}

fn latency_plot(frame: &mut Frame, number: usize, metric: Metric, all: &[LevelFigures], x: Axis) {
    let hue = hue_of(0);
    let in_ms = percentiles(all, metric, 1.0, hue);
    let unit = if highest(&in_ms) >= 9_000.0 { 1_000.0 } else { 1.0 };
    let lines = percentiles(all, metric, unit, hue);
    let above = all.iter().filter_map(|l| l.quantiles(metric).p99_high).fold(0.0, f64::max) / unit;
    let top = highest(&lines);
    let plot = Plot { area: frame.areas[number], x, y: Axis::upto(top.max(above.min(1.5 * top)) * 1.1, 5.0) };
    let heading = format!("{}, {}", metric_title(metric), if unit > 1.0 { "s" } else { "ms" });
    let open =
        all.iter().any(|l| l.quantiles(metric).p99.is_some() && l.quantiles(metric).p99_high.is_none());
    let note =
        if open { "bars: 95 % bounds of p99; dotted: no upper one" } else { "bars: 95 % bounds of p99" };
    frame.axes(number, &plot, &heading, &[note.to_owned()], IN_FLIGHT);
    frame.spines(&plot);
    bars(&mut frame.canvas, &plot, all, metric, unit, hue.middle);
    draw_lines(&mut frame.canvas, &plot, &lines, |v| {
        format!("{} {}", metric.title(), words::latency(v * unit))
    });
}

/// Draws output tokens per second against requests in flight, and the e2e latency below.
pub(super) fn draw_ceiling(scene: &Scene<'_>) -> Canvas {
    let all = levels(scene.run);
    let legend =
        vec![Entry::Say("a closed loop with no limit to keep: the ceiling, not the capacity".into())];
    let mut frame = Frame::new(scene, &[Slot::of(240.0), Slot::of(170.0)], RIGHT, legend);
    let (x, hue) = (x_of(&all), hue_of(0));
    let values: Vec<Point> = all.iter().map(|l| (l.in_flight, l.output_tokens_per_s)).collect();
    let line = Line { name: "", colour: hue.dark, text: hue.dark, values };
    let top = highest(std::slice::from_ref(&line));
    let plot = Plot { area: frame.areas[0], x, y: Axis::upto(top * 1.18, 6.0) };
    let notes = ["beside each: requests/s".to_owned()];
    frame.axes(0, &plot, "Output tokens per second", &notes, IN_FLIGHT);
    frame.spines(&plot);
    let c = &mut frame.canvas;
    if let Some(best) = most(&all) {
        let line = plot.across(best.output_tokens_per_s);
        c.dashes(line, 1.2, (5.0, 4.0), GREY);
        let text = format!("the most: {} tokens/s", words::figure(best.output_tokens_per_s));
        c.text((plot.area.x + 6.0, line[0].1 - 6.0), Align::Left, &Type::bold(12.0, rgb(0x333333)), &text);
    }
    draw_lines(c, &plot, std::slice::from_ref(&line), |v| format!("{} output tokens/s", words::figure(v)));
    for l in &all {
        let (px, py) = plot.at(l.in_flight, l.output_tokens_per_s);
        let text = words::figure(l.requests_per_s);
        // Below the line, or above it if the axis is close.
        let y = if py + 20.0 < plot.area.bottom() { py + 17.0 } else { py - 9.0 };
        c.text((px, y), Align::Middle, &Type::book(11.0, GREY), &text);
    }
    latency_plot(&mut frame, 1, Metric::E2e, &all, x);
    frame.finish(hue)
}

/// Draws requests in flight over the time of a burst, with the times at which half, nine tenths and all of it were
/// done.
pub(super) fn draw_burst(scene: &Scene<'_>) -> Canvas {
    let legend = vec![Entry::Say(
        "everything at once, with no limit to keep: how fast a backlog is worked off, not the capacity"
            .into(),
    )];
    let mut frame = Frame::new(scene, &[Slot::of(280.0)], 30.0, legend);
    let hue = hue_of(0);
    let all = levels(scene.run);
    let (Some(trace), Some(level)) = (trace(scene.run, scene.traces), all.first()) else {
        return frame.finish(hue);
    };
    let plot = Plot {
        area: frame.areas[0],
        x: Axis::upto(trace.span_s.max(level.seconds) * 1.04, 8.0),
        y: Axis::upto(level.in_flight * 1.14, 6.0),
    };
    frame.axes(0, &plot, "Requests sent and not yet answered", &[], "seconds from the start");
    let c = &mut frame.canvas;
    let part = trace.span_s / trace.in_flight.len().max(1) as f64;
    let mut curve = vec![plot.at(0.0, level.in_flight)];
    curve.extend(trace.in_flight.iter().zip(0_u32..).map(|(n, i)| plot.at((f64::from(i) + 0.5) * part, *n)));
    curve.push(plot.at(level.seconds.max(trace.span_s - part / 2.0), 0.0));
    let mut ground = curve.clone();
    let end = curve.last().map_or(plot.area.x, |p| p.0);
    ground.extend([(end, plot.area.bottom()), (plot.area.x, plot.area.bottom())]);
    c.polygon(&ground, hue.light.mix(0.35));
    c.line(&curve, 2.3, hue.dark);
    let done = [
        ("half done", level.e2e_ms.p50),
        ("nine tenths", level.e2e_ms.p90),
        ("all done", Some(1e3 * level.seconds)),
    ];
    let done: Vec<(&str, f64)> = done.into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect();
    for (i, (name, ms)) in done.iter().enumerate() {
        let x = plot.at_x(ms / 1e3);
        let line = [(x, plot.area.y), (x, plot.area.bottom())];
        c.dashes(line, 1.2, (5.0, 4.0), GREY);
        c.hint_along(line, format!("{name} after {}", words::latency(*ms)));
        let (face, text) = (Type::book(11.5, rgb(0x333333)), format!("{name} {}", words::latency(*ms)));
        let w = face.width(&text);
        // Each on a separate line: the last two may be close together.
        let r = Rect { x: x - w - 6.0, y: plot.area.y + 6.0 + 17.0 * i as f64, w, h: 14.0 };
        c.veil(&r, true);
        c.text((r.x, r.y + 11.0), Align::Left, &face, &text);
    }
    frame.spines(&plot);
    frame.finish(hue)
}
