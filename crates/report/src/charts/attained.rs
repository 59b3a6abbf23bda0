//! Attainment of several series in one picture: the share of requests within every limit against the level, a colour
//! for each.

use super::attainment::percent;
use super::draw::{
    Across, Axis, Bar, Canvas, Curve, Dot, Format, Hue, LevelChart, LevelPlot, Mark, Names, Rule, Scene,
    Series, Symbol, control, level_title, of_step, overlaid_curves, steady, x_axis,
};
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// Maximum number of series: with more, their lines hide one another.
const MOST: usize = 6;
/// Width of the names at the right.
const NAMES: f64 = 110.0;

/// Returns true if at least two series have an attainment at two levels, and it is below 100 % somewhere.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let has_line = |p: &&Run| p.steps.iter().filter(|s| steady(s) && share(p, s).is_some()).count() > 1;
    let missed = run.steps.iter().any(|s| share(run, s).is_some_and(|v| v < 1.0));
    missed && (2..=MOST).contains(&run.parts.iter().filter(has_line).count())
}

/// Returns the share of requests within every limit of the first tier.
fn share(run: &Run, step: &Step) -> Option<f64> {
    let tier = run.tiers.first()?.tier();
    step.row(tier, "joint").and_then(|r| r.attainment).or(step.joint_attainment)
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let all: Vec<(&Run, Curve<'_>)> = overlaid_curves(run);
    let shares = all.iter().flat_map(|(p, c)| c.steps.iter().filter_map(|s| share(p, s)));
    let lowest = shares.fold(1.0, f64::min);
    let target = run.tiers.first().map(|t| t.joint_target());
    let y = Axis::shares((lowest - 0.02).max(0.0), (1.0 - target.unwrap_or(0.99)).max(1e-3));
    let least = |value| Rule {
        value,
        texts: Vec::new(),
        hint: format!("SLO: at least {}", percent(value)),
        labelled_below: false,
    };
    let plot = LevelPlot {
        notes: vec!["logarithmic in the misses".to_owned()],
        height: if scene.format == Format::Slide { 230.0 } else { 280.0 },
        names: Names::Near,
        limits: target.map(least).into_iter().collect(),
        ..LevelPlot::new(
            "Requests within every limit together, %",
            y,
            all.iter().map(|(p, c)| series(p, c)).collect(),
        )
    };
    let levels = all.iter().flat_map(|(_, c)| c.steps.iter().map(|s| Across::Offered.of(s)));
    let x = x_axis(control(run), Across::Offered, levels);
    let mut chart = LevelChart::of_curves(scene, Vec::new(), x, level_title(control(run)));
    chart.right = NAMES;
    let legend = chart.legend(std::slice::from_ref(&plot), Mark::words, None);
    chart.draw(&[plot], None, legend).finish(Hue::INK)
}

/// Returns the line through steps that are neither overloaded nor invalid, and the bounds and the mark of every step.
fn series(part: &Run, curve: &Curve<'_>) -> Series {
    let at = |s: &Step| Some((Across::Offered.of(s), share(part, s)?));
    let tier = part.tiers.first().map_or("", |t| t.tier());
    let bar = |s: &&Step| {
        let (x, value) = at(s)?;
        let (low, high) = s.row(tier, "joint").and_then(|r| r.low.zip(r.high))?;
        Some(Bar { x, low, high: Some(high), value, colour: curve.hue.light })
    };
    let dot = |s: &&Step| {
        let (at, mark) = (at(s)?, Mark::of(s));
        let hint = of_step(s, [format!("{} within every limit", percent(at.1))], mark);
        Some(Dot { at, symbol: Symbol::Mark(mark, 4.0), hint, beyond: None })
    };
    Series {
        line: curve.joined(Across::Offered).into_iter().filter_map(at).collect(),
        tail: curve.tail(Across::Offered, at),
        bars: curve.steps.iter().filter_map(bar).collect(),
        dots: curve.steps.iter().filter_map(dot).collect(),
        ..Series::new(curve.hue.dark).named(curve.name.as_str(), curve.hue.dark)
    }
}

#[cfg(test)]
mod tests {
    use crate::charts::{Look, OVER};
    use goodput_run::fixture;
    use goodput_run::rundir::Traces;

    #[test]
    fn every_series_has_a_line() {
        let run = fixture::pair();
        let chart = OVER.iter().find(|c| c.name == "attained").unwrap();
        let svg = chart.picture(&run, &Traces::default(), &Look::default()).svg();
        for text in ["cold", "warm", "Requests within every limit together, %"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(super::applies(&run, &Traces::default()));
        assert!(!super::applies(&fixture::found(), &Traces::default()));
    }
}
