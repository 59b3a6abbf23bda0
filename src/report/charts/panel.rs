//! One plot of latencies: percentiles of a metric as curves, each step with its mark, limits, and what the unloaded server does.

use super::axis::{Axis, Plot};
use super::beyond::{ceiling, together};
use super::boundary::Boundary;
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::curves::{Curve, Mark, baseline, radius, rgb, steady};
use super::frame::{Frame, GREY};
use super::latency::Across;
use super::place::{Taken, spread};
use crate::report::escape::clip;
use crate::report::words;
use crate::rundir::Run;
use crate::slo::{Metric, Slo};
use crate::stats::step::{Quantiles, Step};
use plotters::style::{RGBColor, WHITE};

/// Colour of the SLO.
pub(super) const RED: RGBColor = rgb(0xcb181d);
const NAMES: [&str; 3] = ["p50", "p90", "p99"];
type Pick = fn(&Quantiles) -> Option<f64>;
const PICKS: [Pick; 3] = [|q| q.p50, |q| q.p90, |q| q.p99];

/// What one plot shows, in its own unit.
pub(super) struct Panel {
    metric: Metric,
    across: Across,
    /// Milliseconds in one unit of the axis.
    unit: f64,
    /// Labels and values of the limits.
    limits: Vec<(String, f64)>,
    /// Its vertical axis.
    pub(super) y: Axis,
    /// Whether values lie beyond it.
    pub(super) clipped: bool,
    /// Which of the percentiles carries the marks by verdict: the one that the SLO limits, p99 where it limits none.
    marked: usize,
    /// The baseline's percentiles, in the unit of the axis: p50 and p99.
    unloaded: Option<(f64, Option<f64>)>,
    /// Radius of the marks.
    radius: f64,
}

/// The right end of a curve.
struct End {
    at: Point,
    line: RGBColor,
    text: RGBColor,
    name: String,
}

fn end_face(colour: RGBColor) -> Type {
    Type::bold(12.0, colour)
}

/// `p99` at the end of a curve; with several series their names instead, at p99 alone.
fn end_labels(curves: &[Curve<'_>]) -> Vec<[String; 3]> {
    let label = |c: &Curve<'_>| match curves.len() {
        1 => NAMES.map(str::to_owned),
        _ => [String::new(), String::new(), clip(c.series, 22)],
    };
    curves.iter().map(label).collect()
}

/// Width of the widest name at the right end of a curve.
pub(super) fn end_width(curves: &[Curve<'_>]) -> f64 {
    end_labels(curves).iter().flatten().map(|t| end_face(WHITE).width(t)).fold(0.0, f64::max)
}

impl Panel {
    /// What there is to show of a metric.
    pub(super) fn new(run: &Run, curves: &[Curve<'_>], metric: Metric, across: Across) -> Self {
        let several = run.tiers.len() > 1;
        let limits: Vec<(String, f64)> = run
            .tiers
            .iter()
            .flat_map(|t| t.limits().into_iter().map(move |l| (t, l)))
            .filter(|(_, l)| l.metric == metric)
            .map(|(t, l)| {
                let tier = if several { format!(" ({})", clip(t.tier(), 20)) } else { String::new() };
                (format!("SLO: {}{tier}", words::limit(&l)), l.limit_ms())
            })
            .collect();
        let all = |want: bool| -> Vec<f64> {
            let steps = curves.iter().flat_map(|c| &c.steps);
            steps
                .filter(|s| steady(s) == want && Mark::of(s) != Mark::Overloaded)
                .filter_map(|s| s.quantiles(metric).p99)
                .collect()
        };
        let (calm, wild) = (all(true), all(false));
        let top = ceiling(&calm, &wild, &limits.iter().map(|l| l.1).collect::<Vec<_>>());
        let unit = if top >= 9_000.0 { 1_000.0 } else { 1.0 };
        let strictest = run
            .tiers
            .iter()
            .flat_map(Slo::limits)
            .filter(|l| l.metric == metric)
            .map(|l| l.percentile.share());
        let marked = match strictest.max_by(f64::total_cmp) {
            Some(share) if share <= 0.5 => 0,
            Some(share) if share <= 0.9 => 1,
            Some(_) | None => 2,
        };
        let limits = limits.into_iter().map(|(t, v)| (t, v / unit)).collect();
        let clipped = calm.iter().chain(&wild).any(|v| *v > top);
        let mut y = Axis::upto(top / unit, 6.5);
        if clipped {
            y.max = (y.max / y.step - 1e-6).ceil() * y.step;
        }
        let unloaded = baseline(run, metric)
            .and_then(|q| Some((q.p50? / unit, q.p99.filter(|_| q.n >= 100).map(|v| v / unit))));
        Self { metric, across, unit, limits, y, clipped, marked, unloaded, radius: radius(run) }
    }

    /// The place of a step, and one percentile of it: without end where the backlog grew, since the value would tell how long
    /// that was watched and nothing of the server.
    fn point(&self, step: &Step, pick: usize) -> Option<Point> {
        if Mark::of(step) == Mark::Overloaded {
            return (pick == self.marked).then(|| (self.across.of(step), f64::INFINITY));
        }
        PICKS[pick](&step.quantiles(self.metric)).map(|v| (self.across.of(step), v / self.unit))
    }

    /// One percentile of every step that has it. Of a step whose backlog grew, only the percentile that carries the marks.
    fn points<'a>(
        &'a self,
        curve: &'a Curve<'_>,
        pick: usize,
    ) -> impl Iterator<Item = (Point, &'a Step)> + 'a {
        let steps = curve.steps.iter().filter(move |s| pick == self.marked || steady(s));
        steps.filter_map(move |s| Some((self.point(s, pick)?, *s)))
    }

    fn joined(&self, curve: &Curve<'_>, pick: usize) -> Vec<Point> {
        curve.joined(|s| self.across.of(s)).into_iter().filter_map(|s| self.point(s, pick)).collect()
    }

    /// Draws axes, curves and marks; labels come later, where there is room.
    pub(super) fn draw(
        &self,
        frame: &mut Frame,
        number: usize,
        plot: &Plot,
        curves: &[Curve<'_>],
        boundary: &Boundary,
        x_title: &str,
    ) {
        let unit = if self.unit > 1.0 { "s" } else { "ms" };
        let heading = format!("{}, {unit}", title(self.metric));
        frame.axes(number, plot, &heading, &self.note(curves), x_title);
        boundary.draw(&mut frame.canvas, plot);
        frame.spines(plot);
        let c = &mut frame.canvas;
        for (_, limit) in self.limits.iter().filter(|l| l.1 <= self.y.max) {
            let y = plot.at_y(*limit);
            c.dashes((plot.area.x, y), (plot.area.right(), y), 1.8, (8.0, 4.5), RED);
        }
        if let Some((_, Some(p99))) = self.unloaded.filter(|u| u.1.is_some_and(|v| v <= self.y.max)) {
            let y = plot.at_y(p99);
            c.dashes((plot.area.x, y), (plot.area.right(), y), 1.1, (1.2, 3.0), rgb(0x707070));
        }
        for curve in curves {
            self.whiskers(c, plot, curve);
            for (pick, colour) in [curve.hue.light, curve.hue.middle, curve.hue.dark].into_iter().enumerate()
            {
                let width = if pick == 2 { 2.3 } else { 2.0 };
                for piece in plot.line(&self.joined(curve, pick)) {
                    c.line(&piece, width, colour);
                }
                if pick != self.marked {
                    for (p, _) in self.points(curve, pick).filter(|(p, _)| p.1 <= self.y.max) {
                        c.disc(plot.at(p.0, p.1), self.radius - 1.7, colour);
                    }
                }
            }
        }
        for curve in curves {
            self.marks(c, plot, curve);
        }
    }

    /// What stands behind the heading.
    fn note(&self, curves: &[Curve<'_>]) -> String {
        let mut parts = Vec::new();
        if self.clipped {
            let cut = words::latency(self.y.max * self.unit);
            parts.push(format!("axis cut at {cut}, ↑ {} beyond", NAMES[self.marked]));
        }
        if curves.iter().flat_map(|c| &c.steps).any(|s| self.bounds(s).is_some()) {
            parts.push("bars: 95 % bounds of p99".into());
            let open = |s: &Step| self.bounds(s).is_some_and(|b| b.1.is_none());
            if curves.iter().flat_map(|c| &c.steps).any(|s| open(s)) {
                parts.push("dotted: no upper one".into());
            }
        }
        parts.join("; ")
    }

    /// The bounds of the p99 of a steady step, where that is the percentile with the marks; the upper one where there is one.
    fn bounds(&self, step: &Step) -> Option<(f64, Option<f64>)> {
        let q = step.quantiles(self.metric);
        let drawn = self.marked == 2 && steady(step) && q.p99.is_some();
        drawn.then_some(q.p99_low).flatten().map(|low| (low / self.unit, q.p99_high.map(|h| h / self.unit)))
    }

    /// The bounds as thin bars; one without an upper bound fades out upwards.
    fn whiskers(&self, c: &mut Canvas, plot: &Plot, curve: &Curve<'_>) {
        for step in &curve.steps {
            let (Some((low, high)), Some(p)) = (self.bounds(step), self.point(step, 2)) else { continue };
            let x = plot.at_x(p.0);
            let (from, to) = (plot.at_y(low.min(self.y.max)), plot.at_y(high.unwrap_or(p.1).min(self.y.max)));
            c.stroke((x, from), (x, to), 1.3, curve.hue.middle);
            let cap = |c: &mut Canvas, y: f64| c.stroke((x - 2.6, y), (x + 2.6, y), 1.1, curve.hue.middle);
            if low < self.y.max {
                cap(c, from);
            }
            match high {
                Some(h) if h <= self.y.max => cap(c, to),
                Some(_) => {}
                None => {
                    let end = (to - 20.0).max(plot.area.y);
                    c.dashes((x, to), (x, end), 1.3, (1.6, 2.4), curve.hue.middle);
                }
            }
        }
    }

    /// Each step by its verdict, on the curve of the limited percentile; one beyond the axis at the upper edge, with its value.
    fn marks(&self, c: &mut Canvas, plot: &Plot, curve: &Curve<'_>) {
        let face = Type::book(11.0, curve.hue.dark);
        let mut beyond: Vec<Point> = Vec::new();
        for (p, step) in self.points(curve, self.marked) {
            let mark = Mark::of(step);
            mark.draw(c, self.mark_at(plot, p), self.radius, curve.hue.dark);
            if p.1 > self.y.max && mark != Mark::Overloaded {
                beyond.push((plot.at_x(p.0), p.1 * self.unit));
            }
        }
        let labels = together(&beyond);
        let widest = labels.iter().map(|(_, t)| face.width(t)).fold(0.0, f64::max);
        let mut xs: Vec<f64> = labels.iter().map(|b| b.0).collect();
        let ends = (plot.area.x + widest / 2.0, plot.area.right() + 42.0 - widest / 2.0);
        spread(&mut xs, widest + 9.0, ends);
        for (x, (_, text)) in xs.iter().zip(&labels) {
            c.text((*x, plot.area.y - 10.0), Align::Middle, &face, text);
        }
    }

    fn mark_at(&self, plot: &Plot, p: Point) -> Point {
        plot.at(p.0, p.1.min(self.y.max))
    }

    /// Names at the right ends of the curves, moved apart where they would touch: beside the last point where nothing
    /// else is there, else at the edge of the plot with a leader.
    pub(super) fn label_ends(&self, c: &mut Canvas, plot: &Plot, curves: &[Curve<'_>], taken: &mut Taken) {
        let ends = self.ends(plot, curves);
        let mut ys: Vec<f64> = ends.iter().map(|e| e.at.1).collect();
        spread(&mut ys, 15.0, (plot.area.y, plot.area.bottom() - 6.0));
        let beside = ends.iter().map(|e| e.at.0).fold(0.0, f64::max) + 10.0;
        let rects = |x: f64| -> Vec<Rect> {
            let rect =
                |(y, e): (&f64, &End)| Rect { x, y: y - 7.0, w: end_face(WHITE).width(&e.name), h: 14.0 };
            ys.iter().zip(&ends).map(rect).collect()
        };
        let near = taken.nudge(&rects(beside));
        let leaders = near.is_none();
        let edge = || rects(plot.area.right() + 8.0);
        for (r, e) in near.unwrap_or_else(|| taken.nudge(&edge()).unwrap_or_else(edge)).iter().zip(&ends) {
            if leaders {
                c.dashes((e.at.0 + 8.0, e.at.1), (r.x - 3.0, r.y + 7.0), 0.9, (1.5, 2.5), e.line);
            }
            c.text((r.x, r.y + 11.3), Align::Left, &end_face(e.text), &e.name);
            taken.rect(*r);
        }
    }

    fn ends(&self, plot: &Plot, curves: &[Curve<'_>]) -> Vec<End> {
        let mut ends = Vec::new();
        for (curve, names) in curves.iter().zip(end_labels(curves)) {
            let h = curve.hue;
            let shades = [(h.light, h.light_text), (h.middle, h.middle), (h.dark, h.dark)];
            for (pick, name) in names.into_iter().enumerate().filter(|(_, n)| !n.is_empty()) {
                // Where the line leaves the plot, its name stands at the last point before.
                let joined = self.joined(curve, pick);
                let last = joined.iter().rfind(|p| p.1 <= self.y.max).or(joined.last()).copied();
                let last =
                    last.or_else(|| self.points(curve, pick).map(|p| p.0).filter(|p| p.1.is_finite()).last());
                let (line, text) = shades[pick];
                ends.extend(last.map(|p| End { at: self.mark_at(plot, p), line, text, name }));
            }
        }
        ends
    }

    /// What labels must keep clear of.
    pub(super) fn obstacles(&self, plot: &Plot, curves: &[Curve<'_>]) -> Taken {
        let mut taken = Taken::default();
        for curve in curves {
            for pick in 0..3 {
                for piece in plot.line(&self.joined(curve, pick)) {
                    taken.line(&piece, 3.0);
                }
                for (p, _) in
                    self.points(curve, pick).filter(|(p, _)| pick == self.marked || p.1 <= self.y.max)
                {
                    taken.mark(self.mark_at(plot, p), 6.5);
                }
            }
            for step in &curve.steps {
                if let (Some((low, high)), Some(p)) = (self.bounds(step), self.point(step, 2)) {
                    let open = if high.is_none() { 20.0 } else { 0.0 };
                    let (x, top) = (plot.at_x(p.0), plot.at_y(high.unwrap_or(p.1).min(self.y.max)) - open);
                    taken.line(&[(x, plot.at_y(low.min(self.y.max))), (x, top)], 2.0);
                }
            }
        }
        for (_, limit) in self.limits.iter().filter(|l| l.1 <= self.y.max) {
            let y = plot.at_y(*limit);
            taken.line(&[(plot.area.x, y), (plot.area.right(), y)], 1.0);
        }
        taken
    }

    /// Names of the limits on their lines, where nothing is below them; a limit beyond the axis at the upper edge.
    pub(super) fn label_limits(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let face = Type::book(12.0, RED);
        let a = plot.area;
        for (text, limit) in &self.limits {
            let beyond = *limit > self.y.max;
            let long = if beyond { format!("{text} ↑ above this axis") } else { text.clone() };
            let fits = face.width(&long) < a.w - 16.0;
            let text = if fits { long } else { format!("{text} ↑") };
            let w = face.width(&text);
            let y = plot.at_y(limit.min(self.y.max));
            let rows: &[f64] = if beyond { &[5.0, 21.0, 37.0] } else { &[-17.5, 4.0] };
            let room = a.w - w - 12.0;
            let xs = (0..=60).map(|i| a.x + 8.0 + room * f64::from(i) / 60.0);
            let spots =
                rows.iter().flat_map(|row| xs.clone().map(move |x| Rect { x, y: y + row, w, h: 13.5 }));
            let spots = spots.filter(|r| r.y > a.y - 18.0 && r.bottom() < a.bottom());
            if let Some((r, covers)) = taken.place(spots) {
                c.veil(&r, covers);
                c.text((r.x, r.y + 11.2), Align::Left, &face, &text);
            }
        }
    }

    /// What the server does unloaded, beside its line.
    pub(super) fn label_unloaded(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let Some((p50, p99)) = self.unloaded.filter(|u| u.0 <= self.y.max) else { return };
        let face = Type::book(10.5, GREY);
        let say = |v: f64| words::latency(v * self.unit);
        let p99_text = p99.map(|v| format!(", p99 {}", say(v))).unwrap_or_default();
        let short =
            p99.map_or_else(|| format!("unloaded p50 {}", say(p50)), |v| format!("unloaded p99 {}", say(v)));
        let (a, y) = (plot.area, plot.at_y(p99.unwrap_or(p50).min(self.y.max)));
        for text in [format!("unloaded: p50 {}{p99_text}", say(p50)), short] {
            let w = face.width(&text);
            let xs = (0..=60).map(|i| a.x + 6.0 + (a.w - w - 12.0) * f64::from(i) / 60.0);
            let rows = [-14.5, 2.5];
            let spots =
                rows.iter().flat_map(|row| xs.clone().map(move |x| Rect { x, y: y + row, w, h: 12.0 }));
            if let Some(r) = taken.free(spots.filter(|r| r.y > a.y && r.bottom() < a.bottom())) {
                c.text((r.x, r.y + 9.8), Align::Left, &face, &text);
                return;
            }
        }
    }
}

/// A metric in full.
pub(super) const fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => "Time to first token (TTFT)",
        Metric::Ttfc => "Time to first content token (TTFC)",
        Metric::Tpot => "Time per output token (TPOT)",
        Metric::Itl => "Gap between events with tokens (ITL)",
        Metric::E2e => "Time to the whole answer (e2e)",
    }
}
