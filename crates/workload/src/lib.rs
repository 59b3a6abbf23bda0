//! What is sent and when: seeded, lazily drawn chains of requests, and the text of their prompts.
//!
//! `config` is the plan's table, `traffic` the same with its files opened; `draw` makes the chains of a step of it, and
//! `prompts` their text.

pub mod arrivals;
mod bytes;
pub mod chain;
pub mod config;
pub mod conversation;
pub mod data;
pub mod draw;
pub mod holds;
pub mod kind;
pub mod lengths;
pub mod moved;
pub mod prefix;
pub mod prompts;
pub mod rate;
pub mod seed;
pub mod sources;
pub mod synthetic;
pub mod trace;
pub mod traffic;
mod turns;
pub mod words;

/// Opens a file to be read from its start, unpacked where it is packed with gzip or zstd.
///
/// # Errors
/// It cannot be opened or read, or is not UTF-8; the message names it.
pub fn open_packed(path: &std::path::Path) -> anyhow::Result<impl std::io::BufRead + use<>> {
    bytes::open(path)
}
