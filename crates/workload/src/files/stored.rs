//! Random access to the bytes of a file, from any thread.

use super::open::{self, Opened};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const READ_AHEAD: usize = 1 << 16;

/// The text of one file. The contents of a compressed file or a pipe are copied to a temporary file.
#[derive(Debug)]
pub(crate) struct StoredFile {
    path: PathBuf,
    file: Arc<File>,
    /// Length of the byte order mark.
    start: u64,
    len: u64,
}

impl StoredFile {
    /// Opens a file, decompressing it if needed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, start) = match open::detect(path)? {
            Opened::Plain(file, start) => (file, start),
            Opened::Sequential(mut bytes) => {
                let mut copy = || {
                    let mut file = temporary().context("cannot create a temporary file")?;
                    io::copy(&mut bytes, &mut file)?;
                    file.flush()?;
                    anyhow::Ok(file)
                };
                (copy().with_context(|| format!("cannot read {}", path.display()))?, 0)
            }
        };
        let len = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
        Ok(Self { path: path.to_owned(), file: Arc::new(file), start, len })
    }

    /// Returns the path of the file as given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the decompressed length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the byte offset of the text, after the byte order mark.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Fills `into` with the bytes from `at` on. Fails if the file is too short.
    pub(crate) fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    /// Returns a reader of the text from its start.
    pub(crate) fn reader(&self) -> BufReader<FileRange> {
        FileRange::reader(&self.file, self.start, self.len)
    }
}

/// Reader of a part of a shared file, at its own position.
#[derive(Debug)]
pub(crate) struct FileRange {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl FileRange {
    /// Returns a buffered reader of the bytes between two offsets.
    pub(crate) fn reader(file: &Arc<File>, at: u64, end: u64) -> BufReader<Self> {
        BufReader::with_capacity(READ_AHEAD, Self { file: Arc::clone(file), at, end })
    }
}

impl Read for FileRange {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(into.len());
        let n = self.file.read_at(&mut into[..left], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Creates a file without a name: the system removes it with its last reader, even if the program is killed.
pub(crate) fn temporary() -> io::Result<File> {
    tempfile::tempfile()
}

/// Expands directories to their files in order of name, without hidden ones.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
            let entry = entry?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !hidden && entry.path().is_file() {
                inside.push(entry.path());
            }
        }
        if inside.is_empty() {
            bail!("{} contains no files", path.display());
        }
        inside.sort();
        all.append(&mut inside);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    #[test]
    fn compressed_files_read_like_plain_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &zstd(b"two\n")].concat();
        for (bytes, text) in [
            (b"one\ntwo\n".to_vec(), "one\ntwo\n"),
            (gzip(b"one\ntwo\n"), "one\ntwo\n"),
            ([gzip(b"one\n"), gzip(b"two\n")].concat(), "one\ntwo\n"),
            (zstd(b"one\ntwo\n"), "one\ntwo\n"),
            ([zstd(b"one\n"), skipped].concat(), "one\ntwo\n"),
            (b"\xef\xbb\xbfone".to_vec(), "one"),
            (gzip(b"\xef\xbb\xbfone"), "one"),
            (b"\xef\xbb\xbf".to_vec(), ""),
            (b"a".to_vec(), "a"),
            (Vec::new(), ""),
        ] {
            fs::write(&path, &bytes).unwrap();
            let stored = StoredFile::open(&path).unwrap();
            let mut got = String::new();
            stored.reader().read_to_string(&mut got).unwrap();
            assert_eq!(got, text);
            if let Some(at) = got.find("two") {
                let mut word = [0; 3];
                stored.read_at(at as u64, &mut word).unwrap();
                assert_eq!(&word, b"two");
            }
        }
    }

    #[test]
    fn truncated_or_misencoded_files_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let packed = gzip(b"some text that is long enough to be cut");
        for (bytes, message) in [
            (packed[..packed.len() - 9].to_vec(), "as gzip"),
            (zstd(b"some text")[..8].to_vec(), "as zstd"),
            (b"\xff\xfea\0".to_vec(), "UTF-16"),
        ] {
            fs::write(&path, &bytes).unwrap();
            let error = format!("{:#}", StoredFile::open(&path).unwrap_err());
            assert!(error.contains(message) && error.contains(&path.display().to_string()), "{error}");
        }
        let error = format!("{:#}", StoredFile::open(&dir.path().join("none")).unwrap_err());
        assert!(error.starts_with("cannot open"), "{error}");
    }

    #[test]
    fn a_directory_expands_to_its_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(expand(&[dir.path().to_owned()]).unwrap_err().to_string().contains("contains no files"));
        for name in ["b.jsonl", "a.jsonl", ".hidden"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join("inner")).unwrap();
        let names: Vec<_> = expand(&[dir.path().to_owned(), "other".into()])
            .unwrap()
            .iter()
            .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["a.jsonl", "b.jsonl", "other"]);
    }
}
