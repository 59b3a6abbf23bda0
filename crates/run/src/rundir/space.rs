//! Free disk space of a run folder: a sweep ends before the disk is full, with enough space left for its reports.

use anyhow::{Result, bail};
use goodput_core::units::bytes;
use std::fs;
use std::path::Path;

/// Reserved bytes: a report of one series with all charts takes a tenth of it, one of a dozen series all of it.
pub const RESERVE: u64 = 64 << 20;

/// Source of the free disk space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disk {
    /// The operating system.
    #[default]
    Real,
    /// A simulated disk of this many bytes that contains only the run folder, for rehearsals.
    Imagined(u64),
}

/// Free space below the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Low {
    /// Free bytes.
    pub free: u64,
    /// Bytes that must stay free.
    pub reserve: u64,
}

impl Disk {
    /// Returns the bytes that can still be written to a folder, which need not exist yet; `None` if the system does
    /// not report it.
    pub fn free(self, dir: &Path) -> Option<u64> {
        match self {
            Self::Real => {
                let whole = std::path::absolute(dir).ok()?;
                let there = whole.ancestors().find(|path| path.is_dir())?;
                let told = rustix::fs::statvfs(there).ok()?;
                // Some file systems report zero blocks.
                (told.f_blocks > 0).then(|| told.f_bavail.saturating_mul(told.f_frsize))
            }
            Self::Imagined(all) => Some(all.saturating_sub(size(dir))),
        }
    }

    /// Returns the free space if it is below the reserve for the reports.
    pub fn low(self, dir: &Path) -> Option<Low> {
        let free = self.free(dir)?;
        (free < RESERVE).then_some(Low { free, reserve: RESERVE })
    }

    /// Checks that `wanted` bytes fit in addition to the reserve.
    ///
    /// # Errors
    /// The message gives the folder, the free and the wanted space, and a remedy.
    pub fn check(self, dir: &Path, wanted: u64, what: &str) -> Result<()> {
        match self.free(dir) {
            Some(free) if free < wanted.saturating_add(RESERVE) => bail!(
                "the disk of {} has {} free, and {what} would take about {}, with {} kept for the reports: make room, or use a \
                 folder on another disk",
                dir.display(),
                bytes(free),
                bytes(wanted),
                bytes(RESERVE)
            ),
            _ => Ok(()),
        }
    }
}

/// Returns the total size in bytes of the files in a folder.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let one = |entry: fs::DirEntry| match entry.metadata() {
        Ok(m) if m.is_dir() => size(&entry.path()),
        Ok(m) => m.len(),
        Err(_) => 0,
    };
    entries.map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_told_of_a_folder_that_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let free = Disk::Real.free(&dir.path().join("a/b")).unwrap();
        assert!(free > 0);
        let e = Disk::Real.check(dir.path(), u64::MAX, "the sweep").unwrap_err().to_string();
        assert!(e.contains("the sweep would take about") && e.contains("another disk"), "{e}");
        assert!(Disk::Imagined(u64::MAX).check(dir.path(), 1 << 40, "it").is_ok());
    }

    #[test]
    fn what_is_written_takes_of_an_imagined_disk() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::Imagined(RESERVE + 10);
        assert_eq!(disk.low(dir.path()), None);
        fs::create_dir(dir.path().join("logs")).unwrap();
        fs::write(dir.path().join("logs/a"), "12345678901").unwrap();
        assert_eq!(disk.low(dir.path()), Some(Low { free: RESERVE - 1, reserve: RESERVE }));
    }
}
