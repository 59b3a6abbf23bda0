//! One plot of latencies: percentiles of a metric as curves, a mark for each step, limits, and the latency of the
//! unloaded server.

use super::axis::{Axis, Plot};
use super::beyond::{ceiling, together};
use super::boundary::Boundary;
use super::canvas::{Align, Canvas, Point, Type};
use super::curves::{Across, Curve, Mark, baseline, radius, rgb, steady, tier_name};
use super::frame::Frame;
use super::hints::{REACH, achieved, of_step, percentile};
use super::place::{Taken, spread};
use crate::words;
use goodput_core::slo::{Limit, Metric, Slo};
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{Quantiles, Step};
use plotters::style::RGBColor;

/// Colour of the SLO.
pub(super) const RED: RGBColor = rgb(0xcb181d);
type Pick = fn(&Quantiles) -> Option<f64>;
const PICKS: [Pick; 3] = [|q| q.p50, |q| q.p90, |q| q.p99];

/// A limit with its label.
pub(super) struct Named {
    /// Full label.
    pub(super) text: String,
    /// Short label, used if there is little room.
    pub(super) short: String,
    /// Value in the unit of the axis.
    pub(super) value: f64,
}

/// The content of one plot, in its unit.
pub(super) struct Panel {
    metric: Metric,
    across: Across,
    /// Milliseconds in one unit of the axis.
    pub(super) unit: f64,
    /// The limits on it.
    pub(super) limits: Vec<Named>,
    /// Its vertical axis.
    pub(super) y: Axis,
    /// True if values lie beyond it.
    pub(super) clipped: bool,
    /// Index of the percentile that carries the verdict marks: the one that the SLO limits, or p99 if it limits none.
    pub(super) marked: usize,
    /// The baseline's percentiles, in the unit of the axis: p50 and p99.
    pub(super) unloaded: Option<(f64, Option<f64>)>,
    /// Radius of the marks.
    radius: f64,
}

impl Panel {
    /// Collects the content for a metric.
    pub(super) fn new(run: &Run, curves: &[Curve<'_>], metric: Metric, across: Across) -> Self {
        let limits: Vec<(&Slo, Limit)> = run
            .tiers
            .iter()
            .flat_map(|t| t.limits().into_iter().map(move |l| (t, l)))
            .filter(|(_, l)| l.metric == metric)
            .collect();
        let all = |want: bool| -> Vec<f64> {
            let steps = curves.iter().flat_map(|c| &c.steps);
            steps
                .filter(|s| across.joins(s) == want && Mark::of(s) != Mark::Overloaded)
                .filter_map(|s| s.quantiles(metric).p99)
                .collect()
        };
        let (calm, wild) = (all(true), all(false));
        // The answer is about the first tier: a loose limit of another tier would squash the relevant range.
        let first = run.tiers.first().map(Slo::tier);
        let own: Vec<f64> =
            limits.iter().filter(|(t, _)| Some(t.tier()) == first).map(|(_, l)| l.limit_ms()).collect();
        let top = ceiling(&calm, &wild, &own);
        let unit = if top >= 9_000.0 { 1_000.0 } else { 1.0 };
        let strictest = limits.iter().map(|(_, l)| l.percentile.share());
        let marked = match strictest.max_by(f64::total_cmp) {
            Some(share) if share <= 0.5 => 0,
            Some(share) if share <= 0.9 => 1,
            Some(_) | None => 2,
        };
        let named = |(t, l): (&Slo, Limit)| {
            let tier = tier_name(run, t.tier());
            let text = format!("SLO: {}{tier}", words::limit(&l));
            let short = format!("SLO {}{tier}", words::latency(l.limit_ms()));
            Named { text, short, value: l.limit_ms() / unit }
        };
        let limits = limits.into_iter().map(named).collect();
        let clipped = calm.iter().chain(&wild).any(|v| *v > top);
        let mut y = Axis::upto(top / unit, 6.5);
        if clipped {
            y.max = (y.max / y.step - 1e-6).ceil() * y.step;
        }
        let unloaded = baseline(run, metric)
            .and_then(|q| Some((q.p50? / unit, q.p99.filter(|_| q.n >= 100).map(|v| v / unit))));
        Self { metric, across, unit, limits, y, clipped, marked, unloaded, radius: radius(run) }
    }

    /// Returns the point of one percentile of a step: at infinity if the backlog grew, since its latency would depend
    /// on how long the step ran and not on the server.
    pub(super) fn point(&self, step: &Step, pick: usize) -> Option<Point> {
        if Mark::of(step) == Mark::Overloaded {
            return (pick == self.marked).then(|| (self.across.of(step), f64::INFINITY));
        }
        PICKS[pick](&step.quantiles(self.metric)).map(|v| (self.across.of(step), v / self.unit))
    }

    /// Returns one percentile of every step that has it. For a step whose backlog grew, only the percentile that
    /// carries the marks.
    pub(super) fn points<'a>(
        &'a self,
        curve: &'a Curve<'_>,
        pick: usize,
    ) -> impl Iterator<Item = (Point, &'a Step)> + 'a {
        let steps = curve.steps.iter().filter(move |s| pick == self.marked || steady(s));
        steps.filter_map(move |s| Some((self.point(s, pick)?, *s)))
    }

    pub(super) fn joined(&self, curve: &Curve<'_>, pick: usize) -> Vec<Point> {
        curve.joined(self.across).into_iter().filter_map(|s| self.point(s, pick)).collect()
    }

    /// Returns the marks that are drawn.
    pub(super) fn marks_drawn(&self, curves: &[Curve<'_>]) -> Vec<Mark> {
        curves.iter().flat_map(|c| self.points(c, self.marked).map(|(_, s)| Mark::of(s))).collect()
    }

    /// Draws axes, curves and marks; labels are placed later in the free room. Returns the number of shapes below the
    /// curves.
    pub(super) fn draw(
        &self,
        frame: &mut Frame,
        number: usize,
        plot: &Plot,
        curves: &[Curve<'_>],
        boundary: &Boundary,
        x_title: &str,
    ) -> usize {
        let unit = if self.unit > 1.0 { "s" } else { "ms" };
        let heading = format!("{}, {unit}", title(self.metric));
        frame.axes(number, plot, &heading, &self.note(curves), x_title);
        boundary.draw(&mut frame.canvas, plot);
        frame.spines(plot);
        let c = &mut frame.canvas;
        for limit in self.limits.iter().filter(|l| l.value <= self.y.max) {
            let y = plot.at_y(limit.value);
            let (from, to) = ((plot.area.x, y), (plot.area.right(), y));
            c.dashes(from, to, 1.8, (8.0, 4.5), RED);
            c.hint_along(from, to, limit.text.clone());
        }
        let ground = c.shapes.len();
        for curve in curves {
            self.whiskers(c, plot, curve);
            for (pick, colour) in [curve.hue.light, curve.hue.middle, curve.hue.dark].into_iter().enumerate()
            {
                let width = if pick == 2 { 2.3 } else { 2.0 };
                for piece in plot.line(&self.joined(curve, pick)) {
                    c.line(&piece, width, colour);
                }
                if pick != self.marked {
                    for (p, step) in self.points(curve, pick).filter(|(p, _)| p.1 <= self.y.max) {
                        let at = plot.at(p.0, p.1);
                        c.disc(at, self.radius - 1.7, colour);
                        c.hint(at, 5.0, self.told(step, pick));
                    }
                }
            }
        }
        for curve in curves {
            self.marks(c, plot, curve);
        }
        ground
    }

    /// Returns the notes behind the heading.
    fn note(&self, curves: &[Curve<'_>]) -> Vec<String> {
        let mut parts = Vec::new();
        if self.clipped {
            let cut = words::latency(self.y.max * self.unit);
            parts.push(format!("axis cut at {cut}"));
        }
        let bounds: Vec<_> = curves.iter().flat_map(|c| &c.steps).filter_map(|s| self.bounds(s)).collect();
        if !bounds.is_empty() {
            let open = if bounds.iter().any(|b| b.1.is_none()) { "; dotted: no upper one" } else { "" };
            let known = |s: &&Step| s.quantiles(self.metric).inflation.is_some();
            let clustered = curves.iter().flat_map(|c| &c.steps).any(known);
            let by = if clustered { " at the effective n" } else { ", were requests independent" };
            parts.push(format!("bars: 95 % bounds of p99{by}{open}"));
        }
        parts
    }

    /// Returns the bounds of a steady step's p99, if p99 is the percentile with the marks; the upper bound may be
    /// missing.
    fn bounds(&self, step: &Step) -> Option<(f64, Option<f64>)> {
        let q = step.quantiles(self.metric);
        let drawn = self.marked == 2 && steady(step) && q.p99.is_some();
        drawn.then_some(q.p99_low).flatten().map(|low| (low / self.unit, q.p99_high.map(|h| h / self.unit)))
    }

    /// Draws the bounds as thin bars; one without an upper bound fades out upwards.
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

    /// Draws the verdict mark of each step on the curve of the limited percentile. A mark beyond the axis is at the
    /// upper edge, with its value.
    pub(super) fn marks(&self, c: &mut Canvas, plot: &Plot, curve: &Curve<'_>) {
        let face = Type::book(11.0, curve.hue.dark);
        let mut beyond: Vec<Point> = Vec::new();
        for (p, step) in self.points(curve, self.marked) {
            let mark = Mark::of(step);
            mark.draw(c, self.mark_at(plot, p), self.radius, curve.hue.dark);
            c.hint(self.mark_at(plot, p), REACH, self.told(step, self.marked));
            if p.1 > self.y.max && mark != Mark::Overloaded {
                beyond.push((plot.at_x(p.0), p.1 * self.unit));
            }
        }
        let labels = together(&beyond, words::latency);
        let widest = labels.iter().map(|(_, t)| face.width(t)).fold(0.0, f64::max);
        let mut xs: Vec<f64> = labels.iter().map(|b| b.0).collect();
        let ends = (plot.area.x + widest / 2.0, plot.area.right() + 42.0 - widest / 2.0);
        spread(&mut xs, widest + 9.0, ends);
        for (x, (_, text)) in xs.iter().zip(&labels) {
            c.text((*x, plot.area.y - 10.0), Align::Middle, &face, text);
        }
    }

    /// Returns the tooltip of a step: the achieved rate and, if available, this percentile of the metric.
    fn told(&self, step: &Step, pick: usize) -> String {
        let own = (Mark::of(step) != Mark::Overloaded)
            .then(|| percentile(self.metric, &step.quantiles(self.metric), pick));
        of_step(step, [achieved(step)].into_iter().chain(own.flatten()), Mark::of(step))
    }

    pub(super) fn mark_at(&self, plot: &Plot, p: Point) -> Point {
        plot.at(p.0, p.1.min(self.y.max))
    }

    /// Returns the areas that labels must avoid.
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
        for limit in self.limits.iter().filter(|l| l.value <= self.y.max) {
            let y = plot.at_y(limit.value);
            taken.line(&[(plot.area.x, y), (plot.area.right(), y)], 1.0);
        }
        if let Some((p50, p99)) = self.unloaded.filter(|u| u.1.unwrap_or(u.0) <= self.y.max) {
            let y = plot.at_y(p99.unwrap_or(p50));
            taken.line(&[(plot.area.x, y), (plot.area.right(), y)], 1.0);
        }
        taken
    }
}

/// Returns the full name of a metric.
pub(super) const fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => "Time to first token (TTFT)",
        Metric::Ttfc => "Time to first content token (TTFC)",
        Metric::Tpot => "Time per output token (TPOT)",
        Metric::Itl => "Gap between events with tokens (ITL)",
        Metric::E2e => "Time to the whole answer (e2e)",
    }
}
