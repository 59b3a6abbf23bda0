//! What charts, terminal and Markdown say alike: units, limits and names here, the answer in `answer`, its figures in
//! `figures`.

mod answer;
mod figures;

pub use answer::{headline, sentences};
pub use figures::{basis, capacity, caveats, good_requests, goodput_cell, in_short, joint_target};

use super::charts::thousands;
use super::escape::clip;
use crate::level::Control;
use crate::rundir::{Meta, Run};
use crate::search::answer::Answer;
use crate::slo::{Limit, Metric, Slo};
use crate::stats::step::{Step, StepKind};
use crate::stats::summary::ERRORS;
use crate::units::{ms, short};

/// A latency for people, from milliseconds: `18.2 ms`, `1.28 s`, `12.5 min`.
pub fn latency(ms: f64) -> String {
    match ms.abs() {
        a if a < 999.5 => format!("{} ms", short(ms)),
        a if a < 600_000.0 => format!("{} s", short(ms / 1e3)),
        _ => format!("{} min", short(ms / 60_000.0)),
    }
}

/// A count for people: `31.5`, `1,920`, `2.76 million`.
pub fn count(x: f64) -> String {
    match x.abs() {
        a if a < 999.5 => short(x),
        a if a < 999_999.5 => thousands(x),
        _ => format!("{} million", short(x / 1e6)),
    }
}

/// A limit for people: `p99 TTFT ≤ 200 ms`.
pub fn limit(l: &Limit) -> String {
    format!("{} {} ≤ {}", l.percentile, l.metric.title(), latency(ms(l.limit)))
}

/// Every limit of a tier: `p99 TTFT ≤ 200 ms, p99 TPOT ≤ 50 ms and at most 1 % errors`.
pub fn slo(slo: &Slo) -> String {
    let mut parts: Vec<String> = slo.limits().iter().map(limit).collect();
    parts.extend(slo.error_rate.map(|e| format!("at most {} % errors", short(e.get() * 100.0))));
    list(&parts)
}

/// `a, b and c`.
pub fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A level with its unit in full: `33 requests/s`, `64 requests in flight`.
pub fn level(control: Control, value: f64) -> String {
    let n = short(value);
    match control {
        Control::Rate => format!("{n} requests/s"),
        Control::Concurrency if n == "1" => "1 request in flight".into(),
        Control::Concurrency => format!("{n} requests in flight"),
        Control::Sessions => format!("{n} sessions/s"),
        Control::TraceScale => format!("{n} × the trace's speed"),
    }
}

/// What a level is called.
pub const fn noun(control: Control) -> &'static str {
    match control {
        Control::Rate => "rate",
        Control::Concurrency => "concurrency",
        Control::Sessions => "rate of sessions",
        Control::TraceScale => "speed of the trace",
    }
}

/// The name of a limit for people: `ttft.p99` becomes `p99 TTFT`.
pub fn binding(name: &str) -> String {
    let metric = |n: &str| Metric::ALL.into_iter().find(|m| m.name() == n);
    match name.split_once('.') {
        Some((m, p)) if metric(m).is_some() => format!("{p} {}", metric(m).map_or("", Metric::title)),
        _ => match name {
            "error-rate" => "error rate".into(),
            "joint" => "joint attainment".into(),
            ERRORS => "failed requests".into(),
            other => other.into(),
        },
    }
}

/// The workload in one line. A closed loop has no arrivals of its own: what the plan says of them is not what was sent.
pub fn workload(run: &Run) -> String {
    let text = &run.meta.workload;
    let closed = run.answers.first().is_some_and(|a| a.control == Control::Concurrency);
    let Some(end) = text.find(" arrivals").filter(|_| closed) else { return text.clone() };
    let start = text[..end].rfind(", ").map_or(0, |i| i + 2);
    let rest = &text[end + " arrivals".len()..];
    // The shape of gamma arrivals stands behind the word.
    let rest = rest.strip_prefix(" (").and_then(|r| r.split_once(')')).map_or(rest, |(_, rest)| rest);
    format!("{}closed loop{rest}", &text[..start])
}

/// What was measured: `One A40`, `4 × A100`, `The simulated server`.
pub fn subject(meta: &Meta) -> String {
    let simulated = if meta.server.starts_with("simulated") { "simulated " } else { "" };
    match (&meta.gpu, meta.gpus.unwrap_or(1)) {
        (Some(gpu), 1) => format!("One {simulated}{}", clip(gpu, 40)),
        (Some(gpu), n) => format!("{n} × {simulated}{}", clip(gpu, 40)),
        (None, _) => format!("The {simulated}server"),
    }
}

/// The level of a step with its unit; one request at a time, before any load, is no level: `unloaded`.
pub fn step_level(s: &Step) -> String {
    match s.kind {
        StepKind::Baseline => "unloaded".into(),
        _ => s.level.to_string(),
    }
}

/// Whether steps were measured for several purposes: then a table says for which.
pub fn mixed(run: &Run) -> bool {
    run.steps.iter().any(|s| s.kind != run.steps[0].kind)
}

/// The steps of an answer's series.
pub fn steps_of<'a>(run: &'a Run, answer: &Answer) -> Vec<&'a Step> {
    run.steps.iter().filter(|s| s.series == answer.series && s.level.control == answer.control).collect()
}

/// The tier that an answer is about.
pub fn tier_of<'a>(run: &'a Run, answer: &Answer) -> Option<&'a Slo> {
    run.tiers.iter().find(|t| t.tier() == answer.tier).or_else(|| run.tiers.first())
}

/// The date of an RFC 3339 time.
pub fn date(time: &str) -> String {
    clip(time.split('T').next().unwrap_or(time), 10)
}

/// Requests due in the measured windows of all steps.
pub fn requests(run: &Run) -> u64 {
    run.steps.iter().map(|s| s.due_n).sum()
}

#[cfg(test)]
mod tests;
