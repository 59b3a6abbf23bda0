//! The goodput as every latency limit of the SLO is scaled, computed from the recorded requests: medians with their 90
//! % interval, or brackets. Levels that were not measured are marked.

use super::cells::PHASES;
use super::draw::{
    Align, Axis, Canvas, Entry, Frame, GREEN, GREEN_TEXT, GREY, Mark, Plot, Point, REACH, Rect, Scene, Slot,
    Taken, Type, hue_of, level_title, rgb,
};
use crate::sections::scale::said;
use crate::words;
use goodput_core::level::Control;
use goodput_run::rundir::{Reach, Run, Scaled, SloScale, Traces};
use plotters::style::Color;

/// The axis reaches up to this multiple of the highest level measured.
const ABOVE: f64 = 1.25;
/// Length of an arrow into the unmeasured range.
const ARROW: f64 = 26.0;

/// Returns true if the requests were judged by scaled limits with at least one known result.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let told = |s: &SloScale| s.points.iter().any(|p| s.reach(p) != Reach::Unknown);
    run.view.scale.as_ref().is_some_and(told) && !run.answers.is_empty()
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let (Some(scale), Some(answer)) = (&run.view.scale, run.answers.first()) else {
        return Canvas::new(scene.width, 1);
    };
    let reaches: Vec<(f64, Reach)> = scale.points.iter().map(|p| (p.factor, scale.reach(p))).collect();
    let mut frame = Frame::new(scene, &[Slot::of(320.0)], 30.0, legend(&reaches));
    let plot = axes(&mut frame, run, scale, &reaches);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    let unscaled = plot.upright(1.0);
    taken.line(&unscaled, 2.0);
    for (factor, reach) in &reaches {
        taken.line(&reach_line(&plot, *factor, *reach), 6.0);
    }
    beyond(c, &plot, scale, &mut taken);
    c.dashes(unscaled, 1.3, (1.6, 2.6), GREY);
    for run in reaches.chunk_by(|a, b| between(a.1).is_some() && between(b.1).is_some()) {
        ribbon(c, &plot, run, &mut taken);
    }
    frame.spines(&plot);
    let c = &mut frame.canvas;
    for (factor, reach) in &reaches {
        mark(c, &plot, (*factor, *reach), &mut taken);
    }
    for (point, (factor, reach)) in scale.points.iter().zip(&reaches) {
        label(c, &plot, (*factor, *reach), &mut taken);
        hint(c, &plot, point, *reach, &said(answer.control, point, scale));
    }
    frame.finish(hue_of(0))
}

fn legend(reaches: &[(f64, Reach)]) -> Vec<Entry> {
    let any = |is: fn(&Reach) -> bool| reaches.iter().any(|r| is(&r.1));
    let mut all = Vec::new();
    if any(|r| matches!(r, Reach::Between { .. })) {
        all.push(Entry::Path("median and 90 % interval"));
    }
    if any(|r| matches!(r, Reach::Between { low, .. } if *low <= 0.0)) {
        all.push(Entry::Step(Mark::Undecided, "no level shown to be safe"));
    }
    if any(|r| matches!(r, Reach::Bracket { .. } | Reach::AtLeast(_))) {
        all.push(Entry::Step(Mark::Meets, "highest level shown to meet"));
    }
    if any(|r| matches!(r, Reach::Bracket { .. } | Reach::Below(_))) {
        all.push(Entry::Step(Mark::Fails, "lowest shown to fail"));
    }
    if any(|r| matches!(r, Reach::Nothing)) {
        all.push(Entry::Step(Mark::Invalid, "no level meets it"));
    }
    all
}

fn axes(frame: &mut Frame, run: &Run, scale: &SloScale, reaches: &[(f64, Reach)]) -> Plot {
    let most = scale.measured[1];
    let top = |r: &Reach| match r {
        Reach::Between { rate, high, .. } => high.min(ABOVE * most).max(*rate),
        Reach::Bracket { failed: v, .. } | Reach::AtLeast(v) | Reach::Below(v) => *v,
        Reach::Nothing | Reach::Unknown => 0.0,
    };
    let highest = reaches.iter().map(|r| top(&r.1)).fold(0.0, f64::max);
    // Steps far beyond every boundary are irrelevant here: the axis ends at the answers.
    let y = Axis::upto(if highest > 0.0 { 1.18 * highest } else { 1.05 * most }, 6.0);
    let factors = reaches.iter().map(|r| r.0);
    let (least, last) = factors.fold((f64::INFINITY, 0.0_f64), |(l, h), f| (l.min(f), h.max(f)));
    let x = Axis { min: least - 0.1, ..Axis::upto(last + 0.1, 8.0) };
    let plot = Plot { area: frame.areas[0], x, y };
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let heading =
        format!("Goodput, {}", if control == Control::Rate { "requests/s" } else { level_title(control) });
    let mut notes = vec!["requests already recorded, judged anew: no new load".to_owned()];
    if !scale.without.is_empty() {
        notes.push(format!("without {}, of which only a histogram is kept", scale.without.join(", ")));
    }
    let limits = run.tiers.first().map(|t| t.scaled(1.0, "").limits()).unwrap_or_default();
    let limits: Vec<String> = limits.iter().map(words::limit).collect();
    let stands = if limits.is_empty() { "the SLO as it stands".to_owned() } else { limits.join(", ") };
    frame.axes(0, &plot, &heading, &notes, &format!("every latency limit, × that of the SLO  (1: {stands})"));
    plot
}

/// Shades the unmeasured ranges, above and below.
fn beyond(c: &mut Canvas, plot: &Plot, scale: &SloScale, taken: &mut Taken) {
    let (a, [least, most]) = (plot.area, scale.measured);
    let above = match scale.estimated {
        true => "above the highest level measured: the fit alone",
        false => "above the highest level measured",
    };
    // Labels of the upper range are on the left, those of the lower on the right, away from rising curves.
    let mut shade = |area: Rect, text: &str, y: f64, right: bool| {
        let face = Type::book(11.0, GREY);
        c.fill(&area, PHASES[1].0.into());
        let w = face.width(text);
        let mut spots = [a.x + 8.0, a.right() - w - 8.0].map(|x| Rect { x, y, w, h: 13.0 });
        if right {
            spots.reverse();
        }
        if let Some(r) = taken.free(spots).filter(|_| area.h > 20.0) {
            c.text((r.x, r.y + 10.5), Align::Left, &face, text);
            taken.text(r);
        }
    };
    if most < plot.y.max {
        shade(Rect { h: plot.at_y(most) - a.y, ..a }, above, a.y + 4.0, false);
    }
    if least > 0.0 && least < plot.y.max {
        let y = plot.at_y(least);
        shade(Rect { y, h: a.bottom() - y, ..a }, "below the lowest level measured", a.bottom() - 17.0, true);
    }
}

/// Returns median and interval of an estimate.
const fn between(r: Reach) -> Option<(f64, [f64; 2])> {
    match r {
        Reach::Between { rate, low, high, .. } => Some((rate, [low, high])),
        Reach::Bracket { .. } | Reach::AtLeast(_) | Reach::Below(_) | Reach::Nothing | Reach::Unknown => None,
    }
}

/// Draws the intervals of neighbouring estimates as a band, and their medians as a line.
fn ribbon(c: &mut Canvas, plot: &Plot, part: &[(f64, Reach)], taken: &mut Taken) {
    let known: Vec<(f64, f64, [f64; 2])> =
        part.iter().filter_map(|(f, r)| between(*r).map(|(rate, ends)| (*f, rate, ends))).collect();
    let top = plot.y.max;
    if let [(factor, _, [low, high])] = known[..] {
        let (x, from, to) = (plot.at_x(factor), plot.at_y(low), plot.at_y(high.min(top)));
        c.fill(&Rect { x: x - 4.0, y: to, w: 8.0, h: from - to }, GREEN.mix(0.18));
    }
    let upper = known.iter().map(|(f, _, [_, high])| plot.at(*f, high.min(top)));
    let lower = known.iter().rev().map(|(f, _, [low, _])| plot.at(*f, *low));
    if known.len() > 1 {
        c.polygon(&upper.chain(lower).collect::<Vec<Point>>(), GREEN.mix(0.18));
    }
    let line: Vec<Point> = known.iter().map(|(f, rate, _)| plot.at(*f, rate.min(top))).collect();
    c.line(&line, 2.0, GREEN);
    taken.line(&line, 3.0);
}

/// Draws each answer: its median, its bracket, or an arrow into the unmeasured range.
fn mark(c: &mut Canvas, plot: &Plot, (factor, reach): (f64, Reach), taken: &mut Taken) {
    let (dark, light) = (hue_of(0).dark, hue_of(0).light);
    let at = |v: f64| plot.at(factor, v.min(plot.y.max));
    match reach {
        Reach::Between { rate, low, .. } => {
            let kind = if low > 0.0 { Mark::Meets } else { Mark::Undecided };
            kind.draw(c, at(rate), 4.2, GREEN_TEXT);
        }
        Reach::Bracket { met, failed } => {
            c.stroke(at(met), at(failed), 5.0, light);
            Mark::Meets.draw(c, at(met), 4.2, dark);
            Mark::Fails.draw(c, at(failed), 4.2, dark);
        }
        Reach::AtLeast(v) => {
            arrow(c, plot, at(v), -ARROW);
            Mark::Meets.draw(c, at(v), 4.2, dark);
        }
        Reach::Below(v) => {
            arrow(c, plot, at(v), ARROW);
            Mark::Fails.draw(c, at(v), 4.2, dark);
        }
        Reach::Nothing => Mark::Invalid.draw(c, at(0.0), 4.2, dark),
        Reach::Unknown => {
            let face = Type::book(11.0, GREY);
            c.text((plot.at_x(factor), plot.area.bottom() - 6.0), Align::Middle, &face, "?");
        }
    }
    if let Some(p) = place(plot, factor, reach) {
        taken.mark(p, 6.0);
    }
}

/// Returns the vertical extent of an answer: its interval, its bracket or its arrow.
fn reach_line(plot: &Plot, factor: f64, reach: Reach) -> Vec<Point> {
    let at = |v: f64| plot.at(factor, v.min(plot.y.max));
    let by = |v: f64, dy: f64| vec![at(v), (at(v).0, at(v).1 + dy)];
    match reach {
        Reach::Between { rate, .. } => vec![at(rate)],
        Reach::Bracket { met, failed } => vec![at(met), at(failed)],
        Reach::AtLeast(v) => by(v, -ARROW),
        Reach::Below(v) => by(v, ARROW),
        Reach::Nothing | Reach::Unknown => Vec::new(),
    }
}

/// Returns the point that represents an answer.
fn place(plot: &Plot, factor: f64, reach: Reach) -> Option<Point> {
    let value = match reach {
        Reach::Between { rate: v, .. }
        | Reach::Bracket { met: v, .. }
        | Reach::AtLeast(v)
        | Reach::Below(v) => v,
        Reach::Nothing => 0.0,
        Reach::Unknown => return None,
    };
    Some(plot.at(factor, value.min(plot.y.max)))
}

/// Draws a dashed arrow upwards or downwards from a point, within the plot.
fn arrow(c: &mut Canvas, plot: &Plot, (x, y): Point, by: f64) {
    let end = (y + by).clamp(plot.area.y + 2.0, plot.area.bottom() - 2.0);
    let grey = rgb(0x6b6b6b);
    c.dashes([(x, y), (x, end)], 1.4, (3.0, 2.4), grey);
    let back = if by < 0.0 { 5.0 } else { -5.0 };
    for side in [-4.0, 4.0] {
        c.stroke((x, end), (x + side, end + back), 1.4, grey);
    }
}

/// Draws the figure next to its mark, if there is room.
fn label(c: &mut Canvas, plot: &Plot, (factor, reach): (f64, Reach), taken: &mut Taken) {
    let (text, colour) = match reach {
        Reach::Between { rate, .. } => (words::level_number(rate), GREEN_TEXT),
        Reach::Bracket { met, .. } => (words::level_number(met), hue_of(0).dark),
        Reach::AtLeast(v) => (format!("≥ {}", words::level_number(v)), hue_of(0).dark),
        Reach::Below(v) => (format!("< {}", words::level_number(v)), hue_of(0).dark),
        Reach::Nothing => ("none".into(), GREY),
        Reach::Unknown => return,
    };
    let Some((x, y)) = place(plot, factor, reach) else { return };
    let face = Type::bold(11.0, colour);
    let w = face.width(&text);
    let spots = [
        (-w / 2.0, -19.0),
        (-w / 2.0, 7.0),
        (-w - 8.0, -7.0),
        (8.0, -7.0),
        (-w / 2.0, -32.0),
        (-w / 2.0, 20.0),
    ]
    .map(|(dx, dy)| Rect { x: x + dx, y: y + dy, w, h: 12.5 });
    let a = plot.area;
    let inside =
        |r: &Rect| r.x > a.x + 2.0 && r.right() < a.right() + 24.0 && r.y > a.y && r.bottom() < a.bottom();
    if let Some(r) = taken.free(spots.into_iter().filter(inside)) {
        c.text((r.x, r.y + 10.2), Align::Left, &face, &text);
        taken.text(r);
    }
}

fn hint(c: &mut Canvas, plot: &Plot, point: &Scaled, reach: Reach, text: &str) {
    let text = format!("limits × {} · {text}", point.factor);
    match place(plot, point.factor, reach) {
        Some(at) => c.hint(at, REACH, text),
        None => c.hint((plot.at_x(point.factor), plot.area.bottom() - 8.0), REACH, text),
    }
}
