//! The search: a pure function from the steps measured so far to what to do next, and to the answers.
//!
//! `config` is the plan's `[search]`; `series` has [`Search`], which steps through a list or a ramp or leaves it to
//! `adaptive`; `ask` is what it asks for. The adaptive search has a baseline and a ramp, and closes in by `refine`: at
//! quantiles of the `posterior` of where the boundary lies, from all steps together (`seen` sorts them, `retry` drops a ramp step that was a
//! burst). `hold` stays at the safe rate at the end. `estimate` reads the
//! answer off the posterior, `bracket` off the verdicts alone; `confirm` is the soak afterwards. `ceiling` doubles numbers in
//! flight until throughput stops growing, or sends everything at once. `stop` says when a series is
//! done, `reason` why an answer is what it is; `ramp` climbs until a stop rule fires and places the knee, which `knee` tests and marks by `segmented` lines; `listed` fits the
//! posterior to levels that were chosen beforehand; `view` is what the reports show of the posterior.

mod adaptive;
pub mod answer;
mod ask;
mod bracket;
mod ceiling;
pub mod change;
pub mod config;
mod confirm;
mod estimate;
mod hold;
pub mod knee;
mod listed;
mod log_median;
mod posterior;
pub mod profile;
pub mod ramp;
pub mod reason;
pub mod recovery;
mod refine;
mod refused;
mod retry;
mod seen;
mod segmented;
mod series;
pub mod stop;
pub mod view;
pub mod windows;

pub use ask::{Ask, Ends, Next};
#[cfg(any(test, feature = "fixture"))]
pub(crate) use bracket::{Point, bracket};
pub use series::Search;
#[cfg(any(test, feature = "fixture"))]
pub(crate) use series::step_evidence;
