//! Limits of the client itself that a step reached.

use super::number::number;
use serde::{Deserialize, Serialize};

/// A limit of the client's own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OwnFault {
    /// `max-in-flight` was reached.
    MaxInFlight {
        /// The plan's `max-in-flight`.
        allowed: u32,
        /// Requests that were not sent for it.
        held: u64,
    },
    /// The process had no descriptor, or the machine no port, left.
    Exhausted {
        /// Requests that were not sent for it.
        held: u64,
    },
    /// Fewer requests were sent in the measured window than were due.
    Behind {
        /// How many were sent.
        sent: u64,
        /// How many were due.
        due: u64,
        /// Why, by what the threads did.
        cause: Cause,
    },
    /// Requests were sent late.
    Late(Excess),
    /// Answers lay unread.
    Lagging(Excess),
    /// The sending threads got no core.
    Starved {
        /// Share of the window in which one waited for a core.
        #[serde(deserialize_with = "number")]
        waiting: f64,
        /// The share that is allowed.
        #[serde(deserialize_with = "number")]
        allowed: f64,
    },
    /// The client as a whole stood still: stopped, suspended, or paused with its machine.
    Halted {
        /// How often.
        times: u64,
        /// For how long in all, in milliseconds.
        #[serde(deserialize_with = "number")]
        total_ms: f64,
    },
}

/// A delay of the client's own that is larger than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Excess {
    /// Its p99 in milliseconds.
    #[serde(deserialize_with = "number")]
    pub p99_ms: f64,
    /// The largest that is allowed, in milliseconds.
    #[serde(deserialize_with = "number")]
    pub allowed_ms: f64,
    /// The limit of which that is a share, in milliseconds.
    #[serde(deserialize_with = "number")]
    pub limit_ms: f64,
    /// Why, by what the threads did.
    pub cause: Cause,
}

/// Why the client was slow, by the clocks of its sending threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A thread waited for a core for more than the allowed share of the time, or for longer than it had one.
    Starved {
        /// Share of the time that it waited.
        #[serde(deserialize_with = "number")]
        waiting: f64,
        /// Share of the time that it had one, where known.
        busy: Option<f64>,
    },
    /// A thread was on a core for most of the time: this share.
    Busy(#[serde(deserialize_with = "number")] f64),
    /// Neither; or the system does not tell.
    Unknown,
}

impl OwnFault {
    /// Returns how far it is beyond its limit, to compare faults of one kind: more is worse.
    pub fn excess(&self) -> f64 {
        let over = |x: f64, allowed: f64| x / allowed.max(1e-9);
        match self {
            Self::MaxInFlight { held, .. } | Self::Exhausted { held } => *held as f64,
            Self::Behind { sent, due, .. } => over(*due as f64, *sent as f64),
            Self::Late(e) | Self::Lagging(e) => over(e.p99_ms, e.allowed_ms),
            Self::Starved { waiting, allowed } => over(*waiting, *allowed),
            Self::Halted { total_ms, .. } => *total_ms,
        }
    }

    /// Returns true if it is about the same limit.
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
