//! How long prompts and answers were.

use super::Scene;
use super::axis::Axis;
use super::canvas::Canvas;
use super::curves::hue_of;
use super::frame::{Frame, Slot};
use super::trace::histogram;
use crate::distribution::Distribution;
use crate::rundir::{Run, Traces};

/// Lengths that differ, and are known.
fn known(run: &Run) -> Vec<(&'static str, &Distribution)> {
    let Some(sent) = &run.meta.sent else { return Vec::new() };
    let all = [("Prompts", sent.input.as_ref()), ("Answers", sent.output.as_ref())];
    all.into_iter().filter_map(|(what, d)| Some((what, d?))).collect()
}

/// Where all are alike there is nothing to draw.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    run.parts.is_empty() && known(run).iter().any(|(_, d)| d.bars.len() > 1)
}

/// A histogram of each, on one axis, so that they compare.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let all = known(scene.run);
    let slots = vec![Slot { height: 150.0, values_above: false, own_x: true }; all.len()];
    let mut frame = Frame::new(scene, &slots, 30.0, Vec::new());
    let least = all.iter().filter_map(|(_, d)| d.bars.first()).map(|b| b.from).min().unwrap_or(1).max(1);
    let most = all.iter().filter_map(|(_, d)| d.bars.last()).map(|b| b.to).max().unwrap_or(10);
    let x = Axis::log(least as f64 * 0.9, most as f64 * 1.05);
    for (i, (what, d)) in all.into_iter().enumerate() {
        histogram(&mut frame, i, (what, d), x, hue_of(i));
    }
    frame.finish(hue_of(0))
}
