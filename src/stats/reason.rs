//! The verdict of a tier from its rows, the limit that binds, and both in words.

use super::limits::Counted;
use super::step::{LimitRow, Verdict};
use crate::units::{Percentile, short};

/// The verdict of a tier from its rows, and the limit that binds.
///
/// *fails* if any row fails, else *invalid* if any is, else *undecided* if any is, else *meets*; the `joint` row has no say.
/// Binding is `stability` where the step is not stable; else the failing limit with the largest share of misses relative to
/// what it allows, or `error-rate` where failures make up at least half of its misses; of a step that meets or is undecided,
/// the limit nearest to its bound; of an invalid one, none.
pub fn tier_verdict(rows: &[LimitRow], tier: &str) -> (Verdict, Option<String>) {
    let own: Vec<&LimitRow> = rows.iter().filter(|r| r.tier == tier && r.limit != "joint").collect();
    let verdict = worst(own.iter().map(|r| r.verdict));
    let binding = match verdict {
        Verdict::Invalid => None,
        Verdict::Fails | Verdict::Undecided => strongest(&own, verdict),
        Verdict::Meets => nearest(&own),
    };
    (verdict, binding.map(|r| r.limit.clone()))
}

/// The verdict of all of these together; undecided where there are none.
pub fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let rank = |v: &Verdict| match v {
        Verdict::Meets => 0,
        Verdict::Undecided => 1,
        Verdict::Invalid => 2,
        Verdict::Fails => 3,
    };
    verdicts.max_by_key(rank).unwrap_or(Verdict::Undecided)
}

/// The share of misses that a latency limit allows, by its name: 0.01 for `ttft.p99`.
fn allowed(row: &LimitRow) -> Option<f64> {
    let (_, percentile) = row.limit.split_once('.')?;
    Some(percentile.parse::<Percentile>().ok()?.miss_share())
}

fn strongest<'a>(rows: &[&'a LimitRow], verdict: Verdict) -> Option<&'a LimitRow> {
    let shown = || rows.iter().copied().filter(|r| r.verdict == verdict);
    let named = |name: &str| shown().find(|r| r.limit == name);
    let excess = |r: &LimitRow| allowed(r).map(|p0| r.misses as f64 / r.n.max(1) as f64 / p0);
    let latency =
        shown().filter_map(|r| Some((r, excess(r)?))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(r, _)| r);
    let errors = named("error-rate");
    if let (Verdict::Fails, Some(unstable)) = (verdict, named("stability")) {
        return Some(unstable);
    }
    match (latency, errors) {
        (Some(latency), Some(errors)) => {
            let half = errors.misses > 0 && 2 * errors.misses >= latency.misses;
            Some(if half { errors } else { latency })
        }
        (latency, errors) => latency.or(errors).or_else(|| named("stability")),
    }
}

fn nearest<'a>(rows: &[&'a LimitRow]) -> Option<&'a LimitRow> {
    let used = |r: &LimitRow| Some((1.0 - r.low?) / allowed(r)?);
    let latency = rows.iter().filter_map(|r| Some((*r, used(r)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    latency.map(|(r, _)| r).or_else(|| rows.iter().copied().find(|r| r.limit == "error-rate"))
}

/// Why a step has its verdict, in a sentence with numbers. `growth` is that of the requests in flight per second.
pub(super) fn reason(
    rows: &[Counted],
    tier: &str,
    verdict: Verdict,
    binding: Option<&str>,
    growth: Option<f64>,
) -> String {
    let own = || rows.iter().filter(|c| c.row.tier == tier);
    if verdict == Verdict::Invalid {
        let fault = own().find(|c| c.row.verdict == Verdict::Invalid && c.row.limit != "joint");
        return fault.and_then(|c| c.fault.clone()).unwrap_or_else(|| "the client was the limit".into());
    }
    let Some(c) = binding.and_then(|b| own().find(|c| c.row.limit == b)) else {
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
            _ => "too short, or too few requests, to tell whether the backlog grows".into(),
        };
    }
    counted(c, verdict)
}

fn counted(c: &Counted, verdict: Verdict) -> String {
    let row = &c.row;
    let what = if row.limit.starts_with("itl.") { "gaps" } else { "requests" };
    if row.n == 0 {
        return format!("{}: no {what} to judge", c.title);
    }
    let share = |x: f64| short(round(x * 100.0));
    let misses = format!("{}: {} {} of {} {what}", c.title, row.misses, plural(row.misses), row.n);
    let cut = if row.censored > 0 { format!(", {} more not known", row.censored) } else { String::new() };
    let (most, least) = (1.0 - row.low.unwrap_or(0.0), 1.0 - row.high.unwrap_or(1.0));
    let allowed = share(c.p0);
    match verdict {
        Verdict::Fails => {
            format!("{misses} ({} %, allowed {allowed} %)", share(row.misses as f64 / row.n as f64))
        }
        Verdict::Meets => format!("{misses}{cut}: at most {} %, allowed {allowed} %", share(most)),
        _ => format!(
            "{misses}{cut} leave {}–{} %, allowed {allowed} %: too few requests to tell",
            share(least.max(0.0)),
            share(most)
        ),
    }
}

/// Two significant figures: a bound is worth no more.
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
