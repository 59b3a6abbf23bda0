//! Outliers among replicas. Chance, failures of all replicas and requests that the client could not send name none.

use super::*;
use goodput_core::record::Record;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

fn urls(n: usize) -> Vec<BaseUrl> {
    (0..n).map(|i| format!("http://replica{i}:8000").parse().unwrap()).collect()
}

/// Returns requests dealt round-robin to `of` servers; `ttft` returns the TTFT of the i-th in milliseconds, or its failure.
fn records(n: u64, of: u64, ttft: impl Fn(u64) -> Result<f64, Failure>) -> Vec<CompactRecord> {
    let one = |id: u64| {
        let mut r = Record::due(id, Phase::Measure, Duration::from_millis(10 * id));
        r.target = (id % of) as u16;
        match ttft(id) {
            Ok(ms) => {
                let first = r.due + Duration::from_secs_f64(ms / 1e3);
                let last = first + Duration::from_millis(100);
                (r.outcome, r.first_token, r.last_token, r.end) =
                    (Outcome::Ok, Some(first), Some(last), last);
                r.output_tokens = Some(11);
            }
            Err(failure) => (r.outcome, r.failure, r.end) = (Outcome::Failed, Some(failure), r.due),
        }
        CompactRecord::from(&r)
    };
    (0..n).map(one).collect()
}

fn outliers(all: &[Replica]) -> Vec<(u16, OutlierMetric)> {
    all.iter().filter_map(|r| Some((r.target, r.outlier?))).collect()
}

#[test]
fn figures_count_the_requests_of_each_server() {
    let mut all =
        records(
            300,
            3,
            |id| if id % 3 == 2 { Err(Failure::Timeout) } else { Ok(20.0 * (id % 3 + 1) as f64) },
        );
    all[0].phase = Phase::Settle;
    (all[3].outcome, all[3].last_token) = (Outcome::Cut, None);
    let got = replicas(&all, &urls(3));
    let of: Vec<_> = got.iter().map(|r| (r.n, r.failed, r.cut, r.quantiles(Metric::Ttft).n)).collect();
    assert_eq!(of, [(99, 0, 1, 99), (100, 0, 0, 100), (100, 100, 0, 0)], "a cut one had its first token");
    assert_eq!(got[0].quantiles(Metric::E2e).n, 98);
    let p99 = |i: usize| got[i].quantiles(Metric::Ttft).p99.unwrap();
    assert!((p99(0) - 20.0).abs() < 1e-6 && (p99(1) - 40.0).abs() < 1e-6);
    assert!((got[0].quantiles(Metric::Tpot).p50.unwrap() - 10.0).abs() < 1e-6);
    assert_eq!(got[1].url, "http://replica1:8000");
}

/// Rows: case; requests; servers; TTFT or failure of a request; the outliers.
#[test]
fn only_the_much_worse_replica_is_an_outlier() {
    type Of = fn(u64) -> Result<f64, Failure>;
    type Row = (&'static str, u64, u64, Of, &'static [(u16, OutlierMetric)]);
    let rows: [Row; 10] = [
        ("alike", 1000, 2, |id| Ok(50.0 + (id % 7) as f64), &[]),
        (
            "twice as slow",
            1000,
            2,
            |id| Ok(if id % 2 == 1 { 100.0 } else { 50.0 }),
            &[(1, OutlierMetric::Ttft)],
        ),
        ("a third slower", 1000, 2, |id| Ok(if id % 2 == 1 { 66.0 } else { 50.0 }), &[]),
        (
            "slow in its tail alone",
            2000,
            2,
            |id| Ok(if id % 10 == 1 { 300.0 } else { 50.0 }),
            &[(1, OutlierMetric::Ttft)],
        ),
        ("one stall of a second", 2000, 2, |id| Ok(if id % 2 == 1 && id < 30 { 900.0 } else { 50.0 }), &[]),
        ("too few to tell", 12, 2, |id| Ok(if id % 2 == 1 { 100.0 } else { 50.0 }), &[]),
        (
            "two of five",
            2000,
            5,
            |id| Ok(if id % 5 < 2 { 200.0 } else { 50.0 }),
            &[(0, OutlierMetric::Ttft), (1, OutlierMetric::Ttft)],
        ),
        (
            "dead",
            1000,
            2,
            |id| if id % 2 == 0 { Err(Failure::Connect) } else { Ok(50.0) },
            &[(0, OutlierMetric::Failures)],
        ),
        ("all fail alike", 1000, 2, |id| if id % 4 < 2 { Err(Failure::RateLimited) } else { Ok(50.0) }, &[]),
        (
            "held by the client",
            1000,
            2,
            |id| if id % 2 == 0 { Err(Failure::ClientLimit) } else { Ok(50.0) },
            &[],
        ),
    ];
    for (why, n, of, ttft, want) in rows {
        let got = replicas(&records(n, of, ttft), &urls(of as usize));
        assert_eq!(outliers(&got), want, "{why}: {got:?}");
        assert!(got.iter().all(|r| r.outlier.is_some() == r.others.is_some()), "{why}");
    }
}

/// The requests that an overloaded replica has at the end of a step have no first token yet.
#[test]
fn a_replica_without_answers_at_the_end_is_slow_there() {
    let mut all = records(2000, 2, |id| Ok(if id % 2 == 1 { 200.0 } else { 50.0 }));
    for r in all.iter_mut().filter(|r| r.target == 1 && r.id >= 1700) {
        (r.outcome, r.first_token, r.last_token) = (Outcome::Cut, None, None);
    }
    assert_eq!(outliers(&replicas(&all, &urls(2))), [(1, OutlierMetric::Ttft)]);
}

#[test]
fn slow_tokens_are_detected_without_slow_first_tokens() {
    let mut all = records(1000, 2, |_| Ok(50.0));
    for r in all.iter_mut().filter(|r| r.target == 1) {
        r.last_token = r.last_token.map(|t| (t.get() + Duration::from_millis(200)).into());
    }
    let got = replicas(&all, &urls(2));
    assert_eq!(outliers(&got), [(1, OutlierMetric::Tpot)]);
    assert!(got[1].others.is_some_and(|ms| (ms - 10.0).abs() < 1e-6), "{got:?}");
}

#[test]
fn a_single_server_has_no_replicas() {
    let all = records(100, 1, |_| Ok(50.0));
    for n in [0, 1, 257] {
        assert_eq!(replicas(&all, &urls(n)), [], "{n}");
    }
    let got = replicas(&[], &urls(2));
    assert!(got.iter().all(|r| r.n == 0 && r.outlier.is_none()), "{got:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Identical servers with latencies like those of a queue: no outlier.
    #[test]
    fn chance_makes_no_outlier(seed in any::<u64>(), n in 20_u64..1500, of in 2_u64..6) {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let drawn: Vec<f64> = (0..n).map(|_| 20.0 - 60.0 * rng.random::<f64>().max(1e-12).ln()).collect();
        let got = replicas(&records(n, of, |id| Ok(drawn[id as usize])), &urls(of as usize));
        prop_assert_eq!(outliers(&got), vec![]);
        prop_assert_eq!(got.iter().map(|r| r.n).sum::<u64>(), n);
    }
}

/// Returns in how many of `runs` a replica is named, among identical queues with random service at a share `load` of their capacity.
fn false_outliers(load: f64, of: u64, n: u64, runs: u64) -> u64 {
    let one = |seed: u64| {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let (mut at, mut free) = (0.0_f64, vec![0.0_f64; of as usize]);
        let gap = 10.0 / (load * of as f64);
        let waits: Vec<f64> = (0..n)
            .map(|id| {
                at -= gap * (1.0 - rng.random::<f64>()).ln();
                let own = &mut free[(id % of) as usize];
                *own = own.max(at) - 10.0 * (1.0 - rng.random::<f64>()).ln();
                *own - at
            })
            .collect();
        u64::from(
            !outliers(&replicas(&records(n, of, |id| Ok(waits[id as usize])), &urls(of as usize))).is_empty(),
        )
    };
    (0..runs).map(one).sum()
}

/// Rows: load, servers, requests, and the largest number of 100 steps in which one may be named.
#[test]
fn identical_queues_are_rarely_outliers() {
    for (load, of, n, most) in
        [(0.5, 4, 500, 0), (0.8, 4, 3000, 0), (0.9, 2, 1500, 0), (0.95, 2, 1500, 1), (0.97, 4, 1500, 2)]
    {
        let named = false_outliers(load, of, n, 100);
        assert!(named <= most, "{load} of {of} servers: {named} of 100");
    }
}
