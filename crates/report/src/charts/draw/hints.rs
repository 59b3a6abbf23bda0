//! Tooltips of an SVG: a text with the values of each point, line and bar. A PNG has none.

use super::canvas::{Canvas, Point, Rect};
use super::mark::Mark;
use crate::escape::clip;
use crate::words;
use crate::words::thousands;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_plan::MAIN;
use goodput_stats::stats::step::{Quantiles, Step, StepKind};

/// A tooltip: a text with values, and the area that shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hint {
    /// The area that shows it.
    pub(crate) place: Place,
    /// The text, with ` · ` between its parts.
    pub(crate) text: String,
}

/// The area in which a tooltip appears.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// Around a point, within a radius.
    Around(Point, f64),
    /// Along a line.
    Along(Point, Point),
    /// Over a bar or an area.
    Over(Rect),
}

/// Radius around a point in which its tooltip appears, in logical pixels.
pub(crate) const REACH: f64 = 8.0;

impl Canvas {
    /// Adds a tooltip to a point.
    pub(crate) fn hint(&mut self, at: Point, radius: f64, text: String) {
        self.hints.push(Hint { place: Place::Around(at, radius), text });
    }

    /// Adds a tooltip to a line.
    pub(crate) fn hint_along(&mut self, [a, b]: [Point; 2], text: String) {
        self.hints.push(Hint { place: Place::Along(a, b), text });
    }

    /// Adds a tooltip to an area.
    pub(crate) fn hint_over(&mut self, r: Rect, text: String) {
        self.hints.push(Hint { place: Place::Over(r), text });
    }
}

/// Returns the tooltip of a step: `step 7 · 33.6 req/s offered · …parts… · meets`.
pub(crate) fn of_step(step: &Step, parts: impl IntoIterator<Item = String>, mark: Mark) -> String {
    let series = (step.series != MAIN).then(|| clip(&step.series, 40));
    let kind = if step.kind == StepKind::Confirm { " (soak)" } else { "" };
    let offered = if step.level.control == Control::Rate { " offered" } else { "" };
    let head = [format!("step {}{kind}", step.step), format!("{}{offered}", step.level)];
    let all = series.into_iter().chain(head).chain(parts).chain([verdict(mark).to_owned()]);
    all.collect::<Vec<_>>().join(" · ")
}

/// Returns a verdict in a few words.
const fn verdict(mark: Mark) -> &'static str {
    match mark {
        Mark::Meets => "meets",
        Mark::Undecided => "undecided",
        Mark::Fails => "fails",
        Mark::Overloaded => "overloaded: its backlog grew",
        Mark::Invalid => "invalid",
    }
}

/// Returns `achieved 33.4 req/s`.
pub(crate) fn achieved(step: &Step) -> String {
    format!("achieved {} req/s", words::figure(step.achieved_rate))
}

/// Returns a percentile by its index among p50, p90 and p99, the last with its bounds: `p99 TTFT 61 ms [58, 66] at an
/// effective n of 143`. `None` if it is not known.
pub(crate) fn percentile(metric: Metric, q: &Quantiles, pick: usize) -> Option<String> {
    let (name, value) = [("p50", q.p50), ("p90", q.p90), ("p99", q.p99)][pick.min(2)];
    let bounds = match (pick, q.p99_low, q.p99_high) {
        (2, Some(low), Some(high)) => format!(" [{}, {}]", words::latency(low), words::latency(high)),
        (2, Some(low), None) => format!(" [{}, –]", words::latency(low)),
        _ => String::new(),
    };
    let effective = q.effective().filter(|_| !bounds.is_empty());
    let effective = effective.map(|n| format!(" at an effective n of {}", thousands(n.floor())));
    let effective = effective.unwrap_or_default();
    value.map(|v| format!("{name} {} {}{bounds}{effective}", metric.title(), words::latency(v)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn a_step_is_told_with_its_values() {
        let mut step = fixture::found().steps.swap_remove(7);
        let q = Quantiles {
            p99: Some(61.0),
            p99_low: Some(58.0),
            p99_high: Some(66.0),
            p50: Some(20.0),
            ..Quantiles::default()
        };
        let parts = [achieved(&step), percentile(Metric::Ttft, &q, 2).unwrap()];
        let text = of_step(&step, parts, Mark::of(&step));
        let want = format!(
            "step 8 · 32 req/s offered · {} · p99 TTFT 61 ms [58 ms, 66 ms] · meets",
            achieved(&step)
        );
        assert_eq!(text, want);
        let open = Quantiles { p99_high: None, ..q };
        assert_eq!(percentile(Metric::Tpot, &open, 2).unwrap(), "p99 TPOT 61 ms [58 ms, –]");
        let clustered = Quantiles { n: 1500, inflation: Some(10.5), ..q };
        let text = percentile(Metric::Ttft, &clustered, 2).unwrap();
        assert_eq!(text, "p99 TTFT 61 ms [58 ms, 66 ms] at an effective n of 142");
        assert_eq!(percentile(Metric::Ttft, &clustered, 0).unwrap(), "p50 TTFT 20 ms");
        assert_eq!(percentile(Metric::Ttft, &q, 1), None);
        (step.series, step.kind) = ("warm".into(), StepKind::Confirm);
        assert!(
            of_step(&step, [], Mark::Fails).starts_with("warm · step 8 (soak) · 32 req/s offered · fails")
        );
    }
}
