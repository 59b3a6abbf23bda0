//! The lengths of prompts and answers.

use super::draw::{Axis, Canvas, Frame, Scene, Slot, hue_of};
use super::trace::histogram;
use crate::escape::clip;
use goodput_core::distribution::Distribution;
use goodput_core::slo::ALL;
use goodput_run::rundir::{Run, Traces};

/// A histogram on less than this share of an axis shows no shape.
const LEAST_SHARE: f64 = 0.25;

/// Returns the axis of a single distribution.
pub(super) fn own_axis(d: &Distribution) -> Axis {
    let [from, to] = [d.bars.first().map(|b| b.from), d.bars.last().map(|b| b.to)];
    lengths_axis(from.unwrap_or(1), to.unwrap_or(10))
}

/// Returns an axis of lengths: logarithmic if they differ by more than a factor of 4, else linear and not necessarily
/// from zero.
pub(super) fn lengths_axis(least: u64, most: u64) -> Axis {
    let (least, most) = (least.max(1) as f64, most.max(2) as f64);
    if most > 4.0 * least { Axis::log(least * 0.9, most * 1.05) } else { Axis::between(least, most, 6.0) }
}

/// Maximum number of histograms.
const MOST: usize = 8;

/// Returns true if lengths differ by more than a tenth.
fn differ(d: &Distribution) -> bool {
    let ends = d.bars.first().zip(d.bars.last());
    d.bars.len() > 1 && ends.is_some_and(|(a, b)| b.to as f64 > 1.1 * a.from.max(1) as f64)
}

/// Returns the lengths that differ: of all requests or of each class, in each series shown.
fn known(run: &Run) -> Vec<(String, &Distribution)> {
    let mut all = Vec::new();
    for s in &run.meta.sent {
        let classes = run.meta.sent.iter().filter(|other| other.series == s.series).count() > 1;
        // With classes, each class is drawn instead of the total.
        if classes && s.class == ALL {
            continue;
        }
        let of = if classes { format!(" of {}", clip(&s.class, 24)) } else { String::new() };
        let several = run.meta.sent.iter().any(|other| other.series != s.series);
        let within = if several { format!(", {}", clip(&s.series, 24)) } else { String::new() };
        for (what, d) in [("Prompts", &s.input), ("Answers", &s.output)] {
            let d = d.as_ref().filter(|d| differ(d));
            all.extend(d.map(|d| (format!("{what}{of}{within}"), d)));
        }
    }
    all.truncate(MOST);
    all
}

/// Returns true for a run of one series whose lengths differ.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    run.parts.is_empty() && !known(run).is_empty()
}

/// Draws a histogram of each: on one axis for comparison, unless that would make one of them too narrow to read.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let all = known(scene.run);
    let height = if all.len() > 4 { 90.0 } else { 150.0 };
    let slots = vec![Slot { own_x: true, ..Slot::of(height) }; all.len()];
    let mut frame = Frame::new(scene, &slots, 30.0, Vec::new());
    let least = all.iter().filter_map(|(_, d)| d.bars.first()).map(|b| b.from).min().unwrap_or(1).max(1);
    let most = all.iter().filter_map(|(_, d)| d.bars.last()).map(|b| b.to).max().unwrap_or(10);
    let whole = lengths_axis(least, most);
    let read = |d: &Distribution| {
        let ends = d.bars.first().zip(d.bars.last());
        ends.is_some_and(|(a, b)| whole.share(b.to as f64) - whole.share(a.from.max(1) as f64) >= LEAST_SHARE)
    };
    let together = all.iter().all(|(_, d)| read(d));
    for (i, (what, d)) in all.into_iter().enumerate() {
        let x = if together { whole } else { own_axis(d) };
        histogram(&mut frame, i, &what, d, x, hue_of(usize::from(what.starts_with("Answers"))));
    }
    frame.finish(hue_of(0))
}
