//! The goodput as every latency limit of the SLO is scaled, computed from the recorded requests: medians with their 90
//! % interval, or brackets. Levels that were not measured are marked.

use super::cells::PHASES;
use super::draw::{
    Align, Axis, Canvas, Entry, Frame, GREEN, GREEN_TEXT, GREY, Mark, Plot, Point, REACH, Rect, Scale, Scene,
    Slot, Taken, Type, hue_of, level_title, rgb,
};
use crate::sections::scale::goodput_at;
use crate::words;
use goodput_core::level::Control;
use goodput_run::rundir::{Reach, Run, SloScale, Traces};
use plotters::style::{Color, RGBColor};

/// The axis reaches up to this multiple of the highest level measured.
const ABOVE: f64 = 1.25;
/// Label of the line at × 1.
const AS_IT_STANDS: &str = "the SLO as it stands";
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
    taken.line(&plot.upright(1.0), 2.0);
    let answers: Vec<(f64, Option<DrawnAnswer>)> = reaches.iter().map(|(f, r)| (*f, shown(*r))).collect();
    for (factor, shown) in &answers {
        if let Some(shown) = shown {
            taken.line(&shown.extent(&plot, *factor), 6.0);
        }
    }
    beyond(c, &plot, scale, &mut taken);
    draw_unscaled(c, &plot, &mut taken);
    for run in reaches.chunk_by(|a, b| between(a.1).is_some() && between(b.1).is_some()) {
        ribbon(c, &plot, run, &mut taken);
    }
    frame.spines(&plot);
    let c = &mut frame.canvas;
    for (factor, shown) in &answers {
        match shown {
            Some(shown) => shown.draw(c, &plot, *factor, &mut taken),
            None => {
                let at = (plot.at_x(*factor), plot.area.bottom() - 6.0);
                c.text(at, Align::Middle, &Type::book(11.0, GREY), "?");
            }
        }
    }
    for (point, (factor, shown)) in scale.points.iter().zip(&answers) {
        if let Some(shown) = shown {
            shown.label(c, &plot, *factor, &mut taken);
        }
        let unknown = (plot.at_x(*factor), plot.area.bottom() - 8.0);
        let at = shown.as_ref().map_or(unknown, |s| s.point(&plot, *factor));
        c.hint(at, REACH, format!("limits × {factor} · {}", goodput_at(answer.control, point, scale)));
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
    let x = Axis { min: least - 0.1, scale: Scale::Times, ..Axis::upto(last + 0.1, 5.0) };
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
    // Limits that do not fit here are in the footer.
    let titles = [
        format!("every latency limit, as a multiple of the SLO’s  (× 1: {})", limits.join(", ")),
        "every latency limit, as a multiple of the SLO’s".to_owned(),
    ];
    let fits = |t: &&String| !limits.is_empty() && Type::book(12.0, GREY).width(t) <= plot.area.w + 60.0;
    let title = titles.iter().find(fits).unwrap_or(&titles[1]);
    frame.axes(0, &plot, &heading, &notes, title);
    plot
}

/// Draws the line at × 1.
fn draw_unscaled(c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
    let (line, face) = (plot.upright(1.0), Type::book(11.0, GREY));
    c.dashes(line, 1.3, (1.6, 2.6), GREY);
    let w = face.width(AS_IT_STANDS);
    let ys = [plot.area.bottom() - 17.0, plot.area.bottom() - 40.0, plot.area.y + 4.0];
    let spots = ys.map(|y| Rect { x: line[0].0 + 6.0, y, w, h: 13.0 });
    let place = taken.free(spots).map(|r| (r, false));
    c.label(place, 10.5, &face, AS_IT_STANDS);
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
        let place = taken.free(spots).filter(|_| area.h > 20.0);
        c.label(place.map(|r| (r, false)), 10.5, &face, text);
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

/// The drawing of an answer.
struct DrawnAnswer {
    /// Its marks; the first represents it.
    marks: Vec<(Mark, f64)>,
    colour: RGBColor,
    /// Length of an arrow into the unmeasured range, downwards.
    arrow: f64,
    label: String,
}

/// Returns the drawing of an answer; `None` if it is not known.
fn shown(reach: Reach) -> Option<DrawnAnswer> {
    let dark = hue_of(0).dark;
    let one = |mark, level, label: String| DrawnAnswer {
        marks: vec![(mark, level)],
        colour: dark,
        arrow: 0.0,
        label,
    };
    let n = words::level_number;
    Some(match reach {
        Reach::Between { rate, low, .. } => {
            let mark = if low > 0.0 { Mark::Meets } else { Mark::Undecided };
            DrawnAnswer { colour: GREEN_TEXT, ..one(mark, rate, n(rate)) }
        }
        Reach::Bracket { met, failed } => DrawnAnswer {
            marks: vec![(Mark::Meets, met), (Mark::Fails, failed)],
            ..one(Mark::Meets, met, n(met))
        },
        Reach::AtLeast(v) => DrawnAnswer { arrow: -ARROW, ..one(Mark::Meets, v, format!("≥ {}", n(v))) },
        Reach::Below(v) => DrawnAnswer { arrow: ARROW, ..one(Mark::Fails, v, format!("< {}", n(v))) },
        Reach::Nothing => one(Mark::Invalid, 0.0, "none".into()),
        Reach::Unknown => return None,
    })
}

impl DrawnAnswer {
    /// Returns the point that represents it.
    fn point(&self, plot: &Plot, factor: f64) -> Point {
        plot.at_top((factor, self.marks[0].1))
    }

    /// Returns its vertical extent: its median, its bracket or its arrow.
    fn extent(&self, plot: &Plot, factor: f64) -> [Point; 2] {
        let (from, last) = (self.point(plot, factor), self.marks[self.marks.len() - 1].1);
        let to = plot.at_top((factor, last));
        [from, (to.0, to.1 + self.arrow)]
    }

    fn draw(&self, c: &mut Canvas, plot: &Plot, factor: f64, taken: &mut Taken) {
        let at = self.point(plot, factor);
        if let [_, (_, end)] = self.marks[..] {
            c.stroke(at, plot.at_top((factor, end)), 5.0, hue_of(0).light);
        }
        if self.arrow.abs() > 0.0 {
            arrow(c, plot, at, self.arrow);
        }
        for (mark, level) in &self.marks {
            mark.draw(c, plot.at_top((factor, *level)), 4.2, self.colour);
        }
        taken.mark(at, 6.0);
    }

    /// Draws the figure next to its mark, if there is room.
    fn label(&self, c: &mut Canvas, plot: &Plot, factor: f64, taken: &mut Taken) {
        let (x, y) = self.point(plot, factor);
        let colour = if self.marks[0].0 == Mark::Invalid { GREY } else { self.colour };
        let face = Type::bold(11.0, colour);
        let w = face.width(&self.label);
        let (middle, left) = (-w / 2.0, -w - 8.0);
        let shifts = [
            (middle, -19.0),
            (middle, 7.0),
            (left, -7.0),
            (8.0, -7.0),
            (left + 4.0, -20.0),
            (6.0, 8.0),
            (middle, -32.0),
            (middle, 20.0),
            (left, -33.0),
        ];
        let spots = shifts.map(|(dx, dy)| Rect { x: x + dx, y: y + dy, w, h: 12.5 });
        let a = plot.area;
        let inside = |r: &Rect| {
            r.x > a.x + 2.0 && r.right() < a.right() + 24.0 && r.y > a.y && r.bottom() < a.bottom()
        };
        let place = taken.free(spots.into_iter().filter(inside)).map(|r| (r, false));
        c.label(place, 10.2, &face, &self.label);
    }
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
