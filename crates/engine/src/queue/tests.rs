use super::*;
use crate::truth;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
const START: Duration = Duration::ZERO;

fn queue(servers: u32, service: Dist, prefill: Option<Duration>) -> Queue {
    Queue::new(Settings { servers, service, prefill, decode: Duration::ZERO, seed: 1 })
}

fn ask(id: u64, output_tokens: u32) -> Request {
    Request::new(id, 10, output_tokens)
}

fn token(id: u64, at: Duration, finished: bool) -> Emission {
    Emission { id, at, tokens: 1, cached_tokens: None, started: START, finished }
}

/// Advances the queue; drops the start of service, which another test checks.
fn advance(q: &mut Queue, to: Duration) -> Vec<Emission> {
    q.advance(to).into_iter().map(|e| Emission { started: START, ..e }).collect()
}

const FOREVER: Duration = Duration::MAX;

#[test]
fn one_server_serves_in_order_of_arrival() {
    let mut q = queue(1, Dist::Fixed(50 * MS), None);
    q.arrive(10 * MS, &ask(7, 1));
    q.arrive(30 * MS, &ask(8, 0)); // zero tokens count as one
    q.arrive(200 * MS, &ask(9, 1));
    assert_eq!(q.next_event(), Some(60 * MS), "not fetched yet");
    assert_eq!(advance(&mut q, 60 * MS - Duration::from_nanos(1)), vec![]);
    assert_eq!(advance(&mut q, 60 * MS), vec![token(7, 60 * MS, true)]);
    assert_eq!(advance(&mut q, FOREVER), vec![token(8, 110 * MS, true), token(9, 250 * MS, true)]);
    assert_eq!((q.next_event(), q.running(), q.waiting()), (None, 0, 0));
}

#[test]
fn emissions_carry_the_start_of_service() {
    let mut q = Queue::new(Settings { decode: 7 * MS, ..queue(1, Dist::Fixed(50 * MS), None).settings });
    q.arrive(START, &ask(1, 2));
    q.arrive(10 * MS, &ask(2, 1));
    let started: Vec<(u64, Duration)> = q.advance(FOREVER).iter().map(|e| (e.id, e.started)).collect();
    assert_eq!(started, [(1, START), (1, START), (2, 50 * MS)]);
}

#[test]
fn tokens_follow_at_exact_times() {
    // Without prefill the first token ends the service; the others are a pure delay, and the server is already free.
    let mut q = Queue::new(Settings { decode: 7 * MS, ..queue(1, Dist::Fixed(50 * MS), None).settings });
    q.arrive(START, &ask(1, 3));
    q.arrive(START, &ask(2, 1));
    let expected = [(1, 50, false), (1, 57, false), (1, 64, true), (2, 100, true)];
    assert_eq!(advance(&mut q, FOREVER), expected.map(|(id, at, end)| token(id, at * MS, end)));

    // With prefill the others are spread over the rest of the holding time; thirds of a millisecond do not accumulate
    // errors.
    let mut q = queue(1, Dist::Fixed(11 * MS), Some(10 * MS));
    q.arrive(START, &ask(1, 4));
    let times: Vec<u128> = q.advance(FOREVER).iter().map(|e| e.at.as_nanos()).collect();
    assert_eq!(times, [10_000_000, 10_333_333, 10_666_666, 11_000_000]);

    // If the holding time ends before the prefill, all tokens come at once; the server is free at the end of the
    // holding time.
    let mut q = queue(1, Dist::Fixed(4 * MS), Some(10 * MS));
    q.arrive(START, &ask(1, 2));
    q.arrive(START, &ask(2, 1));
    let expected = [(1, 10, false), (1, 10, true), (2, 14, true)];
    assert_eq!(advance(&mut q, FOREVER), expected.map(|(id, at, end)| token(id, at * MS, end)));
}

#[test]
fn running_and_waiting_requests_are_counted() {
    let mut q = queue(2, Dist::Fixed(50 * MS), Some(10 * MS));
    for id in 0..3 {
        q.arrive(START, &ask(id, 1));
    }
    assert_eq!((q.running(), q.waiting()), (2, 1));
    q.advance(20 * MS);
    assert_eq!((q.running(), q.waiting()), (2, 1), "answered, but the servers are still occupied");
    q.advance(50 * MS);
    assert_eq!((q.running(), q.waiting()), (1, 0));
}

#[test]
fn cancelling_frees_the_server_or_leaves_the_queue() {
    let mut q = queue(1, Dist::Fixed(50 * MS), None);
    for id in 0..4 {
        q.arrive(START, &ask(id, 1));
    }
    q.cancel(10 * MS, 1); // waiting
    q.cancel(20 * MS, 0); // in service: the next one starts now
    q.cancel(20 * MS, 99); // not open
    assert_eq!((q.running(), q.waiting()), (1, 1));
    assert_eq!(q.next_event(), Some(70 * MS), "no event of a cancelled request is left in front");
    q.arrive(30 * MS, &ask(1, 1)); // ids may be reused
    let expected = [(2, 70), (3, 120), (1, 170)];
    assert_eq!(advance(&mut q, FOREVER), expected.map(|(id, at)| token(id, at * MS, true)));

    // After its last token a request still occupies its server to the end.
    let mut q = queue(1, Dist::Fixed(50 * MS), Some(10 * MS));
    q.arrive(START, &ask(0, 1));
    q.arrive(START, &ask(1, 1));
    q.cancel(20 * MS, 0);
    assert_eq!(advance(&mut q, FOREVER)[1], token(1, 60 * MS, true));
}

#[test]
fn a_late_arrival_counts_from_the_last_event() {
    let mut q = queue(1, Dist::Fixed(50 * MS), None);
    assert_eq!(advance(&mut q, 100 * MS), vec![]);
    q.arrive(60 * MS, &ask(0, 1));
    assert_eq!(
        advance(&mut q, 200 * MS),
        vec![token(0, 110 * MS, true)],
        "no event since, so at its own time"
    );
    q.arrive(90 * MS, &ask(1, 1));
    assert_eq!(
        advance(&mut q, 200 * MS),
        vec![token(1, 160 * MS, true)],
        "counts from the last event, at 110 ms"
    );
}

/// Returns Poisson arrivals with their own seed.
fn arrivals(rate: f64, n: usize, seed: u64) -> impl Iterator<Item = Duration> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    (0..n).map(move |_| {
        let u: f64 = rng.random();
        at += -(-u).ln_1p() / rate;
        Duration::from_secs_f64(at)
    })
}

/// Returns the share of TTFTs above the limit.
fn late(mut q: Queue, rate: f64, limit: Duration, n: usize) -> f64 {
    let due: Vec<Duration> = arrivals(rate, n, 42).collect();
    let mut late = 0_u32;
    let mut count = |q: &mut Queue, to| {
        for e in q.advance(to) {
            late += u32::from(e.at - due[e.id as usize] > limit);
        }
    };
    for (id, at) in due.iter().enumerate() {
        count(&mut q, *at);
        q.arrive(*at, &ask(id as u64, 1));
    }
    count(&mut q, FOREVER);
    f64::from(late) / n as f64
}

#[test]
fn the_p99_meets_the_limit_at_the_known_boundaries() {
    const N: usize = 400_000;
    let mean = Dist::Exponential;
    // Servers, holding time, prefill, limit in ms, rate, and inflation: the variance of the count of misses at this
    // rate over that of independent ones (measured in long runs).
    for (servers, service, prefill, limit, rate, inflation) in [
        (1, Dist::Fixed(50 * MS), None, 200, 9.2576, 5.0),
        (1, mean(50 * MS), None, 500, 10.7897, 11.0),
        (32, mean(2000 * MS), Some(50 * MS), 200, 10.713, 25.0),
    ] {
        let q = queue(servers, service, prefill);
        let share = late(q.clone(), rate, limit * MS, N);
        let error = (0.01 * 0.99 * inflation / N as f64).sqrt();
        assert!((share - 0.01).abs() < 4.0 * error, "{service:?}: {share} of 0.01 ± {error}");
        // The share rises steeply with the rate (β from 5.4 to 14): 10 % more load is clearly above.
        assert!(
            late(q, rate * 1.1, limit * MS, N) > 0.01 + 4.0 * error,
            "{service:?}: too few at 1.1 of the rate"
        );
    }
}

/// M/G/1: the mean wait is λ·E S² / (2·(1 − ρ)) (Pollaczek–Khinchine); unloaded, times follow the lognormal itself.
#[test]
fn lognormal_holding_times_have_the_given_mean_and_cv() {
    const N: usize = 400_000;
    let (mean, cv, rate) = (0.04, 0.8, 10.0);
    let q = queue(1, Dist::Lognormal { mean: 40 * MS, cv }, None);
    // exp(μ) is the median: half of the unloaded requests take longer.
    let median = Duration::from_secs_f64(mean / (1.0_f64 + cv * cv).sqrt());
    let alone =
        late(Queue { settings: Settings { servers: u32::MAX, ..q.settings }, ..q.clone() }, rate, median, N);
    assert!((alone - 0.5).abs() < 4.0 * 0.5 / (N as f64).sqrt(), "{alone}");
    let mut q = q;
    let due: Vec<Duration> = arrivals(rate, N, 43).collect();
    for (id, at) in due.iter().enumerate() {
        q.arrive(*at, &ask(id as u64, 1));
    }
    let total: f64 = q.advance(FOREVER).iter().map(|e| (e.at - due[e.id as usize]).as_secs_f64()).sum();
    let wait = rate * mean * mean * (1.0 + cv * cv) / (2.0 * (1.0 - rate * mean));
    let found = total / N as f64;
    // The relaxation time of such a queue is about ten services: four standard errors are about 3 %.
    assert!((found / (mean + wait) - 1.0).abs() < 0.03, "{found} for {}", mean + wait);
    let fixed = queue(1, Dist::Lognormal { mean: 40 * MS, cv: 0.0 }, None).draw();
    assert_eq!(fixed, 40 * MS, "a cv of zero is a constant");
}

#[test]
fn waits_follow_the_closed_forms() {
    const N: usize = 200_000;
    for t in [1_u32, 30, 80] {
        let md1 = late(queue(1, Dist::Fixed(50 * MS), None), 10.0, (50 + t) * MS, N);
        let mmc = late(queue(4, Dist::Exponential(300 * MS), Some(20 * MS)), 10.0, (20 + t) * MS, N);
        let truths = [
            (md1, truth::md1_wait_cdf(10.0, 50 * MS, t * MS)),
            (mmc, truth::mmc_wait_cdf(10.0, 300 * MS, 4, t * MS)),
        ];
        for (share, within) in truths {
            // Near the middle of the distribution, at utilisations of 0.5 and 0.75, waits are correlated over tens of requests.
            let error = (within * (1.0 - within) * 40.0 / N as f64).sqrt();
            assert!((share - (1.0 - within)).abs() < 4.0 * error, "{t} ms: {share}, not {}", 1.0 - within);
        }
    }
}

proptest! {
    /// Compared with the recursion of Kiefer and Wolfowitz: a request starts when the first server is free.
    #[test]
    fn service_starts_when_a_server_is_free(
        gaps in prop::collection::vec(0_u64..100_000, 1..60),
        servers in 1_u32..5,
        seed in 0_u64..1000,
    ) {
        let hold = Dist::Exponential(40 * MS);
        let mut q = Queue::new(Settings { servers, service: hold, prefill: None, decode: Duration::ZERO, seed });
        let mut twin = q.clone();
        let mut free = vec![Duration::ZERO; servers as usize];
        let mut expected = vec![];
        let mut at = Duration::ZERO;
        for (id, gap) in gaps.iter().enumerate() {
            at += Duration::from_micros(*gap);
            q.arrive(at, &ask(id as u64, 1));
            free.sort();
            free[0] = free[0].max(at) + twin.draw();
            expected.push((free[0], id as u64));
        }
        expected.sort();
        let got: Vec<_> = q.advance(FOREVER).iter().map(|e| (e.at, e.id)).collect();
        prop_assert_eq!(got, expected);
    }

    /// Results do not depend on how often `advance` is called.
    #[test]
    fn the_pattern_of_advance_calls_does_not_matter(
        actions in prop::collection::vec((0_u64..60_000, 0_u32..4, 0_u64..40), 1..60),
        offsets in prop::collection::vec(0_u64..60_000, 0..60),
        prefill in prop::option::of(Just(5 * MS)),
    ) {
        let settings = Settings { servers: 2, service: Dist::Exponential(40 * MS), prefill, decode: 3 * MS, seed: 3 };
        let (mut lazy, mut eager) = (Queue::new(settings), Queue::new(settings));
        let mut seen = vec![];
        let mut at = Duration::ZERO;
        let mut offsets = offsets.into_iter();
        for (id, (gap, tokens, victim)) in actions.into_iter().enumerate() {
            if let Some(offset) = offsets.next().filter(|offset| *offset <= gap) {
                seen.extend(eager.advance(at + Duration::from_micros(offset)));
            }
            while let Some(next) = eager.next_event().filter(|t| id % 2 == 0 && *t <= at) {
                seen.extend(eager.advance(next));
            }
            at += Duration::from_micros(gap);
            for q in [&mut lazy, &mut eager] {
                q.arrive(at, &ask(id as u64, tokens));
                q.cancel(at, victim);
            }
            prop_assert_eq!((lazy.running(), lazy.waiting()), (eager.running(), eager.waiting()));
        }
        seen.extend(eager.advance(FOREVER));
        prop_assert_eq!(&seen, &lazy.advance(FOREVER));
        prop_assert!(seen.is_sorted_by_key(|e| e.at));
        prop_assert_eq!((eager.running(), eager.waiting(), eager.next_event()), (0, 0, None));
    }
}
