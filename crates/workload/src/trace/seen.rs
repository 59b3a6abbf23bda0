//! Which ids were seen before, in bounded memory.

/// Ids below this have a bit of their own: programs that number their blocks start at 0.
const OWN: u64 = 1 << 29;
/// Bits of one hashed id.
const HASHES: u64 = 4;

/// A set of ids. Numbers below 2²⁹ are held exactly, in 64 MiB at most; larger ones, which are hashes, in a Bloom filter whose
/// size is fixed: with fifty million of them in 64 MiB it takes a new one in a hundred for known.
pub(super) struct Seen {
    own: Vec<u64>,
    filter: Vec<u64>,
    /// Bits of the filter, as a mask.
    mask: u64,
    hashed: u64,
}

impl Seen {
    /// An empty set whose filter has `2^bits` bits. Memory is taken as it is touched.
    pub(super) fn new(bits: u32) -> Self {
        Self { own: Vec::new(), filter: Vec::new(), mask: (1 << bits) - 1, hashed: 0 }
    }

    /// Whether an id was put in before.
    pub(super) fn has(&self, id: u64) -> bool {
        if id < OWN {
            return self.own.get((id >> 6) as usize).is_some_and(|w| w >> (id & 63) & 1 == 1);
        }
        !self.filter.is_empty()
            && self.places(id).all(|p| self.filter[(p >> 6) as usize] >> (p & 63) & 1 == 1)
    }

    /// Puts an id in; whether it is new.
    pub(super) fn put(&mut self, id: u64) -> bool {
        if self.has(id) {
            return false;
        }
        if id < OWN {
            let word = (id >> 6) as usize;
            if word >= self.own.len() {
                self.own.resize((word + 1).next_power_of_two(), 0);
            }
            self.own[word] |= 1 << (id & 63);
            return true;
        }
        if self.filter.is_empty() {
            self.filter = vec![0; (self.mask / 64 + 1) as usize];
        }
        self.hashed += 1;
        for place in self.places(id) {
            self.filter[(place >> 6) as usize] |= 1 << (place & 63);
        }
        true
    }

    /// Whether no id was taken for another, but for one chance in a thousand.
    pub(super) fn exact(&self) -> bool {
        // The chance of a false hit at this load, for each of the ids.
        let load = 1.0 - (-((HASHES * self.hashed) as f64) / (self.mask + 1) as f64).exp();
        load.powi(HASHES as i32) < 1e-3
    }

    fn places(&self, id: u64) -> impl Iterator<Item = u64> + use<> {
        // Two rounds of splitmix64; the places are one hash plus multiples of the other.
        let mixed = |mut x: u64| {
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        let (a, b) = (mixed(id.wrapping_add(0x9e37_79b9_7f4a_7c15)), mixed(id ^ 0xd6e8_feb8_6659_fd93) | 1);
        let mask = self.mask;
        (0..HASHES).map(move |i| a.wrapping_add(i.wrapping_mul(b)) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_once_put_in() {
        let mut seen = Seen::new(20);
        for id in [0, 1, 63, 64, OWN - 1, OWN, u64::MAX, 1 << 40] {
            assert!(!seen.has(id) && seen.put(id) && !seen.put(id) && seen.has(id), "{id}");
        }
        assert!(seen.exact());
    }

    #[test]
    fn few_hashes_are_taken_for_others() {
        let mut seen = Seen::new(20);
        let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        for i in 0..30_000 {
            seen.put(hash(i));
        }
        let wrong = (30_000..130_000).filter(|i| seen.has(hash(*i))).count();
        assert!(wrong < 200, "{wrong} of 100,000, where the load would have 14");
        for i in 30_000..120_000 {
            seen.put(hash(i));
        }
        assert!(!seen.exact());
    }
}
