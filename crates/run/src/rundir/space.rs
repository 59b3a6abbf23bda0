//! How much room the disk of a run folder has: a sweep ends before it is full, with enough left for its reports.

use anyhow::{Result, bail};
use goodput_core::units::bytes;
use std::fs;
use std::path::Path;

/// What is kept free: a report of one series with all of its charts takes a tenth of it, one of a dozen series all.
pub const RESERVE: u64 = 64 << 20;

/// Who tells how much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disk {
    /// The system.
    #[default]
    Real,
    /// Nobody: a disk of so many bytes is imagined, on which the run folder is all that there is. For rehearsals.
    Imagined(u64),
}

/// Too little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Low {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are to stay free.
    pub reserve: u64,
}

impl Disk {
    /// Bytes that may still be written into a folder, or into one that is to be made there; `None` where the system does not tell.
    pub fn free(self, dir: &Path) -> Option<u64> {
        match self {
            Self::Real => {
                let whole = std::path::absolute(dir).ok()?;
                let there = whole.ancestors().find(|path| path.is_dir())?;
                let told = rustix::fs::statvfs(there).ok()?;
                // Some file systems count no blocks at all.
                (told.f_blocks > 0).then(|| told.f_bavail.saturating_mul(told.f_frsize))
            }
            Self::Imagined(all) => Some(all.saturating_sub(size(dir))),
        }
    }

    /// Whether a folder has less room than is kept for its reports.
    pub fn low(self, dir: &Path) -> Option<Low> {
        let free = self.free(dir)?;
        (free < RESERVE).then_some(Low { free, reserve: RESERVE })
    }

    /// Refuses where what is to be written does not fit beside what is kept free.
    ///
    /// # Errors
    /// The folder, what is free, what is wanted, and what to do.
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

/// What the files of a folder take.
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
