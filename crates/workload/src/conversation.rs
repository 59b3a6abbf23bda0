//! Conversations: turns with think times and a growing history.

use super::lengths::Lengths;
use goodput_core::units::{Span, short};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Largest number of turns of a conversation.
const MOST_TURNS: u32 = 1000;

/// Turns that follow the first request of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conversation {
    /// Number of turns of a synthetic conversation, including the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Lengths>,
    /// Input tokens that each later turn of a synthetic conversation adds to the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<Lengths>,
    /// Think time: from the end of an answer until the next turn is due.
    #[serde(default)]
    pub think: Think,
}

/// Distribution of the think time between an answer and the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// Constant.
    Fixed(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
    /// As recorded in the data set; zero where it records none.
    Recorded,
}

impl Default for Think {
    /// Returns zero, the think time of programs and agents.
    fn default() -> Self {
        Self::Fixed(Span(Duration::ZERO))
    }
}

impl Think {
    /// Draws a think time; `recorded` is that of the data set.
    pub fn draw(&self, recorded: Option<Duration>, rng: &mut ChaCha8Rng) -> Duration {
        match self {
            Self::Fixed(span) => span.0,
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(rng);
                mean.0.mul_f64(unit)
            }
            Self::Recorded => recorded.unwrap_or_default(),
        }
    }

    /// Returns the mean; `None` for recorded think times.
    pub fn mean(&self) -> Option<Duration> {
        match self {
            Self::Fixed(span) | Self::Exponential(span) => Some(span.0),
            Self::Recorded => None,
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) if span.0.is_zero() => f.write_str("no think time"),
            Self::Fixed(span) => write!(f, "think time {span}"),
            Self::Exponential(span) => write!(f, "think time ~{span} (exponential)"),
            Self::Recorded => f.write_str("think times as recorded"),
        }
    }
}

impl Conversation {
    /// Returns the first mistake in the table of a synthetic conversation, as an error message.
    pub(super) fn synthetic_problem(&self) -> Option<String> {
        let Some(turns) = self.turns else {
            return Some(
                "turns is missing: set the number of turns of a synthetic conversation, such as { fixed = 4 }".into(),
            );
        };
        if turns.longest() > MOST_TURNS {
            return Some(format!(
                "turns goes up to {}: a conversation has at most {MOST_TURNS}",
                turns.longest()
            ));
        }
        if self.think == Think::Recorded {
            return Some("think = \"recorded\" needs a data set with delays: set { exponential = \"8s\" } or { fixed = … }".into());
        }
        (self.input_tokens.is_none() && turns.longest() > 1).then(|| {
            "input-tokens is missing: set what each later turn adds to the history, such as { fixed = 50 }".into()
        })
    }

    /// Returns the mean number of turns of a synthetic conversation, including the first.
    pub(crate) fn mean_turns(&self) -> f64 {
        self.turns.map_or(1.0, |t| t.mean())
    }
}

impl fmt::Display for Conversation {
    /// Formats `4 turns (+50 in), think time ~8s (exponential)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turns {
            Some(Lengths::Fixed(n)) => write!(f, "{} turns", short(f64::from(n.get())))?,
            Some(turns) => write!(f, "{turns} turns")?,
            None => f.write_str("conversations")?,
        }
        if let Some(tokens) = self.input_tokens {
            write!(f, " (+{tokens} in)")?;
        }
        write!(f, ", {}", self.think)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};

    fn conversation(text: &str) -> Conversation {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn think_times_have_the_given_mean() {
        let mut rng = stream(1, "main", 1, Purpose::Think);
        let recorded = Some(Duration::from_secs(9));
        let mut mean = |think: &str| {
            let think = conversation(&format!("think = {think}")).think;
            let sum: f64 = (0..20_000).map(|_| think.draw(recorded, &mut rng).as_secs_f64()).sum();
            sum / 20_000.0
        };
        assert!((mean("{ fixed = \"5s\" }") - 5.0).abs() < 1e-9);
        assert!((mean("{ exponential = \"8s\" }") - 8.0).abs() < 0.2);
        assert!((mean("\"recorded\"") - 9.0).abs() < 1e-9);
        assert!(conversation("").think.draw(recorded, &mut rng).is_zero());
    }

    #[test]
    fn incomplete_synthetic_conversations_are_rejected_with_a_reason() {
        for (text, message) in [
            ("", Some("turns is missing")),
            ("turns = { fixed = 4 }", Some("input-tokens is missing")),
            ("turns = { fixed = 1 }", None),
            ("turns = { fixed = 4 }\ninput-tokens = { fixed = 9 }", None),
            ("turns = { fixed = 4 }\ninput-tokens = { fixed = 9 }\nthink = \"recorded\"", Some("data set")),
            ("turns = { fixed = 4000 }\ninput-tokens = { fixed = 9 }", Some("at most 1000")),
        ] {
            let problem = conversation(text).synthetic_problem();
            assert_eq!(problem.is_some(), message.is_some(), "{text}: {problem:?}");
            assert!(problem.unwrap_or_default().contains(message.unwrap_or_default()), "{text}");
        }
    }
}
