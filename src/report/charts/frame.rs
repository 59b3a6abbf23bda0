//! What every chart shares: headline, one line of what was measured, plots with their axes, legend and foot.

use super::axis::{Axis, Plot};
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::{Hue, Mark, charted, rgb};
use super::heads::{about, ellipsis, fitted, shortened, subtitle};
use super::{Format, Scene};
use crate::report::escape::clip;
use crate::report::words;
use plotters::style::RGBColor;

/// From the left edge of the picture to a plot.
pub(super) const LEFT: f64 = 62.0;
/// From a plot's left edge to where its heading starts.
const HANG: f64 = 48.0;
/// Between text and the picture's edge.
pub(super) const EDGE: f64 = 14.0;
/// Room above a plot for its heading.
const HEADING: f64 = 42.0;
/// Room for values that do not fit into a plot.
const VALUES: f64 = 20.0;
/// Room for a horizontal axis between two plots.
const OWN_X: f64 = 34.0;
/// From the lower edge of the last plot to the legend.
const LEGEND: f64 = 62.0;
/// Colour of what is said about data.
pub(super) const GREY: RGBColor = rgb(0x5f5f5f);
/// Colour of a headline.
pub(super) const INK: RGBColor = rgb(0x1a1a1a);

/// A chart being drawn.
pub(super) struct Frame {
    /// The picture.
    pub(super) canvas: Canvas,
    /// One area per plot, from the top, or on a slide from the left.
    pub(super) areas: Vec<Rect>,
    slots: Vec<Slot>,
    format: Format,
    legend: Vec<Vec<(Mark, &'static str)>>,
    foot: String,
    said: String,
}

/// A plot to be laid out: its height in a report, and whether it needs a row above it for values that do not fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Height of the plot.
    pub(super) height: f64,
    /// Whether there is a row of values above it.
    pub(super) values_above: bool,
    /// Whether its horizontal axis is its own, and so labelled below it.
    pub(super) own_x: bool,
}

impl Frame {
    /// Headline and subtitle, and room for plots with so much room to the right of each.
    pub(super) fn new(
        scene: &Scene<'_>,
        slots: &[Slot],
        right: f64,
        words_of: fn(Mark) -> &'static str,
    ) -> Self {
        let (run, format) = (scene.run, scene.format);
        let width = f64::from(format.width());
        let (face, head) = fitted(&words::headline(run), width - 2.0 * EDGE);
        let (small, about) = match format {
            Format::Report => about(run, width - 2.0 * EDGE),
            Format::Slide => {
                let small = Type::book(11.5, GREY);
                (small, vec![shortened(&small, subtitle(run), width - 2.0 * EDGE)])
            }
        };
        let legend = legend_rows(scene, words_of);
        let below = 18.0 * (legend.len().max(1) - 1) as f64;
        let top = if format == Format::Slide { 31.0 } else { 36.0 };
        let y = top + 23.0 * head.len() as f64 + 16.0 * (about.len() - 1) as f64;
        let (areas, height) = match format {
            Format::Report => {
                let (areas, y) = stacked(slots, y, width - LEFT - right);
                (areas, (y + LEGEND + below + 44.0).ceil())
            }
            Format::Slide => {
                let height = f64::from(format.height());
                (side_by_side(slots, y + 3.0, height - LEGEND - below - 24.0, right), height)
            }
        };
        let mut canvas = Canvas::new(format.width(), height as u32);
        let mut y = top;
        for line in &head {
            canvas.text((EDGE, y), Align::Left, &face, line);
            y += 23.0;
        }
        for (i, line) in about.iter().enumerate() {
            canvas.text((EDGE, y - 1.0 + 16.0 * i as f64), Align::Left, &small, line);
        }
        let slo = run.tiers.iter().map(words::slo).collect::<Vec<_>>().join("; ");
        let version = &run.meta.goodput_version;
        let foot = format!("SLO: {} · plan: {} · goodput {version}", clip(&slo, 100), clip(&run.name, 50));
        Self { canvas, areas, slots: slots.to_vec(), format, legend, foot, said: String::new() }
    }

    /// Width of the picture.
    pub(super) fn width(&self) -> f64 {
        f64::from(self.canvas.size.0)
    }

    /// Heading, grid and axes of the plot of that number; `x_title` stands under the last one, on a slide under each.
    pub(super) fn axes(&mut self, number: usize, plot: &Plot, heading: &str, note: &str, x_title: &str) {
        let a = plot.area;
        let above = self.slots.get(number).is_some_and(|s| s.values_above);
        let raise = if above { 12.0 + VALUES } else { 12.0 };
        let own_x = self.slots.get(number).is_some_and(|s| s.own_x);
        let last = own_x || number + 1 == self.areas.len() || self.format == Format::Slide;
        let end = if self.format == Format::Slide { a.right() + 30.0 } else { self.width() - EDGE };
        let c = &mut self.canvas;
        let (bold, book) = (Type::bold(12.0, rgb(0x333333)), Type::book(11.0, GREY));
        let x = a.x - HANG;
        c.text((x, a.y - raise), Align::Left, &bold, &ellipsis(&bold, heading, end - x));
        let after = x + bold.width(heading) + 10.0;
        // On a slide there is room for what is measured, not for how it is drawn.
        let note = note.split("; ").scan(String::new(), |kept, part| {
            let longer = if kept.is_empty() { part.to_owned() } else { format!("{kept}; {part}") };
            (after + book.width(&longer) <= end).then(|| kept.clone_from(&longer)).map(|()| longer)
        });
        if let Some(note) = note.last().filter(|n| !n.is_empty()) {
            c.text((after, a.y - raise), Align::Left, &book, &note);
        }
        let ticks = Type::book(11.5, rgb(0x3d3d3d));
        for (v, label) in plot.y.ticks() {
            let y = plot.at_y(v);
            if v > plot.y.min {
                c.stroke((a.x, y), (a.right(), y), 0.8, rgb(0xe3e3e3));
            }
            c.stroke((a.x - 4.0, y), (a.x, y), 1.0, GREY);
            c.text((a.x - 8.0, y + 4.2), Align::Right, &ticks, &label);
        }
        let crowded = plot.x.ticks().len() as f64 * ticks.width("00,000") > a.w;
        for (i, (v, label)) in plot.x.ticks().into_iter().enumerate() {
            let x = plot.at_x(v);
            c.stroke((x, a.bottom()), (x, a.bottom() + 4.0), 1.0, GREY);
            if last && (!crowded || i % 2 == 0) {
                c.text((x, a.bottom() + 17.0), Align::Middle, &ticks, &label);
            }
        }
        if last {
            let face = Type::book(12.0, rgb(0x222222));
            let title = ellipsis(&face, x_title, a.w + 60.0);
            c.text((a.x + a.w / 2.0, a.bottom() + 36.0), Align::Middle, &face, &title);
        }
    }

    /// The axes' own lines, drawn after shaded areas.
    pub(super) fn spines(&mut self, plot: &Plot) {
        let a = plot.area;
        self.canvas.stroke((a.x, a.y), (a.x, a.bottom()), 1.1, GREY);
        self.canvas.stroke((a.x - 0.5, a.bottom()), (a.right(), a.bottom()), 1.1, GREY);
    }

    /// Leaves one entry in the legend.
    pub(super) fn only(&mut self, mark: Mark) {
        for row in &mut self.legend {
            row.retain(|(m, _)| *m == mark);
        }
        self.legend.retain(|row| !row.is_empty());
    }

    /// A sentence beside the legend.
    pub(super) fn say(&mut self, text: &str) {
        self.said = text.to_owned();
    }

    /// Legend of the marks and the foot.
    pub(super) fn finish(mut self, hue: Hue) -> Canvas {
        let Some(lowest) = self.areas.iter().map(Rect::bottom).max_by(f64::total_cmp) else {
            return self.canvas;
        };
        let (words, foot_face) = (Type::book(11.5, rgb(0x222222)), Type::book(9.5, rgb(0x6a6a6a)));
        let mut y = lowest + LEGEND;
        let left = if self.format == Format::Slide { EDGE } else { LEFT };
        for (i, row) in self.legend.iter().enumerate() {
            y += if i == 0 { 0.0 } else { 18.0 };
            let mut x = left;
            for (mark, text) in row {
                mark.draw(&mut self.canvas, (x + 5.0, y - 4.0), 4.4, hue.dark);
                self.canvas.text((x + 16.0, y), Align::Left, &words, text);
                x += 16.0 + words.width(text) + GAP;
            }
        }
        if !self.said.is_empty() {
            let face = Type::bold(11.5, rgb(0x222222));
            let taken = self
                .legend
                .last()
                .map_or(0.0, |row| row.iter().map(|(_, t)| 16.0 + words.width(t) + GAP).sum::<f64>());
            self.canvas.text((left + taken, y), Align::Left, &face, &self.said);
        }
        let foot = ellipsis(&foot_face, &self.foot, self.width() - 2.0 * EDGE);
        let below = if self.format == Format::Slide { 17.0 } else { 30.0 };
        self.canvas.text((EDGE, y + below), Align::Left, &foot_face, &foot);
        self.canvas
    }
}

/// Between two entries of the legend.
const GAP: f64 = 22.0;

fn stacked(slots: &[Slot], mut y: f64, w: f64) -> (Vec<Rect>, f64) {
    let mut areas = Vec::new();
    for (i, slot) in slots.iter().enumerate() {
        y += HEADING + if slot.values_above { VALUES } else { 0.0 };
        y += if i > 0 && slots[i - 1].own_x { OWN_X } else { 0.0 };
        areas.push(Rect { x: LEFT, y, w, h: slot.height });
        y += slot.height;
    }
    (areas, y)
}

fn side_by_side(slots: &[Slot], y: f64, bottom: f64, right: f64) -> Vec<Rect> {
    let above = HEADING - 10.0 + if slots.iter().any(|s| s.values_above) { VALUES } else { 0.0 };
    let column = f64::from(Format::Slide.width()) / slots.len().max(1) as f64;
    let area = |i: usize| Rect {
        x: column * i as f64 + LEFT,
        y: y + above,
        w: column - LEFT - right,
        h: bottom - y - above,
    };
    (0..slots.len()).map(area).collect()
}

/// The marks that occur, in rows that fit.
fn legend_rows(scene: &Scene<'_>, words_of: fn(Mark) -> &'static str) -> Vec<Vec<(Mark, &'static str)>> {
    let face = Type::book(11.5, INK);
    let left = if scene.format == Format::Slide { EDGE } else { LEFT };
    let mut rows: Vec<Vec<(Mark, &'static str)>> = Vec::new();
    let mut x = f64::INFINITY;
    let occurs = |m: &Mark| charted(scene.run).any(|s| Mark::of(s) == *m);
    for mark in Mark::ALL.into_iter().filter(occurs) {
        let width = 16.0 + face.width(words_of(mark));
        if x + width > f64::from(scene.format.width()) - EDGE {
            rows.push(Vec::new());
            x = left;
        }
        x += width + GAP;
        if let Some(row) = rows.last_mut() {
            row.push((mark, words_of(mark)));
        }
    }
    rows
}

/// A horizontal axis that has room for all values.
pub(super) fn x_axis(values: impl Iterator<Item = f64>) -> Axis {
    Axis::upto(values.filter(|v| v.is_finite()).fold(0.0, f64::max) * 1.06, 8.0)
}
