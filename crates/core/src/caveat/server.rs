//! Caveats on the state of the server and on what it refused.

use super::number::number;
use super::{Refusal, Scope};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A caveat on the state of the server, or on what it refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerCaveat {
    /// A page of metrics that the plan names gives nothing, or not all series that were asked for.
    MetricsSilent {
        /// Name or URL of the page.
        source: String,
        /// Outcome of reading it.
        why: MetricsGap,
    },
    /// An exporter of GPU metrics did not renew its page during some steps, so that what it showed is of an earlier time.
    MetricsStale {
        /// Name of the page.
        source: String,
        /// Number of these steps.
        steps: u32,
    },
    /// The server restarted within a step.
    ServerRestarted {
        /// The step.
        step: u32,
    },
    /// The server reports other settings than before the sweep was resumed.
    ServerChanged {
        /// Name of the setting.
        what: String,
        /// Its value before.
        was: String,
        /// Its value now.
        is: String,
    },
    /// The server stopped answering.
    ServerGone {
        /// The step in which it stopped.
        step: u32,
    },
    /// The server closes each connection after its answer, so that every request opened one.
    ClosesConnections,
    /// The server still had requests when a step began.
    NotDrained {
        /// The step that began.
        step: u32,
        /// Requests that the server reported.
        #[serde(deserialize_with = "number")]
        left: f64,
    },
    /// The server refused the load.
    Refused {
        /// The step.
        step: u32,
        /// Kind of the refusal, with its counts.
        how: Refusal,
    },
    /// The profiler could not be started or stopped.
    Profiler {
        /// The step that was to be profiled.
        step: u32,
        /// The call that failed.
        tried: ProfilerCall,
        /// Cause of the failure.
        why: String,
    },
}

/// The reason why a page of metrics is missing or incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricsGap {
    /// The page lacks series that were asked for.
    NoSeries(Vec<String>),
    /// The page at this path names no metric of a known engine.
    NoEngine(String),
    /// The page cannot be read.
    Unread {
        /// Path of the page on the server; `None` if the source is its URL.
        path: Option<String>,
        /// Cause, such as the status.
        why: String,
    },
    /// The text of the reason, from a folder of an earlier version.
    #[serde(untagged)]
    Text(String),
}

impl fmt::Display for MetricsGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSeries(names) => write!(f, "the page has no {}", names.join(", ")),
            Self::NoEngine(path) => write!(f, "GET {path} names no metric of a known engine"),
            Self::Unread { path: Some(path), why } => write!(f, "GET {path}: {why}"),
            Self::Unread { path: None, why } => f.write_str(why),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A call that starts or stops a profiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfilerCall {
    /// A POST to this path of the server.
    Post(String),
    /// This command on the client's machine.
    Command(Vec<String>),
    /// A call and its failure, as an earlier version wrote them.
    #[serde(untagged)]
    Text(String),
}

impl ServerCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::MetricsSilent { .. } | Self::MetricsStale { .. } | Self::ClosesConnections => Scope::RUN,
            Self::ServerRestarted { .. } | Self::ServerChanged { .. } => Scope::RUN.weakening(),
            Self::ServerGone { step } => Scope::step(*step).weakening(),
            Self::NotDrained { step, .. } => Scope::step(*step).weakening().until_measured_again(),
            Self::Refused { step, .. } | Self::Profiler { step, .. } => {
                Scope::step(*step).until_measured_again()
            }
        }
    }
}
