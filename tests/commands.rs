//! The commands as a user runs them, in simulated time: whole sweeps, reports, comparisons, capacity, imports. One program, since each would be
//! built for longer than it runs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "commands/adaptive.rs"]
mod adaptive;
#[path = "commands/capacity.rs"]
mod capacity;
#[path = "commands/checks.rs"]
mod checks;
mod common;
#[path = "commands/compare.rs"]
mod compare;
#[path = "commands/conversation.rs"]
mod conversation;
#[path = "commands/fair.rs"]
mod fair;
#[path = "commands/fit.rs"]
mod fit;
#[path = "commands/formats.rs"]
mod formats;
#[path = "commands/grids.rs"]
mod grids;
#[path = "commands/import.rs"]
mod import;
#[path = "commands/listed.rs"]
mod listed;
#[path = "commands/matrix.rs"]
mod matrix;
#[path = "commands/mix.rs"]
mod mix;
#[path = "commands/nonstream.rs"]
mod nonstream;
#[path = "commands/offline.rs"]
mod offline;
#[path = "commands/pair.rs"]
mod pair;
#[path = "commands/repeat.rs"]
mod repeat;
#[path = "commands/replicas.rs"]
mod replicas;
#[path = "commands/sensitivity.rs"]
mod sensitivity;
#[path = "commands/slo_scale.rs"]
mod slo_scale;
#[path = "commands/suggested.rs"]
mod suggested;
#[path = "commands/trace.rs"]
mod trace;
#[path = "commands/why.rs"]
mod why;
