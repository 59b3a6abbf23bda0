//! Facts about the limits of the hardware.

use super::{Fact, Place};

/// A fact about the limits of the hardware.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HardwareFact {
    /// The least time to read weights and KV cache, as part of a TPOT.
    Floor {
        /// The least time.
        floor_ms: f64,
        /// TPOT.
        tpot_ms: f64,
        /// The step.
        at: Place,
    },
    /// Number of GPUs that hold one copy of the model.
    GpusTogether {
        /// Number of GPUs.
        gpus: u32,
    },
    /// Median TPOT of one request alone with more and with fewer GPUs.
    TpotByGpus {
        /// With more GPUs.
        more: GpusTpot,
        /// With fewer GPUs.
        fewer: GpusTpot,
    },
    /// Time beyond the floor with more and with fewer GPUs.
    BeyondFloor {
        /// Time with more GPUs.
        more_ms: f64,
        /// Time with fewer GPUs.
        fewer_ms: f64,
        /// Number of the fewer GPUs.
        fewer: u32,
    },
}

impl From<HardwareFact> for Fact {
    fn from(fact: HardwareFact) -> Self {
        Self::Hardware(fact)
    }
}

/// TPOT of one request alone on a number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpusTpot {
    /// GPUs that hold one copy of the model.
    pub gpus: u32,
    /// Median TPOT in milliseconds.
    pub tpot_ms: f64,
    /// The step.
    pub step: u32,
}
