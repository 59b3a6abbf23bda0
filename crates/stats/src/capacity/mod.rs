//! Capacity planning: from goodput, demand and hardware to volumes, GPUs, energy and cost.
//!
//! Everything here is a pure function of numbers. [`figures`] gives the volumes and costs of one measured level, [`demand`] the
//! required rate ([`profile`] reads it from a file, [`trace`] from a recording), [`fleet`] the replicas that serve it and their
//! cost, and [`limit`] the rate from which a cost limit is met. [`workload_change`] extrapolates a fleet to a changed workload,
//! [`sizing`] compares candidates.

pub mod demand;
pub mod figures;
pub mod fleet;
pub mod hardware;
pub mod limit;
pub mod profile;
pub mod sizing;
pub mod trace;
pub mod workload_change;

pub use demand::{Demand, Volume};
pub use figures::{Capacity, PerGpu};
pub use fleet::{Fleet, Replica, Reserve};
pub use hardware::Hardware;
pub use limit::{AboveGoodput, CostRange, CostVerdict};

/// Returns the cost of one GPU for an hour: its price, plus its energy if that has a price of its own; `None` if neither is
/// known.
fn gpu_hour(price: Option<f64>, watts: Option<f64>, energy_price: Option<f64>) -> Option<f64> {
    match (price, watts.zip(energy_price).map(|(w, kwh)| w / 1e3 * kwh)) {
        (None, None) => None,
        (price, energy) => Some(price.unwrap_or(0.0) + energy.unwrap_or(0.0)),
    }
}

/// Returns a rate or price that is finite and above zero; `None` otherwise.
fn positive(x: f64) -> Option<f64> {
    (x.is_finite() && x > 0.0).then_some(x)
}
