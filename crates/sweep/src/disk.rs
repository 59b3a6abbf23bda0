//! Checks of a run folder before a sweep writes into it.

use anyhow::{Result, bail};
use goodput_load::launch::stale;
use goodput_run::rundir::{Disk, LOGS, REQUESTS};
use std::path::Path;

/// Refuses to write into a folder whose servers are still running after the sweep was killed: they occupy the GPU and
/// the port.
///
/// # Errors
/// A list of these servers, with the commands to end them.
pub(super) fn check_left(dir: &Path) -> Result<()> {
    let left = stale::leftovers(&dir.join(LOGS));
    if left.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        left.iter().map(|(name, mark)| format!("{name}: {mark}: kill -- -{}", mark.pid)).collect();
    bail!(
        "goodput was killed before it could stop the servers of {}, which still run:\n  {}\nend it, then try again (with \
         the minus, all that it started ends as well)",
        dir.display(),
        lines.join("\n  ")
    )
}

/// Refuses to resume a run whose servers are still running, or if the disk has no room for a second `requests.csv`
/// while its files are cleaned up.
///
/// # Errors
/// Those of [`check_left`]; or the free and the required space.
pub(super) fn check_resumable(disk: Disk, dir: &Path) -> Result<()> {
    check_left(dir)?;
    let size = std::fs::metadata(dir.join(REQUESTS)).map_or(0, |m| m.len());
    disk.check(dir, size, "putting the files of the run in order")
}
