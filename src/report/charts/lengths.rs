//! How long prompts and answers were.

use super::Scene;
use super::axis::Axis;
use super::canvas::Canvas;
use super::curves::hue_of;
use super::frame::{Frame, Slot};
use super::trace::histogram;
use crate::distribution::Distribution;
use crate::report::escape::clip;
use crate::rundir::{Run, Traces};
use crate::slo::ALL;

/// So many are drawn at most.
const MOST: usize = 8;

/// The lengths that differ: of all requests or of each class, in each series of what is shown.
fn known(run: &Run) -> Vec<(String, &Distribution)> {
    let mut all = Vec::new();
    for s in &run.meta.sent {
        let classes = run.meta.sent.iter().filter(|other| other.series == s.series).count() > 1;
        // All together are drawn as their classes.
        if classes && s.class == ALL {
            continue;
        }
        let of = if classes { format!(" of {}", clip(&s.class, 24)) } else { String::new() };
        let several = run.meta.sent.iter().any(|other| other.series != s.series);
        let within = if several { format!(", {}", clip(&s.series, 24)) } else { String::new() };
        for (what, d) in [("Prompts", &s.input), ("Answers", &s.output)] {
            let d = d.as_ref().filter(|d| d.bars.len() > 1);
            all.extend(d.map(|d| (format!("{what}{of}{within}"), d)));
        }
    }
    all.truncate(MOST);
    all
}

/// Where all are alike there is nothing to draw.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    run.parts.is_empty() && !known(run).is_empty()
}

/// A histogram of each, on one axis, so that they compare.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let all = known(scene.run);
    let slots =
        vec![
            Slot { height: if all.len() > 4 { 90.0 } else { 150.0 }, values_above: false, own_x: true };
            all.len()
        ];
    let mut frame = Frame::new(scene, &slots, 30.0, Vec::new());
    let least = all.iter().filter_map(|(_, d)| d.bars.first()).map(|b| b.from).min().unwrap_or(1).max(1);
    let most = all.iter().filter_map(|(_, d)| d.bars.last()).map(|b| b.to).max().unwrap_or(10);
    let x = Axis::log(least as f64 * 0.9, most as f64 * 1.05);
    for (i, (what, d)) in all.into_iter().enumerate() {
        histogram(&mut frame, i, (&what, d), x, hue_of(usize::from(what.starts_with("Answers"))));
    }
    frame.finish(hue_of(0))
}
