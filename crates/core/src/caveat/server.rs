//! Caveats on the state of the server and on what it refused.

use super::number::number;
use super::{Refusal, Scope};
use serde::{Deserialize, Serialize};

/// A caveat on the state of the server, or on what it refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerCaveat {
    /// A page of metrics that the plan names gives nothing, or not all series that were asked for.
    MetricsSilent {
        /// Name or URL of the page.
        source: String,
        /// Outcome of reading it.
        why: String,
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

/// A call that starts or stops a profiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
            Self::MetricsSilent { .. } => Scope::RUN,
            Self::ServerRestarted { .. } | Self::ServerChanged { .. } => Scope::RUN.weakening(),
            Self::ServerGone { step } => Scope::step(*step).weakening(),
            Self::NotDrained { step, .. } => Scope::step(*step).weakening().until_measured_again(),
            Self::Refused { step, .. } | Self::Profiler { step, .. } => {
                Scope::step(*step).until_measured_again()
            }
        }
    }
}
