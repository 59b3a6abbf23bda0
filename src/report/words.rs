//! The answer in words: what charts, terminal and Markdown say alike.

use super::escape::clip;
use crate::level::Control;
use crate::rundir::{Meta, Run};
use crate::search::answer::{Answer, Goodput, Status};
use crate::slo::{Limit, Metric, Slo};
use crate::stats::step::Step;
use crate::units::{ms, short};

/// A latency for people, from milliseconds: `18.2 ms`, `1.28 s`, `12.5 min`.
pub fn latency(ms: f64) -> String {
    match ms.abs() {
        a if a < 999.5 => format!("{} ms", short(ms)),
        a if a < 600_000.0 => format!("{} s", short(ms / 1e3)),
        _ => format!("{} min", short(ms / 60_000.0)),
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
            other => other.into(),
        },
    }
}

fn binding_clause(name: &str) -> String {
    match name {
        "stability" => "above that the backlog grows".into(),
        "error-rate" => "errors are the limit".into(),
        "joint" => "joint attainment is the limit".into(),
        other => {
            let words = binding(other);
            format!("{} is the limit", words.split_once(' ').map_or(words.as_str(), |(_, metric)| metric))
        }
    }
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

fn verb(meta: &Meta, singular: &str) -> String {
    let plural = meta.gpu.is_some() && meta.gpus.unwrap_or(1) > 1;
    if plural { singular.to_owned() } else { format!("{singular}s") }
}

/// The steps of an answer's series.
pub fn steps_of<'a>(run: &'a Run, answer: &Answer) -> Vec<&'a Step> {
    run.steps.iter().filter(|s| s.series == answer.series && s.level.control == answer.control).collect()
}

/// The tier that an answer is about.
pub fn tier_of<'a>(run: &'a Run, answer: &Answer) -> Option<&'a Slo> {
    run.tiers.iter().find(|t| t.tier() == answer.tier).or_else(|| run.tiers.first())
}

/// The answer in one line, for above a chart.
pub fn headline(run: &Run) -> String {
    let Some(a) = run.answers.first() else {
        return "No answer: no step was finished".into();
    };
    let (g, who) = (&a.goodput, subject(&run.meta));
    let at = |x: f64| level(a.control, x);
    match (g.status, g.rate.or(g.met)) {
        (Status::Found, Some(rate)) => {
            let clause = g.binding.as_deref().map(|b| format!("; {}", binding_clause(b))).unwrap_or_default();
            format!("{who} {} {} within the SLO{clause}", verb(&run.meta, "serve"), at(rate))
        }
        (Status::None, _) => {
            let why = g.binding.as_deref().filter(|b| *b != "stability");
            let why = why.map(|b| format!("; {}", binding_clause(b))).unwrap_or_default();
            match lowest(run, a) {
                Some(x) => format!("Not even {} meets the SLO{why}", at(x)),
                None => format!("No measured {} meets the SLO{why}", noun(a.control)),
            }
        }
        (Status::NotReached, Some(met)) => {
            format!("{who} {} {} within the SLO; more was not tried", verb(&run.meta, "serve"), at(met))
        }
        (Status::Undecided, Some(met)) => {
            format!(
                "{who} {} at least {} within the SLO; above is undecided",
                verb(&run.meta, "serve"),
                at(met)
            )
        }
        (Status::Invalid, _) => "No answer: the client was the limit, not the server".into(),
        (Status::Undecided | Status::NotReached | Status::Found, _) => {
            "Undecided: the steps have too few requests to tell".into()
        }
    }
}

fn lowest(run: &Run, a: &Answer) -> Option<f64> {
    steps_of(run, a).iter().map(|s| s.level.value).min_by(f64::total_cmp)
}

/// The answer in two sentences that a manager can read, and that claim no more than was shown.
pub fn sentences(run: &Run, a: &Answer) -> [String; 2] {
    let g = &a.goodput;
    let at = |x: f64| level(a.control, x);
    let who = subject(&run.meta);
    let limits = tier_of(run, a).map_or_else(|| run.meta.slo.clone(), slo);
    let per_gpu = match (g.per_gpu, run.meta.gpus) {
        (Some(r), Some(n)) if n > 1 => format!(", {} per GPU", at(r)),
        _ => String::new(),
    };
    let of = match clip(&run.meta.workload, 120) {
        w if w.is_empty() => per_gpu,
        w => format!("{per_gpu} ({w})"),
    };
    let first = match (g.status, g.rate.or(g.met)) {
        (Status::Found, Some(rate)) => {
            format!("{who} {} {}{of} while keeping {limits}.", verb(&run.meta, "serve"), at(rate))
        }
        (Status::NotReached, Some(met)) => format!(
            "{who} {} {}{of} while keeping {limits}, and that is the highest level that was tried.",
            verb(&run.meta, "serve"),
            at(met)
        ),
        (Status::Undecided, Some(met)) => {
            format!("{who} {} at least {}{of} while keeping {limits}.", verb(&run.meta, "serve"), at(met))
        }
        (Status::None, _) => {
            format!("At no measured {} does {} meet {limits}.", noun(a.control), lower(&who))
        }
        (Status::Invalid, _) => {
            format!("This run cannot say what {} can take: the client was the limit.", lower(&who))
        }
        _ => format!("The steps do not show at which level {} meets {limits}.", lower(&who)),
    };
    [first, evidence(a, g)]
}

fn lower(who: &str) -> String {
    who.replacen("One ", "one ", 1).replacen("The ", "the ", 1)
}

fn evidence(a: &Answer, g: &Goodput) -> String {
    let at = |x: f64| level(a.control, x);
    let binds =
        g.binding.as_deref().map(|b| format!(", where {} is what fails", binding(b))).unwrap_or_default();
    match (g.interval90, g.met, g.failed) {
        (Some([low, high]), ..) => {
            let safe = g.safe_rate.map(|s| format!("; {} is safe", at(s))).unwrap_or_default();
            format!(
                "With 90 % probability the boundary lies between {} and {}{binds}{safe}.",
                short(low),
                at(high)
            )
        }
        (None, Some(met), Some(failed)) => format!(
            "The boundary lies between {}, shown to meet the SLO, and {}, shown to fail{binds}: two measured levels, not a confidence interval.",
            at(met),
            at(failed)
        ),
        (None, Some(met), None) => {
            format!("{} is shown to meet the SLO; no level is shown to fail.", at(met))
        }
        (None, None, Some(failed)) => {
            format!("{} is shown to fail{binds}; no level is shown to meet the SLO.", at(failed))
        }
        (None, None, None) => "No level is shown to meet the SLO, and none to fail.".into(),
    }
}

/// What a goodput says in a table: the number with its evidence.
pub fn goodput_cell(control: Control, g: &Goodput) -> String {
    let unit = control.unit();
    let bracket = match (g.interval90, g.met, g.failed) {
        (Some([low, high]), ..) => format!(" (90 % interval {} – {})", short(low), short(high)),
        (None, Some(met), Some(failed)) => format!(" (met {}, failed {})", short(met), short(failed)),
        (None, Some(met), None) => format!(" (met {}, none failed)", short(met)),
        (None, None, Some(failed)) => format!(" (none met, failed {})", short(failed)),
        (None, None, None) => String::new(),
    };
    match (g.status, g.rate) {
        (Status::Found, Some(rate)) => format!("{}{unit}{bracket}", short(rate)),
        (status, Some(rate)) => format!("{}: {}{unit}{bracket}", status.name(), short(rate)),
        (status, None) => format!("{}{bracket}", status.name()),
    }
}

/// The date of an RFC 3339 time.
pub fn date(time: &str) -> String {
    clip(time.split('T').next().unwrap_or(time), 10)
}

/// Requests due in the measured windows of all steps.
pub fn requests(run: &Run) -> u64 {
    run.steps.iter().map(|s| s.due_n).sum()
}
