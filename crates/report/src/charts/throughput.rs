//! Offered, achieved and good requests per second; below, output tokens per second.

use super::axis::{Axis, Plot};
use super::boundary::{Boundary, GREEN_TEXT};
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::curves::{
    Across, Curve, Mark, charted, control, curves, hue_of, radius, rgb, steady, without_afar,
};
use super::frame::{Frame, GREY, Slot, x_axis};
use super::hints::{REACH, achieved, of_step};
use super::legend::{Entry, marks};
use super::place::{Taken, spread};
use super::scene::{Format, Scene};
use crate::escape::clip;
use crate::words;
use goodput_core::level::Control;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;
use plotters::style::{RGBColor, WHITE};

/// Colour of good requests.
pub(super) const GOOD: RGBColor = rgb(0x2a9d5c);

/// Returns true if any step was measured.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    charted(run).next().is_some()
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let mut curves = curves(run);
    let boundary = Boundary::new(run, Across::Offered, scene.format);
    let afar = without_afar(&mut curves, boundary.values()).unwrap_or_default();
    let slot = |height: f64| Slot { height, values_above: false, own_x: false };
    let slots = if scene.format == Format::Slide { vec![slot(0.0)] } else { vec![slot(262.0), slot(150.0)] };
    let names = curves.iter().map(|c| series_name(&curves, c)).collect::<Vec<_>>();
    let widest =
        names.iter().map(|n| end_face(WHITE).width(n)).fold(end_face(WHITE).width("achieved"), f64::max);
    let mut legend = marks(curves.iter().flat_map(|c| &c.steps).map(|s| Mark::of(s)), Mark::words);
    legend.push(Entry::Good("good: within every limit together"));
    legend.extend(boundary.entries());
    let mut frame = Frame::new(scene, &slots, 22.0 + widest, legend);
    let levels = curves.iter().flat_map(|c| &c.steps).map(|s| s.level.value);
    let x = x_axis(control(run), Across::Offered, levels.chain(boundary.values()));
    requests(&mut frame, scene, &curves, (&boundary, x), &afar);
    if scene.format == Format::Report {
        tokens(&mut frame, run, &curves, &boundary, x);
    }
    frame.finish(curves.first().map_or(hue_of(0), |c| c.hue))
}

/// Returns the title of the axis of levels, with its unit.
pub(super) const fn level_title(control: Control) -> &'static str {
    match control {
        Control::Rate => "offered rate, requests/s",
        Control::Concurrency => "requests in flight (closed loop)",
        Control::Sessions => "sessions started per second",
        Control::TraceScale => "speed of the trace, × recorded",
    }
}

fn series_name(curves: &[Curve<'_>], c: &Curve<'_>) -> String {
    if curves.len() == 1 { "achieved".into() } else { clip(c.series, 22) }
}

pub(super) fn end_face(colour: RGBColor) -> Type {
    Type::bold(12.0, colour)
}

/// A value of a step.
type Of = fn(&Step) -> f64;

fn points(plot: &Plot, steps: &[&Step], of: Of) -> Vec<Point> {
    steps.iter().map(|s| plot.at(s.level.value, of(s))).collect()
}

fn requests(
    frame: &mut Frame,
    scene: &Scene<'_>,
    curves: &[Curve<'_>],
    (boundary, x): (&Boundary, Axis),
    afar: &str,
) {
    let run = scene.run;
    let shown = curves.iter().flat_map(|c| &c.steps);
    let top = shown.map(|s| s.achieved_rate.max(s.good_rate)).fold(0.0, f64::max);
    // If nothing was achieved, the axis still shows the offered rate.
    let top = if top > 0.0 { top } else { x.max };
    let plot = Plot { area: frame.areas[0], x, y: Axis::upto(top * 1.14, 6.5) };
    let title = level_title(control(run));
    // Good and achieved count different requests, which shows where a backlog grows.
    let counts = "good: of those due in the window, achieved: completed in it, so good may lie above";
    let notes: Vec<String> =
        [afar, counts].into_iter().filter(|n| !n.is_empty()).map(str::to_owned).collect();
    frame.axes(0, &plot, "Achieved and good requests/s", &notes, title);
    boundary.draw(&mut frame.canvas, &plot);
    frame.spines(&plot);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    let corner = x.max.min(plot.y.max);
    let open = control(run) == Control::Rate;
    if open {
        c.stroke(plot.at(0.0, 0.0), plot.at(corner, corner), 1.1, rgb(0x8f8f8f));
        taken.line(&[plot.at(0.0, 0.0), plot.at(corner, corner)], 2.0);
    }
    let r = radius(run);
    let mut ends: Vec<(Point, RGBColor, String)> = Vec::new();
    for curve in curves {
        let kinds: [(Of, RGBColor); 2] = [(|s| s.good_rate, GOOD), (|s| s.achieved_rate, curve.hue.dark)];
        for (i, (of, colour)) in kinds.into_iter().enumerate() {
            let line = points(&plot, &curve.joined(Across::Offered), of);
            if i == 0 {
                // Wide and pale, so that it is visible under the line of the achieved rate.
                c.line(&line, 6.5, rgb(0xa5dcbc));
            }
            c.line(&line, 2.2, colour);
            let all = points(&plot, &curve.steps, of);
            for (p, step) in all.iter().zip(&curve.steps) {
                match i {
                    0 => square(c, *p, r - 1.2, colour, steady(step)),
                    _ => Mark::of(step).draw(c, *p, r, colour),
                }
                c.hint(*p, REACH, told(step, Mark::of(step)));
                taken.mark(*p, 6.5);
            }
            taken.line(&line, if i == 0 { 5.0 } else { 3.0 });
            if let Some(end) =
                line.last().or(all.last()).filter(|_| i > 0 || curve.series == curves[0].series)
            {
                let name = if i == 0 { "good".into() } else { series_name(curves, curve) };
                ends.push((*end, if i == 0 { GREEN_TEXT } else { colour }, name));
            }
        }
    }
    // The achieved rate comes first if both end in one place.
    ends.reverse();
    label_ends(c, &plot, &ends, &mut taken);
    boundary.take(&mut taken, &plot);
    if scene.format == Format::Report {
        boundary.label(c, &plot, &mut taken);
    }
    if open {
        label_diagonal(c, &plot, &mut taken, corner);
    }
}

/// Returns the tooltip of a step: its achieved and its good rate.
fn told(step: &Step, mark: Mark) -> String {
    of_step(step, [achieved(step), format!("good {} req/s", words::figure(step.good_rate))], mark)
}

fn label_diagonal(c: &mut Canvas, plot: &Plot, taken: &mut Taken, corner: f64) {
    let face = Type::book(11.0, GREY);
    let text = "achieved = offered";
    let w = face.width(text);
    let spots = (0..30).map(|i| {
        let v = corner * (0.93 - 0.028 * f64::from(i));
        let (x, y) = plot.at(v, v);
        Rect { x: x - w - 7.0, y: y - 17.0, w, h: 13.0 }
    });
    if let Some((r, false)) = taken.place(spots.filter(|r| r.x > plot.area.x + 4.0)) {
        c.text((r.x, r.y + 10.5), Align::Left, &face, text);
    }
}

/// Draws the mark of good requests; hollow if the backlog grew.
fn square(c: &mut Canvas, (x, y): Point, r: f64, colour: RGBColor, steady: bool) {
    c.fill(&Rect { x: x - r, y: y - r, w: 2.0 * r, h: 2.0 * r }, colour.into());
    if !steady {
        let r = r - 1.3;
        c.fill(&Rect { x: x - r, y: y - r, w: 2.0 * r, h: 2.0 * r }, WHITE.into());
    }
}

fn tokens(frame: &mut Frame, run: &Run, curves: &[Curve<'_>], boundary: &Boundary, x: Axis) {
    let shown = curves.iter().flat_map(|c| &c.steps);
    let top = shown.map(|s| s.output_tokens_per_s).fold(0.0, f64::max);
    let plot = Plot { area: frame.areas[1], x, y: Axis::upto(top * 1.14, 4.0) };
    frame.axes(1, &plot, "Output tokens/s", &[], level_title(control(run)));
    boundary.draw(&mut frame.canvas, &plot);
    frame.spines(&plot);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    let mut ends = Vec::new();
    for curve in curves {
        let line = points(&plot, &curve.joined(Across::Offered), |s| s.output_tokens_per_s);
        let all = points(&plot, &curve.steps, |s| s.output_tokens_per_s);
        c.line(&line, 2.0, curve.hue.middle);
        taken.line(&line, 3.0);
        for (p, step) in all.iter().zip(&curve.steps) {
            c.disc(*p, 3.4, curve.hue.middle);
            if !steady(step) {
                c.disc(*p, 1.9, WHITE);
            }
            let tokens = format!("{} output tokens/s", words::figure(step.output_tokens_per_s));
            c.hint(*p, REACH, of_step(step, [achieved(step), tokens], Mark::of(step)));
            taken.mark(*p, 5.0);
        }
        if let Some(end) = line.last().or(all.last()) {
            let name = if curves.len() == 1 { "output".into() } else { series_name(curves, curve) };
            ends.push((*end, curve.hue.middle_text, name));
        }
    }
    boundary.take(&mut taken, &plot);
    label_ends(c, &plot, &ends, &mut taken);
}

/// Draws names next to the last points of the lines if there is room, else at the edge of the plot.
pub(super) fn label_ends(c: &mut Canvas, plot: &Plot, ends: &[(Point, RGBColor, String)], taken: &mut Taken) {
    let mut ys: Vec<f64> = ends.iter().map(|e| e.0.1).collect();
    spread(&mut ys, 15.0, (plot.area.y, plot.area.bottom() - 6.0));
    let beside = ends.iter().map(|e| e.0.0).fold(0.0, f64::max) + 10.0;
    let rects = |x: f64, down: f64| -> Vec<Rect> {
        let width = |e: &(Point, RGBColor, String)| end_face(WHITE).width(&e.2);
        ys.iter().zip(ends).map(|(y, e)| Rect { x, y: y - 7.0 + down, w: width(e), h: 14.0 }).collect()
    };
    let inside = |r: &Rect| r.bottom() <= plot.area.bottom() + 4.0;
    let near = [0.0, 14.0, 26.0, -16.0].into_iter().map(|down| rects(beside, down));
    let near = near.filter(|all| all.iter().all(inside)).find_map(|all| taken.nudge(&all));
    let placed = near.unwrap_or_else(|| rects(plot.area.right() + 6.0, 0.0));
    for (r, (_, colour, name)) in placed.iter().zip(ends) {
        c.text((r.x, r.y + 11.3), Align::Left, &end_face(*colour), name);
        taken.text(*r);
    }
}
