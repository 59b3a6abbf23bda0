mod admission;
mod invariants;

use super::*;
use crate::{EncodedImage, blocks::blocks_of, truth};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const MS: Duration = Duration::from_millis(1);
const FOREVER: Duration = Duration::MAX;

pub(super) fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// Settings of an engine with `blocks` usable blocks of 4 tokens, whose iterations take 10 ms.
pub(super) fn settings(seqs: u32, tokens: u32, blocks: u32) -> Settings {
    Settings {
        limits: Limits {
            max_num_seqs: count(seqs),
            max_num_batched_tokens: count(tokens),
            kv_blocks: count(blocks + 1),
            prefix_cache: false,
            chunked_prefill: true,
        },
        block_size: count(4),
        cost: Cost::Table(vec![(1, 10 * MS)].into()),
        cv: 0.0,
        drift: None,
        seed: 1,
    }
}

fn unchunked(settings: Settings) -> Settings {
    Settings { limits: Limits { chunked_prefill: false, ..settings.limits }, ..settings }
}

fn caching(settings: Settings) -> Settings {
    Settings { limits: Limits { prefix_cache: true, ..settings.limits }, ..settings }
}

/// Runs requests given as (arrival in ms, input, output); returns the times of their tokens in ms. Ids are positions in
/// the list.
fn play(settings: Settings, requests: &[(u32, u32, u32)]) -> Vec<Vec<u128>> {
    let mut engine = Batch::new(settings);
    for (id, (at, input, output)) in requests.iter().enumerate() {
        engine.arrive(*at * MS, Request::new(id as u64, *input, *output));
    }
    let mut times = vec![vec![]; requests.len()];
    for e in engine.advance(FOREVER) {
        times[e.id as usize].push(e.at.as_millis());
        assert_eq!(e.tokens, 1);
    }
    assert_eq!((engine.running(), engine.waiting(), engine.next_event()), (0, 0, None));
    assert!(engine.kv_cache_usage().abs() < 1e-12);
    times
}

#[test]
fn schedules_match_those_computed_by_hand() {
    let wide = || settings(8, 100, 1000);
    for (what, settings, requests, expected) in [
        ("a token at the end of each iteration", wide(), &[(5, 7, 3)][..], &[&[15, 25, 35][..]][..]),
        (
            "a request that arrives during an iteration waits for the next",
            wide(),
            &[(0, 7, 3), (1, 7, 2)],
            &[&[10, 20, 30], &[20, 30]],
        ),
        (
            "a request that arrives as an iteration starts joins it, busy or idle",
            wide(),
            &[(0, 7, 2), (0, 7, 2), (10, 7, 1)],
            &[&[10, 20], &[10, 20], &[20]],
        ),
        (
            "two seats: the third waits until one is free",
            settings(2, 100, 1000),
            &[(0, 7, 2), (0, 7, 3), (0, 7, 1)],
            &[&[10, 20], &[10, 20, 30], &[30]],
        ),
        (
            // 0–10: 10 tokens of A. 10–20: A decodes, 9 tokens of B. 20–30: A decodes, the last token of B's prompt, 8
            // of C. 30–40: B decodes.
            "a prompt is computed in chunks next to decodes",
            settings(8, 10, 1000),
            &[(0, 10, 3), (1, 10, 2), (2, 8, 1)],
            &[&[10, 20, 30], &[30, 40], &[30]],
        ),
        (
            "a prompt three times as long as the budget takes three iterations",
            settings(8, 10, 1000),
            &[(0, 30, 2)],
            &[&[30, 40]],
        ),
        (
            // The budget of two serves the first two in order; the third decodes once one has finished.
            "more decodes than budget: the first in order",
            settings(8, 2, 1000),
            &[(0, 1, 3), (0, 1, 2), (1, 1, 2)],
            &[&[10, 20, 30], &[10, 20], &[30, 40]],
        ),
        (
            // 10–20: A decodes and leaves a budget of 9. B needs 10 and waits, and C behind it too. 20–30: A has
            // finished.
            "unchunked: a request that does not fit waits, and all behind it",
            unchunked(settings(8, 10, 1000)),
            &[(0, 5, 2), (1, 10, 1), (2, 1, 1)],
            &[&[10, 20], &[30], &[40]],
        ),
        (
            "unchunked: a prompt longer than the budget gets an iteration of its own",
            unchunked(settings(8, 10, 1000)),
            &[(0, 5, 2), (1, 25, 2), (2, 1, 1)],
            &[&[10, 20], &[30, 40], &[40]],
        ),
        ("zero tokens count as one", wide(), &[(0, 0, 0)], &[&[10]]),
    ] {
        assert_eq!(play(settings, requests), expected, "{what}");
    }
}

#[test]
fn the_last_admitted_is_preempted_and_repeats_no_tokens() {
    // Four blocks of 4. Both prompts take two. At 10 both emit their first token. 10–20: A needs a third block for its
    // 9th token, so B loses its two and waits while A computes tokens 9 to 12 (20, 30, 40, 50). At 50 A finishes. B has
    // 8 + 1 tokens to compute again: its second token comes at 60.
    let requests = [(0, 8, 5), (0, 8, 3)];
    assert_eq!(play(settings(8, 100, 4), &requests), [vec![10, 20, 30, 40, 50], vec![10, 60, 70]]);

    let mut engine = Batch::new(settings(8, 100, 4));
    for id in 0..2 {
        engine.arrive(Duration::ZERO, Request::new(id, 8, 5));
    }
    engine.arrive(Duration::ZERO, Request::new(2, 4, 1));
    assert_eq!((engine.running(), engine.waiting(), engine.preemptions()), (2, 1, 0));
    assert!((engine.kv_cache_usage() - 1.0).abs() < 1e-12);
    engine.advance(10 * MS);
    assert_eq!((engine.running(), engine.waiting(), engine.preemptions()), (1, 2, 1));
    // A block is free, but the preempted request is first in the queue and needs three.
    let out: Vec<_> = engine.advance(FOREVER).iter().map(|e| (e.id, e.at.as_millis())).collect();
    let a = [(0, 20), (0, 30), (0, 40), (0, 50)];
    let b = [(1, 60), (2, 60), (1, 70), (1, 80), (1, 90)];
    assert_eq!(out, [&a[..], &b].concat());
}

#[test]
fn the_last_admitted_preempts_itself_for_its_own_block() {
    // Three blocks: A uses two of them to the end, B one and needs a second for its second token.
    let mut engine = Batch::new(settings(8, 100, 3));
    engine.arrive(Duration::ZERO, Request::new(0, 5, 3));
    engine.arrive(Duration::ZERO, Request::new(1, 4, 2));
    let times: Vec<_> = engine.advance(FOREVER).iter().map(|e| (e.id, e.at.as_millis())).collect();
    assert_eq!(times, [(0, 10), (1, 10), (0, 20), (0, 30), (1, 40)]);
    assert_eq!(engine.preemptions(), 1);
}

#[test]
fn requests_that_can_never_fit_are_refused() {
    let mut engine = Batch::new(settings(8, 100, 4));
    // The last token is not cached: 13 + 4 − 1 are sixteen.
    for (id, input, output) in [(0, 13, 4), (1, 13, 5), (2, 17, 1), (3, u32::MAX, u32::MAX), (4, 1, u32::MAX)]
    {
        engine.arrive(MS, Request::new(id, input, output));
    }
    let out = engine.advance(MS);
    let refusal = |id| Emission { id, at: MS, tokens: 0, cached_tokens: None, started: MS, finished: true };
    assert_eq!(out, [1, 2, 3, 4].map(refusal));
    assert_eq!(engine.advance(FOREVER).len(), 4);
    assert_eq!((engine.running(), engine.waiting()), (0, 0));
}

fn prompt(shared: u64, rest: u64, id: u64) -> Arc<[u64]> {
    blocks_of((0..shared).chain((0..rest).map(|t| 1000 * (id + 1) + t)), 4)
}

#[test]
fn a_cached_prefix_is_not_computed_again() {
    // An iteration computes ten tokens. A prompt of 20 takes two iterations; with 12 cached, one.
    let mut engine = Batch::new(caching(settings(8, 10, 100)));
    let ask = |id, at, blocks: Arc<[u64]>| (at, Request::new(id, 20, 2).with_blocks(blocks));
    let other = ask(3, 130 * MS, Arc::default());
    for (at, request) in [
        ask(0, Duration::ZERO, prompt(12, 8, 0)),
        ask(1, MS * 50, prompt(12, 8, 1)),
        ask(2, MS * 100, prompt(12, 8, 0)), // all of it is cached, but the last token must be computed
        other,
    ] {
        engine.arrive(at, request);
    }
    let out: Vec<_> =
        engine.advance(FOREVER).iter().map(|e| (e.id, e.at.as_millis(), e.cached_tokens)).collect();
    let expected = [
        (0, 20, 0),
        (0, 30, 0),
        (1, 60, 12),
        (1, 70, 12),
        (2, 110, 16),
        (2, 120, 16),
        (3, 150, 0),
        (3, 160, 0),
    ]
    .map(|(id, at, cached)| (id, at, Some(cached)));
    assert_eq!(out, expected);
    assert_eq!(engine.prefix_counts(), PrefixCounts { queries: 80, hits: 28 });
    assert!(engine.kv_cache_usage().abs() < 1e-12, "unreferenced blocks are not in use");
}

#[test]
fn requests_that_arrive_together_share_blocks() {
    let mut engine = Batch::new(caching(settings(8, 100, 6)));
    for id in 0..2 {
        engine.arrive(Duration::ZERO, Request::new(id, 16, 1).with_blocks(prompt(16, 0, 0)));
    }
    assert_eq!(engine.running(), 2);
    assert_eq!(engine.load().unwrap().tokens, 16 + 4);
    // Four blocks, all shared in the end.
    assert!((engine.kv_cache_usage() - 4.0 / 6.0).abs() < 1e-12);
    engine.advance(FOREVER);
    assert_eq!(engine.prefix_counts(), PrefixCounts { queries: 32, hits: 12 });
}

/// Cases: the first token of the image of a second request with the same 12 tokens, of which 8 are found, and the time of its first token.
#[test]
fn an_image_in_the_prefix_cache_is_not_encoded_again() {
    for (start, at) in [(0, 10), (7, 10), (8, 110)] {
        let mut engine = Batch::new(caching(settings(1, 100, 20)));
        let image = |start| vec![EncodedImage { start, time: 100 * MS }].into();
        let blocks = blocks_of(0..12, 4);
        engine
            .arrive(Duration::ZERO, Request::new(0, 12, 1).with_blocks(blocks.clone()).with_images(image(0)));
        let first: Vec<Duration> = engine.advance(FOREVER).iter().map(|e| e.at).collect();
        assert_eq!(first, [110 * MS]);
        engine.arrive(first[0], Request::new(1, 12, 1).with_blocks(blocks).with_images(image(start)));
        let second: Vec<Duration> = engine.advance(FOREVER).iter().map(|e| e.at - first[0]).collect();
        assert_eq!(second, [at * MS], "from token {start}");
    }
}

#[test]
fn a_preempted_request_finds_its_own_prefix_again() {
    // As above, but two of B's blocks are still cached at 50: of 13 tokens it computes 5.
    let mut engine = Batch::new(caching(settings(8, 100, 5)));
    engine.arrive(Duration::ZERO, Request::new(0, 8, 5));
    engine.arrive(Duration::ZERO, Request::new(1, 12, 3).with_blocks(prompt(0, 12, 1)));
    engine.advance(10 * MS);
    assert_eq!((engine.preemptions(), engine.running()), (1, 1));
    engine.advance(50 * MS);
    assert_eq!(engine.load().unwrap().tokens, 13 - 8, "two of its three blocks were free all the time");
    let out: Vec<_> =
        engine.advance(FOREVER).iter().map(|e| (e.id, e.at.as_millis(), e.cached_tokens)).collect();
    assert_eq!(out, [(1, 60, Some(0)), (1, 70, Some(0))], "cached counts the first admission");
    assert_eq!(engine.prefix_counts(), PrefixCounts { queries: 8 + 12, hits: 0 }, "so do the counters");
}

#[test]
fn cancelling_frees_seats_and_blocks() {
    let mut engine = Batch::new(settings(2, 100, 4));
    for id in 0..4 {
        engine.arrive(Duration::ZERO, Request::new(id, 8, 3));
    }
    assert_eq!((engine.running(), engine.waiting()), (2, 2));
    engine.cancel(3 * MS, 0);
    engine.cancel(3 * MS, 2);
    engine.cancel(3 * MS, 77); // not open
    assert_eq!((engine.running(), engine.waiting()), (1, 1));
    // The iteration ends as it would have; the fourth request is admitted at its end.
    engine.arrive(10 * MS, Request::new(0, 4, 1)); // ids may be reused
    let out: Vec<_> = engine.advance(FOREVER).iter().map(|e| (e.id, e.at.as_millis())).collect();
    // At 10 ms the second gets a third block, so the fourth waits for its two until the second has finished.
    assert_eq!(out, [(1, 10), (1, 20), (1, 30), (3, 40), (0, 40), (3, 50), (3, 60)]);

    let mut engine = Batch::new(settings(2, 100, 4));
    engine.arrive(Duration::ZERO, Request::new(0, 8, 3));
    engine.cancel(Duration::ZERO, 0);
    assert_eq!(
        (engine.running(), engine.next_event()),
        (0, Some(10 * MS)),
        "the iteration still ends as planned"
    );
    assert_eq!((engine.advance(FOREVER), engine.next_event()), (vec![], None));
}

#[test]
fn the_load_of_an_iteration_is_counted() {
    let cost = Cost::Formula(cost::Formula {
        base_ns: 1e6,
        weights_ns: 2e6,
        token_ns: 1e5,
        prompt: None,
        sequence_ns: 0.0,
        kv_token_ns: 0.0,
        attention_ns: 0.0,
        eager: None,
    });
    let mut engine = Batch::new(Settings { cost, ..settings(8, 30, 100) });
    engine.arrive(Duration::ZERO, Request::new(0, 20, 2));
    engine.arrive(MS, Request::new(1, 40, 1));
    // 20 tokens: 1 + 2 ms. Then one decodes with a context of 21, and 29 tokens of the other: 1 + 3 ms. Then 11: 1 + 2
    // ms.
    let load = |tokens, prompt_tokens, sequences, kv_tokens, attended| {
        Some(Load { tokens, prompt_tokens, sequences, kv_tokens, attended, encode_ns: 0 })
    };
    assert_eq!(engine.load(), load(20, 20, 1, 0, 400));
    assert_eq!(engine.advance(3 * MS).len(), 1);
    assert_eq!(engine.load(), load(30, 29, 2, 21, 29 * 29));
    assert_eq!((engine.advance(7 * MS).len(), engine.load()), (1, load(11, 11, 1, 29, 11 * (2 * 29 + 11))));
    assert_eq!(engine.advance(10 * MS)[0].at, 10 * MS);
}

/// One seat and requests of one token are an M/D/1 queue.
#[test]
fn one_seat_behaves_as_an_md1_queue() {
    const N: u32 = 200_000;
    let (rate, service) = (60.0, 10 * MS);
    let mut engine = Batch::new(settings(1, 100, 100));
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut at, mut waits) = (0.0, Vec::with_capacity(N as usize));
    for id in 0..N {
        let u: f64 = rng.random();
        at += -(-u).ln_1p() / rate;
        let due = Duration::from_secs_f64(at);
        engine.arrive(due, Request::new(u64::from(id), 10, 1));
        waits.push(due);
    }
    for e in engine.advance(FOREVER) {
        let due = waits[e.id as usize];
        waits[e.id as usize] = e.at - due - service;
    }
    let mean = waits.iter().sum::<Duration>().as_secs_f64() / f64::from(N);
    let known = truth::md1_mean_wait(rate, service).unwrap().as_secs_f64();
    // At a utilisation of 0.6 the standard deviation of the wait is about its mean, and waits are correlated over some
    // ten requests.
    let error = known * (20.0 / f64::from(N)).sqrt();
    assert!((mean - known).abs() < 4.0 * error, "{mean} of {known} ± {error}");
    for t in [5, 15, 40] {
        let within = truth::md1_wait_cdf(rate, service, t * MS);
        let share = waits.iter().filter(|w| **w <= t * MS).count() as f64 / f64::from(N);
        let error = (within * (1.0 - within) * 40.0 / f64::from(N)).sqrt();
        assert!((share - within).abs() < 4.0 * error, "{t} ms: {share} of {within} ± {error}");
    }
}
