//! Server metrics against the level: queue, KV cache, preemptions, and prefix cache hits.

use super::axis::{Axis, Plot};
use super::beyond::together;
use super::boundary::Boundary;
use super::canvas::{Align, Canvas, Point, Type};
use super::curves::{Across, Curve, Mark, charted, control, curves, hue_of, radius, steady, without_afar};
use super::frame::{Frame, Slot, x_axis};
use super::hints::{REACH, of_step};
use super::legend::marks;
use super::place::{Taken, spread};
use super::scene::Scene;
use super::throughput::{end_face, label_ends, level_title};
use crate::escape::clip;
use crate::words;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;
use plotters::style::{RGBColor, WHITE};

/// A value of a step, if the server reports it.
type Of = fn(&Step) -> Option<f64>;

/// One plot: its heading, its lines (the first in the foreground), and true if it shows a share.
struct Panel {
    heading: &'static str,
    lines: &'static [(&'static str, Of)],
    share: bool,
}

/// The plots, from the top.
const PANELS: [Panel; 4] = [
    Panel {
        heading: "Requests waiting in the server",
        lines: &[("most", |s| s.server.waiting_max), ("mean", |s| s.server.waiting_mean)],
        share: false,
    },
    Panel {
        heading: "KV cache in use, %",
        lines: &[("most", |s| s.server.kv_max), ("mean", |s| s.server.kv_mean)],
        share: true,
    },
    Panel { heading: "Preemptions of requests, %", lines: &[("", words::preempted)], share: true },
    Panel {
        heading: "Prompt tokens from the prefix cache, %",
        lines: &[("", |s| s.server.hit_rate)],
        share: true,
    },
];

impl Panel {
    fn value(&self, s: &Step, of: Of) -> Option<f64> {
        of(s).map(|v| if self.share { 100.0 * v } else { v })
    }

    /// Returns true if a value lies beyond the axis.
    fn clipped(&self, steps: &[&Step]) -> bool {
        let top = self.axis(steps).max;
        let values = steps.iter().flat_map(|s| self.lines.iter().filter_map(|(_, of)| self.value(s, *of)));
        values.into_iter().any(|v| v > top)
    }

    /// Returns the tooltip of a step with its value in this plot.
    fn told_of(&self, s: &Step, name: &str, of: Of) -> String {
        let what = [self.heading.trim_end_matches(", %"), name].join(" ");
        let unit = if self.share { " %" } else { "" };
        let value = self.value(s, of).map(|v| format!("{}: {}{unit}", what.trim_end(), words::figure(v)));
        of_step(s, value, Mark::of(s))
    }

    /// Returns true if any step reports it. A metric that is zero throughout is not drawn, except the queue and the KV
    /// cache.
    fn told(&self, run: &Run) -> bool {
        let values = || charted(run).flat_map(|s| self.lines.iter().filter_map(move |(_, of)| of(s)));
        let always = self.heading.starts_with("Requests") || self.heading.starts_with("KV");
        values().any(|v| always || v > 0.0)
    }

    fn axis(&self, steps: &[&Step]) -> Axis {
        let most = |want: bool| {
            let own = steps.iter().filter(move |s| steady(s) == want);
            let all = own.flat_map(|s| self.lines.iter().filter_map(|(_, of)| self.value(s, *of)));
            all.fold(0.0, f64::max)
        };
        // The queue of a step whose backlog grew depends on how long the step ran: it would squash the values of steady
        // steps.
        let (calm, wild) = (most(true), most(false));
        let top = if calm > 0.0 && wild > FAR * calm && !self.share { 1.15 * calm } else { wild.max(calm) };
        match (self.share, top) {
            (true, top) if top > 45.0 => Axis::upto(100.0_f64.max(top) * 1.06, 4.0),
            (_, top) => Axis::upto(if top > 0.0 { top * 1.2 } else { 1.0 }, 4.0),
        }
    }
}

/// A value of an overloaded step above this multiple of the highest steady value is named instead of drawn.
const FAR: f64 = 3.0;

/// Returns true if the server reported a metric for a step in the chart.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    PANELS.iter().any(|p| p.told(run)) && charted(run).count() > 1
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let mut curves = curves(run);
    let boundary = Boundary::new(run, Across::Offered, scene.format);
    let afar = without_afar(&mut curves, boundary.values());
    let panels: Vec<&Panel> = PANELS.iter().filter(|p| p.told(run)).collect();
    let steps: Vec<&Step> = curves.iter().flat_map(|c| c.steps.iter().copied()).collect();
    let slot = |p: &&Panel| Slot { height: 118.0, values_above: p.clipped(&steps), own_x: false };
    let slots: Vec<Slot> = panels.iter().map(slot).collect();
    let names = curves.iter().map(|c| clip(c.series, 22));
    let names: Vec<String> =
        if curves.len() > 1 { names.collect() } else { vec!["most".into(), "mean".into()] };
    let widest = names.iter().map(|n| end_face(WHITE).width(n)).fold(0.0, f64::max);
    let mut legend = marks(curves.iter().flat_map(|c| &c.steps).map(|s| Mark::of(s)), Mark::words);
    legend.extend(boundary.entries());
    let mut frame = Frame::new(scene, &slots, 22.0 + widest, legend);
    let levels = curves.iter().flat_map(|c| &c.steps).map(|s| s.level.value);
    let x = x_axis(control(run), Across::Offered, levels.chain(boundary.values()));
    for (i, panel) in panels.iter().enumerate() {
        let notes: Vec<String> = afar.iter().filter(|_| i == 0).cloned().collect();
        draw_panel(&mut frame, (i, panel), &curves, (&boundary, x), (run, &notes));
    }
    frame.finish(curves.first().map_or(hue_of(0), |c| c.hue))
}

fn draw_panel(
    frame: &mut Frame,
    (number, panel): (usize, &Panel),
    curves: &[Curve<'_>],
    (boundary, x): (&Boundary, Axis),
    (run, notes): (&Run, &[String]),
) {
    let all: Vec<&Step> = curves.iter().flat_map(|c| c.steps.iter().copied()).collect();
    let plot = Plot { area: frame.areas[number], x, y: panel.axis(&all) };
    frame.axes(number, &plot, panel.heading, notes, level_title(control(run)));
    boundary.draw(&mut frame.canvas, &plot);
    frame.spines(&plot);
    let c = &mut frame.canvas;
    let mut taken = Taken::default();
    boundary.take(&mut taken, &plot);
    let mut ends: Vec<(Point, RGBColor, String)> = Vec::new();
    let mut beyond: Vec<Point> = Vec::new();
    for curve in curves {
        // With several series only the largest values: more lines could not be distinguished.
        let lines = if curves.len() > 1 { &panel.lines[..1] } else { panel.lines };
        for (i, (name, of)) in lines.iter().enumerate().rev() {
            let at = |s: &&Step| Some(plot.at(s.level.value, panel.value(s, *of)?.min(plot.y.max)));
            let line: Vec<Point> = curve.joined(Across::Offered).iter().filter_map(at).collect();
            let colour = if i == 0 { curve.hue.dark } else { curve.hue.middle };
            c.line(&line, if i == 0 { 2.2 } else { 1.6 }, colour);
            taken.line(&line, 3.0);
            for (p, step) in curve.steps.iter().filter_map(|s| Some((at(s)?, s))) {
                let value = panel.value(step, *of).filter(|v| *v > plot.y.max);
                if i > 0 && value.is_some() {
                    continue; // Its largest value says it.
                }
                beyond.extend(value.map(|v| (p.0, v)));
                if i == 0 {
                    Mark::of(step).draw(c, p, radius(run), colour);
                } else {
                    c.disc(p, 2.6, colour);
                }
                c.hint(p, REACH, panel.told_of(step, name, *of));
                taken.mark(p, 6.0);
            }
            let name = if curves.len() > 1 { clip(curve.series, 22) } else { (*name).to_owned() };
            let end = curve
                .joined(Across::Offered)
                .iter()
                .rev()
                .find_map(at)
                .or_else(|| curve.steps.iter().rev().find_map(at));
            let text = if i == 0 { colour } else { curve.hue.middle_text };
            ends.extend(end.filter(|_| !name.is_empty()).map(|end| (end, text, name)));
        }
    }
    name_beyond(c, &plot, &beyond);
    // The largest comes first if both end in one place.
    ends.reverse();
    label_ends(c, &plot, &ends, &mut taken);
}

/// Draws the values beyond the axis, above their steps.
fn name_beyond(c: &mut Canvas, plot: &Plot, beyond: &[Point]) {
    let face = Type::book(11.0, hue_of(0).dark);
    let labels = together(beyond, words::figure);
    let widest = labels.iter().map(|(_, t)| face.width(t)).fold(0.0, f64::max);
    let mut xs: Vec<f64> = labels.iter().map(|l| l.0).collect();
    spread(&mut xs, widest + 9.0, (plot.area.x + widest / 2.0, plot.area.right() + 22.0 - widest / 2.0));
    for (x, (_, text)) in xs.iter().zip(&labels) {
        c.text((*x, plot.area.y - 10.0), Align::Middle, &face, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn only_what_the_server_tells_is_drawn() {
        let none = Traces::default();
        let told = |run: &Run| PANELS.iter().map(|p| p.told(run)).collect::<Vec<_>>();
        assert!(!applies(&fixture::found(), &none));
        let mut run = fixture::served();
        assert_eq!((applies(&run, &none), told(&run)), (true, vec![true; 4]));
        for s in &mut run.steps {
            (s.server.preemptions, s.server.hit_rate) = (Some(0.0), None);
            s.server.waiting_max = Some(0.0);
            s.server.waiting_mean = Some(0.0);
        }
        assert_eq!(
            told(&run),
            [true, true, false, false],
            "nobody waited is news, nobody was preempted is none"
        );
    }

    #[test]
    fn a_queue_that_explodes_squashes_nothing() {
        let mut run = fixture::served();
        for s in &mut run.steps {
            s.server.waiting_max = Some(if steady(s) { 6.0 } else { 4_000.0 });
        }
        assert!(run.steps.iter().any(|s| !steady(s)));
        let steps: Vec<&Step> = charted(&run).collect();
        assert!(PANELS[0].axis(&steps).max < 10.0 && PANELS[0].clipped(&steps));
        let svg = super::super::CHARTS.iter().find(|c| c.name == "server").unwrap();
        let svg = svg.svg(&run, &Traces::default(), &super::super::Look::default());
        assert!(svg.contains("aria-label=\"↑ 4,000\""), "it is named");
    }

    #[test]
    fn preemptions_are_of_the_requests_that_were_finished() {
        let mut step = fixture::served().steps.swap_remove(0);
        (step.server.preemptions, step.server.finished) = (Some(5.0), Some(200.0));
        assert_eq!(words::preempted(&step), Some(0.025));
        (step.server.finished, step.server.seconds, step.achieved_rate) = (None, Some(10.0), 50.0);
        assert_eq!(words::preempted(&step), Some(0.01), "else of those that the client saw");
        step.server.preemptions = None;
        assert_eq!(words::preempted(&step), None);
    }
}
