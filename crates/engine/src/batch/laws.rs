//! What holds whatever happens.

use super::tests::{count, settings};
use super::*;
use crate::blocks::blocks_of;
use proptest::prelude::*;
use std::collections::HashMap;

/// Something that happens from outside.
#[derive(Debug, Clone)]
struct Act {
    /// After the act before it, in µs.
    gap: u64,
    input: u32,
    output: u32,
    /// Which of four beginnings the prompt has, and how many of its tokens it shares.
    family: u64,
    shared: u32,
    /// A request that goes away at the same time, often none.
    victim: u64,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // A third of the gaps are none, so that requests come together.
    let gap = prop_oneof![Just(0), 0_u64..30_000, Just(10_000)];
    let act = (gap, 0_u32..60, 0_u32..12, 0_u64..4, 0_u32..60, 0_u64..120).prop_map(
        |(gap, input, output, family, shared, victim)| Act { gap, input, output, family, shared, victim },
    );
    prop::collection::vec(act, 1..50)
}

fn engines() -> impl Strategy<Value = Settings> {
    let limits = (1_u32..6, 1_u32..50, 4_u32..40, any::<bool>(), any::<bool>());
    (limits, 0_u8..2).prop_map(|((seqs, tokens, blocks, prefix_cache, chunked_prefill), noisy)| {
        let plain = settings(seqs, tokens, blocks);
        let cost = Cost::Formula(cost::Formula {
            base_ns: 2e6,
            weights_ns: 3e6,
            token_ns: 2e5,
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

impl Act {
    fn request(&self, id: u64) -> Request {
        let (input, shared) = (self.input.max(1), self.shared.min(self.input.max(1)));
        let beginning = (0..shared).map(|t| 1000 * self.family + u64::from(t));
        let rest = (shared..input + self.output).map(|t| 1_000_000 * (id + 1) + u64::from(t));
        Request::new(id, self.input, self.output).with_blocks(blocks_of(beginning.chain(rest), 4))
    }
}

/// What must hold at every moment.
fn sound(engine: &Batch) -> Result<(), TestCaseError> {
    let Settings { limits, block_size, .. } = &engine.settings;
    prop_assert!(engine.running() <= limits.max_num_seqs.get() as usize);
    let usable = limits.kv_blocks.get() - 1;
    prop_assert!(engine.kv.available() <= usable);
    if let Some(load) = engine.load() {
        let alone = !limits.chunked_prefill && load.sequences == 1;
        prop_assert!(load.tokens <= u64::from(limits.max_num_batched_tokens.get()) || alone, "{load:?}");
        prop_assert!(load.sequences > 0);
    }
    let held: u32 = engine.running.iter().map(Sequence::blocks).sum();
    let used = usable - engine.kv.available();
    // Shared blocks count once; without sharing it is exact.
    prop_assert!(used <= held && (limits.prefix_cache || used == held), "{used} of {held} held");
    for sequence in &engine.running {
        prop_assert!(sequence.computed() <= sequence.blocks() * block_size.get());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every request gets its tokens, in order of time, unless it goes away; and nothing is left behind.
    #[test]
    fn nothing_is_lost_and_nothing_leaks(acts in acts(), settings in engines()) {
        let mut engine = Batch::new(settings.clone());
        let (mut at, mut gone, mut out) = (Duration::ZERO, HashMap::new(), vec![]);
        for (id, act) in (0_u64..).zip(&acts) {
            at += Duration::from_micros(act.gap);
            // One event at a time, so that every state is seen.
            while let Some(next) = engine.next_event().filter(|t| *t <= at) {
                out.extend(engine.advance(next));
                sound(&engine)?;
            }
            engine.arrive(at, act.request(id));
            engine.cancel(at, act.victim);
            if act.victim <= id {
                gone.entry(act.victim).or_insert(at);
            }
            sound(&engine)?;
        }
        while let Some(next) = engine.next_event() {
            out.extend(engine.advance(next));
            sound(&engine)?;
        }
        prop_assert!(out.is_sorted_by_key(|e| e.at));
        for (id, act) in (0_u64..).zip(&acts) {
            let mine: Vec<_> = out.iter().filter(|e| e.id == id).collect();
            let tokens: u32 = mine.iter().map(|e| e.tokens).sum();
            let fits = (act.input.max(1) + act.output.max(1) - 1).div_ceil(4) < settings.limits.kv_blocks.get();
            let finished = mine.iter().filter(|e| e.finished).count();
            if !fits {
                prop_assert_eq!((tokens, mine.len(), finished), (0, 1, 1));
                continue;
            }
            prop_assert!(mine.is_sorted_by(|a, b| a.at < b.at));
            prop_assert!(mine.iter().all(|e| e.tokens == 1));
            match gone.get(&id).filter(|_| finished == 0) {
                Some(gone) => prop_assert!(tokens < act.output.max(1) && mine.iter().all(|e| e.at <= *gone)),
                None => prop_assert!(tokens == act.output.max(1) && mine[mine.len() - 1].finished),
            }
        }
        prop_assert_eq!((engine.running(), engine.waiting(), engine.next_event()), (0, 0, None));
        prop_assert!(engine.places.is_empty() && engine.gone == 0);
        prop_assert_eq!(engine.kv.available(), settings.limits.kv_blocks.get() - 1);
        let counts = engine.prefix_counts();
        prop_assert!(counts.hits <= counts.queries && (settings.limits.prefix_cache || counts.queries == 0));
    }

    /// Without preemption and cancellation, first tokens leave in the order of arrival.
    #[test]
    fn the_first_to_come_is_the_first_admitted(acts in acts(), settings in engines()) {
        let limits = Limits { kv_blocks: count(10_000), ..settings.limits };
        let mut engine = Batch::new(Settings { limits, ..settings });
        let mut at = Duration::ZERO;
        for (id, act) in (0_u64..).zip(&acts) {
            at += Duration::from_micros(act.gap);
            engine.arrive(at, act.request(id));
        }
        let mut first: HashMap<u64, Duration> = HashMap::new();
        for e in engine.advance(Duration::MAX) {
            first.entry(e.id).or_insert(e.at);
        }
        let order: Vec<_> = (0..acts.len() as u64).map(|id| first[&id]).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
        prop_assert_eq!(engine.preemptions(), 0);
    }

    /// How often and in what portions the model is asked changes nothing.
    #[test]
    fn portions_do_not_matter(
        acts in acts(),
        settings in engines(),
        asked in prop::collection::vec(0_u64..30_000, 0..50),
    ) {
        let (mut lazy, mut eager) = (Batch::new(settings.clone()), Batch::new(settings));
        let (mut seen, mut at) = (vec![], Duration::ZERO);
        let mut asked = asked.into_iter();
        for (id, act) in (0_u64..).zip(&acts) {
            if let Some(part) = asked.next().filter(|part| *part <= act.gap) {
                seen.extend(eager.advance(at + Duration::from_micros(part)));
            }
            at += Duration::from_micros(act.gap);
            while let Some(next) = eager.next_event().filter(|t| id % 2 == 0 && *t <= at) {
                seen.extend(eager.advance(next));
            }
            for engine in [&mut lazy, &mut eager] {
                engine.arrive(at, act.request(id));
                engine.cancel(at, act.victim);
            }
            prop_assert_eq!((lazy.running(), lazy.waiting()), (eager.running(), eager.waiting()));
        }
        seen.extend(eager.advance(Duration::MAX));
        prop_assert_eq!(&seen, &lazy.advance(Duration::MAX));
        prop_assert_eq!((eager.preemptions(), eager.prefix_counts()), (lazy.preemptions(), lazy.prefix_counts()));
    }
}
