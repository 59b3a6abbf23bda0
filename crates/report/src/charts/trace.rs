//! A recorded trace: requests per second over its time, and how long prompts and answers are.

use super::draw::{
    Align, Axis, Canvas, EDGE, Format, Frame, GREY, Hue, Plot, Rect, Scale, Slot, Titles, Type, hue_of,
    raster::{Raster, SCALE},
    rgb, shortened, svg,
};
use super::lengths::lengths_axis;
use crate::escape::clip;
use anyhow::{Context, Result};
use goodput_core::distribution::Bar;
use goodput_core::units::short;
use goodput_core::units::thousands;
use goodput_workload::trace::{Distribution, OverTime, Trace, duration_text};
use plotters::style::Color;

/// Draws a trace as PNG and as SVG.
///
/// # Errors
///
/// The chart cannot be drawn or encoded.
pub fn of_trace(trace: &Trace) -> Result<(Vec<u8>, String)> {
    let canvas = draw(trace);
    let png = Raster::default().png(&canvas, SCALE, Format::Report).context("failed to draw the chart")?;
    let svg = svg::svg(&canvas, "trace", &headline(trace), &clip(&trace.title(), 200), svg::Place::File);
    Ok((png, svg))
}

fn headline(trace: &Trace) -> String {
    let s = trace.summary();
    let name = trace.source().file.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "{}: {} req/s in the mean, {} prompt tokens/s",
        clip(&name, 40),
        short(s.rate),
        thousands(s.input_tokens_per_s)
    )
}

fn draw(trace: &Trace) -> Canvas {
    let s = trace.summary();
    let face = Type::book(11.5, GREY);
    let width = f64::from(Format::Report.width()) - 2.0 * EDGE;
    let parts = trace.title().split(", ").map(|p| clip(p, 90)).collect();
    let titles = Titles {
        head: headline(trace),
        about: (face, vec![shortened(&face, parts, width)]),
        foot: format!("goodput {}", env!("CARGO_PKG_VERSION")),
    };
    let slot = |height: f64| Slot { own_x: true, ..Slot::of(height) };
    let lengths: Vec<(&str, &Distribution)> = [("Prompts", Some(&s.input)), ("Answers", s.output.as_ref())]
        .into_iter()
        .filter_map(|(what, d)| Some((what, d?)))
        .collect();
    let mut slots = vec![slot(210.0)];
    slots.extend(lengths.iter().map(|_| slot(130.0)));
    let mut frame = Frame::titled(&titles, Format::Report, Format::Report.width(), &slots, 30.0, Vec::new());
    rate(&mut frame, &s.over_time, s.rate, s.span_s);
    // Prompts and answers on one axis, for comparison.
    let least = lengths.iter().filter_map(|(_, d)| d.bars.first()).map(|b| b.from).min().unwrap_or(1).max(1);
    let most = lengths.iter().filter_map(|(_, d)| d.bars.last()).map(|b| b.to).max().unwrap_or(10);
    let x = lengths_axis(least, most);
    for (i, (what, d)) in lengths.into_iter().enumerate() {
        histogram(&mut frame, i + 1, what, d, x, hue_of(i));
    }
    frame.finish(hue_of(0))
}

/// Draws requests per second in each bin, and the mean.
fn rate(frame: &mut Frame, over: &OverTime, mean: f64, span_s: f64) {
    let (unit, name) = match span_s {
        s if s < 300.0 => (1.0, "seconds"),
        s if s < 10_800.0 => (60.0, "minutes"),
        s if s < 345_600.0 => (3_600.0, "hours"),
        _ => (86_400.0, "days"),
    };
    // The last bin ends with the trace. It is at least a tenth of a bin wide, since the rate of a shorter one would be
    // meaningless.
    let begin = |i: usize| i as f64 * over.width_s;
    let end = |i: usize| begin(i + 1).min(span_s.max(begin(i) + over.width_s / 10.0));
    let rates: Vec<f64> =
        over.bins.iter().enumerate().map(|(i, b)| b.requests as f64 / (end(i) - begin(i))).collect();
    let most = rates.iter().copied().fold(mean, f64::max);
    let x = Axis::upto(over.bins.len() as f64 * over.width_s / unit, 9.0);
    let plot = Plot { area: frame.areas[0], x, y: Axis::upto(most * 1.12, 5.0) };
    let notes = [format!("requests per second, counted over {}", duration_text(over.width_s))];
    frame.axes(0, &plot, "Rate", &notes, &format!("{name} from the first request"));
    let hue = hue_of(0);
    for (i, r) in rates.iter().enumerate().filter(|(_, r)| **r > 0.0) {
        let (from, to) = (plot.at_x(begin(i) / unit), plot.at_x(end(i) / unit));
        let y = plot.at_y(*r);
        // A slight overlap, so that neighbours leave no white line between them.
        let w = (to - from).min(plot.area.right() - from) + 0.15;
        frame.canvas.fill(&Rect { x: from, y, w, h: plot.area.bottom() - y }, hue.light.mix(1.0));
        frame.canvas.stroke((from, y), (from + w, y), 1.3, hue.dark);
        let (start, n) = (begin(i) / unit, over.bins[i].requests);
        let text =
            format!("from {} {name}: {} req/s, {} requests", short(start), short(*r), thousands(n as f64));
        frame.canvas.hint_over(Rect { x: from, y: plot.area.y, w, h: plot.area.h }, text);
    }
    frame.spines(&plot);
    let a = plot.area;
    let y = plot.at_y(mean);
    let ink = rgb(0x222222);
    frame.canvas.dashes(plot.across(mean), 1.3, (7.0, 4.0), ink);
    let label = format!("mean {}", short(mean));
    let face = Type::bold(11.0, ink);
    let w = face.width(&label);
    let place = Rect { x: a.right() - w - 4.0, y: y - 16.0, w: w + 3.0, h: 13.5 };
    frame.canvas.veil(&place, true);
    frame.canvas.text((a.right() - 3.0, y - 5.0), Align::Right, &face, &label);
}

/// Returns the tooltip of a bar: the number of requests with its lengths.
fn bar_hint(what: &str, bar: &Bar, percent: f64) -> String {
    let lengths = match bar.to - bar.from {
        0 | 1 => thousands(bar.from as f64),
        _ => format!("{} to {}", thousands(bar.from as f64), thousands((bar.to - 1) as f64)),
    };
    format!("{what} of {lengths} tokens: {} % of requests ({})", short(percent), thousands(bar.n as f64))
}

/// Draws shares of requests by length, with the percentiles.
pub(super) fn histogram(frame: &mut Frame, slot: usize, what: &str, d: &Distribution, x: Axis, hue: Hue) {
    let share = |n: u64| n as f64 / d.n as f64 * 100.0;
    let most = d.bars.iter().map(|b| share(b.n)).fold(0.0, f64::max);
    let plot = Plot { area: frame.areas[slot], x, y: Axis::upto(most * 1.5, 3.0) };
    let notes = [format!(
        "% of {} requests; mean {} tokens, longest {}",
        thousands(d.n as f64),
        thousands(d.mean),
        thousands(d.max as f64)
    )];
    let title = if x.scale == Scale::Log { "tokens, logarithmic" } else { "tokens" };
    frame.axes(slot, &plot, what, &notes, title);
    for bar in &d.bars {
        let (from, to) = (plot.at_x(bar.from.max(1) as f64), plot.at_x(bar.to as f64));
        let y = plot.at_y(share(bar.n));
        let w = (to - from - 0.6).max(0.8);
        frame.canvas.fill(&Rect { x: from + 0.3, y, w, h: plot.area.bottom() - y }, hue.middle.mix(0.75));
        frame.canvas.hint_over(
            Rect { x: from, y: plot.area.y, w, h: plot.area.h },
            bar_hint(what, bar, share(bar.n)),
        );
    }
    frame.spines(&plot);
    let (a, face) = (plot.area, Type::bold(11.0, hue.dark));
    let percentiles = [("p50", d.p50), ("p90", d.p90), ("p99", d.p99)];
    for (_, value) in percentiles {
        frame.canvas.dashes(plot.upright(value.max(1) as f64), 1.2, (4.0, 3.0), hue.dark);
    }
    // Each on a separate line: if lengths are similar, the percentiles are close.
    for (row, (name, value)) in percentiles.into_iter().enumerate() {
        let at = plot.at_x(value.max(1) as f64);
        let label = format!("{name} {}", thousands(value as f64));
        let w = face.width(&label);
        let from = if at + w + 6.0 > a.right() { at - w - 4.0 } else { at + 4.0 };
        let y = a.y + 14.0 * row as f64;
        frame.canvas.veil(&Rect { x: from - 1.0, y: y - 1.0, w: w + 2.0, h: 13.5 }, true);
        frame.canvas.text((from, y + 9.5), Align::Left, &face, &label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_workload::trace::TraceSource;
    use std::path::Path;

    #[test]
    fn every_panel_is_drawn_and_named() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/traces");
        for (name, panels) in [("mooncake.jsonl", 3), ("burstgpt-1.csv", 3)] {
            let trace = Trace::open(&TraceSource::of(folder.join(name))).unwrap();
            let (png, svg) = of_trace(&trace).unwrap();
            assert!(png.starts_with(b"\x89PNG") && svg.contains(&format!("aria-label=\"{name}: ")), "{name}");
            let titles = ["Rate", "Prompts", "Answers"].map(|t| format!("aria-label=\"{t}\""));
            assert_eq!(titles.iter().filter(|t| svg.contains(t.as_str())).count(), panels, "{name}");
        }
    }
}
