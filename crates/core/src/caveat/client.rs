//! Caveats on the client, which may be the limit instead of the server.

use super::number::number;
use super::{OwnFault, Scope};
use crate::named_enum;
use serde::{Deserialize, Serialize};

/// A caveat on the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCaveat {
    /// The plan asks for more than the client was calibrated for.
    BeyondCalibration {
        /// The most that the plan asks for.
        #[serde(deserialize_with = "number")]
        asked: f64,
        /// The most that the client did when it was calibrated.
        #[serde(deserialize_with = "number")]
        most: f64,
        /// Unit of both.
        unit: CalibratedUnit,
    },
    /// The client reached a limit of its own in a step.
    #[serde(rename = "client")]
    OwnLimit {
        /// The step.
        step: u32,
        /// The limit, and by how much it was exceeded.
        fault: OwnFault,
        /// The step is invalid for it; else its verdict does not depend on it.
        invalid: bool,
        /// The step has a verdict. A baseline, a peak and a profile have none.
        #[serde(default = "yes")]
        judged: bool,
    },
}

named_enum! {
    /// The unit of a limit that a client was calibrated for.
    pub enum CalibratedUnit {
        /// Requests per second.
        RequestsPerSecond = "req/s",
        /// Streams that are open at once.
        Streams = "streams",
    }
}

/// Returns `judged` for caveats by earlier versions.
const fn yes() -> bool {
    true
}

impl ClientCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::BeyondCalibration { .. } => Scope::RUN,
            Self::OwnLimit { step, .. } => Scope::step(*step).weakening(),
        }
    }
}
