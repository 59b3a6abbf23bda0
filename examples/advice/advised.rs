//! The change that an advice means, in a simulated server.

use crate::case::Case;
use crate::knob::{Intervention, Knob};
use anyhow::Result;
use goodput::diagnosis::{
    Advice, BatchChange, Change, ComputeChange, DeploymentChange, Finding, MemoryChange,
};

/// Where a change moves a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// More of it, or on.
    Up,
    /// Less of it, or off.
    Down,
}

/// Returns the knob that a change moves, and where to; `None` for one that moves none in a simulated server.
fn moved(change: &Change) -> Option<(Knob, Way)> {
    use Way::{Down, Up};
    match change {
        Change::Client { .. } => None,
        Change::Batch(change) => Some(match change {
            BatchChange::Cap => (Knob::Seats, Down),
            BatchChange::AdmitMore => (Knob::Seats, Up),
            BatchChange::MoreTokens => (Knob::Tokens, Up),
            BatchChange::ChunkedPrefill => (Knob::ChunkedPrefill, Up),
            BatchChange::SmallerPrefillChunks => (Knob::Tokens, Down),
        }),
        Change::Memory(change) => Some(match change {
            MemoryChange::MoreKvCache
            | MemoryChange::RoomForPrefixes
            | MemoryChange::SmallerKvType
            | MemoryChange::MoreGpus => (Knob::KvCache, Up),
            MemoryChange::PrefixCacheOn => (Knob::PrefixCache, Up),
        }),
        Change::Compute(change) => match change {
            ComputeChange::EightBits | ComputeChange::MoreGpusForPrefill => Some((Knob::FasterCompute, Up)),
            ComputeChange::SmallerWeights { .. } | ComputeChange::MoreGpusForDecode => {
                Some((Knob::FasterMemory, Up))
            }
            ComputeChange::CaptureGraphs { .. } => Some((Knob::FasterHost, Up)),
            ComputeChange::FewerGpusPerCopy => None,
        },
        Change::Deployment(change) => match change {
            DeploymentChange::MendErrors => Some((Knob::Errors, Down)),
            DeploymentChange::NearerClient => Some((Knob::Network, Down)),
            DeploymentChange::ShorterPrompts => Some((Knob::ShorterPrompts, Up)),
            DeploymentChange::FasterCompute => Some((Knob::FasterCompute, Up)),
            DeploymentChange::FasterMemory | DeploymentChange::SpeculativeDecoding => {
                Some((Knob::FasterMemory, Up))
            }
            DeploymentChange::CheckHost => Some((Knob::FasterHost, Up)),
            DeploymentChange::MoreReplicas
            | DeploymentChange::RouteByPrefix
            | DeploymentChange::CheckInterconnect
            | DeploymentChange::PoolForPrompts
            | DeploymentChange::LimitAdmission
            | DeploymentChange::Capacity => None,
        },
    }
}

/// Returns the change that an advice means; `None` for one that changes nothing in a simulated server. A setting is
/// changed to the value that the advice names.
pub(crate) fn meant(advice: &Advice, case: &Case) -> Result<Option<Intervention>> {
    let Some((knob, _)) = moved(&advice.change) else { return Ok(None) };
    let key = advice.flag.and_then(|flag| flag.name.strip_prefix("server.simulated."));
    let value = advice.to.as_ref().and_then(|to| to.value.toml());
    if let (Some(key), Some(value)) = (key, value) {
        let mut changed = case.clone().set(key, &value);
        let with = advice.to.as_ref().and_then(|to| to.with.as_ref());
        let with = with
            .and_then(|(flag, value)| Some((flag.name.strip_prefix("server.simulated.")?, value.toml()?)));
        if let Some((key, value)) = with {
            changed = changed.set(key, value);
        }
        return Ok(Some(Intervention { knob, label: value, case: changed }));
    }
    Ok(match knob {
        // A setting without a value changes nothing.
        Knob::Seats | Knob::Tokens | Knob::KvCache | Knob::PrefixCache | Knob::ChunkedPrefill => None,
        Knob::Errors
        | Knob::Network
        | Knob::ShorterPrompts
        | Knob::ShorterAnswers
        | Knob::FasterMemory
        | Knob::FasterCompute
        | Knob::FasterHost => knob.interventions(case)?.pop(),
    })
}

/// Returns true if the advice of one report moves a knob both ways.
pub(crate) fn contradict(findings: &[&Finding]) -> bool {
    let all: Vec<(Knob, Way)> =
        findings.iter().flat_map(|f| &f.advice).filter_map(|a| moved(&a.change)).collect();
    all.iter().any(|(knob, way)| all.iter().any(|(other, its)| knob == other && way != its))
}
