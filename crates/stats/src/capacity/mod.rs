//! Goodput, demand and hardware → volumes, GPUs, energy and cost.
//!
//! Everything here is a pure function of numbers. [`figures`] says what one measured level amounts to, [`demand`] what is asked for
//! ([`profile`] reads it from a file, [`trace`] from a recording), [`fleet`] how many replicas hold it and what they cost, and
//! [`limit`] from which rate on a cost is kept.

pub mod demand;
pub mod figures;
pub mod fleet;
pub mod hardware;
pub mod limit;
pub mod moved;
pub mod profile;
pub mod sizing;
pub mod trace;

pub use demand::{Demand, Volume};
pub use figures::{Capacity, PerGpu};
pub use fleet::{Fleet, Replica, Reserve};
pub use hardware::Hardware;
pub use limit::{Above, CostRange, Kept};

/// What one GPU costs for an hour: its price, and the energy that it draws where that has a price of its own; `None` where neither is
/// known.
fn gpu_hour(price: Option<f64>, watts: Option<f64>, energy_price: Option<f64>) -> Option<f64> {
    match (price, watts.zip(energy_price).map(|(w, kwh)| w / 1e3 * kwh)) {
        (None, None) => None,
        (price, energy) => Some(price.unwrap_or(0.0) + energy.unwrap_or(0.0)),
    }
}

/// A rate or price that is known: finite and above zero.
fn positive(x: f64) -> Option<f64> {
    (x.is_finite() && x > 0.0).then_some(x)
}
