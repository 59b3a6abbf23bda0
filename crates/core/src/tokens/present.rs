//! The tokenizer of Hugging Face.

use anyhow::{Context, Result, anyhow};
use std::collections::HashSet;
use std::path::Path;

pub(super) struct Inner {
    inner: tokenizers::Tokenizer,
    special: HashSet<u32>,
    vocabulary: usize,
}

impl Inner {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)
            .with_context(|| format!("failed to read the tokenizer {}", path.display()))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| {
            anyhow!("{} is no tokenizer.json as Hugging Face's tokenizers write it: {e}", path.display())
        })?;
        // What a file says of training batches: every token of a text counts here, and no others.
        inner.with_truncation(None).map_err(|e| anyhow!("in {}: {e}", path.display()))?;
        inner.with_padding(None);
        let added = inner.get_added_tokens_decoder();
        let special = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        let vocabulary = inner.get_vocab_size(true);
        Ok(Self { inner, special, vocabulary })
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        // Fails only for models that have no token at all for a character: such a text has none that could be counted.
        self.inner.encode_fast(text, false).map(|e| e.get_ids().to_vec()).unwrap_or_default()
    }

    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, true).unwrap_or_default()
    }

    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }
}
