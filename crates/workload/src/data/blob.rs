//! Random access to files, plain or compressed, with or without byte order mark, from any thread.

use crate::bytes::{self, Bytes, Opened};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const READ_AHEAD: usize = 1 << 16;

/// The bytes of one file. The contents of a compressed file or a pipe are copied to an anonymous temporary file, which
/// the system removes with the process.
#[derive(Debug)]
pub struct Blob {
    path: PathBuf,
    file: File,
    /// Length of the byte order mark.
    start: u64,
    len: u64,
}

impl Blob {
    /// Opens a file, decompressing it if needed.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, start) = match bytes::detect(path)? {
            Opened::Plain(file, start) => (file, start),
            Opened::Sequential(bytes) => {
                (spool(bytes).with_context(|| format!("cannot read {}", path.display()))?, 0)
            }
        };
        let len = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
        Ok(Self { path: path.to_owned(), file, start, len })
    }

    /// Returns the path of the file as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the decompressed length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if there is no text.
    pub fn is_empty(&self) -> bool {
        self.start == self.len
    }

    /// Returns the byte offset of the text, after the byte order mark.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Fills `into` with the bytes from `at` on. Fails if the file is too short.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(&self.file, into, at);
        #[cfg(not(unix))]
        {
            // The handle has one position, which a reader must not share.
            use std::io::Seek;
            static POSITION: std::sync::Mutex<()> = std::sync::Mutex::new(());
            let _lock = POSITION.lock().map_err(|_| io::Error::other("a reader panicked"))?;
            let mut file = &self.file;
            file.seek(io::SeekFrom::Start(at))?;
            file.read_exact(into)
        }
    }

    /// Returns a reader of the text from its start.
    pub fn reader(&self) -> BufReader<BlobReader<'_>> {
        BufReader::with_capacity(READ_AHEAD, BlobReader { blob: self, at: self.start })
    }
}

/// Sequential reader of a [`Blob`].
#[derive(Debug)]
pub struct BlobReader<'a> {
    blob: &'a Blob,
    at: u64,
}

impl Read for BlobReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = (into.len() as u64).min(self.blob.len.saturating_sub(self.at)) as usize;
        self.blob.read_at(self.at, &mut into[..n])?;
        self.at += n as u64;
        Ok(n)
    }
}

fn spool(mut bytes: Bytes) -> Result<File> {
    let mut file = tempfile::tempfile().context("cannot create a temporary file")?;
    io::copy(&mut bytes, &mut file)?;
    file.flush()?;
    Ok(file)
}

/// Expands directories to their files in order of name, without hidden ones.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
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
            let blob = Blob::open(&path).unwrap();
            let mut got = String::new();
            blob.reader().read_to_string(&mut got).unwrap();
            assert_eq!(got, text);
            assert_eq!(blob.is_empty(), text.is_empty());
            if let Some(at) = got.find("two") {
                let mut word = [0; 3];
                blob.read_at(at as u64, &mut word).unwrap();
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
            let error = format!("{:#}", Blob::open(&path).unwrap_err());
            assert!(error.contains(message) && error.contains(&path.display().to_string()), "{error}");
        }
        let error = format!("{:#}", Blob::open(&dir.path().join("none")).unwrap_err());
        assert!(error.starts_with("cannot open"), "{error}");
    }

    #[test]
    fn a_directory_expands_to_its_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(files(&[dir.path().to_owned()]).unwrap_err().to_string().contains("contains no files"));
        for name in ["b.jsonl", "a.jsonl", ".hidden"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join("inner")).unwrap();
        let names: Vec<_> = files(&[dir.path().to_owned(), "other".into()])
            .unwrap()
            .iter()
            .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["a.jsonl", "b.jsonl", "other"]);
    }
}
