//! Fleet size: from the rate of one replica and the demand to replicas, GPUs, utilisation, energy and cost.
//!
//! ```text
//! required rate   = peak rate × headroom                        requests/s
//! replicas        = ⌈required rate / rate of one replica⌉ + spare replicas
//! GPUs            = replicas × GPUs per replica
//! utilisation     = rate / (replicas × rate of one replica)     at the mean, at the peak, and with one replica fewer
//! cost of an hour = GPUs × (price of a GPU-hour + watts / 1,000 × price of a kWh)
//! cost of a day   = 24 × that;  of a month = 365 / 12 days
//! per million output tokens, at this demand = cost of a day / (requests of a day × output tokens of one) × 10⁶
//! per million output tokens, at full load   = cost of a replica-second / (its rate × output tokens of one) × 10⁶
//! ```

use super::demand::{DAY_S, Demand};
use super::{gpu_hour, positive};
use serde::Serialize;

/// Days per month: 365 / 12, so a month has 730 hours.
pub const MONTH_DAYS: f64 = 365.0 / 12.0;

/// Relative rounding error: a smaller fraction of a replica does not require another one.
const TOLERANCE: f64 = 1e-6;

/// Capacity and cost of one copy of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Replica {
    /// Requests per second that it sustains.
    pub rate: f64,
    /// Number of GPUs.
    pub gpus: u32,
    /// Mean output tokens per request, if known.
    pub output_tokens: Option<f64>,
    /// Price of one GPU for an hour.
    pub price_per_hour: Option<f64>,
    /// Power of one GPU under load, in watts.
    pub watts: Option<f64>,
    /// Price of a kilowatt-hour, if energy is paid separately.
    pub energy_price: Option<f64>,
}

impl Replica {
    /// Returns the cost of one GPU for an hour, energy included if it has a price of its own; `None` if neither is known.
    pub fn cost_per_gpu_hour(&self) -> Option<f64> {
        gpu_hour(self.price_per_hour, self.watts, self.energy_price)
    }

    /// Returns the cost of a thousand requests with the replica always at its rate.
    pub fn full_load_per_1000_requests(&self) -> Option<f64> {
        Some(self.cost_per_gpu_hour()? * f64::from(self.gpus) / 3_600.0 / positive(self.rate)? * 1e3)
    }

    /// Returns the cost of a million output tokens with the replica always at its rate.
    pub fn full_load_per_mtok(&self) -> Option<f64> {
        Some(self.full_load_per_1000_requests()? / positive(self.output_tokens?)? * 1e3)
    }

    /// Returns the requests per second that one currency unit per hour buys.
    pub fn rate_per_cost(&self) -> Option<f64> {
        positive(self.cost_per_gpu_hour()? * f64::from(self.gpus)).map(|cost| self.rate / cost)
    }
}

/// Capacity held in reserve beyond the demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Reserve {
    /// Factor by which the peak is multiplied.
    pub headroom: f64,
    /// Number of replicas beyond those needed, for failures.
    pub spares: u32,
}

impl Default for Reserve {
    fn default() -> Self {
        Self { headroom: 1.0, spares: 0 }
    }
}

/// Returns how many whole replicas serve a rate: at least one.
pub fn replicas_for(rate: f64, each: f64) -> u64 {
    let exact = rate / each;
    ((exact * (1.0 - TOLERANCE)).ceil() as u64).max(1)
}

/// Replicas that serve a demand, with their utilisation, energy and cost.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Fleet {
    /// The replica that the fleet consists of.
    pub replica: Replica,
    /// Requests per second that the fleet must sustain: peak × headroom.
    pub required_rate: f64,
    /// Number of replicas for the peak, without a reserve.
    pub replicas_for_peak: u64,
    /// Number of replicas for the peak with its headroom.
    pub replicas_with_headroom: u64,
    /// Number of all replicas, spares included.
    pub replicas: u64,
    /// Number of all GPUs.
    pub gpus: u64,
    /// Mean rate divided by the capacity of all replicas.
    pub utilisation_mean: f64,
    /// Peak rate divided by the capacity of all replicas.
    pub utilisation_peak: f64,
    /// Peak rate divided by the capacity with one replica fewer: above 1 the fleet cannot serve the peak then; `None` if no
    /// replica is left.
    pub utilisation_peak_one_lost: Option<f64>,
    /// Energy; `None` if the power of a GPU is not known.
    pub energy: Option<Energy>,
    /// Cost; `None` if no price is known.
    pub cost: Option<Cost>,
    /// The demand served with only as many replicas as each hour needs; `None` if hours are not known.
    pub autoscaled: Option<Autoscaled>,
}

/// Energy of all GPUs, as if always under load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Energy {
    /// Power of all GPUs, in watts.
    pub watts: f64,
    /// Kilowatt-hours per day.
    pub kwh_per_day: f64,
}

/// Cost of all GPUs, in the currency of the price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Cost {
    /// Cost per hour.
    pub per_hour: f64,
    /// Cost per day.
    pub per_day: f64,
    /// Energy's part of the cost per day, if it has a price of its own.
    pub energy_per_day: Option<f64>,
    /// Cost per month of 365 / 12 days.
    pub per_month: f64,
    /// Cost of a thousand requests at this demand.
    pub per_1000_requests: f64,
    /// Cost of a million output tokens at this demand.
    pub per_mtok: Option<f64>,
    /// Cost of a thousand requests with every replica always at its rate.
    pub full_load_per_1000_requests: Option<f64>,
    /// Cost of a million output tokens with every replica always at its rate.
    pub full_load_per_mtok: Option<f64>,
}

/// A fleet with as many replicas in each hour as that hour needs. The time to start one is not included.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Autoscaled {
    /// GPU-hours per day, averaged over the days.
    pub gpu_hours_per_day: f64,
    /// GPU-hours per day of the fixed fleet.
    pub fixed_gpu_hours_per_day: f64,
    /// Number of replicas in the quietest hour.
    pub least: u64,
    /// Number of replicas in the busiest hour.
    pub most: u64,
    /// Cost per day; `None` if no price is known.
    pub cost_per_day: Option<f64>,
    /// Number of replicas in each hour.
    pub replicas: Vec<u64>,
}

impl Fleet {
    /// Computes the fleet that serves a demand. The rate of the replica must be positive.
    pub fn of(replica: &Replica, demand: &Demand, reserve: &Reserve) -> Self {
        let each = replica.rate;
        let required_rate = demand.peak_rate * reserve.headroom;
        let replicas_for_peak = replicas_for(demand.peak_rate, each);
        let replicas_with_headroom = replicas_for(required_rate, each);
        let replicas = replicas_with_headroom + u64::from(reserve.spares);
        let gpus = replicas.saturating_mul(u64::from(replica.gpus));
        let load = |rate: f64, n: u64| rate / (n as f64 * each);
        Self {
            replica: *replica,
            required_rate,
            replicas_for_peak,
            replicas_with_headroom,
            replicas,
            gpus,
            utilisation_mean: load(demand.mean_rate, replicas),
            utilisation_peak: load(demand.peak_rate, replicas),
            utilisation_peak_one_lost: (replicas > 1).then(|| load(demand.peak_rate, replicas - 1)),
            energy: replica.watts.map(|w| {
                let watts = w * gpus as f64;
                Energy { watts, kwh_per_day: watts / 1e3 * 24.0 }
            }),
            cost: Cost::of(replica, gpus, demand),
            autoscaled: Autoscaled::of(replica, gpus, demand, reserve),
        }
    }

    /// Returns true if the fleet serves the peak with one replica fewer.
    pub fn survives_one_lost(&self) -> bool {
        self.utilisation_peak_one_lost.is_some_and(|u| u <= 1.0 + TOLERANCE)
    }

    /// Returns the number of GPUs that a daily volume needs with this ratio of peak to mean; used by the chart.
    pub fn gpus_at(replica: &Replica, per_day: f64, peak_to_mean: f64, reserve: &Reserve) -> u64 {
        let needed = replicas_for(per_day / DAY_S * peak_to_mean * reserve.headroom, replica.rate);
        (needed + u64::from(reserve.spares)).saturating_mul(u64::from(replica.gpus))
    }
}

impl Cost {
    fn of(replica: &Replica, gpus: u64, demand: &Demand) -> Option<Self> {
        let per_hour = replica.cost_per_gpu_hour()? * gpus as f64;
        let per_day = 24.0 * per_hour;
        let per_request = per_day / demand.per_day;
        let energy = replica.watts.zip(replica.energy_price);
        Some(Self {
            per_hour,
            per_day,
            energy_per_day: energy.map(|(w, price)| w / 1e3 * 24.0 * gpus as f64 * price),
            per_month: per_day * MONTH_DAYS,
            per_1000_requests: per_request * 1e3,
            per_mtok: replica.output_tokens.and_then(positive).map(|t| per_request / t * 1e6),
            full_load_per_1000_requests: replica.full_load_per_1000_requests(),
            full_load_per_mtok: replica.full_load_per_mtok(),
        })
    }
}

impl Autoscaled {
    fn of(replica: &Replica, fixed_gpus: u64, demand: &Demand, reserve: &Reserve) -> Option<Self> {
        // The peak may exceed the mean of the busiest hour: every hour is assumed to have moments as much above its mean.
        let busiest = demand.hours.iter().map(|h| h.rate).fold(0.0, f64::max);
        let within = if busiest > 0.0 { (demand.peak_rate / busiest).max(1.0) } else { 1.0 };
        let needed = |rate: f64| {
            replicas_for(rate * within * reserve.headroom, replica.rate) + u64::from(reserve.spares)
        };
        let replicas: Vec<u64> = demand.hours.iter().map(|h| needed(h.rate)).collect();
        let (least, most) = (*replicas.iter().min()?, *replicas.iter().max()?);
        let mean = replicas.iter().map(|n| *n as f64).sum::<f64>() / replicas.len() as f64;
        let gpu_hours_per_day = mean * 24.0 * f64::from(replica.gpus);
        Some(Self {
            gpu_hours_per_day,
            fixed_gpu_hours_per_day: fixed_gpus as f64 * 24.0,
            least,
            most,
            cost_per_day: replica.cost_per_gpu_hour().map(|c| c * gpu_hours_per_day),
            replicas,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Volume;
    use crate::capacity::demand::Hour;
    use proptest::prelude::*;

    fn replica(rate: f64) -> Replica {
        Replica {
            rate,
            gpus: 1,
            output_tokens: Some(30.0),
            price_per_hour: Some(0.39),
            watts: None,
            energy_price: None,
        }
    }

    fn volume(per_day: f64) -> Volume {
        Volume::try_from(per_day).unwrap()
    }

    /// Rows: requests per day, peak over mean, requests/s per replica, its GPUs, headroom, spares; then replicas and GPUs.
    #[test]
    fn fractional_replicas_are_rounded_up() {
        for (per_day, ptm, rate, gpus, headroom, spares, replicas, all) in [
            (5e6, 1.0, 35.0, 1, 1.0, 0, 2, 2),   // 57.87 requests/s
            (5e6, 1.0, 35.0, 1, 2.0, 0, 4, 4),   // 115.7
            (5e6, 3.0, 35.0, 1, 2.0, 1, 11, 11), // 347.2: 10, and one for a failure
            (5e6, 3.0, 35.0, 4, 2.0, 1, 11, 44),
            (70.000_000_1 * DAY_S, 1.0, 35.0, 1, 1.0, 0, 2, 2), // an error of the arithmetic
            (70.001 * DAY_S, 1.0, 35.0, 1, 1.0, 0, 3, 3),
            (0.3 * DAY_S, 1.0, 0.1, 1, 1.0, 0, 3, 3), // 0.3 / 0.1 is a little less than 3
            (0.1 * DAY_S, 3.0, 0.3, 1, 1.0, 0, 1, 1), // and 0.1 × 3 a little more than 0.3
            (1.0, 1.0, 35.0, 8, 1.0, 0, 1, 8),        // one at least
        ] {
            let demand = Demand::of_volume(volume(per_day), ptm);
            let reserve = Reserve { headroom, spares };
            let f = Fleet::of(&Replica { gpus, ..replica(rate) }, &demand, &reserve);
            assert_eq!((f.replicas, f.gpus), (replicas, all), "{per_day} a day at {rate}: {f:?}");
            assert_eq!(Fleet::gpus_at(&f.replica, per_day, ptm, &reserve), all);
        }
    }

    #[test]
    fn costs_are_at_the_demand_or_at_full_load() {
        let demand = Demand::of_volume(volume(5e6), 1.0);
        let f = Fleet::of(&replica(35.0), &demand, &Reserve { headroom: 2.0, spares: 0 });
        let c = f.cost.unwrap();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        // 4 × 0.39 × 24, for 150 million tokens and 5 million requests.
        assert!(near(c.per_day, 37.44) && near(c.per_month, 37.44 * 365.0 / 12.0), "{c:?}");
        assert!(near(c.per_mtok.unwrap(), 37.44 / 150.0) && near(c.per_1000_requests, 37.44 / 5_000.0));
        // 0.39 per hour buys 126,000 requests and 3.78 million tokens.
        assert!(
            near(c.full_load_per_mtok.unwrap(), 0.39 / 3.78)
                && near(c.full_load_per_1000_requests.unwrap(), 0.39 / 126.0)
        );
        assert!(
            near(f.utilisation_mean, 57.870_370_370_370_37 / 140.0)
                && near(f.utilisation_peak, f.utilisation_mean)
        );
        assert!(
            near(f.utilisation_peak_one_lost.unwrap(), 57.870_370_370_370_37 / 105.0)
                && f.survives_one_lost()
        );
        assert!(near(f.replica.rate_per_cost().unwrap(), 35.0 / 0.39));
    }

    #[test]
    fn energy_is_part_of_the_cost_where_it_has_a_price() {
        let demand = Demand::of_volume(volume(5e6), 1.0);
        let own = |r: Replica| Fleet::of(&r, &demand, &Reserve::default());
        let watts = Replica { watts: Some(300.0), ..replica(35.0) };
        let e = own(watts).energy.unwrap();
        assert!((e.watts - 600.0).abs() < 1e-9 && (e.kwh_per_day - 14.4).abs() < 1e-9);
        assert!(own(watts).cost.unwrap().energy_per_day.is_none(), "the price of an hour includes it");
        let c = own(Replica { energy_price: Some(0.25), ..watts }).cost.unwrap();
        assert!(
            (c.energy_per_day.unwrap() - 3.6).abs() < 1e-9
                && (c.per_day - (2.0 * 0.39 * 24.0 + 3.6)).abs() < 1e-9
        );
        let bought = Replica { price_per_hour: None, energy_price: Some(0.25), ..watts };
        assert!((own(bought).cost.unwrap().per_day - 3.6).abs() < 1e-9, "energy alone");
        assert!(own(Replica { price_per_hour: None, ..watts }).cost.is_none());
        let silent = own(Replica { output_tokens: None, ..watts }).cost.unwrap();
        assert!(
            silent.per_mtok.is_none()
                && silent.full_load_per_mtok.is_none()
                && silent.per_1000_requests > 0.0
        );
    }

    #[test]
    fn a_single_replica_survives_no_loss() {
        let f = Fleet::of(&replica(35.0), &Demand::of_rate(10.0, 1.0), &Reserve::default());
        assert_eq!((f.replicas, f.utilisation_peak_one_lost, f.survives_one_lost()), (1, None, false));
        let f = Fleet::of(&replica(35.0), &Demand::of_rate(60.0, 1.0), &Reserve::default());
        assert!(f.utilisation_peak_one_lost.is_some_and(|u| u > 1.0) && !f.survives_one_lost());
    }

    #[test]
    fn each_hour_has_its_own_number_of_replicas() {
        let hours =
            (0..24).map(|h| Hour { name: h.to_string(), rate: if h < 12 { 0.0 } else { 70.0 } }).collect();
        let demand = Demand::of_hours(hours, "h".into());
        let f =
            Fleet::of(&Replica { gpus: 2, ..replica(35.0) }, &demand, &Reserve { headroom: 1.0, spares: 1 });
        let a = f.autoscaled.unwrap();
        assert_eq!((a.least, a.most, f.replicas), (2, 3, 3), "idle hours keep one, and the spare one");
        assert!(
            (a.gpu_hours_per_day - 120.0).abs() < 1e-9 && (a.fixed_gpu_hours_per_day - 144.0).abs() < 1e-9
        );
        assert!((a.cost_per_day.unwrap() - 120.0 * 0.39).abs() < 1e-9);
    }

    /// The busiest minute has three times the rate of its hour, and so may the other hours'.
    #[test]
    fn each_hour_is_sized_for_its_peak() {
        let hours = [10.0, 30.0].map(|rate| Hour { name: rate.to_string(), rate }).to_vec();
        let demand = Demand { peak_rate: 90.0, ..Demand::of_hours(hours, "h".into()) };
        let f = Fleet::of(&replica(10.0), &demand, &Reserve::default());
        let a = f.autoscaled.unwrap();
        assert_eq!((a.least, a.most, f.replicas), (3, 9, 9));
    }

    proptest! {
        #[test]
        fn the_fleet_is_the_smallest_that_serves_the_peak(
            per_day in 1.0f64..1e12, ptm in 1.0f64..20.0, rate in 0.001f64..1e4, headroom in 1.0f64..5.0, spares in 0u32..4
        ) {
            let f = Fleet::of(&replica(rate), &Demand::of_volume(volume(per_day), ptm), &Reserve { headroom, spares });
            let needed = f.replicas - u64::from(spares);
            prop_assert!(needed as f64 * rate >= f.required_rate * (1.0 - 2.0 * TOLERANCE));
            prop_assert!(needed == 1 || (needed - 1) as f64 * rate < f.required_rate);
            prop_assert!(f.utilisation_mean <= f.utilisation_peak * (1.0 + 1e-9));
            prop_assert!(f.utilisation_peak <= 1.0 / headroom * (1.0 + 2.0 * TOLERANCE));
            prop_assert!(f.replicas_for_peak <= f.replicas_with_headroom && f.replicas_with_headroom <= f.replicas);
        }

        #[test]
        fn more_requests_never_need_fewer_gpus(
            a in 1.0f64..1e12, b in 1.0f64..1e12, ptm in 1.0f64..20.0, rate in 0.001f64..1e4, gpus in 1u32..64
        ) {
            let r = Replica { gpus, ..replica(rate) };
            let of = |v: f64| Fleet::gpus_at(&r, v, ptm, &Reserve::default());
            prop_assert!(of(a.min(b)) <= of(a.max(b)));
        }
    }
}
