//! Levels of load.

use crate::named_enum;
use serde::{Deserialize, Serialize};
use std::fmt;

named_enum! {
    /// The quantity that a step holds constant.
    #[derive(Default)]
    pub enum Control {
        /// Requests per second, open loop: sent when due, however slowly the server answers.
        #[default]
        Rate = "rate",
        /// Requests in flight, closed loop: the next is sent when one finishes.
        Concurrency = "concurrency",
        /// Conversations started per second.
        Sessions = "sessions",
        /// Factor on the speed of a replayed trace.
        TraceScale = "trace-scale",
    }
}

impl Control {
    /// Returns the unit that follows the value, with its leading space.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Rate => " req/s",
            Self::Concurrency => " in flight",
            Self::Sessions => " sessions/s",
            Self::TraceScale => " × trace speed",
        }
    }
}

/// One level of load: a rate of 12.5 is 12.5 requests per second, a concurrency of 8 keeps eight requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Level {
    /// The quantity held constant.
    pub control: Control,
    /// Its value, in the unit of the control.
    #[schemars(range(min = 0.0))]
    pub value: f64,
}

impl Level {
    /// Creates an open-loop level in requests per second.
    pub const fn rate(value: f64) -> Self {
        Self { control: Control::Rate, value }
    }

    /// Creates a level of any control.
    pub const fn new(control: Control, value: f64) -> Self {
        Self { control, value }
    }

    /// Returns the requests per second of a `Rate` level.
    pub fn per_s(self) -> Option<f64> {
        (self.control == Control::Rate).then_some(self.value)
    }

    /// Returns true if `value` is in the range of levels: above 0, at most 10⁹.
    pub fn is_sound(value: f64) -> bool {
        value > 0.0 && value <= 1e9
    }

    /// Creates a closed-loop level in requests in flight.
    pub fn concurrency(value: u32) -> Self {
        Self { control: Control::Concurrency, value: f64::from(value) }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", crate::units::short(self.value), self.control.unit())
    }
}
