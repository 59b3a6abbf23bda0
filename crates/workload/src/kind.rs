//! The kinds of request of a workload, as the plan declares them.

use super::audio::Audio;
use super::conversation::Conversation;
use super::images::Images;
use super::sources::{Prompts, name};
use super::summary::PromptSource;
use super::trace::TraceSource;
use goodput_core::units::Positive;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Summary of the files of one kind of request. Filled in when a sweep begins, so that its search and reports do not
/// need the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FileSummary {
    /// One-line description.
    pub title: String,
    /// Requests per second at level 1: the mean number of turns of a conversation, or the mean rate of a trace.
    pub requests_per_level: Positive,
    /// Coefficient of variation of the gaps between a trace's requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cv: Option<Positive>,
    /// True if a trace identifies prompts by blocks, so that they share prefixes as recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocks: bool,
    /// Notes for the report, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One kind of request: a class of a mix, or all requests of another workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind<'a> {
    /// Name of the class, in a mix.
    pub name: Option<&'a str>,
    /// Name of the class even if it is measured alone: shared prefixes and calibrated token rates are keyed by it.
    /// `all` for a workload that never had classes.
    pub class_key: &'a str,
    /// Its share of the arrivals.
    pub share: f64,
    /// Contents of the requests.
    pub source: RequestSource<'a>,
    /// Turns that follow the first.
    pub conversation: Option<&'a Conversation>,
    /// Summary of its files, once they were read.
    pub file_summary: Option<&'a FileSummary>,
}

/// Contents of a kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestSource<'a> {
    /// Prompts.
    Prompts(&'a Prompts),
    /// Replayed requests.
    Trace(&'a TraceSource),
}

impl Kind<'_> {
    /// Returns true if it makes conversations. Once its files are read, their contents decide.
    pub(super) fn makes_conversations(&self) -> bool {
        let rows = || matches!(self.source, RequestSource::Prompts(p) if p.may_have_turns());
        self.conversation.is_some()
            || (rows() && self.file_summary.is_none_or(|f| f.requests_per_level.get() > 1.0))
    }

    pub(super) fn longest_output(&self) -> Option<u32> {
        match self.source {
            RequestSource::Prompts(p) => p.longest_output(),
            RequestSource::Trace(_) => None,
        }
    }

    pub(super) fn longest_audio(&self) -> Duration {
        match self.source {
            RequestSource::Prompts(Prompts::Audio(audio)) => audio.longest(),
            RequestSource::Prompts(_) | RequestSource::Trace(_) => Duration::ZERO,
        }
    }

    /// Returns the first mistake in its conversation table, as an error message.
    pub(super) fn conversation_problem(&self) -> Option<String> {
        let c = self.conversation?;
        match self.source {
            RequestSource::Trace(_) => Some("a trace has recorded times: remove this table".into()),
            RequestSource::Prompts(Prompts::Synthetic(_)) => c.synthetic_problem(),
            RequestSource::Prompts(Prompts::Items(_)) => {
                Some("requests of items have no turns: remove this table".into())
            }
            RequestSource::Prompts(Prompts::Audio(_)) => {
                Some("requests of audio have no turns: remove this table".into())
            }
            RequestSource::Prompts(p) if !p.may_have_turns() => Some(
                "these prompts have one turn each: set turns = \"all\" in their table, or remove this one"
                    .into(),
            ),
            RequestSource::Prompts(_) => (c.turns.is_some() || c.input_tokens.is_some()).then(|| {
                "the data set has turns and input-tokens: remove them here; only think can be set".into()
            }),
        }
    }

    /// Returns the first mistake in its table of images that depends on conversations, as an error message.
    pub(super) fn images_problem(&self) -> Option<String> {
        let RequestSource::Prompts(Prompts::Synthetic(recipe)) = self.source else { return None };
        let turns = self.conversation.and_then(|c| c.turns).map_or(1, |turns| turns.longest());
        recipe.images.as_ref()?.turns_problem(turns)
    }

    /// Returns the source of its prompts, as results keep it.
    pub fn prompts(&self) -> PromptSource {
        match (self.file_summary, self.source) {
            (summary, RequestSource::Prompts(Prompts::Synthetic(recipe)))
                if recipe.images.as_ref().is_some_and(Images::are_files) =>
            {
                PromptSource::Illustrated(
                    summary.map_or_else(|| recipe.to_string(), |found| found.title.clone()),
                )
            }
            (_, RequestSource::Prompts(Prompts::Synthetic(recipe))) => {
                PromptSource::Synthetic(recipe.clone())
            }
            (_, RequestSource::Prompts(Prompts::Items(items))) => PromptSource::Items(*items),
            (_, RequestSource::Prompts(Prompts::Audio(Audio::Generated(audio)))) => {
                PromptSource::Audio(*audio)
            }
            (summary, RequestSource::Prompts(Prompts::Audio(recordings))) => PromptSource::Recordings(
                summary.map_or_else(|| recordings.to_string(), |found| found.title.clone()),
            ),
            (Some(summary), _) => PromptSource::Files(summary.title.clone()),
            (None, RequestSource::Prompts(prompts)) => PromptSource::Files(prompts.to_string()),
            (None, RequestSource::Trace(trace)) => {
                PromptSource::Files(format!("trace {}", name(&trace.file)))
            }
        }
    }

    /// Returns the mean number of requests per chain; for a trace its requests per second.
    pub(super) fn per_level(&self) -> f64 {
        let planned = || self.conversation.map_or(1.0, Conversation::mean_turns);
        self.file_summary.map_or_else(planned, |f| f.requests_per_level.get())
    }
}
