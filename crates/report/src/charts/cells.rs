//! The small picture of one step over time.

use super::draw::{
    Align, Axis, Canvas, GREY, Mark, Plot, Point, RED, Rect, Type, hue_of, of_step, percentile, rgb,
};
use crate::words;
use goodput_run::rundir::{Span, Trace, Ttft};
use goodput_stats::stats::step::{Step, StepKind};
use plotters::style::RGBColor;

/// Height of a small picture, with its margins.
pub(super) const HEIGHT: f64 = 160.0;
/// Width of the labels of its axes.
const GUTTER: f64 = 38.0;
const BETWEEN: f64 = 10.0;
const FLIGHT: f64 = 44.0;
const TTFT: f64 = 66.0;
/// Shades of the uncounted phases of a step, and their names.
pub(super) const PHASES: [(RGBColor, &str); 2] = [(rgb(0xe4e0d6), "settle"), (rgb(0xe2e6ee), "tail, drain")];

/// The small picture of one step.
pub(super) struct Cell<'a> {
    /// Its position.
    pub(super) rect: Rect,
    /// The step.
    pub(super) step: &'a Step,
    /// The requests of the step.
    pub(super) trace: &'a Trace,
    /// The axis of TTFT.
    pub(super) ttft: Axis,
    /// The limit on TTFT in milliseconds.
    pub(super) limit: Option<f64>,
    /// Milliseconds in one unit of the axis of TTFT.
    pub(super) unit: f64,
}

/// Returns rectangles in rows of `columns`, from the top.
pub(super) fn grid(area: Rect, columns: usize) -> impl Iterator<Item = Rect> {
    let w = (area.w - BETWEEN * (columns - 1) as f64) / columns as f64;
    (0..).map(move |i| Rect {
        x: area.x + (w + BETWEEN) * (i % columns) as f64,
        y: area.y + HEIGHT * (i / columns) as f64,
        w,
        h: HEIGHT,
    })
}

impl Cell<'_> {
    /// Draws the small picture.
    pub(super) fn draw(&self, c: &mut Canvas) {
        let (r, hue) = (self.rect, hue_of(0));
        let left = Rect { x: r.x + GUTTER, y: r.y + 22.0, w: r.w - GUTTER - 2.0, h: FLIGHT };
        let x = Axis::upto(self.trace.span_s, 4.0);
        let flight = Plot { area: left, x, y: self.flight_axis() };
        let below = Rect { y: left.bottom() + 9.0, h: TTFT, ..left };
        let ttft = Plot { area: below, x, y: self.ttft };
        Mark::of(self.step).draw(c, (left.x + 5.0, r.y + 12.0), 4.2, hue.dark);
        let bold = Type::bold(11.0, rgb(0x333333));
        c.text((left.x + 15.0, r.y + 16.0), Align::Left, &bold, &self.step.level.to_string());
        let soak = if self.step.kind == StepKind::Confirm { "soak, " } else { "" };
        let number = format!("{soak}step {}", self.step.step);
        c.text((left.right(), r.y + 16.0), Align::Right, &Type::book(10.0, GREY), &number);
        for plot in [&flight, &ttft] {
            self.phases(c, plot);
            axes(c, plot);
        }
        self.flight(c, &flight);
        self.ttft(c, &ttft);
        self.hints(c, &flight, &ttft);
        for plot in [&flight, &ttft] {
            let a = plot.area;
            c.stroke((a.x, a.y), (a.x, a.bottom()), 1.0, GREY);
            c.stroke((a.x - 0.5, a.bottom()), (a.right(), a.bottom()), 1.0, GREY);
        }
        let face = Type::book(9.5, rgb(0x3d3d3d));
        for (v, label) in x.ticks() {
            let at = ttft.at_x(v);
            c.stroke((at, below.bottom()), (at, below.bottom() + 3.0), 1.0, GREY);
            let half = face.width(&label) / 2.0;
            c.text((at.min(r.right() - half), below.bottom() + 13.0), Align::Middle, &face, &label);
        }
    }

    /// Adds tooltips: the figures of the step to both plots, and the values of each span of TTFT.
    fn hints(&self, c: &mut Canvas, flight: &Plot, ttft: &Plot) {
        let (s, mark) = (self.step, Mark::of(self.step));
        let many =
            format!("in flight: mean {}, at most {}", words::figure(s.in_flight_mean), s.in_flight_max);
        c.hint_over(flight.area, of_step(s, [many], mark));
        let metric = s.response_metric();
        let parts = [0, 2].into_iter().filter_map(|pick| percentile(metric, &s.quantiles(metric), pick));
        c.hint_over(ttft.area, of_step(s, parts, mark));
        if let Ttft::Spans(spans) = &self.trace.ttft {
            for span in spans {
                let at = ttft.at(span.at_s, (span.p99 / self.unit).min(ttft.y.max));
                let values = [span.p50, span.p99].map(words::latency);
                let time = words::span(span.at_s);
                c.hint(
                    at,
                    5.0,
                    format!(
                        "step {} · about {time} from its start: p50 {}, p99 {}",
                        s.step, values[0], values[1]
                    ),
                );
            }
        }
    }

    fn flight_axis(&self) -> Axis {
        Axis::upto(1.15 * self.trace.in_flight.iter().copied().fold(0.0, f64::max), 2.0)
    }

    /// Shades the uncounted phases of the step.
    fn phases(&self, c: &mut Canvas, plot: &Plot) {
        let (s, a) = (self.step, plot.area);
        let counted = (s.settle_s, s.settle_s + s.measure_s);
        for ((from, to), (colour, _)) in
            [(0.0, counted.0), (counted.1, self.trace.span_s)].into_iter().zip(PHASES)
        {
            let (x0, x1) = (plot.at_x(from), plot.at_x(to.min(self.trace.span_s)));
            if x1 - x0 > 0.3 {
                c.fill(&Rect { x: x0, y: a.y, w: x1 - x0, h: a.h }, colour.into());
            }
        }
    }

    fn flight(&self, c: &mut Canvas, plot: &Plot) {
        let parts = self.trace.in_flight.len().saturating_sub(1).max(1) as f64;
        let width = self.trace.span_s / parts;
        let kept = self.trace.in_flight.iter().take(parts as usize);
        let line: Vec<Point> = kept.enumerate().map(|(i, n)| plot.at(width * (i as f64 + 0.5), *n)).collect();
        if let (Some(first), Some(last)) = (line.first(), line.last()) {
            let ends = [(last.0, plot.area.bottom()), (first.0, plot.area.bottom())];
            c.polygon(&[&line[..], &ends].concat(), plotters::style::Color::mix(&hue_of(0).light, 0.45));
        }
        c.line(&line, 1.3, hue_of(0).dark);
    }

    fn ttft(&self, c: &mut Canvas, plot: &Plot) {
        if let Some(limit) = self.limit.map(|l| l / self.unit).filter(|l| *l <= plot.y.max) {
            c.dashes(plot.across(limit), 1.4, (5.0, 3.0), RED);
        }
        let hue = hue_of(0);
        let mut most = 0.0f64;
        match &self.trace.ttft {
            Ttft::Points(points) => {
                let scaled = points.iter().map(|p| (p.0.min(plot.x.max), p.1 / self.unit));
                let at = scaled.clone().filter(|p| p.1 <= plot.y.max).map(|p| plot.at(p.0, p.1)).collect();
                c.dots(at, 1.1, hue.dark);
                most = scaled.map(|p| p.1).fold(most, f64::max);
            }
            Ttft::Spans(spans) => {
                let kinds: [(SpanValue, RGBColor); 2] = [(|s| s.p50, hue.middle), (|s| s.p99, hue.dark)];
                // A line through the windows would show their scatter as a shape.
                for (of, colour) in kinds {
                    let values = spans.iter().map(|s| (s.at_s, of(s) / self.unit));
                    most = values.clone().map(|v| v.1).fold(most, f64::max);
                    let at = values.filter(|v| v.1 <= plot.y.max).map(|v| plot.at(v.0, v.1)).collect();
                    c.dots(at, 1.5, colour);
                }
            }
        }
        if most > plot.y.max {
            let (face, a) = (Type::book(9.5, hue.dark), plot.area);
            let text = format!("↑ up to {}", words::latency(most * self.unit));
            let w = face.width(&text);
            c.veil(&Rect { x: a.right() - w - 4.0, y: a.y + 1.0, w: w + 4.0, h: 12.0 }, true);
            c.text((a.right() - 2.0, a.y + 10.0), Align::Right, &face, &text);
        }
    }
}

/// A percentile of a span.
type SpanValue = fn(&Span) -> f64;

/// Draws the grid and as many labels as there is room for.
fn axes(c: &mut Canvas, plot: &Plot) {
    let (a, face) = (plot.area, Type::book(9.5, rgb(0x3d3d3d)));
    let mut above = f64::INFINITY;
    for (v, label) in plot.y.ticks() {
        let y = plot.at_y(v);
        if y > a.y - 1.0 && above - y > 11.5 {
            if y < a.bottom() - 1.0 {
                c.stroke((a.x, y), (a.right(), y), 0.7, rgb(0xd4d4d4));
            }
            c.stroke((a.x - 3.0, y), (a.x, y), 1.0, GREY);
            c.text((a.x - 5.0, y + 3.5), Align::Right, &face, &label);
            above = y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pictures_fill_rows() {
        let area = Rect { x: 10.0, y: 20.0, w: 620.0, h: 2.0 * HEIGHT };
        let rects: Vec<Rect> = grid(area, 3).take(4).collect();
        assert!((rects[2].right() - area.right()).abs() < 1e-9, "the row is full");
        assert!((rects[3].y - 20.0 - HEIGHT).abs() < 1e-9 && (rects[3].x - 10.0).abs() < 1e-9);
    }
}
