//! A set of ids in bounded memory.

use goodput_core::hash::mix;

/// Ids below this are stored exactly, as programs that number their blocks start at 0.
const EXACT_IDS: u64 = 1 << 29;
/// Bits set per id in the Bloom filter.
const HASHES: u64 = 4;

/// A set of ids. Ids below 2²⁹ are stored exactly, in at most 64 MiB. Larger ones, which are hashes, go into a Bloom
/// filter of fixed size: with fifty million of them in 64 MiB, one in a hundred new ids is mistaken for a known one.
#[derive(Default)]
pub(super) struct IdSet {
    exact: Vec<u64>,
    filter: Vec<u64>,
    /// Number of bits of the filter minus one.
    mask: u64,
    hashed: u64,
}

impl IdSet {
    /// Creates an empty set whose filter has `2^bits` bits. Memory is allocated on demand.
    pub(super) fn new(bits: u32) -> Self {
        Self { mask: (1 << bits) - 1, ..Self::default() }
    }

    /// Returns true if the id was inserted (or, rarely, if it collides with ids that were).
    pub(super) fn contains(&self, id: u64) -> bool {
        if id < EXACT_IDS {
            return self.exact.get((id >> 6) as usize).is_some_and(|w| w >> (id & 63) & 1 == 1);
        }
        !self.filter.is_empty()
            && self.bits(id).all(|bit| self.filter[(bit >> 6) as usize] >> (bit & 63) & 1 == 1)
    }

    /// Inserts an id; returns true if it is new.
    pub(super) fn insert(&mut self, id: u64) -> bool {
        if self.contains(id) {
            return false;
        }
        if id < EXACT_IDS {
            let word = (id >> 6) as usize;
            if word >= self.exact.len() {
                self.exact.resize((word + 1).next_power_of_two(), 0);
            }
            self.exact[word] |= 1 << (id & 63);
            return true;
        }
        if self.filter.is_empty() {
            self.filter = vec![0; (self.mask / 64 + 1) as usize];
        }
        self.hashed += 1;
        for bit in self.bits(id) {
            self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        true
    }

    /// Returns true if collisions are rarer than one in a thousand ids.
    pub(super) fn is_exact(&self) -> bool {
        // Share of bits set, and from it the probability of a collision.
        let load = 1.0 - (-((HASHES * self.hashed) as f64) / (self.mask + 1) as f64).exp();
        load.powi(HASHES as i32) < 1e-3
    }

    fn bits(&self, id: u64) -> impl Iterator<Item = u64> + use<> {
        // Double hashing.
        let (a, b) = (mix(id.wrapping_add(0x9e37_79b9_7f4a_7c15)), mix(id ^ 0xd6e8_feb8_6659_fd93) | 1);
        let mask = self.mask;
        (0..HASHES).map(move |i| a.wrapping_add(i.wrapping_mul(b)) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_ids_are_contained() {
        let mut set = IdSet::new(20);
        for id in [0, 1, 63, 64, EXACT_IDS - 1, EXACT_IDS, u64::MAX, 1 << 40] {
            assert!(!set.contains(id) && set.insert(id) && !set.insert(id) && set.contains(id), "{id}");
        }
        assert!(set.is_exact());
    }

    #[test]
    fn few_hashes_collide() {
        let mut set = IdSet::new(20);
        let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        for i in 0..30_000 {
            set.insert(hash(i));
        }
        let wrong = (30_000..130_000).filter(|i| set.contains(hash(*i))).count();
        assert!(wrong < 200, "{wrong} of 100,000, where 14 are expected at this load");
        for i in 30_000..120_000 {
            set.insert(hash(i));
        }
        assert!(!set.is_exact());
    }
}
