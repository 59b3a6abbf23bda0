//! Changes that would help, with the server's flags and values to start from.

use super::Kind;
use super::change::{BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange};
use super::figure::Figure;
use super::flags::{Flags, Knob};
use super::subject::Subject;
use crate::roofline::{Gpu, Precision};

/// A change that would help.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Advice {
    /// The change.
    pub change: Change,
    /// The flag of the server for the change, if there is one.
    pub flag: Option<Flag>,
    /// The value to start from, if it is known for the GPU.
    pub start: Option<Start>,
}

/// A flag of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag, as written on the command line; for a simulated server, the key of the plan.
    pub name: &'static str,
    /// True if the engine is unknown and the flag is vLLM's.
    pub is_guess: bool,
}

/// A value to start from on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// Name of the GPU.
    pub gpu: &'static str,
    /// The value.
    pub value: StartValue,
}

/// The value of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StartValue {
    /// A share of the GPU's memory.
    Share(f64),
    /// A number of sequences or tokens.
    Count(u32),
}

/// Mean share of seats in use from which a batch counts as full most of the time.
const FULL: f64 = 0.9;

/// Values to start from on a GPU: share of its memory, sequences, tokens per iteration.
type Starts = (f64, u32, u32);

/// The project's starting values by GPU. Other GPUs share the row of the one nearest in memory and bandwidth.
const STARTS: &[(&[&str], Starts)] = &[
    (&["A10", "A40", "L4", "L40S"], (0.90, 128, 4096)),
    (&["A100 40GB", "A100 80GB", "A100 80GB PCIe"], (0.95, 256, 8192)),
    (&["H100", "H100 PCIe", "H100 NVL", "H200", "B200", "MI300X"], (0.95, 512, 16_384)),
];

/// Returns the flags of a curve's server; vLLM's if its engine is unknown.
pub(super) fn flags(s: &Subject<'_>) -> Flags {
    s.curve.flags.unwrap_or(Flags::Vllm)
}

/// Returns the flag for a setting, vLLM's if the engine is unknown; `None` if this server has none.
pub(super) fn flag(s: &Subject<'_>, knob: Knob) -> Option<Flag> {
    let name = flags(s).flag(knob)?;
    Some(Flag { name, is_guess: s.curve.flags.is_none() })
}

fn starts(s: &Subject<'_>) -> Option<(&'static str, Starts)> {
    let gpu = Gpu::find(s.curve.gpu.as_deref()?)?;
    let (_, starts) = STARTS.iter().find(|(names, _)| names.contains(&gpu.name))?;
    Some((gpu.name, *starts))
}

/// Returns the value to start from, for the settings that have one; `None` if the GPU is unknown.
fn start(s: &Subject<'_>, knob: Knob) -> Option<Start> {
    // Engines define shares of memory, and chunks of prompts, differently.
    let own = matches!(flags(s), Flags::Vllm | Flags::Simulated);
    let (gpu, (memory, sequences, tokens)) = starts(s)?;
    let value = match knob {
        Knob::Memory if flags(s) == Flags::Vllm => StartValue::Share(memory),
        Knob::Sequences => StartValue::Count(sequences),
        Knob::Tokens if own => StartValue::Count(tokens),
        Knob::Memory
        | Knob::Tokens
        | Knob::KvType
        | Knob::Quantisation
        | Knob::TensorParallel
        | Knob::PrefixCache
        | Knob::MaxLength
        | Knob::Graphs => return None,
    };
    Some(Start { gpu, value })
}

/// Returns true if the value to start from lies in the advised direction from the present value, or if the present
/// value is unknown.
fn helps(s: &Subject<'_>, knob: Knob, lower: bool) -> bool {
    let Some((_, (_, sequences, _))) = starts(s).filter(|_| knob == Knob::Sequences) else { return true };
    let sequences = f64::from(sequences);
    if lower {
        s.at.server.running_mean.is_none_or(|ran| ran > sequences)
    } else {
        s.curve.seats.is_none_or(|seats| f64::from(seats) < sequences)
    }
}

/// Returns the changes that would help, without those for which this server has no flag.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Vec<Advice> {
    let advice = |change: Change| match change.knob() {
        None => Some(Advice { change, flag: None, start: None }),
        Some(knob) => {
            let flag = Some(flag(s, knob)?);
            let start = start(s, knob).filter(|_| helps(s, knob, change.lowers_sequences()));
            Some(Advice { change, flag, start })
        }
    };
    changes(kind, s).into_iter().filter_map(advice).collect()
}

fn changes(kind: Kind, s: &Subject<'_>) -> Vec<Change> {
    let ran = s.at.server.running_mean;
    match kind {
        Kind::ClientLimited => {
            let fault = s.facts.own.iter().find(|o| o.step == s.at.step).map(|o| o.fault);
            vec![Change::Client { fault, imported: s.facts.imported }]
        }
        Kind::Preemption => vec![
            BatchChange::AdmitFewer { ran }.into(),
            MemoryChange::MoreKvCache.into(),
            MemoryChange::SmallerKvType.into(),
            MemoryChange::MoreGpus.into(),
        ],
        Kind::KvExhaustion => vec![
            MemoryChange::MoreKvCache.into(),
            MemoryChange::SmallerKvType.into(),
            MemoryChange::ShorterContext.into(),
            BatchChange::AdmitFewerIfPreempted { ran }.into(),
            MemoryChange::MoreGpus.into(),
        ],
        Kind::BatchTooSmall => vec![BatchChange::AdmitMore.into(), BatchChange::MoreTokens.into()],
        Kind::CacheMisses => {
            let several = s.curve.replicas.is_some_and(|n| n > 1);
            let mut all = vec![MemoryChange::PrefixCacheOn.into(), MemoryChange::RoomForPrefixes.into()];
            if several {
                all.push(DeploymentChange::RouteByPrefix.into());
            }
            all
        }
        Kind::CommunicationBound => {
            vec![ComputeChange::FewerGpusPerCopy.into(), DeploymentChange::CheckInterconnect.into()]
        }
        Kind::PrefillBound => prefill(s),
        Kind::DecodeBound => decode(s),
        Kind::BatchingTradeOff => {
            vec![
                BatchChange::Cap.into(),
                BatchChange::SmallerPrefillChunks.into(),
                DeploymentChange::MoreReplicas.into(),
            ]
        }
        Kind::Queueing if full(s) => vec![
            BatchChange::RaiseFull.into(),
            MemoryChange::RoomForMoreRequests.into(),
            DeploymentChange::MoreReplicas.into(),
        ],
        Kind::Queueing => vec![
            BatchChange::LargerPrefillChunks.into(),
            BatchChange::RaiseIfFewRun.into(),
            DeploymentChange::MoreReplicas.into(),
        ],
        Kind::Unstable => vec![DeploymentChange::Capacity.into(), DeploymentChange::MoreReplicas.into()],
    }
}

/// Returns true if the seats of the batch are taken while the step runs.
fn full(s: &Subject<'_>) -> bool {
    let taken = s.curve.seats.zip(s.at.server.running_mean);
    taken.is_some_and(|(seats, running)| running >= FULL * f64::from(seats))
}

fn prefill(s: &Subject<'_>) -> Vec<Change> {
    let mut all = vec![MemoryChange::CachePrefixes.into(), DeploymentChange::ShorterPrompts.into()];
    // Eight bits read a prompt faster than the present sixteen.
    if s.curve.hardware.as_ref().is_none_or(|(_, m)| m.bytes() > 1.5) {
        all.push(ComputeChange::EightBits.into());
    }
    all.push(ComputeChange::MoreGpusForPrefill.into());
    all
}

fn decode(s: &Subject<'_>) -> Vec<Change> {
    if let Some(bound) = Figure::TpotTimesFloor.of(s).filter(|b| b.value > 2.0) {
        let share = 1.0 - 1.0 / bound.value;
        return vec![ComputeChange::CaptureGraphs { share }.into(), DeploymentChange::CheckHost.into()];
    }
    let floor_ms = s.curve.hardware.as_ref().and_then(|(machine, model)| {
        let fp8 =
            crate::roofline::Model { precision: Some(Precision::Fp8), bytes_per_parameter: None, ..*model };
        (model.bytes() > 1.5).then(|| machine.decode(&fp8, 1.0, 0.0).floor_ms)
    });
    vec![
        ComputeChange::SmallerWeights { floor_ms }.into(),
        ComputeChange::MoreGpusForDecode.into(),
        DeploymentChange::SpeculativeDecoding.into(),
        DeploymentChange::LessLoadIsNoHelp.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gpu_of_the_table_has_values_to_start_from() {
        for gpu in crate::roofline::GPUS {
            assert!(STARTS.iter().any(|(names, _)| names.contains(&gpu.name)), "{}", gpu.name);
        }
        let of = |name: &str| STARTS.iter().find(|(names, _)| names.contains(&name)).map(|(_, s)| *s);
        assert_eq!(of("A40"), Some((0.90, 128, 4096)));
        assert_eq!(of("A100 80GB"), Some((0.95, 256, 8192)));
        assert_eq!(of("H100"), Some((0.95, 512, 16_384)));
    }
}
