//! Labels in a plot of latencies: names at the ends of its curves, limits, and the latency of the unloaded server.

use super::axis::Plot;
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::curves::{Curve, rgb};
use super::frame::GREY;
use super::panel::{Named, Panel, RED};
use super::place::{Taken, spread};
use crate::escape::clip;
use crate::words;
use plotters::style::{RGBColor, WHITE};

const NAMES: [&str; 3] = ["p50", "p90", "p99"];

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

/// Returns `p99` and so on for the ends of a curve; with several series their names instead, at p99 only.
fn end_labels(curves: &[Curve<'_>]) -> Vec<[String; 3]> {
    let label = |c: &Curve<'_>| match curves.len() {
        1 => NAMES.map(str::to_owned),
        _ => [String::new(), String::new(), clip(c.series, 22)],
    };
    curves.iter().map(label).collect()
}

/// Returns the width of the widest name at the right end of a curve, in logical pixels.
pub(super) fn end_width(curves: &[Curve<'_>]) -> f64 {
    end_labels(curves).iter().flatten().map(|t| end_face(WHITE).width(t)).fold(0.0, f64::max)
}

impl Panel {
    /// Draws names at the right ends of the curves, moved so that they do not touch: next to the last point if there is
    /// room, else at the edge of the plot with a leader.
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
        let low = plot.area.bottom() + 4.0;
        let near = taken.nudge(&rects(beside)).filter(|all| all.iter().all(|r| r.bottom() <= low));
        let leaders = near.is_none();
        let edge = || rects(plot.area.right() + 8.0);
        for (r, e) in near.unwrap_or_else(edge).iter().zip(&ends) {
            if leaders {
                let (from, to) = ((e.at.0 + 8.0, e.at.1), (r.x - 3.0, r.y + 7.0));
                c.dashes(from, to, 0.9, (1.5, 2.5), e.line);
                taken.line(&[from, to], 1.0);
            }
            c.text((r.x, r.y + 11.3), Align::Left, &end_face(e.text), &e.name);
            taken.text(*r);
        }
    }

    fn ends(&self, plot: &Plot, curves: &[Curve<'_>]) -> Vec<End> {
        let mut ends = Vec::new();
        for (curve, names) in curves.iter().zip(end_labels(curves)) {
            let h = curve.hue;
            let shades = [(h.light, h.light_text), (h.middle, h.middle_text), (h.dark, h.dark)];
            for (pick, name) in names.into_iter().enumerate().filter(|(_, n)| !n.is_empty()) {
                // If the line leaves the plot, its name is at the last point before.
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

    /// Draws names of the limits on their lines, where they cover nothing; a limit beyond the axis is named at the
    /// upper edge.
    pub(super) fn label_limits(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let face = Type::book(12.0, RED);
        for Named { text, short, value: limit } in &self.limits {
            let beyond = *limit > self.y.max;
            let at = plot.at_y(limit.min(self.y.max));
            let spots = |text: &str| limit_spots(plot, at, face.width(text), beyond);
            // In full if there is room, else only the limit, else the position that covers least.
            let bare = short.replacen("SLO ", "≤ ", 1);
            let texts = if beyond {
                [format!("{text} ↑ above this axis"), format!("{text} ↑"), format!("{short} ↑")]
            } else {
                [text.clone(), short.clone(), bare]
            };
            let found = texts.iter().find_map(|t| taken.free(spots(t)).map(|r| (r, t, false)));
            let found =
                found.or_else(|| taken.place(spots(&texts[2])).map(|(r, covers)| (r, &texts[2], covers)));
            if let Some((r, text, covers)) = found {
                c.veil(&r, covers);
                c.text((r.x, r.y + 11.2), Align::Left, &face, text);
            }
        }
    }

    /// Draws the latency of the unloaded server: a line with its label below the curves; neither if there is no room
    /// for the label.
    pub(super) fn unloaded(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken, ground: usize) {
        let Some((p50, p99)) = self.unloaded else { return };
        let value = p99.unwrap_or(p50);
        if value > self.y.max {
            return;
        }
        let face = Type::book(10.5, GREY);
        let say = |v: f64| words::latency(v * self.unit);
        let texts = match p99 {
            Some(p99) => [
                format!("unloaded: p99 {}, p50 {}", say(p99), say(p50)),
                format!("unloaded p99 {}", say(p99)),
                "unloaded p99".to_owned(),
            ],
            None => [
                format!("unloaded: p50 {}", say(p50)),
                format!("unloaded p50 {}", say(p50)),
                "unloaded p50".to_owned(),
            ],
        };
        let (a, y) = (plot.area, plot.at_y(value));
        for text in texts {
            let w = face.width(&text);
            let xs = (0..=60).map(|i| a.x + 6.0 + (a.w - w - 12.0) * f64::from(i) / 60.0);
            let rows = [-14.5, 2.5];
            let spots =
                rows.iter().flat_map(|row| xs.clone().map(move |x| Rect { x, y: y + row, w, h: 12.0 }));
            let inside = |r: &Rect| r.x > a.x && r.y > a.y && r.bottom() < a.bottom();
            if let Some(r) = taken.free(spots.filter(inside)) {
                c.text((r.x, r.y + 9.8), Align::Left, &face, &text);
                let mut line = Canvas::new(1, 1);
                line.dashes((a.x, y), (a.right(), y), 1.1, (1.2, 3.0), rgb(0x707070));
                c.shapes.splice(ground..ground, line.shapes);
                return;
            }
        }
    }
}

/// Returns positions above or below a limit's line; for one beyond the axis, at the upper edge.
fn limit_spots(plot: &Plot, y: f64, w: f64, beyond: bool) -> Vec<Rect> {
    let a = plot.area;
    let rows: &[f64] = if beyond { &[5.0, 21.0, 37.0] } else { &[-17.5, 4.0] };
    let room = a.w - w - 12.0;
    if room < 0.0 {
        return Vec::new();
    }
    let xs = (0..=60).map(|i| a.x + 8.0 + room * f64::from(i) / 60.0);
    let spots = rows.iter().flat_map(|row| xs.clone().map(move |x| Rect { x, y: y + row, w, h: 13.5 }));
    spots.filter(|r| r.y > a.y - 18.0 && r.bottom() < a.bottom()).collect()
}
