//! Latency against achieved throughput: a plot per metric, p50, p90 and p99 in three shades, limits and goodput drawn in.

use super::axis::{Axis, Plot};
use super::beyond::{ceiling, together};
use super::boundary::Boundary;
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::curves::{Curve, Mark, curves, rgb, steady};
use super::frame::{Frame, GREY, Slot, x_axis};
use super::place::{Taken, spread};
use crate::report::escape::clip;
use crate::report::words;
use crate::rundir::Run;
use crate::slo::{Metric, Slo};
use crate::stats::step::Quantiles;
use plotters::style::{RGBColor, WHITE};

const RED: RGBColor = rgb(0xcb181d);
const NAMES: [&str; 3] = ["p50", "p90", "p99"];
type Pick = fn(&Quantiles) -> Option<f64>;
const PICKS: [Pick; 3] = [|q| q.p50, |q| q.p90, |q| q.p99];

/// What one plot shows, in its own unit.
struct Panel {
    metric: Metric,
    /// Milliseconds in one unit of the axis.
    unit: f64,
    /// Labels and values of the limits.
    limits: Vec<(String, f64)>,
    y: Axis,
    clipped: bool,
    /// Which of the percentiles carries the marks by verdict: the one that the SLO limits, p99 where it limits none.
    marked: usize,
}

/// The right end of a curve.
struct End {
    at: Point,
    line: RGBColor,
    text: RGBColor,
    name: String,
}

/// Draws the chart.
pub(super) fn draw(run: &Run) -> Canvas {
    let curves = curves(run);
    let panels: Vec<Panel> = metrics(run).into_iter().map(|m| Panel::new(run, &curves, m)).collect();
    let height = [300.0, 300.0, 212.0, 172.0][panels.len().min(3)];
    let slots: Vec<Slot> = panels.iter().map(|p| Slot { height, values_above: p.clipped }).collect();
    let right =
        24.0 + end_labels(&curves).iter().flatten().map(|t| end_face(WHITE).width(t)).fold(0.0, f64::max);
    let mut frame = Frame::new(run, &words::headline(run), &slots, right);
    let scale = levels(run);
    let boundary = Boundary::new(run, |level| achieved_at(&scale, level), |k| k.throughput);
    let x = x_axis(run.steps.iter().map(|s| s.achieved_rate).chain(boundary.values()));
    for (i, panel) in panels.iter().enumerate() {
        let plot = Plot { area: frame.areas[i], x, y: panel.y };
        let title = x_title(run);
        panel.draw(&mut frame, &plot, &curves, &boundary, (i + 1 == panels.len()).then_some(title.as_str()));
        let mut taken = panel.obstacles(&plot, &curves);
        boundary.take(&mut taken, &plot);
        panel.label_ends(&mut frame.canvas, &plot, &curves, &mut taken);
        panel.label_limits(&mut frame.canvas, &plot, &mut taken);
        if i == 0 {
            boundary.label(&mut frame.canvas, &plot, &mut taken);
        }
        if !panel.has_values(&curves) {
            let nothing = if run.steps.is_empty() {
                "no step was finished"
            } else {
                "no request of any step was answered"
            };
            let middle = (plot.area.x + plot.area.w / 2.0, plot.area.y + plot.area.h * 0.55);
            frame.canvas.text(middle, Align::Middle, &Type::book(13.0, GREY), nothing);
        }
    }
    frame.finish(run, curves.first().map_or(super::curves::hue_of(0), |c| c.hue))
}

fn x_title(run: &Run) -> String {
    let who = words::subject(&run.meta).replacen("One", "one", 1).replacen("The ", "the ", 1);
    format!("achieved throughput, requests/s  ({who})")
}

/// TTFT and TPOT, and every other metric with a limit, where there are values; TTFT where there are none at all.
fn metrics(run: &Run) -> Vec<Metric> {
    let limited = |m: Metric| run.tiers.iter().any(|t| t.limits().iter().any(|l| l.metric == m));
    let valued = |m: Metric| run.steps.iter().any(|s| s.quantiles(m).p50.is_some());
    let wanted = |m: Metric| matches!(m, Metric::Ttft | Metric::Tpot) || limited(m);
    let found: Vec<Metric> = Metric::ALL.into_iter().filter(|m| wanted(*m) && valued(*m)).collect();
    if found.is_empty() { vec![Metric::Ttft] } else { found }
}

/// Levels and what was achieved there, ascending: levels are drawn where their steps lie.
fn levels(run: &Run) -> Vec<Point> {
    let Some(a) = run.answers.first() else { return Vec::new() };
    let mut pairs: Vec<Point> =
        words::steps_of(run, a).iter().map(|s| (s.level.value, s.achieved_rate)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

fn achieved_at(levels: &[Point], level: f64) -> f64 {
    let above = levels.iter().position(|p| p.0 >= level - 1e-9);
    match above {
        Some(0) | None => {
            // Beyond what was measured, in proportion to the nearest step.
            let nearest = if above.is_none() { levels.last() } else { levels.first() };
            nearest.map_or(level, |(l, r)| if *l > 0.0 { level * r / l } else { level })
        }
        Some(i) => {
            let ((l0, r0), (l1, r1)) = (levels[i - 1], levels[i]);
            if l1 - l0 < 1e-12 { r1 } else { r0 + (r1 - r0) * (level - l0) / (l1 - l0) }
        }
    }
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

impl Panel {
    fn new(run: &Run, curves: &[Curve<'_>], metric: Metric) -> Self {
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
            steps.filter(|s| steady(s) == want).filter_map(|s| s.quantiles(metric).p99).collect()
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
        Self { metric, unit, limits, y, clipped, marked }
    }

    fn has_values(&self, curves: &[Curve<'_>]) -> bool {
        curves.iter().flat_map(|c| &c.steps).any(|s| s.quantiles(self.metric).p50.is_some())
    }

    /// Achieved rate and one percentile of every step that has it, and whether the step is steady.
    fn points<'a>(
        &self,
        curve: &'a Curve<'_>,
        pick: usize,
    ) -> impl Iterator<Item = (Point, bool, Mark)> + 'a {
        let (metric, unit) = (self.metric, self.unit);
        curve.steps.iter().filter_map(move |s| {
            let v = PICKS[pick](&s.quantiles(metric))?;
            Some(((s.achieved_rate, v / unit), steady(s), Mark::of(s)))
        })
    }

    fn joined(&self, curve: &Curve<'_>, pick: usize) -> Vec<Point> {
        self.points(curve, pick).filter(|p| p.1).map(|p| p.0).collect()
    }

    fn draw(
        &self,
        frame: &mut Frame,
        plot: &Plot,
        curves: &[Curve<'_>],
        boundary: &Boundary,
        x_title: Option<&str>,
    ) {
        let unit = if self.unit > 1.0 { "s" } else { "ms" };
        let what = match self.metric {
            Metric::Ttft => "Time to first token (TTFT)",
            Metric::Ttfc => "Time to first content token (TTFC)",
            Metric::Tpot => "Time per output token (TPOT)",
            Metric::Itl => "Gap between events with tokens (ITL)",
            Metric::E2e => "Time to the whole answer (e2e)",
        };
        let note = format!(
            "axis cut at {}; ↑ {} beyond",
            words::latency(self.y.max * self.unit),
            NAMES[self.marked]
        );
        frame.axes(plot, &format!("{what}, {unit}"), if self.clipped { &note } else { "" }, x_title);
        boundary.draw(&mut frame.canvas, plot);
        frame.spines(plot);
        let c = &mut frame.canvas;
        for (_, limit) in self.limits.iter().filter(|l| l.1 <= self.y.max) {
            let y = plot.at_y(*limit);
            c.dashes((plot.area.x, y), (plot.area.right(), y), 1.8, (8.0, 4.5), RED);
        }
        for curve in curves {
            for (pick, colour) in [curve.hue.light, curve.hue.middle, curve.hue.dark].into_iter().enumerate()
            {
                let width = if pick == 2 { 2.3 } else { 2.0 };
                for piece in plot.line(&self.joined(curve, pick)) {
                    c.line(&piece, width, colour);
                }
                if pick != self.marked {
                    for (p, calm, _) in self.points(curve, pick).filter(|(p, ..)| p.1 <= self.y.max) {
                        c.disc(plot.at(p.0, p.1), 2.9, colour);
                        if !calm {
                            c.disc(plot.at(p.0, p.1), 1.5, WHITE);
                        }
                    }
                }
            }
        }
        for curve in curves {
            self.marks(c, plot, curve);
        }
    }

    /// Each step by its verdict, on the curve of the limited percentile; one beyond the axis at the upper edge, with its value.
    fn marks(&self, c: &mut Canvas, plot: &Plot, curve: &Curve<'_>) {
        let face = Type::book(11.0, curve.hue.dark);
        let mut beyond: Vec<Point> = Vec::new();
        for (p, _, mark) in self.points(curve, self.marked) {
            mark.draw(c, self.mark_at(plot, p), 4.6, curve.hue.dark);
            if p.1 > self.y.max {
                beyond.push((plot.at_x(p.0), p.1 * self.unit));
            }
        }
        let labels = together(&beyond);
        let widest = labels.iter().map(|(_, t)| face.width(t)).fold(0.0, f64::max);
        let mut xs: Vec<f64> = labels.iter().map(|b| b.0).collect();
        let ends = (plot.area.x + widest / 2.0, f64::from(super::frame::WIDTH) - 8.0 - widest / 2.0);
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
    fn label_ends(&self, c: &mut Canvas, plot: &Plot, curves: &[Curve<'_>], taken: &mut Taken) {
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
                let last = self.joined(curve, pick).last().copied();
                let last = last.or_else(|| self.points(curve, pick).last().map(|p| p.0));
                let (line, text) = shades[pick];
                ends.extend(last.map(|p| End { at: self.mark_at(plot, p), line, text, name }));
            }
        }
        ends
    }

    fn obstacles(&self, plot: &Plot, curves: &[Curve<'_>]) -> Taken {
        let mut taken = Taken::default();
        for curve in curves {
            for pick in 0..3 {
                for piece in plot.line(&self.joined(curve, pick)) {
                    taken.line(&piece, 3.0);
                }
                for (p, ..) in
                    self.points(curve, pick).filter(|(p, ..)| pick == self.marked || p.1 <= self.y.max)
                {
                    taken.mark(self.mark_at(plot, p), 6.5);
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
    fn label_limits(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let face = Type::book(12.0, RED);
        let a = plot.area;
        for (text, limit) in &self.limits {
            let beyond = *limit > self.y.max;
            let text = if beyond { format!("{text} ↑ above this axis") } else { text.clone() };
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_lie_where_their_steps_are() {
        let levels = [(8.0, 4.0), (16.0, 6.0)];
        for (level, x) in [(8.0, 4.0), (12.0, 5.0), (16.0, 6.0), (32.0, 12.0), (4.0, 2.0)] {
            assert!((achieved_at(&levels, level) - x).abs() < 1e-9, "{level}");
        }
        assert!((achieved_at(&[], 5.0) - 5.0).abs() < 1e-9, "no step at all");
    }
}
