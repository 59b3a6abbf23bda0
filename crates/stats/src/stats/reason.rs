//! The verdict of a tier from its rows, the binding limit, and explanations of both.

use super::cluster::pooled_inflation;
use super::compact_record::CompactRecord;
use super::limits::JudgedRow;
use super::needed::{Needed, needed};
use super::steady::MIN_REQUESTS;
use super::step::{LimitRow, Step, Verdict};
use super::verdict::Counts;
use goodput_core::record::{Failure, Outcome};
use goodput_core::slo::limit_percentile;
use goodput_core::units::{Percentile, short, thousands};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// Name of the binding "limit" if requests failed, whether or not the SLO has an error rate.
pub const ERRORS: &str = "errors";

/// Returns the verdict of a tier from its rows, and the key of the binding limit.
///
/// *Fails* if any row fails, else *invalid* if any is, else *undecided* if any is, else *meets*; the `joint` row is ignored.
///
/// The binding limit is `stability` if the step is not stable; else the failing limit with the largest share of misses relative
/// to the allowed one, or `error-rate` if failures make up at least half of its misses. For a step that meets or is undecided it
/// is the limit closest to its bound; an invalid step has none.
pub fn tier_verdict(rows: &[LimitRow], tier: &str) -> (Verdict, Option<String>) {
    let own: Vec<&LimitRow> = rows.iter().filter(|r| r.tier == tier && r.limit != "joint").collect();
    let verdict = worst(own.iter().map(|r| r.verdict));
    let binding = match verdict {
        Verdict::Invalid => None,
        Verdict::Fails | Verdict::Undecided => strongest(&own, verdict),
        Verdict::Meets => nearest(&own),
    };
    (verdict, binding.map(LimitRow::key))
}

/// Replaces the binding limit of a failing step by [`ERRORS`] if failed requests make up at least half of its misses.
///
/// `failed` returns how many requests failed, of those that the limits of a class judge. `error-rate` and `stability` are never
/// replaced, nor are limits on gaps, since failed requests have none.
pub fn blamed(
    binding: Option<String>,
    verdict: Verdict,
    rows: &[LimitRow],
    tier: &str,
    failed: impl Fn(&str) -> u64,
) -> Option<String> {
    let binding = binding?;
    let row = rows.iter().find(|r| r.tier == tier && r.is(&binding));
    let by_request =
        |r: &LimitRow| r.limit == "joint" || (allowed(r).is_some() && !r.limit.starts_with("itl."));
    let failures = |r: &LimitRow| {
        let failed = failed(&r.class);
        failed > 0 && 2 * failed >= r.misses
    };
    let errors = verdict == Verdict::Fails && row.is_some_and(|r| by_request(r) && failures(r));
    Some(if errors { ERRORS.to_owned() } else { binding })
}

/// Returns the verdict of a step on a tier, and the binding limit: [`tier_verdict`] followed by [`blamed`].
pub fn step_verdict(step: &Step, tier: &str) -> (Verdict, Option<String>) {
    let (verdict, binding) = tier_verdict(&step.limits, tier);
    (verdict, blamed(binding, verdict, &step.limits, tier, |class| step.failed_of(class)))
}

/// Describes the failures among measured requests, most frequent kind first: `48 of 50 requests failed (server-error 500)`.
pub(super) fn failures(measured: &[&CompactRecord]) -> String {
    let mut kinds: BTreeMap<(Failure, Option<NonZeroU16>), u64> = BTreeMap::new();
    for r in measured.iter().filter(|r| r.outcome == Outcome::Failed) {
        if let Some(kind) = r.failure {
            *kinds.entry((kind, r.status)).or_default() += 1;
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let failed: u64 = kinds.iter().map(|(_, count)| count).sum();
    let several = kinds.len() > 1;
    let describe = |((kind, status), count): &((Failure, Option<NonZeroU16>), u64)| {
        let status = status.map(|s| format!(" {s}")).unwrap_or_default();
        let times = if several { format!(" × {count}") } else { String::new() };
        format!("{}{status}{times}", kind.name())
    };
    let kinds: Vec<String> = kinds.iter().take(3).map(describe).collect();
    let count = |n: u64| thousands(n as f64);
    format!("{} of {} requests failed ({})", count(failed), count(measured.len() as u64), kinds.join(", "))
}

/// Returns the worst of several verdicts; undecided if there are none.
pub fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let rank = |v: &Verdict| match v {
        Verdict::Meets => 0,
        Verdict::Undecided => 1,
        Verdict::Invalid => 2,
        Verdict::Fails => 3,
    };
    verdicts.max_by_key(rank).unwrap_or(Verdict::Undecided)
}

/// Returns the share of misses that a latency limit allows, parsed from its name: 0.01 for `ttft.p99`.
fn allowed(row: &LimitRow) -> Option<f64> {
    limit_percentile(&row.limit).map(Percentile::miss_share)
}

fn strongest<'a>(rows: &[&'a LimitRow], verdict: Verdict) -> Option<&'a LimitRow> {
    let with_verdict = || rows.iter().copied().filter(|r| r.verdict == verdict);
    let named = |name: &str| with_verdict().find(|r| r.limit == name);
    let errors_of = |r: &LimitRow| with_verdict().find(|e| e.limit == "error-rate" && e.class == r.class);
    let excess = |r: &LimitRow| allowed(r).map(|p0| r.misses as f64 / r.n.max(1) as f64 / p0);
    let latency = with_verdict()
        .filter_map(|r| Some((r, excess(r)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(r, _)| r);
    if let (Verdict::Fails, Some(unstable)) = (verdict, named("stability")) {
        return Some(unstable);
    }
    match latency {
        Some(latency) => {
            let half = |e: &&LimitRow| e.misses > 0 && 2 * e.misses >= latency.misses;
            Some(errors_of(latency).filter(half).unwrap_or(latency))
        }
        None => named("error-rate").or_else(|| named("stability")),
    }
}

fn nearest<'a>(rows: &[&'a LimitRow]) -> Option<&'a LimitRow> {
    let used = |r: &LimitRow| Some((1.0 - r.low?) / allowed(r)?);
    let latency = rows.iter().filter_map(|r| Some((*r, used(r)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    latency.map(|(r, _)| r).or_else(|| rows.iter().copied().find(|r| r.limit == "error-rate"))
}

/// Explains the verdict of a step in one sentence with numbers. `growth` is the growth of the requests in flight per second,
/// `error` the probability of error of the verdict (one-sided).
pub(super) fn reason(
    rows: &[JudgedRow],
    tier: &str,
    verdict: Verdict,
    error: f64,
    binding: Option<&str>,
    growth: Option<f64>,
) -> String {
    let own = || rows.iter().filter(|c| c.row.tier == tier);
    if verdict == Verdict::Invalid {
        let fault = own().find(|c| c.row.verdict == Verdict::Invalid && c.row.limit != "joint");
        return fault.and_then(|c| c.fault.clone()).unwrap_or_else(|| "the client was the limit".into());
    }
    let Some(c) = binding.and_then(|b| own().find(|c| c.row.is(b))) else {
        return match verdict {
            Verdict::Meets => "no limit was missed".into(),
            _ => "nothing was measured".into(),
        };
    };
    if c.row.limit == "stability" {
        return match verdict {
            Verdict::Fails => format!(
                "not stable: the queue grew through the step, requests in flight by {} a second",
                short(growth.unwrap_or(0.0))
            ),
            _ => format!(
                "too short, or too few requests, to tell whether the backlog grows: that takes {MIN_REQUESTS} requests and two end-to-end times at the least"
            ),
        };
    }
    counted(c, verdict, error)
}

fn counted(c: &JudgedRow, verdict: Verdict, error: f64) -> String {
    let row = &c.row;
    let what = if row.limit.starts_with("itl.") { "gaps" } else { "requests" };
    if row.n == 0 {
        return match (c.answered, verdict) {
            (true, Verdict::Undecided) => format!("{}: no answer could be judged", c.title),
            _ => format!("{}: no {what} to judge", c.title),
        };
    }
    let share = |x: f64| short(round(x * 100.0));
    let count = |n: u64| thousands(n as f64);
    let misses =
        format!("{}: {} {} of {} {what}", c.title, count(row.misses), plural(row.misses), count(row.n));
    let cut =
        if row.censored > 0 { format!(", {} more not known", count(row.censored)) } else { String::new() };
    let (upper, lower) = (1.0 - row.low.unwrap_or(0.0), 1.0 - row.high.unwrap_or(1.0));
    let allowed = share(c.p0);
    match verdict {
        Verdict::Fails => {
            format!("{misses} ({} %, allowed {allowed} %)", share(row.misses as f64 / row.n as f64))
        }
        Verdict::Meets => format!("{misses}{cut}: at most {} %, allowed {allowed} %", share(upper)),
        _ => format!(
            "{misses}{cut} {} {}–{} %, allowed {allowed} %: {}",
            if row.misses == 1 && row.censored == 0 { "leaves" } else { "leave" },
            // A bound this small is as good as none.
            share(if lower < 1e-4 { 0.0 } else { lower }),
            share(upper),
            describe_so_far(counts_of(row), needed(counts_of(row), c.p0, error, c.inflation), what)
        ),
    }
}

fn counts_of(row: &LimitRow) -> Counts {
    Counts { n: row.n, misses: row.misses, censored: row.censored }
}

/// Describes how many more requests would decide an undecided latency limit of a step, given all measured steps and the one-sided
/// probability of error; `None` for limits that do not count requests, and if no number of requests is known to suffice.
pub fn would_decide(row: &LimitRow, steps: &[Step], error: f64) -> Option<String> {
    let p0 = allowed(row).filter(|_| !row.limit.starts_with("itl.") && row.verdict == Verdict::Undecided)?;
    let inflation = pooled_inflation(steps, None, &row.tier, &row.key(), p0);
    Some(describe_needed(needed(counts_of(row), p0, error, inflation), "requests"))
        .filter(|text| !text.is_empty())
}

/// Returns about how many requests in all decide an undecided latency limit at its share of misses, or without another miss where no
/// number does at that share; `None` as in [`would_decide`].
pub fn requests_needed(row: &LimitRow, steps: &[Step], error: f64) -> Option<u64> {
    let p0 = allowed(row).filter(|_| !row.limit.starts_with("itl.") && row.verdict == Verdict::Undecided)?;
    let inflation = pooled_inflation(steps, None, &row.tier, &row.key(), p0);
    let needed = needed(counts_of(row), p0, error, inflation);
    needed.at_this_share.map(|(more, _)| more).or(needed.without_a_miss).map(|more| row.n + more)
}

/// Describes how far the requests of a step are towards a verdict: `382 of about 5,900 requests needed without another miss, of about
/// 7,200 at this share of misses`.
fn describe_so_far(counts: Counts, needed: Needed, what: &str) -> String {
    let have = thousands(counts.n as f64);
    let total = |more: u64| thousands(round_up(counts.n + more));
    let another = if counts.misses + counts.censored > 0 { "another" } else { "a" };
    let at_share = needed.at_this_share.map(|(more, shows)| {
        let so = if shows == Verdict::Fails { ", which would fail it" } else { "" };
        format!("of about {} at this share of misses{so}", total(more))
    });
    match (needed.without_a_miss, at_share) {
        (Some(more), Some(share)) => {
            format!("{have} of about {} {what} needed without {another} miss, {share}", total(more))
        }
        (Some(more), None) => format!("{have} of about {} {what} needed without {another} miss", total(more)),
        (None, Some(share)) => format!("{have} {what}, {share} needed"),
        (None, None) => format!("too few {what} to tell"),
    }
}

/// Describes how many more requests are needed: `298 more requests without a miss would do, or about 1,900 at this share of
/// misses`; empty if no number suffices.
fn describe_needed(needed: Needed, what: &str) -> String {
    let count = |n: u64| thousands(round_up(n));
    let at_share = needed.at_this_share.map(|(n, shows)| {
        let so = if shows == Verdict::Fails { ", which would fail it" } else { "" };
        (count(n), format!("at this share of misses{so}"))
    });
    match (needed.without_a_miss, at_share) {
        (Some(n), Some((m, share))) => {
            format!("{} more {what} without a miss would do, or about {m} {share}", count(n))
        }
        (Some(n), None) => format!("{} more {what} without a miss would do", count(n)),
        (None, Some((m, share))) => format!("about {m} more {what} would do {share}"),
        (None, None) => String::new(),
    }
}

/// Rounds up to two significant figures, from a thousand on.
fn round_up(n: u64) -> f64 {
    if n < 1000 {
        return n as f64;
    }
    let unit = 10_f64.powf((n as f64).log10().floor() - 1.0);
    (n as f64 / unit).ceil() * unit
}

/// Rounds to two significant figures, the precision of a bound.
fn round(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powf(x.log10().floor() - 1.0);
    (x / unit).round() * unit
}

const fn plural(misses: u64) -> &'static str {
    if misses == 1 { "miss" } else { "misses" }
}

#[cfg(test)]
mod tests;
