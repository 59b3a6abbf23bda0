//! Where the time of the median request of each row of a matrix goes: a bar of parts, in per cent of the latency that the row asks about.

use super::draw::{
    Align, Axis, Canvas, Entry, Frame, Hue, Plot, Rect, Scale, Scene, Slot, Type, ellipsis, overlaid, rgb,
};
use crate::escape::clip;
use crate::words::{self, latency_part::LatencyComponent};
use goodput_core::slo::AnswerPart;
use goodput_plan::Bottleneck;
use goodput_run::rundir::matrix::RowAnswer;
use goodput_run::rundir::{Run, Traces};

/// Height of a row: its name above its bar.
const ROW: f64 = 38.0;
/// Height of a bar, and its share of a low row.
const BAR: f64 = 13.0;
const SHARE: f64 = 0.34;
/// Longest name of a row, in characters.
const NAME: usize = 40;
/// Distance between the name of a row and its figures.
const GAP: f64 = 10.0;

impl LatencyComponent {
    /// Returns the part that a bottleneck is; `None` for the cache, which saves time.
    const fn behind(bottleneck: Bottleneck) -> Option<Self> {
        Some(match bottleneck {
            Bottleneck::Overhead => Self::Overhead,
            Bottleneck::Prefill => Self::Prefill,
            Bottleneck::Queue => Self::Queue,
            Bottleneck::Decode => Self::Decode,
            Bottleneck::Batching => Self::Batching,
            Bottleneck::Cache => return None,
        })
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
fn parts(row: &RowAnswer) -> Vec<(LatencyComponent, f64)> {
    let Some(p) = &row.parts else { return Vec::new() };
    let own = LatencyComponent::ALL.into_iter().filter(|part| part.counts_for(row.metric.part()));
    own.map(|part| (part, part.duration_ms(p))).filter(|(_, ms)| *ms > 0.0).collect()
}

/// Returns true if any row has known parts.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    run.matrix.iter().any(|r| !parts(r).is_empty())
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let rows: Vec<(&RowAnswer, Vec<(LatencyComponent, f64)>)> =
        scene.run.matrix.iter().map(|r| (r, parts(r))).filter(|(_, p)| !p.is_empty()).collect();
    let shown = LatencyComponent::ALL
        .into_iter()
        .filter(|part| rows.iter().any(|(_, p)| p.iter().any(|q| q.0 == *part)));
    let legend = shown.map(|p| Entry::Series(overlaid(p.colour()).dark, p.name().to_owned())).collect();
    let slot = Slot::of(ROW * rows.len() as f64 + 6.0);
    let mut frame = Frame::new(scene, &[slot], 40.0, legend);
    let y = Axis { min: 0.0, max: rows.len() as f64, step: 1.0, scale: Scale::Rows };
    let plot = Plot { area: frame.areas[0], x: Axis::upto(100.0, 5.0), y };
    let notes = ["of the latency that the row asks about".to_owned()];
    frame.axes(0, &plot, "Where the time of the median request goes", &notes, "% of the latency");
    frame.spines(&plot);
    for (i, (row, parts)) in rows.iter().enumerate() {
        draw_row(&mut frame.canvas, &plot, i, row, parts);
    }
    frame.finish(Hue::INK)
}

fn draw_row(c: &mut Canvas, plot: &Plot, number: usize, row: &RowAnswer, parts: &[(LatencyComponent, f64)]) {
    let a = plot.area;
    let h = a.h / plot.y.max.max(1.0);
    let high = (SHARE * h).min(BAR);
    let bar = Rect { y: a.y + h * (number + 1) as f64 - high - 2.0, h: high, ..a };
    // A slide with many rows has less room for each.
    let size = (0.45 * h).clamp(8.5, 11.5);
    let (bold, book) = (Type::bold(size, rgb(0x333333)), Type::book(size - 0.5, rgb(0x333333)));
    let name = ellipsis(&bold, &clip(&row.row, NAME), 0.5 * a.w);
    let baseline = bar.y - 0.11 * h;
    c.text((a.x + 5.0, baseline), Align::Left, &bold, &name);
    let total: f64 = parts.iter().map(|p| p.1).sum();
    let after = a.x + 5.0 + bold.width(&name) + GAP;
    let said = told(row, parts, total);
    c.text((after, baseline), Align::Left, &book, &ellipsis(&book, &said, a.right() + 30.0 - after));
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

/// Returns the latency, the part that sets it, and whether that was expected: `e2e 744 ms · writing alone 98.8 % · decode, as expected`.
fn told(row: &RowAnswer, parts: &[(LatencyComponent, f64)], total: f64) -> String {
    let what = match row.metric.part() {
        AnswerPart::First => "TTFT",
        AnswerPart::Pace => "after the first token",
        AnswerPart::Whole => "e2e",
    };
    let part = row.measured.and_then(LatencyComponent::behind);
    let part = part.and_then(|part| parts.iter().find(|p| p.0 == part));
    let part = part.map(|(part, ms)| format!("{} {}", part.name(), share(ms / total)));
    let saved =
        row.parts.and_then(|p| p.saved).filter(|ms| row.measured == Some(Bottleneck::Cache) && *ms > 0.0);
    let saved = saved.map(|ms| format!("the cache saves {}", words::latency(ms)));
    let held = match (row.held, row.expected) {
        (Some(true), Some(expected)) => Some(format!("{expected}, as expected")),
        (Some(false), Some(expected)) => {
            row.measured.map(|measured| format!("{measured}, where {expected} was expected"))
        }
        _ => row.measured.map(|measured| measured.to_string()),
    };
    let all = [Some(format!("{what} {}", words::latency(total))), part.or(saved), held];
    all.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Returns what sets the latency of how many rows: `Batching sets the latency of 4 rows, decode of 2 and prefill of 1`.
pub(super) fn message(run: &Run) -> Option<String> {
    let mut counts: Vec<(Bottleneck, usize)> = Vec::new();
    for measured in run.matrix.iter().filter_map(|r| r.measured) {
        match counts.iter_mut().find(|(b, _)| *b == measured) {
            Some((_, n)) => *n += 1,
            None => counts.push((measured, 1)),
        }
    }
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let (first, n) = counts.first()?;
    let rows = if *n == 1 { "row" } else { "rows" };
    let mut said = vec![format!("{} sets the latency of {n} {rows}", words::capital(&first.to_string()))];
    said.extend(counts[1..].iter().map(|(b, n)| format!("{b} of {n}")));
    Some(words::list(&said))
}
