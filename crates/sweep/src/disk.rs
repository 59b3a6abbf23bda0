//! Checks of a run folder before a sweep writes into it.

use anyhow::{Result, bail};
use goodput_load::launch::stale;
use goodput_run::rundir::{Disk, LOGS, REQUESTS};
use std::path::Path;

/// Refuses to write into a folder whose servers were left behind when the sweep was killed: they hold the GPU, and the port.
///
/// # Errors
/// Each of them, and how to end it.
pub(super) fn check_left(dir: &Path) -> Result<()> {
    let left = stale::left_in(&dir.join(LOGS));
    if left.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        left.iter().map(|(name, mark)| format!("{name}: {mark}: kill -- -{}", mark.pid)).collect();
    bail!(
        "goodput was killed before it could stop what it had started for {}, and it is still there:\n  {}\nend it, then try again (with \
         the minus, all that it started ends as well)",
        dir.display(),
        lines.join("\n  ")
    )
}

/// Refuses to go on with a run whose servers were left behind, or where the disk has no room for a second `requests.csv` while its files
/// are put in order.
///
/// # Errors
/// As [`check_left`]; or what is free, and what is wanted.
pub(super) fn check_resumable(disk: Disk, dir: &Path) -> Result<()> {
    check_left(dir)?;
    let size = std::fs::metadata(dir.join(REQUESTS)).map_or(0, |m| m.len());
    disk.check(dir, size, "putting the files of the run in order")
}
