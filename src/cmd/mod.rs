//! The subcommands: read, do, write.

pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod docs;
pub(crate) mod init;
pub(crate) mod latency;
pub(crate) mod offline;
pub(crate) mod report;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod throughput;
pub(crate) mod trace;

use anyhow::{Context, Result};
use std::io::Write;

/// Writes to standard output, where the answer goes. A reader that has gone away is no error.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("failed to write to standard output"),
    }
}
