//! Caveats on figures that goodput did not measure on a real server.

use super::Scope;
use crate::units::Span;
use serde::{Deserialize, Serialize};

/// A caveat on figures that goodput did not measure on a real server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OriginCaveat {
    /// Another tool measured them.
    Imported {
        /// Name of the tool, with its version if known.
        tool: String,
        /// Facts that its files do not hold.
        missing: Vec<String>,
        /// The requests of a step that goodput counts.
        counted: ImportedCount,
    },
    /// Time was simulated.
    VirtualTime,
    /// The server was simulated.
    Simulated,
}

/// The requests of an imported step that count, and the time from which their latency counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum ImportedCount {
    /// As facts.
    Facts {
        /// The tool tells when each request was due; else its latency counts from when it was sent.
        due_known: bool,
        /// The steps hold a number in flight, so that no request waits in the client.
        closed_loop: bool,
        /// Time at the beginning of each step that does not count, if one was named.
        settle: Option<Span>,
        /// Steps end with the tool's own window; else when their last request was sent.
        tool_window: bool,
    },
    /// A sentence that an earlier version wrote.
    Text(String),
}

impl OriginCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::Imported { .. } | Self::VirtualTime | Self::Simulated => Scope::RUN,
        }
    }
}
