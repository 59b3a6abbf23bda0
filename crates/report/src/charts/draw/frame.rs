//! The frame of every chart: headline, subtitle, plots with their axes, legend and footer.

use super::axis::{Axis, Plot};
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::{Across, tier_name};
use super::heads::{about, brief, ellipsis, fitted, wrap};
use super::hue::{GREY, Hue, rgb};
use super::legend::{Entry, rows};
use super::scene::{Format, Scene};
use crate::escape::{clip, plain};
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Metric;

/// Distance from the left edge of the picture to a plot.
pub(crate) const LEFT: f64 = 62.0;
/// Distance from a plot's left edge to the start of its heading, to the left.
const HANG: f64 = 48.0;
/// Distance between text and the edge of the picture.
pub(crate) const EDGE: f64 = 14.0;
/// Room above a plot for its heading.
const HEADING: f64 = 42.0;
/// Room for values that do not fit into a plot.
const VALUES: f64 = 20.0;
/// Room for a horizontal axis between two plots.
const OWN_X: f64 = 34.0;
/// Distance from the lower edge of the last plot to the legend.
const LEGEND: f64 = 62.0;
/// Type of the footer; on a slide it may be smaller.
const FOOT: Type = Type::book(9.5, rgb(0x6a6a6a));
/// Share of the width above which the last line of a slide's footer leaves no room for notes.
const NOTES: f64 = 0.42;
/// Distance between two lines of the footer.
const FOOT_LINE: f64 = 12.5;

/// A chart being drawn.
pub(crate) struct Frame {
    /// The picture.
    pub(crate) canvas: Canvas,
    /// One area per plot, from the top, or on a slide from the left.
    pub(crate) areas: Vec<Rect>,
    slots: Vec<Slot>,
    format: Format,
    legend: Vec<Vec<Entry>>,
    foot: Foot,
    /// Notes that did not fit behind a heading.
    notes: Vec<String>,
}

/// The texts above and below the plots.
pub(crate) struct Titles {
    /// The headline.
    pub(crate) head: String,
    /// The subtitle, in lines that fit: model, server, workload.
    pub(crate) about: (Type, Vec<String>),
    /// The footer.
    pub(crate) foot: String,
}

/// The layout of one plot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Height in a report, in logical pixels.
    pub(crate) height: f64,
    /// True if a row above the plot is reserved for values that do not fit into it.
    pub(crate) values_above: bool,
    /// True if it does not share its horizontal axis with the next plot, and so has labels below it.
    pub(crate) own_x: bool,
}

impl Slot {
    /// Returns a plot of this height, in logical pixels.
    pub(crate) const fn of(height: f64) -> Self {
        Self { height, values_above: false, own_x: false }
    }
}

impl Frame {
    /// Lays out a chart of a run: headline, subtitle, plots with `right` logical pixels to the right of each, and the
    /// legend.
    pub(crate) fn new(scene: &Scene<'_>, slots: &[Slot], right: f64, legend: Vec<Entry>) -> Self {
        let (run, format) = (scene.run, scene.format);
        let width = f64::from(scene.width);
        let about = match format {
            Format::Report => about(run, width - 2.0 * EDGE),
            Format::Slide => brief(run, width - 2.0 * EDGE),
        };
        let slo = run.tiers.iter().map(|t| words::slo(t) + &tier_name(run, t.tier()));
        let slo = slo.collect::<Vec<_>>().join("; ");
        let slo = if slo.is_empty() { "none".into() } else { slo };
        let version = &run.meta.goodput_version;
        let plan = match format {
            Format::Report => format!(" · plan: {}", clip(&run.name, 50)),
            Format::Slide => String::new(),
        };
        // An SLO is never cut: what was promised must be readable.
        let foot = format!("SLO: {}{plan} · goodput {version}", plain(&slo));
        let titles = Titles { head: scene.message.to_owned(), about, foot };
        Self::titled(&titles, format, scene.width, slots, right, legend)
    }

    /// Lays out a chart with the given titles, `pixels` logical pixels wide.
    pub(crate) fn titled(
        titles: &Titles,
        format: Format,
        pixels: u32,
        slots: &[Slot],
        right: f64,
        legend: Vec<Entry>,
    ) -> Self {
        let width = f64::from(pixels);
        let (face, head) = fitted(&titles.head, width - 2.0 * EDGE);
        let (small, about) = &titles.about;
        let legend = rows(legend, left(format), width - EDGE);
        let foot = Foot::new(&titles.foot, format, width - 2.0 * EDGE);
        let below = 18.0 * (legend.len().max(1) - 1) as f64 + foot.more_height();
        let top = if format == Format::Slide { 31.0 } else { 36.0 };
        let y = top + 23.0 * head.len() as f64 + 16.0 * (about.len() - 1) as f64;
        let (areas, height) = match format {
            Format::Report => {
                let (areas, y) = stacked(slots, y, width - LEFT - right);
                (areas, (y + LEGEND + below + 44.0).ceil())
            }
            Format::Slide => {
                let height = f64::from(format.height());
                (side_by_side(slots, y + 3.0, height - LEGEND - below - 22.0, right), height)
            }
        };
        let mut canvas = Canvas::new(pixels, height as u32);
        let mut y = top;
        for line in &head {
            canvas.text((EDGE, y), Align::Left, &face, line);
            y += 23.0;
        }
        for (i, line) in about.iter().enumerate() {
            canvas.text((EDGE, y - 1.0 + 16.0 * i as f64), Align::Left, small, line);
        }
        canvas.head = y - 1.0 + 16.0 * about.len().saturating_sub(1) as f64 + 5.0;
        Self { canvas, areas, slots: slots.to_vec(), format, legend, foot, notes: Vec::new() }
    }

    /// Returns the width of the picture, in logical pixels.
    pub(crate) fn width(&self) -> f64 {
        f64::from(self.canvas.size.0)
    }

    /// Draws heading, grid and axes of plot `number`; `x_title` goes under the last plot, on a slide under each.
    pub(crate) fn axes(
        &mut self,
        number: usize,
        plot: &Plot,
        heading: &str,
        notes: &[String],
        x_title: &str,
    ) {
        let a = plot.area;
        let slide = self.format == Format::Slide;
        let row = |(i, s): (usize, &Slot)| s.values_above && (slide || i == number);
        let above = self.slots.iter().enumerate().any(row);
        let raise = if above { 12.0 + VALUES } else { 12.0 };
        let own_x = self.slots.get(number).is_some_and(|s| s.own_x);
        let last = own_x || number + 1 == self.areas.len() || self.format == Format::Slide;
        let end = if self.format == Format::Slide { a.right() + 30.0 } else { self.width() - EDGE };
        let c = &mut self.canvas;
        let bold = Type::bold(12.0, rgb(0x333333));
        let x = a.x - HANG;
        c.text((x, a.y - raise), Align::Left, &bold, &ellipsis(&bold, heading, end - x));
        let after = x + bold.width(heading) + 10.0;
        // Notes that do not fit go to the footer of the picture.
        let whole = notes.join("; ");
        let fits = |size: f64| after + Type::book(size, GREY).width(&whole) <= end;
        let size = [11.0, 10.5, 10.0].into_iter().find(|s| fits(*s));
        let book = Type::book(size.unwrap_or(11.0), GREY);
        let mut kept = String::new();
        for part in notes {
            let longer = if kept.is_empty() { part.clone() } else { format!("{kept}; {part}") };
            if after + book.width(&longer) <= end {
                kept = longer;
            } else if !self.notes.contains(part) {
                self.notes.push(part.clone());
            }
        }
        if !kept.is_empty() {
            c.text((after, a.y - raise), Align::Left, &book, &kept);
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

    /// Draws the lines of the axes; call it after shaded areas are drawn.
    pub(crate) fn spines(&mut self, plot: &Plot) {
        let a = plot.area;
        self.canvas.stroke((a.x, a.y), (a.x, a.bottom()), 1.1, GREY);
        self.canvas.stroke((a.x - 0.5, a.bottom()), (a.right(), a.bottom()), 1.1, GREY);
    }

    /// Draws legend and footer.
    pub(crate) fn finish(mut self, hue: Hue) -> Canvas {
        let Some(lowest) = self.areas.iter().map(Rect::bottom).max_by(f64::total_cmp) else {
            return self.canvas;
        };
        let mut y = lowest + LEGEND;
        for (i, row) in self.legend.iter().enumerate() {
            y += if i == 0 { 0.0 } else { 18.0 };
            let mut x = left(self.format);
            for entry in row {
                entry.draw(&mut self.canvas, (x, y), hue.dark);
                x += entry.width() + GAP;
            }
        }
        self.finish_foot(y)
    }

    /// Draws the footer below the legend, whose last row is at `y`: notes first, as far as a slide has room for them.
    fn finish_foot(mut self, y: f64) -> Canvas {
        let room = self.width() - 2.0 * EDGE;
        let notes = self.notes.join("; ");
        let mut y = y + if self.format == Format::Slide { 16.0 } else { 30.0 };
        let Foot { mut face, mut lines, has_room_for_notes } = self.foot;
        match (self.format, &mut lines[..]) {
            _ if notes.is_empty() => {}
            (Format::Slide, _) if has_room_for_notes => lines.insert(0, ellipsis(&face, &notes, room)),
            (Format::Slide, [.., last]) => {
                let both = format!("{notes} · {last}");
                let size = [9.5, 9.0, 8.5].into_iter().find(|s| face.sized(*s).width(&both) <= room);
                face = face.sized(size.unwrap_or(8.5));
                let left = room - face.width(&format!(" · {last}"));
                *last = format!("{} · {last}", ellipsis(&face, &notes, left));
            }
            (Format::Slide, []) => {}
            (Format::Report, _) => {
                let all = wrap(&face, &notes, room, usize::MAX);
                self.canvas.size.1 += (FOOT_LINE * all.len() as f64).ceil() as u32;
                lines.splice(0..0, all);
            }
        }
        for line in lines {
            self.canvas.text((EDGE, y), Align::Left, &face, &line);
            y += FOOT_LINE;
        }
        self.canvas
    }
}

/// The footer of a picture.
struct Foot {
    face: Type,
    /// Lines that fit into the picture.
    lines: Vec<String>,
    /// True if a line above them is free for notes: on a slide whose last line has no room for any.
    has_room_for_notes: bool,
}

impl Foot {
    /// Breaks a footer into lines; on a slide it gets smaller type before it takes a second line.
    fn new(text: &str, format: Format, room: f64) -> Self {
        let sizes: &[f64] = match format {
            Format::Slide => &[9.5, 9.0, 8.5],
            Format::Report => &[9.5],
        };
        let size = sizes.iter().copied().find(|s| FOOT.sized(*s).width(text) <= room);
        let face = FOOT.sized(size.or(sizes.last().copied()).unwrap_or(FOOT.size));
        let lines = wrap(&face, text, room, usize::MAX);
        let last = lines.last().map_or(0.0, |l| face.width(l));
        Self { face, lines, has_room_for_notes: format == Format::Slide && last > NOTES * room }
    }

    /// Returns the height beyond that of one line.
    fn more_height(&self) -> f64 {
        FOOT_LINE * (self.lines.len() + usize::from(self.has_room_for_notes)).saturating_sub(1) as f64
    }
}

/// Returns the left edge of the legend.
const fn left(format: Format) -> f64 {
    match format {
        Format::Slide => EDGE,
        Format::Report => LEFT,
    }
}

/// Distance between two entries of the legend.
pub(crate) const GAP: f64 = 22.0;

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

/// Returns the title of the axis of levels, with its unit.
pub(crate) const fn level_title(control: Control) -> &'static str {
    match control {
        Control::Rate => "offered rate, requests/s",
        Control::Concurrency => "requests in flight (closed loop)",
        Control::Sessions => "sessions started per second",
        Control::TraceScale => "speed of the trace, × recorded",
    }
}

/// Returns the full name of a metric.
pub(crate) const fn metric_title(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => "Time to first token (TTFT)",
        Metric::Ttfc => "Time to first content token (TTFC)",
        Metric::Tpot => "Time per output token (TPOT)",
        Metric::Itl => "Gap between events with tokens (ITL)",
        Metric::E2e => "Time to the whole answer (e2e)",
        Metric::Rtf => "Time per second of audio (RTF)",
    }
}

/// Returns a horizontal axis with room for all values. Counts get no ticks between whole numbers.
pub(crate) fn x_axis(control: Control, across: Across, values: impl Iterator<Item = f64>) -> Axis {
    let axis = Axis::upto(values.filter(|v| v.is_finite()).fold(0.0, f64::max) * 1.06, 8.0);
    let whole = control == Control::Concurrency && across == Across::Offered;
    // 2.5 becomes 5.
    let step = match axis.step.max(1.0) {
        _ if !whole => axis.step,
        step if step.fract() > 0.0 => 2.0 * step,
        step => step,
    };
    Axis { step, ..axis }
}
