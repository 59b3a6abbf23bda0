//! The client against what real servers send: recorded streams, replayed in memory and over a socket, and faults.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]

#[path = "wire/accounts.rs"]
mod accounts;
#[path = "wire/audio.rs"]
mod audio;
#[path = "wire/bounds.rs"]
mod bounds;
#[path = "common/mod.rs"]
mod common;
#[path = "wire/documented.rs"]
mod documented;
#[path = "wire/expected.rs"]
mod expected;
#[path = "wire/faults.rs"]
mod faults;
#[path = "wire/http.rs"]
mod http;
#[path = "wire/http2.rs"]
mod http2;
#[path = "wire/items.rs"]
mod items;
#[path = "wire/pure.rs"]
mod pure;
#[path = "wire/reasoning.rs"]
mod reasoning;
#[path = "wire/recording.rs"]
mod recording;
#[path = "wire/refused.rs"]
mod refused;
#[path = "wire/replay.rs"]
mod replay;
#[path = "wire/serve.rs"]
mod serve;
#[path = "wire/simulated.rs"]
mod simulated;
#[path = "wire/steps.rs"]
mod steps;
#[path = "wire/virtual_time.rs"]
mod virtual_time;
