//! Synthetic prompts of given lengths, with shared prefixes.

use super::images::Images;
use super::lengths::{Lengths, TokenCount};
use goodput_core::checked;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Lengths and shared prefixes of generated prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Synthetic {
    /// Input tokens as the server counts them, shared prefix included; of the text alone, if there are images.
    pub input_tokens: Lengths,
    /// Output tokens.
    pub output_tokens: Lengths,
    /// Prefix shared between requests, sent as the system message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_prefix: Option<SharedPrefix>,
    /// Images before the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
}

checked!(Synthetic);

/// Prefix shared between requests, sent as the system message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefix {
    /// Length of the prefix. Prompts that are too short for it contain its beginning.
    pub tokens: TokenCount,
    /// Number of different prefixes; each request uses one at random.
    #[serde(default = "SharedPrefix::one")]
    pub groups: TokenCount,
}

impl SharedPrefix {
    fn one() -> TokenCount {
        TokenCount::ONE
    }
}

impl Synthetic {
    fn check(&self) -> Result<(), String> {
        match self.shared_prefix.filter(|p| f64::from(p.tokens.get()) >= self.input_tokens.mean()) {
            Some(p) => Err(format!(
                "shared-prefix.tokens ({}) is part of input-tokens and must be below their mean ({})",
                p.tokens.get(),
                self.input_tokens.mean()
            )),
            None => Ok(()),
        }
    }

    /// Returns the mean tokens of a prompt in the shared prefix. A prompt too short for the whole prefix contains as
    /// much of it as leaves one unique token.
    pub(crate) fn shared_tokens(&self) -> f64 {
        self.shared_prefix.map_or(0.0, |p| mean_shared(&self.input_tokens, p.tokens.get()))
    }

    /// Describes the prompts, with the images as they were found in files.
    pub(crate) fn title(&self, images: impl fmt::Display) -> String {
        let mut title = String::new();
        self.describe(&mut title, Some(images)).expect("writing to memory cannot fail");
        title
    }

    fn describe(&self, f: &mut impl fmt::Write, images: Option<impl fmt::Display>) -> fmt::Result {
        write!(f, "{} in / {} out tokens", self.input_tokens, self.output_tokens)?;
        if let Some(images) = images {
            write!(f, ", {images}")?;
        }
        match self.shared_prefix {
            Some(p) => {
                let upto = if self.cuts_prefix() { "up to " } else { "" };
                write!(f, ", {upto}{} shared", p.tokens.get())
            }
            None => Ok(()),
        }
    }

    /// Returns true if some prompts are too short for the whole prefix.
    fn cuts_prefix(&self) -> bool {
        self.shared_prefix.is_some_and(|p| self.input_tokens.shortest() <= p.tokens.get())
    }
}

/// Returns the mean tokens of a prompt in a shared prefix of `prefix` tokens.
pub(super) fn mean_shared(input: &Lengths, prefix: u32) -> f64 {
    input.mean_of(|n| f64::from(prefix).min(n - 1.0))
}

/// Returns the length of the prefix that holds a given share of all input tokens; the longest possible prefix if that
/// is not enough.
pub fn prefix_of_share(input: &Lengths, share: f64) -> u32 {
    let wanted = share * input.mean_of(|n| n);
    let (mut low, mut high) = (0, input.longest().saturating_sub(1));
    if mean_shared(input, high) <= wanted {
        return high;
    }
    // The shortest that holds enough, or the one before it if that is nearer.
    while low < high {
        let middle = low + (high - low) / 2;
        if mean_shared(input, middle) < wanted { low = middle + 1 } else { high = middle }
    }
    let before = low.saturating_sub(1);
    if wanted - mean_shared(input, before) < mean_shared(input, low) - wanted { before } else { low }
}

impl fmt::Display for Synthetic {
    /// Formats `600 in / 30 out tokens, 400 shared`; `up to 400 shared` if some prompts are shorter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f, self.images.as_ref())
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

    /// Cases: input lengths, the share to be shared, and the length of the prefix.
    #[test]
    fn the_prefix_holds_the_requested_share() {
        for (text, share, want) in [
            ("{ fixed = 4096 }", 0.9, Some(3686)),
            ("{ fixed = 1 }", 0.5, Some(0)),
            ("{ fixed = 600 }", 1.0, Some(599)),
            ("{ quantiles = { p50 = 600, p90 = 2400, max = 8192 } }", 0.3, None),
            ("{ quantiles = { p50 = 600, p90 = 2400, max = 8192 } }", 0.7, None),
        ] {
            let input = lengths(text);
            let prefix = prefix_of_share(&input, share);
            let got = mean_shared(&input, prefix) / input.mean_of(|n| n);
            assert!(want.map_or((got - share).abs() < 0.002, |n| n == prefix), "{text}: {prefix}, {got}");
        }
    }

    #[test]
    fn the_title_shows_that_prompts_are_too_short_for_the_prefix() {
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
