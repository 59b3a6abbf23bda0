//! The subcommands, one module each.

pub(crate) mod calibrate;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod consent;
pub(crate) mod docs;
pub(crate) mod fit;
pub(crate) mod handoff;
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
mod try_advice;
pub(crate) mod view;
mod within;
pub(crate) mod worker;

use crate::report::document::Document;
use crate::report::escape::shown;
use crate::report::render::terminal::{self, Screen};
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Writes a line or several to standard output, with terminal control characters escaped.
pub(crate) fn print_line(text: &str) -> Result<()> {
    write(&shown(text))
}

/// Maximum width of terminal output, in columns; longer lines are hard to read.
const WIDEST: usize = 100;

/// Returns the screen of standard output: a terminal of its width, in colour unless `NO_COLOR` is set, or a file or pipe.
fn screen() -> Screen {
    if !std::io::stdout().is_terminal() {
        return Screen::default();
    }
    let width = textwrap::termwidth().clamp(40, WIDEST);
    Screen {
        width: u16::try_from(width).unwrap_or(u16::MAX),
        wraps: true,
        colour: std::env::var_os("NO_COLOR").is_none(),
    }
}

/// Writes a document to standard output.
pub(crate) fn show(document: &Document) -> Result<()> {
    write(&terminal::render(document, &screen()))
}

/// Prints a result: as JSON, or as a document.
pub(crate) fn print_result(
    json: bool,
    value: &impl Serialize,
    document: impl FnOnce() -> Document,
) -> Result<()> {
    if json { print_line(&pretty(value)?) } else { show(&document()) }
}

/// Returns a value as JSON for people: indented.
fn pretty(value: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).context("failed to write the result as JSON")
}

/// Turns a failure to print into a warning, where the result is in files or in the exit code too: a verdict is not lost with its text.
pub(crate) fn warn_if_unprinted(printed: Result<()>) {
    if let Err(e) = printed {
        tracing::warn!("warning: {e:#}");
    }
}

/// Writes to standard output. A closed pipe is not an error, as after `| head`.
fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("failed to write to standard output"),
    }
}
