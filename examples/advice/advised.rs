//! The change that an advice means, in a simulated server.

use crate::case::Case;
use crate::knob::{Intervention, Knob};
use anyhow::{Context, Result};
use goodput::diagnosis::{
    Advice, BatchChange, Change, ComputeChange, DeploymentChange, Finding, MemoryChange,
};
use goodput::sim::config::{Engine, Simulated};

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
            BatchChange::AdmitFewer { .. } | BatchChange::AdmitFewerIfPreempted { .. } | BatchChange::Cap => {
                (Knob::Seats, Down)
            }
            BatchChange::AdmitMore | BatchChange::RaiseFull | BatchChange::RaiseIfFewRun => (Knob::Seats, Up),
            BatchChange::MoreTokens | BatchChange::LargerPrefillChunks => (Knob::Tokens, Up),
            BatchChange::SmallerPrefillChunks => (Knob::Tokens, Down),
        }),
        Change::Memory(change) => match change {
            MemoryChange::MoreKvCache
            | MemoryChange::RoomForMoreRequests
            | MemoryChange::RoomForPrefixes
            | MemoryChange::SmallerKvType
            | MemoryChange::MoreGpus => Some((Knob::KvCache, Up)),
            MemoryChange::PrefixCacheOn | MemoryChange::CachePrefixes => Some((Knob::PrefixCache, Up)),
            MemoryChange::ShorterContext => None,
        },
        Change::Compute(change) => match change {
            ComputeChange::EightBits | ComputeChange::MoreGpusForPrefill => Some((Knob::FasterCompute, Up)),
            ComputeChange::SmallerWeights { .. } | ComputeChange::MoreGpusForDecode => {
                Some((Knob::FasterMemory, Up))
            }
            ComputeChange::CaptureGraphs { .. } => Some((Knob::FasterHost, Up)),
            ComputeChange::FewerGpusPerCopy => None,
        },
        Change::Deployment(change) => match change {
            DeploymentChange::ShorterPrompts => Some((Knob::ShorterPrompts, Up)),
            DeploymentChange::SpeculativeDecoding => Some((Knob::FasterMemory, Up)),
            DeploymentChange::CheckHost => Some((Knob::FasterHost, Up)),
            DeploymentChange::MoreReplicas
            | DeploymentChange::RouteByPrefix
            | DeploymentChange::CheckInterconnect
            | DeploymentChange::LessLoadIsNoHelp
            | DeploymentChange::Capacity => None,
        },
    }
}

/// Returns the change that an advice means; `None` for one that changes nothing in a simulated server.
pub(crate) fn meant(advice: &Advice, case: &Case) -> Result<Option<Intervention>> {
    let Some((knob, way)) = moved(&advice.change) else { return Ok(None) };
    let sim = case.plan(&[])?.simulated()?.context("a case has a simulated server")?;
    let Engine::Batch { deployment, .. } = &sim.engine else { return Ok(None) };
    let limits = deployment.limits;
    let number = |key: &'static str, now: u32, up: f64, down: f64, least: u32| {
        let factor = if way == Way::Up { up } else { down };
        let value = ((f64::from(now) * factor).round() as u32).max(least).to_string();
        Some(Intervention { knob, label: value.clone(), case: case.clone().set(key, value) })
    };
    let switch = |key: &'static str, now: bool| {
        let on = way == Way::Up;
        (on != now).then(|| Intervention { knob, label: on.to_string(), case: case.clone().set(key, on) })
    };
    Ok(match knob {
        Knob::Seats => number("max-num-seqs", limits.max_num_seqs.get(), 4.0, 0.5, 1),
        Knob::Tokens => {
            number("max-num-batched-tokens", limits.max_num_batched_tokens.get(), 2.0, 0.25, least(&sim))
        }
        Knob::KvCache => number("kv-blocks", limits.kv_blocks.get(), 2.0, 0.5, 64),
        Knob::PrefixCache => switch("prefix-cache", limits.prefix_cache),
        Knob::ChunkedPrefill => switch("chunked-prefill", limits.chunked_prefill),
        Knob::Errors
        | Knob::Network
        | Knob::ShorterPrompts
        | Knob::ShorterAnswers
        | Knob::FasterMemory
        | Knob::FasterCompute
        | Knob::FasterHost => knob.interventions(case)?.pop(),
    })
}

fn least(sim: &Simulated) -> u32 {
    match &sim.engine {
        Engine::Batch { deployment, .. } if deployment.limits.chunked_prefill => {
            deployment.limits.max_num_seqs.get()
        }
        _ => sim.max_model_len.get(),
    }
}

/// Returns true if the advice of one report moves a knob both ways.
pub(crate) fn contradict(findings: &[&Finding]) -> bool {
    let all: Vec<(Knob, Way)> =
        findings.iter().flat_map(|f| &f.advice).filter_map(|a| moved(&a.change)).collect();
    all.iter().any(|(knob, way)| all.iter().any(|(other, its)| knob == other && way != its))
}
