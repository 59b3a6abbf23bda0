//! Who is admitted while the KV cache is short, and how fast all of them may go away.

use super::tests::settings;
use super::*;
use crate::config::Simulated;

const MS: Duration = Duration::from_millis(1);

fn engine(text: &str) -> crate::Model {
    toml::from_str::<Simulated>(text).unwrap().build()
}

/// Two prompts of 3,000 tokens fit and a third does not: by its first chunk of 256 it would, and then the three of them would preempt
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

/// Six blocks of 4 tokens, and both need a fourth in the end. As the first takes it, the second gives up its three; the two that are
/// left would do for a chunk of eight, but it has twelve or more to compute and waits.
#[test]
fn so_does_one_that_was_preempted() {
    let mut engine = Batch::new(settings(8, 9, 6));
    engine.arrive(Duration::ZERO, Request::new(0, 8, 9));
    engine.arrive(Duration::ZERO, Request::new(1, 8, 9));
    let mut back = None;
    while let Some(at) = engine.next_event() {
        let out = engine.advance(at);
        if engine.preemptions() > 0 && back.is_none() && engine.running() == 2 {
            back = Some((at, out.iter().any(|e| e.id == 0 && e.finished)));
        }
    }
    assert_eq!((engine.preemptions(), back), (1, None), "never again together");
}

/// Blocks that are found, and those of them that nobody holds, count as in the check for a chunk.
#[test]
fn what_is_found_is_counted_for_the_whole() {
    use crate::blocks::blocks_of;
    let known = blocks_of(0..20, 4);
    for (usable, fits) in [(8, true), (7, false)] {
        let mut limits = settings(8, 4, usable);
        limits.limits.prefix_cache = true;
        let mut engine = Batch::new(limits);
        engine.arrive(Duration::ZERO, Request::new(0, 20, 1).with_blocks(known.clone()));
        engine.advance(Duration::from_secs(1));
        // A holder of one block of its own, then five known blocks and eight more tokens: two of them.
        engine.arrive(Duration::from_secs(2), Request::new(1, 2, 3));
        let long = blocks_of((0..20).chain(100..108), 4);
        engine.arrive(Duration::from_secs(2), Request::new(2, 28, 1).with_blocks(long));
        engine.advance(Duration::from_secs(2) + 10 * MS);
        assert_eq!((engine.running(), engine.waiting()), if fits { (2, 0) } else { (1, 1) }, "{usable}");
        let last = engine.advance(Duration::MAX).pop().unwrap();
        assert_eq!((last.id, last.cached_tokens), (2, Some(20)), "{usable}");
    }
}

/// A hundred thousand requests, half of them in seats, all gone from any end: no more than a few steps each. If it took a look at all the
/// others each time, this would not end within minutes.
#[test]
fn a_drain_is_not_quadratic() {
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
