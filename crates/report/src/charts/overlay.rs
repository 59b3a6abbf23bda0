//! Several series in one picture: latency against achieved throughput, a colour for each, and the capacity of each
//! below.

use super::draw::{
    Across, Align, Axis, Boundary, Canvas, Curve, Format, Frame, Hue, LevelChart, LevelPlot, Mark, Plot,
    Rect, Scale, Scene, Slot, Type, curves, overlaid, steady, widest_name, without_afar, x_axis,
};
use super::latencies::{Latencies, for_slide, is_limited};
use crate::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::search::answer::{Answer, Status};

/// With more series than this, medians are omitted, and a name is drawn next to its line only if there is room: all are
/// named below.
const MANY: usize = 4;
/// Height of a series in the plot of capacities.
const ROW: f64 = 19.0;

/// Returns true if at least two series have a TTFT from a steady step.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let has_ttft = |p: &&Run| p.steps.iter().any(|s| steady(s) && s.quantiles(Metric::Ttft).p50.is_some());
    run.parts.iter().filter(has_ttft).count() > 1
}

/// Returns the axis on which the goodput of a series is placed. With offered rates it is placed at its level, since a
/// sustained rate is also achieved. For workers or sessions it is placed at the rate that the steps achieved.
fn measured_across(part: &Run) -> Across {
    match part.answers.first().map(|a| a.control) {
        Some(Control::Rate) => Across::Offered,
        _ => Across::Achieved,
    }
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let parts = run.parts.iter().enumerate();
    let mut curves: Vec<Curve<'_>> = parts
        .filter_map(|(i, part)| Some(Curve { hue: overlaid(i), ..curves(part).into_iter().next()? }))
        .collect();
    let boundaries: Vec<Boundary> =
        run.parts.iter().map(|p| Boundary::new(p, measured_across(p), scene.format)).collect();
    if curves.len() > MANY {
        // One step far beyond would squash all curves.
        without_afar(&mut curves, boundaries.iter().flat_map(Boundary::values));
    }
    let is_slide = scene.format == Format::Slide;
    let mut metrics = metrics(run);
    if is_slide {
        for_slide(run, &mut metrics, 1);
    }
    let height = if metrics.len() > 1 { 230.0 } else { 300.0 };
    let names = names(&curves);
    let plot = |m: Metric| LevelPlot {
        height,
        ..Latencies::new(run, &curves, m, Across::Achieved).plot_of_tails(
            &curves,
            &names,
            curves.len() <= MANY,
        )
    };
    let plots: Vec<LevelPlot> = metrics.into_iter().map(plot).collect();
    let achieved = curves.iter().flat_map(|c| &c.steps).map(|s| s.achieved_rate);
    let ends = boundaries.iter().filter_map(|b| Some(b.span()?.1));
    let x = x_axis(Control::Rate, Across::Achieved, achieved.chain(ends));
    let margin = if curves.len() > MANY { 40.0 } else { 24.0 };
    let mut chart = LevelChart::of_curves(scene, curves, x, "achieved throughput, requests/s");
    chart.right = margin + widest_name(&plots);
    let rows = run.parts.len() as f64;
    let below = (!is_slide).then(|| Slot::of(ROW * rows + 8.0));
    let mut frame = chart.draw(&plots, below, chart.legend(&plots, Mark::words, None));
    if !is_slide {
        let y = Axis { min: 0.0, max: rows, step: 1.0, scale: Scale::Rows };
        let plot = Plot { area: frame.areas[plots.len()], x, y };
        capacities(&mut frame, plots.len(), &plot, (run, &boundaries), &chart.title);
    }
    frame.finish(Hue::INK)
}

/// Returns the names of the series for use within a plot. For a grid with one knob, only its values.
fn names(curves: &[Curve<'_>]) -> Vec<String> {
    let parts: Vec<Option<(&str, &str)>> = curves.iter().map(|c| c.series.split_once('=')).collect();
    let knob = parts.first().copied().flatten().map(|(knob, _)| knob);
    let one = |part: &Option<(&str, &str)>| part.is_some_and(|(k, v)| Some(k) == knob && !v.contains('='));
    let alike = curves.len() > MANY && parts.iter().all(one);
    let name = |(c, part): (&Curve<'_>, &Option<(&str, &str)>)| match part {
        Some((_, value)) if alike => clip(value, 22),
        _ => clip(c.series, 22),
    };
    curves.iter().zip(&parts).map(name).collect()
}

/// Returns true if the answer of a series is not a rate that is shown to meet the SLO.
fn is_undecided(part: &Run) -> bool {
    let kept = |a: &Answer| matches!(a.goodput.status(), Status::Found | Status::NotReached);
    !part.answers.first().is_some_and(kept)
}

/// Draws the capacity of each series: the rate as a dot, hollow if undecided, and its 90 % interval or bracket as a
/// bar.
fn capacities(
    frame: &mut Frame,
    number: usize,
    plot: &Plot,
    (run, boundaries): (&Run, &[Boundary]),
    x_title: &str,
) {
    let estimated =
        run.parts.iter().filter_map(|p| p.answers.first()).any(|a| a.goodput.interval90().is_some());
    let bar = if estimated { "bar: 90 % interval" } else { "bar: up to the lowest rate that fails" };
    let hollow = run.parts.iter().any(is_undecided).then(|| "hollow: undecided".to_owned());
    let notes: Vec<String> = std::iter::once(bar.to_owned()).chain(hollow).collect();
    frame.axes(number, plot, "Goodput, requests/s", &notes, x_title);
    frame.spines(plot);
    let c = &mut frame.canvas;
    for (i, (part, boundary)) in run.parts.iter().zip(boundaries).enumerate() {
        let colour = overlaid(i).dark;
        let y = plot.area.y + 4.0 + ROW * (i as f64 + 0.5);
        let face = Type::bold(11.5, colour);
        let name = clip(part.series(), 22);
        let Some((line, high, low)) =
            boundary.span().map(|(line, high, low)| (plot.at_x(line), plot.at_x(high), plot.at_x(low)))
        else {
            let status = part.answers.first().map_or("not measured", |a| a.goodput.status().name());
            c.text((plot.area.x + 8.0, y + 4.0), Align::Left, &face, &format!("{name}: {status}"));
            continue;
        };
        c.stroke((low, y), (high, y), 6.0, overlaid(i).light);
        if is_undecided(part) {
            Mark::Undecided.draw(c, (line, y), 4.6, colour);
        } else {
            c.disc((line, y), 4.6, colour);
        }
        let row = Rect { x: plot.area.x, y: y - ROW / 2.0, w: plot.area.w, h: ROW };
        c.hint_over(row, format!("{name} · {}", boundary.summary()));
        let w = face.width(&name);
        let after = high.max(line) + 10.0;
        let x = if after + w <= plot.area.right() + 30.0 { after } else { low.min(line) - 10.0 - w };
        c.text((x, y + 4.0), Align::Left, &face, &name);
    }
}

/// Returns TTFT and every other metric with a limit.
fn metrics(run: &Run) -> Vec<Metric> {
    let has_values = |m: Metric| run.steps.iter().any(|s| s.quantiles(m).p50.is_some());
    let is_wanted = |m: Metric| m == Metric::Ttft || is_limited(run, m);
    Metric::ALL.into_iter().filter(|m| is_wanted(*m) && has_values(*m)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::draw::hue::OVERLAID;
    use crate::charts::{Look, OVER, Raster, over};
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;

    #[test]
    fn several_series_have_an_overlay_and_one_has_none() {
        let run = fixture::pair();
        assert_eq!(over(&run, &Traces::default())[0].name, "overlay");
        assert!(over(&fixture::found(), &Traces::default()).is_empty());
        let mut one = run.clone();
        one.parts[1].steps.clear();
        assert!(over(&one, &Traces::default()).is_empty(), "nothing to compare with");
    }

    #[test]
    fn every_series_is_named_in_its_colour() {
        let run = fixture::pair();
        let (none, mut raster) = (Traces::default(), Raster::default());
        let picture = OVER[0].picture(&run, &none, &Look::default());
        let svg = picture.svg();
        for name in ["cold", "warm", "Goodput, requests/s", "strong: p99, pale: p50"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(!svg.contains("hollow"), "both are found");
        let colours: std::collections::HashSet<u32> = OVERLAID.into_iter().collect();
        assert_eq!(colours.len(), OVERLAID.len());
        assert!(picture.png(&mut raster).unwrap().len() > 3_000);
        assert!(picture.slide_png(&mut raster).unwrap().is_some());
    }

    /// A filled mark stands for a rate that is shown to meet the SLO.
    #[test]
    fn what_is_undecided_is_drawn_hollow() {
        let mut run = fixture::pair();
        let circles = |run: &Run| {
            let svg = OVER[0].picture(run, &Traces::default(), &Look::default()).svg();
            (svg.matches("<circle").count(), svg.contains("hollow: undecided"))
        };
        let g = &mut run.parts[0].answers[0].goodput;
        g.conclusion = conclusion(Status::Found, Some(30.0), Some([20.0, 33.0]), Some(20.0));
        let (full, _) = circles(&run);
        run.parts[0].answers[0].goodput.conclusion =
            conclusion(Status::Undecided, Some(30.0), Some([0.0, 33.0]), None);
        assert_eq!(circles(&run), (full + 1, true), "a white one within it");
    }
}
