//! Tests of judging steps again by scaled limits.

use super::*;
use crate::fixture;
use goodput_stats::fixture::conclusion;
use goodput_stats::search::answer::{Bracket, Conclusion};

fn scaled(factor: f64, change: impl FnOnce(&mut Goodput)) -> Scaled {
    let mut goodput = fixture::found().answers.swap_remove(0).goodput;
    (goodput.conclusion, goodput.bracket) = (Conclusion::OPEN, Bracket::default());
    change(&mut goodput);
    Scaled { factor, goodput }
}

#[test]
fn an_answer_ends_where_the_levels_do() {
    let scale = |estimated| SloScale {
        points: Vec::new(),
        without: Vec::new(),
        untold: 0,
        measured: [2.0, 10.0],
        estimated,
    };
    let between = |rate, high, open| Reach::Between { rate, low: 7.0, high, open };
    let interval = |rate: f64, high: f64| {
        let found = conclusion(Status::Found, Some(rate), Some([7.0, high]), Some(7.0));
        scaled(1.0, |g| g.conclusion = found)
    };
    let safe = conclusion(Status::Undecided, None, None, Some(9.5));
    let reached = conclusion(Status::NotReached, Some(10.0), None, None);
    let invalid = Conclusion::Invalid { safe: None };
    for (point, estimated, want) in [
        (interval(8.0, 9.0), true, between(8.0, 9.0, false)),
        (interval(9.5, 12.0), true, between(9.5, 12.0, true)), // above 10 nothing was measured
        (
            scaled(1.0, |g| (g.bracket.met, g.bracket.failed) = (Some(4.0), Some(6.0))),
            false,
            Reach::Bracket { met: 4.0, failed: 6.0 },
        ),
        (scaled(2.0, |g| g.bracket.met = Some(10.0)), false, Reach::AtLeast(10.0)),
        (scaled(2.0, |g| (g.conclusion, g.bracket.failed) = (safe, Some(20.0))), true, Reach::AtLeast(9.5)),
        (scaled(0.4, |g| g.bracket.failed = Some(2.0)), false, Reach::Below(2.0)),
        (
            scaled(0.4, |g| (g.conclusion, g.bracket.failed) = (Conclusion::None, Some(2.0))),
            false,
            Reach::Below(2.0),
        ),
        (
            scaled(0.4, |g| (g.conclusion, g.bracket.failed) = (Conclusion::None, Some(2.0))),
            true,
            Reach::Nothing,
        ),
        (scaled(2.0, |g| g.conclusion = reached), true, Reach::AtLeast(10.0)),
        (scaled(1.0, |g| (g.conclusion, g.bracket.met) = (invalid, Some(3.0))), true, Reach::Unknown),
        (scaled(1.0, |_| ()), true, Reach::Unknown),
    ] {
        assert_eq!(scale(estimated).reach(&point), want, "{:?}", point.goodput);
    }
}

#[test]
fn what_is_shown_of_a_limit_is_shown_of_looser_or_tighter_ones() {
    use Verdict::{Fails, Invalid, Meets, Undecided};
    let tiers: Vec<Slo> = FACTORS.iter().map(|f| Slo::default().scaled(*f, &name(*f))).collect();
    let row = fixture::found().steps[0].limits[0].clone();
    let mut rows: Vec<LimitRow> = tiers
        .iter()
        .zip([
            Undecided, Fails, Undecided, Undecided, Meets, Undecided, Undecided, Undecided, Invalid,
            Undecided, Meets, Undecided,
        ])
        .map(|(t, verdict)| LimitRow { tier: t.tier().into(), verdict, ..row.clone() })
        .collect();
    follow(&mut rows, &tiers);
    let got: Vec<Verdict> = rows.iter().map(|r| r.verdict).collect();
    let want =
        [Fails, Fails, Undecided, Undecided, Meets, Meets, Undecided, Meets, Invalid, Meets, Meets, Meets];
    assert_eq!(got, want, "the seventh is the SLO as it stands");
    let mut errors: Vec<LimitRow> =
        rows.iter().map(|r| LimitRow { limit: "error-rate".into(), ..r.clone() }).collect();
    let before = errors.clone();
    follow(&mut errors, &tiers);
    assert_eq!(errors, before, "no latency");
}
