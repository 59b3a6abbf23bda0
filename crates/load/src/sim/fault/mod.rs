//! Plays the faults of the simulated server.

pub(super) mod play;
pub(super) mod socket;
mod stream;
