//! The charts of `goodput latency` and `goodput throughput`: percentiles against requests in flight, the throughput
//! ceiling and its latency, and the progress of a burst.

use super::draw::{
    Align, Axis, Bar, Canvas, Dot, Entry, Frame, GREY, LevelChart, LevelPlot, Plot, Point, Rect, Scene,
    Series, Slot, Symbol, Type, hue_of, metric_title, rgb,
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
/// Title of the horizontal axis, which is logarithmic with ticks at powers of two.
const IN_FLIGHT: &str = "requests in flight (closed loop), logarithmic";

/// Returns true for a measured latency run.
pub(super) fn applies_latency(run: &Run, _: &Traces) -> bool {
    run.purpose == Purpose::Latency && levels(run).iter().any(|l| l.quantiles(Metric::Ttft).n > 0)
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

/// Returns a line of values by level, with a disc and a tooltip at each.
fn line(name: &str, colour: RGBColor, values: Vec<Point>, hint: impl Fn(f64) -> String) -> Series {
    let dot = |at: &Point| {
        let level = words::level(Control::Concurrency, at.0);
        let hint = format!("{level} · {name} {}", hint(at.1)).replace("  ", " ");
        Dot { at: *at, symbol: Symbol::Disc(3.6), hint, beyond: None }
    };
    Series { dots: values.iter().map(dot).collect(), line: values, ..Series::new(colour) }
}

/// Returns the chart of some plots over the requests in flight.
fn chart<'a>(scene: &'a Scene<'a>, all: &[LevelFigures]) -> LevelChart<'a> {
    let (low, high) =
        all.iter().fold((f64::INFINITY, 1.0_f64), |(l, h), v| (l.min(v.in_flight), h.max(v.in_flight)));
    let mut chart = LevelChart::of_curves(scene, Vec::new(), Axis::doubling(low, high), IN_FLIGHT);
    chart.right = RIGHT;
    chart
}

/// Draws TTFT, TPOT and e2e against requests in flight.
pub(super) fn draw_latency(scene: &Scene<'_>) -> Canvas {
    let all = levels(scene.run);
    let measured = |m: &Metric| all.iter().any(|l| l.quantiles(*m).n > 0);
    let metrics = Metric::PRINCIPAL.into_iter().filter(measured);
    let plots: Vec<LevelPlot> = metrics.map(|m| latency_plot(m, &all)).collect();
    let legend = vec![Entry::Say("a closed loop with no limit to keep: how fast, not how much".into())];
    chart(scene, &all).draw(&plots, None, legend).finish(hue_of(0))
}

/// Describes the plot of the percentiles of a metric.
fn latency_plot(metric: Metric, all: &[LevelFigures]) -> LevelPlot {
    let hue = hue_of(0);
    type Pick = fn(&Quantiles) -> Option<f64>;
    let values = |pick: Pick, unit: f64| -> Vec<Point> {
        all.iter().filter_map(|l| Some((l.in_flight, pick(&l.quantiles(metric))? / unit))).collect()
    };
    let picks: [(&str, Pick); 3] = [("p50", |q| q.p50), ("p90", |q| q.p90), ("p99", |q| q.p99)];
    let highest = picks.iter().flat_map(|p| values(p.1, 1.0)).map(|v| v.1).fold(0.0, f64::max);
    let unit = if highest >= 9_000.0 { 1_000.0 } else { 1.0 };
    let colours = [(hue.light, hue.light_text), (hue.middle, hue.middle_text), (hue.dark, hue.dark)];
    let percentile = |((name, pick), (colour, text)): ((&str, _), _)| {
        let hint = |v: f64| format!("{} {}", metric.title(), words::latency(v * unit));
        line(name, colour, values(pick, unit), hint).named(name, text)
    };
    let mut series: Vec<Series> = picks.into_iter().zip(colours).map(percentile).collect();
    let bar = |l: &LevelFigures| {
        let q = l.quantiles(metric);
        let (low, value, high) = (q.p99_low? / unit, q.p99? / unit, q.p99_high.map(|h| h / unit));
        Some(Bar { x: l.in_flight, low, high, value, colour: hue.middle })
    };
    let bars: Vec<Bar> = all.iter().filter_map(bar).collect();
    let top = highest / unit;
    let above = bars.iter().filter_map(|b| b.high).fold(0.0, f64::max);
    let open = if bars.iter().any(|b| b.high.is_none()) { "; dotted: no upper one" } else { "" };
    series[0].bars = bars;
    LevelPlot {
        notes: vec![format!("bars: 95 % bounds of p99{open}")],
        height: 168.0,
        ..LevelPlot::new(
            format!("{}, {}", metric_title(metric), if unit > 1.0 { "s" } else { "ms" }),
            Axis::upto(top.max(above.min(1.5 * top)) * 1.1, 5.0),
            series,
        )
    }
}

/// Draws output tokens per second against requests in flight, and the e2e latency below.
pub(super) fn draw_ceiling(scene: &Scene<'_>) -> Canvas {
    let all = levels(scene.run);
    let values: Vec<Point> = all.iter().map(|l| (l.in_flight, l.output_tokens_per_s)).collect();
    let top = values.iter().map(|v| v.1).fold(0.0, f64::max);
    let y = Axis::upto(top * 1.18, 6.0);
    let tokens = line("", hue_of(0).dark, values, |v| format!("{} output tokens/s", words::figure(v)));
    let tokens = LevelPlot {
        notes: vec!["beside each: requests/s".to_owned()],
        height: 240.0,
        ..LevelPlot::new("Output tokens per second", y, vec![tokens])
    };
    let legend =
        vec![Entry::Say("a closed loop with no limit to keep: the ceiling, not the capacity".into())];
    let chart = chart(scene, &all);
    let latency = LevelPlot { height: 170.0, ..latency_plot(Metric::E2e, &all) };
    let mut frame = chart.draw(&[tokens, latency], None, legend);
    let plot = Plot { area: frame.areas[0], x: chart.x, y };
    let c = &mut frame.canvas;
    if let Some(best) = most(&all) {
        let line = plot.across(best.output_tokens_per_s);
        c.dashes(line, 1.2, (5.0, 4.0), GREY);
        let text = format!("the most: {} tokens/s", words::figure(best.output_tokens_per_s));
        let at = (plot.area.x + 6.0, line[0].1 - 6.0);
        c.text(at, Align::Left, &Type::bold(12.0, rgb(0x333333)), &text);
    }
    for l in &all {
        let (px, py) = plot.at(l.in_flight, l.output_tokens_per_s);
        let text = words::figure(l.requests_per_s);
        // Below the line, or above it if the axis is close.
        let y = if py + 20.0 < plot.area.bottom() { py + 17.0 } else { py - 9.0 };
        c.text((px, y), Align::Middle, &Type::book(11.0, GREY), &text);
    }
    frame.finish(hue_of(0))
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
        ("half done", level.quantiles(Metric::E2e).p50),
        ("nine tenths", level.quantiles(Metric::E2e).p90),
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
