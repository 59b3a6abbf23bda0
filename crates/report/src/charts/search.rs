//! The course of the adaptive search: the level of each step, and the estimate of the limit after it.

use super::draw::{
    Across, Align, Axis, Canvas, Entry, Format, Frame, GREEN, GREEN_TEXT, GREY, Mark, Plot, Point, REACH,
    Rect, SAFE, Scale, Scene, Slot, Taken, Type, charted, control, hue_of, level_title, marks, of_step,
    radius, rgb, spread, x_axis,
};
use crate::words::{self, ends};
use goodput_core::level::Control;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_run::rundir::{Run, Traces};
use goodput_stats::search::answer::{Answer, Goodput, Status};
use goodput_stats::search::view::PathPoint;
use goodput_stats::stats::step::{Step, StepKind};
use plotters::style::{Color, RGBColor};

/// Returns true if an adaptive search measured at least two steps under load.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    run.view.path.len() > 1 && !run.answers.is_empty()
}

/// Returns the steps of the answer's series, in the order of measurement.
fn steps<'a>(run: &'a Run, a: &Answer) -> Vec<&'a Step> {
    let mut all: Vec<&Step> = charted(run).filter(|s| s.series == a.series).collect();
    all.sort_by_key(|s| s.step);
    all
}

/// Returns the number of seconds in a suitable unit of time, and its name.
fn unit(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s < 180.0 => (1.0, "seconds"),
        s if s < 18_000.0 => (60.0, "minutes"),
        _ => (3_600.0, "hours"),
    }
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let Some(a) = run.answers.first() else { return Canvas::new(scene.width, 1) };
    let all = steps(run, a);
    let labels = end_labels(run, a);
    let face = Type::bold(12.0, GREEN_TEXT);
    let right = 26.0 + face.widest(labels.iter().map(|l| &l.text));
    let mut legend = marks(all.iter().map(|s| Mark::of(s)), Mark::words);
    legend.push(Entry::Path("median and 90 % interval, after each step"));
    if usable_safe_rate(&a.goodput).is_some() {
        legend.push(Entry::SafeLevel(format!("safe {}", words::noun(a.control))));
    }
    let whole = y_axis(run, a, &all);
    let what = level_title(control(run));
    let mut plots = vec![(
        whole,
        format!("Level of each step, and where the limit lies by all so far: {what}{}", log(&whole)),
    )];
    if let Some(near) = closer(&a.goodput, a.control, &whole) {
        plots.push((near, format!("The same, closer, not from zero: {what}")));
    }
    if scene.format == Format::Slide {
        // Only one plot fits: the one that shows the final interval.
        let said =
            |y: &Axis| if y.min > 0.0 && y.scale == Scale::Linear { ", not from zero" } else { log(y) };
        plots = plots.pop().map(|(y, _)| (y, format!("{what}{}", said(&y)))).into_iter().collect();
    }
    let height = if plots.len() > 1 { 250.0 } else { 330.0 };
    let slots = vec![Slot::of(height); plots.len()];
    let mut frame = Frame::new(scene, &slots, right, legend);
    let spent = all.iter().map(|s| s.ended_s).fold(0.0, f64::max);
    let (second, name) = unit(spent);
    let axis = Axis::upto(spent / second, if scene.format == Format::Slide { 6.0 } else { 9.0 });
    let x = Axis { max: 1.03 * spent / second, ..axis };
    for (i, (y, heading)) in plots.iter().enumerate() {
        let plot = Plot { area: frame.areas[i], x, y: *y };
        let cut = all.iter().filter(|s| !shows(&plot, s)).count();
        let notes = match cut {
            0 => None,
            1 => Some("1 step lies outside".to_owned()),
            n => Some(format!("{n} steps lie outside")),
        };
        frame.axes(
            i,
            &plot,
            heading,
            &notes.into_iter().collect::<Vec<_>>(),
            &format!("{name} since the sweep began"),
        );
        ribbon(&mut frame.canvas, &plot, &run.view.path, second);
        frame.spines(&plot);
        let c = &mut frame.canvas;
        let mut taken = Taken::default();
        let shown: Vec<&Step> = all.iter().copied().filter(|s| shows(&plot, s)).collect();
        draw_end_labels(c, &plot, &labels, &face, &mut taken);
        draw_steps(c, &plot, &shown, second, radius(run), &mut taken);
        soaks(c, &plot, &shown, second, &mut taken);
    }
    frame.finish(hue_of(0))
}

/// Returns true if the axis of the whole search is logarithmic.
#[cfg(test)]
pub(super) fn is_logarithmic(run: &Run) -> bool {
    run.answers.first().is_some_and(|a| y_axis(run, a, &steps(run, a)).scale == Scale::Log)
}

/// Returns a suffix that labels a logarithmic axis.
fn log(axis: &Axis) -> &'static str {
    if axis.scale == Scale::Log { ", logarithmic" } else { "" }
}

/// Returns true if the level of a step lies on the axis.
fn shows(plot: &Plot, s: &Step) -> bool {
    (plot.y.min..=plot.y.max).contains(&s.level.value)
}

/// Margin of the zoomed plot on each side of the final interval, in widths of that interval.
const AROUND: f64 = 2.0;
/// Maximum share of the whole axis that a zoomed plot may show to be worth drawing.
const CLOSER: f64 = 0.5;

/// Returns the axis of a zoomed plot around the final interval, if that is too narrow on the whole axis.
fn closer(g: &Goodput, control: Control, whole: &Axis) -> Option<Axis> {
    let (_, [low, high]) = interval(g).filter(|(_, [low, _])| *low > 0.0)?;
    let width = (high - low).max(0.02 * high);
    let near = Axis::between(low - AROUND * width, high + AROUND * width, 5.0);
    let near = if control == Control::Concurrency && near.step < 1.0 {
        Axis { step: 1.0, min: near.min.floor(), max: near.max.ceil(), ..near }
    } else {
        near
    };
    let share = |v: f64| whole.share(v.clamp(whole.min, whole.max));
    (share(near.max) - share(near.min) < CLOSER).then_some(near)
}

/// Returns an axis from below the lowest step or interval end to above the highest; logarithmic if that is more than a
/// decade.
fn y_axis(run: &Run, a: &Answer, all: &[&Step]) -> Axis {
    let g = &a.goodput;
    let known = interval(g).map(|(_, i)| i).into_iter().flatten();
    let levels = || all.iter().map(|s| s.level.value).chain(g.rate()).chain(usable_safe_rate(g));
    let top = levels().fold(0.0, f64::max);
    // An upper end far above all steps is given in words.
    let high = known.clone().fold(top, f64::max).min(1.5 * top);
    let low = known.filter(|v| *v > 0.0).chain(levels()).fold(f64::INFINITY, f64::min);
    if high > 10.0 * low {
        Axis::log(low * 0.7, high * 1.4)
    } else {
        x_axis(control(run), Across::Offered, std::iter::once(high))
    }
}

/// Draws the estimate of the limit after each step: the interval as a ribbon and the median as a line, both clipped to
/// the plot.
fn ribbon(c: &mut Canvas, plot: &Plot, path: &[PathPoint], second: f64) {
    let last = path.last().map(|p| (plot.x.max * second, p));
    let points: Vec<(f64, &PathPoint)> = path.iter().map(|p| (p.ended_s, p)).chain(last).collect();
    let at = |s: f64, level: f64| plot.at((s / second).min(plot.x.max), level);
    let edge = |s: f64, level: f64| at(s, level.clamp(plot.y.min, plot.y.max));
    let high = points.iter().map(|(s, p)| edge(*s, p.interval90[1]));
    let low = points.iter().rev().map(|(s, p)| edge(*s, p.interval90[0]));
    c.polygon(&high.chain(low).collect::<Vec<Point>>(), GREEN.mix(0.18));
    for p in path.iter().filter(|p| (plot.y.min..=plot.y.max).contains(&p.rate)) {
        let [low, high] = p.interval90.map(words::level_number);
        let text = format!(
            "after {}: median {}, 90 % interval {low} – {high}",
            words::span(p.ended_s),
            words::level_number(p.rate)
        );
        c.hint(at(p.ended_s, p.rate), 6.0, text);
    }
    let median: Vec<Point> = points.iter().map(|(s, p)| at(*s, p.rate)).collect();
    for w in median.windows(2) {
        if let Some((from, to)) = inside(&plot.area, w[0], w[1]) {
            c.line(&[from, to], 2.0, GREEN);
        }
    }
}

/// Returns the part of a stroke between the upper and the lower edge of an area.
fn inside(area: &Rect, a: Point, b: Point) -> Option<(Point, Point)> {
    let cut = |p: Point, other: Point| {
        let y = p.1.clamp(area.y, area.bottom());
        let t = if (other.1 - p.1).abs() > 1e-9 { (y - p.1) / (other.1 - p.1) } else { 0.0 };
        (p.0 + t * (other.0 - p.0), y)
    };
    let outside = (a.1 < area.y && b.1 < area.y) || (a.1 > area.bottom() && b.1 > area.bottom());
    (!outside).then(|| (cut(a, b), cut(b, a)))
}

/// Draws each step at its level: a bar for its duration, and its verdict mark at the end.
fn draw_steps(c: &mut Canvas, plot: &Plot, all: &[&Step], second: f64, r: f64, taken: &mut Taken) {
    let hue = hue_of(0);
    for s in all {
        let y = plot.at_y(s.level.value);
        let (from, to) = (plot.at_x(s.started_s / second), plot.at_x(s.ended_s / second));
        c.stroke((from, y), (to, y), 2.2, hue.middle);
        taken.line(&[(from, y), (to, y)], 3.0);
    }
    for s in all {
        let at = plot.at(s.ended_s / second, s.level.value);
        Mark::of(s).draw(c, at, r, hue.dark);
        c.hint(at, REACH, of_step(s, [time(s)], Mark::of(s)));
        taken.mark(at, 6.5);
    }
}

/// Returns the time span of a step, in words.
fn time(s: &Step) -> String {
    format!("from {} to {}", words::span(s.started_s), words::span(s.ended_s))
}

/// A label at the right end of the plot.
struct EndLabel {
    level: f64,
    text: String,
    colour: RGBColor,
    is_safe_rate: bool,
}

impl EndLabel {
    fn new(level: f64, text: impl Into<String>, colour: RGBColor) -> Self {
        Self { level, text: text.into(), colour, is_safe_rate: false }
    }

    fn safe_rate(level: f64, text: &str) -> Self {
        Self { is_safe_rate: true, ..Self::new(level, format!("safe {text}"), GREEN_TEXT) }
    }
}

/// Returns labels for the final answer: its interval, its rate and the safe rate, as far as they exist.
fn end_labels(run: &Run, a: &Answer) -> Vec<EndLabel> {
    let g = &a.goodput;
    let last = || run.view.path.last().map_or(0.0, |p| p.rate);
    if let (Some((rate, [low, high])), Some(([r, l, h], safe))) = (interval(g), ends(a.control, g)) {
        let name = if g.status() == Status::Found { "goodput" } else { "about" };
        let mut labels = vec![
            EndLabel::new(high, format!("up to {h}"), GREY),
            EndLabel::new(rate, format!("{name} {r}"), GREEN_TEXT),
        ];
        match (safe, g.safe_rate()) {
            (Some(text), Some(safe)) => {
                if (safe - low).abs() > 0.02 * low {
                    labels.push(EndLabel::new(low, format!("from {l}"), GREY));
                }
                labels.push(EndLabel::safe_rate(safe, &text));
            }
            _ => labels.push(EndLabel::new(low, "none is shown safe", GREY)),
        }
        return labels;
    }
    let safe = usable_safe_rate(g).map(|s| EndLabel::safe_rate(s, &words::level_number(s)));
    match (g.status(), g.rate(), safe) {
        (Status::NotReached, Some(rate), safe) => {
            let most = EndLabel::new(rate, format!("at least {}", words::level_number(rate)), GREEN_TEXT);
            let other = safe.filter(|s| (s.level - rate).abs() > 1e-9 * rate);
            std::iter::once(most).chain(other).collect()
        }
        (_, _, Some(safe)) => vec![safe],
        (Status::None, ..) => {
            vec![EndLabel::new(last(), format!("no {} meets it", words::noun(a.control)), GREY)]
        }
        _ => vec![EndLabel::new(last(), "undecided", GREY)],
    }
}

/// Draws the labels at the end of the ribbon, each at its level or as near as there is room, with a leader.
fn draw_end_labels(c: &mut Canvas, plot: &Plot, labels: &[EndLabel], face: &Type, taken: &mut Taken) {
    let a = plot.area;
    let place = |level: f64| plot.at_y(level.clamp(plot.y.min, plot.y.max));
    let mut ys: Vec<f64> = labels.iter().map(|l| place(l.level)).collect();
    // Keeps labels with equal positions in the order of their levels.
    for i in 1..ys.len() {
        ys[i] = ys[i].max(ys[i - 1] + 0.01);
    }
    spread(&mut ys, 15.5, (a.y + 4.0, a.bottom() - 4.0));
    for (y, l) in ys.iter().zip(labels) {
        let from = (a.right() + 2.0, place(l.level));
        c.stroke(from, (a.right() + 12.0, *y), 0.9, rgb(0x9a9a9a));
        c.text((a.right() + 15.0, y + 4.3), Align::Left, &face.coloured(l.colour), &l.text);
        if l.is_safe_rate {
            let y = place(l.level);
            let line = [(a.x, y), (a.right(), y)];
            c.dashes(line, 1.4, SAFE, GREEN_TEXT);
            taken.line(&line, 1.0);
        }
    }
}

/// Labels the soak step, if any.
fn soaks(c: &mut Canvas, plot: &Plot, all: &[&Step], second: f64, taken: &mut Taken) {
    let face = Type::book(11.0, hue_of(0).dark);
    for s in all.iter().filter(|s| s.kind == StepKind::Confirm) {
        let w = face.width("soak");
        let middle = (plot.at_x(s.started_s / second) + plot.at_x(s.ended_s / second)) / 2.0;
        let y = plot.at_y(s.level.value);
        let spots =
            [y + 5.0, y - 19.0, y + 20.0, y - 34.0].map(|y| Rect { x: middle - w / 2.0, y, w, h: 13.0 });
        let inside = spots.into_iter().filter(|r| r.y > plot.area.y && r.bottom() < plot.area.bottom());
        c.label(taken.place(inside), 10.5, &face, "soak");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    #[test]
    fn it_is_drawn_of_an_adaptive_search_alone() {
        for (name, want) in [("soak", true), ("open", true), ("found", false), ("no-step", false)] {
            assert_eq!(applies(&case(name), &Traces::default()), want, "{name}");
        }
    }

    #[test]
    fn the_end_says_the_answer() {
        for (name, want) in [
            ("soak", &["up to 35.3", "goodput 34.1", "safe 33"][..]),
            ("open", &["up to 9.1", "about 5.2", "none is shown safe"]),
            ("top", &["at least 10", "safe 9.6"]),
            ("no-rate", &["no rate meets it"]),
            ("safe-only", &["safe 8.64"]),
        ] {
            let run = case(name);
            let texts: Vec<String> = end_labels(&run, &run.answers[0]).into_iter().map(|l| l.text).collect();
            assert_eq!(texts, want, "{name}");
        }
    }

    #[test]
    fn levels_over_a_decade_are_on_a_logarithmic_axis() {
        let mut run = case("soak");
        let of = |run: &Run| {
            let a = &run.answers[0];
            y_axis(run, a, &steps(run, a))
        };
        assert_eq!(of(&run).scale, Scale::Log);
        run.steps.retain(|s| s.level.value > 20.0);
        assert_eq!(of(&run).scale, Scale::Linear);
        run.answers[0].goodput.conclusion =
            conclusion(Status::Found, Some(34.0), Some([1.0, 1e6]), Some(33.0));
        assert!(of(&run).max < 200.0, "an end far above all steps squashes nothing");
    }

    #[test]
    fn a_narrow_interval_gets_a_closer_look() {
        let run = case("soak");
        let g = &run.answers[0].goodput;
        let whole = y_axis(&run, &run.answers[0], &steps(&run, &run.answers[0]));
        let near = closer(g, Control::Rate, &whole).unwrap();
        assert!(near.min < 29.0 && near.min > 20.0 && near.max > 39.0 && near.max < 50.0, "{near:?}");
        assert!(closer(g, Control::Rate, &near).is_none(), "it can be read there");
        let open = case("open");
        assert!(closer(&open.answers[0].goodput, Control::Rate, &whole).is_none(), "down to zero it is wide");
    }

    #[test]
    fn a_line_is_cut_at_the_edges() {
        let area = Rect { x: 0.0, y: 10.0, w: 100.0, h: 10.0 };
        assert_eq!(inside(&area, (0.0, 0.0), (10.0, 9.0)), None, "all above");
        let (from, to) = inside(&area, (0.0, 0.0), (40.0, 40.0)).unwrap();
        assert!((from.0 - 10.0).abs() < 1e-9 && (to.0 - 20.0).abs() < 1e-9, "{from:?} {to:?}");
    }

    #[test]
    fn time_is_in_units_of_its_length() {
        for (s, want) in [(70.0, "seconds"), (900.0, "minutes"), (30_000.0, "hours")] {
            assert_eq!(unit(s).1, want);
        }
    }
}
