//! Tests of admission while the KV cache is short, and of cancelling many requests.

use super::*;
use crate::config::Simulated;

const MS: Duration = Duration::from_millis(1);

fn engine(text: &str) -> crate::Model {
    toml::from_str::<Simulated>(text).unwrap().build()
}

/// Two prompts of 3,000 tokens fit and a third does not. Its first chunk of 256 would, but then the three would preempt
/// each other again and again.
#[test]
fn a_prompt_that_does_not_fit_as_a_whole_waits() {
    let mut model = engine(
        "preset = \"a40-qwen3-0.6b\"\nkv-blocks = 400\nmax-num-batched-tokens = 256\nprefix-cache = false",
    );
    for id in 0..3 {
        model.arrive(Duration::ZERO, Request::new(id, 3000, 150));
    }
    let mut ends = vec![];
    while let Some(at) = model.next_event() {
        ends.extend(model.advance(at).into_iter().filter(|e| e.finished).map(|e| e.id));
        assert!(model.running() <= 2, "at {at:?}");
    }
    assert_eq!((ends, model.preemptions()), (vec![0, 1, 2], 0));
}

/// Six blocks of 4 tokens, and both requests need a fourth in the end. When the first takes it, the second loses its
/// three. The two that are left would be enough for a chunk of eight, but it has twelve or more tokens to compute and
/// waits.
#[test]
fn a_preempted_request_that_does_not_fit_as_a_whole_waits() {
    let mut engine = Batch::new(settings(8, 9, 6));
    engine.arrive(Duration::ZERO, Request::new(0, 8, 9));
    engine.arrive(Duration::ZERO, Request::new(1, 8, 9));
    let mut both_running = None;
    while let Some(at) = engine.next_event() {
        let out = engine.advance(at);
        if engine.preemptions() > 0 && both_running.is_none() && engine.running() == 2 {
            both_running = Some((at, out.iter().any(|e| e.id == 0 && e.finished)));
        }
    }
    assert_eq!((engine.preemptions(), both_running), (1, None), "never again together");
}

/// The check for the whole prompt counts found and idle blocks as the check for a chunk does.
#[test]
fn the_cached_prefix_counts_in_the_check_for_the_whole_prompt() {
    use crate::blocks::blocks_of;
    let known = blocks_of(0..20, 4);
    for (usable, fits) in [(8, true), (7, false)] {
        let mut limits = settings(8, 4, usable);
        limits.limits.prefix_cache = true;
        let mut engine = Batch::new(limits);
        engine.arrive(Duration::ZERO, Request::new(0, 20, 1).with_blocks(known.clone()));
        engine.advance(Duration::from_secs(1));
        // One request with a private block, then one with five cached blocks and eight more tokens, which need two.
        engine.arrive(Duration::from_secs(2), Request::new(1, 2, 3));
        let long = blocks_of((0..20).chain(100..108), 4);
        engine.arrive(Duration::from_secs(2), Request::new(2, 28, 1).with_blocks(long));
        engine.advance(Duration::from_secs(2) + 10 * MS);
        assert_eq!((engine.running(), engine.waiting()), if fits { (2, 0) } else { (1, 1) }, "{usable}");
        let last = engine.advance(Duration::MAX).pop().unwrap();
        assert_eq!((last.id, last.cached_tokens), (2, Some(20)), "{usable}");
    }
}

/// Cancels a hundred thousand requests, half of them running, in different orders. With a scan of all others for each,
/// this would take minutes.
#[test]
fn cancelling_all_requests_is_not_quadratic() {
    const N: u64 = 100_000;
    for stride in [1, N - 1, 40_001] {
        let mut engine = Batch::new(settings(50_000, 1_000_000, 1_000_000));
        for id in 0..N {
            engine.arrive(Duration::ZERO, Request::new(id, 4, 8));
        }
        assert_eq!((engine.running(), engine.waiting()), (50_000, 50_000));
        for i in 0..N {
            engine.cancel(MS, i * stride % N);
            assert_eq!(engine.running() + engine.waiting(), (N - 1 - i) as usize);
        }
        assert!(engine.kv_cache_usage().abs() < 1e-12);
        assert_eq!((engine.advance(Duration::MAX), engine.next_event()), (vec![], None));
    }
}
