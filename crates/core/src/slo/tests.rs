use super::*;
use crate::record::{Failure, Phase};

fn limit(metric: Metric, ms: u64) -> Limit {
    Limit { metric, percentile: Percentile::P99, limit: Duration::from_millis(ms) }
}

#[test]
fn limits_of_the_plan_override_the_profile() {
    let slo: Slo = toml::from_str("profile = \"chat\"\nttft.p99 = \"80ms\"").unwrap();
    let slo = slo.resolve();
    assert_eq!(slo.ttft[&Percentile::P99], Span(Duration::from_millis(80)));
    assert!(slo.largest(Metric::Tpot).is_some() || slo.largest(Metric::Itl).is_some());
}

#[test]
fn requests_are_judged() {
    let ttft = limit(Metric::Ttft, 100);
    let mut r = Record::due(0, Phase::Measure, Duration::from_secs(1));
    r.outcome = Outcome::Ok;
    r.first_token = Some(Duration::from_millis(1100));
    (r.last_token, r.output_tokens) = (r.first_token, Some(1));
    assert_eq!(ttft.judge(&r), Judged::Met, "a value equal to the limit meets it");
    r.first_token = Some(Duration::from_micros(1_100_001));
    assert_eq!(ttft.judge(&r), Judged::Missed);
    assert_eq!(limit(Metric::Tpot, 10).judge(&r), Judged::NotApplicable, "one token");
    (r.outcome, r.failure) = (Outcome::Failed, Some(Failure::ServerError));
    assert_eq!(limit(Metric::Tpot, 10).judge(&r), Judged::Missed, "a failure misses every limit");
}

#[test]
fn cut_off_requests_are_judged_by_what_is_known() {
    let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
    r.output_asked = 11;
    r.end = Duration::from_millis(90);
    assert_eq!(limit(Metric::Ttft, 100).judge(&r), Judged::Unknown, "may still have met it");
    assert_eq!(limit(Metric::Ttft, 80).judge(&r), Judged::Missed, "waited longer than the limit");
    assert_eq!(limit(Metric::Ttft, 90).judge(&r), Judged::Missed, "waited as long as the limit");
    r.first_token = Some(Duration::from_millis(40));
    assert_eq!(limit(Metric::Ttft, 80).judge(&r), Judged::Met, "its first token is known");
    assert_eq!(limit(Metric::Tpot, 4).judge(&r), Judged::Missed, "50 ms over at most ten tokens");
    assert_eq!(limit(Metric::Tpot, 6).judge(&r), Judged::Unknown);
    r.output_asked = 0;
    assert_eq!(limit(Metric::Tpot, 4).judge(&r), Judged::Unknown, "the intended length is unknown");
    r.output_asked = 11;
    assert_eq!(limit(Metric::E2e, 80).judge(&r), Judged::Missed);
}

/// Cases: how the request ended, and its judgement by limits of 100 ms on TTFT and TTFC, 6 ms on TPOT and 80 ms on
/// e2e. Its first token came after 40 ms, no content ever did, and it ended after 90 ms.
#[test]
fn our_own_timeout_is_judged_like_a_cut_off() {
    use Judged::{Met, Missed, Unknown};
    let limits = [(Metric::Ttft, 100), (Metric::Ttfc, 100), (Metric::Tpot, 6), (Metric::E2e, 80)];
    for (outcome, failure, asked, want) in [
        (Outcome::Cut, None, 11, [Met, Unknown, Unknown, Missed]),
        (Outcome::Cut, Some(Failure::Timeout), 11, [Met, Unknown, Unknown, Missed]),
        (Outcome::Failed, Some(Failure::Timeout), 11, [Met, Unknown, Unknown, Missed]),
        (Outcome::Failed, Some(Failure::Timeout), 0, [Missed; 4]), // another tool's timeout
        (Outcome::Failed, Some(Failure::Reset), 11, [Missed; 4]),
    ] {
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        (r.outcome, r.failure, r.output_asked) = (outcome, failure, asked);
        (r.first_token, r.end) = (Some(Duration::from_millis(40)), Duration::from_millis(90));
        assert_eq!(limits.map(|(m, l)| limit(m, l).judge(&r)), want, "{outcome:?} {failure:?} {asked}");
    }
}

/// Cases: e2e in ms, whether the answer is complete, and the judgement of 4 s of audio by a factor of 0.2.
#[test]
fn a_real_time_factor_is_time_per_second_of_audio() {
    use Judged::{Met, Missed, NotApplicable, Unknown};
    let slo: Slo = toml::from_str("rtf = { p50 = 0.1, p99 = 0.2 }").unwrap();
    assert_eq!(slo.summary(), "p50 RTF ≤ 0.1, p99 RTF ≤ 0.2");
    assert_eq!(toml::from_str::<Slo>(&toml::to_string(&slo).unwrap()).as_ref(), Ok(&slo));
    let limit = slo.limits()[1];
    for (ms, done, want) in
        [(800, true, Met), (801, true, Missed), (799, false, Unknown), (800, false, Missed)]
    {
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        (r.audio, r.end) = (Some(Duration::from_secs(4)), Duration::from_millis(ms));
        if done {
            (r.outcome, r.last_token) = (Outcome::Ok, Some(r.end));
        }
        assert_eq!(limit.judge(&r), want, "{ms} {done}");
    }
    let mut text = Record::due(0, Phase::Measure, Duration::ZERO);
    (text.outcome, text.last_token) = (Outcome::Ok, Some(Duration::from_secs(9)));
    assert_eq!(limit.judge(&text), NotApplicable, "no audio");
    let wrong = toml::from_str::<Slo>("rtf = { p50 = 0.3, p99 = 0.2 }").unwrap().problem().unwrap();
    assert!(wrong.contains("rtf.p50 = 0.3 is above rtf.p99 = 0.2"), "{wrong}");
    for text in ["rtf.p99 = \"200ms\"", "rtf.p99 = 0", "rtf.p99 = -1"] {
        assert!(toml::from_str::<Slo>(text).is_err(), "{text}");
    }
}

#[test]
fn an_answer_without_content_misses_ttfc() {
    let ttfc = limit(Metric::Ttfc, 1_000_000);
    let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
    (r.outcome, r.output_asked) = (Outcome::Ok, 11);
    (r.first_token, r.last_token) = (Some(Duration::from_millis(40)), Some(Duration::from_millis(90)));
    assert_eq!(ttfc.judge(&r), Judged::Missed, "all of its tokens were reasoning");
    assert_eq!(limit(Metric::Ttft, 100).judge(&r), Judged::Met);
    r.first_content = Some(Duration::from_millis(60));
    assert_eq!(ttfc.judge(&r), Judged::Met);
    (r.first_content, r.output_asked) = (None, 0);
    assert_eq!(ttfc.judge(&r), Judged::NotApplicable, "another tool does not report its channels");
    (r.first_token, r.output_asked) = (None, 11);
    assert_eq!(ttfc.judge(&r), Judged::NotApplicable, "an answer in one piece has no first token at all");
}

#[test]
fn every_latency_limit_is_scaled() {
    let slo: Slo =
        toml::from_str("ttft.p99 = \"200ms\"\ntpot.p99 = \"50ms\"\nitl.p99 = \"90ms\"\nerror-rate = 0.01")
            .unwrap();
    let class = ClassSlo { class: 1, name: "short".into(), slo: toml::from_str("e2e.p95 = \"3s\"").unwrap() };
    let slo = Slo { classes: vec![class], ..slo };
    let half = slo.scaled(0.5, "half");
    assert_eq!(
        half.summary(),
        "half: p99 TTFT ≤ 100 ms, p99 TPOT ≤ 25 ms, errors ≤ 1 %; class short: p95 e2e ≤ 1.5 s"
    );
    assert_eq!(slo.scaled(1.0, "same").ttft, slo.ttft, "exactly");
}

#[test]
fn problems_are_reported() {
    assert!(Slo::default().problem().unwrap().contains("no limit"));
    let slo: Slo = toml::from_str("ttft = { p50 = \"300ms\", p99 = \"200ms\" }").unwrap();
    assert!(slo.problem().unwrap().contains("ttft.p50"));
}
