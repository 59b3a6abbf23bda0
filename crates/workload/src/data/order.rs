//! Endless, seeded orders of samples, computed without a list in memory.

use super::config::Sampling;
use goodput_core::hash::mix;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Endless sequence of sample numbers. `nth` takes constant time.
#[derive(Debug, Clone)]
pub struct Order {
    sampling: Sampling,
    key: [u8; 32],
    len: u64,
    next: u64,
    /// Round that `shuffle` belongs to.
    round: u64,
    shuffle: Shuffle,
}

impl Order {
    /// Creates an order of `len` samples (at least 1) from a key.
    pub fn new(sampling: Sampling, len: u64, key: [u8; 32]) -> Self {
        let len = len.max(1);
        Self { sampling, key, len, next: 0, round: 0, shuffle: Shuffle::new(len, key, 0) }
    }

    fn at(&mut self, place: u64) -> u64 {
        match self.sampling {
            Sampling::File => place % self.len,
            Sampling::Shuffled => {
                let round = place / self.len;
                if round != self.round {
                    self.round = round;
                    self.shuffle = Shuffle::new(self.len, self.key, round);
                }
                self.shuffle.at(place % self.len)
            }
            Sampling::Random => {
                let mut rng = ChaCha8Rng::from_seed(self.key);
                rng.set_stream(place);
                // The high half of the product is uniform over 0..len to within len / 2^64.
                ((u128::from(rng.next_u64()) * u128::from(self.len)) >> 64) as u64
            }
        }
    }
}

impl Iterator for Order {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<u64> {
        let place = self.next.wrapping_add(n as u64);
        self.next = place.wrapping_add(1);
        Some(self.at(place))
    }
}

const ROUNDS: usize = 8;

/// A permutation of 0..len: a Feistel network over the next even power of two, iterated until the result is in range,
/// which takes at most four steps on average.
#[derive(Debug, Clone)]
struct Shuffle {
    len: u64,
    half: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    fn new(len: u64, key: [u8; 32], round: u64) -> Self {
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(round);
        let bits = u64::BITS - (len - 1).leading_zeros();
        Self { len, half: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| rng.next_u64()) }
    }

    fn at(&self, i: u64) -> u64 {
        let mut x = i;
        loop {
            x = self.permute(x);
            if x < self.len {
                return x;
            }
        }
    }

    fn permute(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(sampling: Sampling, len: u64, seed: u8) -> Order {
        Order::new(sampling, len, [seed; 32])
    }

    proptest! {
        #[test]
        fn a_shuffled_round_contains_every_sample_once(len in 1u64..3000, seed: u8, round in 0usize..3) {
            let mut got: Vec<u64> =
                order(Sampling::Shuffled, len, seed).skip(round * len as usize).take(len as usize).collect();
            got.sort_unstable();
            prop_assert!(got.into_iter().eq(0..len));
        }

        #[test]
        fn nth_agrees_with_repeated_next(len in 1u64..200, n in 0usize..1000) {
            for sampling in [Sampling::Shuffled, Sampling::File, Sampling::Random] {
                let mut steps = order(sampling, len, 1);
                let one_by_one = (0..=n).fold(None, |_, _| steps.next());
                prop_assert_eq!(one_by_one, order(sampling, len, 1).nth(n));
                let mut jumped = order(sampling, len, 1);
                jumped.nth(n);
                prop_assert_eq!(jumped.next(), steps.next());
            }
        }
    }

    #[test]
    fn rounds_and_seeds_differ() {
        let take = |seed, skip| order(Sampling::Shuffled, 50, seed).skip(skip).take(50).collect::<Vec<_>>();
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 50));
        assert_ne!(take(1, 0), (0..50).collect::<Vec<_>>());
        assert_eq!(order(Sampling::File, 3, 1).take(7).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
    }

    /// First sample over 4000 keys, for sizes at and between powers of two: uniform by chi-square with n − 1 degrees of
    /// freedom (mean n − 1, standard deviation √(2n − 2); 5 of them).
    #[test]
    fn the_first_sample_is_uniform() {
        for n in [2u64, 3, 5, 8, 17] {
            for sampling in [Sampling::Shuffled, Sampling::Random] {
                let mut counts = vec![0u32; n as usize];
                for k in 0..4000u32 {
                    let mut key = [7; 32];
                    key[..4].copy_from_slice(&k.to_le_bytes());
                    counts[Order::new(sampling, n, key).next().unwrap() as usize] += 1;
                }
                let mean = 4000.0 / n as f64;
                let chi2: f64 = counts.iter().map(|c| (f64::from(*c) - mean).powi(2) / mean).sum();
                let free = n as f64 - 1.0;
                assert!(chi2 < free + 5.0 * (2.0 * free).sqrt() + 5.0, "{n}: {chi2} {counts:?}");
            }
        }
    }

    #[test]
    fn sampling_with_replacement_repeats() {
        let mut got: Vec<u64> = order(Sampling::Random, 1000, 3).take(1000).collect();
        got.sort_unstable();
        got.dedup();
        assert!((560..700).contains(&got.len()), "about 1 − 1/e of them: {}", got.len());
    }
}
