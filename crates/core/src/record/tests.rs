use super::*;

fn at(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

#[test]
fn latencies_count_from_due() {
    let mut r = Record::due(0, Phase::Measure, Duration::from_millis(100));
    (r.sent, r.first_token, r.first_content, r.last_token) = (at(103), at(150), at(170), at(350));
    r.output_tokens = Some(11);
    assert_eq!(r.lateness(), at(3));
    assert_eq!((r.ttft(), r.ttfc(), r.e2e()), (at(50), at(70), at(250)));
    assert_eq!(r.tpot(), at(20), "200 ms over the ten tokens after the first");
    r.first_event_tokens = Some(3);
    assert_eq!(r.tpot(), at(25), "200 ms over the eight tokens after the first event");
}

#[test]
fn our_own_timeout_cuts_off_and_other_failures_break() {
    for (outcome, failure, asked, cut, broken) in [
        (Outcome::Ok, None, 9, false, false),
        (Outcome::Cut, None, 9, true, false),
        (Outcome::Cut, Some(Failure::Timeout), 9, true, false), // the default timeout
        (Outcome::Failed, Some(Failure::Timeout), 9, true, false), // the plan's timeout
        (Outcome::Failed, Some(Failure::Timeout), 0, false, true), // another tool's timeout
        (Outcome::Failed, Some(Failure::Reset), 9, false, true),
    ] {
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        (r.outcome, r.failure, r.output_asked) = (outcome, failure, asked);
        assert_eq!((r.is_cut_off(), r.is_broken()), (cut, broken), "{outcome:?} {failure:?} {asked}");
        assert_eq!(r.is_timed_out(), cut && failure.is_some());
    }
}

#[test]
fn tpot_excludes_hidden_reasoning() {
    let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
    (r.first_token, r.last_token, r.output_tokens, r.events) = (at(9_000), at(10_980), Some(1000), 100);
    r.reasoning_tokens = Some(900);
    r.first_event_tokens = Some(901);
    assert_eq!(
        (r.tpot(), r.hidden_tokens()),
        (at(20), Some(900)),
        "1.98 s over the 99 tokens after the first event"
    );
    r.first_event_tokens = Some(1000);
    assert_eq!(r.tpot(), None, "not one visible token after the first event");
}

#[test]
fn tpot_needs_tokens_after_the_first_event() {
    let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
    (r.first_token, r.last_token, r.output_tokens) = (at(5), at(5), Some(1));
    assert_eq!(r.tpot(), None);
    r.output_tokens = Some(4);
    r.first_event_tokens = Some(4);
    assert_eq!(r.tpot(), None, "all tokens in one event");
}
