//! Co-misses of small cases by hand, and compared with the correlation of counts over many steps of a queue.

use super::*;
use crate::fixture;
use crate::stats::compact_record::compact;
use crate::stats::itl::ItlTally;
use crate::stats::queues::{Queue, Service};
use crate::stats::summary::summarize;
use crate::stats::summary::tests::input;
use goodput_core::record::Record;
use goodput_core::slo::Slo;
use std::time::Duration;

#[test]
fn clusters_contain_the_misses_of_either_limit() {
    // requests, clusters, product, squares of this limit, squares of the other
    for (own, other, gap, want) in [
        (vec![], vec![], 5.0, [0, 0, 0, 0, 0]),
        (vec![3], vec![], 5.0, [0, 1, 0, 1, 0]),
        (vec![3], vec![3], 5.0, [1, 1, 1, 1, 1]),
        (vec![3], vec![8], 5.0, [0, 1, 1, 1, 1]), // never the same request, one cluster
        (vec![3], vec![9], 5.0, [0, 2, 0, 1, 1]), // two
        (vec![3, 4, 20], vec![4, 6], 5.0, [1, 2, 4, 5, 4]),
        (vec![0, 4, 8], vec![2, 6, 10], 2.0, [0, 1, 9, 9, 9]), // each near the next
    ] {
        let c = CoMisses::of("e2e.p99".into(), &own, &other, |_| gap);
        let got = [c.requests, c.clusters, c.product, c.own_sq, c.other_sq];
        assert_eq!(got, want, "{own:?} and {other:?}");
    }
}

#[test]
fn correlation_is_shrunk_without_much_evidence() {
    let of = |clusters, product, own_sq, other_sq| {
        CoMisses { clusters, product, own_sq, other_sq, ..CoMisses::default() }.correlation()
    };
    for (what, got, want) in [
        ("nothing", of(0, 0, 0, 0), 0.0),
        ("one limit alone", of(3, 0, 9, 0), 0.0),
        ("one common cluster", of(1, 25, 25, 25), 0.5),
        ("a hundred", of(100, 2500, 2500, 2500), 100.0 / 101.0),
        ("half of them", of(99, 200, 400, 400), 0.495),
    ] {
        assert!((got - want).abs() < 1e-12, "{what}: {got}");
    }
}

/// Simulates a step of an M/M/1 at 0.54 of its capacity over 150 s; the class of each request is the flip of a fair coin.
fn busy(seed: u64, tiers: &[Slo]) -> Step {
    let queue = Queue { servers: 1, mean_s: 0.05, service: Service::Exponential };
    let classed = |mut r: Record| {
        // The coin is a hash of the request's id.
        r.class = ((r.id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed) >> 40 & 1) as u16;
        r
    };
    let records: Vec<Record> = queue.records(10.7897, 10.0, 150.0, seed).into_iter().map(classed).collect();
    let (records, itl) = (compact(&records), ItlTally::new(tiers));
    let mut input = input(10.7897, &records, &itl, tiers);
    (input.measure, input.classes) = (Duration::from_secs(150), &["a", "b"]);
    summarize(&input)
}

/// p99 of the wait .4317 s and of the sojourn .5 s, by the closed forms of the M/M/1.
#[test]
fn the_estimated_correlation_matches_that_over_many_steps() {
    let all: Slo = toml::from_str("ttft.p99 = \"431.7ms\"\ne2e.p99 = \"500ms\"").unwrap();
    let by_class = |class, name: &str| goodput_core::slo::ClassSlo {
        class,
        name: name.into(),
        slo: toml::from_str("ttft.p99 = \"431.7ms\"").unwrap(),
    };
    let classes = Slo {
        name: Some("classes".into()),
        classes: vec![by_class(0, "a"), by_class(1, "b")],
        ..Slo::default()
    };
    let tiers = [all, classes];
    let steps: Vec<Step> = (0..200).map(|seed| busy(seed, &tiers)).collect();
    for (tier, pair, phi_is_small) in
        [("main", ["ttft.p99", "e2e.p99"], false), ("classes", ["a/ttft.p99", "b/ttft.p99"], true)]
    {
        let counts = pair.map(|key| {
            let of = |s: &Step| s.row(tier, key).unwrap().misses as f64;
            steps.iter().map(of).collect::<Vec<f64>>()
        });
        let truth = pearson(&counts[0], &counts[1]);
        let own = steps.iter().flat_map(|s| &s.row(tier, pair[1]).unwrap().co_misses);
        let mut sum = CoMisses::default();
        own.for_each(|c| sum.add(c));
        assert_eq!(sum.requests == 0, phi_is_small, "no request is of two classes");
        assert!((sum.correlation() - truth).abs() < 0.12, "{pair:?}: {} for {truth}", sum.correlation());
        // Ten steps are enough.
        let few = pooled_correlation(&steps[..10], tier, pair.map(|key| (key, 0.01)));
        let turned = pooled_correlation(&steps[..10], tier, [pair[1], pair[0]].map(|key| (key, 0.01)));
        assert!((few - truth).abs() < 0.25 && (few - turned).abs() < 1e-12, "{pair:?}: {few}, {turned}");
    }
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let mean = |x: &[f64]| x.iter().sum::<f64>() / n;
    let (ma, mb) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

#[test]
fn overloaded_and_unloaded_steps_and_old_folders_are_left_out() {
    let with = |misses, kind, co_misses: Vec<CoMisses>| {
        let mut s = fixture::found().swap_remove(0);
        s.kind = kind;
        for row in &mut s.limits[..2] {
            (row.n, row.misses) = (1000, misses);
        }
        s.limits[1].co_misses = co_misses;
        s
    };
    let limit = fixture::found()[0].limits[0].key();
    let other = fixture::found()[0].limits[1].key();
    let seen =
        CoMisses { limit: limit.clone(), requests: 4, clusters: 3, product: 20, own_sq: 30, other_sq: 30 };
    for (what, step, want) in [
        ("near the boundary", with(10, StepKind::Refine, vec![seen.clone()]), 0.5),
        ("overloaded", with(100, StepKind::Refine, vec![seen.clone()]), 0.0),
        ("unloaded", with(10, StepKind::Baseline, vec![seen]), 0.0),
        ("an old folder", with(10, StepKind::Refine, vec![]), 0.0),
    ] {
        let got = pooled_correlation([&step], "main", [(&limit, 0.01), (&other, 0.01)]);
        assert!((got - want).abs() < 1e-12, "{what}: {got}");
    }
}
