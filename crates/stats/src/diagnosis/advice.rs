//! Changes that would help, with the server's flags and the values to set.

use super::Kind;
use super::change::{BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange};
use super::figure::Figure;
use super::settings::{Current, Value};
use super::subject::Subject;
use super::suggestion::{Basis, Flag, NewValue, Suggestion, suggestion};
use crate::roofline::Precision;

/// A change that would help.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The change.
    pub change: Change,
    /// The flag of the server for the change, if there is one.
    pub flag: Option<Flag>,
    /// The present value of the setting, if it is known.
    pub from: Option<Current>,
    /// The suggested value, if enough is known for one.
    pub to: Option<Target>,
}

/// A value to set, and what it follows from.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The value.
    pub value: Value,
    /// What it follows from.
    pub basis: Basis,
    /// Another flag that must change with it, with its value.
    pub with: Option<(Flag, Value)>,
}

/// Mean share of seats in use from which a batch counts as full most of the time.
const FULL: f64 = 0.9;

/// Returns the advice to make a change; `None` if the server has no flag for it, or its setting cannot be changed so.
fn advice(s: &Subject<'_>, change: Change) -> Option<Advice> {
    let Some((knob, direction)) = change.setting() else {
        return Some(Advice { change, flag: None, from: None, to: None });
    };
    match suggestion(s, knob, direction) {
        Suggestion::Set(NewValue { flag, from, to: value, basis, with }) => {
            Some(Advice { change, flag: Some(flag), from, to: Some(Target { value, basis, with }) })
        }
        Suggestion::Toward { flag, from } => Some(Advice { change, flag: Some(flag), from, to: None }),
        Suggestion::AlreadySet(_) | Suggestion::AtBound(..) | Suggestion::NoFlag => None,
    }
}

/// Returns the changes that would help, without those for which this server has no flag, or none that can still be
/// changed.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Vec<Advice> {
    changes(kind, s).into_iter().filter_map(|change| advice(s, change)).collect()
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
