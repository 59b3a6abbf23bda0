//! Synthetic prompts: lengths, and what they have in common.

use super::lengths::{Lengths, TokenCount};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Prompts made from a recipe: lengths, and what they share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSynthetic", into = "RawSynthetic")]
pub struct Synthetic {
    /// Input tokens, shared prefix included, as the server counts them.
    pub input_tokens: Lengths,
    /// Output tokens.
    pub output_tokens: Lengths,
    /// A beginning that requests have in common.
    pub shared_prefix: Option<SharedPrefix>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawSynthetic {
    input_tokens: Lengths,
    output_tokens: Lengths,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_prefix: Option<SharedPrefix>,
}

/// A beginning that requests have in common, sent as the system message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefix {
    /// Its length.
    pub tokens: TokenCount,
    /// How many different ones there are; each request takes one at random.
    #[serde(default = "SharedPrefix::one")]
    pub groups: TokenCount,
}

impl SharedPrefix {
    fn one() -> TokenCount {
        TokenCount::try_from(1).expect("one is at least one")
    }
}

impl TryFrom<RawSynthetic> for Synthetic {
    type Error = String;
    fn try_from(r: RawSynthetic) -> Result<Self, String> {
        if let Some(p) = r.shared_prefix
            && f64::from(p.tokens.get()) >= r.input_tokens.mean()
        {
            return Err(format!(
                "shared-prefix.tokens ({}) is part of input-tokens and must be below their mean ({})",
                p.tokens.get(),
                r.input_tokens.mean()
            ));
        }
        Ok(Self {
            input_tokens: r.input_tokens,
            output_tokens: r.output_tokens,
            shared_prefix: r.shared_prefix,
        })
    }
}

impl From<Synthetic> for RawSynthetic {
    fn from(s: Synthetic) -> Self {
        Self { input_tokens: s.input_tokens, output_tokens: s.output_tokens, shared_prefix: s.shared_prefix }
    }
}

impl fmt::Display for Synthetic {
    /// `600 in / 30 out tokens, 400 shared`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in / {} out tokens", self.input_tokens, self.output_tokens)?;
        match self.shared_prefix {
            Some(p) => write!(f, ", {} shared", p.tokens.get()),
            None => Ok(()),
        }
    }
}
