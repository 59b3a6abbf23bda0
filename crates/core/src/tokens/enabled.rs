//! Adapter to Hugging Face's `tokenizers`.

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
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes)
            .map_err(|e| anyhow!("{} is not a Hugging Face tokenizer.json: {e}", path.display()))?;
        // The file may set truncation and padding for training batches, which would change the count.
        inner.with_truncation(None).map_err(|e| anyhow!("in {}: {e}", path.display()))?;
        inner.with_padding(None);
        let added = inner.get_added_tokens_decoder();
        let special = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        let vocabulary = inner.get_vocab_size(true);
        Ok(Self { inner, special, vocabulary })
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        // Fails only if the model has no token for a character, so there is nothing to count.
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
