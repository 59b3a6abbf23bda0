//! The kinds of request of a workload, as the plan has them.

use super::conversation::Conversation;
use super::sources::{Prompts, name};
use super::trace::TraceSource;
use goodput_core::units::Positive;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the files of a kind of request were found to hold. Filled in when a sweep begins, so that its search and its reports do
/// not need the files again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Found {
    /// In one line.
    pub title: String,
    /// Requests per second at level 1: turns of a conversation on average, the mean rate of a trace.
    pub requests_per_level: Positive,
    /// Coefficient of variation of the gaps between a trace's requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cv: Option<Positive>,
    /// Whether a trace's prompts are told apart by blocks, so that they have beginnings in common by right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocks: bool,
    /// What is to be known of it, in a sentence: the identity of prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The requests of one kind: a class of a mix, or all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind<'a> {
    /// The class, where there are several.
    pub name: Option<&'a str>,
    /// The class, also where it is measured by itself: what its shared prefixes and the server's counts go by. `all` where there was
    /// ever one kind of request.
    pub known_as: &'a str,
    /// Its share of the arrivals.
    pub share: f64,
    /// What it is made of.
    pub of: Of<'a>,
    /// Turns that follow.
    pub conversation: Option<&'a Conversation>,
    /// What its files were found to hold.
    pub found: Option<&'a Found>,
}

/// What a kind of request is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Of<'a> {
    /// Prompts.
    Prompts(&'a Prompts),
    /// The requests of a trace.
    Trace(&'a TraceSource),
}

impl Kind<'_> {
    /// Whether it makes conversations. Files decide it once they are read.
    pub(super) fn talks(&self) -> bool {
        let rows = || matches!(self.of, Of::Prompts(p) if p.talks());
        self.conversation.is_some() || (rows() && self.found.is_none_or(|f| f.requests_per_level.get() > 1.0))
    }

    pub(super) fn longest_output(&self) -> Option<u32> {
        match self.of {
            Of::Prompts(p) => p.longest_output(),
            Of::Trace(_) => None,
        }
    }

    /// What is wrong with its turns, if anything.
    pub(super) fn problem_of_turns(&self) -> Option<String> {
        let c = self.conversation?;
        match self.of {
        Of::Trace(_) => Some("a trace has its own times: leave the table out".into()),
        Of::Prompts(Prompts::Synthetic(_)) => c.problem_of_synthetic(),
        Of::Prompts(p) if !p.talks() => {
            Some("these prompts have one turn each: write turns = \"all\" in their table, or leave this one out".into())
        }
        Of::Prompts(_) => (c.turns.is_some() || c.input_tokens.is_some())
            .then(|| "turns and input-tokens are the data set's: only think is the plan's here".into()),
    }
    }

    /// Requests per chain on average, or per second of a trace.
    pub(super) fn per_level(&self) -> f64 {
        let planned = || self.conversation.map_or(1.0, Conversation::mean_turns);
        self.found.map_or_else(planned, |f| f.requests_per_level.get())
    }
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.found, self.of) {
            (Some(found), Of::Prompts(Prompts::Data(_) | Prompts::Text(_)) | Of::Trace(_)) => {
                f.write_str(&found.title)
            }
            (_, Of::Prompts(p)) => p.fmt(f),
            (_, Of::Trace(t)) => write!(f, "trace {}", name(&t.file)),
        }
    }
}
