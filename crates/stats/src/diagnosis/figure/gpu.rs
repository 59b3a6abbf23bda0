//! Figures of clocks, power and heat of GPUs, from the plan's `[[metrics]]`.

use super::super::fact::{GpuFact, Place};
use super::super::subject::Subject;
use super::Reading;
use crate::stats::gpu::{GpuState, gpu_states, gpu_use};

/// Least mean number of requests in flight with which an engine hardly ever has nothing to do.
const BUSY: f64 = 2.0;

pub(super) fn idle(s: &Subject<'_>) -> Option<Reading> {
    let in_flight = s.at.in_flight_mean;
    let (busy, gpus) = gpu_use(&s.at.metrics).filter(|_| in_flight >= BUSY)?;
    let fact = GpuFact::Idle { busy, gpus: gpus as u32, in_flight, at: Place::of(s.at) };
    Some(Reading::new(1.0 - busy, [s.at.step], fact))
}

/// Returns the GPU of the examined step that is furthest below its highest clock, with its mean and its highest clock in MHz:
/// the largest that was read of it in any step of the run, or the one that the board supports if that is higher.
fn slowest(s: &Subject<'_>) -> Option<(GpuState, f64, f64)> {
    let now = gpu_states(&s.at.metrics);
    if now.is_empty() {
        return None;
    }
    let all: Vec<_> = s.all.iter().map(|step| gpu_states(&step.metrics)).collect();
    let clocked = now.into_iter().filter_map(|(gpu, state)| {
        let seen = all.iter().filter_map(|of_step| of_step.get(&gpu));
        let highest = seen.filter_map(|state| state.clock_most_mhz).chain(state.clock_max_mhz);
        let highest = highest.reduce(f64::max).filter(|mhz| *mhz > 0.0)?;
        Some((state, state.clock_mhz?, highest))
    });
    let share = |(_, mean, highest): &(GpuState, f64, f64)| mean / highest;
    // GPUs that hold one copy of the model wait for the slowest of them.
    clocked.min_by(|a, b| share(a).total_cmp(&share(b)))
}

pub(super) fn clock_lost(s: &Subject<'_>) -> Option<Reading> {
    let (state, mean_mhz, highest_mhz) = slowest(s)?;
    let fact = GpuFact::Clock { gpu: state.index, mean_mhz, highest_mhz, at: Place::of(s.at) };
    Some(Reading::new((1.0 - mean_mhz / highest_mhz).max(0.0), [s.at.step], fact))
}

/// Returns 1 or 0 for what a counter tells, with a fact where it is so.
fn held(s: &Subject<'_>, told: Option<bool>, fact: GpuFact) -> Option<Reading> {
    let step = [s.at.step];
    Some(if told? { Reading::new(1.0, step, fact) } else { Reading::silent(0.0, step) })
}

pub(super) fn held_by_power(s: &Subject<'_>) -> Option<Reading> {
    held(s, slowest(s)?.0.held_by_power, GpuFact::HeldByPower)
}

pub(super) fn held_by_heat(s: &Subject<'_>) -> Option<Reading> {
    let (state, ..) = slowest(s)?;
    held(s, state.held_by_heat, GpuFact::HeldByHeat { celsius: state.celsius })
}

pub(super) fn held_by_setting(s: &Subject<'_>) -> Option<Reading> {
    held(s, slowest(s)?.0.held_by_setting, GpuFact::HeldBySetting)
}

pub(super) fn power_of_limit(s: &Subject<'_>) -> Option<Reading> {
    let (state, ..) = slowest(s)?;
    let (watts, limit_watts) = (state.watts?, state.limit_watts?);
    Some(Reading::new(watts / limit_watts, [s.at.step], GpuFact::Power { watts, limit_watts }))
}

pub(super) fn limit_of_most(s: &Subject<'_>) -> Option<Reading> {
    let (state, ..) = slowest(s)?;
    let (limit_watts, most_watts) = (state.limit_watts?, state.limit_max_watts?);
    Some(Reading::new(limit_watts / most_watts, [s.at.step], GpuFact::PowerLimit { limit_watts, most_watts }))
}
