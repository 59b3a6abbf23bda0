//! A model's own tokenizer, read from the `tokenizer.json` of Hugging Face: counts tokens where a server does not, and makes
//! prompts of exactly so many token ids.
//!
//! Only with the cargo feature `tokenizer`; without it [`Tokenizer::open`] says how to get it.

#[cfg(not(feature = "tokenizer"))]
mod absent;
#[cfg(feature = "tokenizer")]
mod present;

#[cfg(not(feature = "tokenizer"))]
use absent::Inner;
#[cfg(feature = "tokenizer")]
use present::Inner;

use anyhow::Result;
use std::path::Path;
use std::sync::Arc;

/// A tokenizer; cheap to clone.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.vocabulary())
    }
}

impl Tokenizer {
    /// Whether this build has it.
    pub const BUILT_IN: bool = cfg!(feature = "tokenizer");

    /// What is said where it has not.
    pub const MISSING: &str = "this goodput was built without the tokenizer: build it with `cargo install goodput --features \
                               tokenizer` (or `cargo build --release --features tokenizer`), or leave server.tokenizer out";

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// The file cannot be read or is none, with its path; or this build has no tokenizer.
    pub fn open(path: &Path) -> Result<Self> {
        Inner::open(path).map(|inner| Self(Arc::new(inner)))
    }

    /// How many tokens a text has, without any that a template would add.
    pub fn count(&self, text: &str) -> usize {
        self.0.encode(text).len()
    }

    /// The tokens of a text, without any that a template would add. Words for special tokens in it become those tokens.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode(text)
    }

    /// The text of tokens; special ones are left out.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids)
    }

    /// How many different tokens there are.
    pub fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }

    /// Whether a token is none of a text: the beginning or the end of one, a role, a mask.
    pub fn is_special(&self, id: u32) -> bool {
        self.0.is_special(id)
    }

    /// Exactly `n` tokens, none of them special: those of the text, cut off, or repeated from its beginning until there are
    /// enough. Where the text has none, tokens of the vocabulary in turn.
    pub fn exact_ids(&self, text: &str, n: usize) -> Vec<u32> {
        let own =
            |ids: Vec<u32>| -> Vec<u32> { ids.into_iter().filter(|id| !self.is_special(*id)).collect() };
        let mut ids = own(self.encode(text));
        if ids.is_empty() {
            ids = own((0..u32::try_from(self.vocabulary()).unwrap_or(u32::MAX)).collect());
        }
        ids.iter().copied().cycle().take(n).collect()
    }

    /// A prompt of exactly `n` tokens: those of a prefix, which are the same in every prompt that has it, then those of the text,
    /// as [`Tokenizer::exact_ids`] has them.
    pub fn prompt(&self, prefix: Option<&str>, text: &str, n: usize) -> Vec<u32> {
        let mut ids = self.encode(prefix.unwrap_or_default());
        ids.retain(|id| !self.is_special(*id));
        ids.truncate(n);
        ids.extend(self.exact_ids(text, n - ids.len()));
        ids
    }
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests;

#[cfg(all(test, not(feature = "tokenizer")))]
mod tests {
    use super::*;

    #[test]
    fn without_the_feature_it_is_said_how_to_get_it() {
        let e = Tokenizer::open(Path::new("tokenizer.json")).unwrap_err().to_string();
        assert!(!Tokenizer::BUILT_IN && e.contains("--features tokenizer"), "{e}");
    }
}
