//! What charts, terminal and Markdown say alike: units, limits and names here, the answer in `answer`, what it rests on
//! in `evidence`, its figures in `figures`, and how the client did in `client`.

mod answer;
mod caveat;
mod client;
mod cost;
mod estimate;
mod evidence;
mod figures;
pub mod finding;
mod reason;
mod refused;
mod support;

pub(super) use answer::remedy;
pub use answer::{Said, headline, sentences};
pub use caveat::{CaveatWords, Context, caveat};
pub use client::{client_in_short, client_lines};
pub use cost::{cost_limit, cost_verdict, step_cost};
pub(super) use estimate::ends;
pub use estimate::{assumptions, numbers, soak, span};
pub use evidence::{deciding, measured, why};
pub use figures::{
    basis, capacity, caveats, good_requests, goodput_cell, in_short, joint_target, knee, price, safe_basis,
};
pub(super) use reason::ended;
pub use reason::reason;
pub use support::{chance_clause, flat_clause, scatter_clause};

use figures::number_and_currency;

use super::charts::thousands;
use super::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::{ALL, Limit, Metric, Part, Slo, split};
use goodput_core::units::{ms, short};
use goodput_plan::MeasuredWorkload;
use goodput_run::rundir::{Meta, Run};
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{Step, StepKind};
use goodput_stats::stats::summary::ERRORS;
use goodput_workload::summary::{Pacing, WorkloadSummary};

/// A latency for people, from milliseconds: `18.2 ms`, `1.28 s`, `12.5 min`.
pub fn latency(ms: f64) -> String {
    match ms.abs() {
        a if a < 999.5 => format!("{} ms", short(ms)),
        a if a < 600_000.0 => format!("{} s", short(ms / 1e3)),
        _ => format!("{} min", short(ms / 60_000.0)),
    }
}

/// A measured number for people, three significant figures and thousands apart: `0.333`, `31.5`, `18,200`.
pub fn figure(x: f64) -> String {
    if !x.is_finite() || x.abs() < 999.5 {
        return short(x);
    }
    let unit = 10_f64.powf(x.abs().log10().floor() - 2.0);
    thousands((x / unit).round() * unit)
}

/// A number that others are reckoned from, with four significant figures, so that they come out: `19.96`, `496.3`.
pub fn precise(x: f64) -> String {
    if !x.is_finite() || x <= 0.0 || x >= 999.95 {
        return figure(x);
    }
    let decimals = (3 - x.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{x:.decimals$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A [`figure`] that may be in the millions: `31.5`, `1,920`, `2.76 million`.
pub fn count(x: f64) -> String {
    if x.abs() < 999_500.0 { figure(x) } else { format!("{} million", figure(x / 1e6)) }
}

/// The number of a level, as it was asked for: `12.5`, `1,253`.
pub fn level_number(x: f64) -> String {
    if x.abs() < 999.5 { short(x) } else { thousands(x) }
}

/// A limit for people: `p99 TTFT ≤ 200 ms`.
pub fn limit(l: &Limit) -> String {
    format!("{} {} ≤ {}", l.percentile, l.metric.title(), latency(ms(l.limit)))
}

/// Every limit of a tier: `p99 TTFT ≤ 200 ms, p99 TPOT ≤ 50 ms and at most 1 % errors`; where classes have limits of their own,
/// `p99 TTFT ≤ 200 ms for short and p99 TTFT ≤ 5 s for all other classes`.
pub fn slo(slo: &Slo) -> String {
    let of_part = |part: Part<'_>| {
        let mut limits: Vec<String> = part.slo.limits().iter().map(limit).collect();
        let errors = part.slo.error_rate;
        limits.extend(errors.map(|e| format!("at most {} % errors", short(e.get() * 100.0))));
        let whose = match part.class() {
            _ if part.judges_all() => String::new(),
            ALL => " for classes without limits of their own".into(),
            class => format!(" for {class}"),
        };
        format!("{}{whose}", list(&limits))
    };
    let parts: Vec<String> = slo.parts().into_iter().map(of_part).collect();
    parts.join("; ")
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
    let n = level_number(value);
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

/// The name of a limit for people: `ttft.p99` becomes `p99 TTFT`, `short/ttft.p99` becomes `p99 TTFT of class short`.
pub fn binding(key: &str) -> String {
    of_class(key)
        .map_or_else(|| limit_name(key), |(class, limit)| format!("{} of class {class}", limit_name(limit)))
}

/// The same where there is little room: `p99 TTFT (short)`.
pub fn binding_in_short(key: &str) -> String {
    of_class(key).map_or_else(|| limit_name(key), |(class, limit)| format!("{} ({class})", limit_name(limit)))
}

/// Class and limit of a key that names a class; `None` of what is no such key, as `req/s`.
fn of_class(key: &str) -> Option<(&str, &str)> {
    let (class, limit) = split(key);
    let is_limit = Metric::of_limit(limit).is_some() || limit == "error-rate";
    (class != ALL && is_limit).then_some((class, limit))
}

fn limit_name(name: &str) -> String {
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

/// Returns the workload in one line. A closed loop has no arrivals of its own, whatever the plan says of them.
pub fn workload(run: &Run) -> String {
    let closed = run.answers.first().is_some_and(|a| a.control == Control::Concurrency);
    match &run.meta.workload {
        MeasuredWorkload::Traffic(workload) if closed && !workload.pacing.is_closed() => {
            let pacing = Pacing::ClosedLoop { max_rate: None };
            WorkloadSummary { pacing, ..workload.clone() }.to_string()
        }
        workload => workload.to_string(),
    }
}

/// Whether several GPUs were measured, so that what is said of them is in the plural.
pub fn plural(meta: &Meta) -> bool {
    meta.gpu.is_some() && meta.gpus.unwrap_or(1) > 1
}

/// What was measured, within a sentence: `one A40`.
pub fn lower(who: &str) -> String {
    who.replacen("One ", "one ", 1).replacen("The ", "the ", 1)
}

/// What was measured: `One A40`, `4 × A100`, `The simulated server`.
pub fn subject(meta: &Meta) -> String {
    let simulated = if meta.server.is_simulated() { "simulated " } else { "" };
    match (&meta.gpu, meta.gpus.unwrap_or(1)) {
        (Some(gpu), 1) => format!("One {simulated}{}", clip(gpu, 40)),
        (Some(gpu), n) => format!("{n} × {simulated}{}", clip(gpu, 40)),
        (None, _) => format!("The {simulated}server"),
    }
}

/// The level of a step with its unit; one request at a time, before any load, is no level: `unloaded`. The saturated server is at none
/// of the search's either.
pub fn step_level(s: &Step) -> String {
    match s.kind {
        StepKind::Baseline => "unloaded".into(),
        StepKind::Recovery => format!("{} with a surge", level(s.level.control, s.level.value)),
        StepKind::Peak => format!("saturated ({} in flight)", level_number(s.level.value)),
        StepKind::Profile => {
            format!("{}{}, under the profiler", level_number(s.level.value), s.level.control.unit())
        }
        _ => format!("{}{}", level_number(s.level.value), s.level.control.unit()),
    }
}

/// Whether several of it are spoken of: `16 requests in flight fail`, but `16 requests/s fails`.
pub fn many(control: Control, value: f64) -> bool {
    control == Control::Concurrency && short(value) != "1"
}

/// The text of another part with names of limits, numbers and times as they are written here: `ttft.p99: 41 of 1200
/// missed` becomes `p99 TTFT: 41 of 1,200 missed`.
pub fn in_words(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_matches(|c: char| "():;,".contains(c));
        let time = core.strip_suffix("ms").filter(|n| n.parse::<f64>().is_ok()).map(|n| format!("{n} ms"));
        let said = match core.parse::<f64>() {
            Ok(n) if n >= 1_000.0 && n.fract() == 0.0 => thousands(n),
            Ok(_) => core.to_owned(),
            Err(_) if core == ERRORS => core.to_owned(),
            Err(_) => time.unwrap_or_else(|| binding(core)),
        };
        if core.is_empty() { word.to_owned() } else { word.replacen(core, &said, 1) }
    };
    // A limit's name stands before a colon where it is one word that may mean something else.
    let keep = |w: &str| matches!(w, "joint" | "error-rate");
    text.split(' ').map(|w| if keep(w) { w.to_owned() } else { word(w) }).collect::<Vec<_>>().join(" ")
}

/// The name of the SLO that an answer is about: `the SLO`, and `the SLO of gold` where there are several.
pub fn slo_name(run: &Run, a: &Answer) -> String {
    if several_tiers(run) { format!("the SLO of {}", clip(&a.tier, 40)) } else { "the SLO".into() }
}

/// Whether the steps are judged by several SLOs.
pub fn several_tiers(run: &Run) -> bool {
    run.answers.iter().any(|a| a.tier != run.answers[0].tier)
}

/// Which of several answers one is, by what differs among them: `gold`; empty where there is one.
pub fn whose(run: &Run, a: &Answer) -> String {
    let names: [fn(&Answer) -> &str; 3] = [|a| &a.series, |a| &a.tier, |a| &a.class];
    let differ = |of: &fn(&Answer) -> &str| run.answers.iter().any(|other| of(other) != of(a));
    let own: Vec<String> = names.iter().filter(|of| differ(of)).map(|of| clip(of(a), 40)).collect();
    own.join(", ")
}

/// Whether steps were measured for several purposes: then a table says for which.
pub fn mixed(run: &Run) -> bool {
    run.steps.iter().any(|s| s.kind != run.steps[0].kind)
}

/// The steps of an answer's series.
pub fn steps_of<'a>(run: &'a Run, answer: &Answer) -> Vec<&'a Step> {
    run.steps_of(answer)
}

/// The tier that an answer is about.
pub fn tier_of<'a>(run: &'a Run, answer: &Answer) -> Option<&'a Slo> {
    run.tiers.iter().find(|t| t.tier() == answer.tier).or_else(|| run.tiers.first())
}

/// The date of an RFC 3339 time.
pub fn date(time: &str) -> String {
    clip(time.split('T').next().unwrap_or(time), 10)
}

/// An RFC 3339 time to the second, for people: `2026-11-20 10:15:00 UTC`.
pub fn moment(time: &str) -> String {
    let whole = time.split('.').next().unwrap_or(time).trim_end_matches('Z').replacen('T', " ", 1);
    if time.ends_with('Z') { format!("{whole} UTC") } else { whole }
}

/// Requests due in the measured windows of all steps.
pub fn requests(run: &Run) -> u64 {
    run.steps.iter().map(|s| s.due_n).sum()
}

#[cfg(test)]
mod tests;
