//! The KV cache: blocks, and which of them hold what a later request may use again.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

/// Stale places in the order of eviction that are kept before they are swept out.
const SLACK: usize = 1024;

/// All usable blocks. A block is free, or a sequence's own, or in the prefix cache, where sequences share it; one in the prefix cache that no
/// sequence holds is as good as free.
#[derive(Debug, Clone)]
pub(super) struct Kv {
    block_size: u32,
    blocks: u32,
    /// Blocks of sequences that are not in the prefix cache.
    own: u32,
    cache: HashMap<u64, Entry, BuildHasherDefault<Identity>>,
    /// Blocks in the prefix cache that no sequence holds.
    idle: u32,
    /// Idle blocks, the first to go in front; and stale places, told by their number.
    order: VecDeque<(u64, u64)>,
    /// The number of the next place in `order`.
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    holders: u32,
    /// The place in `order` that counts while nobody holds the block.
    place: u64,
}

/// What a sequence holds: the first `shared` of its blocks are in the prefix cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) blocks: u32,
    shared: u32,
}

/// Blocks from the beginning of a prompt that the prefix cache has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) blocks: u32,
    /// Those of them that nobody holds.
    idle: u32,
}

impl Kv {
    pub(super) fn new(blocks: u32, block_size: u32) -> Self {
        Self {
            block_size,
            blocks,
            own: 0,
            cache: HashMap::default(),
            idle: 0,
            order: VecDeque::new(),
            next: 0,
        }
    }

    /// Tokens of a block.
    pub(super) fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Blocks for so many tokens.
    pub(super) fn needed(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// Blocks that can be had.
    pub(super) fn available(&self) -> u32 {
        self.blocks - self.own - (self.cached() - self.idle)
    }

    /// All of them.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Share of the blocks that sequences hold.
    pub(super) fn usage(&self) -> f64 {
        1.0 - f64::from(self.available()) / f64::from(self.blocks.max(1))
    }

    /// What the prefix cache has of a prompt, up to `most` tokens.
    pub(super) fn find(&self, hashes: &[u64], most: u32) -> Found {
        let mut found = Found::default();
        for hash in hashes.iter().take((most / self.block_size) as usize) {
            let Some(entry) = self.cache.get(hash) else { break };
            found.blocks += 1;
            found.idle += u32::from(entry.holders == 0);
        }
        found
    }

    /// Whether `tokens` tokens in all would fit, with what was found. What is found and idle stops being available when it is held.
    pub(super) fn fits(&self, found: Found, tokens: u32) -> bool {
        self.needed(tokens).saturating_sub(found.blocks) + found.idle <= self.available()
    }

    /// Gives a new sequence what was found and room for `tokens` tokens in all; `None` where there is not enough.
    pub(super) fn admit(&mut self, hashes: &[u64], found: Found, tokens: u32) -> Option<Holding> {
        if !self.fits(found, tokens) {
            return None;
        }
        let blocks = self.needed(tokens).max(found.blocks);
        for hash in &hashes[..found.blocks as usize] {
            self.hold(*hash);
        }
        self.take(blocks - found.blocks);
        Some(Holding { blocks, shared: found.blocks })
    }

    /// Makes room for `tokens` tokens in all; whether there was enough.
    pub(super) fn grow(&mut self, holding: &mut Holding, tokens: u32) -> bool {
        let more = self.needed(tokens).saturating_sub(holding.blocks);
        let enough = more <= self.available();
        if enough && more > 0 {
            self.take(more);
            holding.blocks += more;
        }
        enough
    }

    /// Puts the blocks that the first `tokens` tokens fill into the prefix cache. Where another sequence has done so before, that block
    /// is shared and the own one free (vLLM keeps both).
    pub(super) fn publish(&mut self, holding: &mut Holding, hashes: &[u64], tokens: u32) {
        let full = (tokens / self.block_size).min(u32::try_from(hashes.len()).unwrap_or(u32::MAX));
        while holding.shared < full {
            self.hold(hashes[holding.shared as usize]);
            holding.shared += 1;
            self.own -= 1;
        }
    }

    /// Takes back all that a sequence holds. Its last blocks are the first to be evicted: a block is of no use without those before it.
    pub(super) fn release(&mut self, holding: Holding, hashes: &[u64]) {
        self.own -= holding.blocks - holding.shared;
        for hash in hashes[..holding.shared as usize].iter().rev() {
            let Some(entry) = self.cache.get_mut(hash) else { continue };
            entry.holders -= 1;
            if entry.holders == 0 {
                entry.place = self.next;
                self.order.push_back((*hash, self.next));
                self.next += 1;
                self.idle += 1;
            }
        }
        if self.order.len() > 2 * self.idle as usize + SLACK {
            let cache = &self.cache;
            self.order.retain(|place| stands(cache.get(&place.0), *place));
        }
    }

    fn cached(&self) -> u32 {
        u32::try_from(self.cache.len()).expect("there are no more entries than blocks")
    }

    fn hold(&mut self, hash: u64) {
        let entry = self.cache.entry(hash).or_insert_with(|| {
            self.idle += 1;
            Entry { holders: 0, place: 0 }
        });
        self.idle -= u32::from(entry.holders == 0);
        entry.holders += 1;
    }

    /// Takes blocks that are known to be available: free ones first, then those least recently used.
    fn take(&mut self, blocks: u32) {
        let free = self.blocks - self.own - self.cached();
        let mut evict = blocks.saturating_sub(free);
        while evict > 0 {
            let place = self.order.pop_front().expect("what is available and not free is idle");
            if stands(self.cache.get(&place.0), place) {
                self.cache.remove(&place.0);
                self.idle -= 1;
                evict -= 1;
            }
        }
        self.own += blocks;
    }
}

/// Whether a place in the order of eviction still counts.
fn stands(entry: Option<&Entry>, (_, place): (u64, u64)) -> bool {
    entry.is_some_and(|e| e.holders == 0 && e.place == place)
}

/// The keys are hashes already.
#[derive(Debug, Clone, Copy, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::blocks_of;

    /// Takes in a prompt of tokens and publishes it, as the scheduler does; what it found and what it holds.
    fn take_in(kv: &mut Kv, hashes: &[u64], tokens: u32) -> Option<(u32, Holding)> {
        let found = kv.find(hashes, tokens - 1);
        let mut holding = kv.admit(hashes, found, tokens)?;
        kv.publish(&mut holding, hashes, tokens);
        Some((found.blocks, holding))
    }

    #[test]
    fn blocks_are_shared_and_outlive_their_holders() {
        let mut kv = Kv::new(10, 4);
        let long = blocks_of(0..16, 4);
        let (found, first) = take_in(&mut kv, &long, 16).unwrap();
        assert_eq!((found, first.blocks, kv.available()), (0, 4, 6));
        // The same again: all but the block with its last token, which must be computed, and is then shared after all.
        let (found, second) = take_in(&mut kv, &long, 16).unwrap();
        assert_eq!((found, second.blocks, kv.available()), (3, 4, 6));
        // Half of it, and other things.
        let half = blocks_of((0..8).chain(100..110), 4);
        let (found, third) = take_in(&mut kv, &half, 18).unwrap();
        assert_eq!((found, third.blocks, kv.available()), (2, 5, 3));
        kv.release(first, &long);
        assert_eq!(kv.available(), 3, "the second holds them");
        kv.release(second, &long);
        kv.release(third, &half);
        assert_eq!(kv.available(), 10);
        assert!(kv.usage().abs() < 1e-12);
        assert_eq!(kv.find(&long, 15).blocks, 3, "not forgotten");
        assert_eq!(kv.find(&long, 16).blocks, 4);
    }

    #[test]
    fn the_least_recently_used_goes_first_from_its_end() {
        let mut kv = Kv::new(8, 4);
        let (old, new) = (blocks_of(0..12, 4), blocks_of(100..112, 4));
        let (_, a) = take_in(&mut kv, &old, 12).unwrap();
        let (_, b) = take_in(&mut kv, &new, 12).unwrap();
        kv.release(a, &old);
        kv.release(b, &new);
        // Five blocks: two were never used, then the old ones' last, but not their first.
        let c = kv.admit(&[], Found::default(), 16).unwrap();
        assert_eq!((kv.find(&old, 12).blocks, kv.find(&new, 12).blocks), (1, 3));
        // Used again, the old ones are the newer.
        let (found, d) = take_in(&mut kv, &old, 5).unwrap();
        assert_eq!((found, kv.find(&new, 12).blocks), (1, 2));
        kv.release(d, &old);
        assert!(kv.admit(&[], Found::default(), 17).is_none(), "five of four");
        let e = kv.admit(&[], Found::default(), 12).unwrap();
        assert_eq!((kv.find(&old, 12).blocks, kv.find(&new, 12).blocks), (1, 0));
        kv.release(c, &[]);
        kv.release(e, &[]);
        assert_eq!(kv.available(), 8);
    }

    #[test]
    fn what_is_found_idle_is_not_counted_twice() {
        let mut kv = Kv::new(4, 4);
        let hashes = blocks_of(0..12, 4);
        let (_, a) = take_in(&mut kv, &hashes, 12).unwrap();
        kv.release(a, &hashes);
        // Four are available, three of them are what is found: five more do not fit, one does.
        assert!(take_in(&mut kv, &hashes, 17).is_none());
        assert_eq!(kv.available(), 4, "a refusal leaves all as it was");
        let (found, mut b) = take_in(&mut kv, &hashes, 13).unwrap();
        assert_eq!((found, b.blocks, kv.available()), (3, 4, 0));
        assert!(kv.grow(&mut b, 16) && !kv.grow(&mut b, 17));
    }

    #[test]
    fn the_order_does_not_grow_without_evictions() {
        let mut kv = Kv::new(100, 4);
        let hashes = blocks_of(0..80, 4);
        for _ in 0..10_000 {
            let (_, a) = take_in(&mut kv, &hashes, 80).unwrap();
            kv.release(a, &hashes);
        }
        assert!(kv.order.len() <= SLACK + 40, "{}", kv.order.len());
        assert_eq!(kv.find(&hashes, 80).blocks, 20);
    }
}
