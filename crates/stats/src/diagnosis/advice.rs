//! Changes that would help, with the server's flags and the values to set.

use super::Kind;
use super::altered::Altered;
use super::change::{BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange};
use super::figure::{Figure, is_drafting};
use super::flags::Knob;
use super::forecast::Expected;
use super::pace::{self, Pace};
use super::pool::{self, PoolSize};
use super::settings::{Current, Value};
use super::subject::{Subject, is_one};
use super::suggestion::{Basis, Flag, NewValue, Suggestion, suggestion};
use crate::roofline::Precision;
use goodput_core::slo::Metric;

/// Time of an iteration for one request alone, in milliseconds, below which the host's work is taken for its larger part.
///
/// Reading the weights of 8 billion parameters in 16 bits takes an A100 80GB 7.9 ms (16 GB at 2,039 GB/s). The host adds some
/// milliseconds in every engine: they are the larger part of an iteration that is shorter as a whole.
pub const QUICK_MS: f64 = 8.0;

/// Part of the highest power limit from which on the present one counts as the highest: limits are whole watts of hundreds.
pub(super) const HIGHEST_LIMIT: f64 = 0.99;

/// Share of the time in which GPUs run nothing, above which they wait for their host.
pub(super) const IDLE: f64 = 0.5;

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
    /// The goodput that a model of the server foresees, if the change was simulated.
    pub expected: Option<Expected>,
}

impl Advice {
    /// Returns true if the two advise to move one setting in opposite directions.
    pub fn opposes(&self, other: &Self) -> bool {
        let (Some((knob, way)), Some((its_knob, its_way))) = (self.change.setting(), other.change.setting())
        else {
            return false;
        };
        knob == its_knob && way.is_up() != its_way.is_up()
    }
}

/// A value to set, and what it follows from.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The value.
    pub value: Value,
    /// Its basis.
    pub basis: Basis,
    /// Another flag that must change with it, with its value.
    pub with: Option<(Flag, Value)>,
}

/// Returns the advice to make a change; `None` if the server has no flag for it, or its setting cannot be changed so.
pub(super) fn advice(s: &Subject<'_>, change: Change) -> Option<Advice> {
    let Some((knob, direction)) = change.setting() else {
        return Some(Advice { change, flag: None, from: None, to: None, expected: None });
    };
    match suggestion(s, knob, direction) {
        Suggestion::Set(NewValue { flag, from, to: value, basis, with }) => Some(Advice {
            change,
            flag: Some(flag),
            from,
            to: Some(Target { value, basis, with }),
            expected: None,
        }),
        Suggestion::Toward { flag, from } => {
            Some(Advice { change, flag: Some(flag), from, to: None, expected: None })
        }
        Suggestion::AlreadySet(_) | Suggestion::AtBound(..) | Suggestion::NoFlag => None,
    }
}

/// Returns the changes that would help, without those for which this server has no flag, or none that can still be
/// changed. More replicas answer no faster one request alone, and faster GPUs that wait for their host only wait longer.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Vec<Advice> {
    let idle = Figure::GpusIdle.of(s).is_some_and(|idle| idle.value > IDLE);
    let faster = |change: &Change| Altered::of(change).is_some_and(Altered::is_of_gpus);
    let helps = |change: &Change| {
        !(is_one(s.at) && *change == DeploymentChange::MoreReplicas.into() || idle && faster(change))
    };
    changes(kind, s).into_iter().filter(helps).filter_map(|change| advice(s, change)).collect()
}

fn changes(kind: Kind, s: &Subject<'_>) -> Vec<Change> {
    match kind {
        Kind::ClientLimited => {
            let fault = s.facts.own.iter().find(|o| o.step == s.at.step).map(|o| o.fault);
            vec![Change::Client { fault, imported: s.facts.imported }]
        }
        Kind::Errors => vec![DeploymentChange::MendErrors.into()],
        // Fewer sequences would free memory too, but only by making requests wait: tried, they gain nothing.
        // A number of blocks that is set stays the same however much memory there is.
        Kind::Preemption | Kind::KvExhaustion if s.curve.settings.get(Knob::KvBlocks).is_some() => {
            vec![MemoryChange::MoreKvCache.into()]
        }
        Kind::Preemption | Kind::KvExhaustion => vec![
            MemoryChange::MoreKvCache.into(),
            MemoryChange::SmallerKvType.into(),
            MemoryChange::MoreGpus.into(),
        ],
        Kind::BatchTooSmall => vec![BatchChange::AdmitMore.into(), DeploymentChange::MoreReplicas.into()],
        Kind::BatchTooLarge => vec![BatchChange::Cap.into(), DeploymentChange::MoreReplicas.into()],
        Kind::CacheMisses => cache(s),
        Kind::Network => vec![DeploymentChange::NearerClient.into()],
        Kind::Throttled => clocks(s),
        Kind::IdleGpus => vec![DeploymentChange::CheckHost.into()],
        Kind::DraftingCosts => vec![ComputeChange::NoDrafting.into(), DeploymentChange::FewerDrafts.into()],
        Kind::SmallIterations => vec![BatchChange::MoreTokens.into()],
        Kind::PrefillStalls => {
            let first = if pace::reads_whole_prompts(s) {
                BatchChange::ChunkedPrefill
            } else {
                BatchChange::SmallerPrefillChunks
            };
            let pool = pool::size(s).map(Change::from);
            std::iter::once(first.into())
                .chain(pool)
                .chain([DeploymentChange::FasterCompute.into()])
                .collect()
        }
        Kind::CommunicationBound => {
            vec![ComputeChange::FewerGpusPerCopy.into(), DeploymentChange::CheckInterconnect.into()]
        }
        Kind::PrefillBound => prefill(s),
        Kind::DecodeBound => decode(s),
        Kind::BatchingTradeOff => {
            decode(s).into_iter().chain([DeploymentChange::MoreReplicas.into()]).collect()
        }
        Kind::Queueing => {
            vec![DeploymentChange::MoreReplicas.into(), DeploymentChange::LimitAdmission.into()]
        }
        Kind::Unstable => vec![DeploymentChange::Capacity.into(), DeploymentChange::MoreReplicas.into()],
    }
}

fn cache(s: &Subject<'_>) -> Vec<Change> {
    let mut all = vec![MemoryChange::PrefixCacheOn.into(), MemoryChange::RoomForPrefixes.into()];
    if s.curve.replicas.is_some_and(|n| n > 1) {
        all.push(DeploymentChange::RouteByPrefix.into());
    }
    all
}

/// Returns what lets the clocks of the slowest GPU rise, as far as its counters tell what holds them down.
fn clocks(s: &Subject<'_>) -> Vec<Change> {
    let holds = |figure: Figure| figure.of(s).is_some_and(|told| told.value > 0.5);
    let mut all: Vec<Change> = Vec::new();
    if holds(Figure::HeldByHeat) {
        all.push(DeploymentChange::CoolGpus.into());
    }
    if holds(Figure::HeldBySetting) {
        all.push(DeploymentChange::FreeClocks.into());
    }
    let highest = Figure::LimitOfMost.of(s).is_some_and(|limit| limit.value > HIGHEST_LIMIT);
    if highest || (holds(Figure::HeldByHeat) && !holds(Figure::HeldByPower)) {
        all.push(DeploymentChange::FasterCompute.into());
    } else if holds(Figure::HeldByPower) || all.is_empty() {
        all.push(DeploymentChange::RaisePowerLimit.into());
    }
    all
}

fn prefill(s: &Subject<'_>) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    // Eight bits read a prompt faster than the present sixteen.
    if s.curve.hardware.as_ref().is_none_or(|(_, m)| m.bytes() > 1.5) {
        all.push(ComputeChange::EightBits.into());
    }
    let more: [Change; 3] = [
        DeploymentChange::FasterCompute.into(),
        ComputeChange::MoreGpusForPrefill.into(),
        DeploymentChange::ShorterPrompts.into(),
    ];
    all.extend(more);
    // Tokens wait for the prompts of another class.
    let pool = pool::size(s).filter(|size| s.focus() == Some(Metric::Tpot) && *size != PoolSize::Unknown);
    all.extend(pool.map(Change::from));
    all.push(DeploymentChange::MoreReplicas.into());
    all
}

/// Returns what shortens a token that takes long even for one request alone: less to read, or less work of the host, as
/// far as the floor tells them apart.
fn decode(s: &Subject<'_>) -> Vec<Change> {
    if let Some(bound) = Figure::TpotTimesFloor.of(s).filter(|b| b.value > 2.0) {
        let share = 1.0 - 1.0 / bound.value;
        return vec![DeploymentChange::CheckHost.into(), ComputeChange::CaptureGraphs { share }.into()];
    }
    let floor_ms = s.curve.hardware.as_ref().and_then(|(machine, model)| {
        let fp8 =
            crate::roofline::Model { precision: Some(Precision::Fp8), bytes_per_parameter: None, ..*model };
        (model.bytes() > 1.5).then(|| machine.decode(&fp8, 1.0, 0.0).floor_ms)
    });
    let mut all: Vec<Change> = vec![
        ComputeChange::SmallerWeights { floor_ms }.into(),
        DeploymentChange::FasterMemory.into(),
        ComputeChange::MoreGpusForDecode.into(),
    ];
    let on = s.curve.settings.get(Knob::Speculative).is_some_and(|c| c.value == Value::Switch(true));
    if !on && !is_drafting(s) {
        all.push(DeploymentChange::SpeculativeDecoding.into());
    }
    // Without a floor the two are not told apart.
    let quick = s.curve.hardware.is_none() && Pace::of(s).is_some_and(|pace| pace.base_ms < QUICK_MS);
    all.insert(if quick { 0 } else { all.len() }, DeploymentChange::CheckHost.into());
    all
}
