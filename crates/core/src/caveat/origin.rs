//! Caveats on figures that goodput did not measure on a real server.

use super::Scope;
use serde::{Deserialize, Serialize};

/// A caveat on figures that goodput did not measure on a real server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginCaveat {
    /// Another tool measured them.
    Imported {
        /// Name of the tool, with its version if known.
        tool: String,
        /// Facts that its files do not hold.
        missing: Vec<String>,
        /// How goodput counts its requests where the tool counts otherwise.
        counted: String,
    },
    /// Time was simulated.
    VirtualTime,
    /// The server was simulated.
    Simulated,
}

impl OriginCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::Imported { .. } | Self::VirtualTime | Self::Simulated => Scope::RUN,
        }
    }
}
