//! The search: a pure function from the steps measured so far to what to do next, and to the answers.
//!
//! `config` is the plan's `[search]`. `series` has [`Search`], which steps through a list or a ramp, or leaves the
//! choice to `adaptive`; `ask` is a step that it asks for. The adaptive search has a baseline, a ramp, and the
//! refinement in `refine`, which measures at quantiles of the `posterior` of the boundary, computed from all steps
//! together. `seen` sorts the steps; `retry` drops a ramp step whose misses were a single burst, `spoilt` those that the client or one of its workers spoilt. `hold` stays
//! at the safe rate at the end. `saturation` bounds an answer by the throughput of the full server. `conclusion` is what an answer can state; `estimate` reads it from the posterior,
//! `bracket` from the verdicts alone; `confirm` is the soak afterwards. `ceiling` doubles the number in flight until
//! throughput stops growing, or sends everything at once. `stop` has the stop rules, `reason` the reasons for an
//! answer. `ramp` climbs until a stop rule fires and locates the knee, which `knee` tests with the broken lines of
//! `segmented`. `listed` fits the posterior to levels chosen beforehand; `view` prepares the posterior for the reports.

mod adaptive;
pub mod answer;
mod ask;
mod bracket;
mod ceiling;
pub mod change;
mod conclusion;
pub mod config;
mod confirm;
mod errors;
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
mod saturation;
mod segmented;
mod series;
mod single_step;
mod spoilt;
mod starved;
mod steps_by_purpose;
pub mod stop;
pub mod view;
pub mod windows;

pub use ask::{Ask, Ends, Next};
#[cfg(any(test, feature = "fixture"))]
pub(crate) use bracket::{Point, bracket};
pub use series::Search;
#[cfg(any(test, feature = "fixture"))]
pub(crate) use single_step::step_evidence;
