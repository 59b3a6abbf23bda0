//! What a caveat is about: a step, a series, the end of the sweep.

use super::Caveat;

impl Caveat {
    /// Whether it says that the sweep was ended from outside before its search was done.
    pub const fn ends_sweep(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Deadline { .. } | Self::DiskLow { .. })
    }

    /// The step that it is about, where it is about one.
    pub const fn step(&self) -> Option<u32> {
        match self {
            Self::NotDrained { step, .. }
            | Self::Client { step, .. }
            | Self::SharedCores { step, .. }
            | Self::Refused { step, .. }
            | Self::ServerGone { step }
            | Self::Profiler { step, .. }
            | Self::PartialStep { step, .. }
            | Self::BrokenOff { step, .. }
            | Self::SlowReplica { step, .. }
            | Self::FailingReplica { step, .. }
            | Self::ColdHits { step, .. }
            | Self::TraceRepeated { step, .. }
            | Self::WarmMisses { step, .. } => Some(*step),
            _ => None,
        }
    }

    /// The series that it is about, where it names one.
    pub fn series(&self) -> Option<&str> {
        match self {
            Self::InputLengthOff { of, .. } | Self::LengthsNotPinned { of, .. } => of.series.as_deref(),
            _ => None,
        }
    }
}
