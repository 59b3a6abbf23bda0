//! Images in prompts: how many tokens they are, and how long the encoder takes.

use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Side in pixels of the square that becomes one token, as in the Qwen-VL models: patches of 14 pixels, merged two by two.
pub const PATCH: u32 = 28;

/// A vision encoder in front of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Vision {
    /// Time that the encoder takes for each token of an image, a square of 28 pixels. It adds to the iteration that reads the first tokens
    /// of the prompt, as in vLLM.
    pub token_time: Span,
}

impl Vision {
    /// Returns the time to encode images of so many tokens.
    pub fn encode_time(&self, tokens: u32) -> Duration {
        self.token_time.0.saturating_mul(tokens)
    }
}

/// Returns the number of tokens of an image.
pub const fn image_tokens(width: u32, height: u32) -> u32 {
    width.div_ceil(PATCH).saturating_mul(height.div_ceil(PATCH))
}

impl fmt::Display for Vision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "encoder {} per token of an image", self.token_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_token_for_each_square() {
        for (width, height, tokens) in
            [(28, 28, 1), (29, 28, 2), (448, 448, 256), (1024, 768, 37 * 28), (1, 1, 1)]
        {
            assert_eq!(image_tokens(width, height), tokens, "{width} × {height}");
        }
        let vision: Vision = toml::from_str("token-time = \"20us\"").unwrap();
        assert_eq!(vision.encode_time(256), Duration::from_micros(5_120));
    }
}
