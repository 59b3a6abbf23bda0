//! The subcommands, one module each.

pub(crate) mod calibrate;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod consent;
pub(crate) mod docs;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod latency;
pub(crate) mod offline;
mod repeat;
pub(crate) mod report;
pub(crate) mod sensitivity;
pub(crate) mod signals;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod throughput;
pub(crate) mod trace;

use crate::report::escape::shown;
use crate::report::terminal;
use anyhow::{Context, Result};
use std::io::Write;

/// Writes a line or several to standard output, with terminal control characters escaped.
pub(crate) fn print_line(text: &str) -> Result<()> {
    write(&shown(text))
}

/// Writes to a terminal as [`print_line`] does, with verdicts and caveats in colour unless `NO_COLOR` is set.
pub(crate) fn print_coloured(text: &str) -> Result<()> {
    write(&terminal::paint(&shown(text), std::env::var_os("NO_COLOR").is_none()))
}

/// Writes to standard output. A closed pipe is not an error, as after `| head`.
fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("failed to write to standard output"),
    }
}
