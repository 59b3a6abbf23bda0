//! Sweeps whose load several workers send, over a real broker: the same requests as one machine sends, and what happens when a worker, the
//! broker or the leader fails. Without `nats-server` they are skipped, and say so.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; one that cannot begin says so"
)]

mod common;
#[path = "workers/failures.rs"]
mod failures;
#[path = "workers/faulty.rs"]
mod faulty;
#[path = "workers/fleet.rs"]
mod fleet;
#[path = "workers/relay.rs"]
mod relay;
#[path = "workers/same.rs"]
mod same;
#[path = "workers/security.rs"]
mod security;
