use super::*;

fn finished(ms: u64, failure: Option<Failure>) -> Finished {
    let mut record = Record::due(0, Phase::Measure, Duration::from_millis(ms));
    record.end = record.due;
    record.failure = failure;
    record.outcome = if failure.is_some() { Outcome::Failed } else { Outcome::Ok };
    record.first_token = Some(record.due + Duration::from_millis(10));
    Finished::new(record, vec![])
}

fn tally() -> StepTally {
    StepTally::new(&[toml::from_str("ttft.p99 = \"200ms\"").unwrap()])
}

#[test]
fn a_dead_server_is_noticed_and_a_refusing_one_is_not_dead() {
    let mut t = tally();
    t.add(&finished(0, None));
    for i in 0..9 {
        t.add(&finished(i, Some(Failure::Connect)));
    }
    assert!(!t.seems_gone(), "nine within ten milliseconds");
    t.add(&finished(10, Some(Failure::Connect)));
    assert!(t.seems_gone());
    t.add(&finished(11, Some(Failure::RateLimited)));
    assert!(!t.seems_gone(), "somebody answered");
    for i in 0..3 {
        t.add(&finished(12 + i * 3000, Some(Failure::Connect)));
    }
    assert!(t.seems_gone(), "three over six seconds");
}

#[test]
fn the_progress_line_sees_the_p99() {
    let mut t = tally();
    for i in 0..100 {
        t.add(&finished(i, None));
    }
    assert!(t.response_p99().is_some_and(|p99| (p99 - 10.0).abs() < 0.1), "{:?}", t.response_p99());
}

#[test]
fn errors_are_shown_before_they_stop_a_step() {
    for (failed, answered, in_flight, share, beyond, why) in [
        (12, 1, 0, 0.1, false, "may be one bad moment"),
        (40, 0, 0, 0.1, false, "nothing but failures is another question"),
        (16, 1, 0, 0.1, true, "hardly anything but failures"),
        (16, 1, 400, 0.1, false, "answers take longer than refusals: most are still open"),
        (30, 30, 0, 0.1, false, "half of few"),
        (60, 60, 0, 0.1, true, "half of many"),
        (100, 900, 0, 0.1, false, "just what is put up with"),
        (200, 800, 0, 0.1, true, "twice that"),
        (200, 800, 0, 0.5, false, "the plan puts up with more"),
        (5_000, 1, 0, 1.0, false, "it never stops"),
        (1, 9, 0, 0.0, true, "none is put up with"),
    ] {
        let mut t = tally();
        (0..failed).for_each(|i| t.add(&finished(i, Some(Failure::RateLimited))));
        (0..answered).for_each(|i| t.add(&finished(i, None)));
        assert_eq!(t.fails_beyond(share, in_flight), beyond, "{why}");
    }
}

#[test]
fn refusals_are_counted_apart_from_what_came_before() {
    let mut t = tally();
    let refused = |ms, failure, retry_after: Option<u64>| Finished {
        retry_after: retry_after.map(Duration::from_secs),
        ..finished(ms, Some(failure))
    };
    t.add(&refused(1, Failure::RateLimited, None));
    t.add(&refused(2, Failure::ServerError, Some(3)));
    t.add(&refused(3, Failure::ServerError, None));
    let mut before = refused(4, Failure::RateLimited, Some(1));
    before.record.phase = Phase::Settle;
    t.add(&before);
    assert_eq!((t.refused(false), t.refused(true)), (2, 3));
    assert_eq!(t.wait_until, Some(Duration::from_millis(3002)));
}

/// A few failures are a weaker finding than many, and one answer removes it.
#[test]
fn a_step_that_ran_its_time_without_an_answer() {
    let mut t = tally();
    assert_eq!(t.ended_without(), None, "nothing was due");
    t.add(&finished(0, Some(Failure::ServerError)));
    assert_eq!(t.ended_without(), Some(Abort::NoAnswer));
    (1..50).for_each(|i| t.add(&finished(i, Some(Failure::ServerError))));
    assert_eq!(t.ended_without(), Some(Abort::AllFailed));
    t.add(&finished(50, None));
    assert_eq!(t.ended_without(), None);
}

#[test]
fn all_failed_needs_many_and_no_answer() {
    let mut t = tally();
    for i in 0..49 {
        t.add(&finished(i, Some(Failure::ServerError)));
    }
    assert!(!t.all_failed(0));
    t.add(&finished(50, Some(Failure::ServerError)));
    assert!(t.all_failed(0) && t.all_failed(50) && !t.all_failed(51), "most are still open");
    t.add(&finished(51, None));
    assert!(!t.all_failed(0));
}

/// Columns: the plan sets the timeout, a first token had come, and the two expected results: a stop because of
/// errors, and a stop because there is no answer.
#[test]
fn our_own_timeout_stops_nothing_that_is_under_way() {
    for (given, came, errors, nothing) in [
        (true, true, false, false),
        (false, true, false, false),
        (true, false, true, true),
        (false, false, false, true),
    ] {
        let mut t = tally();
        for i in 0..200 {
            let mut one = finished(i, Some(Failure::Timeout));
            one.record.output_asked = 1000;
            one.record.first_token = one.record.first_token.filter(|_| came);
            one.record.outcome = if given { Outcome::Failed } else { Outcome::Cut };
            t.add(&one);
        }
        assert_eq!((t.all_failed(0), t.nothing_came()), (nothing, nothing), "{given} {came}");
        t.add(&finished(200, None));
        assert_eq!(t.fails_beyond(0.1, 0), errors, "{given} {came}");
    }
}

#[test]
fn gross_misses_must_be_every_tiers() {
    let tight: Slo = toml::from_str("ttft.p99 = \"200ms\"").unwrap();
    let loose: Slo = toml::from_str("ttft.p50 = \"200ms\"").unwrap();
    let fill = |mut t: StepTally| {
        for i in 0..200 {
            t.add(&finished(i, (i % 2 == 0).then_some(Failure::Timeout)));
        }
        t
    };
    assert!(
        fill(StepTally::new(std::slice::from_ref(&tight))).gross(GROSS_INFLATION),
        "half of them miss a p99 limit"
    );
    assert!(
        !fill(StepTally::new(&[tight, loose])).gross(GROSS_INFLATION),
        "half of them may miss a p50 limit"
    );
}

#[test]
fn our_own_limits_are_not_the_servers_failures() {
    let mut t = tally();
    for i in 0..60 {
        t.add(&finished(i, Some(Failure::ClientLimit)));
    }
    assert!(!t.all_failed(0) && !t.nothing_came());
}

#[test]
fn the_tokens_of_the_prefix_cache_are_those_of_measured_answers() {
    let mut t = tally();
    assert_eq!(t.cached_share(), None, "the server does not tell");
    for (ms, phase, input, cached) in [
        (0, Phase::Settle, 100, 0),
        (1_000, Phase::Measure, 100, 60),
        (2_000, Phase::Measure, 300, 100),
        (3_000, Phase::Tail, 100, 100),
    ] {
        let mut f = finished(ms, None);
        (f.record.phase, f.record.sent, f.record.attempts) = (phase, Some(f.record.due), 1);
        (f.record.input_tokens, f.record.cached_tokens) = (Some(input), Some(cached));
        t.add(&f);
    }
    assert_eq!(t.cached_share(), Some(0.4));
    // The first token comes 10 ms after a request is due.
    let since = |ms| t.asked_since(Duration::from_millis(ms), NonZeroU8::MIN);
    assert_eq!([since(0), since(1_005), since(1_500), since(5_000)].map(|n| n as u32), [600, 500, 400, 0]);
}
