//! Conversations: turns that follow one another, each with the history that came of the ones before.

use super::lengths::Lengths;
use goodput_core::units::{Span, short};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The most turns of a conversation.
pub const MOST_TURNS: u32 = 1000;

/// What follows the first request of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conversation {
    /// Turns of a synthetic conversation, the first included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Lengths>,
    /// Input tokens that each later turn of a synthetic conversation adds to the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<Lengths>,
    /// How long the user thinks: from the end of an answer until the next turn is due.
    #[serde(default)]
    pub think: Think,
}

/// How long a user thinks between an answer and the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// Always so long.
    Fixed(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
    /// As the data set has it; no time where it has none.
    Recorded,
}

impl Default for Think {
    /// No time: programs and agents go on at once.
    fn default() -> Self {
        Self::Fixed(Span(Duration::ZERO))
    }
}

impl Think {
    /// One think time; `recorded` is what the data set has.
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

    /// Its mean, where the plan knows it.
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
    /// What a synthetic conversation lacks, if anything.
    pub(super) fn problem_of_synthetic(&self) -> Option<String> {
        let Some(turns) = self.turns else {
            return Some(
                "turns is missing: how many turns a synthetic conversation has, such as { fixed = 4 }".into(),
            );
        };
        if turns.longest() > MOST_TURNS {
            return Some(format!(
                "turns goes up to {}: at most {MOST_TURNS} make a conversation",
                turns.longest()
            ));
        }
        if self.think == Think::Recorded {
            return Some("think = \"recorded\" needs a data set with delays: write { exponential = \"8s\" } or { fixed = … }".into());
        }
        (self.input_tokens.is_none() && turns.longest() > 1).then(|| {
            "input-tokens is missing: what each later turn adds to the history, such as { fixed = 50 }".into()
        })
    }

    /// Turns of a synthetic conversation on average, the first included.
    pub fn mean_turns(&self) -> f64 {
        self.turns.map_or(1.0, |t| t.mean())
    }
}

impl fmt::Display for Conversation {
    /// `4 turns, 50 tokens each further, think time ~8s (exponential)`.
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

    fn of(text: &str) -> Conversation {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn think_times_are_as_asked() {
        let mut rng = stream(1, "main", 1, Purpose::Think);
        let recorded = Some(Duration::from_secs(9));
        let mut mean = |think: &str| {
            let think = of(&format!("think = {think}")).think;
            let sum: f64 = (0..20_000).map(|_| think.draw(recorded, &mut rng).as_secs_f64()).sum();
            sum / 20_000.0
        };
        assert!((mean("{ fixed = \"5s\" }") - 5.0).abs() < 1e-9);
        assert!((mean("{ exponential = \"8s\" }") - 8.0).abs() < 0.2);
        assert!((mean("\"recorded\"") - 9.0).abs() < 1e-9);
        assert!(of("").think.draw(recorded, &mut rng).is_zero());
    }

    #[test]
    fn what_a_synthetic_conversation_lacks_is_said() {
        for (text, says) in [
            ("", Some("turns is missing")),
            ("turns = { fixed = 4 }", Some("input-tokens is missing")),
            ("turns = { fixed = 1 }", None),
            ("turns = { fixed = 4 }\ninput-tokens = { fixed = 9 }", None),
            ("turns = { fixed = 4 }\ninput-tokens = { fixed = 9 }\nthink = \"recorded\"", Some("data set")),
            ("turns = { fixed = 4000 }\ninput-tokens = { fixed = 9 }", Some("at most 1000")),
        ] {
            let problem = of(text).problem_of_synthetic();
            assert_eq!(problem.is_some(), says.is_some(), "{text}: {problem:?}");
            assert!(problem.unwrap_or_default().contains(says.unwrap_or_default()), "{text}");
        }
    }
}
