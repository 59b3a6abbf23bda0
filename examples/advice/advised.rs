//! The change that an advice means, in a simulated server.

use crate::case::Case;
use crate::knob::{Intervention, Knob};
use anyhow::Result;
use goodput::diagnosis::{
    Advice, BatchChange, Change, ComputeChange, DeploymentChange, Finding, MemoryChange, Remedy, Value,
};

/// Returns the knob that a change moves; `None` for one that moves none in a simulated server.
fn moved(change: &Change) -> Option<Knob> {
    match change {
        Change::Client { .. } | Change::Pool(_) => None,
        Change::Batch(change) => Some(match change {
            BatchChange::Cap | BatchChange::AdmitMore => Knob::Seats,
            BatchChange::MoreTokens | BatchChange::SmallerPrefillChunks => Knob::Tokens,
            BatchChange::ChunkedPrefill => Knob::ChunkedPrefill,
        }),
        Change::Memory(change) => Some(match change {
            MemoryChange::MoreKvCache
            | MemoryChange::RoomForPrefixes
            | MemoryChange::SmallerKvType
            | MemoryChange::MoreGpus => Knob::KvCache,
            MemoryChange::PrefixCacheOn => Knob::PrefixCache,
        }),
        Change::Compute(change) => match change {
            ComputeChange::EightBits | ComputeChange::MoreGpusForPrefill => Some(Knob::FasterCompute),
            ComputeChange::SmallerWeights { .. } | ComputeChange::MoreGpusForDecode => {
                Some(Knob::FasterMemory)
            }
            ComputeChange::CaptureGraphs { .. } => Some(Knob::FasterHost),
            ComputeChange::FewerGpusPerCopy | ComputeChange::NoDrafting => None,
        },
        Change::Deployment(change) => match change {
            DeploymentChange::MendErrors => Some(Knob::Errors),
            DeploymentChange::NearerClient => Some(Knob::Network),
            DeploymentChange::ShorterPrompts => Some(Knob::ShorterPrompts),
            DeploymentChange::FasterCompute => Some(Knob::FasterCompute),
            DeploymentChange::FasterMemory | DeploymentChange::SpeculativeDecoding => {
                Some(Knob::FasterMemory)
            }
            DeploymentChange::CheckHost => Some(Knob::FasterHost),
            DeploymentChange::MoreReplicas
            | DeploymentChange::RouteByPrefix
            | DeploymentChange::CheckInterconnect
            | DeploymentChange::LimitAdmission
            | DeploymentChange::RaisePowerLimit
            | DeploymentChange::CoolGpus
            | DeploymentChange::FreeClocks
            | DeploymentChange::FewerDrafts
            | DeploymentChange::Capacity => None,
        },
    }
}

/// Returns the change that an advice means; `None` for one that changes nothing in a simulated server. A setting is
/// changed to the value that the advice names.
pub(crate) fn meant(advice: &Advice, case: &Case) -> Result<Option<Intervention>> {
    let Some(knob) = moved(&advice.change) else { return Ok(None) };
    if let Some(remedy) = Remedy::of(advice) {
        let set = |case: Case, (flag, value): &(&'static str, Value)| {
            Some(case.set(flag.strip_prefix("server.simulated.")?, value.toml()?))
        };
        let changed = remedy.changes.iter().try_fold(case.clone(), set);
        return Ok(changed.map(|case| Intervention { knob, label: remedy.name, case }));
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

/// Returns true if the advice of one report moves a setting both ways.
pub(crate) fn contradict(findings: &[&Finding]) -> bool {
    let all: Vec<&Advice> = findings.iter().flat_map(|f| &f.advice).collect();
    all.iter().any(|one| all.iter().any(|other| one.opposes(other)))
}
