//! Maps from the identifiers of requests.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from the identifiers of requests, which their driver chooses: it needs no protection against keys that are chosen to collide, and a
/// model looks one up for each token.
pub type IdMap<V> = HashMap<u64, V, BuildHasherDefault<IdHasher>>;

/// Hasher of successive numbers: multiplies by 2⁶⁴ over the golden ratio, which spreads them evenly (Knuth, *The Art of Computer Programming*,
/// volume 3, 6.4).
#[derive(Debug, Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }
    fn write_u64(&mut self, id: u64) {
        // The map takes its place in the table from the lowest bits and a tag from the highest; the product is good in the highest.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::Hash;

    /// Successive numbers take about as many places as by chance (63 %), or more, and all tags.
    #[test]
    fn successive_numbers_are_spread() {
        let hash = |id: u64| {
            let mut hasher = IdHasher::default();
            id.hash(&mut hasher);
            hasher.finish()
        };
        for (from, stride) in [(0, 1), (1 << 40, 1), (7, 1 << 16)] {
            let all = || (0..4096_u64).map(|k| hash(from + k * stride));
            let places = all().map(|hash| hash % 4096).collect::<HashSet<_>>().len();
            let tags = all().map(|hash| hash >> 57).collect::<HashSet<_>>().len();
            assert!(places > 2000 && tags > 100, "{from} by {stride}: {places} places, {tags} tags");
        }
    }
}
