//! Files of a report.

use anyhow::Result;
use goodput_run::rundir::replace;
use std::path::PathBuf;

/// Writes a temporary file next to its destination and renames it, so that readers never see a partial one; returns its
/// path.
///
/// # Errors
/// The file cannot be written; the message names it.
pub(super) fn write(path: PathBuf, bytes: &[u8]) -> Result<PathBuf> {
    replace(&path, bytes)?;
    Ok(path)
}
