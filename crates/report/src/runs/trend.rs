//! The goodput over successive runs of one measurement, as a chart and in words.

use super::{Entry, Summary};
use crate::escape::plain;
use crate::render::html::escape;
use crate::words::{date, level, level_number};
use goodput_core::level::Control;
use goodput_core::slo::ALL;
use goodput_plan::MAIN;
use goodput_run::trend::{Shift, shifts};
use goodput_stats::search::answer::{Answer, Status};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width and height of the chart, and the margins of its plot: left, right, top, bottom.
const SIZE: [f64; 2] = [760.0, 270.0];
const MARGINS: [f64; 4] = [64.0, 20.0, 16.0, 44.0];
/// Maximum number of dates below the axis.
const MOST_DATES: usize = 7;

/// The trend of one answer.
pub(super) struct Trend {
    pub(super) title: String,
    pub(super) svg: String,
    /// The changes in words.
    pub(super) changes: Vec<String>,
}

/// An answer of one run.
struct Point<'a> {
    name: &'a str,
    started: &'a str,
    answer: &'a Answer,
    rate: f64,
}

/// Returns the trends of all measurements of which there are at least two answers, in order of their titles.
pub(super) fn trends(entries: &[Entry]) -> Vec<Trend> {
    let mut groups: BTreeMap<(&str, &str, &str, &str), Vec<Point<'_>>> = BTreeMap::new();
    for entry in entries {
        let Ok(Summary { started, answers, question, .. }) = &entry.summary else { continue };
        for (_, answer) in answers {
            // The highest level of a plan that was not exceeded is no goodput.
            let found = answer.goodput.status() == Status::Found;
            let Some(rate) = answer.goodput.rate().filter(|_| found) else { continue };
            let key =
                (question.as_str(), answer.series.as_str(), answer.tier.as_str(), answer.class.as_str());
            groups.entry(key).or_default().push(Point { name: &entry.name, started, answer, rate });
        }
    }
    groups.retain(|_, points| points.len() > 1);
    let trend =
        |((question, series, tier, class), mut points): ((&str, &str, &str, &str), Vec<Point<'_>>)| {
            points.sort_by(|a, b| (a.started, a.name).cmp(&(b.started, b.name)));
            let own: Vec<&str> =
                [series, tier, class].into_iter().filter(|n| ![MAIN, ALL].contains(n)).collect();
            let own = if own.is_empty() { String::new() } else { format!(" ({})", own.join(", ")) };
            let intervals: Vec<_> = points.iter().map(|p| p.answer.goodput.interval90()).collect();
            let found = shifts(&intervals);
            Trend {
                title: plain(&format!("{question}{own}")),
                svg: svg(&points, &found),
                changes: changes(&points, &found),
            }
        };
    groups.into_iter().map(trend).collect()
}

fn changes(points: &[Point<'_>], found: &[Shift]) -> Vec<String> {
    let with = points.iter().filter(|p| p.answer.goodput.interval90().is_some()).count();
    if found.is_empty() {
        return vec![match with {
            0 | 1 => "Fewer than two of these runs have an interval, so no change can be shown.".into(),
            n => format!(
                "No change is shown: of {n} runs with an interval, each overlaps the one before it. A slow drift would not be seen this way."
            ),
        }];
    }
    let line = |shift: &Shift| {
        let (a, b) = (&points[shift.before], &points[shift.after]);
        plain(&format!(
            "From {} ({}) to {} ({}): {} → {}, a factor of {:.2}. Their 90 % intervals do not overlap.",
            a.name,
            date(a.started),
            b.name,
            date(b.started),
            level_number(a.rate),
            level(b.answer.control, b.rate),
            b.rate / a.rate
        ))
    };
    found.iter().map(line).collect()
}

/// Returns the axis title of a control.
const fn axis(control: Control) -> &'static str {
    match control {
        Control::Rate => "goodput, requests/s",
        Control::Concurrency => "goodput, requests in flight",
        Control::Sessions => "goodput, sessions/s",
        Control::TraceScale => "goodput, × trace speed",
    }
}

/// Draws the answers with their intervals, evenly spaced, and a line at each change.
fn svg(points: &[Point<'_>], found: &[Shift]) -> String {
    let ([width, height], [left, right, top, bottom]) = (SIZE, MARGINS);
    let ends = |p: &Point<'_>| p.answer.goodput.interval90().unwrap_or([p.rate; 2]);
    let highest = points.iter().map(|p| ends(p)[1].max(p.rate)).fold(f64::MIN_POSITIVE, f64::max) * 1.1;
    let x = |i: f64| left + (width - left - right) * (i + 0.5) / points.len() as f64;
    let y = |value: f64| height - bottom - (height - top - bottom) * value / highest;
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Goodput of {} runs with 90 % intervals\">",
        points.len()
    );
    let mut add = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("a string takes everything");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (value, at) = (highest * share / 1.1, y(highest * share / 1.1));
        let number = escape(&level_number(value));
        add(format_args!(
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            width - right
        ));
        add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{number}</text>",
            left - 6.0,
            at + 4.0
        ));
    }
    for shift in found {
        let at = x((shift.before + shift.after) as f64 / 2.0);
        add(format_args!(
            "<line class=\"limit\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{:.1}\"/>",
            height - bottom
        ));
    }
    let every = points.len().div_ceil(MOST_DATES);
    for (i, p) in points.iter().enumerate() {
        let ([low, high], at) = (ends(p), x(i as f64));
        let tip = escape(&plain(&format!("{}: {}", p.name, level(p.answer.control, p.rate))));
        add(format_args!(
            "<line class=\"median\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            y(low),
            y(high)
        ));
        add(format_args!(
            "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"5\"><title>{tip}</title></circle>",
            y(p.rate)
        ));
        if i % every == 0 {
            let day = escape(&date(p.started));
            add(format_args!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{day}</text>",
                height - bottom + 16.0
            ));
        }
    }
    let name = points.first().map_or("", |p| axis(p.answer.control));
    add(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}; bars: 90 % interval; dashed: a change</text></svg>",
        f64::midpoint(left, width - right),
        height - 8.0
    ));
    out
}
