//! What was measured is brought to disk, and the disk is looked at: a sweep ends before it is full. Before a run is gone on with, whether
//! it can be.

use super::Sweep;
use super::ending::Why;
use anyhow::{Result, bail};
use goodput_core::units::bytes;
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

impl Sweep<'_> {
    /// Brings what was measured to disk, and ends the sweep where hardly any room is left.
    ///
    /// # Errors
    /// A file cannot be written, or the run folder is not there any more.
    pub(super) fn bring_to_disk(&mut self) -> Result<()> {
        self.writer.flush()?;
        if self.ending.why().is_some() {
            return Ok(());
        }
        if let Some(low) = self.disk.low(self.writer.dir()) {
            tracing::warn!(
                "warning: the disk of {} is nearly full, {} are free and {} are kept for the reports: finishing what is in flight, then \
                 reporting",
                self.writer.dir().display(),
                bytes(low.free),
                bytes(low.reserve)
            );
            self.ending.end(Why::Disk(low));
        }
        Ok(())
    }
}
