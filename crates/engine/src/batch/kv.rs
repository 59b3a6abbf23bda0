//! The KV cache: allocation of blocks, and the prefix cache.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

/// Stale eviction candidates tolerated beyond twice the idle blocks before they are swept out.
const SLACK: usize = 1024;

/// All usable blocks. A block is free, private to a sequence, or in the prefix cache, where sequences share it; a
/// cached block that no sequence references is available like a free one.
#[derive(Debug, Clone, Default)]
pub(super) struct Kv {
    block_size: u32,
    blocks: u32,
    /// Blocks of sequences outside the prefix cache.
    private: u32,
    cache: HashMap<u64, Entry, BuildHasherDefault<Identity>>,
    /// Cached blocks that no sequence references.
    idle: u32,
    /// Idle blocks as (hash, candidate number), least recently used first; includes stale candidates.
    eviction_order: VecDeque<(u64, u64)>,
    /// Number of the next candidate.
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    references: u32,
    /// Number of the valid eviction candidate while `references` is zero.
    candidate: u64,
}

/// The blocks of one sequence. The first `shared` of them are in the prefix cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) blocks: u32,
    shared: u32,
}

/// Leading blocks of a prompt that are in the prefix cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PrefixHit {
    pub(super) blocks: u32,
    /// Those of them that no sequence references.
    idle: u32,
}

impl Kv {
    pub(super) fn new(blocks: u32, block_size: u32) -> Self {
        Self { block_size, blocks, ..Self::default() }
    }

    /// Returns the block size in tokens.
    pub(super) fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Returns the number of blocks that `tokens` tokens need.
    pub(super) fn needed(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// Returns the number of blocks that can be allocated.
    pub(super) fn available(&self) -> u32 {
        self.blocks - self.private - (self.cached() - self.idle)
    }

    /// Returns the number of usable blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the share of the blocks that sequences use.
    pub(super) fn usage(&self) -> f64 {
        1.0 - f64::from(self.available()) / f64::from(self.blocks.max(1))
    }

    /// Looks up the leading blocks of a prompt, up to `most` tokens.
    pub(super) fn find(&self, hashes: &[u64], most: u32) -> PrefixHit {
        let mut hit = PrefixHit::default();
        for hash in hashes.iter().take((most / self.block_size) as usize) {
            let Some(entry) = self.cache.get(hash) else { break };
            hit.blocks += 1;
            hit.idle += u32::from(entry.references == 0);
        }
        hit
    }

    /// Returns true if `tokens` tokens, including those of the hit, fit. Idle blocks of the hit stop being available
    /// once referenced.
    pub(super) fn fits(&self, hit: PrefixHit, tokens: u32) -> bool {
        self.needed(tokens).saturating_sub(hit.blocks) + hit.idle <= self.available()
    }

    /// Allocates blocks for `tokens` tokens, including those of the hit; `None` if they do not fit.
    pub(super) fn admit(&mut self, hashes: &[u64], hit: PrefixHit, tokens: u32) -> Option<Allocation> {
        if !self.fits(hit, tokens) {
            return None;
        }
        let blocks = self.needed(tokens).max(hit.blocks);
        for hash in &hashes[..hit.blocks as usize] {
            self.reference(*hash);
        }
        self.take(blocks - hit.blocks);
        Some(Allocation { blocks, shared: hit.blocks })
    }

    /// Extends an allocation to `tokens` tokens; returns false if they do not fit.
    pub(super) fn grow(&mut self, allocation: &mut Allocation, tokens: u32) -> bool {
        let more = self.needed(tokens).saturating_sub(allocation.blocks);
        let enough = more <= self.available();
        if enough && more > 0 {
            self.take(more);
            allocation.blocks += more;
        }
        enough
    }

    /// Adds the blocks filled by the first `tokens` tokens to the prefix cache. If a block is already there, it is
    /// shared and the private one is freed (vLLM keeps both).
    pub(super) fn publish(&mut self, allocation: &mut Allocation, hashes: &[u64], tokens: u32) {
        let full = (tokens / self.block_size).min(u32::try_from(hashes.len()).unwrap_or(u32::MAX));
        while allocation.shared < full {
            self.reference(hashes[allocation.shared as usize]);
            allocation.shared += 1;
            self.private -= 1;
        }
    }

    /// Releases an allocation. Its last blocks are evicted first, since a block is useless without those before it.
    pub(super) fn release(&mut self, allocation: Allocation, hashes: &[u64]) {
        self.private -= allocation.blocks - allocation.shared;
        for hash in hashes[..allocation.shared as usize].iter().rev() {
            let Some(entry) = self.cache.get_mut(hash) else { continue };
            entry.references -= 1;
            if entry.references == 0 {
                entry.candidate = self.next;
                self.eviction_order.push_back((*hash, self.next));
                self.next += 1;
                self.idle += 1;
            }
        }
        if self.eviction_order.len() > 2 * self.idle as usize + SLACK {
            let cache = &self.cache;
            self.eviction_order.retain(|candidate| is_evictable(cache.get(&candidate.0), *candidate));
        }
    }

    fn cached(&self) -> u32 {
        u32::try_from(self.cache.len()).expect("there are no more entries than blocks")
    }

    fn reference(&mut self, hash: u64) {
        let entry = self.cache.entry(hash).or_insert_with(|| {
            self.idle += 1;
            Entry { references: 0, candidate: 0 }
        });
        self.idle -= u32::from(entry.references == 0);
        entry.references += 1;
    }

    /// Takes blocks that are known to be available: free ones first, then the least recently used idle ones.
    fn take(&mut self, blocks: u32) {
        let free = self.blocks - self.private - self.cached();
        let mut evict = blocks.saturating_sub(free);
        while evict > 0 {
            let candidate = self.eviction_order.pop_front().expect("an available block is free or idle");
            if is_evictable(self.cache.get(&candidate.0), candidate) {
                self.cache.remove(&candidate.0);
                self.idle -= 1;
                evict -= 1;
            }
        }
        self.private += blocks;
    }
}

/// Returns true unless the eviction candidate is stale: referenced again or evicted since.
fn is_evictable(entry: Option<&Entry>, (_, candidate): (u64, u64)) -> bool {
    entry.is_some_and(|e| e.references == 0 && e.candidate == candidate)
}

/// Hasher that passes `u64` keys through; they already are hashes.
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

    /// Admits a prompt and publishes it, as the scheduler does; returns the blocks found and the allocation.
    fn take_in(kv: &mut Kv, hashes: &[u64], tokens: u32) -> Option<(u32, Allocation)> {
        let hit = kv.find(hashes, tokens - 1);
        let mut allocation = kv.admit(hashes, hit, tokens)?;
        kv.publish(&mut allocation, hashes, tokens);
        Some((hit.blocks, allocation))
    }

    #[test]
    fn blocks_are_shared_and_outlive_their_sequences() {
        let mut kv = Kv::new(10, 4);
        let long = blocks_of(0..16, 4);
        let (found, first) = take_in(&mut kv, &long, 16).unwrap();
        assert_eq!((found, first.blocks, kv.available()), (0, 4, 6));
        // The same prompt again: finds all but the block with its last token, which must be computed and is then
        // shared.
        let (found, second) = take_in(&mut kv, &long, 16).unwrap();
        assert_eq!((found, second.blocks, kv.available()), (3, 4, 6));
        // Half of it, followed by other tokens.
        let half = blocks_of((0..8).chain(100..110), 4);
        let (found, third) = take_in(&mut kv, &half, 18).unwrap();
        assert_eq!((found, third.blocks, kv.available()), (2, 5, 3));
        kv.release(first, &long);
        assert_eq!(kv.available(), 3, "the second references them");
        kv.release(second, &long);
        kv.release(third, &half);
        assert_eq!(kv.available(), 10);
        assert!(kv.usage().abs() < 1e-12);
        assert_eq!(kv.find(&long, 15).blocks, 3, "still cached");
        assert_eq!(kv.find(&long, 16).blocks, 4);
    }

    #[test]
    fn the_least_recently_used_prompt_is_evicted_from_its_end() {
        let mut kv = Kv::new(8, 4);
        let (old, new) = (blocks_of(0..12, 4), blocks_of(100..112, 4));
        let (_, a) = take_in(&mut kv, &old, 12).unwrap();
        let (_, b) = take_in(&mut kv, &new, 12).unwrap();
        kv.release(a, &old);
        kv.release(b, &new);
        // Takes two free blocks, then the last two of the older prompt.
        let c = kv.admit(&[], PrefixHit::default(), 16).unwrap();
        assert_eq!((kv.find(&old, 12).blocks, kv.find(&new, 12).blocks), (1, 3));
        // Used again, the older prompt is the more recently used one.
        let (found, d) = take_in(&mut kv, &old, 5).unwrap();
        assert_eq!((found, kv.find(&new, 12).blocks), (1, 2));
        kv.release(d, &old);
        assert!(kv.admit(&[], PrefixHit::default(), 17).is_none(), "five blocks of four");
        let e = kv.admit(&[], PrefixHit::default(), 12).unwrap();
        assert_eq!((kv.find(&old, 12).blocks, kv.find(&new, 12).blocks), (1, 0));
        kv.release(c, &[]);
        kv.release(e, &[]);
        assert_eq!(kv.available(), 8);
    }

    #[test]
    fn idle_blocks_of_a_hit_are_not_counted_twice() {
        let mut kv = Kv::new(4, 4);
        let hashes = blocks_of(0..12, 4);
        let (_, a) = take_in(&mut kv, &hashes, 12).unwrap();
        kv.release(a, &hashes);
        // Four blocks are available, three of them the hit: one more fits, two more do not.
        assert!(take_in(&mut kv, &hashes, 17).is_none());
        assert_eq!(kv.available(), 4, "a refusal changes nothing");
        let (found, mut b) = take_in(&mut kv, &hashes, 13).unwrap();
        assert_eq!((found, b.blocks, kv.available()), (3, 4, 0));
        assert!(kv.grow(&mut b, 16) && !kv.grow(&mut b, 17));
    }

    #[test]
    fn the_eviction_order_does_not_grow_without_evictions() {
        let mut kv = Kv::new(100, 4);
        let hashes = blocks_of(0..80, 4);
        for _ in 0..10_000 {
            let (_, a) = take_in(&mut kv, &hashes, 80).unwrap();
            kv.release(a, &hashes);
        }
        assert!(kv.eviction_order.len() <= SLACK + 40, "{}", kv.eviction_order.len());
        assert_eq!(kv.find(&hashes, 80).blocks, 20);
    }
}
