//! Who writes into a run folder: one process at a time, from before the first file is read until the last one is written.

use super::files::is_there;
use super::write::busy;
use super::{PLAN, REQUESTS};
use anyhow::{Result, bail};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Stands for the folder where its file system locks files and no folders, as NFS does. It is never removed: whoever waits for it has
/// opened it already.
pub(super) const LOCK: &str = "goodput.lock";

/// A run folder that nobody else writes into for as long as this lives; the system lets go of it however the process ends.
#[derive(Debug)]
pub struct Hold {
    dir: PathBuf,
    /// `None` on a file system that knows no locks, which is no reason to stop.
    _locked: Option<File>,
}

impl Hold {
    /// Holds the folder of a sweep that is to go on; changes nothing in it.
    ///
    /// # Errors
    /// It is no run folder, or a sweep is still writing into it.
    pub fn of_run(dir: &Path) -> Result<Self> {
        if !dir.join(PLAN).is_file() {
            bail!(
                "{} is not a run folder: it has no {PLAN}; name the folder that the sweep was writing into",
                dir.display()
            );
        }
        Self::take(dir)
    }

    /// Holds a folder that is there, a run's or not.
    ///
    /// # Errors
    /// A sweep is still writing into it, or its requests are no file.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        // The folder itself is never replaced, as its files are.
        let file = || File::options().append(true).create(true).open(dir.join(LOCK));
        let folder: [&dyn Fn() -> io::Result<File>; 2] = [&|| File::open(dir), &file];
        let Ok(locked) = first_lock(&folder) else { bail!(busy(dir)) };
        // An earlier version locks no more than this one.
        let requests = dir.join(REQUESTS);
        if is_there(&requests)?
            && let Ok(Err(TryLockError::WouldBlock)) = File::open(requests).map(|file| file.try_lock())
        {
            bail!(busy(dir));
        }
        Ok(Self { dir: dir.to_owned(), _locked: locked })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Somebody else has the lock.
#[derive(Debug, PartialEq, Eq)]
struct Taken;

/// Locks the first that can be locked at all; `None` where none can.
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
        let hold = Hold::take(dir.path()).unwrap();
        let error = Hold::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains("a sweep is still writing into"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stands in the folder for it");
        drop(hold);
        Hold::take(dir.path()).unwrap();
    }

    /// A sweep of an earlier version has its requests locked, and nothing else.
    #[test]
    fn a_sweep_of_an_earlier_version_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let requests = File::create(dir.path().join(REQUESTS)).unwrap();
        requests.try_lock().unwrap();
        assert!(Hold::take(dir.path()).is_err());
        drop(requests);
        Hold::take(dir.path()).unwrap();
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
