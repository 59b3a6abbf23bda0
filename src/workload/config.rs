//! The plan's `[workload]` table.

use super::arrivals::Arrivals;
use super::lengths::{Lengths, TokenCount};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is sent, and in which rhythm; the rate is the search's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Shape of the arrivals.
    #[serde(default = "Workload::poisson")]
    pub arrivals: Arrivals,
    /// Whether prompts may find anything in the server's prefix cache.
    #[serde(default)]
    pub cache: Cache,
    /// Where the prompts come from.
    pub prompts: Prompts,
}

impl Workload {
    fn poisson() -> Arrivals {
        Arrivals::Poisson
    }
}

/// State of the prefix cache that a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// No prompt shares a beginning with an earlier one: a nonce comes first.
    #[default]
    Cold,
    /// Shared prefixes are sent as they are, and warmed before the first step.
    Warm,
}

/// Sources of prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prompts {
    /// Made from a recipe.
    Synthetic(Synthetic),
}

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

impl Workload {
    /// The recipe of the prompts.
    pub fn synthetic(&self) -> &Synthetic {
        let Prompts::Synthetic(s) = &self.prompts;
        s
    }

    /// How many different shared prefixes there are.
    pub fn groups(&self) -> u32 {
        self.synthetic().shared_prefix.map_or(1, |p| p.groups.get())
    }
}

impl Workload {
    /// What a closed loop sends: `600 in / 30 out tokens, closed loop, cold cache`. It has no arrivals of its own.
    pub fn closed(&self) -> String {
        self.described("closed loop")
    }

    fn described(&self, rhythm: &str) -> String {
        let s = self.synthetic();
        let shared = s.shared_prefix.map(|p| format!(", {} shared", p.tokens.get())).unwrap_or_default();
        let cache = if self.cache == Cache::Cold { "cold" } else { "warm" };
        format!("{} in / {} out tokens{shared}, {rhythm}, {cache} cache", s.input_tokens, s.output_tokens)
    }
}

impl fmt::Display for Workload {
    /// `600 in / 30 out tokens, Poisson arrivals, cold cache`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.described(&self.arrivals.to_string()))
    }
}
