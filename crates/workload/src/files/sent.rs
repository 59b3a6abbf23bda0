//! Files that are sent as they are, such as recordings and images: found and opened.

use super::expand;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Largest file in bytes. Some requests are written ahead, and servers take less: 25 MB of audio at OpenAI, and at vLLM by default.
pub(crate) const MOST_BYTES: u32 = 64 << 20;

/// A kind of file that requests send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentKind {
    /// Endings of the names that are taken from a directory, in lower case.
    pub(crate) extensions: &'static [&'static str],
    /// Name of the format in messages: `WAV`.
    pub(crate) name: &'static str,
    /// Name of the part of a request that has one such file, in messages: `an image`.
    pub(crate) owner: &'static str,
    /// Advice for files of another format.
    pub(crate) convert: &'static str,
}

impl SentKind {
    /// Finds the files. Of a directory, it takes those with one of the extensions.
    pub(crate) fn find(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let is_wanted = |file: &PathBuf| {
            file.extension().is_some_and(|own| self.extensions.iter().any(|e| own.eq_ignore_ascii_case(e)))
        };
        let mut found = Vec::new();
        for path in paths {
            let all = expand(std::slice::from_ref(path))?;
            let before = found.len();
            found.extend(all.into_iter().filter(|file| !path.is_dir() || is_wanted(file)));
            if found.len() == before {
                bail!("{} contains no {} files: {}", path.display(), self.name, self.convert);
            }
        }
        Ok(found)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, or is too large to send.
    pub(crate) fn open(&self, path: &Path) -> Result<BufReader<File>> {
        let named = || path.display();
        let file = File::open(path).with_context(|| format!("cannot read {}", named()))?;
        let bytes = file.metadata().with_context(|| format!("cannot read {}", named()))?.len();
        if bytes > u64::from(MOST_BYTES) {
            bail!(
                "{} has {} MiB: {} may have a file of {} MiB",
                named(),
                bytes >> 20,
                self.owner,
                MOST_BYTES >> 20
            );
        }
        Ok(BufReader::new(file))
    }
}
