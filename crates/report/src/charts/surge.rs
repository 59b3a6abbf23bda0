//! Requests in flight and the response time around a surge, and the time of recovery.

use super::draw::{
    Align, Axis, Canvas, Entry, Frame, GREEN, GREEN_TEXT, GREY, Plot, Point, REACH, RED, Rect, Scene, Slot,
    Type, hue_of, rgb,
};
use crate::sections::recovery::surge_title;
use crate::words;
use goodput_core::slo::{Limit, Metric};
use goodput_run::rundir::recovery::Recovery;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::recovery::{Course, Recovered, Window};
use plotters::style::{Color, RGBColor};

/// Colour of the time of the surge.
const SURGE: RGBColor = rgb(0xfde5c8);

/// Returns true if a surge was measured to its end.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    parts(run).is_some()
}

/// Returns the time of recovery.
pub(super) fn message(run: &Run) -> Option<String> {
    let (r, course, outcome) = parts(run)?;
    let surge = surge_title(r);
    Some(match outcome.recovery_s {
        Some(s) if s <= 0.0 => format!("After a surge to {surge} the server is back to normal at once"),
        Some(s) => format!("After a surge to {surge} the server recovers within {}", words::span(s)),
        None => {
            format!(
                "After a surge to {surge} the server does not recover within {}",
                words::span(course.hold_s)
            )
        }
    })
}

fn parts(run: &Run) -> Option<(&Recovery, &Course, &Recovered)> {
    let r = run.view.recovery.as_ref()?;
    let outcome = r.outcome.as_ref().filter(|o| o.windows.len() > 2)?;
    Some((r, r.course.as_ref()?, outcome))
}

/// Returns the limit of the highest percentile on the response time.
fn limit(run: &Run, metric: Metric) -> Option<Limit> {
    let tier = words::tier_of(run, run.answers.first()?)?;
    tier.limits().into_iter().rfind(|l| l.metric == metric)
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let legend = vec![Entry::Say(
        "shaded: the surge; dashed grey: the highest of any window before it; red: windows with misses"
            .into(),
    )];
    let mut frame = Frame::new(scene, &[Slot::of(170.0), Slot::of(170.0)], 34.0, legend);
    let hue = hue_of(0);
    let Some((r, course, outcome)) = parts(scene.run) else { return frame.finish(hue) };
    let span = course.to_s() - course.from_s;
    let x = Axis::upto(span, 8.0);
    let flight: Vec<(&Window, f64)> = outcome.windows.iter().map(|w| (w, w.in_flight)).collect();
    let most = flight.iter().map(|f| f.1).fold(outcome.band.in_flight, f64::max);
    let (y, scale) = axis(&flight, outcome.band.in_flight, most);
    let plot = Plot { area: frame.areas[0], x, y };
    let x_title = "seconds from when the first hold began to count";
    frame.axes(0, &plot, "Requests in flight, mean of each window", scale.as_slice(), x_title);
    panel(&mut frame.canvas, &plot, (r, course, outcome), &flight, Some(outcome.band.in_flight), &|v| {
        format!("{} in flight", words::figure(v))
    });
    frame.spines(&plot);
    let metric = r.metric.and_then(Metric::of_limit).unwrap_or(Metric::Ttft);
    let times: Vec<(&Window, f64)> =
        outcome.windows.iter().filter_map(|w| Some((w, w.response_p90_ms?))).collect();
    let most = times.iter().map(|t| t.1).fold(outcome.band.response_p90_ms.unwrap_or(0.0), f64::max);
    let limit = limit(scene.run, metric).map(|l| l.limit_ms());
    // A limit far above all values would squash the rest.
    let top = limit.filter(|l| *l < 3.0 * most).map_or(most, |l| l.max(most));
    let unit = if top >= 9_000.0 { 1_000.0 } else { 1.0 };
    let heading = format!("{} p90 of each window, {}", metric.title(), if unit > 1.0 { "s" } else { "ms" });
    let note = limit.map(|l| format!("limit {}", words::latency(l)));
    let scaled: Vec<(&Window, f64)> = times.iter().map(|(w, v)| (*w, v / unit)).collect();
    let band = outcome.band.response_p90_ms.map(|ms| ms / unit);
    let (y, scale) = axis(&scaled, band.unwrap_or(0.0), top / unit);
    let plot = Plot { area: frame.areas[1], x, y };
    let notes: Vec<String> = note.into_iter().chain(scale).collect();
    frame.axes(1, &plot, &heading, &notes, x_title);
    let c = &mut frame.canvas;
    panel(c, &plot, (r, course, outcome), &scaled, band, &|v| {
        format!("p90 {} {}", metric.title(), words::latency(v * unit))
    });
    if let Some(limit) = limit.map(|l| l / unit).filter(|l| *l <= plot.y.max) {
        c.dashes(plot.across(limit), 1.5, (8.0, 4.5), RED);
    }
    misses(c, &plot, course, outcome);
    frame.spines(&plot);
    frame.finish(hue)
}

/// Returns an axis up to the highest value: logarithmic, with a note, if the surge would squash the values before it.
fn axis(values: &[(&Window, f64)], band: f64, most: f64) -> (Axis, Option<String>) {
    let least = values.iter().map(|v| v.1).filter(|v| *v > 0.0).fold(most, f64::min);
    match band > 0.0 && most > 8.0 * band {
        true => (Axis::log(least * 0.8, most * 2.0), Some("logarithmic".into())),
        false => (Axis::upto(most * 1.18, 5.0), None),
    }
}

/// Draws the surge, the band, the line through the windows, and the time of recovery.
fn panel(
    c: &mut Canvas,
    plot: &Plot,
    (r, course, outcome): (&Recovery, &Course, &Recovered),
    values: &[(&Window, f64)],
    band: Option<f64>,
    told: &dyn Fn(f64) -> String,
) {
    let (a, hue) = (plot.area, hue_of(0));
    let at = |s: f64| plot.at_x(s - course.from_s);
    let (from, to) = (at(course.surge_from()), at(course.surge_to()));
    c.fill(&Rect { x: from, y: a.y, w: to - from, h: a.h }, SURGE.into());
    c.text(((from + to) / 2.0, a.y + 13.0), Align::Middle, &Type::book(10.5, rgb(0x8a4b00)), &surge_title(r));
    if let Some(band) = band {
        c.dashes(plot.across(band), 1.2, (4.0, 3.0), GREY);
    }
    let half = outcome.window_s / 2.0;
    let points: Vec<Point> =
        values.iter().map(|(w, v)| (at(w.from_s + half), plot.at_y(v.min(plot.y.max)))).collect();
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let ends = [(last.0, a.bottom()), (first.0, a.bottom())];
        c.polygon(&[&points[..], &ends].concat(), hue.light.mix(0.28));
    }
    c.line(&points, 1.8, hue.dark);
    for (p, (w, v)) in points.iter().zip(values) {
        c.hint(
            *p,
            REACH / 2.0,
            format!("{} s · {} · {} of {} missed", w.from_s.round(), told(*v), w.misses, w.n),
        );
    }
    recovery(c, plot, course, outcome);
}

/// Draws a line at the time at which the server was back within the band.
fn recovery(c: &mut Canvas, plot: &Plot, course: &Course, outcome: &Recovered) {
    let a = plot.area;
    let (text, colour) = match outcome.recovery_s {
        Some(s) => (format!("recovered after {}", words::span(s)), GREEN_TEXT),
        None => ("not recovered".to_owned(), RED),
    };
    let face = Type::bold(11.0, colour);
    let w = face.width(&text);
    let place = match outcome.recovery_s {
        Some(s) => {
            let x = plot.at_x(course.surge_to() + s - course.from_s);
            c.stroke((x, a.y), (x, a.bottom()), 1.6, GREEN);
            if x + 6.0 + w < a.right() { x + 6.0 } else { x - 6.0 - w }
        }
        None => a.right() - w - 6.0,
    };
    let r = Rect { x: place, y: a.y + 4.0, w, h: 14.0 };
    c.veil(&r, true);
    c.text((r.x, r.y + 10.5), Align::Left, &face, &text);
}

/// Draws a mark on the axis for every window with misses, as wide as the window.
fn misses(c: &mut Canvas, plot: &Plot, course: &Course, outcome: &Recovered) {
    for w in outcome.windows.iter().filter(|w| w.misses > 0) {
        let x = plot.at_x(w.from_s - course.from_s);
        let to = plot.at_x(w.from_s + outcome.window_s - course.from_s);
        c.fill(&Rect { x, y: plot.area.bottom() - 4.0, w: (to - x).max(1.0), h: 4.0 }, RED.into());
    }
}

#[cfg(test)]
mod tests {
    use crate::charts::{CHARTS, Look};
    use goodput_run::fixture;
    use goodput_run::fixture::surged;
    use goodput_run::rundir::Traces;

    #[test]
    fn the_surge_and_the_recovery_are_drawn() {
        let chart = CHARTS.iter().find(|c| c.name == "recovery").unwrap();
        for (recovers, text) in [(true, "recovered after"), (false, "not recovered")] {
            let run = surged(recovers);
            let svg = chart.picture(&run, &Traces::default(), &Look::default()).svg();
            assert!(svg.contains(text) && svg.contains("Requests in flight, mean of each window"), "{text}");
        }
        assert!(!super::applies(&fixture::found(), &Traces::default()));
    }
}
