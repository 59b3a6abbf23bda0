//! Server metrics against the level: queue, KV cache, preemptions, and prefix cache hits.

use super::draw::{
    Across, Axis, Canvas, Curve, Dot, LevelChart, LevelPlot, Mark, Scene, Series, Symbol, charted, of_step,
    radius, steady, widest_name,
};
use crate::words;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// A value of a step, if the server reports it.
type Value = fn(&Step) -> Option<f64>;

/// One plot: its heading, its lines (the first in the foreground), and true if it shows a share.
struct Panel {
    heading: &'static str,
    lines: &'static [(&'static str, Value)],
    is_share: bool,
}

/// The plots, from the top.
const PANELS: [Panel; 4] = [
    Panel {
        heading: "Requests waiting in the server",
        lines: &[("most", |s| s.server.waiting_max), ("mean", |s| s.server.waiting_mean)],
        is_share: false,
    },
    Panel {
        heading: "KV cache in use, %",
        lines: &[("most", |s| s.server.kv_max), ("mean", |s| s.server.kv_mean)],
        is_share: true,
    },
    Panel { heading: "Preemptions of requests, %", lines: &[("", words::preempted)], is_share: true },
    Panel {
        heading: "Prompt tokens from the prefix cache, %",
        lines: &[("", |s| s.server.hit_rate)],
        is_share: true,
    },
];

/// A value of an overloaded step above this multiple of the highest steady value is named instead of drawn.
const FAR: f64 = 3.0;

impl Panel {
    fn value(&self, s: &Step, of: Value) -> Option<f64> {
        of(s).map(|v| if self.is_share { 100.0 * v } else { v })
    }

    /// Returns the tooltip of a step with its value in this plot.
    fn hint(&self, s: &Step, name: &str, of: Value) -> String {
        let what = [self.heading.trim_end_matches(", %"), name].join(" ");
        let unit = if self.is_share { " %" } else { "" };
        let value = self.value(s, of).map(|v| format!("{}: {}{unit}", what.trim_end(), words::figure(v)));
        of_step(s, value, Mark::of(s))
    }

    /// Returns true if any step reports it. A metric that is zero throughout is not drawn, except the queue and the KV
    /// cache.
    fn is_reported(&self, run: &Run) -> bool {
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
        let top =
            if calm > 0.0 && wild > FAR * calm && !self.is_share { 1.15 * calm } else { wild.max(calm) };
        match (self.is_share, top) {
            (true, top) if top > 45.0 => Axis::upto(100.0_f64.max(top) * 1.06, 4.0),
            (_, top) => Axis::upto(if top > 0.0 { top * 1.2 } else { 1.0 }, 4.0),
        }
    }

    /// Returns the plot for some curves; of several, only the first line of each, since more could not be distinguished.
    fn plot(&self, curves: &[Curve<'_>], radius: f64) -> LevelPlot {
        let steps: Vec<&Step> = curves.iter().flat_map(|c| c.steps.iter().copied()).collect();
        let y = self.axis(&steps);
        let lines = if curves.len() > 1 { &self.lines[..1] } else { self.lines };
        let line = |curve: &Curve<'_>, i: usize, (name, of): (&str, Value)| {
            let at = |s: &Step| Some((Across::Offered.of(s), self.value(s, of)?));
            let dot = |s: &&Step| {
                let at = at(s)?;
                let symbol = if i == 0 { Symbol::Mark(Mark::of(s), radius) } else { Symbol::Disc(2.6) };
                // Beyond the axis the first line represents the others.
                (i == 0 || at.1 <= y.max).then(|| Dot {
                    at,
                    symbol,
                    hint: self.hint(s, name, of),
                    beyond: Some(at.1),
                })
            };
            let (colour, text) = match i {
                0 => (curve.hue.dark, curve.hue.dark),
                _ => (curve.hue.middle, curve.hue.middle_text),
            };
            let name = if curves.len() > 1 { curve.name.clone() } else { name.to_owned() };
            let tail = if i == 0 { curve.tail(Across::Offered, at) } else { Vec::new() };
            Series {
                line: curve.joined(Across::Offered).into_iter().filter_map(at).collect(),
                tail,
                dots: curve.steps.iter().filter_map(dot).collect(),
                width: if i == 0 { 2.2 } else { 1.6 },
                ..Series::new(colour).named(name, text)
            }
        };
        let series = curves
            .iter()
            .flat_map(|curve| lines.iter().enumerate().rev().map(move |(i, of)| line(curve, i, *of)))
            .collect();
        LevelPlot { height: 118.0, says_answer: false, ..LevelPlot::new(self.heading, y, series) }
    }
}

/// Returns true if the server reported a metric for a step in the chart.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    PANELS.iter().any(|p| p.is_reported(run)) && charted(run).count() > 1
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let mut chart = LevelChart::new(scene, Across::Offered);
    let reported = PANELS.iter().filter(|p| p.is_reported(run));
    let mut plots: Vec<LevelPlot> = reported.map(|p| p.plot(&chart.curves, radius(run))).collect();
    plots[0].notes.extend(chart.afar.clone());
    chart.right = 22.0 + widest_name(&plots);
    chart.finished(&plots, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn only_what_the_server_tells_is_drawn() {
        let none = Traces::default();
        let reported = |run: &Run| PANELS.iter().map(|p| p.is_reported(run)).collect::<Vec<_>>();
        assert!(!applies(&fixture::found(), &none));
        let mut run = fixture::served();
        assert_eq!((applies(&run, &none), reported(&run)), (true, vec![true; 4]));
        for s in &mut run.steps {
            (s.server.preemptions, s.server.hit_rate) = (Some(0.0), None);
            s.server.waiting_max = Some(0.0);
            s.server.waiting_mean = Some(0.0);
        }
        assert_eq!(
            reported(&run),
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
        assert!(PANELS[0].axis(&steps).max < 10.0);
        let svg = super::super::CHARTS.iter().find(|c| c.name == "server").unwrap();
        let svg = svg.picture(&run, &Traces::default(), &super::super::Look::default()).svg();
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
