//! Messages of charts over the levels.

use super::{Answer, Run, Step, Verdict, is_steady, list, loaded, percent, share_within, short, wait};
use crate::words::class_limit::{ClassLimit, class_quantiles, of_class};
use crate::words::levels::level;
use crate::words::preempted::preempted;
use crate::words::units::{figure, level_number, value_of};
use goodput_core::level::Control;
use goodput_core::slo::Limit;
use goodput_stats::stats::step::Quantiles;

/// Number of requests below which a step has no p99 to speak of.
const FEW: u64 = 100;
/// Growth below which a latency counts as level.
const LEVEL: f64 = 1.1;

/// Returns the percentile that a limit is about, and its name; p99 without one.
fn percentile(limit: Option<&Limit>) -> (&'static str, fn(&Quantiles) -> Option<f64>) {
    match limit.map_or(1.0, |l| l.percentile.share()) {
        share if share <= 0.5 => ("p50", |q| q.p50),
        share if share <= 0.9 => ("p90", |q| q.p90),
        _ => ("p99", |q| q.p99),
    }
}

/// Returns how the latency that binds grows with the load: `p99 TTFT rises from 29.5 ms at 5.41 to 99.6 ms at 40.9
/// requests/s; the limit is 80 ms`.
pub(crate) fn latency_against_load(run: &Run) -> Option<String> {
    let a = run.answers.first()?;
    let judged = ClassLimit::main(run, a);
    let ((class, metric), limit) = (ClassLimit::told(judged), judged.map(|l| l.limit));
    let (name, pick) = percentile(limit.as_ref());
    let quantiles = |s: &Step| class_quantiles(s, class, metric);
    let value = |s: &Step| pick(&quantiles(s));
    let steps = loaded(run, a);
    let known: Vec<(&Step, f64)> = steps
        .into_iter()
        .filter(|s| is_steady(s) && s.due_n >= FEW)
        .filter_map(|s| Some((s, value(s)?)))
        .collect();
    let ((low, from), (high, to)) = (known.first()?, known.last()?);
    if high.level.value <= low.level.value {
        return None;
    }
    let at = level(a.control, high.level.value);
    let title = of_class(metric.title(), class);
    let limit =
        limit.map(|l| format!("; the limit is {}", value_of(metric, l.limit_ms()))).unwrap_or_default();
    Some(if *to < from * LEVEL {
        format!("{name} {title} stays near {} up to {at}{limit}", value_of(metric, *to))
    } else {
        let low = level_number(low.level.value);
        format!(
            "{name} {title} rises from {} at {low} to {} at {at}{limit}",
            value_of(metric, *from),
            value_of(metric, *to)
        )
    })
}

/// Returns the throughput, and whether more load raises it.
pub(crate) fn throughput(run: &Run) -> Option<String> {
    let a = run.answers.first()?;
    let steps = loaded(run, a);
    let best = steps
        .iter()
        .filter(|s| is_steady(s) || s.stable == Some(false))
        .max_by(|a, b| a.achieved_rate.total_cmp(&b.achieved_rate))
        .filter(|s| s.achieved_rate > 0.0)?;
    let (amount, unit) = run
        .result_item()
        .map_or((best.output_tokens_per_s, "output tokens"), |item| (best.items_per_s, item.plural()));
    let most = format!("{} requests/s and {} {unit}/s", figure(best.achieved_rate), figure(amount));
    let is_full = steps.iter().any(|s| s.stable == Some(false) && s.offered_rate > LEVEL * s.achieved_rate);
    // Overload that has not lasted long enough to show in the rates.
    let overloaded = steps.iter().find(|s| s.stable == Some(false)).map(|s| level_number(s.level.value));
    let late = steps
        .iter()
        .rfind(|s| s.offered_rate > best.offered_rate && s.good_rate < 0.9 * s.achieved_rate)
        .filter(|_| !is_full)
        .map(|s| format!("; of {} {} are in time", figure(s.offered_rate), only(s.good_rate)));
    let late = late.unwrap_or_default();
    Some(match (a.control, overloaded) {
        (Control::Rate, Some(_)) if is_full => {
            format!("At most {most} are completed, however much is offered")
        }
        (Control::Rate, Some(at)) => format!("Up to {most} are completed; at {at} offered requests pile up"),
        (Control::Rate, None) => format!("All that is offered is completed, up to {most}{late}"),
        (Control::Concurrency | Control::Sessions | Control::TraceScale, _) => {
            format!("Up to {most} are completed")
        }
    })
}

/// Formats a rate that is less than expected.
fn only(rate: f64) -> String {
    match figure(rate) {
        none if none == "0" => "none".into(),
        some => format!("only {some}"),
    }
}

/// Returns the share of requests within the limit that binds at the lowest load that fails it, else at the highest.
pub(crate) fn attainment(run: &Run) -> Option<String> {
    let a = run.answers.first()?;
    let judged = ClassLimit::main(run, a)?;
    let attained = |s: &&Step| judged.row(s, &a.tier).is_some_and(|r| r.attainment.is_some());
    let steps: Vec<&Step> = loaded(run, a).into_iter().filter(attained).collect();
    let fails = |s: &Step| judged.row(s, &a.tier).is_some_and(|r| r.verdict == Verdict::Fails);
    // The first failing step shows how sharp the limit is; the few requests of one that was stopped early say less.
    let first = steps.iter().find(|s| is_steady(s) && fails(s));
    let step = first.or_else(|| steps.iter().rfind(|s| is_steady(s))).or(steps.last())?;
    let said = share_within(a, step, &judged)?;
    Some(format!("{said}; the SLO asks for {} %", short(100.0 * judged.limit.percentile.share())))
}

/// Returns the level from which requests pile up.
pub(crate) fn timelines(run: &Run) -> Option<String> {
    let a = run.answers.first()?;
    let steps = loaded(run, a);
    let grows = steps.iter().find(|s| s.stable == Some(false));
    let below = |s: &Step| grows.is_none_or(|g| s.level.value < g.level.value);
    let holds = steps.iter().rfind(|s| s.stable == Some(true) && s.abort.is_none() && below(s));
    match (holds, grows) {
        (Some(h), Some(g)) => Some(format!(
            "Requests pile up from {} on; up to {} they do not",
            level(a.control, g.level.value),
            level_number(h.level.value)
        )),
        (None, Some(g)) => Some(format!("Requests pile up at {}", level(a.control, g.level.value))),
        (Some(h), None) => {
            Some(format!("Requests in flight stay level up to {}", level(a.control, h.level.value)))
        }
        (None, None) => None,
    }
}

/// Returns the most that the server reports of its queue and its KV cache up to the highest load that it sustains.
pub(crate) fn server(run: &Run) -> Option<String> {
    let a: &Answer = run.answers.first()?;
    let reports = |s: &&Step| is_steady(s) && (s.server.waiting_max.is_some() || s.server.kv_max.is_some());
    let steps: Vec<&Step> =
        loaded(run, a).into_iter().filter(|s| s.verdict != Verdict::Invalid).filter(reports).collect();
    let top = steps.last()?;
    let most = |of: fn(&Step) -> Option<f64>| steps.iter().filter_map(|s| of(s)).reduce(f64::max);
    let waits = most(|s| s.server.waiting_max).map(wait);
    let cache =
        most(|s| s.server.kv_max).map(|share| format!("the KV cache is at most {} full", percent(share)));
    let lost = most(preempted).filter(|share| *share > 0.0);
    let lost =
        lost.map(|share| format!("at most {} preemptions come on 100 requests", figure(100.0 * share)));
    let said: Vec<String> = [waits, cache, lost].into_iter().flatten().collect();
    Some(format!("Up to {} {}", level(a.control, top.level.value), list(&said)))
}
