//! Reasoning at the start of answers, streamed or hidden, as of models that think first.

use goodput_core::units::Fraction;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The share of each answer that is reasoning, and its visibility.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reasoning {
    /// Share of an answer's tokens that are reasoning, rounded down to whole tokens; 1 for answers without content.
    pub share: Fraction,
    /// Generates and counts reasoning without streaming it. Otherwise it is streamed, in a chat as `delta.reasoning`.
    #[serde(default)]
    pub hidden: bool,
    /// Reports the number of reasoning tokens in `usage` (`completion_tokens_details.reasoning_tokens`). The total
    /// includes them in any case.
    #[serde(default = "yes")]
    pub counted: bool,
}

const fn yes() -> bool {
    true
}

impl Reasoning {
    /// Returns the number of reasoning tokens of an answer of `answer` tokens; they come first.
    pub fn tokens(&self, answer: u32) -> u32 {
        (f64::from(answer) * self.share.get() + 1e-9).floor() as u32
    }
}

impl fmt::Display for Reasoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.hidden { "hidden" } else { "streamed" };
        let counted = if self.counted { "" } else { " and not reported separately" };
        write!(f, "reasoning {} of each answer, {shown}{counted}", self.share.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_parsed_and_displayed() {
        for (text, tokens, shown) in [
            ("share = 0.9", 900, "reasoning 0.9 of each answer, streamed"),
            ("share = 0.9\nhidden = true", 900, "reasoning 0.9 of each answer, hidden"),
            (
                "share = 1\nhidden = true\ncounted = false",
                1000,
                "reasoning 1 of each answer, hidden and not reported separately",
            ),
            ("share = 0", 0, "reasoning 0 of each answer, streamed"),
        ] {
            let got: Reasoning = toml::from_str(text).unwrap();
            assert_eq!((got.tokens(1000), got.to_string().as_str()), (tokens, shown));
        }
        let most: Reasoning = toml::from_str("share = 0.9").unwrap();
        assert_eq!([1, 2, 10].map(|answer| most.tokens(answer)), [0, 1, 9], "a short answer has content");
        assert!(toml::from_str::<Reasoning>("share = 1.5").is_err());
        assert!(toml::from_str::<Reasoning>("hidden = true").is_err(), "the share is required");
    }
}
