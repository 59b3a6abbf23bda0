//! What was offered against what was achieved and how much of it was good; below, output tokens per second.

use super::axis::{Axis, Plot};
use super::boundary::{Boundary, GREEN_TEXT};
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::curves::{Curve, Mark, curves, hue_of, rgb, steady};
use super::frame::{Frame, GREY, Slot, x_axis};
use super::place::{Taken, spread};
use crate::level::Control;
use crate::report::escape::clip;
use crate::report::words;
use crate::rundir::Run;
use crate::stats::step::Step;
use plotters::style::{RGBColor, WHITE};

const GOOD: RGBColor = rgb(0x2a9d5c);

/// Draws the chart.
pub(super) fn draw(run: &Run) -> Canvas {
    let mut curves = curves(run);
    for c in &mut curves {
        c.steps.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    }
    let control = run.steps.first().map_or(Control::Rate, |s| s.level.control);
    let slots = [Slot { height: 262.0, values_above: false }, Slot { height: 150.0, values_above: false }];
    let names = curves.iter().map(|c| series_name(&curves, c)).collect::<Vec<_>>();
    let widest =
        names.iter().map(|n| end_face(WHITE).width(n)).fold(end_face(WHITE).width("achieved"), f64::max);
    let mut frame = Frame::new(run, &words::headline(run), &slots, 22.0 + widest);
    let boundary = Boundary::new(run, |level| level, |k| k.rate);
    let x = x_axis(run.steps.iter().map(|s| s.level.value).chain(boundary.values()));
    requests(&mut frame, run, &curves, &boundary, control, x);
    tokens(&mut frame, run, &curves, &boundary, x, &x_title(control));
    frame.finish(run, curves.first().map_or(hue_of(0), |c| c.hue))
}

fn x_title(control: Control) -> String {
    match control {
        Control::Rate => "offered rate, requests/s",
        Control::Concurrency => "requests in flight (closed loop)",
        Control::Sessions => "sessions started per second",
        Control::TraceScale => "speed of the trace, × recorded",
    }
    .into()
}

fn series_name(curves: &[Curve<'_>], c: &Curve<'_>) -> String {
    if curves.len() == 1 { "achieved".into() } else { clip(c.series, 22) }
}

fn end_face(colour: RGBColor) -> Type {
    Type::bold(12.0, colour)
}

fn values(c: &Curve<'_>, of: fn(&Step) -> f64) -> Vec<Point> {
    c.steps.iter().map(|s| (s.level.value, of(s))).collect()
}

fn requests(
    frame: &mut Frame,
    run: &Run,
    curves: &[Curve<'_>],
    boundary: &Boundary,
    control: Control,
    x: Axis,
) {
    let top = run.steps.iter().map(|s| s.achieved_rate.max(s.good_rate)).fold(0.0, f64::max);
    // Where nothing was achieved, the axis still shows what was offered.
    let top = if top > 0.0 { top } else { x.max };
    let plot = Plot { area: frame.areas[0], x, y: Axis::upto(top * 1.14, 6.5) };
    frame.axes(&plot, "Achieved and good requests/s", "good: within every limit together", None);
    boundary.draw(&mut frame.canvas, &plot);
    frame.spines(&plot);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    let corner = x.max.min(plot.y.max);
    if control == Control::Rate {
        c.stroke(plot.at(0.0, 0.0), plot.at(corner, corner), 1.1, rgb(0xa8a8a8));
        taken.line(&[plot.at(0.0, 0.0), plot.at(corner, corner)], 2.0);
    }
    let mut ends: Vec<(Point, RGBColor, String)> = Vec::new();
    for curve in curves {
        let lines =
            [(values(curve, |s| s.good_rate), GOOD), (values(curve, |s| s.achieved_rate), curve.hue.dark)];
        for (i, (line, colour)) in lines.into_iter().enumerate() {
            let at: Vec<Point> = line.iter().map(|p| plot.at(p.0, p.1)).collect();
            if i == 0 {
                // Wide and pale, so that it is seen where it runs under what was achieved.
                c.line(&at, 6.5, rgb(0xa5dcbc));
            }
            c.line(&at, 2.2, colour);
            for (p, step) in at.iter().zip(&curve.steps) {
                match i {
                    0 => square(c, *p, 3.4, colour),
                    _ => Mark::of(step).draw(c, *p, 4.6, colour),
                }
                taken.mark(*p, 6.5);
            }
            taken.line(&at, 3.0);
            if let Some(end) = at.last().filter(|_| i > 0 || curve.series == curves[0].series) {
                let name = if i == 0 { "good".into() } else { series_name(curves, curve) };
                ends.push((*end, if i == 0 { GREEN_TEXT } else { colour }, name));
            }
        }
    }
    // What was achieved comes first where both end in the same place.
    ends.reverse();
    label_ends(c, &plot, &ends);
    boundary.take(&mut taken, &plot);
    boundary.label(c, &plot, &mut taken);
    if control == Control::Rate {
        label_diagonal(c, &plot, &mut taken, corner);
    }
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
    if let Some((r, _)) = taken.place(spots.filter(|r| r.x > plot.area.x + 4.0)) {
        c.text((r.x, r.y + 10.5), Align::Left, &face, text);
    }
}

fn square(c: &mut Canvas, (x, y): Point, r: f64, colour: RGBColor) {
    c.fill(&Rect { x: x - r, y: y - r, w: 2.0 * r, h: 2.0 * r }, colour.into());
}

fn tokens(frame: &mut Frame, run: &Run, curves: &[Curve<'_>], boundary: &Boundary, x: Axis, x_title: &str) {
    let top = run.steps.iter().map(|s| s.output_tokens_per_s).fold(0.0, f64::max);
    let plot = Plot { area: frame.areas[1], x, y: Axis::upto(top * 1.14, 4.0) };
    frame.axes(&plot, "Output tokens/s", "", Some(x_title));
    boundary.draw(&mut frame.canvas, &plot);
    frame.spines(&plot);
    let c = &mut frame.canvas;
    let mut ends = Vec::new();
    for curve in curves {
        let at: Vec<Point> =
            values(curve, |s| s.output_tokens_per_s).iter().map(|p| plot.at(p.0, p.1)).collect();
        c.line(&at, 2.0, curve.hue.middle);
        for (p, step) in at.iter().zip(&curve.steps) {
            c.disc(*p, 3.4, curve.hue.middle);
            if !steady(step) {
                c.disc(*p, 1.9, WHITE);
            }
        }
        if let Some(end) = at.last() {
            let name = if curves.len() == 1 { "output".into() } else { series_name(curves, curve) };
            ends.push((*end, curve.hue.middle, name));
        }
    }
    label_ends(c, &plot, &ends);
}

fn label_ends(c: &mut Canvas, plot: &Plot, ends: &[(Point, RGBColor, String)]) {
    let mut ys: Vec<f64> = ends.iter().map(|e| e.0.1).collect();
    spread(&mut ys, 15.0, (plot.area.y, plot.area.bottom() - 6.0));
    for (y, (_, colour, name)) in ys.iter().zip(ends) {
        c.text((plot.area.right() + 6.0, y + 4.3), Align::Left, &end_face(*colour), name);
    }
}
