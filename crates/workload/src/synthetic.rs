//! Synthetic prompts: lengths, and what they have in common.

use super::lengths::{Lengths, TokenCount};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Prompts made from a recipe: lengths, and what they share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawSynthetic", into = "RawSynthetic")]
pub struct Synthetic {
    /// Input tokens, shared prefix included, as the server counts them.
    pub input_tokens: Lengths,
    /// Output tokens.
    pub output_tokens: Lengths,
    /// A beginning that requests have in common.
    pub shared_prefix: Option<SharedPrefix>,
}

#[derive(Clone, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawSynthetic {
    /// Input tokens, shared prefix included, as the server counts them.
    input_tokens: Lengths,
    /// Output tokens.
    output_tokens: Lengths,
    /// A beginning that requests have in common, sent as the system message.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_prefix: Option<SharedPrefix>,
}

/// A beginning that requests have in common, sent as the system message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefix {
    /// Its length. Prompts that are too short for it have its beginning.
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

impl Synthetic {
    /// Tokens of a prompt that lie in the shared prefix, on average: one that is too short for all of it has as much as leaves a
    /// token of its own.
    pub fn shared_tokens(&self) -> f64 {
        self.shared_prefix.map_or(0.0, |p| shared(&self.input_tokens, p.tokens.get()))
    }

    /// Whether some prompts are too short for the whole prefix.
    fn cuts_prefix(&self) -> bool {
        self.shared_prefix.is_some_and(|p| self.input_tokens.shortest() <= p.tokens.get())
    }
}

/// Tokens of a prompt that lie in a shared prefix of so many, on average.
fn shared(input: &Lengths, prefix: u32) -> f64 {
    input.mean_of(|n| f64::from(prefix).min(n - 1.0))
}

/// The prefix of which a share of all input tokens lies in; the longest that there can be where that is not enough.
pub fn prefix_of_share(input: &Lengths, share: f64) -> u32 {
    let wanted = share * input.mean_of(|n| n);
    let (mut low, mut high) = (0, input.longest().saturating_sub(1));
    if shared(input, high) <= wanted {
        return high;
    }
    // The least that gives as much, and the one before it, which may be nearer.
    while low < high {
        let middle = low + (high - low) / 2;
        if shared(input, middle) < wanted { low = middle + 1 } else { high = middle }
    }
    let before = low.saturating_sub(1);
    if wanted - shared(input, before) < shared(input, low) - wanted { before } else { low }
}

impl fmt::Display for Synthetic {
    /// `600 in / 30 out tokens, 400 shared`; `up to 400 shared` where some prompts are shorter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in / {} out tokens", self.input_tokens, self.output_tokens)?;
        match self.shared_prefix {
            Some(p) => {
                let upto = if self.cuts_prefix() { "up to " } else { "" };
                write!(f, ", {upto}{} shared", p.tokens.get())
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Lengths {
        #[derive(Deserialize)]
        struct T {
            x: Lengths,
        }
        toml::from_str::<T>(&format!("x = {text}")).unwrap().x
    }

    /// Rows: input lengths, the share that is to be shared, and the prefix.
    #[test]
    fn a_prefix_holds_the_share_that_is_asked_for() {
        for (text, share, want) in [
            ("{ fixed = 4096 }", 0.9, Some(3686)),
            ("{ fixed = 1 }", 0.5, Some(0)),
            ("{ fixed = 600 }", 1.0, Some(599)),
            ("{ quantiles = { p50 = 600, p90 = 2400, max = 8192 } }", 0.3, None),
            ("{ quantiles = { p50 = 600, p90 = 2400, max = 8192 } }", 0.7, None),
        ] {
            let input = lengths(text);
            let prefix = prefix_of_share(&input, share);
            let got = shared(&input, prefix) / input.mean_of(|n| n);
            assert!(want.map_or((got - share).abs() < 0.002, |n| n == prefix), "{text}: {prefix}, {got}");
        }
    }

    #[test]
    fn a_title_says_where_prompts_are_too_short() {
        let title = |input: &str| {
            let text = format!(
                "input-tokens = {input}\noutput-tokens = {{ fixed = 3 }}\nshared-prefix = {{ tokens = 400 }}"
            );
            toml::from_str::<Synthetic>(&text).unwrap().to_string()
        };
        assert_eq!(title("{ fixed = 600 }"), "600 in / 3 out tokens, 400 shared");
        let some = title("{ uniform = { min = 300, max = 900 } }");
        assert_eq!(some, "300–900 in / 3 out tokens, up to 400 shared");
    }
}
