//! Candidates for a fleet: one for each answer of a run that has a rate, and the reasons for the others.

use super::conditions::{measured, notes};
use super::pick::{left_out, picked, variant};
use super::refused::{Refused, no_answer, refusal, resume};
use crate::escape::clip;
use crate::words;
use anyhow::{Result, bail};
use goodput_core::caveat::Caveat;
use goodput_core::units::Positive;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_run::rundir::variants::State;
use goodput_stats::capacity::fleet::Replica;
use goodput_stats::capacity::sizing::{Candidate, ItemsOfRequest, MeasurementConditions};
use goodput_stats::capacity::workload_change::WorkloadChange;
use goodput_stats::capacity::{Capacity, Hardware};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::gpu::mean_watts_per_gpu;
use std::num::NonZeroU32;
use std::path::Path;

/// Values from the command line that replace those declared in the plan of a run.
#[derive(Debug, Clone, Default)]
pub struct HardwareOverrides {
    /// GPUs per copy of the model.
    pub gpus_per_replica: Option<NonZeroU32>,
    /// Price of a GPU per hour.
    pub price_per_hour: Option<Positive>,
    /// Currency of prices.
    pub currency: Option<String>,
    /// Power of a GPU, in watts.
    pub watts: Option<Positive>,
    /// Price of a kilowatt-hour.
    pub energy_price: Option<Positive>,
    /// Maximum cost of a million output tokens.
    pub max_cost_per_mtok: Option<Positive>,
    /// Output tokens per request.
    pub output_tokens: Option<Positive>,
}

impl HardwareOverrides {
    /// Returns the declared hardware with these values in its place.
    pub fn over(&self, declared: &Hardware) -> Hardware {
        let own = declared.clone();
        Hardware {
            gpus: own.gpus.or(own.tensor_parallel).or(self.gpus_per_replica),
            tensor_parallel: self.gpus_per_replica.or(own.tensor_parallel),
            price_per_hour: self.price_per_hour.or(own.price_per_hour),
            currency: self.currency.clone().or(own.currency),
            watts: self.watts.or(own.watts),
            energy_price: self.energy_price.or(own.energy_price),
            max_cost_per_mtok: self.max_cost_per_mtok.or(own.max_cost_per_mtok),
            ..own
        }
    }
}

/// Returns the candidates of a run called `name` in `folder`: for each main series the answer of the first tier, or
/// those that `select` names by series, tier, or `series/tier`.
///
/// # Errors
///
/// `select` names something that does not exist, or a given value contradicts the measurement.
pub fn of_run(
    run: &Run,
    (name, folder): (&str, &Path),
    select: Option<&str>,
    given: &HardwareOverrides,
) -> Result<(Vec<Candidate>, Vec<Refused>)> {
    let mut refused = Vec::new();
    if run.answers.is_empty() {
        return Ok((Vec::new(), vec![no_answer(run, name)]));
    }
    let mut found = Vec::new();
    for answer in picked(run, name, select)? {
        let part = run.part(&answer.series);
        let own = whose(run, answer, name);
        match candidate(part, answer, &own, given)? {
            Some(mut c) => {
                let variant = variant(run, &answer.series).map(str::to_owned);
                c.measured =
                    measured(part, answer, name, given).map(|m| MeasurementConditions { variant, ..m });
                c.notes.extend(
                    left_out(run, answer).map(|said| {
                        format!("Planned with is its series {}; {said}.", clip(&answer.series, 80))
                    }),
                );
                c.notes.extend(broken_off(run, answer, folder));
                found.push(c);
            }
            None => refused.push(refusal(run, answer, own, folder)),
        }
    }
    Ok((found, refused))
}

/// Returns a note that the sweep ended before its search was done; none for a variant that was measured completely.
fn broken_off(run: &Run, answer: &Answer, folder: &Path) -> Option<String> {
    let whole = run.variants.iter().any(|v| v.series == answer.series && v.state == State::Done);
    let ended = run.part(&answer.series).caveats.iter().any(Caveat::ends_sweep);
    (ended && !whole).then(|| {
        format!(
            "Its sweep was broken off before it was done: the rate rests on the steps measured until then. {} measures the rest.",
            resume(folder)
        )
    })
}

/// Returns the name of a run, with the part that distinguishes its answer from the others.
fn whose(run: &Run, answer: &Answer, name: &str) -> String {
    match words::whose(run, answer) {
        whose if whose.is_empty() => name.to_owned(),
        whose => format!("{name}, {whose}"),
    }
}

/// Returns one replica of the measured server, at the goodput and at the safe rate; `None` if no rate is shown to meet
/// the SLO.
///
/// # Errors
///
/// The GPUs of a replica do not divide the measured GPUs.
pub(crate) fn candidate(
    run: &Run,
    answer: &Answer,
    name: &str,
    given: &HardwareOverrides,
) -> Result<Option<Candidate>> {
    let hardware = given.over(&run.hardware);
    if let (Some(each), Some(all)) = (given.gpus_per_replica, hardware.gpu_count())
        && all % each.get() != 0
    {
        bail!(
            "--gpus-per-replica {each}: {name} was measured on {all} GPUs by its plan, which so many do not divide: replicas are copies of the \
             model, and the measured server is one or several of them"
        );
    }
    let Some(goodput) = run.capacity(answer) else { return Ok(None) };
    let safe = run.capacity_at_safe_rate(answer);
    let (watts, told) = watts(run, answer, &hardware, &goodput);
    let replica = |c: &Capacity| {
        let gpus = hardware.gpus_per_replica();
        let copies = f64::from(copies(&hardware));
        let tokens = c.output_tokens_per_s.map(|t| t / c.requests_per_s);
        Replica {
            rate: c.requests_per_s / copies,
            gpus,
            output_tokens: given.output_tokens.map(Positive::get).or(tokens),
            price_per_hour: hardware.price_per_hour.map(Positive::get),
            watts,
            energy_price: hardware.energy_price.map(Positive::get),
        }
    };
    let g = &answer.goodput;
    let estimate = usable_safe_rate(g).is_some() && g.rate().is_some();
    Ok(Some(Candidate {
        name: name.to_owned(),
        gpu: hardware.gpu.clone(),
        goodput: replica(&goodput),
        safe: safe.as_ref().map(replica),
        basis: if estimate && g.status() != Status::NotReached {
            "the goodput"
        } else {
            "the highest rate shown to meet"
        }
        .into(),
        currency: hardware.currency.clone(),
        max_cost_per_mtok: hardware.max_cost_per_mtok.map(Positive::get),
        measured: None,
        notes: notes(run, answer, &hardware).into_iter().chain(told).collect(),
        moved: moved(run),
        items: run
            .item()
            .zip(goodput.items_per_s)
            .map(|(item, rate)| ItemsOfRequest { item, per_request: rate / goodput.requests_per_s }),
    }))
}

/// Returns the effect of workload changes on the rate, if the run measured it.
fn moved(run: &Run) -> Vec<WorkloadChange> {
    let effects = run.view.sensitivity.iter().flat_map(|s| &s.effects);
    effects.filter_map(|e| Some(WorkloadChange::of(&e.factor, &e.elasticity?))).collect()
}

/// Returns the number of copies of the model that were measured together.
pub(super) fn copies(hardware: &Hardware) -> u32 {
    let each = hardware.gpus_per_replica();
    (hardware.gpu_count().unwrap_or(each) / each).max(1)
}

/// Returns the power of a GPU in watts: as declared, else as measured by `[[metrics]]` at the answer, if these cover
/// every GPU; and a note on the source.
fn watts(run: &Run, answer: &Answer, hardware: &Hardware, c: &Capacity) -> (Option<f64>, Option<String>) {
    if let Some(watts) = hardware.watts {
        return (Some(watts.get()), None);
    }
    let own = run.steps.iter().find(|s| s.step == c.step && s.series == answer.series);
    let measured = own.and_then(|s| mean_watts_per_gpu(&s.metrics));
    let all = hardware.gpu_count().map(|n| n as usize);
    match measured.filter(|(_, n)| Some(*n) == all) {
        Some((watts, _)) => {
            let said =
                format!("A GPU drew {} W in step {}, as its metrics had it.", words::figure(watts), c.step);
            (Some(watts), Some(said))
        }
        None => {
            let said = "Its plan has a price of energy, and what a GPU draws is told neither by hardware.watts nor by [[metrics]]: energy is \
                        in none of its costs; --watts says it.";
            (None, hardware.energy_price.map(|_| said.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests;
