//! What a series steps through.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of quantity that a step holds fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Requests per second, open loop: sent when due, whatever the server does.
    Rate,
    /// Requests in flight, closed loop: the next is sent when one is done.
    Concurrency,
    /// Conversations started per second.
    Sessions,
    /// Factor on the speed of a replayed trace.
    TraceScale,
}

impl Control {
    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Sessions => "sessions",
            Self::TraceScale => "trace-scale",
        }
    }

    /// The unit behind a level, with the space before it.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Rate => " req/s",
            Self::Concurrency => " in flight",
            Self::Sessions => " sessions/s",
            Self::TraceScale => " × trace speed",
        }
    }

    /// The control of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Rate, Self::Concurrency, Self::Sessions, Self::TraceScale]
            .into_iter()
            .find(|c| c.name() == name)
    }
}

/// One level of load: `Rate` 12.5 is 12.5 requests per second, `Concurrency` 8 keeps eight requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// What is held.
    pub control: Control,
    /// How much of it.
    pub value: f64,
}

impl Level {
    /// An open-loop level in requests per second.
    pub const fn rate(value: f64) -> Self {
        Self { control: Control::Rate, value }
    }

    /// A level of an open loop, or of a closed one: of whatever control.
    pub const fn new(control: Control, value: f64) -> Self {
        Self { control, value }
    }

    /// Requests per second, where that is what is held.
    pub fn per_s(self) -> Option<f64> {
        (self.control == Control::Rate).then_some(self.value)
    }

    /// Whether a level can have such a value: above nothing, and at most a thousand million.
    pub fn is_sound(value: f64) -> bool {
        value > 0.0 && value <= 1e9
    }

    /// A closed-loop level in requests in flight.
    pub fn concurrency(value: u32) -> Self {
        Self { control: Control::Concurrency, value: f64::from(value) }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", crate::units::short(self.value), self.control.unit())
    }
}
