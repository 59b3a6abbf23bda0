//! Token counts of texts, estimated until a server has counted them.

use std::fmt;
use std::sync::Arc;

/// Counter of a text's tokens.
#[derive(Clone)]
pub enum Counter {
    /// An estimate from the number of characters.
    Estimate(TokenEstimate),
    /// A tokenizer.
    Exact(Arc<dyn Fn(&str) -> usize + Send + Sync>),
}

/// Characters per token, by kind of character.
///
/// Only filters and reported lengths use this estimate, and only until the server's counts are calibrated; the load
/// uses the server's own `usage`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenEstimate {
    /// Characters per token in alphabetic scripts, including spaces.
    pub chars: f64,
    /// Characters per token in Chinese, Japanese and Korean.
    pub wide_chars: f64,
}

impl Default for TokenEstimate {
    /// Current vocabularies have 4 to 4.5 characters per token of English prose, and about 1.5 of Chinese.
    fn default() -> Self {
        Self { chars: 4.2, wide_chars: 1.5 }
    }
}

impl TokenEstimate {
    /// Returns the estimated tokens of a text; 0 for an empty one.
    pub fn tokens(&self, text: &str) -> f64 {
        let (mut narrow, mut wide) = (0usize, 0usize);
        for c in text.chars() {
            if is_wide(c) { wide += 1 } else { narrow += 1 }
        }
        narrow as f64 / self.chars + wide as f64 / self.wide_chars
    }
}

/// Returns true for East Asian scripts (from the Hangul Jamo block on), where a character is about a syllable or a
/// word.
const fn is_wide(c: char) -> bool {
    matches!(c as u32, 0x1100..=0x11ff | 0x2e80..=0xd7ff | 0xf900..=0xfaff | 0xff00..=0xffef | 0x20000..=0x3ffff)
}

impl Default for Counter {
    fn default() -> Self {
        Self::Estimate(TokenEstimate::default())
    }
}

impl Counter {
    /// Returns the tokens of a text; an estimate may be fractional.
    pub fn tokens(&self, text: &str) -> f64 {
        match self {
            Self::Estimate(e) => e.tokens(text),
            Self::Exact(count) => count(text) as f64,
        }
    }

    /// Returns true for a tokenizer.
    pub(crate) const fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Estimate(e) => e.fmt(f),
            Self::Exact(_) => f.write_str("Exact"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_count_differently() {
        let e = TokenEstimate::default();
        for (text, expected) in
            [("", 0.0), ("a".repeat(42).as_str(), 10.0), ("东京大学法", 5.0 / 1.5), ("é", 1.0 / 4.2)]
        {
            assert!((e.tokens(text) - expected).abs() < 1e-12, "{text}");
        }
        let exact = Counter::Exact(Arc::new(|t| t.split(' ').count()));
        assert!((exact.tokens("three short words") - 3.0).abs() < 1e-12 && exact.is_exact());
    }
}
