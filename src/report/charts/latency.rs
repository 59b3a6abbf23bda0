//! Latency against achieved throughput or against the offered rate: a plot per metric, p50, p90 and p99 in three shades,
//! limits and goodput drawn in.

use super::axis::Plot;
use super::boundary::Boundary;
use super::canvas::{Canvas, Point};
use super::curves::{Mark, charted, control, curves, hue_of, without_afar};
use super::frame::{Frame, Slot, x_axis};
use super::panel::{Panel, end_width};
use super::throughput::level_title;
use super::{Format, Scene};
use crate::level::Control;
use crate::report::words;
use crate::rundir::{Run, Traces};
use crate::slo::Metric;
use crate::stats::step::{Step, StepKind};

/// What the horizontal axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Across {
    /// Requests per second that were completed.
    Achieved,
    /// The level: requests per second that were offered.
    Offered,
}

impl Across {
    /// The place of a step.
    pub(super) fn of(self, step: &Step) -> f64 {
        match self {
            Self::Achieved => step.achieved_rate,
            Self::Offered => step.level.value,
        }
    }
}

/// Whether any step has a latency of its own: one whose backlog grew has none.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let own = |s: &Step| Mark::of(s) != Mark::Overloaded;
    Metric::ALL.into_iter().any(|m| charted(run).any(|s| own(s) && s.quantiles(m).p50.is_some()))
}

/// Against the offered rate besides, where there is one: a closed loop offers none of its own.
pub(super) fn applies_offered(run: &Run, traces: &Traces) -> bool {
    control(run) != Control::Concurrency && applies(run, traces)
}

/// Draws the chart against achieved throughput.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    plots(scene, Across::Achieved)
}

/// Draws the chart against the offered rate.
pub(super) fn draw_offered(scene: &Scene<'_>) -> Canvas {
    plots(scene, Across::Offered)
}

fn plots(scene: &Scene<'_>, across: Across) -> Canvas {
    let run = scene.run;
    let mut curves = curves(run);
    let scale = levels(run);
    let boundary = match across {
        Across::Achieved => Boundary::new(run, |level| achieved_at(&scale, level), |k| k.throughput),
        Across::Offered => Boundary::new(run, |level| level, |k| k.rate),
    };
    let afar = match across {
        Across::Achieved => None,
        Across::Offered => without_afar(&mut curves, boundary.values()),
    };
    let mut metrics = metrics(run);
    if scene.format == Format::Slide {
        // Two fit; those with a limit tell more.
        metrics.sort_by_key(|m| !limited(run, *m));
        metrics.truncate(if curves.len() > 1 { 1 } else { 2 });
        metrics.sort();
    }
    let panels: Vec<Panel> = metrics.into_iter().map(|m| Panel::new(run, &curves, m, across)).collect();
    let height = [300.0, 300.0, 212.0, 172.0][panels.len().min(3)];
    let slots: Vec<Slot> =
        panels.iter().map(|p| Slot { height, values_above: p.clipped, own_x: false }).collect();
    let mut frame = Frame::new(scene, &slots, 24.0 + end_width(&curves), Mark::words);
    let all = curves.iter().flat_map(|c| &c.steps);
    let x = x_axis(all.map(|s| across.of(s)).chain(boundary.values()));
    let title = match (x_title(run, across), afar) {
        (title, Some(afar)) => format!("{title};  {afar}"),
        (title, None) => title,
    };
    for (i, panel) in panels.iter().enumerate() {
        let plot = Plot { area: frame.areas[i], x, y: panel.y };
        panel.draw(&mut frame, i, &plot, &curves, &boundary, &title);
        let mut taken = panel.obstacles(&plot, &curves);
        boundary.take(&mut taken, &plot);
        panel.label_ends(&mut frame.canvas, &plot, &curves, &mut taken);
        panel.label_limits(&mut frame.canvas, &plot, &mut taken);
        if i == 0 {
            boundary.label(&mut frame.canvas, &plot, &mut taken);
        }
        panel.label_unloaded(&mut frame.canvas, &plot, &mut taken);
    }
    frame.finish(curves.first().map_or(hue_of(0), |c| c.hue))
}

fn x_title(run: &Run, across: Across) -> String {
    let who = words::subject(&run.meta).replacen("One", "one", 1).replacen("The ", "the ", 1);
    match across {
        Across::Achieved => format!("achieved throughput, requests/s  ({who})"),
        Across::Offered => format!("{}  ({who})", level_title(control(run))),
    }
}

fn limited(run: &Run, metric: Metric) -> bool {
    run.tiers.iter().any(|t| t.limits().iter().any(|l| l.metric == metric))
}

/// TTFT and TPOT, and every other metric with a limit, where there are values; TTFT where there are none at all.
fn metrics(run: &Run) -> Vec<Metric> {
    let valued = |m: Metric| charted(run).any(|s| s.quantiles(m).p50.is_some());
    let wanted = |m: Metric| matches!(m, Metric::Ttft | Metric::Tpot) || limited(run, m);
    let found: Vec<Metric> = Metric::ALL.into_iter().filter(|m| wanted(*m) && valued(*m)).collect();
    if found.is_empty() { vec![Metric::Ttft] } else { found }
}

/// Levels and what was achieved there, ascending: levels are drawn where their steps lie.
fn levels(run: &Run) -> Vec<Point> {
    let Some(a) = run.answers.first() else { return Vec::new() };
    let mut pairs: Vec<Point> = words::steps_of(run, a)
        .iter()
        .filter(|s| s.kind != StepKind::Baseline)
        .map(|s| (s.level.value, s.achieved_rate))
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

fn achieved_at(levels: &[Point], level: f64) -> f64 {
    let above = levels.iter().position(|p| p.0 >= level - 1e-9);
    match above {
        Some(0) | None => {
            // Beyond what was measured, in proportion to the nearest step.
            let nearest = if above.is_none() { levels.last() } else { levels.first() };
            nearest.map_or(level, |(l, r)| if *l > 0.0 { level * r / l } else { level })
        }
        Some(i) => {
            let ((l0, r0), (l1, r1)) = (levels[i - 1], levels[i]);
            if l1 - l0 < 1e-12 { r1 } else { r0 + (r1 - r0) * (level - l0) / (l1 - l0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_lie_where_their_steps_are() {
        let levels = [(8.0, 4.0), (16.0, 6.0)];
        for (level, x) in [(8.0, 4.0), (12.0, 5.0), (16.0, 6.0), (32.0, 12.0), (4.0, 2.0)] {
            assert!((achieved_at(&levels, level) - x).abs() < 1e-9, "{level}");
        }
        assert!((achieved_at(&[], 5.0) - 5.0).abs() < 1e-9, "no step at all");
    }
}
