//! Caveats on the machine that both client and server ran on.

use super::Scope;
use super::number::number;
use serde::{Deserialize, Serialize};

/// A caveat on the machine that both client and server ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostCaveat {
    /// The server did not have the cores to itself.
    SharedCores {
        /// The step near the answer in which the neighbours had most.
        step: u32,
        /// Number of such steps near the answer.
        steps: u32,
        /// Number of steps near the answer.
        of: u32,
        /// Neighbours that had the cores.
        neighbours: Neighbours,
    },
}

impl HostCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::SharedCores { step, .. } => Scope::step(*step),
        }
    }
}

/// Neighbours of a server on this machine: work of others on its cores. Shares are of the time of all cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// Other processes of this machine.
    Processes {
        /// Share that they had.
        #[serde(deserialize_with = "number")]
        share: f64,
        /// Share of the time in which something runnable had no core, where the system reports it.
        waiting: Option<f64>,
    },
    /// Other processes or the server itself, whose own processes are not visible.
    Unknown {
        /// Share that was busy.
        #[serde(deserialize_with = "number")]
        busy: f64,
        /// Share of the time in which something runnable had no core.
        #[serde(deserialize_with = "number")]
        waiting: f64,
    },
    /// Other virtual machines of the same host.
    Machines {
        /// Share that the hypervisor gave to them (steal).
        #[serde(deserialize_with = "number")]
        steal: f64,
    },
}
