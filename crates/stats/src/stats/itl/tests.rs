use super::*;
use goodput_core::record::{Failure, Record};
use std::num::NonZeroU8;

fn tiers(text: &str) -> Vec<Slo> {
    vec![toml::from_str(text).unwrap()]
}

fn finished(id: u64, outcome: Outcome, asked: u32, gaps_us: &[u32]) -> Finished {
    let mut record = Record::due(id, Phase::Measure, Duration::from_millis(id));
    (record.outcome, record.output_asked) = (outcome, asked);
    record.failure = (outcome == Outcome::Failed).then_some(Failure::Reset);
    Finished::new(record, gaps_us.to_vec())
}

#[test]
fn gaps_are_counted_by_request_in_order_of_due() {
    let slo = tiers("itl.p95 = \"10ms\"");
    let mut tally = ItlTally::new(&slo);
    tally.add(&finished(3, Outcome::Ok, 4, &[10_000, 10_001, 30_000])); // at the limit is within it
    tally.add(&finished(1, Outcome::Failed, 5, &[1_000])); // four gaps asked for, all missed
    tally.add(&finished(2, Outcome::Cut, 5, &[20_000])); // one miss, three unknown
    tally.add(&finished(0, Outcome::Ok, 1, &[])); // one token: no gap
    tally.add(&finished(4, Outcome::Failed, 0, &[])); // length unknown: one miss
    let mut choices = finished(5, Outcome::Failed, 3, &[1_000]); // two choices of three tokens: two gaps each
    choices.record.ask_for_choices(NonZeroU8::new(2).unwrap());
    tally.add(&choices);
    let mut warm = finished(9, Outcome::Ok, 4, &[90_000]);
    warm.record.phase = Phase::Settle;
    tally.add(&warm);
    let limit = slo[0].limits()[0];
    let got = tally.counts(&limit, |_| true);
    assert_eq!(got.counts, Counts { n: 4 + 4 + 3 + 1 + 4, misses: 4 + 1 + 2 + 1 + 4, censored: 3 });
    assert_eq!((got.by_request, got.requests), (vec![4, 1, 2, 1, 4], 5));
    assert_eq!(tally.counts(&limit, |id| id < 2).counts.n, 4, "only some of them");
    let judged = tally.judged(&limit, Duration::ZERO);
    assert_eq!((judged.get(0), judged.get(9)), (Some(Judged::NotApplicable), None));
    assert!([1, 2, 3, 4].iter().all(|id| judged.get(*id) == Some(Judged::Missed)));
    let other = tiers("itl.p95 = \"11ms\"")[0].limits()[0];
    assert_eq!(tally.counts(&other, |_| true), ItlCounts::default(), "a limit of no tier");
}

/// Rows: the slack in µs, and whether a request meets a limit of 10 ms of which two of its 20 gaps may miss.
#[test]
fn slack_enlarges_the_limit_of_each_request() {
    let slo = tiers("itl.p90 = \"10ms\"");
    let limit = slo[0].limits()[0];
    let mut tally = ItlTally::new(&slo);
    let gaps = |longest: &[u32]| [&vec![5_000; 20 - longest.len()][..], longest].concat();
    tally.add(&finished(0, Outcome::Ok, 21, &gaps(&[13_000, 12_000, 14_000])));
    tally.add(&finished(1, Outcome::Ok, 21, &gaps(&[13_000, 14_000])));
    tally.add(&finished(2, Outcome::Failed, 21, &[]));
    for (slack, first) in [(0, Judged::Missed), (1_999, Judged::Missed), (2_000, Judged::Met)] {
        let judged = tally.judged(&limit, Duration::from_micros(slack));
        let got = [0, 1, 2].map(|id| judged.get(id).unwrap());
        assert_eq!(got, [first, Judged::Met, Judged::Missed], "{slack}");
    }
}

/// Rows: outcome of the request, when it ended (its last token came after 50 ms), and the gaps, misses and censored of a
/// limit of 10 ms.
#[test]
fn a_gap_that_is_open_too_long_is_a_miss() {
    let slo = tiers("itl.p95 = \"10ms\"");
    let timeout = Some(Failure::Timeout);
    for (outcome, failure, end_ms, want) in [
        (Outcome::Cut, None, 55, (9, 0, 7)),
        (Outcome::Cut, None, 61, (9, 1, 6)),
        (Outcome::Cut, timeout, 61, (9, 1, 6)),
        (Outcome::Failed, timeout, 61, (9, 1, 6)),
        (Outcome::Failed, Some(Failure::Reset), 61, (9, 9, 0)),
    ] {
        let mut one = finished(0, outcome, 10, &[1_000, 2_000]);
        one.record.failure = failure;
        (one.record.last_token, one.record.end) =
            (Some(Duration::from_millis(50)), Duration::from_millis(end_ms));
        let mut tally = ItlTally::new(&slo);
        tally.add(&one);
        let got = tally.counts(&slo[0].limits()[0], |_| true).counts;
        assert_eq!((got.n, got.misses, got.censored), want, "{outcome:?} {failure:?} {end_ms}");
    }
}

#[test]
fn slack_reduces_the_misses() {
    let slo = tiers("itl.p95 = \"10ms\"");
    let limit = slo[0].limits()[0];
    let mut tally = ItlTally::new(&slo);
    tally.add(&finished(0, Outcome::Ok, 4, &[9_000, 11_000, 30_000]));
    tally.add(&finished(1, Outcome::Failed, 3, &[]));
    assert_eq!(tally.counts(&limit, |_| true).counts.misses, 4);
    assert_eq!(tally.misses_with_slack(&limit, Duration::ZERO), 4);
    assert_eq!(tally.misses_with_slack(&limit, Duration::from_millis(2)), 3, "11 ms is within 12");
    assert_eq!(tally.misses_with_slack(&limit, Duration::from_secs(9000)), 2, "beyond the histogram");
}

#[test]
fn percentiles_match_the_gaps() {
    let mut tally = ItlTally::new(&[]);
    for id in 0..100 {
        let gaps: Vec<u32> = (1..=100).map(|i| i * 1000).collect();
        tally.add(&finished(id, Outcome::Ok, 101, &gaps));
    }
    let q = tally.pooled().quantiles(1.0);
    for (got, want) in [(q.p50, 50.0), (q.p90, 90.0), (q.p99, 99.0)] {
        assert!((got.unwrap() / want - 1.0).abs() < 2e-3, "{got:?} for {want}");
    }
    assert_eq!((q.n, q.p99_high), (10_000, None), "a hundred requests have no upper bound");
    assert_eq!(q.inflation, Some(100.0), "the gaps of each are worth one");
    assert_eq!(tally.pooled().quantiles(4.0).effective(), Some(25.0));
    let buckets = tally.pooled().buckets();
    assert_eq!(buckets.iter().map(|b| b.2).sum::<u64>(), 10_000);
    assert!(buckets.iter().all(|(low, high, _)| low <= high) && buckets.windows(2).all(|w| w[0].1 < w[1].0));
    assert_eq!(Pool::default().quantiles(1.0), Quantiles::default());
}
#[test]
fn each_class_has_its_own_gaps() {
    let slo = tiers("itl.p95 = \"10ms\"");
    let mut tally = ItlTally::new(&slo).of_classes(2);
    for id in 0..40 {
        let mut one =
            finished(id, Outcome::Ok, 3, if id % 4 == 0 { &[50_000, 50_000] } else { &[5_000, 5_000] });
        one.record.class = u16::from(id % 4 == 0);
        tally.add(&one);
    }
    let of = |class| {
        tally.of_class(class).map(|pool| (pool.quantiles(1.0).n, pool.quantiles(1.0).p50.unwrap().round()))
    };
    assert_eq!([of(0), of(1), of(2)], [Some((60, 5.0)), Some((20, 50.0)), None]);
    assert_eq!(tally.pooled().quantiles(1.0).n, 80);
    assert!(
        tally.counts_for(&slo, 2)
            && !tally.counts_for(&slo, 0)
            && !tally.counts_for(&tiers("itl.p95 = \"9ms\""), 2)
    );
    tally.begin(10);
    assert_eq!(tally.of_class(0).unwrap().buckets(), []);
}
