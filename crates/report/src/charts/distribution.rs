//! The distribution of latencies at the step of the answer: the share of requests answered within each time, with limit
//! and target as a crosshair.

use super::draw::{
    Align, Axis, Canvas, Entry, Frame, Mark, Plot, Point, REACH, RED, Rect, Scene, Slot, Taken, Type, hue_of,
    of_step, rgb, shown,
};
use super::panel::{Panel, has_class_limits};
use crate::words::{self, messages};
use goodput_core::slo::{Limit, Metric};
use goodput_run::rundir::{Run, Sketch, Trace, Traces};
use goodput_stats::stats::step::{LimitRow, Quantiles, Step, Verdict};

/// Milliseconds below which a latency counts as zero: the tokens arrived in one piece.
const NO_TIME: f64 = 0.002;

/// Distance between points of the line that have tooltips, in logical pixels.
const HINTS_APART: f64 = 14.0;

/// Returns true if the requests of the answer's step are known.
pub(super) fn applies(run: &Run, traces: &Traces) -> bool {
    chosen(run, traces).is_some()
}

/// Returns the step of the answer ([`messages::answer_step`]) whose requests are known, and a description of it.
fn chosen<'a>(run: &'a Run, traces: &'a Traces) -> Option<(&'a Step, &'a Trace, &'static str)> {
    let known = |s: &Step| traces.of(s).is_some_and(|t| !t.all.of.is_empty());
    let (step, verdict) = messages::answer_step(run, run.answers.first()?, known)?;
    let why = match verdict {
        Verdict::Meets => "the highest step shown to meet the SLO",
        _ => "no step is shown to meet; the highest that does not fail",
    };
    Some((step, traces.of(step)?, why))
}

/// The content of one plot.
struct Spread<'a> {
    panel: Panel<'a>,
    step: &'a Step,
    /// Milliseconds in one unit of the axis.
    unit: f64,
    sketch: &'a Sketch,
    /// Requests that count, including failed ones.
    of: u64,
    /// Those of them that failed.
    failed: u64,
    limits: Vec<Limit>,
    x: Axis,
}

/// Returns the panels: of each class with limits of its own, else every principal metric of all requests, and the real-time factor if it is
/// limited.
fn panels(run: &Run) -> Vec<Panel<'_>> {
    match has_class_limits(run) {
        true => Panel::all(run),
        false => {
            let factor = Some(Panel::of_all(Metric::Rtf)).filter(|panel| panel.is_limited(run));
            Metric::PRINCIPAL.into_iter().map(Panel::of_all).chain(factor).collect()
        }
    }
}

impl<'a> Spread<'a> {
    fn new(run: &'a Run, step: &'a Step, trace: &'a Trace, panel: Panel<'a>) -> Option<Self> {
        let own = panel.traced(trace)?;
        let sketch = own.of.get(&panel.metric).filter(|s| s.n() > 0)?;
        let tier = &run.answers.first()?.tier;
        let limits = panel.limits(run).into_iter().filter(|(t, _)| t.tier() == tier);
        let limits: Vec<Limit> = limits.map(|(_, l)| l).collect();
        let values = sketch.cumulated();
        let (least, most) = (values.first()?.0, values.last()?.0);
        if most <= NO_TIME && limits.is_empty() {
            return None;
        }
        let reach = limits.iter().map(Limit::limit_ms).filter(|l| *l <= 6.0 * most).fold(most, f64::max);
        let unit = if reach >= 20_000.0 || panel.metric.is_ratio() { 1e3 } else { 1.0 };
        let x = if reach > 12.0 * least {
            Axis::log(0.85 * least / unit, 1.15 * reach / unit)
        } else {
            Axis::upto(1.08 * reach / unit, 8.0)
        };
        let of = sketch.n() + own.failed;
        Some(Self { panel, step, unit, sketch, of, failed: own.failed, limits, x })
    }

    /// Returns a percentile in milliseconds: the exact one of the step if no failed request shifts it, else that of the
    /// sketch.
    fn percentile(&self, share: f64, exact: impl Fn(&Quantiles) -> Option<f64>) -> Option<f64> {
        let of_sketch = self.sketch.quantile_of(share, self.of);
        if self.of == self.sketch.n() {
            exact(&self.panel.quantiles(self.step)).or(of_sketch)
        } else {
            of_sketch
        }
    }

    /// Returns the share within a limit, as judged if it was.
    fn within(&self, run: &Run, l: &Limit) -> f64 {
        let tier = run.answers.first().map(|a| a.tier.as_str());
        let own = |r: &&LimitRow| r.is(&self.panel.key(l)) && tier == Some(r.tier.as_str());
        let judged = self.step.limits.iter().find(own).and_then(|r| r.attainment);
        judged.unwrap_or_else(|| {
            let values = self.sketch.cumulated();
            let n = values.iter().take_while(|v| v.0 <= l.limit_ms()).last().map_or(0, |v| v.1);
            n as f64 / self.of as f64
        })
    }

    /// Returns the share within a limit in per cent, never rounded up to the whole.
    fn percent_within(&self, run: &Run, l: &Limit) -> String {
        let share = self.within(run, l) * 100.0;
        if share >= 100.0 { "100".to_owned() } else { format!("{:.2}", (share * 100.0).floor() / 100.0) }
    }

    /// Adds tooltips along the line with share and time: only at some of its corners, since there are hundreds.
    fn hints(&self, c: &mut Canvas, plot: &Plot) {
        let mut last = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (ms, n) in self.sketch.curve() {
            let at = plot.at(ms / self.unit, n as f64 / self.of as f64);
            if (at.0 - last.0).hypot(at.1 - last.1) >= HINTS_APART {
                let share = (1e4 * n as f64 / self.of as f64).floor() / 100.0;
                let within = words::value_of(self.panel.metric, ms);
                c.hint(at, HINTS_APART / 2.0, format!("{share} % of requests within {within}"));
                last = at;
            }
        }
    }

    fn line(&self, plot: &Plot) -> Vec<Point> {
        let at = |(ms, n): (f64, u64)| plot.at(ms / self.unit, n as f64 / self.of as f64);
        self.sketch.curve().into_iter().map(at).collect()
    }
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let Some((step, trace, why)) = chosen(scene.run, scene.traces) else { return Canvas::new(1, 1) };
    let spreads: Vec<Spread<'_>> =
        panels(scene.run).into_iter().filter_map(|p| Spread::new(scene.run, step, trace, p)).collect();
    let height = [300.0, 300.0, 210.0, 165.0][spreads.len().min(3)];
    let slots = vec![Slot { own_x: true, ..Slot::of(height) }; spreads.len()];
    let mark = match scene.run.answers.first() {
        Some(a) => Mark::by(step, shown(step, &a.tier)),
        None => Mark::of(step),
    };
    let at = words::level(step.level.control, step.level.value);
    let said = Entry::Say(format!("Step {} at {at}: {why}", step.step));
    let mut frame = Frame::new(scene, &slots, 30.0, vec![Entry::Step(mark, mark.words()), said]);
    for (i, spread) in spreads.iter().enumerate() {
        let miss = spread.limits.iter().map(|l| l.percentile.miss_share()).fold(0.01, f64::min);
        let plot = Plot { area: frame.areas[i], x: spread.x, y: Axis::shares(0.0, miss) };
        let unit = match spread.unit > 1.0 {
            _ if spread.panel.metric.is_ratio() => "",
            true => ", s",
            false => ", ms",
        };
        let n = words::thousands(spread.of as f64);
        let failed = match spread.failed {
            0 => String::new(),
            f => format!(", {} of them failed and never end", words::thousands(f as f64)),
        };
        let at = step.level;
        let notes = [format!("share of {n} requests at {at}{failed}"), "scale widens towards 100 %".into()];
        let log = if spread.x.min > 0.0 { ", logarithmic" } else { "" };
        frame.axes(
            i,
            &plot,
            &spread.panel.title(),
            &notes,
            &format!("{}{unit}{log}", spread.panel.metric.title()),
        );
        frame.spines(&plot);
        draw_one(&mut frame.canvas, scene.run, &plot, spread, mark);
    }
    frame.finish(hue_of(0))
}

fn draw_one(c: &mut Canvas, run: &Run, plot: &Plot, spread: &Spread<'_>, mark: Mark) {
    let hue = hue_of(0);
    let (a, mut taken) = (plot.area, Taken::default());
    let line = spread.line(plot);
    for l in &spread.limits {
        let share = plot.across(l.percentile.share());
        c.dashes(share, 1.5, (8.0, 4.5), RED);
        taken.line(&share, 1.0);
        let x = l.limit_ms() / spread.unit;
        if x <= plot.x.max {
            let limit = plot.upright(x);
            c.dashes(limit, 1.5, (8.0, 4.5), RED);
            let text = format!("SLO: {} · {} % within", words::limit(l), spread.percent_within(run, l));
            c.hint_along(limit, text);
            taken.line(&limit, 1.0);
        }
    }
    c.line(&line, 2.3, hue.dark);
    spread.hints(c, plot);
    taken.line(&line, 3.0);
    let face = Type::bold(11.0, hue.dark);
    let percentiles = [
        (0.5, "p50", spread.percentile(0.5, |q| q.p50)),
        (0.9, "p90", spread.percentile(0.9, |q| q.p90)),
        (0.99, "p99", spread.percentile(0.99, |q| q.p99)),
    ];
    let marks: Vec<(Point, String)> = percentiles
        .into_iter()
        .filter_map(|(share, name, ms)| {
            let value = words::value_of(spread.panel.metric, ms?);
            Some((on_line(&line, plot.at_y(share))?, format!("{name} {value}")))
        })
        .collect();
    for (at, text) in &marks {
        c.hint(*at, REACH, of_step(spread.step, [format!("{} {text}", spread.panel.metric.title())], mark));
        mark.draw(c, *at, 3.9, hue.dark);
        taken.mark(*at, 6.0);
    }
    for (at, text) in &marks {
        let w = face.width(text);
        let near =
            [(9.0, 3.0), (9.0, -16.0), (-w - 9.0, -16.0), (-w - 9.0, 3.0), (9.0, 14.0), (-w - 9.0, 14.0)];
        let spots = near.map(|(dx, dy)| Rect { x: at.0 + dx, y: at.1 + dy, w, h: 13.0 });
        let inside = |r: &Rect| {
            r.x > a.x + 2.0 && r.right() < a.right() - 2.0 && r.y > a.y - 8.0 && r.bottom() < a.bottom()
        };
        c.label(taken.place(spots.into_iter().filter(inside)), 10.5, &face, text);
    }
    for l in &spread.limits {
        label_limit(c, run, plot, spread, l, &mut taken);
    }
}

/// Returns the point at which a line that rises from the left crosses a height; `None` if it does not reach it.
fn on_line(line: &[Point], y: f64) -> Option<Point> {
    let (a, b) = line.iter().zip(line.get(1..)?).find(|(_, b)| b.1 <= y)?;
    let t = if a.1 - b.1 > 1e-9 { ((a.1 - y) / (a.1 - b.1)).clamp(0.0, 1.0) } else { 1.0 };
    Some((a.0 + t * (b.0 - a.0), y))
}

/// Draws the limit and the share within it next to its line.
fn label_limit(c: &mut Canvas, run: &Run, plot: &Plot, spread: &Spread<'_>, l: &Limit, taken: &mut Taken) {
    let (a, face) = (plot.area, Type::book(11.5, RED));
    let beyond = l.limit_ms() / spread.unit > plot.x.max;
    let first = if beyond {
        format!("SLO: {} → beyond this axis", words::limit(l))
    } else {
        format!("SLO: {}", words::limit(l))
    };
    let lines = [first, format!("{} % within", spread.percent_within(run, l))];
    let w = lines.iter().map(|t| face.width(t)).fold(0.0, f64::max);
    let x = plot.at_x((l.limit_ms() / spread.unit).min(plot.x.max));
    let ys = (0..30).map(|i| a.bottom() - 34.0 - (a.h - 40.0) * f64::from(i) / 29.0);
    let sides = if beyond { [a.right() - w - 6.0; 2] } else { [x + 7.0, x - w - 7.0] };
    let more = [a.x + a.w * 0.5, a.x + a.w * 0.25, a.x + 8.0];
    let xs = sides.into_iter().chain(more).filter(|x| *x > a.x + 3.0 && *x + w < a.right() - 2.0);
    let spots = xs.flat_map(|x| ys.clone().map(move |y| Rect { x, y, w, h: 29.0 }));
    if let Some((r, covers)) = taken.place(spots) {
        c.veil(&r, covers);
        c.text((r.x, r.y + 11.0), Align::Left, &face, &lines[0]);
        c.text((r.x, r.y + 25.5), Align::Left, &face.coloured(rgb(0x8f1014)), &lines[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::draw::canvas::Shape;
    use goodput_run::fixture;

    #[test]
    fn the_step_is_that_of_the_answer() {
        let (run, traces) = fixture::traced();
        let (step, _, why) = chosen(&run, &traces).unwrap();
        assert!((step.level.value - 32.0).abs() < 1e-9 && why.contains("meet"), "{why}");
        let mut none = run.clone();
        none.steps.retain(|s| s.verdict != Verdict::Meets);
        let (step, _, why) = chosen(&none, &traces).unwrap();
        assert!(step.verdict == Verdict::Undecided && why.contains("no step is shown to meet"), "{why}");
        none.steps.retain(|s| s.verdict == Verdict::Fails);
        assert!(chosen(&none, &traces).is_none(), "a step that fails stands for no answer");
        assert!(!applies(&run, &Traces::default()));
    }

    #[test]
    fn percentiles_lie_on_the_line() {
        let line = [(0.0, 100.0), (10.0, 60.0), (30.0, 60.0), (40.0, 20.0)];
        assert_eq!(on_line(&line, 80.0), Some((5.0, 80.0)));
        assert_eq!(on_line(&line, 60.0), Some((10.0, 60.0)), "the lowest value of that share");
        assert_eq!(on_line(&line, 30.0), Some((37.5, 30.0)));
        assert_eq!(on_line(&line, 10.0), None, "requests that never ended");
    }

    #[test]
    fn marks_of_an_undecided_step_are_hollow() {
        let (mut run, traces) = fixture::traced();
        let white = |run: &Run| {
            let scene = Scene {
                run,
                traces: &traces,
                message: "",
                format: crate::charts::draw::Format::Report,
                width: 720,
            };
            let shapes = draw(&scene).shapes;
            let inner =
                |s: &Shape| matches!(s, Shape::Disc(_, r, c) if *r < 3.0 && *c == plotters::style::WHITE);
            shapes.iter().filter(|s| inner(s)).count()
        };
        assert_eq!(white(&run), 0);
        run.steps.retain(|s| s.verdict != Verdict::Meets);
        assert!(white(&run) >= 6, "three percentiles in each plot");
    }
}
