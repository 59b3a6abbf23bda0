//! Random numbers: one independent stream per purpose, all derived from the plan's seed.
//!
//! Streams are keyed by (seed, series, step, purpose), so that changing prompt lengths does not change arrivals, and a
//! step draws equal requests whatever was measured before it.

use goodput_core::hash::{fnv1a, mix};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Purpose of a stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Gaps between arrivals.
    Arrivals = 1,
    /// Input lengths.
    Input = 2,
    /// Output lengths.
    Output = 3,
    /// Choice of a shared prefix per request.
    Group = 4,
    /// Words of prompts.
    Words = 5,
    /// Words of shared prefixes.
    Prefix = 6,
    /// Choice of a class of a mix per request.
    Class = 7,
    /// Turns of conversations.
    Turns = 8,
    /// Think times.
    Think = 9,
    /// Choice of rows of a data set.
    Rows = 10,
    /// Position in a trace at which a step begins.
    Position = 11,
    /// The part of a step that a chain falls to.
    Part = 12,
    /// Numbers and sizes of images.
    Images = 13,
    /// Pixels of images.
    Pixels = 14,
    /// Samples of audio.
    Samples = 15,
}

/// Returns the stream for one purpose in one step of one series.
pub fn stream(seed: u32, series: &str, step: u32, purpose: Purpose) -> ChaCha8Rng {
    let mut key = [0u8; 32];
    key[0..4].copy_from_slice(&seed.to_le_bytes());
    key[4..8].copy_from_slice(&step.to_le_bytes());
    key[8] = purpose as u8;
    key[16..24].copy_from_slice(&fnv1a(series.as_bytes()).to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// Returns a hash of a number that is keyed like a stream, for decisions that do not depend on what was drawn before.
pub(crate) fn hash(key: u64, index: u64) -> u64 {
    mix(key ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_are_reproducible_and_independent() {
        let first = |seed, series: &str, step, purpose| stream(seed, series, step, purpose).next_u64();
        let base = first(1, "main", 1, Purpose::Arrivals);
        assert_eq!(base, first(1, "main", 1, Purpose::Arrivals));
        for other in [
            first(2, "main", 1, Purpose::Arrivals),
            first(1, "other", 1, Purpose::Arrivals),
            first(1, "main", 2, Purpose::Arrivals),
            first(1, "main", 1, Purpose::Input),
        ] {
            assert_ne!(base, other);
        }
    }
}
