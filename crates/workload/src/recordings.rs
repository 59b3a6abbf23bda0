//! Recordings: audio files that are sent as they are.

use super::audio::Clip;
use super::files::SentKind;
use super::wav;
use anyhow::{Context, Result, bail};
use goodput_core::units::{short, thousands};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Recordings with known lengths. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recordings {
    files: Arc<[Recording]>,
}

#[derive(Debug)]
struct Recording {
    path: PathBuf,
    length: Duration,
}

impl Recordings {
    /// Finds the files and reads their lengths. Of a directory, it takes the files that end in `.wav`.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        let open = |path: PathBuf| anyhow::Ok(Recording { length: length(&path)?, path });
        let files = KIND.find(paths)?.into_iter().map(open).collect::<Result<_>>()?;
        Ok(Self { files })
    }

    /// Returns their number.
    pub(crate) fn count(&self) -> u64 {
        self.files.len() as u64
    }

    /// Returns the length of a recording.
    pub(crate) fn length(&self, index: u32) -> Duration {
        self.files.get(index as usize).map_or(Duration::ZERO, |file| file.length)
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub(crate) fn read(&self, index: u32) -> Result<Clip> {
        let Some(file) = self.files.get(index as usize) else { bail!("there is no recording {index}") };
        let wav = fs::read(&file.path).with_context(|| format!("cannot read {}", file.path.display()))?;
        Ok(Clip { wav, length: file.length })
    }

    /// Describes the recordings: `120 recordings of 3–35 s, 12.3 s on average (WAV)`.
    pub(crate) fn title(&self) -> String {
        let lengths = || self.files.iter().map(|file| file.length);
        let s = |of: Option<Duration>| short(of.unwrap_or_default().as_secs_f64());
        let total: Duration = lengths().sum();
        match self.files.len() {
            1 => format!("1 recording of {} s (WAV)", s(lengths().next())),
            n => format!(
                "{} recordings of {}–{} s, {} s on average (WAV)",
                thousands(n as f64),
                s(lengths().min()),
                s(lengths().max()),
                short(total.as_secs_f64() / n as f64)
            ),
        }
    }
}

const KIND: SentKind = SentKind {
    extensions: &["wav"],
    name: "WAV",
    owner: "a request",
    convert: "only WAV files are sent, since their length is in their header; convert others first, such as with \
              `ffmpeg -i speech.mp3 speech.wav`",
};

/// Reads the length of a recording.
fn length(path: &Path) -> Result<Duration> {
    let file = KIND.open(path)?;
    wav::length(file).map_err(|problem| anyhow::anyhow!("{} {problem}: {}", path.display(), KIND.convert))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_found_and_measured() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, seconds: u64| {
            let samples = vec![7; 16_000 * seconds as usize];
            let wav = [&wav::header(8_000 * seconds as u32, 8_000)[..], &samples].concat();
            fs::write(dir.path().join(name), &wav).unwrap();
            Clip { wav, length: Duration::from_secs(seconds) }
        };
        let (short, long) = (write("a.wav", 2), write("b.WAV", 5));
        fs::write(dir.path().join("notes.txt"), "no audio").unwrap();
        let all = Recordings::open(&[dir.path().into()]).unwrap();
        assert_eq!(
            (all.count(), all.title()),
            (2, "2 recordings of 2–5 s, 3.5 s on average (WAV)".to_owned())
        );
        assert_eq!((all.read(0).unwrap(), all.read(1).unwrap()), (short, long));
        let one = Recordings::open(&[dir.path().join("b.WAV")]).unwrap();
        assert_eq!(
            (one.length(0), one.title()),
            (Duration::from_secs(5), "1 recording of 5 s (WAV)".to_owned())
        );
        for (name, part) in [
            ("notes.txt", "notes.txt is not a WAV file: only WAV files are sent"),
            ("missing.wav", "cannot read"),
            ("empty", "contains no"),
        ] {
            if name == "empty" {
                fs::create_dir(dir.path().join(name)).unwrap();
                fs::write(dir.path().join("empty/a.mp3"), "").unwrap();
            }
            let error = format!("{:#}", Recordings::open(&[dir.path().join(name)]).unwrap_err());
            assert!(error.contains(part), "{name}: {error}");
        }
        fs::remove_file(dir.path().join("a.wav")).unwrap();
        assert!(all.read(0).is_err());
    }
}
