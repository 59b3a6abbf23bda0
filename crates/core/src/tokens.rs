//! The model's tokenizer, read from a Hugging Face `tokenizer.json`. It counts tokens if the server does not report
//! them, and makes prompts of an exact number of token ids.
//!
//! Needs the cargo feature `tokenizer`; without it [`Tokenizer::open`] fails with the command that builds it in.

#[cfg(not(feature = "tokenizer"))]
mod disabled;
#[cfg(feature = "tokenizer")]
mod enabled;

#[cfg(not(feature = "tokenizer"))]
use disabled::Inner;
#[cfg(feature = "tokenizer")]
use enabled::Inner;

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
    /// True if this build includes the tokenizer.
    pub const BUILT_IN: bool = cfg!(feature = "tokenizer");

    /// Error message of a build without it.
    pub const MISSING: &str = "this goodput was built without the tokenizer: build it with `cargo install goodput --features \
                               tokenizer` (or `cargo build --release --features tokenizer`), or leave server.tokenizer out";

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// The file cannot be read or parsed (names the path), or this build has no tokenizer.
    pub fn open(path: &Path) -> Result<Self> {
        Inner::open(path).map(|inner| Self(Arc::new(inner)))
    }

    /// Counts the tokens of a text, without those that a chat template adds.
    pub fn count(&self, text: &str) -> usize {
        self.0.encode(text).len()
    }

    /// Encodes a text, without the tokens that a chat template adds. Names of special tokens in the text become those
    /// tokens.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode(text)
    }

    /// Decodes tokens to text, leaving out special ones.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids)
    }

    /// Returns the number of distinct tokens.
    pub fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }

    /// Returns true for a special token, which stands for no text: begin or end of text, a role, a mask.
    pub fn is_special(&self, id: u32) -> bool {
        self.0.is_special(id)
    }

    /// Returns exactly `n` tokens, none of them special: those of the text, truncated, or repeated from its start. If
    /// the text has none, takes the vocabulary in order.
    pub fn exact_ids(&self, text: &str, n: usize) -> Vec<u32> {
        let without_special =
            |ids: Vec<u32>| -> Vec<u32> { ids.into_iter().filter(|id| !self.is_special(*id)).collect() };
        let mut ids = without_special(self.encode(text));
        if ids.is_empty() {
            ids = without_special((0..u32::try_from(self.vocabulary()).unwrap_or(u32::MAX)).collect());
        }
        ids.iter().copied().cycle().take(n).collect()
    }

    /// Returns a prompt of exactly `n` tokens: those of the prefix, identical in every prompt that shares it, then
    /// those of the text from [`Tokenizer::exact_ids`].
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
    fn open_without_the_feature_names_the_build_command() {
        let e = Tokenizer::open(Path::new("tokenizer.json")).unwrap_err().to_string();
        assert!(!Tokenizer::BUILT_IN && e.contains("--features tokenizer"), "{e}");
    }
}
