//! The search: a pure function from the steps measured so far to what to do next, and to the answers.
//!
//! `config` is the plan's `[search]`; `list` has [`Search`], which steps through a list or a ramp; `stop` says
//! when a series is done; `bracket` reads an answer off verdicts; `knee` marks the knee of a curve.

pub mod answer;
mod bracket;
pub mod config;
pub mod knee;
pub mod list;
pub mod stop;

pub use list::{Next, Search};
