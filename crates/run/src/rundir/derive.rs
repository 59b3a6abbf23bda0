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
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Conclusion;
    use goodput_stats::stats::step::Verdict;

    fn of(case: &str, change: impl Fn(&mut Run)) -> Vec<Caveat> {
        let plan = Plan::parse(include_str!("../../../../tests/fixtures/plans/design.toml")).unwrap();
        let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == case).unwrap();
        change(&mut run);
        caveats(&plan, None, &run.steps, &run.failures, &run.answers, &run.caveats)
    }

    #[test]
    fn a_bracket_is_noted_where_there_is_one() {
        for (case, want) in [
            ("found", true),
            ("not-reached", false),
            ("none", false),
            ("undecided", false),
            ("no-step", false),
        ] {
            assert_eq!(of(case, |_| ()).contains(&Caveat::Search(SearchCaveat::BracketOnly)), want, "{case}");
        }
        let narrow = |run: &mut Run| {
            run.answers[0].goodput.conclusion =
                conclusion(Status::Found, Some(32.0), Some([30.0, 34.0]), Some(30.0));
            run.answers[0].joint_goodput = run.answers[0].goodput.clone();
        };
        assert!(
            !of("found", narrow).contains(&Caveat::Search(SearchCaveat::BracketOnly)),
            "it has an interval"
        );
    }

    #[test]
    fn closed_loops_are_noted() {
        assert!(of("concurrency", |_| ()).contains(&Caveat::Search(SearchCaveat::ClosedLoop)));
        assert!(!of("found", |_| ()).contains(&Caveat::Search(SearchCaveat::ClosedLoop)));
        assert!(
            !of("adaptive", |_| ()).contains(&Caveat::Search(SearchCaveat::ClosedLoop)),
            "a baseline is no closed loop"
        );
    }

    #[test]
    fn only_steps_that_should_decide_have_too_few_requests() {
        let few = |case: &str, change: fn(&mut Run)| {
            of(case, change).into_iter().find_map(|c| match c {
                Caveat::Search(SearchCaveat::FewRequests { steps, refine, .. }) => Some((steps, refine)),
                _ => None,
            })
        };
        assert_eq!(few("adaptive", |_| ()), None, "its baseline and ramp are short on purpose");
        let cut = |run: &mut Run| {
            if let Some(q) = run.steps[10].latency.get_mut(&Metric::Ttft) {
                (q.n, q.p99_high) = (367, None);
            }
        };
        assert_eq!(few("adaptive", cut), Some((1, Some(4))), "a step that refines");
        assert_eq!(few("undecided", |_| ()), Some((4, None)), "listed steps");
    }

    /// Rows: an SLO, the percentile that the caveat names, and the least number of requests.
    #[test]
    fn too_few_requests_are_those_for_a_percentile_of_the_slo() {
        for (slo, percentile, least) in [
            ("{ttft={p90='1s'}}", "p90", 36),
            ("{ttft={p90='1s',p99='3s'},tpot={p95='50ms'}}", "p99", 368),
            ("{ttft={p50='1s'}}", "p50", 6),
            ("{ttft={p90='1s'},e2e={'p99.9'='8s'}}", "p99", 368),
        ] {
            let plan = Plan::parse(include_str!("../../../../tests/fixtures/plans/design.toml")).unwrap();
            let plan = plan.with_overrides(&[format!("slo={slo}")]).unwrap();
            let percentile: Percentile = percentile.parse().unwrap();
            assert_eq!((highest_percentile(&plan), min_n_upper(percentile)), (percentile, least), "{slo}");
        }
    }

    #[test]
    fn of_several_steps_at_a_level_the_one_that_shows_it_counts() {
        use Verdict::{Fails, Invalid, Meets, Undecided};
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "adaptive-not-reached").unwrap();
        assert_eq!(run.step_at(&run.answers[0], 1.0, Meets), None, "one in flight is no rate of one");
        // Steps 5, of the ramp and short, and 6, longer, are both at 10 requests/s.
        for (verdicts, shows, want) in [
            ([Undecided, Meets], Meets, 6),
            ([Meets, Undecided], Meets, 5), // the short one shows it
            ([Fails, Undecided], Fails, 5),
            ([Meets, Meets], Meets, 6), // of both, the longer
            ([Undecided, Invalid], Meets, 5),
            ([Undecided, Undecided], Fails, 6),
        ] {
            (run.steps[4].verdict, run.steps[5].verdict) = (verdicts[0], verdicts[1]);
            let step = run.step_at(&run.answers[0], 10.0, shows).map(|s| s.step);
            assert_eq!(step, Some(want), "{verdicts:?}: {shows}");
        }
        run.steps[5].verdict = Fails;
        run.answers[0].goodput.bracket.met = Some(10.0);
        run.steps[4].verdict = Meets;
        assert_eq!(run.capacity(&run.answers[0]).map(|c| c.step), Some(5));
    }

    /// JSON has the figures both at the median rate and at the safe rate.
    #[test]
    fn an_estimate_has_figures_at_its_rate_and_at_its_safe_rate() {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
        let rates = |run: &Run| {
            let a = &run.answers[0];
            [run.capacity(a), run.capacity_at_safe_rate(a)].map(|c| c.map(|c| (c.requests_per_s, c.step)))
        };
        assert_eq!(rates(&run), [Some((33.4, 9)), Some((31.6, 8))]);
        run.answers[0].goodput.conclusion = Conclusion::None;
        assert_eq!(rates(&run)[1], None, "no level is safe");
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "concurrency").unwrap();
        let g = &mut run.answers[0].goodput;
        g.conclusion = conclusion(Status::Found, Some(40.0), Some([30.0, 50.0]), Some(30.0));
        g.conclusion.level_mut().unwrap().throughput = Some(31.0);
        let [rate, safe] = rates(&run);
        assert_eq!(rate, Some((31.0, 6)));
        let least = run.steps[5].achieved_rate * 30.0 / 32.0;
        assert!(
            safe.is_some_and(|s| (s.0 - least).abs() < 1e-9),
            "{safe:?}: in proportion to the requests in flight"
        );
    }

    /// With two tiers, each is judged by its own rows.
    #[test]
    fn a_step_is_judged_by_tier() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "tiers").unwrap();
        let (met, failed) =
            (run.answers[0].goodput.bracket.met.unwrap(), run.answers[1].goodput.bracket.met.unwrap());
        assert!(met < failed, "gold is stricter");
        let between = run.steps.iter().position(|s| s.level.value > met && s.level.value <= failed).unwrap();
        let both: Vec<Verdict> = run.answers.iter().map(|a| run.judged(a, &run.steps[between]).0).collect();
        assert!(both[0] != Verdict::Meets && both[1] == Verdict::Meets, "{both:?}");
    }

    #[test]
    fn wide_brackets_are_noted() {
        let factors = |case: &str| -> Vec<f64> {
            let wide = |c: Caveat| match c {
                Caveat::Search(SearchCaveat::WideBracket { factor, .. }) => Some(factor),
                _ => None,
            };
            of(case, |_| ()).into_iter().filter_map(wide).collect()
        };
        assert_eq!(factors("found").len(), 0, "32 and 36");
        assert!(factors("two-steps").first().is_some_and(|f| (f - 2.25).abs() < 1e-9), "20 and 45");
    }

    #[test]
    fn clusters_of_misses_matter_where_there_is_something_to_decide() {
        let noted = |case: &str| {
            of(case, |_| ())
                .iter()
                .any(|c| matches!(c, Caveat::Search(SearchCaveat::InflationAssumed { .. })))
        };
        for (case, want) in [
            ("found", true),
            ("none", true), // slow, but answered
            ("unloaded-misses", false),
            ("all-failed", false),
        ] {
            assert_eq!(noted(case), want, "{case}");
        }
    }

    /// Rows: step, kind and count; then the named kind, and true if most failures are of it.
    #[test]
    fn failures_are_summed_by_kind() {
        type Rows = &'static [(u32, &'static str, u64)];
        let rows: [(Rows, &str, bool); 4] = [
            (&[(1, "timeout", 5), (1, "reset", 4), (2, "reset", 4)], "reset", true), // 8 of 13
            (&[(1, "timeout", 4), (1, "reset", 3), (1, "empty", 3)], "timeout", false),
            (&[(1, "timeout", 4), (2, "reset", 4)], "reset", false), // a half is not most
            (&[(0, "dns", 99), (1, "reset", 1)], "reset", true),     // before the first step
        ];
        for (rows, want, mostly) in rows {
            let set = |run: &mut Run| {
                let row = run.failures[0].clone();
                let named = |(step, kind, count): &(u32, &str, u64)| FailureRow {
                    step: *step,
                    kind: (*kind).to_owned(),
                    count: *count,
                    ..row.clone()
                };
                run.failures = rows.iter().map(named).collect();
            };
            let found = of("all-failed", set);
            let Some(Caveat::Answers(AnswersCaveat::Failures { kind, most, .. })) =
                found.iter().find(|c| matches!(c, Caveat::Answers(AnswersCaveat::Failures { .. })))
            else {
                panic!("{found:?}")
            };
            assert_eq!((kind.name(), *most), (want, mostly), "{rows:?}");
        }
    }

    /// Rows: timeouts among the ten failures, true if the sweep noted them as errors, and the failures of the other caveat.
    #[test]
    fn timeouts_are_counted_in_one_caveat() {
        for (timeouts, noted, want) in
            [(10, false, Some(10)), (10, true, None), (4, true, Some(6)), (0, false, Some(10))]
        {
            let set = |run: &mut Run| {
                for step in &mut run.steps {
                    (step.failed, step.failed_timeout) = (0, 0);
                }
                (run.steps[0].failed, run.steps[0].failed_timeout) = (10, timeouts);
                let row = FailureRow { step: run.steps[0].step, ..run.failures[0].clone() };
                let of = |kind: Failure, count| FailureRow { kind: kind.name().into(), count, ..row.clone() };
                run.failures = vec![of(Failure::Timeout, timeouts), of(Failure::Connect, 10 - timeouts)];
                run.failures.retain(|row| row.count > 0);
                let timed_out =
                    AnswersCaveat::TimedOut { requests: timeouts, of: 900, after_s: 60.0, is_error: true };
                run.caveats = if noted { vec![timed_out.into()] } else { vec![] };
            };
            let failures = of("all-failed", set).into_iter().find_map(|c| match c {
                Caveat::Answers(AnswersCaveat::Failures { requests, .. }) => Some(requests),
                _ => None,
            });
            assert_eq!(failures, want, "{timeouts} timeouts");
        }
    }
}
