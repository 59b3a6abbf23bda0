//! Fleet size under a changed workload, extrapolated from the measured elasticity of the goodput.

use super::demand::Demand;
use super::fleet::{Fleet, Replica, Reserve};
use crate::stats::elasticity::Elasticity;
use goodput_workload::factors::Factor;
use serde::Serialize;

/// Relative change of a factor for which bands are given: 20 % more, or 20 % less.
pub const CHANGE: f64 = 0.2;

/// Rate of a replica under a changed workload, relative to the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct WorkloadChange {
    /// The factor that changes.
    #[serde(flatten)]
    pub factor: Factor,
    /// Multiplier of the factor, in the direction in which the rate falls.
    pub times: f64,
    /// Multiplier of the rate.
    pub rate_times: f64,
    /// 90 % interval of `rate_times`; `None` if the elasticity has none.
    pub rate_times90: Option<[f64; 2]>,
}

impl WorkloadChange {
    /// Extrapolates an elasticity e to a change of the factor by [`CHANGE`] in the direction in which the rate falls: rate ×
    /// timesᵉ.
    pub fn of(factor: &Factor, e: &Elasticity) -> Self {
        let times = if e.value > 0.0 { 1.0 - CHANGE } else { 1.0 + CHANGE };
        let rate_times90 = e.interval90.map(|[low, high]| {
            let [a, b] = [times.powf(low), times.powf(high)];
            [a.min(b), a.max(b)]
        });
        Self { factor: factor.clone(), times, rate_times: times.powf(e.value), rate_times90 }
    }
}

/// Number of GPUs for the same demand under a changed workload.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FleetBand {
    /// The change of the workload.
    #[serde(flatten)]
    pub moved: WorkloadChange,
    /// Number of GPUs at the expected rate.
    pub gpus: u64,
    /// Number of GPUs at the ends of the interval, the smaller first; `None` without an interval.
    pub gpus90: Option<[u64; 2]>,
}

impl FleetBand {
    /// Computes the fleet of a replica for a demand, with the replica's rate changed.
    pub fn of(moved: &WorkloadChange, replica: &Replica, demand: &Demand, reserve: &Reserve) -> Self {
        let gpus =
            |times: f64| Fleet::of(&Replica { rate: replica.rate * times, ..*replica }, demand, reserve).gpus;
        Self {
            moved: moved.clone(),
            gpus: gpus(moved.rate_times),
            gpus90: moved.rate_times90.map(|[low, high]| [gpus(high), gpus(low)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Volume;
    use goodput_workload::factors::FactorKind;

    #[test]
    fn longer_prompts_take_more_gpus_and_fewer_hits_as_well() {
        let factor = |kind| Factor { kind, class: None };
        let e = Elasticity { value: -1.0, interval90: Some([-1.3, -0.7]) };
        let longer = WorkloadChange::of(&factor(FactorKind::PromptLength), &e);
        assert!((longer.times - 1.2).abs() < 1e-12 && (longer.rate_times - 1.0 / 1.2).abs() < 1e-12);
        let replica = Replica {
            rate: 16.0,
            gpus: 1,
            output_tokens: None,
            price_per_hour: None,
            watts: None,
            energy_price: None,
        };
        // 57.87 requests/s: 4 of 16 each; 5 of 13.33; from 14.09 (5) to 12.63 (5).
        let demand = Demand::of_volume(Volume::try_from(5e6).unwrap(), 1.0);
        let band = FleetBand::of(&longer, &replica, &demand, &Reserve::default());
        assert_eq!((band.gpus, band.gpus90), (5, Some([5, 5])));
        let fewer =
            WorkloadChange::of(&factor(FactorKind::CacheShare), &Elasticity { value: 0.5, interval90: None });
        assert!((fewer.times - 0.8).abs() < 1e-12 && fewer.rate_times < 1.0);
        assert_eq!(FleetBand::of(&fewer, &replica, &demand, &Reserve::default()).gpus90, None);
    }
}
