//! File access in a run folder, which someone else may have made: reads only regular files of reasonable size, follows no link, and
//! writes only inside the folder.

use anyhow::{Context, Result, anyhow, bail};
use goodput_plan::LARGEST_PLAN;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// Maximum size in bytes of a file that is loaded into memory: fifty times that of a long sweep.
const LARGEST: u64 = 64 << 20;
/// Maximum length in bytes of a row, including read-ahead.
const LONGEST_ROW: u64 = 4 << 20;
/// Number of random characters between the stem and the extension of a temporary file.
const RANDOM: usize = 6;

/// Opens a file for reading; returns `None` if it does not exist.
///
/// # Errors
/// Fails if it is a link, a folder, a pipe or a device, or cannot be opened; the message names it.
pub(crate) fn open(path: &Path) -> Result<Option<File>> {
    if !is_there(path)? {
        return Ok(None);
    }
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // In case that it is replaced meanwhile: neither a link is followed, nor a pipe waited for.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    options.open(path).map(Some).with_context(|| format!("failed to read {}", path.display()))
}

/// Returns true if the file exists. Does not open it, because opening a pipe without a writer would block.
///
/// # Errors
/// Fails if it exists and is not a regular file. A link is none: what it leads to is not part of the folder, and may be private.
pub fn is_there(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(true),
        Ok(meta) if meta.is_symlink() => bail!(linked(path)),
        Ok(_) => bail!("failed to read {}: it is no file", path.display()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(e).with_context(|| format!("failed to read {}", path.display())),
    }
}

/// Returns the message for a link in place of a file or folder of a run.
fn linked(path: &Path) -> String {
    format!(
        "failed to read {}: it is a link, which is not followed; put what it leads to in its place",
        path.display()
    )
}

/// Fails if a folder within a run folder is a link.
///
/// # Errors
/// Fails if it is a link.
pub(super) fn is_own_folder(folder: &Path) -> Result<()> {
    if is_link(folder) {
        bail!(linked(folder));
    }
    Ok(())
}

/// Reads a whole file; returns `None` if it does not exist.
///
/// # Errors
/// Fails like [`open`], or if the file is larger than 64 MiB.
pub(super) fn whole(path: &Path) -> Result<Option<Vec<u8>>> {
    whole_up_to(path, LARGEST)
}

/// Reads a whole file of at most this number of bytes; returns `None` if it does not exist.
fn whole_up_to(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let too_large = || anyhow!("{} is larger than {} MiB, which no sweep writes", path.display(), most >> 20);
    // A sparse file takes no space on disk.
    if file.metadata().is_ok_and(|meta| meta.len() > most) {
        return Err(too_large());
    }
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("failed to read {}", path.display()))?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(Some(bytes)) }
}

/// Reads the report of a run folder as a page; returns `None` if it was not written.
///
/// # Errors
/// Fails if it is a link or no file, or is larger than 64 MiB.
pub fn report_page(dir: &Path) -> Result<Option<Vec<u8>>> {
    is_own_folder(dir)?;
    whole(&dir.join(super::REPORT_PAGE))
}

/// Reads a required file as text.
///
/// # Errors
/// Fails like [`whole`], or if the file is missing or not UTF-8.
pub(super) fn text(path: &Path) -> Result<String> {
    text_up_to(path, LARGEST)
}

/// Reads a required plan as text.
///
/// # Errors
/// Fails like [`text`], or if the file is larger than any plan.
pub(super) fn plan_text(path: &Path) -> Result<String> {
    text_up_to(path, LARGEST_PLAN)
}

fn text_up_to(path: &Path, most: u64) -> Result<String> {
    let failed = || format!("failed to read {}", path.display());
    let bytes = whole_up_to(path, most)?.context("it is not there").with_context(failed)?;
    String::from_utf8(bytes).context("it is no UTF-8 text").with_context(failed)
}

/// Creates a temporary file in the folder of `path`, to replace it; it is removed when dropped. Its name is random,
/// so nobody can have placed a link there.
///
/// # Errors
/// Fails if the file cannot be created.
pub(super) fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let prefix = format!("{stem}.");
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(".tmp").rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The default permissions of a new file, from which the system removes those in the user's umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    builder.tempfile_in(folder)
}

/// Returns the temporary files of matching names that killed writers left behind.
pub fn remains(folder: &Path, of: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    left_behind(folder, |name| {
        let name = name.strip_suffix(".tmp")?;
        // Earlier versions used no random characters.
        Some(of(name) || without_random(name).is_some_and(&of))
    })
}

/// Returns the temporary files that killed replacements of matching files left behind. Nothing reads them.
pub(super) fn unfinished(folder: &Path, of: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    left_behind(folder, |name| Some(of(without_random(name.strip_suffix(".tmp")?)?)))
}

/// Removes the random characters at the end of the name of a temporary file; `None` if it has none.
fn without_random(name: &str) -> Option<&str> {
    let (stem, random) = name.rsplit_once('.')?;
    (random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(stem)
}

fn left_behind(folder: &Path, is: impl Fn(&str) -> Option<bool>) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let left = |name: &str| is(name) == Some(true);
    entries.filter(|e| e.file_name().to_str().is_some_and(left)).map(|e| e.path()).collect()
}

/// Replaces a file atomically by writing a temporary file and renaming it. If `path` is a link, replaces the link and
/// leaves its target untouched.
///
/// # Errors
/// Fails if the file cannot be written; the message names it, and no temporary file remains.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = beside(path)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        // On failure the temporary file is dropped and so removed: a full disk has no room for leftovers.
        file.persist(path).map(drop).map_err(|e| e.error)
    };
    write().with_context(|| format!("failed to write {}", path.display()))
}

/// Returns true if the last row of a file lacks its newline because the writer was killed.
pub(super) fn ends_torn(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(last != *b"\n")
}

/// Returns true if a file is missing or has no content.
pub(super) fn is_empty(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |m| m.len() == 0)
}

/// Opens a file of the run folder for appending, and creates it if it does not exist.
///
/// # Errors
/// Fails if it is a link, or cannot be opened.
pub(super) fn open_to_append(path: &Path) -> Result<File> {
    if is_link(path) {
        bail!("{} is a link: what is measured is written into the run folder alone", path.display());
    }
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .with_context(|| format!("failed to open {}", path.display()))
}

/// A reader that limits the length of rows, so that one huge row cannot fill the memory.
pub(super) struct LimitedRows<R> {
    from: R,
    row: u64,
}

impl<R> LimitedRows<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { from, row: 0 }
    }

    /// Resets the row length; to be called after each row.
    pub(super) const fn row_ends(&mut self) {
        self.row = 0;
    }
}

impl<R: Read> Read for LimitedRows<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(into)?;
        self.row += n as u64;
        if self.row > LONGEST_ROW {
            return Err(std::io::Error::new(ErrorKind::InvalidData, "a row of it is longer than 4 MiB"));
        }
        Ok(n)
    }
}

/// Returns true if the path is a symbolic link.
pub(crate) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

/// Fails if the folder is a link, because files behind it belong to someone else.
///
/// # Errors
/// Fails if it is a link.
pub fn no_link(folder: &Path) -> Result<()> {
    if is_link(folder) {
        bail!(
            "{} is a link to another folder, into which nothing is written: remove the link",
            folder.display()
        );
    }
    Ok(())
}

/// Creates a folder inside a run folder, with its parents.
///
/// # Errors
/// Fails if it is a link, or cannot be created; the message names it.
pub fn make_folder(folder: &Path) -> Result<()> {
    no_link(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("failed to create the folder {}", folder.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("theirs"), "theirs").unwrap();
        for link in ["report.md", "report.tmp"] {
            symlink("theirs", at(link)).unwrap();
        }
        replace(&at("report.md"), b"ours").unwrap();
        assert_eq!(
            (fs::read(at("theirs")).unwrap(), fs::read(at("report.md")).unwrap()),
            (b"theirs".into(), b"ours".into())
        );
        assert!(
            !is_link(&at("report.md")) && is_link(&at("report.tmp")),
            "nothing is done to what is beside it"
        );
        // Permissions equal those of an ordinary new file.
        fs::write(at("plain"), "").unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode();
        assert_eq!(mode("report.md"), mode("plain"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "nothing is left");
        fs::create_dir(at("folder")).unwrap();
        assert!(replace(&at("folder"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5, "nothing is left of what failed");
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        File::create(at("large")).unwrap().set_len(LARGEST + 1).unwrap();
        fs::write(at("secret"), "a secret line").unwrap();
        symlink("secret", at("link")).unwrap();
        for (name, why) in [
            ("pipe", "no file"),
            ("endless", "is a link"),
            ("link", "is a link"),
            (".", "no file"),
            ("large", "64 MiB"),
        ] {
            let e = format!("{:#}", whole(&at(name)).unwrap_err());
            assert!(e.contains(why) && e.contains(name) && !e.contains("a secret"), "{name}: {e}");
        }
        let e = format!("{:#}", plan_text(&at("large")).unwrap_err());
        assert!(e.contains("4 MiB"), "{e}");
        assert!(whole(&at("nothing")).unwrap().is_none());
        assert!(format!("{:#}", text(&at("nothing")).unwrap_err()).contains("not there"));
    }

    #[test]
    fn what_a_killed_writer_left_is_known_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let kept = beside(&dir.path().join("report.md")).unwrap().keep().unwrap().1;
        for name in ["report.tmp", "report.notes.tmp", "other.abc123.tmp", "report.abc123"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let mut found = remains(dir.path(), |stem| stem == "report");
        found.sort();
        let mut expected = vec![kept, dir.path().join("report.tmp")];
        expected.sort();
        assert_eq!(found, expected);
        assert!(remains(&dir.path().join("nothing"), |_| true).is_empty());
    }
}
