//! The evidence for an answer: the levels that decide it, each with its counts, and why the search ended.

use super::levels::{many, step_level};
use super::limits::binding;
use super::names::{steps_of, tier_of};
use super::reason::{ended, reason};
use super::units::{figure, thousands};
use goodput_core::level::Control;
use goodput_core::slo::split_limit_key;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};
use goodput_stats::stats::summary::ERRORS;

/// Maximum number of levels in the evidence; the others are in the table of steps.
const MOST: usize = 3;

/// Returns the ends of the answer and the open levels between them, with counts, and why the search ended.
pub(super) fn evidence(run: &Run, a: &Answer) -> String {
    let run = &*run.in_levels();
    let g = &a.goodput;
    let met = g.bracket.met.and_then(|met| run.step_at(a, met, Verdict::Meets));
    let failed = g.bracket.failed.and_then(|failed| run.step_at(a, failed, Verdict::Fails));
    let mut told: Vec<(&Step, Verdict)> = met.map(|s| (s, Verdict::Meets)).into_iter().collect();
    told.extend(failed.map(|s| (s, Verdict::Fails)));
    let fitted = interval(g).is_some() || usable_safe_rate(g).is_some();
    // For an estimate no single step is open: all count together.
    let mut open = if fitted { Vec::new() } else { between(run, a) };
    // Steps with the most requests are the most informative.
    open.sort_by_key(|s| std::cmp::Reverse(s.due_n));
    let more = open.len().saturating_sub(MOST - told.len());
    open.truncate(MOST - told.len());
    open.sort_by(|x, y| x.level.value.total_cmp(&y.level.value));
    told.extend(open.into_iter().map(|s| (s, run.judged(a, s).0)));
    if !fitted && (told.is_empty() || (g.status() == Status::None && failed.is_none())) {
        return reason(&g.reason);
    }
    let mut parts: Vec<String> = told.iter().map(|(s, verdict)| shows(run, a, s, *verdict)).collect();
    if fitted {
        parts.insert(0, together(run, a));
    } else if met.is_some() && failed.is_none() {
        parts.push("no level is shown to fail".into());
    }
    if more > 0 {
        parts.push(format!("{more} more {} open", if more == 1 { "level is" } else { "levels are" }));
    }
    let above = |s: &&Step| {
        !fitted
            && failed.is_some_and(|f| s.level.value > f.level.value * (1.0 + 1e-9))
            && run.judged(a, s).0 == Verdict::Meets
    };
    for s in steps_of(run, a).into_iter().filter(above).take(1) {
        parts.push(format!("{} met above a level that fails, and is not trusted", step_level(s)));
    }
    parts.extend(Some(g.reason.ended()).filter(|e| e.is_of_a_search()).map(ended));
    parts.join("; ")
}

/// Returns the basis of an estimate: all steps under load together.
fn together(run: &Run, a: &Answer) -> String {
    let steps = steps_of(run, a).into_iter().filter(|s| !s.kind.is_outside_search());
    let (steps, requests) = steps.fold((0, 0), |(n, due), s| (n + 1, due + s.due_n));
    let several = if steps == 1 { "" } else { "s" };
    format!("a fit to {steps} step{several} under load with {} requests", thousands(requests as f64))
}

/// Returns the undecided steps between the ends of an answer, one for each level.
fn between<'a>(run: &'a Run, a: &Answer) -> Vec<&'a Step> {
    let g = &a.goodput;
    let mut open: Vec<&Step> = Vec::new();
    for s in steps_of(run, a).into_iter().filter(|s| !s.kind.is_outside_search()) {
        let x = s.level.value;
        let inside = g.bracket.met.is_none_or(|m| x > m * (1.0 + 1e-9))
            && g.bracket.failed.is_none_or(|f| x < f * (1.0 - 1e-9));
        let known = |o: &&Step| (o.level.value - x).abs() <= 1e-9 * x;
        if inside && !open.iter().any(known) {
            open.extend(run.step_at(a, x, Verdict::Undecided));
        }
    }
    open
}

/// Returns the lowest level of the search, if steps ran under load: the fit found no level from there on that meets.
pub(super) fn none_from(run: &Run, a: &Answer) -> Option<f64> {
    let loaded = steps_of(run, a).iter().any(|s| !s.kind.is_outside_search());
    run.terms.map(|t| t.lowest).filter(|_| loaded)
}

/// Returns misses and requests of the binding limit on the unloaded server, if more were missed than allowed.
pub(super) fn missed_unloaded(run: &Run, a: &Answer) -> Option<(u64, u64)> {
    let name = a.goodput.binding.as_deref()?;
    let slo = tier_of(run, a)?;
    let (class, limit) = split_limit_key(name);
    let part = slo.limit_groups().into_iter().find(|part| part.class() == class)?;
    let allowed = part.slo.limits().iter().find(|l| l.name() == limit)?.percentile.miss_share();
    let unloaded = run.steps.iter().filter(|s| s.series == a.series && s.kind == StepKind::Baseline);
    let rows = unloaded.filter_map(|s| s.row(&a.tier, name));
    let (misses, n) = rows.fold((0, 0), |(k, n), r| (k + r.misses, n + r.n));
    (misses as f64 > allowed * n as f64).then_some((misses, n))
}

/// Returns why a step has its verdict on the tier of an answer.
pub(crate) fn why(run: &Run, a: &Answer, s: &Step) -> String {
    if run.tiers.first().is_none_or(|t| t.tier() == a.tier) {
        return s.reason.clone();
    }
    let (verdict, binding) = run.judged(a, s);
    counts(a, s, verdict, binding.as_deref())
}

/// Returns `32 req/s meets (p99 TTFT: 2 of 3,840 missed)`.
fn shows(run: &Run, a: &Answer, s: &Step, verdict: Verdict) -> String {
    let several = many(s.level.control, s.level.value);
    let verb = match (verdict, several) {
        (Verdict::Meets, false) => "meets",
        (Verdict::Meets, true) => "meet",
        (Verdict::Fails, false) => "fails",
        (Verdict::Fails, true) => "fail",
        (Verdict::Undecided, false) => "is undecided",
        (Verdict::Undecided, true) => "are undecided",
        (Verdict::Invalid, false) => "is invalid",
        (Verdict::Invalid, true) => "are invalid",
    };
    let level = match s.level.control {
        Control::Rate => step_level(s),
        _ => format!("{} ({} req/s)", step_level(s), figure(s.achieved_rate)),
    };
    let again = measured(run, a, s.level.value).map(|m| format!("; {m}")).unwrap_or_default();
    let binding = run.judged(a, s).1;
    format!("{level} {verb} ({}{again})", counts(a, s, verdict, binding.as_deref()))
}

/// Returns the outcomes of a level that was measured several times with different ones: `measured twice: undecided,
/// fails`.
pub(crate) fn measured(run: &Run, a: &Answer, level: f64) -> Option<String> {
    let verdicts: Vec<Verdict> = run.steps_at(a, level).iter().map(|s| run.judged(a, s).0).collect();
    if verdicts.iter().all(|v| *v == verdicts[0]) {
        return None;
    }
    let times = if verdicts.len() == 2 { "twice".to_owned() } else { format!("{} times", verdicts.len()) };
    let names: Vec<&str> = verdicts.iter().map(|v| v.name()).collect();
    Some(format!("measured {times}: {}", names.join(", ")))
}

/// Returns the counts behind a verdict: `p99 TTFT: 41 of 1,200 missed`.
fn counts(a: &Answer, s: &Step, verdict: Verdict, limit: Option<&str>) -> String {
    let named = |r: &&LimitRow| limit.is_some_and(|key| r.is(key));
    let row = s.limits.iter().find(|r| r.tier == a.tier && named(r));
    let row = row.or_else(|| s.limits.iter().find(named));
    match (verdict, limit) {
        (Verdict::Invalid, _) => return s.fault().into(),
        _ if s.all_failed() => return "every request failed".into(),
        (_, Some(ERRORS)) => {
            return format!(
                "{} of {} requests failed",
                thousands(s.failed as f64),
                thousands(s.due_n as f64)
            );
        }
        (Verdict::Fails, Some("stability")) => return "the backlog grows".into(),
        (_, Some("stability")) => return "whether the backlog grows is not known".into(),
        _ => {}
    }
    row.map_or_else(
        || s.reason.clone(),
        |r| {
            let (misses, n) = (thousands(r.misses as f64), thousands(r.n as f64));
            format!("{}: {misses} of {n} missed", binding(&r.key()))
        },
    )
}
