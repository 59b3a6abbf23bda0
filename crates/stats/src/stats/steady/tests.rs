use super::*;
use crate::stats::compact_record::compact;
use crate::stats::queues::{Engine, Queue, Service};

fn steady(records: &[Record], window: Window, closed: bool) -> Steady {
    super::steady(compact(records).iter().copied(), window, closed)
}

fn stable(records: &[Record], window: Window) -> Option<bool> {
    super::stable(compact(records).iter().copied(), window)
}

/// Returns the shares of 40 steps that are called unstable and undecided.
fn shares(measure: f64, records: impl Fn(u64) -> Vec<Record>) -> (f64, f64) {
    let window = Window { from: 10.0, to: 10.0 + measure };
    let called: Vec<_> = (0..40).map(|seed| stable(&records(seed), window)).collect();
    let share = |what| called.iter().filter(|c| **c == what).count() as f64 / 40.0;
    (share(Some(false)), share(None))
}

#[test]
fn stable_and_overloaded_queues_are_distinguished() {
    for (servers, mean_s, service) in [
        (1, 0.05, Service::Fixed),
        (1, 0.05, Service::Exponential),
        (16, 1.0, Service::Fixed),
        (32, 2.0, Service::Exponential),
    ] {
        let q = Queue { servers, mean_s, service };
        let at = |load: f64, measure: f64| {
            shares(measure, |seed| q.records(load * q.capacity(), 10.0, measure, seed))
        };
        for load in [0.5, 0.9, 0.95] {
            let (unstable, unknown) = at(load, 60.0);
            assert!(unstable <= 0.05 && unknown <= 0.05, "{q:?} at {load}: {unstable}, {unknown} unknown");
        }
        for (load, measure, least) in
            [(1.2, 30.0, 0.6), (1.2, 60.0, 0.85), (1.5, 20.0, 0.9), (3.0, 30.0, 0.95)]
        {
            let (unstable, _) = at(load, measure);
            assert!(unstable >= least, "{q:?} at {load} for {measure} s: {unstable}");
        }
    }
}

#[test]
fn a_filling_batch_is_no_overload() {
    for (base_s, per_s, slots) in [(0.04, 0.0008, 256), (0.01, 0.0002, 256)] {
        let e = Engine { base_s, per_s, slots, tokens: 200.0 };
        for load in [0.75, 0.9] {
            let (unstable, _) = shares(60.0, |seed| e.records(load * e.capacity(), 10.0, 60.0, seed));
            assert!(unstable <= 0.05, "{e:?} at {load}: {unstable}");
        }
        let (unstable, _) = shares(60.0, |seed| e.records(3.0 * e.capacity(), 10.0, 60.0, seed));
        assert!(unstable >= 0.95, "{e:?}: {unstable}");
    }
}

/// The servers of the tests above, with answers in one piece.
#[test]
fn answers_in_one_piece_are_judged_by_e2e() {
    let whole = |records: Vec<Record>| -> Vec<Record> {
        records.into_iter().map(|r| Record { first_token: None, first_content: None, ..r }).collect()
    };
    let queue = Queue { servers: 16, mean_s: 1.0, service: Service::Fixed };
    let engine = Engine { base_s: 0.01, per_s: 0.0002, slots: 256, tokens: 200.0 };
    for load in [0.5, 0.9] {
        let (unstable, _) = shares(60.0, |seed| whole(queue.records(load * 16.0, 10.0, 60.0, seed)));
        assert!(unstable <= 0.05, "{queue:?} at {load}: {unstable}");
        let (unstable, _) =
            shares(60.0, |seed| whole(engine.records(load * engine.capacity(), 10.0, 60.0, seed)));
        assert!(unstable <= 0.05, "{engine:?} at {load}: {unstable}");
    }
    let (unstable, _) = shares(60.0, |seed| whole(queue.records(1.5 * 16.0, 10.0, 60.0, seed)));
    assert!(unstable >= 0.9, "{queue:?}: {unstable}");
    let (unstable, _) = shares(60.0, |seed| whole(engine.records(3.0 * engine.capacity(), 10.0, 60.0, seed)));
    assert!(unstable >= 0.9, "{engine:?}: {unstable}");
}

#[test]
fn too_short_or_small_steps_are_undecided() {
    let slow = Queue { servers: 64, mean_s: 16.0, service: Service::Fixed };
    let (_, unknown) = shares(10.0, |seed| slow.records(2.0, 10.0, 10.0, seed));
    assert!(unknown >= 0.95, "20 s of load, 16 s each: {unknown}");
    assert_eq!(stable(&[], Window { from: 0.0, to: 10.0 }), None);
    let few = Queue { servers: 1, mean_s: 0.1, service: Service::Fixed };
    assert_eq!(
        stable(&few.records(0.2, 10.0, 60.0, 1), Window { from: 10.0, to: 70.0 }),
        None,
        "a dozen requests"
    );
    let closed = steady(&slow.records(20.0, 10.0, 30.0, 1), Window { from: 10.0, to: 40.0 }, true);
    assert_eq!(closed.stable, Some(true), "a closed loop is bounded");
}

#[test]
fn averages_are_exact() {
    let s = |ms| Duration::from_millis(ms);
    let records: Vec<Record> = [(0, 2000), (1000, 4000), (3000, 3500), (9000, 9500)]
        .into_iter()
        .enumerate()
        .map(|(i, (due, end))| Record { end: s(end), ..Record::due(i as u64, Phase::Measure, s(due)) })
        .collect();
    let got = steady(&records, Window { from: 1.0, to: 5.0 }, false);
    // 1 s + 3 s + 0.5 s within four seconds.
    assert!((got.in_flight_mean - 4.5 / 4.0).abs() < 1e-12);
    assert_eq!(got.in_flight_max, 2);
    assert!(got.in_flight_slope.unwrap() < 0.0, "it empties");
    let window = Window { from: 10.0, to: 70.0 };
    let q = Queue { servers: 1, mean_s: 0.05, service: Service::Fixed };
    let got = steady(&q.records(10.0, 10.0, 60.0, 7), window, false);
    assert!(got.little_residual.unwrap().abs() < 0.05 && got.ttft_slope.unwrap().abs() < 0.01, "{got:?}");
    let over = steady(&q.records(24.0, 10.0, 60.0, 7), window, false);
    // 24 in, 20 out; the k-th request waits k·(1/20 − 1/24).
    assert!((over.in_flight_slope.unwrap() - 4.0).abs() < 1.0, "{over:?}");
    assert!((over.ttft_slope.unwrap() - 0.2).abs() < 0.05, "{over:?}");
}
