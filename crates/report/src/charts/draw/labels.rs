//! Labels in a plot over the levels: names of series, limits, the latency of the unloaded server, and the diagonal.

use super::axis::Plot;
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::hue::{GREY, RED, rgb};
use super::place::{Taken, spread};
use super::series::Series;
use plotters::style::{RGBColor, WHITE};

/// The placement of the names of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Together, next to the last points of their lines; each by itself if there is no room for all, and at the edge of
    /// the plot if a line has no free place along it.
    Ends,
    /// Each next to its last point, else along its line, else at the edge of the plot.
    Near,
    /// Each next to its last point, else along its line; omitted if that covers anything.
    NearIfFree,
}

/// Returns the type of the name of a series.
pub(crate) const fn name_face(colour: RGBColor) -> Type {
    Type::bold(12.0, colour)
}

impl Names {
    /// Draws the names of series; `right` logical pixels beyond the plot are free.
    pub(crate) fn draw(self, c: &mut Canvas, plot: &Plot, series: &[Series], right: f64, taken: &mut Taken) {
        let named = series.iter().filter(|s| !s.name.is_empty());
        // The lines in front are named first: they come first if several end in one place.
        let ends: Vec<End<'_>> =
            named.rev().filter_map(|s| Some(End { at: s.end(plot)?, series: s })).collect();
        if let Some(rects) = together(plot, &ends, taken).filter(|_| self == Self::Ends) {
            ends.iter().zip(rects).for_each(|(end, r)| end.draw(c, r, taken));
            return;
        }
        let mut unplaced: Vec<&End<'_>> = Vec::new();
        for end in &ends {
            match end.free(plot, right, taken) {
                Some(r) => end.draw(c, r, taken),
                None => unplaced.push(end),
            }
        }
        if self != Self::NearIfFree {
            at_edge(c, plot, &unplaced, right, taken);
        }
    }
}

/// The right end of a line that has a name.
struct End<'a> {
    at: Point,
    series: &'a Series,
}

impl End<'_> {
    fn width(&self) -> f64 {
        name_face(WHITE).width(&self.series.name)
    }

    fn draw(&self, c: &mut Canvas, r: Rect, taken: &mut Taken) {
        let face = name_face(self.series.name_colour);
        c.text((r.x, r.y + 11.3), Align::Left, &face, &self.series.name);
        taken.text(r);
    }

    /// Returns a place for the name that covers nothing: next to the last point, else along the line.
    fn free(&self, plot: &Plot, right: f64, taken: &mut Taken) -> Option<Rect> {
        let (w, a) = (self.width(), plot.area);
        let inside = |r: &Rect| {
            r.x > a.x && r.y > a.y && r.right() < a.right() + right - 8.0 && r.bottom() < a.bottom()
        };
        let (x, y) = self.at;
        let near = [0.0, 13.0, -13.0, 24.0, -24.0].into_iter().flat_map(|down| {
            [x + 10.0, x - 10.0 - w, x - w / 2.0].map(|x| Rect { x, y: y - 7.0 + down, w, h: 14.0 })
        });
        let line: Vec<Point> = plot.line(&self.series.line).concat();
        let along = line.windows(2).rev().flat_map(|ends| {
            let middle = ((ends[0].0 + ends[1].0) / 2.0, (ends[0].1 + ends[1].1) / 2.0);
            [middle, ends[0]].into_iter().flat_map(move |(x, y)| {
                [-20.0, 6.0].map(|down| Rect { x: x - w / 2.0, y: y + down, w, h: 14.0 })
            })
        });
        taken.free(near.chain(along).filter(inside))
    }
}

/// Returns places for all names beside the last points, moved so that they do not touch each other; `None` if they would
/// cover anything.
fn together(plot: &Plot, ends: &[End<'_>], taken: &Taken) -> Option<Vec<Rect>> {
    let mut ys: Vec<f64> = ends.iter().map(|e| e.at.1).collect();
    spread(&mut ys, 15.0, (plot.area.y, plot.area.bottom() - 6.0));
    let x = ends.iter().map(|e| e.at.0).fold(0.0, f64::max) + 10.0;
    let rects = |down: f64| -> Vec<Rect> {
        ys.iter().zip(ends).map(|(y, e)| Rect { x, y: y - 7.0 + down, w: e.width(), h: 14.0 }).collect()
    };
    let inside = |all: &Vec<Rect>| all.iter().all(|r| r.bottom() <= plot.area.bottom() + 4.0);
    [0.0, 14.0, 26.0, -16.0].into_iter().find_map(|down| taken.nudge(&rects(down)).filter(inside))
}

/// Draws names at the right edge of the plot, if there is room beyond it, each at the height of its line.
fn at_edge(c: &mut Canvas, plot: &Plot, ends: &[&End<'_>], right: f64, taken: &mut Taken) {
    let mut ys: Vec<f64> = ends.iter().map(|e| e.at.1).collect();
    spread(&mut ys, 15.0, (plot.area.y, plot.area.bottom() - 6.0));
    for (y, end) in ys.into_iter().zip(ends) {
        let r = Rect { x: plot.area.right() + 8.0, y: y - 7.0, w: end.width(), h: 14.0 };
        if r.w + 8.0 <= right {
            end.draw(c, r, taken);
        }
    }
}

/// A horizontal line with its label.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its value on the axis.
    pub(crate) value: f64,
    /// Labels, the longest first: the first that fits is drawn.
    pub(crate) texts: Vec<String>,
    /// Its tooltip.
    pub(crate) hint: String,
    /// True if its label is rather below than above it.
    pub(crate) labelled_below: bool,
}

impl Rule {
    /// Draws a limit of the SLO, if it lies within the plot.
    pub(crate) fn draw(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        if self.value <= plot.y.max {
            let line = plot.across(self.value);
            c.dashes(line, 1.8, (8.0, 4.5), RED);
            c.hint_along(line, self.hint.clone());
            taken.line(&line, 1.0);
        }
    }

    /// Labels a limit where the label covers nothing, if possible; a limit beyond the axis is named at the upper edge.
    pub(crate) fn label(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let face = Type::book(12.0, RED);
        let beyond = self.value > plot.y.max;
        let y = plot.at_y(self.value.min(plot.y.max));
        let rows: &[f64] = match (beyond, self.labelled_below) {
            (true, _) => &[5.0, 21.0, 37.0],
            (false, true) => &[4.0, -17.5],
            (false, false) => &[-17.5, 4.0],
        };
        let spots = |text: &str| along(plot, rows, y, face.width(text), (8.0, 13.5));
        let arrow = |(i, text): (usize, &String)| match (beyond, i) {
            (false, _) => vec![text.clone()],
            (true, 0) => vec![format!("{text} ↑ above this axis"), format!("{text} ↑")],
            (true, 1) => vec![format!("{text} ↑")],
            (true, _) => Vec::new(),
        };
        let texts: Vec<String> = self.texts.iter().enumerate().flat_map(arrow).collect();
        let free = texts.iter().find_map(|t| taken.free(spots(t)).map(|r| (t, (r, false))));
        let least = || texts.last().and_then(|t| Some((t, taken.place(spots(t))?)));
        if let Some((text, place)) = free.or_else(least) {
            c.label(Some(place), 11.2, &face, text);
        }
    }

    /// Draws the latency of the unloaded server as a dotted line below the shapes from `ground` on; nothing if there is
    /// no room for its label.
    pub(crate) fn draw_if_labelled(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken, ground: usize) {
        let face = Type::book(10.5, GREY);
        let y = plot.at_y(self.value);
        let inside = |r: &Rect| r.x > plot.area.x && r.y > plot.area.y;
        for text in &self.texts {
            let spots = along(plot, &[-14.5, 2.5], y, face.width(text), (6.0, 12.0));
            if let Some(r) = taken.free(spots.into_iter().filter(inside)) {
                c.label(Some((r, false)), 9.8, &face, text);
                let mut line = Canvas::new(1, 1);
                line.dashes(plot.across(self.value), 1.1, (1.2, 3.0), rgb(0x707070));
                c.shapes.splice(ground..ground, line.shapes);
                return;
            }
        }
    }
}

/// Returns positions along a horizontal line, in rows relative to it: `margin` from the left edge of the plot, for texts
/// `w` wide and `h` high.
fn along(plot: &Plot, rows: &[f64], y: f64, w: f64, (margin, h): (f64, f64)) -> Vec<Rect> {
    let a = plot.area;
    let room = a.w - w - 12.0;
    if room < 0.0 {
        return Vec::new();
    }
    let xs = (0..=60).map(|i| a.x + margin + room * f64::from(i) / 60.0);
    let spots = rows.iter().flat_map(|row| xs.clone().map(move |x| Rect { x, y: y + row, w, h }));
    spots.filter(|r| r.y > a.y - 18.0 && r.bottom() < a.bottom()).collect()
}

/// Draws the line on which the vertical value equals the horizontal one; returns its far end.
pub(crate) fn diagonal(c: &mut Canvas, plot: &Plot, taken: &mut Taken) -> f64 {
    let corner = plot.x.max.min(plot.y.max);
    let line = [plot.at(0.0, 0.0), plot.at(corner, corner)];
    c.stroke(line[0], line[1], 1.1, rgb(0x8f8f8f));
    taken.line(&line, 2.0);
    corner
}

/// Labels the diagonal near its far end.
pub(crate) fn label_diagonal(c: &mut Canvas, plot: &Plot, taken: &mut Taken, corner: f64) {
    let face = Type::book(11.0, GREY);
    let text = "achieved = offered";
    let w = face.width(text);
    let spots = (0..30).map(|i| {
        let v = corner * (0.93 - 0.028 * f64::from(i));
        let (x, y) = plot.at(v, v);
        Rect { x: x - w - 7.0, y: y - 17.0, w, h: 13.0 }
    });
    let place = taken.place(spots.filter(|r| r.x > plot.area.x + 4.0)).filter(|(_, covers)| !covers);
    c.label(place, 10.5, &face, text);
}
