//! Results derived from the steps and failures of a run: caveats, and the capacity at an answer.

mod cost;
mod cross;
mod good;
mod gpus;
mod hits;
mod host;
mod level;
mod replicas;
mod resets;
mod trace;

pub use trace::coverage;

use super::{FailureRow, Run, client_faults};
use goodput_core::caveat::{
    AnswersCaveat, Caveat, OriginCaveat, Refusal, SearchCaveat, ServerCaveat, SweepCaveat,
};
use goodput_core::level::Control;
use goodput_core::record::Failure;
use goodput_core::slo::{Limit, LimitGroup, Metric, Slo};
use goodput_core::units::{Fraction, Percentile};
use goodput_plan::Plan;
use goodput_plan::server::Target;
use goodput_stats::search::answer::{Answer, Goodput, Status};
use goodput_stats::search::windows::together;
use goodput_stats::stats::cluster::pooled_inflation;
use goodput_stats::stats::percentile::min_n_upper;
use goodput_stats::stats::step::{Abort, Step, StepKind};
use goodput_stats::stats::verdict::INFLATION;
use goodput_workload::rate::WordRate;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU8;

/// Smallest ratio between the ends of a bracket that is called wide.
const WIDE: f64 = 1.25;

/// Returns all caveats that the files show, beside those that the sweep `noted`.
pub(crate) fn caveats(
    plan: &Plan,
    words: Option<WordRate>,
    steps: &[Step],
    failures: &[FailureRow],
    answers: &[Answer],
    noted: &[Caveat],
) -> Vec<Caveat> {
    let all = steps;
    // Peak steps overload the server on purpose and a profiler slows it down: neither casts doubt on the answer.
    let of_search: Vec<Step> = steps.iter().filter(|s| !s.kind.is_auxiliary()).cloned().collect();
    let steps = &of_search[..];
    let mut found: Vec<Caveat> = inflation(plan, steps, answers).into_iter().collect();
    if answers.iter().any(|a| bracket(&a.goodput) || bracket(&a.joint_goodput)) {
        found.insert(0, Caveat::Search(SearchCaveat::BracketOnly));
        found.splice(1..1, answers.iter().filter_map(|a| wide(a, answers)));
    }
    let unloaded = |s: &&Step| s.kind == StepKind::Baseline;
    // A matrix or a run without limits yields no rate that could be mistaken for that of an open loop.
    let rate = plan.purpose.is_goodput() && plan.rows.is_empty();
    if rate && steps.iter().any(|s| s.level.control == Control::Concurrency && !unloaded(&s)) {
        found.push(Caveat::Search(SearchCaveat::ClosedLoop));
    }
    if matches!(plan.server.target, Target::Simulated(_)) {
        found.push(Caveat::Origin(OriginCaveat::Simulated));
    }
    for step in all {
        match step.abort {
            Some(Abort::Interrupted) => found.push(Caveat::Sweep(SweepCaveat::Interrupted)),
            Some(Abort::ServerGone) => {
                found.push(Caveat::Server(ServerCaveat::ServerGone { step: step.step }))
            }
            Some(Abort::Errors) => {
                let how = Refusal::TooManyErrors { failed: step.failed, of: step.due_n };
                found.push(Caveat::Server(ServerCaveat::Refused { step: step.step, how }));
            }
            // The sweep as a whole notes why the other steps were aborted.
            Some(
                Abort::Gross
                | Abort::AllFailed
                | Abort::NoAnswer
                | Abort::Deadline
                | Abort::Disk
                | Abort::WorkerLost,
            )
            | None => {}
        }
        if step.refused_beyond(plan.step.max_error_share.map_or(1.0, Fraction::get)) {
            let how = Refusal::RateLimited { refused: step.refused, of: step.due_n };
            found.push(Caveat::Server(ServerCaveat::Refused { step: step.step, how }));
        }
    }
    let timeouts_noted =
        noted.iter().any(|c| matches!(c, Caveat::Answers(AnswersCaveat::TimedOut { is_error: true, .. })));
    found.extend(failed(all, failures, timeouts_noted));
    found.extend(resets::resets(all));
    found.extend(replicas::replicas(steps));
    let has_choices = plan.most_choices() > NonZeroU8::MIN;
    found.extend(hits::hits(&plan.workload, has_choices, words, steps));
    found.extend(trace::replayed(steps));
    found.extend(client_faults::faults(plan, all, failures).into_iter().map(Caveat::from));
    found.extend(host::shared_cores(steps, answers));
    let restarted = all.iter().filter(|s| s.server.restarted);
    found.extend(restarted.map(|s| Caveat::Server(ServerCaveat::ServerRestarted { step: s.step })));
    found.extend(gpus::stale(all));
    found.extend(cross::disagreements(steps, has_choices));
    // The adaptive search makes its baseline and its ramp short on purpose.
    let brief = |s: &Step| adaptive(steps) && matches!(s.kind, StepKind::Baseline | StepKind::Ramp);
    // This assumes independent requests: the effect of clusters on the upper bound is shown next to the percentiles.
    let percentile = highest_percentile(plan);
    let least = min_n_upper(percentile);
    let open = |s: &Step| (1..least).contains(&s.quantiles(Metric::Ttft).n);
    let deciding: Vec<&Step> = steps.iter().filter(|s| !brief(s)).collect();
    let short = deciding.iter().filter(|s| open(s)).count() as u32;
    if short > 0 {
        let refine = adaptive(steps).then_some(deciding.len() as u32);
        found.push(Caveat::Search(SearchCaveat::FewRequests { steps: short, refine, percentile, least }));
    }
    found
}

/// Returns the highest percentile that the SLO of a plan limits, p99 if it limits none. At most p99: reports give no bounds
/// of higher ones.
fn highest_percentile(plan: &Plan) -> Percentile {
    let tiers = plan.slo.as_slice();
    let groups = tiers.iter().flat_map(Slo::limit_groups);
    let limited = groups.flat_map(|group| group.slo.limits()).map(|limit| limit.percentile);
    limited.max().map_or(Percentile::P99, |highest| highest.min(Percentile::P99))
}

/// Returns true if the search chose its own levels. A baseline alone does not show it: a list may have one, too.
pub fn adaptive(steps: &[Step]) -> bool {
    let any = |kind| steps.iter().any(|s| s.kind == kind);
    any(StepKind::Refine) || (any(StepKind::Baseline) && !any(StepKind::List))
}

impl Run {
    /// Returns true if the search chose its own levels.
    pub fn is_adaptive(&self) -> bool {
        adaptive(&self.steps)
    }

    /// Returns the run with all windows of one level merged into one step, as the answer counts them.
    pub fn in_levels(&self) -> Cow<'_, Self> {
        let steps: Vec<&Step> = self.steps.iter().collect();
        let listed = |pair: &[Step]| pair[0].kind == StepKind::List && pair[0].level == pair[1].level;
        let Some(plan) =
            self.steps.windows(2).any(listed).then(|| Plan::parse(&self.plan_toml).ok()).flatten()
        else {
            return Cow::Borrowed(self);
        };
        let levels = together(&steps, &self.tiers, &plan.step);
        if levels.len() == steps.len() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { steps: levels.into_iter().map(Cow::into_owned).collect(), ..self.clone() })
    }
}

/// Returns the median and the 90 % interval of an answer, if the answer is based on them.
pub fn interval(g: &Goodput) -> Option<(f64, [f64; 2])> {
    g.rate().zip(g.interval90())
}

/// Returns the safe rate of an answer, unless the client was the limit.
pub fn usable_safe_rate(g: &Goodput) -> Option<f64> {
    g.safe_rate().filter(|_| g.status() != Status::Invalid)
}

/// Returns the caveat on the assumed clustering of misses, for the binding limit or else the first.
fn inflation(plan: &Plan, steps: &[Step], answers: &[Answer]) -> Option<Caveat> {
    // Clustering does not matter if the unloaded server misses the SLO, or if no request was answered.
    let hopeless = |a: &Answer| {
        let failed = |s: &Step| a.goodput.bracket.failed.is_none_or(|f| f >= s.level.value) && s.all_failed();
        a.goodput.status() == Status::None && (a.goodput.bracket.failed.is_none() || steps.iter().any(failed))
    };
    if !answers.is_empty() && answers.iter().all(hopeless) {
        return None;
    }
    let slo = plan.slo.as_slice().first()?;
    let of_part = |part: LimitGroup<'_>| {
        let share = |l: Limit| (part.key(&l.name()), l.percentile.miss_share());
        part.slo.limits().into_iter().map(share).collect::<Vec<_>>()
    };
    let limits: Vec<(String, f64)> = slo.limit_groups().into_iter().flat_map(of_part).collect();
    let binding = answers.first().and_then(|a| a.goodput.binding.as_deref());
    let (limit, p0) =
        limits.iter().find(|(key, _)| Some(key.as_str()) == binding).or_else(|| limits.first())?;
    let pooled = pooled_inflation(steps, None, slo.tier(), limit, *p0);
    Some(Caveat::Search(SearchCaveat::InflationAssumed {
        inflation: INFLATION,
        limit: limit.clone(),
        pooled,
    }))
}

/// Returns a caveat if the ends of a bracket are far apart; names the tier if there are several.
fn wide(a: &Answer, all: &[Answer]) -> Option<Caveat> {
    let (met, failed) = (a.goodput.bracket.met?, a.goodput.bracket.failed?);
    let factor = failed / met;
    let tier = all.iter().any(|other| other.tier != a.tier).then(|| a.tier.clone());
    let found = bracket(&a.goodput) && factor > WIDE;
    found.then_some(Caveat::Search(SearchCaveat::WideBracket { tier, control: a.control, factor }))
}

/// Returns true if an answer lies between two measured levels and has no interval.
fn bracket(g: &Goodput) -> bool {
    g.bracket.met.is_some() && g.bracket.failed.is_some() && g.interval90().is_none()
}

/// Returns the caveat on failed requests; without timeouts if a caveat of their own counts them.
fn failed(steps: &[Step], failures: &[FailureRow], timeouts_noted: bool) -> Option<Caveat> {
    let counted = |s: &Step| s.failed.saturating_sub(if timeouts_noted { s.failed_timeout } else { 0 });
    let (requests, of) = steps.iter().fold((0, 0), |(f, n), s| (f + counted(s), n + s.due_n));
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    // Requests that the default timeout cut off do not count as failed.
    let cut = steps.iter().any(|s| s.cut_timeout > 0);
    let without_timeouts = cut || timeouts_noted;
    let counts = |f: &&FailureRow| f.step > 0 && !(without_timeouts && f.kind == Failure::Timeout.name());
    for row in failures.iter().filter(counts) {
        *kinds.entry(&row.kind).or_default() += row.count;
    }
    let all: u64 = kinds.values().sum();
    let (kind, count) = kinds.into_iter().rev().max_by_key(|(_, count)| *count)?;
    let most = 2 * count > all;
    // A kind of a later version is unknown to this one.
    let named = |kind| Failure::from_name(kind).unwrap_or(Failure::Unknown);
    (requests > 0).then(|| Caveat::Answers(AnswersCaveat::Failures { requests, of, kind: named(kind), most }))
}

#[cfg(test)]
mod tests;
