//! The commands as a user runs them: whole sweeps, reports, comparisons, capacity, imports, what is killed and resumed, secrets. One program: each
//! would be linked for longer than it runs, and tests that wait for sockets leave the cores to those that compute.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "commands/adapters.rs"]
mod adapters;
#[path = "commands/adaptive.rs"]
mod adaptive;
#[path = "commands/audio.rs"]
mod audio;
#[path = "commands/bad_input.rs"]
mod bad_input;
#[path = "commands/capacity.rs"]
mod capacity;
#[path = "commands/ceiling.rs"]
mod ceiling;
#[path = "commands/charts.rs"]
mod charts;
#[path = "commands/checks.rs"]
mod checks;
#[path = "commands/choices.rs"]
mod choices;
#[path = "commands/cli.rs"]
mod cli;
mod common;
#[path = "commands/compare.rs"]
mod compare;
#[path = "commands/conversation.rs"]
mod conversation;
#[path = "commands/earlier_runs.rs"]
mod earlier_runs;
#[path = "commands/escaping.rs"]
mod escaping;
#[path = "commands/fair.rs"]
mod fair;
#[path = "commands/fit.rs"]
mod fit;
#[path = "commands/formats.rs"]
mod formats;
#[path = "commands/grids.rs"]
mod grids;
#[path = "commands/halted.rs"]
mod halted;
#[path = "commands/handoff.rs"]
mod handoff;
#[path = "commands/images.rs"]
mod images;
#[path = "commands/import.rs"]
mod import;
#[path = "commands/items.rs"]
mod items;
#[path = "commands/keep_alive.rs"]
mod keep_alive;
#[path = "commands/killed/mod.rs"]
mod killed;
#[path = "commands/listed.rs"]
mod listed;
#[path = "commands/listen.rs"]
mod listen;
#[path = "commands/lost_output.rs"]
mod lost_output;
#[path = "commands/matrix.rs"]
mod matrix;
#[path = "commands/metrics.rs"]
mod metrics;
#[path = "commands/miscounted.rs"]
mod miscounted;
#[path = "commands/mix.rs"]
mod mix;
#[path = "commands/nonstream.rs"]
mod nonstream;
#[path = "commands/offline.rs"]
mod offline;
#[path = "commands/pair.rs"]
mod pair;
#[path = "commands/profile.rs"]
mod profile;
#[path = "commands/repeat.rs"]
mod repeat;
#[path = "commands/replicas.rs"]
mod replicas;
#[path = "commands/resume.rs"]
mod resume;
#[cfg(unix)]
#[path = "commands/retries.rs"]
mod retries;
#[path = "commands/secrets/mod.rs"]
mod secrets;
#[path = "commands/sensitivity.rs"]
mod sensitivity;
#[path = "commands/slo_scale.rs"]
mod slo_scale;
#[path = "commands/suggested.rs"]
mod suggested;
#[path = "commands/template.rs"]
mod template;
#[path = "commands/trace.rs"]
mod trace;
#[path = "commands/truth.rs"]
mod truth;
#[cfg(unix)]
#[path = "commands/variants.rs"]
mod variants;
#[cfg(unix)]
#[path = "commands/view.rs"]
mod view;
#[path = "commands/why.rs"]
mod why;
