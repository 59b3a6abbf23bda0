//! Turns records into steps, and steps into verdicts and answers. All of it is pure.

pub mod calibration;
pub mod capacity;
pub mod diagnosis;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod roofline;
pub mod search;
pub mod server;
pub mod stats;
