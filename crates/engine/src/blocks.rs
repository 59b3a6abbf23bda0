//! Hashes that identify prompt prefixes for the prefix cache.

use goodput_core::hash::{fnv1a, mix};
use std::sync::Arc;

/// Returns the hashes of the full blocks of `block_size` tokens; tokens are any numbers that identify them. The hash of
/// a block covers all tokens before it, so that two lists agree exactly as far as their tokens do. An incomplete last
/// block has no hash.
///
/// A block size of zero counts as one.
pub fn blocks_of(tokens: impl IntoIterator<Item = u64>, block_size: u32) -> Arc<[u64]> {
    let size = block_size.max(1);
    let (mut chain, mut filled) = (0_u64, 0);
    let mut blocks = vec![];
    for token in tokens {
        // One multiplication per token, since prompts have thousands; the mixing happens per block.
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

/// Returns a number that identifies a word.
pub fn token_of(word: &str) -> u64 {
    fnv1a(word.as_bytes())
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
    fn hashes_depend_on_all_tokens_and_their_order() {
        let base = blocks_of([1, 2, 3, 4, 5, 6], 2);
        for (what, tokens) in [
            ("order", [2, 1, 3, 4, 5, 6]),
            ("first token", [0, 2, 3, 4, 5, 6]),
            ("leading zero", [0, 0, 1, 2, 3, 4]),
        ] {
            let other = blocks_of(tokens, 2);
            assert!(base.iter().zip(&*other).all(|(a, b)| a != b), "{what}");
        }
        // An equal block after a different prefix is a different block.
        assert!(!base.contains(&blocks_of([3, 4], 2)[0]));
        let many: HashSet<u64> = (0..100_000).map(|t| blocks_of([t, 7], 2)[0]).collect();
        assert_eq!(many.len(), 100_000);
        assert_ne!(token_of("ab"), token_of("ba"));
    }

    proptest! {
        /// Two prompts share as many blocks as their common prefix has full blocks.
        #[test]
        fn blocks_agree_as_far_as_the_tokens_do(
            shared in prop::collection::vec(0_u64..50, 0..60),
            a in prop::collection::vec(0_u64..50, 0..30),
            b in prop::collection::vec(50_u64..99, 0..30),
            size in 1_u32..9,
        ) {
            let hashes = |rest: &[u64]| blocks_of(shared.iter().chain(rest).copied(), size);
            let common = hashes(&a).iter().zip(&*hashes(&b)).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common, shared.len() / size as usize);
        }
    }
}
