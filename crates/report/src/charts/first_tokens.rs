//! The first token of each row of a matrix against its reference: that of one request alone, or with a warm cache that of a cold one under
//! the same load.

use super::draw::{
    Align, Axis, Canvas, Entry, Frame, Hue, Plot, Rect, Scale, Scene, Slot, Type, ellipsis, overlaid, paler,
    rgb,
};
use crate::escape::clip;
use crate::words::{self, messages::FirstToken};
use goodput_run::rundir::{Run, Traces};
use plotters::style::WHITE;

/// Height of a row: its name above its marks.
const ROW: f64 = 36.0;
/// Longest name of a row, in characters.
const NAME: usize = 40;
/// Distance between the name of a row and its figures.
const GAP: f64 = 10.0;
const RADIUS: f64 = 4.6;

/// Returns true if any row has a reference of its own.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    !FirstToken::all(run).is_empty()
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let rows = FirstToken::all(scene.run);
    let (own, reference) = (overlaid(0).dark, rgb(0x333333));
    let legend = vec![
        Entry::Series(own, "filled: median of the row; pale: up to its p99".into()),
        Entry::Series(reference, "hollow: one request alone, or the same load with a cold cache".into()),
    ];
    let slot = Slot::of(ROW * rows.len() as f64 + 6.0);
    let mut frame = Frame::new(scene, &[slot], 40.0, legend);
    let ends = || rows.iter().flat_map(|r| [Some(r.reference), Some(r.p50), r.p99]).flatten();
    let x = Axis::log(ends().fold(f64::INFINITY, f64::min) / 1.4, ends().fold(0.0, f64::max) * 1.3);
    let y = Axis { min: 0.0, max: rows.len() as f64, step: 1.0, scale: Scale::Rows };
    let plot = Plot { area: frame.areas[0], x, y };
    frame.axes(0, &plot, "Median TTFT of each row against its reference", &[], "TTFT, ms, logarithmic");
    frame.spines(&plot);
    for (i, row) in rows.iter().enumerate() {
        draw_row(&mut frame.canvas, &plot, i, row);
    }
    frame.finish(Hue::INK)
}

fn draw_row(c: &mut Canvas, plot: &Plot, number: usize, row: &FirstToken<'_>) {
    let a = plot.area;
    let h = a.h / plot.y.max.max(1.0);
    let y = a.y + h * (number + 1) as f64 - 9.0;
    let (bold, book) = (Type::bold(11.5, rgb(0x333333)), Type::book(11.0, rgb(0x333333)));
    let name = ellipsis(&bold, &clip(row.row, NAME), 0.5 * a.w);
    c.text((a.x + 5.0, y - 11.0), Align::Left, &bold, &name);
    let after = a.x + 5.0 + bold.width(&name) + GAP;
    let said = row.words();
    c.text((after, y - 11.0), Align::Left, &book, &ellipsis(&book, &said, a.right() + 30.0 - after));
    let own = overlaid(0).dark;
    let at = |ms: f64| (plot.at_x(ms), y);
    if let Some(p99) = row.p99 {
        c.stroke(at(row.p50), at(p99), 5.0, paler(own, 0.5));
    }
    c.stroke(at(row.reference), at(row.p50), 1.6, rgb(0x333333));
    c.disc(at(row.reference), RADIUS, rgb(0x333333));
    c.disc(at(row.reference), RADIUS - 1.6, WHITE);
    c.disc(at(row.p50), RADIUS, own);
    let p99 = row.p99.map(|p99| format!(" · p99 {}", words::latency(p99))).unwrap_or_default();
    let area = Rect { y: a.y + h * number as f64, h, ..a };
    c.hint_over(area, format!("{} · {said}{p99}", clip(row.row, NAME)));
}
