//! Run lock: one process at a time writes into a run folder, from before the first file is read until the last one is
//! written.

use super::files::is_there;
use super::write::busy;
use super::{PLAN, REQUESTS};
use anyhow::{Result, bail};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Lock file for file systems that can lock files but not folders, such as NFS. It is never removed, because a
/// waiting process has already opened it.
pub(super) const LOCK: &str = "goodput.lock";

/// An exclusive lock on a run folder; the operating system releases it however the process ends.
#[derive(Debug)]
pub struct RunLock {
    dir: PathBuf,
    /// `None` on a file system without locks, which is no reason to stop.
    _locked: Option<File>,
}

impl RunLock {
    /// Locks the folder of a sweep that is to be resumed; changes nothing in it.
    ///
    /// # Errors
    /// Fails if it is not a run folder, or if a running sweep writes into it.
    pub fn of_run(dir: &Path) -> Result<Self> {
        if !dir.join(PLAN).is_file() {
            bail!(
                "{} is not a run folder: it has no {PLAN}; name the folder that the sweep was writing into",
                dir.display()
            );
        }
        Self::take(dir)
    }

    /// Locks an existing folder, which need not be a run folder.
    ///
    /// # Errors
    /// Fails if a running sweep writes into it, or if its `requests.csv` is not a regular file.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        // The folder itself is locked, because its files get replaced and the folder does not.
        let file = || File::options().append(true).create(true).open(dir.join(LOCK));
        let folder: [&dyn Fn() -> io::Result<File>; 2] = [&|| File::open(dir), &file];
        let Ok(locked) = first_lock(&folder) else { bail!(busy(dir)) };
        // Earlier versions lock only this file.
        let requests = dir.join(REQUESTS);
        if is_there(&requests)?
            && let Ok(Err(TryLockError::WouldBlock)) = File::open(requests).map(|file| file.try_lock())
        {
            bail!(busy(dir));
        }
        Ok(Self { dir: dir.to_owned(), _locked: locked })
    }

    /// Returns the path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The error that another process has the lock.
#[derive(Debug, PartialEq, Eq)]
struct Taken;

/// Locks the first candidate that supports locks; returns `None` if none does.
fn first_lock(of: &[&dyn Fn() -> io::Result<File>]) -> Result<Option<File>, Taken> {
    for open in of {
        let Ok(file) = open() else { continue };
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => return Err(Taken),
            Err(TryLockError::Error(_)) => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_folder_until_it_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let lock = RunLock::take(dir.path()).unwrap();
        let error = RunLock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains("a sweep is still writing into"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stands in the folder for it");
        drop(lock);
        RunLock::take(dir.path()).unwrap();
    }

    /// A sweep of an earlier version locks only `requests.csv`.
    #[test]
    fn a_sweep_of_an_earlier_version_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let requests = File::create(dir.path().join(REQUESTS)).unwrap();
        requests.try_lock().unwrap();
        assert!(RunLock::take(dir.path()).is_err());
        drop(requests);
        RunLock::take(dir.path()).unwrap();
    }

    #[test]
    fn what_cannot_be_locked_has_something_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let cannot = || Err(io::Error::from(io::ErrorKind::Unsupported));
        let file = || File::create(dir.path().join(LOCK));
        let first = first_lock(&[&cannot, &file]).unwrap();
        assert!(first.is_some() && matches!(first_lock(&[&cannot, &file]), Err(Taken)));
        assert!(first_lock(&[&cannot, &cannot]).unwrap().is_none(), "no reason to stop");
    }
}
