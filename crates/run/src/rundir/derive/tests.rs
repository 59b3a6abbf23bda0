use super::*;
use crate::fixture;
use goodput_stats::fixture::conclusion;
use goodput_stats::search::answer::Conclusion;
use goodput_stats::stats::step::Verdict;

fn of(case: &str, change: impl Fn(&mut Run)) -> Vec<Caveat> {
    let plan = Plan::parse(include_str!("../../../../../tests/fixtures/plans/design.toml")).unwrap();
    let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == case).unwrap();
    change(&mut run);
    caveats(&plan, None, &run.steps, &run.failures, &run.answers, &run.caveats)
}

#[test]
fn a_bracket_is_noted_where_there_is_one() {
    for (case, want) in
        [("found", true), ("not-reached", false), ("none", false), ("undecided", false), ("no-step", false)]
    {
        assert_eq!(of(case, |_| ()).contains(&Caveat::Search(SearchCaveat::BracketOnly)), want, "{case}");
    }
    let narrow = |run: &mut Run| {
        run.answers[0].goodput.conclusion =
            conclusion(Status::Found, Some(32.0), Some([30.0, 34.0]), Some(30.0));
        run.answers[0].joint_goodput = run.answers[0].goodput.clone();
    };
    assert!(!of("found", narrow).contains(&Caveat::Search(SearchCaveat::BracketOnly)), "it has an interval");
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
        let plan = Plan::parse(include_str!("../../../../../tests/fixtures/plans/design.toml")).unwrap();
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
        of(case, |_| ()).iter().any(|c| matches!(c, Caveat::Search(SearchCaveat::InflationAssumed { .. })))
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
