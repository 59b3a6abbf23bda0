//! Caveats on the client, which may be the limit instead of the server.

use super::number::number;
use super::{OwnFault, Scope, WorkerFault};
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
    /// One of several workers (load machines) gets its first tokens later than the others.
    WorkerApart {
        /// The worker.
        id: String,
        /// Its median TTFT in one step, in milliseconds.
        #[serde(deserialize_with = "number")]
        ttft_ms: f64,
        /// Lower median of the medians of the others, in milliseconds.
        #[serde(deserialize_with = "number")]
        others_ms: f64,
        /// The step.
        step: u32,
    },
    /// Steps count for nothing because a worker spoilt them, and their levels were measured again.
    WorkerFaults {
        /// Number of steps.
        steps: u32,
        /// The worker.
        id: String,
        /// What was wrong with it.
        fault: WorkerFault,
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
            Self::BeyondCalibration { .. } | Self::WorkerFaults { .. } => Scope::RUN,
            Self::WorkerApart { step, .. } => Scope::step(*step).weakening(),
            Self::OwnLimit { step, .. } => Scope::step(*step).weakening(),
        }
    }
}
