//! The answer in words: a headline for charts, and a few sentences for a reader who decides by them.

use super::levels::{level, many, noun};
use super::limits::{binding, slo};
use super::names::{lower, plural, several_tiers, slo_name, steps_of, subject, tier_of, workload};
use super::refused::refused;
use super::remedy::remedy;
use super::units::{figure, level_number, thousands};
use super::{estimate, evidence, headlines};
use crate::escape::clip;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_run::rundir::{Meta, Run};
use goodput_stats::search::answer::{Answer, Goodput, Status};
use goodput_stats::stats::step::{Abort, Step, Verdict};
use goodput_stats::stats::summary::ERRORS;

pub(super) fn verb(meta: &Meta, singular: &str) -> String {
    if plural(meta) { singular.to_owned() } else { format!("{singular}s") }
}

/// Returns the cause of a failure, to follow a level: `TTFT`, `the backlog grows`.
fn cause(name: &str) -> String {
    match name {
        "stability" => "the backlog grows".into(),
        "error-rate" => "errors".into(),
        ERRORS => "requests fail".into(),
        "joint" => "joint attainment".into(),
        other if Metric::of_limit(other).is_none() => binding(other),
        other => {
            let words = binding(other);
            words.split_once(' ').map_or(words.clone(), |(_, metric)| metric.to_owned())
        }
    }
}

fn binding_clause(name: &str) -> String {
    match name {
        "stability" => "above that the backlog grows".into(),
        "error-rate" => "errors are the limit".into(),
        ERRORS => "requests fail above that".into(),
        other => format!("{} is the limit", cause(other)),
    }
}

/// Returns the limit that binds at a level that fails: `, where p99 TTFT is the limit that binds`.
pub(super) fn binds(g: &Goodput) -> String {
    match g.binding.as_deref() {
        Some("stability") => ", where the backlog grows".into(),
        Some(ERRORS) => ", where requests fail".into(),
        Some(b @ "error-rate") => format!(", where the {} is the limit that binds", binding(b)),
        Some(b) => format!(", where {} is the limit that binds", binding(b)),
        None => String::new(),
    }
}

/// Returns the answer in one line, for above a chart. A bracket is never reduced to its low end, and imported results
/// are marked as imported.
pub(crate) fn headline(run: &Run) -> String {
    headlines::with_origin(run, own_headline(run))
}

fn own_headline(run: &Run) -> String {
    if let Some(own) = headlines::of_matrix(run).or_else(|| headlines::of_levels(run)) {
        return own;
    }
    if let Some(several) = headlines::of_variants(run).or_else(|| headlines::of_series(run)) {
        return several;
    }
    let Some(a) = run.answers.first() else {
        return "No answer: no step was finished".into();
    };
    let (g, who) = (&a.goodput, subject(&run.meta));
    let at = |x: f64| level(a.control, x);
    let serves = verb(&run.meta, "serve");
    let within = format!("within {}", slo_name(run, a));
    if let Some(open) = open_in_short(run, a) {
        return open;
    }
    match (g.status(), g.rate().or(g.bracket.met)) {
        (Status::Found, Some(rate)) if bracket_only(g) => {
            let why = headlines::seen(run, a).map(|b| format!(" ({})", cause(b))).unwrap_or_default();
            let it = if plural(&run.meta) { "they fail" } else { "it fails" };
            let failed =
                g.bracket.failed.map(|f| format!("; {it} at {}{why}", level_number(f))).unwrap_or_default();
            format!("{who} {serves} at least {} {within}{failed}", at(rate))
        }
        (Status::Found, Some(rate)) => {
            let clause =
                headlines::seen(run, a).map(|b| format!("; {}", binding_clause(b))).unwrap_or_default();
            let number =
                estimate::ends(a.control, g).map_or_else(|| level_number(rate), |(n, _)| n[0].clone());
            format!("{who} {serves} {} {within}{clause}", at(rate).replacen(&level_number(rate), &number, 1))
        }
        (Status::None, _) => none_in_short(run, a),
        (Status::NotReached, Some(met)) => {
            format!("{who} {serves} at least {} {within}; more was not tried", at(met))
        }
        (Status::Undecided, Some(met)) => {
            format!("{who} {serves} at least {} {within}; above is undecided", at(met))
        }
        (Status::Invalid, Some(met)) => {
            format!("{who} {serves} at least {} {within}; above that {}", at(met), fault(run, a))
        }
        (Status::Invalid, None) => format!("No answer: {}", not_the_server(run, a)),
        (Status::Undecided, _) if refused(run, a).is_some() => {
            format!("Undecided: {}", refused(run, a).unwrap_or_default())
        }
        (Status::Undecided | Status::NotReached | Status::Found, _) => match fails_at_the_lowest(run, a) {
            Some(f) => format!("Undecided: {} {}, and nothing lower was tried", at(f), fails(a.control, f)),
            None => match g.bracket.failed {
                Some(f) => format!("Undecided: fails at {}, too few requests to tell below", at(f)),
                None => "Undecided: the steps have too few requests to tell".into(),
            },
        },
    }
}

/// Returns an open estimate in short, if its upper end or a safe rate is known.
fn open_in_short(run: &Run, a: &Answer) -> Option<String> {
    let g = &a.goodput;
    if g.status() != Status::Undecided {
        return None;
    }
    let within = format!("within {}", slo_name(run, a));
    match (estimate::ends(a.control, g), usable_safe_rate(g)) {
        (Some(([.., high], None)), _) => {
            let (_, [_, top]) = interval(g)?;
            let most = level(a.control, top).replacen(&level_number(top), &high, 1);
            Some(format!(
                "Undecided: at most {most} {within}, and no {} is shown to be safe",
                noun(a.control)
            ))
        }
        (None, Some(safe)) => {
            let serves = verb(&run.meta, "serve");
            let safe = level(a.control, safe);
            Some(format!("{} {serves} at least {safe} {within}; above is undecided", subject(&run.meta)))
        }
        _ => None,
    }
}

fn none_in_short(run: &Run, a: &Answer) -> String {
    if let Some((level, kind)) = nothing_answered(run, a) {
        return format!("Every request failed {level}{kind}");
    }
    let why = a.goodput.binding.as_deref().filter(|b| *b != "stability");
    let why = why.map(|b| format!("; {}", binding_clause(b))).unwrap_or_default();
    if let Some(from) = evidence::none_from(run, a) {
        let keeps = verb(&run.meta, "keep");
        let who = subject(&run.meta);
        return format!(
            "{who} {keeps} {} at no {} from {} on{why}",
            slo_name(run, a),
            noun(a.control),
            level(a.control, from)
        );
    }
    match (a.goodput.bracket.failed, lowest(run, a)) {
        (None, _) => {
            let misses = if plural(&run.meta) { "miss" } else { "misses" };
            format!("Even unloaded, {} {misses} {}{why}", lower(&subject(&run.meta)), slo_name(run, a))
        }
        (_, Some(x)) => {
            let meets = if many(a.control, x) { "meet" } else { "meets" };
            format!("Not even {} {meets} {}{why}", level(a.control, x), slo_name(run, a))
        }
        (_, None) => format!("No measured {} meets {}{why}", noun(a.control), slo_name(run, a)),
    }
}

/// Returns `fails`, or `fail` if the level is a number of requests.
fn fails(control: Control, value: f64) -> &'static str {
    if many(control, value) { "fail" } else { "fails" }
}

/// Returns true if the answer has only two measured levels and no interval.
fn bracket_only(g: &Goodput) -> bool {
    g.interval90().is_none() && g.bracket.failed.is_some()
}

/// Returns the level that fails, if it is the lowest that was measured.
pub(super) fn fails_at_the_lowest(run: &Run, a: &Answer) -> Option<f64> {
    a.goodput.bracket.failed.filter(|f| lowest(run, a).is_some_and(|low| low >= *f))
}

/// If every request failed, returns where (`at 2 requests/s` or `unloaded`) and their most frequent kind in brackets:
/// `(server-error 500)`.
fn nothing_answered(run: &Run, a: &Answer) -> Option<(String, String)> {
    let (step, place) = match a.goodput.bracket.failed {
        Some(failed) => {
            let near = |s: &&Step| (s.level.value - failed).abs() <= 1e-9 * failed && s.all_failed();
            let step = steps_of(run, a).into_iter().find(near)?;
            (step.step, format!("at {}", level(a.control, failed)))
        }
        None => {
            let step = run.steps.iter().find(|s| s.series == a.series && s.all_failed())?;
            (step.step, "unloaded, one at a time".into())
        }
    };
    let rows = run.failures.iter().filter(|f| f.step == step && f.series == a.series);
    let kind = rows.max_by_key(|f| f.count).map(|f| {
        let status = f.status.map(|s| format!(" {s}")).unwrap_or_default();
        format!(" ({}{status})", clip(&f.kind, 24))
    });
    Some((place, kind.unwrap_or_default()))
}

fn lowest(run: &Run, a: &Answer) -> Option<f64> {
    steps_of(run, a).iter().map(|s| s.level.value).min_by(f64::total_cmp)
}

/// Returns a level of an answer; in a closed loop with the achieved rate, since the number in flight is no rate.
fn with_achieved(run: &Run, a: &Answer, value: f64) -> String {
    match (a.control, run.step_at(a, value, Verdict::Meets)) {
        (Control::Concurrency | Control::Sessions, Some(s)) => {
            format!("{} at {} requests/s", level(a.control, value), figure(s.achieved_rate))
        }
        _ => level(a.control, value),
    }
}

/// The sentences about an answer, a sentence or two per field, empty if there is nothing to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerSentences {
    /// The result, per GPU, its SLO, and the limit that binds.
    pub(crate) answer: String,
    /// The rate to plan with, and the benefit of more measuring time.
    pub(crate) plan: String,
    /// The result of the soak after the search.
    pub(crate) soak: String,
    /// The workload that was measured.
    pub(crate) with: String,
    /// The evidence, why the search ended, and, if undecided, what would decide it.
    pub(crate) evidence: String,
}

/// Returns the answer in sentences. They claim no more than was shown.
pub(crate) fn sentences(run: &Run, a: &Answer) -> AnswerSentences {
    let g = &a.goodput;
    let told = estimate::sentence(run, a);
    let said =
        told.unwrap_or_else(|| match g.bracket.met.or(g.rate()).filter(|_| g.status() != Status::None) {
            Some(rate) => serves(run, a, rate),
            None => serves_nothing(run, a),
        });
    let with = match clip(&workload(run), 160) {
        w if w.is_empty() => w,
        w => match &run.meta.imported {
            Some(imported) => format!("Measured by {}, with: {w}.", imported.title()),
            None => format!("Measured with: {w}."),
        },
    };
    AnswerSentences {
        answer: format!("{said}."),
        plan: estimate::plan(run, a),
        soak: estimate::confirmed(run, a),
        with,
        evidence: format!("Evidence: {}", evidence_of(run, a)),
    }
}

/// Returns the evidence for an answer and, if undecided, what would decide it: a sentence that begins with a level.
pub(crate) fn evidence_of(run: &Run, a: &Answer) -> String {
    let decides = remedy(run, a).map(|r| format!("; {r}")).unwrap_or_default();
    format!("{}{decides}.", evidence::evidence(run, a).trim_end_matches('.'))
}

fn limits(run: &Run, a: &Answer) -> String {
    tier_of(run, a).map_or_else(|| run.meta.slo.clone(), slo)
}

/// Returns the limits that are met, with the name of their SLO if there are several.
pub(super) fn limits_met(run: &Run, a: &Answer) -> String {
    if several_tiers(run) { format!("{} ({})", slo_name(run, a), limits(run, a)) } else { limits(run, a) }
}

/// Returns the answer for a level that is shown to meet: the rate that is served at least, and what is known of higher
/// rates.
fn serves(run: &Run, a: &Answer, rate: f64) -> String {
    let g = &a.goodput;
    let more = match (g.status(), g.bracket.failed) {
        (Status::NotReached, _) => "; more was not tried, so where the limit lies is not known".into(),
        (Status::Invalid, _) => format!("; above that {}", not_the_server(run, a)),
        (_, Some(f)) => format!(", and {} at {}{}", verb(&run.meta, "fail"), level_number(f), binds(g)),
        _ if gone(run, a) => ", before the server stopped answering".into(),
        _ => "; whether it can take more is undecided".into(),
    };
    format!(
        "{} {} at least {}{} {} {}{more}",
        subject(&run.meta),
        verb(&run.meta, "serve"),
        with_achieved(run, a, rate),
        in_other_units(run, a, rate),
        if several_tiers(run) { "within" } else { "while keeping" },
        limits_met(run, a),
    )
}

/// Returns a level in other units, in brackets: per GPU if there are several, and items per second if these are what is asked for:
/// ` (10 per GPU; 320 texts/s)`.
pub(super) fn in_other_units(run: &Run, a: &Answer, value: f64) -> String {
    let per_gpu = run.meta.gpus.filter(|n| *n > 1).map(|n| {
        let each = a.goodput.per_gpu().unwrap_or(value / f64::from(n));
        format!("{} per GPU", figure(each))
    });
    let items = run.result_item().and_then(|item| {
        let capacity = run.capacity_near(a, value)?;
        Some(format!("{} {}/s", figure(capacity.items_per_s?), item.plural()))
    });
    let all: Vec<String> = per_gpu.into_iter().chain(items).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

/// Returns the answer if no level is shown to meet: why, and whether the server is the cause.
fn serves_nothing(run: &Run, a: &Answer) -> String {
    let g = &a.goodput;
    let (who, keep) = (lower(&subject(&run.meta)), limits_met(run, a));
    let does = if plural(&run.meta) { "do" } else { "does" };
    match (g.status(), g.bracket.failed) {
        (Status::None, _) if nothing_answered(run, a).is_some() => {
            let (place, kind) = nothing_answered(run, a).unwrap_or_default();
            format!(
                "Every request to {who} failed {place}{kind}: no {} keeps {keep}, and nothing is shown of its latencies",
                noun(a.control)
            )
        }
        (Status::None, _) if evidence::none_from(run, a).is_some() => {
            let from = evidence::none_from(run, a).map(|x| level(a.control, x)).unwrap_or_default();
            let unloaded = evidence::missed_unloaded(run, a).map(|(k, n)| {
                format!("; unloaded, {} of {} requests missed it", thousands(k as f64), thousands(n as f64))
            });
            format!(
                "With 90 % confidence no {} at or above {from} keeps {keep}{}{}",
                noun(a.control),
                binds(g),
                unloaded.unwrap_or_default()
            )
        }
        (Status::None, None) => {
            let limit = g.binding.as_deref().filter(|b| ![ERRORS, "stability"].contains(b));
            let limit =
                limit.map(|b| format!(": the limit that binds is {}", binding(b))).unwrap_or_default();
            format!(
                "Even unloaded, with one request at a time, {who} {does} not keep {keep}, so no {} can{limit}",
                noun(a.control)
            )
        }
        (Status::None, Some(f)) => format!(
            "At no measured {} {} {who} keep {keep}: even {}, the lowest, {}{}",
            noun(a.control),
            does,
            level(a.control, f),
            fails(a.control, f),
            binds(g)
        ),
        (Status::Invalid, _) => format!(
            "This run cannot say what {who} can take while keeping {keep}: {}",
            not_the_server(run, a)
        ),
        (_, failed) => {
            let known = match failed {
                Some(f) if fails_at_the_lowest(run, a).is_some() => {
                    let fails = fails(a.control, f);
                    format!("{}, the lowest that was tried, {fails}{}", level(a.control, f), binds(g))
                }
                Some(f) => format!(
                    "{} {}{}, and no lower level is shown to meet",
                    level(a.control, f),
                    fails(a.control, f),
                    binds(g)
                ),
                None => "no level is shown to meet or to fail".into(),
            };
            let how = refused(run, a).map(|how| format!("{how}; ")).unwrap_or_default();
            format!("It is undecided what {who} can take while keeping {keep}: {how}{known}")
        }
    }
}

/// Returns a step of the answer during which the server was restarted.
pub(super) fn restarted<'a>(run: &'a Run, a: &Answer) -> Option<&'a Step> {
    steps_of(run, a).into_iter().find(|s| s.server.restarted)
}

/// Returns why steps of an answer are invalid.
fn fault(run: &Run, a: &Answer) -> &'static str {
    restarted(run, a).map_or("the client was the limit", Step::fault)
}

/// Returns [`fault`], and that the server was not at fault unless it was restarted.
fn not_the_server(run: &Run, a: &Answer) -> String {
    let whose = if restarted(run, a).is_some() { "" } else { ", not the server" };
    format!("{}{whose}", fault(run, a))
}

/// Returns true if the server became unreachable in a step of the answer's series.
pub(super) fn gone(run: &Run, a: &Answer) -> bool {
    run.steps.iter().any(|s| s.series == a.series && s.abort == Some(Abort::ServerGone))
}
