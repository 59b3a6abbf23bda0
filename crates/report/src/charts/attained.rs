//! Attainment of several series in one picture: the share of requests within every limit against the level, a colour
//! for each.

use super::attainment::percent;
use super::axis::{Axis, Plot};
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::{Across, Curve, Mark, control, curves, steady};
use super::frame::{Frame, INK, Slot, x_axis};
use super::hints::{REACH, of_step};
use super::legend::marks;
use super::overlay::hue;
use super::panel::RED;
use super::place::Taken;
use super::scene::{Format, Scene};
use super::throughput::level_title;
use crate::escape::clip;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// Maximum number of series: with more, their lines hide one another.
const MOST: usize = 6;
/// Width of the names at the right.
const NAMES: f64 = 110.0;

/// Returns true if at least two series have an attainment at two levels, and it is below 100 % somewhere.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let told = |p: &&Run| p.steps.iter().filter(|s| steady(s) && share(p, s).is_some()).count() > 1;
    let missed = run.steps.iter().any(|s| share(run, s).is_some_and(|v| v < 1.0));
    missed && (2..=MOST).contains(&run.parts.iter().filter(told).count())
}

/// Returns the share of requests within every limit of the first tier.
fn share(run: &Run, step: &Step) -> Option<f64> {
    let tier = run.tiers.first()?.tier();
    step.row(tier, "joint").and_then(|r| r.attainment).or(step.joint_attainment)
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let all: Vec<(&Run, Curve<'_>)> = run
        .parts
        .iter()
        .enumerate()
        .filter_map(|(i, part)| Some((part, Curve { hue: hue(i), ..curves(part).into_iter().next()? })))
        .collect();
    let shares = || all.iter().flat_map(|(p, c)| c.steps.iter().filter_map(|s| share(p, s)));
    let lowest = shares().fold(1.0, f64::min);
    let target = run.tiers.first().map(|t| t.joint_target());
    let miss = 1.0 - target.unwrap_or(0.99);
    let height = if scene.format == Format::Slide { 230.0 } else { 280.0 };
    let slots = [Slot { height, values_above: false, own_x: false }];
    let legend = marks(all.iter().flat_map(|(_, c)| c.steps.iter().map(|s| Mark::of(s))), Mark::words);
    let mut frame = Frame::new(scene, &slots, NAMES, legend);
    let levels = all.iter().flat_map(|(_, c)| c.steps.iter().map(|s| s.level.value));
    let x = x_axis(control(run), Across::Offered, levels);
    let y = Axis::shares((lowest - 0.02).max(0.0), miss.max(1e-3));
    let plot = Plot { area: frame.areas[0], x, y };
    let shown = ["logarithmic in the misses".to_owned()];
    frame.axes(0, &plot, "Requests within every limit together, %", &shown, level_title(control(run)));
    frame.spines(&plot);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    if let Some(target) = target {
        let line = [(plot.area.x, plot.at_y(target)), (plot.area.right(), plot.at_y(target))];
        c.dashes(line[0], line[1], 1.8, (8.0, 4.5), RED);
        taken.line(&line, 1.0);
    }
    for (part, curve) in &all {
        series(c, &plot, (part, curve), &mut taken);
    }
    for (part, curve) in &all {
        name(c, &plot, (part, curve), &mut taken);
    }
    let ink = super::curves::Hue { dark: INK, middle: INK, light: INK, light_text: INK, middle_text: INK };
    frame.finish(ink)
}

/// Draws the line through steps that are neither overloaded nor invalid, the bounds of each, and a mark for every step.
fn series(c: &mut Canvas, plot: &Plot, (part, curve): (&Run, &Curve<'_>), taken: &mut Taken) {
    let at = |s: &Step| Some((s.level.value, share(part, s)?));
    let joined: Vec<(f64, f64)> = curve.joined(Across::Offered).into_iter().filter_map(at).collect();
    for piece in plot.line(&joined) {
        c.line(&piece, 2.2, curve.hue.dark);
        taken.line(&piece, 3.0);
    }
    let tier = part.tiers.first().map_or("", |t| t.tier());
    for step in &curve.steps {
        let Some((level, value)) = at(step) else { continue };
        if let Some((low, high)) = step.row(tier, "joint").and_then(|r| r.low.zip(r.high)) {
            let x = plot.at_x(level);
            c.stroke((x, plot.at_y(low.max(plot.y.min))), (x, plot.at_y(high)), 1.2, curve.hue.light);
        }
        let place = plot.at(level, value);
        let mark = Mark::of(step);
        mark.draw(c, place, 4.0, curve.hue.dark);
        let within = format!("{} within every limit", percent(value));
        c.hint(place, REACH, of_step(step, [within], mark));
        taken.mark(place, 6.0);
    }
}

/// Draws the name of a series near its last point.
fn name(c: &mut Canvas, plot: &Plot, (part, curve): (&Run, &Curve<'_>), taken: &mut Taken) {
    let last = curve.steps.iter().rev().find_map(|s| Some(plot.at(s.level.value, share(part, s)?)));
    let Some((x, y)) = last else { return };
    let (face, text) = (Type::bold(12.0, curve.hue.dark), clip(curve.series, 20));
    let w = face.width(&text);
    let spots = [0.0, 14.0, -14.0, 27.0, -27.0]
        .into_iter()
        .flat_map(|down| [x + 9.0, x - 9.0 - w].map(|x| Rect { x, y: y - 7.0 + down, w, h: 14.0 }));
    let within = |r: &Rect| {
        r.x > plot.area.x && r.right() < plot.area.right() + NAMES && r.bottom() < plot.area.bottom()
    };
    if let Some((r, covers)) = taken.place(spots.filter(within)) {
        c.veil(&r, covers);
        c.text((r.x, r.y + 11.3), Align::Left, &face, &text);
    }
}

#[cfg(test)]
mod tests {
    use crate::charts::{Look, OVER};
    use goodput_run::fixture;
    use goodput_run::rundir::Traces;

    #[test]
    fn every_series_has_a_line() {
        let run = fixture::pair();
        let chart = OVER.iter().find(|c| c.name == "attained").unwrap();
        let svg = chart.svg(&run, &Traces::default(), &Look::default());
        for text in ["cold", "warm", "Requests within every limit together, %"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(super::applies(&run, &Traces::default()));
        assert!(!super::applies(&fixture::found(), &Traces::default()));
    }
}
