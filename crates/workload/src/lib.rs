//! Workloads: seeded, lazily drawn chains of requests with their send times, and the text of their prompts.
//!
//! `config` is the plan's table and `traffic` the table with its files opened; `draw` draws the chains of one step, and
//! `prompts` writes their text.

pub mod arrivals;
pub mod audio;
pub mod chain;
pub mod config;
mod conversation;
pub mod data;
pub mod draw;
pub mod factors;
pub mod file_contents;
mod files;
pub mod images;
pub mod items;
pub mod kind;
pub mod lengths;
pub mod models;
pub mod part;
pub mod prefix;
pub mod prompts;
pub mod rate;
mod recordings;
pub mod schedule;
pub mod seed;
pub mod sources;
pub mod summary;
pub mod synthetic;
pub mod trace;
pub mod traffic;
mod turns;
pub mod wav;
pub mod words;

/// Opens a file for reading from its start, decompressing gzip and zstd.
///
/// # Errors
/// It cannot be opened or read, or is not UTF-8; names the file.
pub fn open_packed(path: &std::path::Path) -> anyhow::Result<impl std::io::BufRead + use<>> {
    files::open::open(path)
}
