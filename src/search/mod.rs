//! The search: a pure function from the steps measured so far to what to do next, and to the answers.
//!
//! `config` is the plan's `[search]`; `series` has [`Search`], which steps through a list or a ramp or leaves it to
//! `adaptive`; `ask` is what it asks for. The adaptive search has a baseline and a ramp, and closes in by `refine`, which
//! guesses from `curve` where a step tells most. `stop` says when a series is done; `bracket` reads an answer off verdicts;
//! `knee` marks the knee of a curve.

mod adaptive;
pub mod answer;
mod ask;
mod bracket;
pub mod config;
mod curve;
pub mod knee;
mod refine;
mod series;
pub mod stop;

pub use ask::{Ask, Ends, Next};
pub use series::Search;
