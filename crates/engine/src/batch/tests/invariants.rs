//! Property tests: invariants of the engine under random arrivals and cancellations.

use super::*;
use crate::blocks::blocks_of;
use proptest::prelude::*;
use std::collections::HashMap;

/// An arrival, perhaps with a cancellation.
#[derive(Debug, Clone)]
struct Action {
    /// Time after the previous action, in µs.
    gap: u64,
    input: u32,
    output: u32,
    /// Which of four prefixes the prompt has, and how many of its tokens.
    family: u64,
    shared: u32,
    /// Id of a request to cancel at the same time, often of none.
    victim: u64,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    // A third of the gaps are zero, so that requests arrive together.
    let gap = prop_oneof![Just(0), 0_u64..30_000, Just(10_000)];
    let action = (gap, 0_u32..60, 0_u32..12, 0_u64..4, 0_u32..60, 0_u64..120).prop_map(
        |(gap, input, output, family, shared, victim)| Action { gap, input, output, family, shared, victim },
    );
    prop::collection::vec(action, 1..50)
}

fn engines() -> impl Strategy<Value = Settings> {
    let limits = (1_u32..6, 1_u32..50, 4_u32..40, any::<bool>(), any::<bool>());
    (limits, 0_u8..2).prop_map(|((seqs, tokens, blocks, prefix_cache, chunked_prefill), noisy)| {
        let plain = settings(seqs, tokens, blocks);
        let cost = Cost::Formula(cost::Formula {
            base_ns: 2e6,
            weights_ns: 3e6,
            token_ns: 2e5,
            prompt: None,
            sequence_ns: 1e5,
            kv_token_ns: 1e3,
            attention_ns: 1e2,
            eager: Some(cost::Eager { captured: 3, launch_ns: 4e6 }),
        });
        let limits = Limits { prefix_cache, chunked_prefill, ..plain.limits };
        let drift = (noisy > 0).then_some(noise::Drift { cv: 0.3, over: Duration::from_millis(50) });
        Settings { limits, cost, cv: 0.5 * f64::from(noisy), drift, block_size: count(4), ..plain }
    })
}

impl Action {
    fn request(&self, id: u64) -> Request {
        let (input, shared) = (self.input.max(1), self.shared.min(self.input.max(1)));
        let beginning = (0..shared).map(|t| 1000 * self.family + u64::from(t));
        let rest = (shared..input + self.output).map(|t| 1_000_000 * (id + 1) + u64::from(t));
        Request::new(id, self.input, self.output).with_blocks(blocks_of(beginning.chain(rest), 4))
    }
}

/// Checks the invariants that hold at every moment.
fn check_invariants(engine: &Batch) -> Result<(), TestCaseError> {
    let Settings { limits, block_size, .. } = &engine.settings;
    prop_assert!(engine.running() <= limits.max_num_seqs.get() as usize);
    let usable = limits.kv_blocks.get() - 1;
    prop_assert!(engine.kv.available() <= usable);
    if let Some(load) = engine.load() {
        let alone = !limits.chunked_prefill && load.sequences == 1;
        prop_assert!(load.tokens <= u64::from(limits.max_num_batched_tokens.get()) || alone, "{load:?}");
        prop_assert!(load.sequences > 0);
    }
    let allocated: u32 = engine.running.iter().map(Sequence::blocks).sum();
    let used = usable - engine.kv.available();
    // Shared blocks count once; without a prefix cache the numbers are equal.
    prop_assert!(used <= allocated && (limits.prefix_cache || used == allocated), "{used} of {allocated}");
    for sequence in &engine.running {
        prop_assert!(sequence.computed() <= sequence.blocks() * block_size.get());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every request that is not cancelled gets all its tokens in order of time, and nothing is left in the engine.
    #[test]
    fn every_request_finishes_and_nothing_leaks(actions in actions(), settings in engines()) {
        let mut engine = Batch::new(settings.clone());
        let (mut at, mut cancelled, mut out) = (Duration::ZERO, HashMap::new(), vec![]);
        for (id, action) in (0_u64..).zip(&actions) {
            at += Duration::from_micros(action.gap);
            // One event at a time, so that every state is checked.
            while let Some(next) = engine.next_event().filter(|t| *t <= at) {
                out.extend(engine.advance(next));
                check_invariants(&engine)?;
            }
            engine.arrive(at, action.request(id));
            engine.cancel(at, action.victim);
            if action.victim <= id {
                cancelled.entry(action.victim).or_insert(at);
            }
            check_invariants(&engine)?;
        }
        while let Some(next) = engine.next_event() {
            out.extend(engine.advance(next));
                check_invariants(&engine)?;
        }
        prop_assert!(out.is_sorted_by_key(|e| e.at));
        for (id, action) in (0_u64..).zip(&actions) {
            let mine: Vec<_> = out.iter().filter(|e| e.id == id).collect();
            let tokens: u32 = mine.iter().map(|e| e.tokens).sum();
            let fits =
                (action.input.max(1) + action.output.max(1) - 1).div_ceil(4) < settings.limits.kv_blocks.get();
            let finished = mine.iter().filter(|e| e.finished).count();
            if !fits {
                prop_assert_eq!((tokens, mine.len(), finished), (0, 1, 1));
                continue;
            }
            prop_assert!(mine.is_sorted_by(|a, b| a.at < b.at));
            prop_assert!(mine.iter().all(|e| e.tokens == 1));
            match cancelled.get(&id).filter(|_| finished == 0) {
                Some(end) => prop_assert!(tokens < action.output.max(1) && mine.iter().all(|e| e.at <= *end)),
                None => prop_assert!(tokens == action.output.max(1) && mine[mine.len() - 1].finished),
            }
        }
        prop_assert_eq!((engine.running(), engine.waiting(), engine.next_event()), (0, 0, None));
        prop_assert!(engine.locations.is_empty() && engine.cancelled == 0);
        prop_assert_eq!(engine.kv.available(), settings.limits.kv_blocks.get() - 1);
        let counts = engine.prefix_counts();
        prop_assert!(counts.hits <= counts.queries && (settings.limits.prefix_cache || counts.queries == 0));
    }

    /// Without preemption and cancellation, first tokens are emitted in the order of arrival.
    #[test]
    fn admission_is_first_come_first_served(actions in actions(), settings in engines()) {
        let limits = Limits { kv_blocks: count(10_000), ..settings.limits };
        let mut engine = Batch::new(Settings { limits, ..settings });
        let mut at = Duration::ZERO;
        for (id, action) in (0_u64..).zip(&actions) {
            at += Duration::from_micros(action.gap);
            engine.arrive(at, action.request(id));
        }
        let mut first: HashMap<u64, Duration> = HashMap::new();
        for e in engine.advance(Duration::MAX) {
            first.entry(e.id).or_insert(e.at);
        }
        let order: Vec<_> = (0..actions.len() as u64).map(|id| first[&id]).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
        prop_assert_eq!(engine.preemptions(), 0);
    }

    /// Results do not depend on how often `advance` is called.
    #[test]
    fn the_pattern_of_advance_calls_does_not_matter(
        actions in actions(),
        settings in engines(),
        offsets in prop::collection::vec(0_u64..30_000, 0..50),
    ) {
        let (mut lazy, mut eager) = (Batch::new(settings.clone()), Batch::new(settings));
        let (mut seen, mut at) = (vec![], Duration::ZERO);
        let mut offsets = offsets.into_iter();
        for (id, action) in (0_u64..).zip(&actions) {
            if let Some(offset) = offsets.next().filter(|offset| *offset <= action.gap) {
                seen.extend(eager.advance(at + Duration::from_micros(offset)));
            }
            at += Duration::from_micros(action.gap);
            while let Some(next) = eager.next_event().filter(|t| id % 2 == 0 && *t <= at) {
                seen.extend(eager.advance(next));
            }
            for engine in [&mut lazy, &mut eager] {
                engine.arrive(at, action.request(id));
                engine.cancel(at, action.victim);
            }
            prop_assert_eq!((lazy.running(), lazy.waiting()), (eager.running(), eager.waiting()));
        }
        seen.extend(eager.advance(Duration::MAX));
        prop_assert_eq!(&seen, &lazy.advance(Duration::MAX));
        prop_assert_eq!((eager.preemptions(), eager.prefix_counts()), (lazy.preemptions(), lazy.prefix_counts()));
    }
}
