//! Summary of a workload as results keep it: typed, so that nobody has to read it out of a sentence.

use super::arrivals::Arrivals;
use super::audio::GeneratedAudio;
use super::config::Cache;
use super::conversation::Conversation;
use super::items::Items;
use super::synthetic::Synthetic;
use goodput_core::units::{Rate, short};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU8;

/// The workload of a run: kinds of requests, when they are sent, and what the server's prefix cache held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkloadSummary {
    /// The kinds of requests: one, or every class of a mix.
    pub requests: Vec<RequestKind>,
    /// When requests are sent.
    pub pacing: Pacing,
    /// State of the prefix cache; `None` where it is not known.
    pub cache: Option<Cache>,
}

/// One kind of requests of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RequestKind {
    /// The class; `None` where there is only one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its share of all requests, 0 to 1.
    pub share: f64,
    /// The source of the prompts.
    pub prompts: PromptSource,
    /// The turns of its conversations; `None` where a request stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// Number of choices that a request asks for; `None` for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<NonZeroU8>,
}

/// The source of prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromptSource {
    /// Made from a recipe.
    Synthetic(Synthetic),
    /// Sent by another tool: a recipe with the lengths that were measured.
    Measured(Synthetic),
    /// Items of requests that are answered at once.
    Items(Items),
    /// Taken from files: their names, and what they were found to hold.
    Files(String),
    /// Generated audio.
    Audio(GeneratedAudio),
    /// Audio from files: their number and lengths.
    Recordings(String),
    /// Made from a recipe, with images from files: its lengths, and number and sizes of the images.
    Illustrated(String),
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// An open loop with random or constant gaps.
    Arrivals(Arrivals),
    /// At the times of a trace.
    AsRecorded,
    /// The next request when one is done.
    ClosedLoop {
        /// The most requests per second, where the plan limits them.
        max_rate: Option<Rate>,
    },
    /// A burst: every request at the start.
    AllAtOnce {
        /// The most requests per second, where the plan limits them.
        max_rate: Option<Rate>,
    },
    /// Not known: another tool sent them.
    Unknown,
}

impl Pacing {
    /// Returns true for an open loop of independent users.
    pub const fn is_poisson(self) -> bool {
        matches!(self, Self::Arrivals(Arrivals::Poisson))
    }

    /// Returns true if a request waits for the end of another.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::ClosedLoop { .. } | Self::AllAtOnce { .. })
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, max_rate) = match self {
            Self::Arrivals(arrivals) => return arrivals.fmt(f),
            Self::AsRecorded => ("arrivals as recorded", None),
            Self::Unknown => ("arrivals not known", None),
            Self::ClosedLoop { max_rate } => ("closed loop", *max_rate),
            Self::AllAtOnce { max_rate } => ("all at once", *max_rate),
        };
        f.write_str(name)?;
        max_rate.map_or(Ok(()), |rate| write!(f, ", no faster than {rate} per second"))
    }
}

impl fmt::Display for PromptSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic(recipe) => recipe.fmt(f),
            Self::Items(items) => items.fmt(f),
            Self::Measured(recipe) => write!(f, "{recipe} as measured"),
            Self::Files(found) | Self::Recordings(found) | Self::Illustrated(found) => f.write_str(found),
            Self::Audio(audio) => audio.fmt(f),
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = self.conversation.as_ref().map(|c| format!(", {c}")).unwrap_or_default();
        let choices = self.choices.map(|n| format!(", {n} choices")).unwrap_or_default();
        match &self.class {
            Some(class) => {
                write!(f, "{} % {class} ({}{turns}{choices})", short(100.0 * self.share), self.prompts)
            }
            None => write!(f, "{}{turns}{choices}", self.prompts),
        }
    }
}

impl fmt::Display for WorkloadSummary {
    /// `600 in / 30 out tokens, Poisson arrivals, cold cache`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests: Vec<String> = self.requests.iter().map(ToString::to_string).collect();
        let cache = match self.cache {
            Some(Cache::Pair) => "cold and warm cache",
            Some(Cache::Cold) => "cold cache",
            Some(Cache::Warm) => "warm cache",
            None => "cache not known",
        };
        write!(f, "{}, {}, {cache}", requests.join(" + "), self.pacing)
    }
}
