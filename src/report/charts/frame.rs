//! What every chart shares: headline, one line of what was measured, plots with their axes, legend and foot.

use super::axis::{Axis, Plot, thousands};
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::{Hue, Mark, rgb};
use crate::report::escape::{clip, plain};
use crate::report::words;
use crate::rundir::Run;
use plotters::style::RGBColor;

/// Width of every chart in logical pixels: 7.5 inches.
pub(super) const WIDTH: u32 = 720;
const LEFT: f64 = 62.0;
const TOP: f64 = 36.0;
const EDGE: f64 = 14.0;
/// Room above a plot for its heading.
const HEADING: f64 = 42.0;
/// Room for values that do not fit into a plot.
const VALUES: f64 = 20.0;
/// From the lower edge of the last plot to the legend.
const LEGEND: f64 = 62.0;
/// Colour of what is said about data.
pub(super) const GREY: RGBColor = rgb(0x5f5f5f);
const INK: RGBColor = rgb(0x1a1a1a);

/// A chart being drawn.
pub(super) struct Frame {
    /// The bitmap.
    pub(super) canvas: Canvas,
    /// One area per plot, from the top.
    pub(super) areas: Vec<Rect>,
    slots: Vec<Slot>,
}

/// A plot to be laid out: its height, and whether it needs a row above it for values that do not fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Height of the plot.
    pub(super) height: f64,
    /// Whether there is a row of values above it.
    pub(super) values_above: bool,
}

impl Frame {
    /// Headline and subtitle, and room for plots with so much room to their right.
    pub(super) fn new(run: &Run, headline: &str, slots: &[Slot], right: f64) -> Self {
        let width = f64::from(WIDTH);
        let (face, head) = fitted(headline, width - 2.0 * EDGE);
        let (small, about) = about(run, width - 2.0 * EDGE);
        let mut y = TOP + 23.0 * head.len() as f64 + 16.0 * (about.len() - 1) as f64;
        let mut areas = Vec::new();
        for slot in slots {
            y += HEADING + if slot.values_above { VALUES } else { 0.0 };
            areas.push(Rect { x: LEFT, y, w: width - LEFT - right, h: slot.height });
            y += slot.height;
        }
        let below = LEGEND + 18.0 * (legend_rows(run).len().max(1) - 1) as f64 + 44.0;
        let mut canvas = Canvas::new(WIDTH, (y + below).ceil() as u32);
        let mut y = TOP;
        for line in &head {
            canvas.text((EDGE, y), Align::Left, &face, line);
            y += 23.0;
        }
        for (i, line) in about.iter().enumerate() {
            canvas.text((EDGE, y - 1.0 + 16.0 * i as f64), Align::Left, &small, line);
        }
        Self { canvas, areas, slots: slots.to_vec() }
    }

    /// Heading, grid and axes of one plot; `x_title` stands under the last one.
    pub(super) fn axes(&mut self, plot: &Plot, heading: &str, note: &str, x_title: Option<&str>) {
        let a = plot.area;
        let above = self.slots.iter().zip(&self.areas).any(|(s, area)| s.values_above && *area == a);
        let raise = if above { 12.0 + VALUES } else { 12.0 };
        let c = &mut self.canvas;
        let bold = Type::bold(12.0, rgb(0x333333));
        c.text((EDGE, a.y - raise), Align::Left, &bold, heading);
        c.text((EDGE + bold.width(heading) + 10.0, a.y - raise), Align::Left, &Type::book(11.0, GREY), note);
        let ticks = Type::book(11.5, rgb(0x3d3d3d));
        for (v, label) in plot.y.ticks() {
            let y = plot.at_y(v);
            if v > 0.0 {
                c.stroke((a.x, y), (a.right(), y), 0.8, rgb(0xe3e3e3));
            }
            c.stroke((a.x - 4.0, y), (a.x, y), 1.0, GREY);
            c.text((a.x - 8.0, y + 4.2), Align::Right, &ticks, &label);
        }
        for (v, label) in plot.x.ticks() {
            let x = plot.at_x(v);
            c.stroke((x, a.bottom()), (x, a.bottom() + 4.0), 1.0, GREY);
            if x_title.is_some() {
                c.text((x, a.bottom() + 17.0), Align::Middle, &ticks, &label);
            }
        }
        if let Some(title) = x_title {
            let face = Type::book(12.0, rgb(0x222222));
            c.text((a.x + a.w / 2.0, a.bottom() + 36.0), Align::Middle, &face, title);
        }
    }

    /// The axes' own lines, drawn after shaded areas.
    pub(super) fn spines(&mut self, plot: &Plot) {
        let a = plot.area;
        self.canvas.stroke((a.x, a.y), (a.x, a.bottom()), 1.1, GREY);
        self.canvas.stroke((a.x - 0.5, a.bottom()), (a.right(), a.bottom()), 1.1, GREY);
    }

    /// Legend of the marks and the foot.
    pub(super) fn finish(mut self, run: &Run, hue: Hue) -> Canvas {
        let Some(last) = self.areas.last().copied() else { return self.canvas };
        let (words, foot_face) = (Type::book(11.5, rgb(0x222222)), Type::book(9.5, rgb(0x757575)));
        let mut y = last.bottom() + LEGEND;
        for (i, row) in legend_rows(run).into_iter().enumerate() {
            y += if i == 0 { 0.0 } else { 18.0 };
            let mut x = LEFT;
            for mark in row {
                mark.draw(&mut self.canvas, (x + 5.0, y - 4.0), 4.4, hue.dark);
                self.canvas.text((x + 16.0, y), Align::Left, &words, mark.words());
                x += 16.0 + words.width(mark.words()) + 22.0;
            }
        }
        let slo = run.tiers.iter().map(words::slo).collect::<Vec<_>>().join("; ");
        let version = &run.meta.goodput_version;
        let foot = format!("SLO: {} · plan: {} · goodput {version}", clip(&slo, 100), clip(&run.name, 50));
        let foot = ellipsis(&foot_face, &foot, f64::from(WIDTH) - 2.0 * EDGE);
        self.canvas.text((EDGE, y + 30.0), Align::Left, &foot_face, &foot);
        self.canvas
    }
}

/// The marks that occur, in rows that fit.
fn legend_rows(run: &Run) -> Vec<Vec<Mark>> {
    let face = Type::book(11.5, INK);
    let mut rows: Vec<Vec<Mark>> = Vec::new();
    let mut x = f64::INFINITY;
    for mark in Mark::ALL.into_iter().filter(|m| run.steps.iter().any(|s| Mark::of(s) == *m)) {
        let width = 16.0 + face.width(mark.words());
        if x + width > f64::from(WIDTH) - EDGE {
            rows.push(Vec::new());
            x = LEFT;
        }
        x += width + 22.0;
        if let Some(row) = rows.last_mut() {
            row.push(mark);
        }
    }
    rows
}

/// What was measured: on one line where it fits at a readable size, else on two, broken between its parts.
fn about(run: &Run, width: f64) -> (Type, Vec<String>) {
    let parts = subtitle(run);
    let line = parts.join(" · ");
    for size in [11.5, 11.0, 10.5] {
        let face = Type::book(size, GREY);
        if face.width(&line) <= width {
            return (face, vec![line]);
        }
    }
    let face = Type::book(11.0, GREY);
    let fits = (1..parts.len()).rev().find(|n| face.width(&parts[..*n].join(" · ")) <= width);
    let (first, rest) = parts.split_at(fits.unwrap_or(1));
    (face, [first, rest].map(|p| shortened(&face, p.to_vec(), width)).to_vec())
}

/// Joins parts, the longest of them clipped until all fit.
fn shortened(face: &Type, mut parts: Vec<String>, width: f64) -> String {
    loop {
        let line = parts.join(" · ");
        let longest = parts.iter_mut().max_by_key(|p| p.chars().count());
        match longest {
            Some(p) if face.width(&line) > width && p.chars().count() > 8 => {
                *p = clip(p, p.chars().count() - 2)
            }
            _ => return line,
        }
    }
}

/// What was measured, in parts.
fn subtitle(run: &Run) -> Vec<String> {
    let m = &run.meta;
    let server = if m.server.starts_with("simulated") { clip(&m.server, 40) } else { address(&m.server) };
    let mut parts = vec![clip(&m.model, 44), server, clip(&words::workload(run), 90)];
    if !m.model.is_empty() && m.server.starts_with(&m.model) {
        parts.remove(0); // `simulated · simulated mmc (…)` says it twice
    }
    parts.retain(|p| !p.is_empty());
    let steps = run.steps.len();
    let count = thousands(words::requests(run) as f64);
    parts.push(format!("{steps} step{}, {count} requests", if steps == 1 { "" } else { "s" }));
    parts.push(words::date(&m.started));
    parts
}

fn address(url: &str) -> String {
    let bare = url.split_once("://").map_or(url, |(_, rest)| rest);
    clip(bare.trim_end_matches('/'), 44)
}

/// The headline on one line where it fits at a readable size, else on two.
fn fitted(text: &str, width: f64) -> (Type, Vec<String>) {
    let text = plain(text);
    let face = Type::bold(19.0, INK);
    for size in [19.0, 18.0, 17.0, 16.5] {
        if face.sized(size).width(&text) <= width {
            return (face.sized(size), vec![text]);
        }
    }
    let face = face.sized(17.0);
    // Lines of like length: a last word alone on its line is ugly.
    let even = (face.width(&text) * 0.55).min(width);
    let lines = wrap(&face, &text, even, usize::MAX);
    let lines = if lines.len() <= 2 { lines } else { wrap(&face, &text, width, 2) };
    (face, lines.into_iter().map(|l| ellipsis(&face, &l, width)).collect())
}

/// Breaks a text at blanks into at most `most` lines; what does not fit is cut with an ellipsis.
fn wrap(face: &Type, text: &str, width: f64, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it starts with one line");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if face.width(&longer) <= width || line.is_empty() {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    lines.into_iter().map(|l| ellipsis(face, &l, width)).collect()
}

fn ellipsis(face: &Type, text: &str, width: f64) -> String {
    let mut kept = text.to_owned();
    while face.width(&kept) > width && !kept.is_empty() {
        kept.truncate(kept.trim_end_matches('…').char_indices().next_back().map_or(0, |(i, _)| i));
        kept.push('…');
    }
    kept
}

/// A horizontal axis that has room for all values.
pub(super) fn x_axis(values: impl Iterator<Item = f64>) -> Axis {
    Axis::upto(values.filter(|v| v.is_finite()).fold(0.0, f64::max) * 1.06, 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_subtitle_says_nothing_twice() {
        let mut run = fixture::found();
        assert_eq!(subtitle(&run)[..2], ["qwen3-0.6b", "127.0.0.1:8000"]);
        (run.meta.model, run.meta.server) = ("simulated".into(), "simulated mmc (4 servers)".into());
        assert_eq!(subtitle(&run)[0], "simulated mmc (4 servers)");
        run.meta.model = "qwen3-0.6b".into();
        assert_eq!(subtitle(&run)[0], "qwen3-0.6b", "a name that the plan gave");
    }
}
