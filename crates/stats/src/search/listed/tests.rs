//! Answers of lists of levels, with made-up counts.

use super::*;
use crate::search::answer::{Answer, Status};
use crate::search::reason::LevelsEvidence;
use crate::search::series::tests::{search, step};
use crate::stats::step::Quantiles;

/// Returns a step with these numbers of requests and misses, and this verdict.
fn counted(level: f64, misses: u64, n: u64, verdict: Verdict) -> Step {
    let mut s = step(Level::rate(level), verdict);
    s.due_n = n;
    for row in s.limits.iter_mut().filter(|r| r.limit != "stability") {
        (row.n, row.misses, row.clusters, row.cluster_sq) = (n, misses, misses, misses);
    }
    s
}

/// Returns the answer of a list of these levels, misses and verdicts, with 1,335 requests each.
fn answer(levels: &[(f64, u64, Verdict)]) -> Answer {
    let steps: Vec<Step> = levels.iter().map(|(l, k, v)| counted(*l, *k, 1335, *v)).collect();
    let rates: Vec<String> = levels.iter().map(|(l, ..)| l.to_string()).collect();
    search(&format!("rates = [{}]", rates.join(", "))).answers("main", &steps).remove(0)
}

/// Rows: levels, misses of 1,335 and verdicts; status, basis, and the range of the rate.
#[test]
fn a_list_is_answered_by_all_of_its_levels() {
    use Evidence::{Fit, Levels};
    use FitEvidence::{BelowLowest, Between, HighestMayMeet, HighestMeets};
    use LevelsEvidence::Bracket;
    use Verdict::{Fails, Meets, Undecided};
    type Case = (Vec<(f64, u64, Verdict)>, Status, Basis, Option<(f64, f64)>, fn(&Evidence) -> bool);
    let cases: [Case; 6] = [
        // One miss at the highest level: a curve that rises has its boundary above it.
        (
            vec![(5.0, 0, Undecided), (10.0, 0, Undecided), (20.0, 1, Undecided)],
            Status::NotReached,
            Basis::Fit,
            Some((20.0, 20.0)),
            |e| matches!(e, Fit(HighestMeets { level, chance }) if *level == Level::rate(20.0) && *chance > 0.9),
        ),
        // No verdict by single levels, but the boundary is among them.
        (
            vec![(10.0, 0, Undecided), (20.0, 3, Undecided), (24.0, 14, Undecided), (28.0, 60, Undecided)],
            Status::Found,
            Basis::Fit,
            Some((21.0, 26.0)),
            |e| matches!(e, Fit(Between { above_highest: false, .. })),
        ),
        (
            vec![(10.0, 0, Meets), (20.0, 3, Undecided), (30.0, 400, Fails)],
            Status::Found,
            Basis::Fit,
            Some((19.0, 27.0)),
            |e| matches!(e, Levels(Bracket { met, failed }) if (met.level, failed.level) == (Level::rate(10.0), Level::rate(30.0))),
        ),
        // The boundary is at the highest level: no level above it was measured.
        (
            vec![(10.0, 0, Undecided), (20.0, 12, Undecided)],
            Status::Undecided,
            Basis::Fit,
            None,
            |e| matches!(e, Fit(HighestMayMeet { chance, .. }) if *chance < 0.9),
        ),
        // All levels lie above the boundary.
        (
            vec![(20.0, 200, Undecided), (30.0, 700, Fails)],
            Status::Undecided,
            Basis::Bracket,
            None,
            |e| matches!(e, Fit(BelowLowest { level }) if *level == Level::rate(20.0)),
        ),
        // Verdicts that no curve agrees with.
        (
            vec![(10.0, 300, Meets), (20.0, 400, Fails)],
            Status::Found,
            Basis::Bracket,
            Some((10.0, 10.0)),
            |e| matches!(e, Levels(Bracket { met, failed }) if (met.level, failed.level) == (Level::rate(10.0), Level::rate(20.0))),
        ),
    ];
    for (levels, status, basis, rate, says) in cases {
        let mut unstable = answer(&levels);
        let g = &mut unstable.goodput;
        assert_eq!((g.status(), g.basis), (status, basis), "{levels:?}: {:?}", g.reason);
        assert_eq!(g.rate().is_some(), rate.is_some(), "{levels:?}: {:?}", g.reason);
        if let (Some(got), Some((low, high))) = (g.rate(), rate) {
            assert!(low <= got && got <= high, "{levels:?}: {got}: {:?}", g.reason);
        }
        assert!(g.reason.evidence().iter().any(says), "{levels:?}: {:?}", g.reason);
        let highest = levels.iter().map(|l| l.0).fold(0.0, f64::max);
        assert!(g.rate().is_none_or(|r| r <= highest) && g.safe_rate().is_none_or(|s| s <= highest));
        if let Some([low, high]) = g.interval90() {
            assert!(g.safe_rate().is_some_and(|s| (s - low).abs() < 1e-9) && low < high, "{levels:?}");
            assert_eq!(g.throughput(), g.rate(), "an open loop gets what it asks for");
        }
        let joint = &unstable.joint_goodput;
        assert_eq!(joint.basis, basis, "{levels:?}: {:?}", joint.reason);
    }
}

#[test]
fn numbers_in_flight_are_answered_in_whole_ones() {
    let closed = |n: f64, misses, achieved| {
        let verdict = if misses > 300 { Verdict::Fails } else { Verdict::Undecided };
        let mut s = counted(n, misses, 1335, verdict);
        (s.level, s.achieved_rate) = (Level { control: Control::Concurrency, value: n }, achieved);
        s
    };
    let steps = [closed(4.0, 0, 8.0), closed(8.0, 2, 15.0), closed(16.0, 30, 20.0), closed(32.0, 900, 21.0)];
    let g = &search("concurrency = [4, 8, 16, 32]").answers("main", &steps)[0].goodput;
    let rate = g.rate().unwrap();
    assert!((9.0..16.0).contains(&rate) && rate.fract() < 1e-9, "{:?}", g.reason);
    let got = g.throughput().unwrap();
    assert!((15.0..20.0).contains(&got), "{got}: between what the levels around it achieved");
    assert!(g.safe_rate().unwrap().fract() < 1e-9);
}

#[test]
fn a_step_shorter_than_its_requests_is_no_evidence_that_it_holds() {
    let with_e2e = |level: f64, verdict, ms: f64| {
        let mut s = counted(level, 0, 1335, verdict);
        s.latency.insert(Metric::E2e, Quantiles { p50: Some(ms), ..Quantiles::default() });
        s
    };
    let baseline = |ms| Step { kind: StepKind::Baseline, ..with_e2e(1.0, Verdict::Undecided, ms) };
    for (steps, kept) in [
        (vec![with_e2e(5.0, Verdict::Undecided, 500.0), with_e2e(9.0, Verdict::Undecided, 40_000.0)], 2),
        // 70 s of load are less than five times 20 s; a failure in them still counts.
        (vec![with_e2e(5.0, Verdict::Undecided, 20_000.0), with_e2e(9.0, Verdict::Fails, 40_000.0)], 1),
        (vec![baseline(20_000.0), with_e2e(5.0, Verdict::Undecided, 500.0)], 1),
    ] {
        let all: Vec<&Step> = steps.iter().collect();
        assert_eq!(evidence(&all, "main").len(), kept);
    }
}
