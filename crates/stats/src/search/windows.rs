//! The windows of a listed level: a level that is measured for hours is split into windows, each of them a step.
//! Together they give the result of one step of that length.

use super::posterior::limits;
use crate::stats::cluster::pooled_inflation;
use crate::stats::step::{Abort, LimitRow, Step, StepKind, Verdict};
use crate::stats::summary::step_verdict;
use crate::stats::verdict::{Counts, GROSS, GROSS_INFLATION, INFLATION, gross, judge};
use goodput_core::level::Level;
use goodput_core::slo::Slo;
use goodput_core::times::StepTimes;
use goodput_core::units::thousands;
use std::borrow::Cow;
use std::time::Duration;

/// Returns the levels of a list, each repeated once per window, with the length of the window.
pub(super) fn windows(levels: &[Level], times: &StepTimes) -> Vec<(Level, Duration)> {
    let of = |level: &Level| {
        let (n, each) = times.windows(level.per_s());
        std::iter::repeat_n((*level, each), n as usize)
    };
    levels.iter().flat_map(of).collect()
}

/// Error probability of a verdict on a listed level, on each side.
pub(super) const ERROR: f64 = 0.05;

/// Returns the steps of a list, with successive windows of one level merged into one step. A level that is listed twice
/// stays two steps.
pub fn together<'a>(steps: &[&'a Step], tiers: &[Slo], times: &StepTimes) -> Vec<Cow<'a, Step>> {
    let alike = |a: &&Step, b: &&Step| {
        a.kind == StepKind::List && b.kind == a.kind && a.level == b.level && a.series == b.series
    };
    let of_level = |same: &[&'a Step]| -> Vec<Cow<'a, Step>> {
        let (n, _) = same.first().map_or((1, Duration::ZERO), |s| times.windows(s.level.per_s()));
        if n == 1 || same.iter().any(|s| s.kind != StepKind::List) {
            return same.iter().map(|s| Cow::Borrowed(*s)).collect();
        }
        same.chunks(n as usize).map(|windows| Cow::Owned(merged(windows, n as usize, tiers))).collect()
    };
    steps.chunk_by(alike).flat_map(of_level).collect()
}

/// Merges the windows of one level into one step: counts are added up and judged together. A window that fails by
/// itself beyond chance fails the level: its backlog grew, its misses were gross, or the server refused it. Other hours
/// do not make up for an hour of outage.
///
/// Fewer windows than the level has, or an aborted window, never meet.
fn merged(windows: &[&Step], of: usize, tiers: &[Slo]) -> Step {
    let whole =
        windows.len() == of && windows.iter().all(|s| !s.broken_off() && s.abort != Some(Abort::ServerGone));
    let mut all = windows.iter().max_by_key(|s| s.due_n).map_or_else(|| windows[0].clone(), |s| (*s).clone());
    let sum = |of: fn(&Step) -> u64| windows.iter().map(|s| of(s)).sum();
    let mean = |of: fn(&Step) -> f64| windows.iter().map(|s| of(s)).sum::<f64>() / windows.len() as f64;
    (all.due_n, all.completed) = (sum(|s| s.due_n), sum(|s| s.completed));
    (all.failed, all.cut, all.refused) = (sum(|s| s.failed), sum(|s| s.cut), sum(|s| s.refused));
    (all.unsent, all.conn_new) = (sum(|s| s.unsent), sum(|s| s.conn_new));
    (all.offered_rate, all.sent_rate) = (mean(|s| s.offered_rate), mean(|s| s.sent_rate));
    (all.achieved_rate, all.good_rate) = (mean(|s| s.achieved_rate), mean(|s| s.good_rate));
    (all.retried, all.attempts, all.resets) = (sum(|s| s.retried), sum(|s| s.attempts), sum(|s| s.resets));
    (all.failed_timeout, all.cut_timeout) = (sum(|s| s.failed_timeout), sum(|s| s.cut_timeout));
    all.output_tokens_per_s = mean(|s| s.output_tokens_per_s);
    all.prompt_tokens_per_s = mean(|s| s.prompt_tokens_per_s);
    all.items_per_s = mean(|s| s.items_per_s);
    all.in_flight_mean = mean(|s| s.in_flight_mean);
    all.abort = windows.iter().find_map(|s| s.abort);
    all.stable = match () {
        () if windows.iter().any(|s| s.stable == Some(false)) => Some(false),
        () if windows.iter().any(|s| s.stable == Some(true)) => Some(true),
        () => None,
    };
    for slo in tiers {
        let allowed = limits(slo);
        let joint = (1.0 - slo.joint_target()).max(0.0);
        for row in all.limits.iter_mut().filter(|r| r.tier == slo.tier()) {
            let key = row.key();
            let own: Vec<&LimitRow> = windows.iter().filter_map(|s| s.row(slo.tier(), &key)).collect();
            if row.limit == "stability" {
                row.verdict = of_stability(&own);
                continue;
            }
            let p0 = allowed.iter().find(|(limit, _)| *limit == key).map_or(joint, |(_, p0)| *p0);
            pool(row, &own, windows, p0);
            if row.verdict == Verdict::Meets && !whole {
                row.verdict = Verdict::Undecided;
            }
        }
    }
    let tier = tiers.first().map_or("main", Slo::tier);
    (all.verdict, all.binding) = step_verdict(&all, tier);
    let count = |n: u64| thousands(n as f64);
    let counts = all
        .binding
        .as_ref()
        .and_then(|key| all.row(tier, key))
        .filter(|row| row.n > 0 && row.limit != "stability");
    let counts =
        counts.map(|row| format!(": {} of {} missed", count(row.misses), count(row.n))).unwrap_or_default();
    all.reason = match whole {
        true => format!("{of} windows together{counts}"),
        false => format!("{} of {of} windows{counts}", windows.len()),
    };
    all
}

/// Returns the verdict on stability: stable if no window shows a growing backlog and at least one shows stability. A
/// window too short to show either raises no doubt then.
fn of_stability(own: &[&LimitRow]) -> Verdict {
    let any = |verdict| own.iter().any(|r| r.verdict == verdict);
    let ranked = [Verdict::Fails, Verdict::Invalid, Verdict::Meets];
    ranked.into_iter().find(|v| any(*v)).unwrap_or(Verdict::Undecided)
}

fn pool(row: &mut LimitRow, own: &[&LimitRow], windows: &[&Step], p0: f64) {
    let sum = |of: fn(&LimitRow) -> u64| own.iter().map(|r| of(r)).sum::<u64>();
    (row.n, row.misses, row.censored) = (sum(|r| r.n), sum(|r| r.misses), sum(|r| r.censored));
    (row.clusters, row.cluster_sq) = (sum(|r| r.clusters), sum(|r| r.cluster_sq));
    row.co_misses = Vec::new();
    for c in own.iter().flat_map(|r| &r.co_misses) {
        match row.co_misses.iter_mut().find(|known| known.limit == c.limit) {
            Some(known) => known.add(c),
            None => row.co_misses.push(c.clone()),
        }
    }
    let counts = Counts { n: row.n, misses: row.misses, censored: row.censored };
    row.attainment = counts.attainment();
    let due: u64 = windows.iter().map(|s| s.due_n).sum();
    let each = row.per_request(due);
    let inflation = match row.limit.starts_with("itl.") {
        true => INFLATION,
        false => pooled_inflation(windows.iter().copied(), None, &row.tier, &row.key(), p0),
    };
    let shown = judge(counts, p0, ERROR, each * inflation);
    (row.low, row.high) = (shown.low, shown.high);
    let by_far = |(s, r): (&&Step, &&LimitRow)| {
        let refused = matches!(s.abort, Some(Abort::Errors | Abort::AllFailed));
        let gross = gross(r.misses, r.n, p0, GROSS_INFLATION * r.per_request(s.due_n)) > GROSS;
        r.verdict == Verdict::Fails && (refused || gross || p0 <= 0.0)
    };
    let void = row.n == 0 && own.iter().all(|r| r.verdict == Verdict::Meets);
    row.verdict = match shown.verdict {
        _ if windows.iter().zip(own).any(by_far) => Verdict::Fails,
        Verdict::Fails => Verdict::Fails,
        _ if own.iter().any(|r| r.verdict == Verdict::Invalid) => Verdict::Invalid,
        _ if void => Verdict::Meets,
        shown => shown,
    };
}

#[cfg(test)]
mod tests;
