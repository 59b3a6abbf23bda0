//! Several series in one picture: latency against achieved throughput, a colour for each, and the capacity of each
//! below.

use super::axis::{Axis, Plot, Scale};
use super::boundary::Boundary;
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::{Across, Curve, Hue, Mark, curves, rgb, steady, without_afar};
use super::frame::{Frame, INK, Slot, x_axis};
use super::labels::end_width;
use super::legend::marks;
use super::panel::{Panel, RED, title};
use super::place::Taken;
use super::scene::{Format, Scene};
use crate::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::search::answer::{Answer, Status};
use plotters::style::RGBColor;

/// One colour per series, distinguishable with red-green colour blindness. None is the colour of the SLO.
const COLOURS: [u32; 9] =
    [0x0072b2, 0xc96500, 0x007f5f, 0x8e4fa8, 0x333333, 0x3fa0d8, 0x8a7a00, 0xb3477d, 0x6b4423];
/// With more series than this, medians are omitted, and a name is drawn next to its line only if there is room: all are
/// named below.
const MANY: usize = 4;
/// Height of a series in the plot of capacities.
const ROW: f64 = 19.0;

/// Returns true if at least two series have a TTFT from a steady step.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let own = |p: &&Run| p.steps.iter().any(|s| steady(s) && s.quantiles(Metric::Ttft).p50.is_some());
    run.parts.iter().filter(own).count() > 1
}

/// Returns the curve of each series, in its colour.
fn coloured(run: &Run) -> Vec<Curve<'_>> {
    let parts = run.parts.iter().enumerate();
    parts.filter_map(|(i, part)| Some(Curve { hue: hue(i), ..curves(part).into_iter().next()? })).collect()
}

/// Returns the colour of series number `series`.
pub(super) fn hue(series: usize) -> Hue {
    let dark = rgb(COLOURS[series % COLOURS.len()]);
    let light = paler(dark, 0.5);
    Hue { dark, middle: light, light, light_text: dark, middle_text: dark }
}

/// Returns a colour mixed with white; a `share` of 1 is white.
pub(super) fn paler(c: RGBColor, share: f64) -> RGBColor {
    let mix = |v: u8| (f64::from(v) + share * (255.0 - f64::from(v))) as u8;
    RGBColor(mix(c.0), mix(c.1), mix(c.2))
}

/// Returns the axis on which the goodput of a series is placed. With offered rates it is placed at its level, since a
/// sustained rate is also achieved. For workers or sessions it is placed at the rate that the steps achieved.
fn measured_across(part: &Run) -> Across {
    match part.answers.first().map(|a| a.control) {
        Some(Control::Rate) => Across::Offered,
        _ => Across::Achieved,
    }
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let mut curves = coloured(run);
    let boundaries: Vec<Boundary> =
        run.parts.iter().map(|p| Boundary::new(p, measured_across(p), scene.format)).collect();
    if curves.len() > MANY {
        // One step far beyond would squash all curves.
        without_afar(&mut curves, boundaries.iter().flat_map(Boundary::values));
    }
    let slide = scene.format == Format::Slide;
    let mut metrics = metrics(run);
    if slide {
        metrics.sort_by_key(|m| !limited(run, *m));
        metrics.truncate(1);
    }
    let panels: Vec<Panel> = metrics.iter().map(|m| Panel::new(run, &curves, *m, Across::Achieved)).collect();
    let height = if panels.len() > 1 { 230.0 } else { 300.0 };
    let slot = |height, values_above| Slot { height, values_above, own_x: false };
    let mut slots: Vec<Slot> = panels.iter().map(|p| slot(height, p.clipped)).collect();
    let rows = run.parts.len() as f64;
    slots.extend((!slide).then(|| slot(ROW * rows + 8.0, false)));
    let legend = marks(panels.iter().flat_map(|p| p.marks_drawn(&curves)), Mark::words);
    let mut frame = Frame::new(scene, &slots, room(&curves), legend);
    let achieved = curves.iter().flat_map(|c| &c.steps).map(|s| s.achieved_rate);
    let ends = boundaries.iter().filter_map(|b| Some(b.span()?.1));
    let x = x_axis(Control::Rate, Across::Achieved, achieved.chain(ends));
    let x_title = "achieved throughput, requests/s";
    for (i, (panel, metric)) in panels.iter().zip(&metrics).enumerate() {
        let plot = Plot { area: frame.areas[i], x, y: panel.y };
        latencies(&mut frame, i, &plot, (panel, *metric), &curves, x_title);
    }
    if !slide {
        let y = Axis { min: 0.0, max: rows, step: 1.0, scale: Scale::Rows };
        let plot = Plot { area: frame.areas[panels.len()], x, y };
        capacities(&mut frame, panels.len(), &plot, (run, &boundaries), x_title);
    }
    let ink = Hue { dark: INK, middle: INK, light: INK, light_text: INK, middle_text: INK };
    frame.finish(ink)
}

/// Returns the width of the names at the right, in logical pixels.
fn room(curves: &[Curve<'_>]) -> f64 {
    match curves.len() > MANY {
        true => 40.0 + names(curves).iter().map(|n| Type::bold(12.0, INK).width(n)).fold(0.0, f64::max),
        false => 24.0 + end_width(curves),
    }
}

/// Returns the names of the series for use within a plot. For a grid with one knob, only its values.
fn names(curves: &[Curve<'_>]) -> Vec<String> {
    let parts: Vec<Option<(&str, &str)>> = curves.iter().map(|c| c.series.split_once('=')).collect();
    let knob = parts.first().copied().flatten().map(|(knob, _)| knob);
    let one = |part: &Option<(&str, &str)>| part.is_some_and(|(k, v)| Some(k) == knob && !v.contains('='));
    let alike = curves.len() > MANY && parts.iter().all(one);
    let name = |(c, part): (&Curve<'_>, &Option<(&str, &str)>)| match part {
        Some((_, value)) if alike => clip(value, 22),
        _ => clip(c.series, 22),
    };
    curves.iter().zip(&parts).map(name).collect()
}

/// Draws one metric of every series: the tail strong, the median pale.
fn latencies(
    frame: &mut Frame,
    number: usize,
    plot: &Plot,
    (panel, metric): (&Panel, Metric),
    curves: &[Curve<'_>],
    x_title: &str,
) {
    let unit = if panel.unit > 1.0 { "s" } else { "ms" };
    let heading = format!("{}, {unit}", title(metric));
    let many = curves.len() > MANY;
    let shown = if many { "p99" } else { "strong: p99, pale: p50" };
    frame.axes(number, plot, &heading, &[shown.to_owned()], x_title);
    frame.spines(plot);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    for limit in panel.limits.iter().filter(|l| l.value <= panel.y.max) {
        let y = plot.at_y(limit.value);
        c.dashes((plot.area.x, y), (plot.area.right(), y), 1.8, (8.0, 4.5), RED);
        taken.line(&[(plot.area.x, y), (plot.area.right(), y)], 1.0);
    }
    for (pick, width) in [(0, 1.8), (2, 2.4)].into_iter().skip(usize::from(many)) {
        for curve in curves {
            let colour = if pick == 2 { curve.hue.dark } else { curve.hue.light };
            for piece in plot.line(&panel.joined(curve, pick)) {
                c.line(&piece, width, colour);
                taken.line(&piece, 3.0);
            }
        }
    }
    for curve in curves {
        panel.marks(c, plot, curve);
        for (p, _) in panel.points(curve, panel.marked) {
            taken.mark(panel.mark_at(plot, p), 6.5);
        }
    }
    name_ends(c, plot, panel, curves, &mut taken);
    panel.label_limits(c, plot, &mut taken);
}

/// Draws the name of each series near the last point of its tail.
fn name_ends(c: &mut Canvas, plot: &Plot, panel: &Panel, curves: &[Curve<'_>], taken: &mut Taken) {
    let many = curves.len() > MANY;
    for (curve, name) in curves.iter().zip(names(curves)) {
        let joined = panel.joined(curve, 2);
        let last = joined.iter().rfind(|p| p.1 <= panel.y.max).copied();
        let last = last.or_else(|| panel.points(curve, panel.marked).map(|(p, _)| p).last());
        let Some((x, y)) = last.map(|p| panel.mark_at(plot, p)) else { continue };
        let face = Type::bold(12.0, curve.hue.dark);
        let w = face.width(&name);
        let spots = [0.0, 13.0, -13.0, 24.0, -24.0].into_iter().flat_map(|down| {
            [x + 10.0, x - 10.0 - w, x - w / 2.0].map(|x| Rect { x, y: y - 7.0 + down, w, h: 14.0 })
        });
        let within = |r: &Rect| {
            let room = room(curves) - 8.0;
            r.x > plot.area.x && r.right() < plot.area.right() + room && r.bottom() < plot.area.bottom()
        };
        let place = match many {
            true => taken.free(spots.filter(within)).map(|r| (r, false)),
            false => taken.place(spots.filter(within)),
        };
        if let Some((r, covers)) = place {
            c.veil(&r, covers);
            c.text((r.x, r.y + 11.3), Align::Left, &face, &name);
        }
    }
}

/// Returns true if the answer of a series is not a rate that is shown to meet the SLO.
fn open(part: &Run) -> bool {
    let kept = |a: &Answer| matches!(a.goodput.status(), Status::Found | Status::NotReached);
    !part.answers.first().is_some_and(kept)
}

/// Draws the capacity of each series: the rate as a dot, hollow if undecided, and its 90 % interval or bracket as a
/// bar.
fn capacities(
    frame: &mut Frame,
    number: usize,
    plot: &Plot,
    (run, boundaries): (&Run, &[Boundary]),
    x_title: &str,
) {
    let estimated =
        run.parts.iter().filter_map(|p| p.answers.first()).any(|a| a.goodput.interval90().is_some());
    let bar = if estimated { "bar: 90 % interval" } else { "bar: up to the lowest rate that fails" };
    let hollow = run.parts.iter().any(open).then(|| "hollow: undecided".to_owned());
    let notes: Vec<String> = std::iter::once(bar.to_owned()).chain(hollow).collect();
    frame.axes(number, plot, "Goodput, requests/s", &notes, x_title);
    frame.spines(plot);
    let c = &mut frame.canvas;
    for (i, (part, boundary)) in run.parts.iter().zip(boundaries).enumerate() {
        let colour = hue(i).dark;
        let y = plot.area.y + 4.0 + ROW * (i as f64 + 0.5);
        let face = Type::bold(11.5, colour);
        let name = clip(part.series(), 22);
        let Some((line, high, low)) =
            boundary.span().map(|(line, high, low)| (plot.at_x(line), plot.at_x(high), plot.at_x(low)))
        else {
            let status = part.answers.first().map_or("not measured", |a| a.goodput.status().name());
            c.text((plot.area.x + 8.0, y + 4.0), Align::Left, &face, &format!("{name}: {status}"));
            continue;
        };
        c.stroke((low, y), (high, y), 6.0, hue(i).light);
        if open(part) {
            Mark::Undecided.draw(c, (line, y), 4.6, colour);
        } else {
            c.disc((line, y), 4.6, colour);
        }
        let row = Rect { x: plot.area.x, y: y - ROW / 2.0, w: plot.area.w, h: ROW };
        c.hint_over(row, format!("{name} · {}", boundary.said()));
        let w = face.width(&name);
        let after = high.max(line) + 10.0;
        let x = if after + w <= plot.area.right() + 30.0 { after } else { low.min(line) - 10.0 - w };
        c.text((x, y + 4.0), Align::Left, &face, &name);
    }
}

fn limited(run: &Run, metric: Metric) -> bool {
    run.tiers.iter().any(|t| t.limits().iter().any(|l| l.metric == metric))
}

/// Returns TTFT and every other metric with a limit.
fn metrics(run: &Run) -> Vec<Metric> {
    let valued = |m: Metric| run.steps.iter().any(|s| s.quantiles(m).p50.is_some());
    let wanted = |m: Metric| m == Metric::Ttft || limited(run, m);
    Metric::ALL.into_iter().filter(|m| wanted(*m) && valued(*m)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::{Look, OVER, over};
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;

    #[test]
    fn several_series_have_an_overlay_and_one_has_none() {
        let run = fixture::pair();
        assert_eq!(over(&run, &Traces::default())[0].name, "overlay");
        assert!(over(&fixture::found(), &Traces::default()).is_empty());
        let mut one = run.clone();
        one.parts[1].steps.clear();
        assert!(over(&one, &Traces::default()).is_empty(), "nothing to compare with");
    }

    #[test]
    fn every_series_is_named_in_its_colour() {
        let run = fixture::pair();
        let svg = OVER[0].svg(&run, &Traces::default(), &Look::default());
        for name in ["cold", "warm", "Goodput, requests/s", "strong: p99, pale: p50"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(!svg.contains("hollow"), "both are found");
        let colours: std::collections::HashSet<u32> = COLOURS.into_iter().collect();
        assert_eq!(colours.len(), COLOURS.len());
        assert!(OVER[0].png(&run, &Traces::default(), &Look::default()).unwrap().len() > 3_000);
        assert!(OVER[0].slide_png(&run, &Traces::default(), &Look::default()).unwrap().is_some());
    }

    /// A filled mark stands for a rate that is shown to meet the SLO.
    #[test]
    fn what_is_undecided_is_drawn_hollow() {
        let mut run = fixture::pair();
        let circles = |run: &Run| {
            let svg = OVER[0].svg(run, &Traces::default(), &Look::default());
            (svg.matches("<circle").count(), svg.contains("hollow: undecided"))
        };
        let g = &mut run.parts[0].answers[0].goodput;
        g.conclusion = conclusion(Status::Found, Some(30.0), Some([20.0, 33.0]), Some(20.0));
        let (full, _) = circles(&run);
        run.parts[0].answers[0].goodput.conclusion =
            conclusion(Status::Undecided, Some(30.0), Some([0.0, 33.0]), None);
        assert_eq!(circles(&run), (full + 1, true), "a white one within it");
    }
}
