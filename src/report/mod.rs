//! Reports and charts of a run folder, made from [`crate::rundir::Run`] alone.

pub mod charts;
pub mod escape;
pub mod words;

#[cfg(test)]
mod fixture;
