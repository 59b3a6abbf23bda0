//! The answer on a plot: goodput line, bracket or interval, knee.

use super::axis::Plot;
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::rgb;
use super::frame::GREY;
use super::place::Taken;
use crate::rundir::Run;
use crate::search::answer::{Answer, Status};
use crate::units::short;
use plotters::style::{Color, RGBColor};

const GREEN: RGBColor = rgb(0x2ca25f);
/// Colour of text about the goodput.
pub(super) const GREEN_TEXT: RGBColor = rgb(0x14713a);

/// Where the answer lies on the horizontal axis of a chart.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    line: Option<f64>,
    band: Option<(f64, f64)>,
    knee: Option<f64>,
    words: Vec<String>,
}

impl Boundary {
    /// The first answer of a run; `place` maps a level onto the axis, `knee` chooses the knee's place on it.
    pub(super) fn new(
        run: &Run,
        place: impl Fn(f64) -> f64,
        knee: impl Fn(&crate::search::answer::Knee) -> f64,
    ) -> Self {
        let Some(a) = run.answers.first() else { return Self::default() };
        let g = &a.goodput;
        let ends = g.interval90.map(|[l, h]| (l, h)).or(g.met.zip(g.failed));
        let line = match g.status {
            Status::Found => g.rate.or(g.met),
            Status::NotReached => g.met.or(g.rate),
            Status::Undecided if g.failed.is_none() => g.met,
            Status::None | Status::Undecided | Status::Invalid => None,
        };
        Self {
            line: line.map(&place),
            band: ends.map(|(l, h)| (place(l), place(h))).filter(|(l, h)| h > l),
            knee: a.knee.as_ref().map(knee),
            words: words(a),
        }
    }

    /// Values that must be on the horizontal axis.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.line.into_iter().chain(self.band.map(|b| b.1)).chain(self.knee)
    }

    /// Draws band and lines; labels come later, where there is room.
    pub(super) fn draw(&self, c: &mut Canvas, plot: &Plot) {
        let a = plot.area;
        if let Some((low, high)) = self.band {
            let (x0, x1) = (plot.at_x(low), plot.at_x(high));
            c.fill(&Rect { x: x0, y: a.y, w: x1 - x0, h: a.h }, GREEN.mix(0.13));
        }
        if let Some(knee) = self.knee {
            let x = plot.at_x(knee);
            c.dashes((x, a.bottom()), (x, a.y), 1.3, (1.6, 2.6), rgb(0x6b6b6b));
        }
        if let Some(line) = self.line {
            let x = plot.at_x(line);
            c.stroke((x, a.bottom()), (x, a.y), 2.0, GREEN);
        }
    }

    /// Keeps the lines clear of labels.
    pub(super) fn take(&self, taken: &mut Taken, plot: &Plot) {
        for x in self.line.into_iter().chain(self.knee) {
            let x = plot.at_x(x);
            taken.line(&[(x, plot.area.y), (x, plot.area.bottom())], 2.0);
        }
    }

    /// Writes what the lines mean beside them.
    pub(super) fn label(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        if let Some(knee) = self.knee {
            let face = Type::book(11.0, GREY);
            place_beside(c, plot, taken, [knee; 2], &face, &["knee".to_owned()], false);
        }
        let edges = self.band.map_or((self.line, self.line), |(l, h)| (Some(l), Some(h)));
        if let (Some(left), Some(right), false) = (edges.0, edges.1, self.words.is_empty()) {
            let edges = if plot.x.share(left) < 0.3 { [right, left] } else { [left, right] };
            // Where there is no room at all it is left to the headline, which says the same.
            for size in [12.0, 11.0, 10.3] {
                if place_beside(c, plot, taken, edges, &Type::book(size, GREEN_TEXT), &self.words, true) {
                    break;
                }
            }
        }
    }
}

/// Puts lines of text left or right of a vertical line: those at the top where they cover nothing, if anywhere, those at the
/// bottom where they cover least. Whether there was a place.
fn place_beside(
    c: &mut Canvas,
    plot: &Plot,
    taken: &mut Taken,
    at: [f64; 2],
    face: &Type,
    lines: &[String],
    top: bool,
) -> bool {
    let a = plot.area;
    let w = lines.iter().map(|l| face.width(l)).fold(0.0, f64::max);
    let (step, h) = (face.size * 1.35, face.size * 1.35 * lines.len() as f64);
    let rows = (0..40).map(|i| (a.h - h - 8.0) * f64::from(i) / 39.0);
    let ys: Vec<f64> = if top {
        rows.map(|d| a.y + 4.0 + d).collect()
    } else {
        rows.map(|d| a.bottom() - 4.0 - h - d).collect()
    };
    let sides = at.map(|v| [(plot.at_x(v) - w - 8.0, true), (plot.at_x(v) + 7.0, false)]);
    let order = if top { sides.concat() } else { sides.iter().flatten().rev().copied().collect() };
    let inside = |(x, _): &(f64, bool)| *x >= a.x + 4.0 && *x + w <= a.right() + if top { 2.0 } else { 20.0 };
    let spots: Vec<(f64, bool)> = order.into_iter().filter(inside).collect();
    let rects = spots.iter().flat_map(|(x, _)| ys.iter().map(move |y| Rect { x: *x, y: *y, w, h }));
    let found = if top { taken.free(rects).map(|r| (r, false)) } else { taken.place(rects) };
    let Some((r, covers)) = found else { return false };
    c.veil(&r, covers);
    let right = spots.iter().any(|(x, left_side)| *left_side && (x - r.x).abs() < 1e-9);
    for (i, line) in lines.iter().enumerate() {
        let y = r.y + step * (i as f64 + 1.0) - step * 0.28;
        let (px, align) = if right { (r.right(), Align::Right) } else { (r.x, Align::Left) };
        c.text((px, y), align, face, line);
    }
    true
}

fn words(a: &Answer) -> Vec<String> {
    let (g, unit) = (&a.goodput, a.control.unit());
    let n = short;
    match (g.status, g.rate.or(g.met), g.met, g.failed) {
        (Status::Found, Some(rate), met, failed) => {
            let mut lines = vec![format!("goodput {}{unit}", n(rate))];
            match (g.interval90, met, failed) {
                (Some([l, h]), ..) => lines.push(format!("90 % interval {} – {}", n(l), n(h))),
                (None, Some(m), Some(f)) => lines.push(format!("met at {}, failed at {}", n(m), n(f))),
                _ => {}
            }
            lines
        }
        (Status::NotReached, Some(rate), ..) => {
            vec![format!("met up to {}{unit}", n(rate)), "more was not tried".into()]
        }
        (Status::Undecided, _, Some(m), None) => {
            vec![format!("met up to {}{unit}", n(m)), "above is undecided".into()]
        }
        (Status::Undecided, _, Some(m), Some(f)) => {
            vec![format!("met at {}, failed at {}{unit}", n(m), n(f)), "undecided between".into()]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn what_is_met_is_marked_where_the_rest_is_undecided() {
        let mut run = fixture::found();
        let g = &mut run.answers[0].goodput;
        (g.status, g.rate, g.failed) = (Status::Undecided, None, None);
        let b = Boundary::new(&run, |x| x, |k| k.rate);
        assert_eq!(b.words, ["met up to 32 req/s", "above is undecided"]);
        assert_eq!((b.line.map(f64::round), b.band), (Some(32.0), None));
    }
}
