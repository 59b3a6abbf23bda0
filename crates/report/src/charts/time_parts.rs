//! Where the time of the median request of each row of a matrix goes: a bar of parts, in per cent of the latency that the row asks about.

use super::draw::{
    Align, Axis, Canvas, Entry, Frame, Hue, Plot, Rect, Scale, Scene, Slot, Type, ellipsis, overlaid, rgb,
};
use crate::escape::clip;
use crate::words;
use goodput_core::slo::AnswerPart;
use goodput_run::rundir::matrix::{Parts, RowAnswer};
use goodput_run::rundir::{Run, Traces};

/// Height of a row: its name above its bar.
const ROW: f64 = 38.0;
/// Height of a bar.
const BAR: f64 = 13.0;
/// Longest name of a row, in characters.
const NAME: usize = 40;
/// Distance between the name of a row and its figures.
const GAP: f64 = 10.0;

/// A part of a latency, in the order of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Overhead,
    Prefill,
    Queue,
    Decode,
    Batching,
}

impl Part {
    const ALL: [Self; 5] = [Self::Overhead, Self::Prefill, Self::Queue, Self::Decode, Self::Batching];

    const fn name(self) -> &'static str {
        match self {
            Self::Overhead => "overhead",
            Self::Prefill => "reading the prompt",
            Self::Queue => "waiting",
            Self::Decode => "writing alone",
            Self::Batching => "slowed down by others",
        }
    }

    /// Returns its duration in milliseconds.
    fn of(self, p: &Parts) -> f64 {
        match self {
            Self::Overhead => p.overhead.unwrap_or(0.0),
            Self::Prefill => p.prefill,
            Self::Queue => p.queue,
            Self::Decode => p.decode,
            Self::Batching => p.batching,
        }
    }

    /// Returns true if it counts for a metric.
    const fn counts_for(self, part: AnswerPart) -> bool {
        let is_first = matches!(self, Self::Overhead | Self::Prefill | Self::Queue);
        match part {
            AnswerPart::First => is_first,
            AnswerPart::Pace => !is_first,
            AnswerPart::Whole => true,
        }
    }

    /// Returns its place among the colours of overlaid series.
    const fn colour(self) -> usize {
        match self {
            Self::Overhead => 4,
            Self::Prefill => 0,
            Self::Queue => 1,
            Self::Decode => 2,
            Self::Batching => 3,
        }
    }
}

/// Returns the parts of the latency of a row that take time, in milliseconds.
fn parts(row: &RowAnswer) -> Vec<(Part, f64)> {
    let Some(p) = &row.parts else { return Vec::new() };
    let own = Part::ALL.into_iter().filter(|part| part.counts_for(row.metric.part()));
    own.map(|part| (part, part.of(p))).filter(|(_, ms)| *ms > 0.0).collect()
}

/// Returns true if any row has known parts.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    run.matrix.iter().any(|r| !parts(r).is_empty())
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let rows: Vec<(&RowAnswer, Vec<(Part, f64)>)> =
        scene.run.matrix.iter().map(|r| (r, parts(r))).filter(|(_, p)| !p.is_empty()).collect();
    let shown = Part::ALL.into_iter().filter(|part| rows.iter().any(|(_, p)| p.iter().any(|q| q.0 == *part)));
    let legend = shown.map(|p| Entry::Series(overlaid(p.colour()).dark, p.name().to_owned())).collect();
    let slot = Slot::of(ROW * rows.len() as f64 + 6.0);
    let mut frame = Frame::new(scene, &[slot], 40.0, legend);
    let y = Axis { min: 0.0, max: rows.len() as f64, step: 1.0, scale: Scale::Rows };
    let plot = Plot { area: frame.areas[0], x: Axis::upto(100.0, 5.0), y };
    let notes = ["of the latency that the row asks about".to_owned()];
    frame.axes(0, &plot, "Where the time of the median request goes", &notes, "% of the latency");
    frame.spines(&plot);
    for (i, (row, parts)) in rows.iter().enumerate() {
        draw_row(&mut frame.canvas, &plot, i, (row, parts));
    }
    frame.finish(Hue::INK)
}

fn draw_row(c: &mut Canvas, plot: &Plot, number: usize, (row, parts): (&RowAnswer, &[(Part, f64)])) {
    let a = plot.area;
    let h = a.h / plot.y.max.max(1.0);
    let bar = Rect { y: a.y + h * (number + 1) as f64 - BAR - 3.0, h: BAR, ..a };
    let (bold, book) = (Type::bold(11.5, rgb(0x333333)), Type::book(11.0, rgb(0x333333)));
    let name = ellipsis(&bold, &clip(&row.row, NAME), 0.5 * a.w);
    c.text((a.x + 5.0, bar.y - 5.0), Align::Left, &bold, &name);
    let total: f64 = parts.iter().map(|p| p.1).sum();
    let after = a.x + 5.0 + bold.width(&name) + GAP;
    let said = told(row, parts, total);
    c.text((after, bar.y - 5.0), Align::Left, &book, &ellipsis(&book, &said, a.right() + 30.0 - after));
    let mut from = 0.0;
    for (part, ms) in parts {
        let to = from + 100.0 * ms / total;
        let (x, right) = (plot.at_x(from), plot.at_x(to));
        let own = Rect { x, w: right - x, ..bar };
        c.fill(&own, overlaid(part.colour()).dark.into());
        c.hint_over(
            own,
            format!(
                "{} · {} {} ({})",
                clip(&row.row, NAME),
                part.name(),
                words::latency(*ms),
                share(*ms / total)
            ),
        );
        from = to;
    }
}

fn share(x: f64) -> String {
    format!("{} %", words::figure((1000.0 * x).round() / 10.0))
}

/// Returns the latency, its largest part, and whether that was expected: `e2e 744 ms · writing alone 98.8 % · decode expected`.
fn told(row: &RowAnswer, parts: &[(Part, f64)], total: f64) -> String {
    let what = match row.metric.part() {
        AnswerPart::First => "TTFT",
        AnswerPart::Pace => "after the first token",
        AnswerPart::Whole => "e2e",
    };
    let largest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let largest = largest.map(|(part, ms)| format!("{} {}", part.name(), share(ms / total)));
    let held = match (row.held, row.expected) {
        (Some(true), Some(expected)) => Some(format!("{expected}, as expected")),
        (Some(false), Some(expected)) => {
            row.measured.map(|measured| format!("{measured}, where {expected} was expected"))
        }
        _ => row.measured.map(|measured| measured.to_string()),
    };
    let all =
        [Some(format!("{what} {}", words::latency(total))), largest, held.map(|h| format!("set by {h}"))];
    all.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
