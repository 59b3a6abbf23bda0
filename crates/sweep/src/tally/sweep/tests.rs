use super::*;
use goodput_core::caveat::OnResume;
use goodput_core::level::Level;
use goodput_core::record::{Failure, Finished, Phase};
use goodput_stats::search::Ends;
use goodput_stats::stats::step::StepKind;

fn ask(level: Level, measure_s: u64, tail_s: u64) -> Ask {
    Ask {
        level,
        kind: StepKind::List,
        settle: Duration::from_secs(10),
        measure: Duration::from_secs(measure_s),
        extend: true,
        tail: Duration::from_secs(tail_s),
        drain: Duration::from_secs(30),
        ends: Ends::AtItsTime,
        confidence: 0.95,
    }
}

#[test]
fn requests_are_foreseen() {
    for (ask, least, most) in [
        (ask(Level::rate(500.0), 600, 5), 307_500, 325_000), // 615 s of load
        (ask(Level::rate(500.0), 600, 300), 310_000, 328_000), // no more of the tail than is likely
        (ask(Level::rate(1.0), 60, 5), 500, 2_000),          // bursts of a few
        (ask(Level::rate(1e6), 600, 5), ROOM, ROOM),         // not all that there is
        (ask(Level::concurrency(64), 600, 5), 0, 0),         // its rate will show
    ] {
        let n = expected_requests(&ask);
        assert!((least..=most).contains(&n), "{ask:?}: {n}");
    }
}

/// The memory of a step is reserved before it starts, and the next step reuses it.
#[test]
fn a_step_does_not_grow_while_it_runs() {
    let tiers: [Slo; 1] = [toml::from_str("ttft.p99 = \"200ms\"\nitl.p95 = \"10ms\"").unwrap()];
    let mut sweep = SweepTally::default();
    let ask = ask(Level::rate(10.0), 60, 5);
    let mut places = Vec::new();
    for _ in 0..2 {
        let mut step = sweep.begin(&tiers, 0, &ask);
        let (place, buffers) = (step.kept.as_ptr(), step.kept.capacity());
        assert!(
            buffers >= 750
                && step.home() == 0
                && step.measured() == 0
                && step.itl.pooled().buckets().is_empty()
        );
        for id in 0..750 {
            let mut record = Record::due(id, Phase::Measure, Duration::from_millis(100 * id));
            record.outcome = Outcome::Ok;
            step.add(&Finished::new(record, vec![20_000]));
        }
        assert_eq!((step.kept.as_ptr(), step.kept.capacity()), (place, buffers));
        let counted = step.itl.counts(&tiers[0].limits()[1], |_| true);
        assert_eq!((step.home(), counted.counts.misses), (750, 750), "of this step alone");
        places.push(place);
        sweep.end(step);
    }
    assert_eq!(places[0], places[1], "the second step has the memory of the first");
}

fn answer(asked: u32, input: u32) -> Record {
    let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
    (r.outcome, r.input_asked, r.input_tokens) = (Outcome::Ok, asked, Some(input));
    (r.output_asked, r.output_tokens) = (10, Some(10));
    r
}

#[test]
fn how_answers_ended_is_told() {
    let mut sweep = SweepTally::default();
    let mut all = vec![answer(10, 10); 6];
    for r in &mut all {
        (r.first_token, r.first_content) = (Some(Duration::ZERO), Some(Duration::ZERO));
    }
    all[0].first_content = None;
    (all[1].reasoning_tokens, all[1].first_event_tokens, all[1].events) = (Some(6), Some(7), 4);
    for (r, after) in all[2..4].iter_mut().zip([90, 60]) {
        (r.outcome, r.failure, r.end) = (Outcome::Cut, Some(Failure::Timeout), Duration::from_secs(after));
    }
    all.iter().for_each(|r| sweep.add("main", ALL, r));
    let told = [
        Caveat::Answers(AnswersCaveat::TimedOut { requests: 2, of: 6, after_s: 60.0, is_error: false }),
        Caveat::Answers(AnswersCaveat::NoContent { requests: 1, of: 4 }),
        Caveat::Answers(AnswersCaveat::HiddenReasoning { requests: 1, of: 4, share: 0.6 }),
    ];
    assert_eq!(sweep.caveats(), told);
    assert!(told.iter().all(|c| c.scope().on_resume == OnResume::Drop), "a resumed sweep counts them again");
}

#[test]
fn lengths_are_those_of_a_series_and_a_class() {
    let mut sweep = SweepTally::default();
    for _ in 0..20 {
        sweep.add("mix", "short", &answer(100, 140));
        sweep.add("mix", "long", &answer(4000, 4000));
        sweep.add("only long", ALL, &answer(4000, 4010));
    }
    let off = sweep.caveats();
    assert_eq!(off.len(), 1, "2 % of all together, and 40 % of the short: {off:?}");
    let of = LengthsOf { series: Some("mix".into()), class: Some("short".into()) };
    let long = LengthsCaveat::InputLengthOff { asked: 100.0, got: 140.0, of };
    assert_eq!(off, [long.into()]);
    let sent = sweep.sent();
    let told: Vec<_> =
        sent.iter().map(|s| (s.series.as_str(), s.class.as_str(), s.input.as_ref().unwrap().mean)).collect();
    let want =
        [("mix", ALL, 2070.0), ("mix", "short", 140.0), ("mix", "long", 4000.0), ("only long", ALL, 4010.0)];
    assert_eq!(told, want);
}

#[test]
fn a_series_with_limits_of_its_own_counts_them() {
    let tiers = |text: &str| -> [Slo; 1] { [toml::from_str(text).unwrap()] };
    let (one, other) = (tiers("itl.p95 = \"10ms\""), tiers("itl.p95 = \"50ms\""));
    let mut sweep = SweepTally::default();
    let step = sweep.begin(&one, 0, &ask(Level::rate(1.0), 10, 1));
    sweep.end(step);
    let mut step = sweep.begin(&other, 2, &ask(Level::rate(1.0), 10, 1));
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    (record.outcome, record.class) = (Outcome::Ok, 1);
    step.add(&Finished::new(record, vec![20_000, 60_000]));
    assert_eq!(step.itl.counts(&other[0].limits()[0], |_| true).counts.misses, 1);
    assert_eq!(step.itl.of_class(1).unwrap().quantiles(1.0).n, 2);
}
