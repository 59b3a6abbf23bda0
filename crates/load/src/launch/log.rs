//! The log of a started command: its last lines, and the line that explains why the command ended.

use anyhow::{Context, Result};
use goodput_core::redact::{Redactor, registered};
use goodput_core::secrets::MASK;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Number of last lines that are shown.
const LINES: usize = 20;
/// Maximum length of a shown line, in characters.
const WIDEST: usize = 400;
/// Number of bytes at the end of a log that are searched for the reason of an exit: engines write long traces after the
/// line that tells.
const LOOKED_AT: u64 = 1 << 18;
/// Number of bytes of a log that are searched at once.
const PIECE: u64 = 1 << 20;

/// Phrases that engines, drivers and systems use when memory runs out, in lower case. Each is part of a message of
/// vLLM, SGLang, TGI, PyTorch, CUDA, llama.cpp, C++ or Python, or of the simulated server.
const OUT_OF_MEMORY: [&str; 15] = [
    "out of memory",
    "outofmemory",
    "out-of-memory",
    "not enough memory",
    "insufficient memory",
    "cannot allocate memory",
    "failed to allocate",
    "unable to allocate",
    "no available memory for the cache blocks",
    "larger than the available kv cache memory",
    "larger than the maximum number of tokens that can be stored in kv cache",
    "is less than desired gpu memory utilization",
    "memoryerror",
    "std::bad_alloc",
    "oom-kill",
];

/// The log of a command, from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    path: PathBuf,
    from: u64,
    secrets: Redactor,
    /// Offset up to which secrets have been removed.
    cleaned: u64,
}

impl Log {
    /// Opens a log at the end of its file, which is created if missing.
    pub(super) fn open(path: &Path, secrets: &[String]) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("failed to make the folder {}", folder.display()))?;
        }
        let from = fs::metadata(path).map_or(0, |m| m.len());
        // This process may know further secrets, such as the key of the server's API.
        let secrets = registered().with(secrets.iter().map(|secret| (secret.as_str(), MASK)));
        let log = Self { path: path.to_owned(), from, secrets, cleaned: from };
        log.file()?;
        Ok(log)
    }

    /// Returns the secrets that are removed from the log.
    pub(super) fn secrets(&self) -> &Redactor {
        &self.secrets
    }

    fn file(&self) -> Result<File> {
        let file = File::options().create(true).append(true).open(&self.path);
        file.with_context(|| format!("failed to write the log {}", self.path.display()))
    }

    pub(super) fn writer(&self) -> Result<Stdio> {
        self.file().map(Stdio::from)
    }

    /// Reads the end of the output since the start, without colours and secrets.
    fn end(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.from.max(length.saturating_sub(LOOKED_AT))))?;
            let mut bytes = Vec::new();
            file.take(LOOKED_AT).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // An unreadable log explains nothing, but must not hide the error that it was to explain.
        let text = plain(&String::from_utf8_lossy(&read().unwrap_or_default()));
        self.secrets.redact(&text).into_owned()
    }

    /// Returns the last lines that are not blank, without colours and secrets.
    pub fn last_lines(&self) -> Vec<String> {
        let text = self.end();
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.trim().is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(LINES)..];
        shown.iter().map(|l| l.chars().take(WIDEST).collect()).collect()
    }

    /// Returns the first line that reports an out-of-memory error, if there is one.
    pub fn out_of_memory(&self) -> Option<String> {
        out_of_memory(&self.end())
    }

    /// Overwrites every secret in the output since the last call: a server may log its own command line. Overwriting in
    /// place does not disturb a process that is still appending to the file.
    pub(super) fn clean(&mut self) {
        if let Err(e) = self.overwrite() {
            tracing::warn!(
                "warning: {} may hold a secret that could not be taken out: {e}",
                self.path.display()
            );
        }
    }

    fn overwrite(&mut self) -> std::io::Result<()> {
        // A secret may have been written in part at the last call.
        let before = (self.secrets.longest() as u64).saturating_sub(1);
        let mut file = File::options().read(true).write(true).open(&self.path)?;
        let length = file.metadata()?.len();
        while self.cleaned < length {
            let from = self.cleaned.saturating_sub(before).max(self.from);
            let mut piece = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            (&file).take(PIECE + before).read_to_end(&mut piece)?;
            for (at, length) in self.secrets.places(&piece) {
                file.seek(SeekFrom::Start(from + at as u64))?;
                file.write_all(&vec![b'*'; length])?;
            }
            let seen = from + piece.len() as u64;
            if seen <= self.cleaned {
                // Someone else truncated the file.
                break;
            }
            self.cleaned = seen;
        }
        Ok(())
    }
}

/// Returns the first line of a text that reports an out-of-memory error.
pub fn out_of_memory(text: &str) -> Option<String> {
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        OUT_OF_MEMORY.iter().any(|said| line.contains(said))
    };
    text.lines().find(tells).map(|line| line.trim().chars().take(WIDEST).collect())
}

/// Removes colour codes, the overwritten states of a progress bar, and other control characters from a text.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // Skip to the letter that ends the escape sequence.
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\r' if chars.peek() != Some(&'\n') => {
                let line = out.rfind('\n').map_or(0, |at| at + 1);
                out.truncate(line);
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str, secrets: &[&str]) -> (tempfile::TempDir, Log) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/a.log");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "of an earlier start: out of memory\n").unwrap();
        let secrets: Vec<String> = secrets.iter().map(|s| (*s).to_owned()).collect();
        let log = Log::open(&path, &secrets).unwrap();
        log.file().unwrap().write_all(text.as_bytes()).unwrap();
        (dir, log)
    }

    #[test]
    fn the_last_lines_are_those_of_this_start() {
        let (_dir, of) = log("one\n\n\u{1b}[32mtwo\u{1b}[0m\n10 %\r20 %\rdone\n\u{7}x", &[]);
        assert_eq!(of.last_lines(), ["one", "two", "done", "x"]);
        assert_eq!(of.out_of_memory(), None, "that was another time");
        let many: String = (0..100).map(|i| format!("{i}\n")).collect();
        let (_dir, of) = log(&many, &[]);
        assert_eq!((of.last_lines().len(), of.last_lines().remove(0)), (LINES, "80".to_owned()));
    }

    #[test]
    fn secrets_leave_the_file_and_the_lines() {
        let (dir, mut of) = log("args: --api-key sk-12345 and abc\n", &["sk-12345", "abc"]);
        assert_eq!(of.last_lines(), ["args: --api-key *** and abc"], "a short word may stand anywhere");
        of.clean();
        let text = fs::read_to_string(dir.path().join("logs/a.log")).unwrap();
        assert!(text.contains("of an earlier start") && !text.contains("sk-12345"), "{text}");
    }

    /// The server keeps writing: nothing of its output is lost, and a secret that was written in two pieces is found.
    #[test]
    fn secrets_leave_a_file_that_is_still_written_to() {
        let (dir, mut of) = log("one sk-12345 two sk-1", &["sk-12345"]);
        let mut server = of.file().unwrap();
        of.clean();
        server.write_all(b"2345 three\n").unwrap();
        of.clean();
        server.write_all("x".repeat(3 << 20).as_bytes()).unwrap();
        server.write_all(b" sk-12345 end").unwrap();
        of.clean();
        let text = fs::read_to_string(dir.path().join("logs/a.log")).unwrap();
        assert!(text.contains("one ******** two ******** three\nxxx"), "{}", &text[..100]);
        assert!(text.ends_with("x ******** end"), "{}", &text[text.len() - 100..]);
        // A file that was truncated is searched up to its new end.
        fs::write(dir.path().join("logs/a.log"), "").unwrap();
        of.clean();
    }

    /// Rows: a line of an engine, and whether it reports that memory ran out.
    #[test]
    fn memory_that_ran_out_is_recognised() {
        for (line, is) in [
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", true),
            (
                "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
                true,
            ),
            (
                "ValueError: Free memory on device (38.1/44.4 GiB) on startup is less than desired GPU memory utilization (0.95, 42.2 GiB).",
                true,
            ),
            ("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory", true),
            ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", true),
            ("terminate called after throwing an instance of 'std::bad_alloc'", true),
            ("INFO gpu_memory_utilization=0.9", false),
            ("error: unrecognized arguments: --max-num-seq", false),
        ] {
            let (_dir, of) = log(&format!("starting\n{line}\nTraceback\n"), &[]);
            assert_eq!(of.out_of_memory().is_some(), is, "{line}");
        }
    }
}
