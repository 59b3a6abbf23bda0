//! The identity of prompts: hashes of blocks of tokens, each with all that comes before it.

use std::sync::Arc;

/// The hashes of the full blocks of `block_size` tokens, of tokens given by any numbers that name them. The hash of a block covers the
/// tokens before it, so that two lists agree exactly as far as the tokens do; what is left over after the last full block has none.
///
/// Zero is taken as a block size of one.
pub fn blocks_of(tokens: impl IntoIterator<Item = u64>, block_size: u32) -> Arc<[u64]> {
    let size = block_size.max(1);
    let (mut chain, mut filled) = (0_u64, 0);
    let mut blocks = vec![];
    for token in tokens {
        // One multiplication a token, since prompts have thousands; the blocks are mixed well below.
        chain = (chain.rotate_left(5) ^ token).wrapping_mul(0x517c_c1b7_2722_0a95);
        filled += 1;
        if filled == size {
            chain = mix(chain);
            blocks.push(chain);
            filled = 0;
        }
    }
    blocks.into()
}

/// A number that names a word: FNV-1a, 64 bits.
pub fn token_of(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the input reaches every bit of the output.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn only_full_blocks_count() {
        for (tokens, size, blocks) in
            [(0, 4, 0), (3, 4, 0), (4, 4, 1), (11, 4, 2), (12, 4, 3), (5, 1, 5), (5, 0, 5)]
        {
            assert_eq!(blocks_of(0..tokens, size).len(), blocks, "{tokens} tokens in blocks of {size}");
        }
    }

    #[test]
    fn hashes_differ_in_all_that_matters() {
        let base = blocks_of([1, 2, 3, 4, 5, 6], 2);
        for (what, tokens) in [
            ("order", [2, 1, 3, 4, 5, 6]),
            ("first token", [0, 2, 3, 4, 5, 6]),
            ("leading zero", [0, 0, 1, 2, 3, 4]),
        ] {
            let other = blocks_of(tokens, 2);
            assert!(base.iter().zip(&*other).all(|(a, b)| a != b), "{what}");
        }
        // The same block behind another beginning is another block.
        assert!(!base.contains(&blocks_of([3, 4], 2)[0]));
        let many: HashSet<u64> = (0..100_000).map(|t| blocks_of([t, 7], 2)[0]).collect();
        assert_eq!(many.len(), 100_000);
        assert_ne!(token_of("ab"), token_of("ba"));
    }

    proptest! {
        /// Two prompts have as many blocks in common as full blocks of common beginning.
        #[test]
        fn blocks_agree_as_far_as_the_tokens_do(
            shared in prop::collection::vec(0_u64..50, 0..60),
            a in prop::collection::vec(0_u64..50, 0..30),
            b in prop::collection::vec(50_u64..99, 0..30),
            size in 1_u32..9,
        ) {
            let of = |own: &[u64]| blocks_of(shared.iter().chain(own).copied(), size);
            let common = of(&a).iter().zip(&*of(&b)).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common, shared.len() / size as usize);
        }
    }
}
