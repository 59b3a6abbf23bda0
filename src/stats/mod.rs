//! Statistics of a step: pure functions from records to counts, percentiles and what they show.

pub mod step;
