//! A line of a plot with its points, their bounds and tooltips, and its name. All positions are in the units of the
//! axes.

use super::axis::Plot;
use super::beyond::together;
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::hints::REACH;
use super::mark::Mark;
use super::place::{Taken, spread};
use plotters::style::{RGBColor, WHITE};

/// A line of a plot with its points.
#[derive(Debug)]
pub(crate) struct Series {
    /// The points that the line runs through.
    pub(crate) line: Vec<Point>,
    /// The points that a thin line runs through from the end of the line: failing steps that the line does not join.
    pub(crate) tail: Vec<Point>,
    /// Width of the line, in logical pixels.
    pub(crate) width: f64,
    /// Colour of the line.
    pub(crate) colour: RGBColor,
    /// Colour of its points.
    pub(crate) dot_colour: RGBColor,
    /// Width and colour of a wide stroke below the line.
    pub(crate) halo: Option<(f64, RGBColor)>,
    /// Bounds of its points.
    pub(crate) bars: Vec<Bar>,
    /// True if bars at almost one position stand side by side; they are in the order of their positions then.
    pub(crate) spreads_bars: bool,
    /// Its points.
    pub(crate) dots: Vec<Dot>,
    /// True if its points are drawn above the lines of all series.
    pub(crate) on_top: bool,
    /// Its name; empty if it needs none.
    pub(crate) name: String,
    /// Colour of its name.
    pub(crate) name_colour: RGBColor,
}

/// A measured value.
#[derive(Debug)]
pub(crate) struct Dot {
    /// Its position; a value beyond the axis is drawn at the upper edge.
    pub(crate) at: Point,
    /// Its shape.
    pub(crate) symbol: Symbol,
    /// Its tooltip.
    pub(crate) hint: String,
    /// The value in words, shown above the plot if it lies beyond the axis.
    pub(crate) beyond: Option<f64>,
}

/// The shape of a point; sizes are radii in logical pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Symbol {
    /// The mark of a verdict.
    Mark(Mark, f64),
    /// A disc.
    Disc(f64),
    /// A ring with its inner radius.
    Ring(f64, f64),
    /// A square, hollow if the backlog grew.
    Square(f64, bool),
}

/// The bounds of a value.
#[derive(Debug)]
pub(crate) struct Bar {
    /// Horizontal position.
    pub(crate) x: f64,
    /// Lower bound.
    pub(crate) low: f64,
    /// Upper bound; `None` if it is not known.
    pub(crate) high: Option<f64>,
    /// The value itself, from which a bar without an upper bound fades out upwards.
    pub(crate) value: f64,
    /// Its colour.
    pub(crate) colour: RGBColor,
}

/// Half the width of the end of a bar, in logical pixels.
const CAP: f64 = 2.6;
/// Distance between bars at one position, in logical pixels.
const APART: f64 = 3.0;
/// Width of the thin line through failing steps.
const THIN: f64 = 1.1;
/// Length of the dotted end of a bar without an upper bound.
const OPEN: f64 = 20.0;

impl Bar {
    /// Draws the bar at the coordinate `x`.
    fn draw(&self, c: &mut Canvas, plot: &Plot, x: f64, taken: &mut Taken) {
        let top = plot.y.max;
        let (from, to) = (plot.at_y(self.low.min(top)), plot.at_y(self.high.unwrap_or(self.value).min(top)));
        c.stroke((x, from), (x, to), 1.3, self.colour);
        let ends = [(self.low < top).then_some(from), self.high.filter(|h| *h <= top).map(|_| to)];
        for y in ends.into_iter().flatten() {
            c.stroke((x - CAP, y), (x + CAP, y), 1.1, self.colour);
        }
        if self.high.is_none() {
            let end = (to - OPEN).max(plot.area.y);
            c.dashes([(x, to), (x, end)], 1.3, (1.6, 2.4), self.colour);
        }
        let open = if self.high.is_none() { OPEN } else { 0.0 };
        taken.line(&[(x, from), (x, to - open)], 2.0);
    }
}

/// Moves ascending coordinates apart that are almost equal, so that their bars stand side by side.
fn side_by_side(xs: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for group in xs.chunk_by(|a, b| b - a < APART) {
        let middle = (group.len() - 1) as f64 / 2.0;
        let centre = group.iter().sum::<f64>() / group.len() as f64;
        out.extend((0..group.len()).map(|i| centre + APART * (i as f64 - middle)));
    }
    out
}

impl Dot {
    fn draw(&self, c: &mut Canvas, plot: &Plot, colour: RGBColor, taken: &mut Taken) {
        let at = plot.at_top(self.at);
        match self.symbol {
            Symbol::Mark(mark, r) => mark.draw(c, at, r, colour),
            Symbol::Disc(r) => c.disc(at, r, colour),
            Symbol::Ring(r, inner) => {
                c.disc(at, r, colour);
                c.disc(at, inner, WHITE);
            }
            Symbol::Square(r, hollow) => {
                let square = |r: f64| Rect { x: at.0 - r, y: at.1 - r, w: 2.0 * r, h: 2.0 * r };
                c.fill(&square(r), colour.into());
                if hollow {
                    c.fill(&square(r - 1.3), WHITE.into());
                }
            }
        }
        c.hint(at, REACH, self.hint.clone());
        taken.mark(at, 6.5);
    }
}

impl Series {
    /// Returns an empty series.
    pub(crate) const fn new(colour: RGBColor) -> Self {
        Self {
            line: Vec::new(),
            tail: Vec::new(),
            width: 2.2,
            colour,
            dot_colour: colour,
            halo: None,
            bars: Vec::new(),
            spreads_bars: false,
            dots: Vec::new(),
            on_top: false,
            name: String::new(),
            name_colour: colour,
        }
    }

    /// Sets the name and its colour.
    pub(crate) fn named(self, name: impl Into<String>, name_colour: RGBColor) -> Self {
        Self { name: name.into(), name_colour, ..self }
    }

    /// Draws bars and line, and the points unless they belong on top.
    pub(crate) fn draw(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let xs: Vec<f64> = self.bars.iter().map(|b| plot.at_x(b.x)).collect();
        let xs = if self.spreads_bars { side_by_side(&xs) } else { xs };
        for (bar, x) in self.bars.iter().zip(xs) {
            bar.draw(c, plot, x, taken);
        }
        for piece in plot.line(&self.tail) {
            for ends in piece.windows(2) {
                c.stroke(ends[0], ends[1], THIN, self.colour);
            }
            taken.line(&piece, 2.0);
        }
        for piece in plot.line(&self.line) {
            if let Some((width, colour)) = self.halo {
                c.line(&piece, width, colour);
            }
            c.line(&piece, self.width, self.colour);
            taken.line(&piece, if self.halo.is_some() { 5.0 } else { 3.0 });
        }
        if !self.on_top {
            self.draw_dots(c, plot, taken);
        }
    }

    /// Draws the points.
    pub(crate) fn draw_dots(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        for dot in &self.dots {
            dot.draw(c, plot, self.dot_colour, taken);
        }
    }

    /// Draws the values beyond the axis above their points, `room` logical pixels beyond the plot at most.
    pub(crate) fn draw_beyond(&self, c: &mut Canvas, plot: &Plot, say: fn(f64) -> String, room: f64) {
        let face = Type::book(11.0, self.dot_colour);
        let beyond: Vec<Point> = self
            .dots
            .iter()
            .filter(|d| d.at.1 > plot.y.max)
            .filter_map(|d| Some((plot.at_x(d.at.0), d.beyond?)))
            .collect();
        let labels = together(&beyond, say);
        let widest = face.widest(labels.iter().map(|(_, text)| text));
        let mut xs: Vec<f64> = labels.iter().map(|l| l.0).collect();
        spread(&mut xs, widest + 9.0, (plot.area.x + widest / 2.0, plot.area.right() + room - widest / 2.0));
        for (x, (_, text)) in xs.iter().zip(&labels) {
            c.text((*x, plot.area.y - 10.0), Align::Middle, &face, text);
        }
    }

    /// Returns the point that its name belongs to: the last one of the line within the plot, else its last point.
    pub(crate) fn end(&self, plot: &Plot) -> Option<Point> {
        let inside = self.line.iter().rfind(|p| p.1 <= plot.y.max).or(self.line.last());
        let dots = || self.dots.iter().rfind(|d| d.at.1.is_finite()).map(|d| d.at);
        inside.copied().or_else(dots).map(|p| plot.at_top(p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_at_one_level_stand_side_by_side() {
        assert_eq!(side_by_side(&[10.0, 50.0, 51.0, 90.0]), [10.0, 49.0, 52.0, 90.0]);
    }
}
