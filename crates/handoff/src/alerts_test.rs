//! Tests of the rules for `promtool test rules`: the samples of steps of the run as input, one at the safe rate, the lowest beyond the
//! goodput, and the highest.

use super::alerts::{early_threshold, source};
use super::early::{EarlySignal, SCRAPE_S, Signals};
use super::figures::Figures;
use super::objective::{Objective, Objectives, buckets, latency};
use super::text::Quoted;
use anyhow::{Context, Result};
use askama::Template;
use goodput_core::units::short;
use goodput_stats::server::Signal;
use goodput_stats::stats::step::Step;

/// Samples of the tests of early alerts: two hours, so that the longest window fits in several times.
const SAMPLES: usize = 2 * 3600 / SCRAPE_S as usize;
/// Minutes of the tests of burn rates: the longest window, and as long again for the alert to be held.
const BURN_MINUTES: usize = 3 * 24 * 60 + 60;
/// Smallest distance of a mean from the threshold, as a share of it, at which the outcome of an early alert is tested.
const MARGIN: f64 = 0.02;
/// Smallest such distance of a share of requests from that of a burn rate.
const BURN_MARGIN: f64 = 0.01;

#[derive(Template)]
#[template(path = "rules.test.yaml", escape = "none")]
struct Page {
    source: Vec<String>,
    tests: Vec<Test>,
}

/// One test: input series, and the alerts that must fire or not at the end.
struct Test {
    name: Quoted,
    interval: String,
    end: String,
    series: Vec<Series>,
    alerts: Vec<Expected>,
}

struct Series {
    name: Quoted,
    values: String,
}

/// An alert with the labels that it has if it fires; none if it must be silent.
struct Expected {
    selector: Quoted,
    fires: Option<Quoted>,
}

/// Returns the tests; `None` if the run has no step to take samples from, or no alerts.
pub(crate) fn tests(f: &Figures<'_>, objectives: &Objectives, early: &Signals) -> Result<Option<String>> {
    let beyond = f.beyond();
    let highest = f.steps_beyond().last().filter(|s| beyond.is_some_and(|b| b.step != s.step));
    let steps =
        [("at the safe rate", f.at_safe()), ("beyond the goodput", beyond), ("at the highest load", highest)];
    let mut tests = Vec::new();
    for (place, step) in steps.into_iter().filter_map(|(place, step)| Some((place, step?))) {
        tests.extend(of_burns(f, objectives, step, place));
        tests.extend(of_early(f, early, step, place));
    }
    if tests.is_empty() {
        return Ok(None);
    }
    let page = Page { source: source(f), tests };
    page.render().map(Some).context("failed to fill in the template of the tests")
}

fn name(step: &Step, place: &str, what: &str) -> Quoted {
    Quoted(format!("{what}: step {}, {} of {}, {place}", step.step, short(step.level.value), step.series))
}

/// Feeds the histograms of a step at the rates that the step had, for as long as the longest window.
fn of_burns(f: &Figures<'_>, objectives: &Objectives, step: &Step, place: &str) -> Option<Test> {
    let per_minute = 60.0 / step.server.seconds.filter(|s| *s > 0.0)?;
    let (mut series, mut alerts) = (Vec::new(), Vec::new());
    for o in &objectives.told {
        let Some(share) = o.above_in(step.step) else { continue };
        let n = observations(o, step)? * per_minute;
        let counter = |name: String, growth: f64| Series {
            name: Quoted(name),
            values: format!("0+{growth}x{BURN_MINUTES}"),
        };
        let bucket = format!("{}_bucket{}", o.histogram, labels(f, &format!("le=\"{}\"", o.bound_s)));
        series.push(counter(bucket, n * (1.0 - share)));
        series.push(counter(format!("{}_count{}", o.histogram, labels(f, "")), n));
        for burn in o.burns() {
            let ratio = share / (burn.rate * o.budget());
            if (ratio - 1.0).abs() < BURN_MARGIN {
                continue;
            }
            let alert = format!("alertname=\"Goodput{}Burn\", window=\"{}\"", o.camel(), burn.long);
            let all = format!(
                "ALERTS{{{alert}, alertstate=\"firing\", severity=\"{}\", limit=\"{}\", service=\"{}\"}}",
                burn.severity,
                o.limit,
                f.service()
            );
            alerts.push(Expected {
                selector: Quoted(format!("ALERTS{{{alert}, alertstate=\"firing\"}}")),
                fires: (ratio > 1.0).then_some(Quoted(all)),
            });
        }
    }
    (!series.is_empty()).then(|| Test {
        name: name(step, place, "budget"),
        interval: "1m".into(),
        end: format!("{BURN_MINUTES}m"),
        series,
        alerts,
    })
}

/// Returns the labels of an input series: an instance, these, and those that the user selects by, if they are simple.
fn labels(f: &Figures<'_>, own: &str) -> String {
    let selected = f.selector.iter().cloned();
    let own = Some(own).filter(|o| !o.is_empty()).map(str::to_owned);
    let all: Vec<String> =
        ["instance=\"measured\"".to_owned()].into_iter().chain(own).chain(selected).collect();
    format!("{{{}}}", all.join(","))
}

fn observations(o: &Objective, step: &Step) -> Option<f64> {
    buckets(step, latency(o.limit.metric)?).0.last().map(|b| b.1)
}

/// Feeds the samples of the gauges of a step, one every quarter of a minute, over and over.
fn of_early(f: &Figures<'_>, early: &Signals, step: &Step, place: &str) -> Option<Test> {
    let (mut series, mut alerts) = (Vec::new(), Vec::new());
    for (signal, alert) in early.alerting() {
        let samples = scraped(f, signal.signal, step);
        let threshold = early_threshold(alert.threshold);
        let Some(fires) = outcome(&samples, threshold, alert.window_min) else { continue };
        let query = f.engine.and_then(|e| e.query(signal.signal));
        let matcher = query.and_then(|q| q.matcher).unwrap_or_default();
        let text: Vec<String> = samples.iter().map(f64::to_string).collect();
        series.push(Series {
            name: Quoted(format!("{}{}", f.exposed.get(signal.signal.name())?, labels(f, &matcher))),
            values: text.join(" "),
        });
        alerts.push(expected(f, signal, fires));
    }
    (!series.is_empty()).then(|| Test {
        name: name(step, place, "early"),
        interval: format!("{SCRAPE_S}s"),
        end: format!("{}m", SAMPLES * SCRAPE_S as usize / 60 - 1),
        series,
        alerts,
    })
}

fn expected(f: &Figures<'_>, signal: &EarlySignal, fires: bool) -> Expected {
    let alert = format!("alertname=\"GoodputEarly{}\", alertstate=\"firing\"", signal.camel());
    let all = format!("ALERTS{{{alert}, severity=\"warning\", service=\"{}\"}}", f.service());
    Expected { selector: Quoted(format!("ALERTS{{{alert}}}")), fires: fires.then_some(Quoted(all)) }
}

/// Returns the samples of the measured window of a step, per server, one after another as scrapes, repeated for the whole test.
/// They are nearer in time than scrapes, and so more alike: an alert that tells the steps apart here does so in production.
fn scraped(f: &Figures<'_>, signal: Signal, step: &Step) -> Vec<f64> {
    let each = |value: f64| if signal.is_share() { value } else { f.each(value) };
    let window = f.window_of(step, signal);
    let n = if window.is_empty() { 0 } else { SAMPLES };
    window.iter().map(|(_, value)| each(*value)).cycle().take(n).collect()
}

/// Returns whether an early alert fires at the end; `None` if its means cross the threshold shortly before, or come too near to it to
/// tell for every version of Prometheus (the ends of a window belong to it or do not).
fn outcome(samples: &[f64], threshold: f64, window_min: u32) -> Option<bool> {
    let window = (window_min * 60 / SCRAPE_S) as usize;
    let last = samples.get(samples.len().checked_sub(window * 2)?..)?;
    let means: Vec<f64> = last.windows(window).map(|w| w.iter().sum::<f64>() / window as f64).collect();
    let above = means.iter().all(|m| *m > threshold * (1.0 + MARGIN));
    let below = means.iter().all(|m| *m < threshold * (1.0 - MARGIN));
    (above || below).then_some(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_near_the_threshold_are_not_tested() {
        for (value, fires) in [(3.0, Some(true)), (1.0, Some(false)), (2.01, None)] {
            assert_eq!(outcome(&[value; SAMPLES], 2.0, 5), fires, "{value}");
        }
        assert_eq!(outcome(&[], 2.0, 5), None);
        assert_eq!(BURN_MINUTES, 4380);
    }
}
