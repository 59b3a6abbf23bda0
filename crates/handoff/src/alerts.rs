//! Prometheus rules: burn rates of the error budget of each limit, and early alerts on the signals that tell steps apart.

use super::early::{EarlyAlert, EarlySignal, Signals};
use super::figures::Figures;
use super::objective::{Burn, Objective, Objectives};
use super::promql::{finished, gauge, share_above, total};
use super::text::{Quoted, floor3, known, line};
use anyhow::{Context, Result};
use askama::Template;
use goodput_core::units::short;
use goodput_stats::server::Signal;

#[derive(Template)]
#[template(path = "rules.yaml", escape = "none")]
struct Page {
    source: Vec<String>,
    service: String,
    limits: Vec<LimitRules>,
    early: Vec<EarlyRule>,
    load: Vec<LoadRule>,
}

/// The rules of one limit.
struct LimitRules {
    comments: Vec<String>,
    shares: Vec<ShareRule>,
    alerts: Vec<BurnRule>,
}

/// A recording rule of the share above the limit.
struct ShareRule {
    record: String,
    expr: Quoted,
}

struct BurnRule {
    alert: String,
    expr: Quoted,
    burn: Burn,
    limit: Quoted,
    summary: Quoted,
    description: Quoted,
}

struct EarlyRule {
    comment: String,
    alert: String,
    expr: Quoted,
    summary: Quoted,
    description: Quoted,
}

/// A recording rule that scaling reads.
struct LoadRule {
    record: &'static str,
    expr: Quoted,
}

/// The windows of all burn rates, the shortest first.
const WINDOWS: [&str; 7] = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"];
/// Name of the recorded number of requests that the service finishes per second.
pub(crate) const REQUESTS: &str = "goodput:requests:rate2m";
/// Name of the recorded number of running requests.
pub(crate) const RUNNING: &str = "goodput:running:sum";
/// Name of the recorded number of waiting requests.
pub(crate) const WAITING: &str = "goodput:waiting:sum";

/// Returns the rules; `None` if the server reports nothing that they could be made of.
pub(crate) fn rules(f: &Figures<'_>, objectives: &Objectives, early: &Signals) -> Result<Option<String>> {
    let early: Vec<EarlyRule> = early.alerting().filter_map(|(s, alert)| of_signal(f, s, alert)).collect();
    let limits: Vec<LimitRules> = objectives.told.iter().map(|o| of_limit(f, o)).collect();
    let load = load(f);
    if limits.is_empty() && early.is_empty() && load.is_empty() {
        return Ok(None);
    }
    let page = Page { source: source(f), service: f.service(), limits, early, load };
    page.render().map(Some).context("failed to fill in the template of the alerts")
}

/// Returns the early alert on a signal.
fn of_signal(f: &Figures<'_>, s: &EarlySignal, alert: EarlyAlert) -> Option<EarlyRule> {
    let window = format!("{}m", alert.window_min);
    let expr = format!("{} > {}", gauge(f, s.signal, &window)?, early_threshold(alert.threshold));
    let [safe, beyond] = s.counts_above(alert.threshold);
    let from = if alert.from <= 1.0 {
        "below the goodput".into()
    } else {
        format!("from {} times the goodput on", short(alert.from))
    };
    let values = format!(
        "{}{}: {} at the safe rate, {} at the goodput",
        s.title(),
        s.per(),
        known(s.at_safe),
        known(s.at_goodput)
    );
    Some(EarlyRule {
        comment: format!(
            "{values}. Above the threshold {from}: in {safe} of {} steps up to the safe rate and in {beyond} of {} beyond the goodput.",
            s.safe.len(),
            s.beyond.len(),
        ),
        alert: format!("GoodputEarly{}", s.camel()),
        expr: Quoted(expr),
        summary: Quoted(format!("{}: load beyond the safe rate ({})", f.title(), s.title().to_lowercase())),
        description: Quoted(format!("{values}. Add replicas or refuse requests before the SLO is missed.")),
    })
}

/// Returns the threshold of an early alert as it is written: rounded down, since an alert should not come late.
pub(crate) fn early_threshold(threshold: f64) -> f64 {
    floor3(threshold)
}

/// Returns the lines that tell where the figures come from, for the head of each file.
pub(crate) fn source(f: &Figures<'_>) -> Vec<String> {
    let interval =
        f.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
    let servers = if f.servers == 1 { String::new() } else { format!(", {} servers together", f.servers) };
    let goodput = if f.not_reached {
        "no rate that was tried missed the SLO".to_owned()
    } else {
        format!("goodput {}{interval} {}", short(f.goodput), level_unit(f))
    };
    vec![
        line(&format!(
            "Made by goodput {} from the run {} of {}.",
            f.run.meta.goodput_version,
            f.title(),
            started(&f.run.meta.started)
        )),
        line(&format!("Server: {}; model {}{servers}.", f.run.meta.server, f.run.meta.model)),
        line(&format!("SLO: {}.", f.slo.summary())),
        line(&format!("Measured: safe rate {} requests/s; {goodput}.", short(f.safe))),
    ]
}

/// Returns a time without fractions of a second.
fn started(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

/// Returns the unit of the interval of the answer.
fn level_unit(f: &Figures<'_>) -> &'static str {
    match f.answer.control {
        goodput_core::level::Control::Rate => "requests/s",
        _ => "requests/s (interval in levels of the plan)",
    }
}

fn of_limit(f: &Figures<'_>, o: &Objective) -> LimitRules {
    let record = |window: &str| format!("goodput:{}_above:ratio_rate{window}", o.key());
    let windows = WINDOWS.into_iter().filter(|w| o.burns().any(|b| b.short == *w || b.long == *w));
    let shares = windows.map(|window| ShareRule {
        record: record(window),
        expr: Quoted(share_above(f, &o.histogram, o.bound_s, window)),
    });
    let alerts = o.burns().map(|burn| {
        let most = format!("{} * {}", burn.rate, o.budget());
        let share = short(100.0 * burn.rate * o.budget());
        BurnRule {
            alert: format!("Goodput{}Burn", o.camel()),
            expr: Quoted(format!(
                "{} > {most} and {} > {most}",
                f.recorded(&record(burn.long)),
                f.recorded(&record(burn.short))
            )),
            burn,
            limit: Quoted(o.limit.to_string()),
            summary: Quoted(format!("{}: {} is missed", f.title(), o.limit)),
            description: Quoted(format!(
                "More than {share} % of the requests of the last {} and of the last {} took longer than {} s: {} times the {} % that the \
                 SLO permits. The safe rate is {} requests/s{}.",
                burn.long,
                burn.short,
                o.bound_s,
                burn.rate,
                short(100.0 * o.budget()),
                short(f.safe_each()),
                if f.servers > 1 { " per server" } else { "" },
            )),
        }
    });
    LimitRules { comments: comments(f, o), shares: shares.collect(), alerts: alerts.collect() }
}

/// Returns what the reader must know of a limit's bucket.
fn comments(f: &Figures<'_>, o: &Objective) -> Vec<String> {
    let mut all =
        vec![format!("{}: the share of requests above {} s in {}.", o.limit, o.bound_s, o.histogram)];
    if let Some([low, high]) = o.between {
        let high = if high.is_finite() { format!("{high} s") } else { "infinity".into() };
        let side = if o.bound_s < o.limit.limit.as_secs_f64() {
            "The lower bound is used: it alerts early, and the safe rate is below it."
        } else {
            "The upper bound is used, which alerts late: at the safe rate more requests than permitted are above the lower one."
        };
        all.push(format!("No bucket ends at the limit: the nearest end at {low} s and {high}. {side}"));
    }
    let share = |of: Option<f64>| of.map(|share| format!("{} %", short(100.0 * share)));
    let safe = f.at_safe().and_then(|s| share(o.above_in(s.step)));
    let beyond = f.beyond().and_then(|s| share(o.above_in(s.step)));
    let seen = [("at the safe rate", safe), ("beyond the goodput", beyond)];
    let seen: Vec<String> =
        seen.into_iter().filter_map(|(place, share)| Some(format!("{} {place}", share?))).collect();
    if !seen.is_empty() {
        all.push(format!("By the server's own clock, without the network: {}.", seen.join(", ")));
    }
    if let Some(unused) = super::objective::BURNS.iter().find(|b| !o.burns().any(|used| used == **b)) {
        all.push(format!(
            "No alert at a burn rate of {}: that would be {} % of all requests.",
            unused.rate,
            short(100.0 * unused.rate * o.budget())
        ));
    }
    all
}

fn load(f: &Figures<'_>) -> Vec<LoadRule> {
    let all =
        [(REQUESTS, finished(f)), (RUNNING, total(f, Signal::Running)), (WAITING, total(f, Signal::Waiting))];
    all.into_iter().filter_map(|(record, expr)| Some(LoadRule { record, expr: Quoted(expr?) })).collect()
}
