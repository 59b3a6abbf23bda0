//! From request records to steps, verdicts and the answer of a search; diagnosis, roofline model and capacity planning on top.
//!
//! Everything here is pure: no I/O and no clock.

pub mod calibration;
pub mod capacity;
pub mod diagnosis;
pub mod fit;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod roofline;
pub mod search;
pub mod server;
pub mod stats;
