//! Coverage of the bounds of a p99, on queues and engines with a known p99.

use super::*;
use crate::fixture;
use crate::stats::percentile::p99_ranks;
use crate::stats::queues::{Engine, Queue, Service};
use goodput_core::record::{Phase, Record};
use goodput_core::units::ms;

/// Generator of records from the offered rate, seconds and seed.
type Source = Box<dyn Fn(f64, u64) -> Vec<Record>>;

fn queue(queue: Queue, rate: f64) -> Source {
    Box::new(move |seconds, seed| queue.records(rate, 20.0, seconds, seed))
}

fn engine(rate: f64) -> Source {
    let engine = Engine { base_s: 0.01, per_s: 0.0005, slots: 32, tokens: 50.0 };
    Box::new(move |seconds, seed| engine.records(rate, 30.0, seconds, seed))
}

/// Returns the values of the measured requests in order of `due`, in ms.
fn values(records: &[Record], metric: Metric) -> Vec<f64> {
    let measured = records.iter().filter(|r| r.phase == Phase::Measure);
    measured.filter_map(|r| metric.of(r)).map(ms).collect()
}

fn quantiles(values: &[f64], known: ClusterPrior) -> Quantiles {
    quantiles_by_due(values.iter().copied(), &mut Vec::new(), known)
}

/// Returns in how many of `runs` the bounds covered the truth, and in how many there was an upper bound.
fn coverage(source: &Source, (metric, p99_ms): (Metric, f64), seconds: f64, runs: u64) -> (u64, u64) {
    (0..runs).fold((0, 0), |(covered, upper), seed| {
        let q = quantiles(&values(&source(seconds, seed), metric), ClusterPrior::default());
        let holds = q.p99_low.is_none_or(|l| l <= p99_ms) && q.p99_high.is_none_or(|h| h >= p99_ms);
        (covered + u64::from(holds), upper + u64::from(q.p99_high.is_some()))
    })
}

/// At the rates where limits at these values bind: closed forms for queues, 12 million requests for the engine (ρ = .75 and .5).
#[test]
fn bounds_near_the_boundary_cover_the_p99() {
    let md1 = || queue(Queue { servers: 1, mean_s: 0.05, service: Service::Fixed }, 9.2576);
    let mm1 = || queue(Queue { servers: 1, mean_s: 0.05, service: Service::Exponential }, 10.7897);
    for (what, source, truth, seconds) in [
        ("M/D/1, 30 s", md1(), (Metric::Ttft, 150.0), 30.0),
        ("M/D/1, 150 s", md1(), (Metric::Ttft, 150.0), 150.0),
        ("M/M/1, 30 s", mm1(), (Metric::E2e, 500.0), 30.0),
        ("M/M/1, 150 s", mm1(), (Metric::E2e, 500.0), 150.0),
        ("engine at .75, 30 s", engine(18.5), (Metric::Ttft, 191.28), 30.0),
        ("engine at .75, 60 s", engine(18.5), (Metric::Ttft, 191.28), 60.0),
        ("engine at .5, 60 s", engine(12.3), (Metric::Ttft, 35.18), 60.0),
        ("engine at .5, e2e", engine(12.3), (Metric::E2e, 3555.9), 60.0),
    ] {
        let (covered, _) = coverage(&source, truth, seconds, 100);
        assert!(covered >= 90, "{what}: {covered} of 100, where 95 % is printed");
    }
    // Bounds for independent requests covered it in half of the cases.
    let independent = (0..100_u64).filter(|seed| {
        let mut own = values(&mm1()(150.0, *seed), Metric::E2e);
        own.sort_by(f64::total_cmp);
        let (low, high) = p99_ranks(own.len() as u64, 1.0);
        low.is_some_and(|l| own[l as usize - 1] <= 500.0)
            && high.is_some_and(|h| own[h as usize - 1] >= 500.0)
    });
    assert!(independent.count() < 70);
}

/// With enough requests there is an upper bound, and the two together have their nominal coverage.
#[test]
fn many_requests_have_an_upper_bound() {
    // M/M/1 at ρ = .6: the p99 of the sojourn is ln 100 / (500 − 300) s.
    let fast = queue(Queue { servers: 1, mean_s: 0.002, service: Service::Exponential }, 300.0);
    let (covered, upper) = coverage(&fast, (Metric::E2e, 23.026), 40.0, 50);
    assert!(covered >= 45 && upper >= 45, "covered {covered}, with an upper bound {upper} of 50");
}

#[test]
fn the_inflation_follows_the_clusters() {
    let effective = |values: &[f64]| quantiles(values, ClusterPrior::default()).inflation.unwrap();
    // A permutation without clusters: the slow requests are evenly spread.
    let spread: Vec<f64> = (0..4000).map(|i| f64::from(i * 1567 % 4000)).collect();
    let sorted: Vec<f64> = (0..4000).map(f64::from).collect();
    assert!(effective(&spread) < 3.0, "{}", effective(&spread));
    assert!(effective(&sorted) > 40.0, "one cluster: {}", effective(&sorted));
    let few = effective(&spread[..100]);
    assert!(few > 10.0, "a hundred values do not show that there are no clusters: {few}");
    assert_eq!(quantiles(&[], ClusterPrior::default()), Quantiles::default());
    let same = quantiles(&[7.0; 1000], ClusterPrior::default());
    assert!(same.inflation.unwrap() > 16.0 && same.p99 == Some(7.0), "ties tell nothing of clusters");
}

#[test]
fn earlier_steps_count_with_a_similar_share_of_misses() {
    let with = |misses, kind, class: &str| {
        let mut s = fixture::found().swap_remove(0);
        s.kind = kind;
        let row = &mut s.limits[0];
        (row.n, row.misses, row.clusters, row.cluster_sq) = (10_000, misses, 10, 30 * misses);
        row.class = class.into();
        s
    };
    let all = [
        with(100, StepKind::Refine, ALL),
        with(50, StepKind::List, ALL),
        with(3, StepKind::Refine, ALL),     // too rare
        with(900, StepKind::Ramp, ALL),     // too frequent
        with(100, StepKind::Baseline, ALL), // unloaded
        with(100, StepKind::Refine, "short"),
    ];
    let known = ClusterPrior::default().with(&all, Metric::Ttft);
    assert_eq!(known, ClusterPrior { assumed: INFLATION, misses: 150, sum_sq: 4500, clusters: 20 });
    assert_eq!(ClusterPrior::default().with(&all, Metric::E2e), ClusterPrior::default());
    let spread: Vec<f64> = (0..4000).map(|i| f64::from(i * 1567 % 4000)).collect();
    let [alone, pooled] = [ClusterPrior::default(), known].map(|k| quantiles(&spread, k).inflation.unwrap());
    assert!(pooled > 20.0 && alone < 3.0, "{pooled} by what was seen before, {alone} alone");
    let unloaded = quantiles(&spread[..200], ClusterPrior::of_kind(StepKind::Baseline)).inflation.unwrap();
    assert!(unloaded < quantiles(&spread[..200], ClusterPrior::of_kind(StepKind::List)).inflation.unwrap());
}

#[test]
fn a_variance_from_few_clusters_is_widened() {
    // Student's quantiles at 97.5 %: 4.3027, 3.1824, 2.5706, 2.0860.
    for (clusters, t) in [(0.0, 4.3027), (1.0, 3.1824), (3.0, 2.5706), (18.0, 2.0860)] {
        let want = (t / 1.959_964_f64).powi(2);
        assert!(
            (small_sample_factor(clusters) - want).abs() < 1e-3,
            "{clusters}: {} for {want}",
            small_sample_factor(clusters)
        );
    }
    assert!((small_sample_factor(1e6) - 1.0).abs() < 1e-3);
}
