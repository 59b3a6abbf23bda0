//! Facts about clocks, power and heat of GPUs.

use super::{Fact, Place};

/// A fact about the GPUs together, or about the one that is furthest below its highest clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GpuFact {
    /// The GPUs run something for a part of the time alone, with requests in flight.
    Idle {
        /// Mean share of the time in which they ran something.
        busy: f64,
        /// Their number.
        gpus: u32,
        /// Mean number of requests in flight.
        in_flight: f64,
        /// The step.
        at: Place,
    },
    /// The clock of its streaming multiprocessors is below the highest known one.
    Clock {
        /// Index of the GPU on its machine, if known.
        gpu: Option<u32>,
        /// Its mean clock, in MHz.
        mean_mhz: f64,
        /// The highest clock that it had in this run, or that the board supports, in MHz.
        highest_mhz: f64,
        /// The step.
        at: Place,
    },
    /// By its counters, power held the clock down.
    HeldByPower,
    /// By its counters, heat held the clock down.
    HeldByHeat {
        /// Highest temperature in the step, in °C, if known.
        celsius: Option<f64>,
    },
    /// By its counters, clocks that were set held it down.
    HeldBySetting,
    /// Its power, with the limit in force.
    Power {
        /// Mean power in watts.
        watts: f64,
        /// The limit in watts.
        limit_watts: f64,
    },
    /// The power limit in force, with the highest that the board accepts.
    PowerLimit {
        /// The limit in watts.
        limit_watts: f64,
        /// The highest one in watts.
        most_watts: f64,
    },
}

impl From<GpuFact> for Fact {
    fn from(fact: GpuFact) -> Self {
        Self::Gpu(fact)
    }
}
