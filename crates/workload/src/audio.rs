//! Audio of requests to transcribe: generated, or recordings from files.

use super::files::sent::MOST_BYTES;
use super::lengths::Lengths;
use super::wav;
use goodput_core::units::short;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Samples at the beginning of generated silence or of a tone that are random, so that no two files are the same.
const NONCE: usize = 32;
/// Bits by which the nonce is quieter than the loudest sound: it cannot be heard.
const NONCE_SHIFT: u32 = 8;
/// Frequency of a generated tone in Hz.
const TONE_HZ: f64 = 440.0;
/// Length that is assumed for the longest recording: about what a server takes by default, 25 MB at 16 kHz.
const LONG_RECORDING: Duration = Duration::from_secs(800);
/// Sample rates that a plan may set.
const SAMPLE_RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;

/// The audio of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawAudio", into = "RawAudio")]
pub enum Audio {
    /// Generated for each request.
    Generated(GeneratedAudio),
    /// WAV files, or directories of them.
    Recordings(Vec<PathBuf>),
}

/// Generated audio: WAV files with one channel of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GeneratedAudio {
    /// Length of the audio of a request in whole seconds.
    pub seconds: Lengths,
    /// Samples per second.
    pub sample_rate: u32,
    /// Contents.
    pub content: AudioContent,
}

/// Contents of generated audio. None of it is speech.
// Noise by default, because every sample of it is new: no cache helps, and no server skips it as silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AudioContent {
    /// White noise.
    #[default]
    Noise,
    /// Silence, which a server may skip.
    Silence,
    /// A tone of 440 Hz.
    Tone,
}

/// The `[workload.prompts.audio]` table as written.
// A mirror of `Audio`: its variants are told apart by their keys.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(rename = "AudioTable")]
struct RawAudio {
    /// Length of generated audio in whole seconds. Exactly one of `seconds`, `file` and `files` is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<Lengths>,
    /// Samples per second of generated audio; 16,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_rate: Option<u32>,
    /// Contents of generated audio; noise by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<AudioContent>,
    /// A WAV file to send as it is, or a directory of them; relative paths count from the plan's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// Several WAV files or directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<PathBuf>>,
}

impl TryFrom<RawAudio> for Audio {
    type Error = String;
    fn try_from(raw: RawAudio) -> Result<Self, String> {
        let files = match (raw.seconds, raw.file, raw.files) {
            (Some(seconds), None, None) => {
                let (sample_rate, content) =
                    (raw.sample_rate.unwrap_or(16_000), raw.content.unwrap_or_default());
                let generated = GeneratedAudio { seconds, sample_rate, content };
                return generated.problem().map_or(Ok(Self::Generated(generated)), Err);
            }
            (None, Some(file), None) => vec![file],
            (None, None, Some(files)) if !files.is_empty() => files,
            _ => {
                return Err("audio needs exactly one of seconds, such as { fixed = 30 }, for generated audio, and file or files, for \
                            recordings"
                    .into());
            }
        };
        if raw.sample_rate.is_some() || raw.content.is_some() {
            return Err(
                "sample-rate and content are those of generated audio: recordings are sent as they are"
                    .into(),
            );
        }
        Ok(Self::Recordings(files))
    }
}

impl From<Audio> for RawAudio {
    fn from(audio: Audio) -> Self {
        match audio {
            Audio::Generated(GeneratedAudio { seconds, sample_rate, content }) => Self {
                seconds: Some(seconds),
                sample_rate: Some(sample_rate),
                content: Some(content),
                ..Self::default()
            },
            Audio::Recordings(files) => Self { files: Some(files), ..Self::default() },
        }
    }
}

impl Audio {
    /// Returns the length of the longest audio of a request. Those of recordings are not known before the files are read.
    pub(crate) fn longest(&self) -> Duration {
        match self {
            Self::Generated(audio) => {
                Duration::from_secs(audio.seconds.longest().min(audio.most_seconds()).into())
            }
            Self::Recordings(_) => LONG_RECORDING,
        }
    }
}

/// An audio file to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clip {
    /// Contents of a WAV file.
    pub wav: Vec<u8>,
    /// Length of the audio.
    pub length: Duration,
}

impl Clip {
    /// Generates a second of noise, for a request that measures something else.
    pub fn second() -> Self {
        let audio =
            GeneratedAudio { seconds: Lengths::one(), sample_rate: 16_000, content: AudioContent::Noise };
        audio.generate(Duration::from_secs(1), &mut ChaCha8Rng::from_seed([0; 32]))
    }
}

impl GeneratedAudio {
    /// Returns the first mistake, as an error message.
    fn problem(&self) -> Option<String> {
        if !SAMPLE_RATES.contains(&self.sample_rate) {
            let (low, high) = (SAMPLE_RATES.start(), SAMPLE_RATES.end());
            return Some(format!(
                "sample-rate is {}: it must be between {low} and {high} Hz",
                self.sample_rate
            ));
        }
        let longest = self.seconds.longest();
        (longest > self.most_seconds()).then(|| {
            format!(
                "seconds may be {longest}: a request may have {} s of audio with a sample-rate of {} Hz (a file of {} MiB); set max",
                self.most_seconds(),
                self.sample_rate,
                MOST_BYTES >> 20
            )
        })
    }

    /// Returns the length of the largest file in whole seconds.
    fn most_seconds(&self) -> u32 {
        MOST_BYTES / (wav::SAMPLE * self.sample_rate)
    }

    /// Draws the length of a request's audio.
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> Duration {
        Duration::from_secs(self.seconds.draw(rng).min(self.most_seconds()).into())
    }

    /// Returns this audio with lengths multiplied by `by`.
    ///
    /// # Errors
    /// It becomes too long.
    pub(crate) fn scaled(&self, by: f64) -> Result<Self, String> {
        let scaled = Self { seconds: self.seconds.scaled(by), ..*self };
        scaled.problem().map_or(Ok(scaled), Err)
    }

    /// Generates a file, whose samples depend on the random numbers alone.
    ///
    /// Samples have at most half of the full amplitude. So the high byte of each is never a letter, and the boundary of a form, which is all
    /// letters, cannot occur in them.
    pub(crate) fn generate(&self, length: Duration, rng: &mut ChaCha8Rng) -> Clip {
        let samples = (length.as_secs_f64() * f64::from(self.sample_rate)).round() as usize;
        let mut wav = wav::header(samples as u32, self.sample_rate).to_vec();
        wav.resize(wav::HEADER + samples * wav::SAMPLE as usize, 0);
        let (all, _) = wav[wav::HEADER..].as_chunks_mut::<{ wav::SAMPLE as usize }>();
        match self.content {
            AudioContent::Noise => {
                rng.fill_bytes(all.as_flattened_mut());
                // Shifted by one bit, with its sign: half the amplitude.
                all.iter_mut().for_each(|[_, high]| *high = (*high as i8 >> 1) as u8);
                return Clip { wav, length };
            }
            AudioContent::Silence => {}
            AudioContent::Tone => {
                let phase = |at: usize| TAU * TONE_HZ * at as f64 / f64::from(self.sample_rate);
                let loudest = f64::from(i16::MAX / 2);
                let tone = (0..).map(|at| (phase(at).sin() * loudest) as i16);
                all.iter_mut().zip(tone).for_each(|(sample, value)| *sample = value.to_le_bytes());
            }
        }
        for sample in all.iter_mut().take(NONCE) {
            *sample = (rng.random::<i16>() >> NONCE_SHIFT).to_le_bytes();
        }
        Clip { wav, length }
    }
}

impl fmt::Display for GeneratedAudio {
    /// Formats `audio of 5–30 seconds (noise, 16 kHz)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match self.content {
            AudioContent::Noise => "noise",
            AudioContent::Silence => "silence",
            AudioContent::Tone => "a tone",
        };
        let second = if self.seconds.longest() == 1 { "second" } else { "seconds" };
        write!(
            f,
            "audio of {} {second} ({content}, {} kHz)",
            self.seconds,
            short(f64::from(self.sample_rate) / 1e3)
        )
    }
}

impl fmt::Display for Audio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(audio) => audio.fmt(f),
            Self::Recordings(files) => {
                let names: Vec<String> = files.iter().map(|file| super::sources::name(file)).collect();
                write!(f, "recordings in {}", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};
    use std::io::Cursor;

    fn parse(text: &str) -> Result<Audio, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    fn generated(more: &str) -> GeneratedAudio {
        match parse(&format!("seconds = {{ uniform = {{ min = 2, max = 4 }} }}\n{more}")).unwrap() {
            Audio::Generated(audio) => audio,
            other => panic!("{other:?}"),
        }
    }

    fn rng(id: u64) -> ChaCha8Rng {
        let mut rng = stream(1, "main", 1, Purpose::Samples);
        rng.set_stream(id);
        rng
    }

    fn samples(clip: &Clip) -> Vec<i16> {
        clip.wav[wav::HEADER..].as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn every_request_has_other_audio_of_its_length() {
        let length = Duration::from_secs(2);
        for (content, rate, loud) in [("noise", 16_000, 0.99), ("silence", 8_000, 0.0), ("tone", 16_000, 0.9)]
        {
            let audio = generated(&format!("content = \"{content}\"\nsample-rate = {rate}"));
            let clip = audio.generate(length, &mut rng(7));
            assert_eq!(clip.wav.len(), wav::HEADER + 4 * rate, "{content}");
            assert_eq!(wav::length(Cursor::new(&clip.wav)), Ok(length), "{content}");
            assert_eq!(clip, audio.generate(length, &mut rng(7)), "{content}: deterministic");
            assert_ne!(clip, audio.generate(length, &mut rng(8)), "{content}: another request");
            let all = samples(&clip);
            assert!(all.iter().all(|s| s.unsigned_abs() <= 1 << 14), "{content}: half of the amplitude");
            let heard = all.iter().filter(|s| s.unsigned_abs() > 128).count();
            assert!(heard as f64 >= loud * all.len() as f64, "{content}: {heard} of {}", all.len());
            if content == "silence" {
                assert_eq!(heard, 0, "the nonce cannot be heard");
            }
        }
    }

    /// Two letters in a row would be needed for the boundary of a form.
    #[test]
    fn no_generated_sample_looks_like_letters() {
        for content in ["noise", "silence", "tone"] {
            let audio = generated(&format!("content = \"{content}\""));
            let clip = audio.generate(Duration::from_secs(30), &mut rng(3));
            let letters = |pair: &&[u8]| pair.iter().all(u8::is_ascii_alphabetic);
            assert_eq!(clip.wav[wav::HEADER..].windows(2).find(letters), None, "{content}");
        }
    }

    #[test]
    fn lengths_are_drawn_as_planned() {
        let audio = generated("");
        let mut rng = rng(0);
        let all: Vec<u64> = (0..3_000).map(|_| audio.draw(&mut rng).as_secs()).collect();
        assert!(all.iter().all(|s| (2..=4).contains(s)));
        assert!((all.iter().sum::<u64>() as f64 / 3_000.0 - 3.0).abs() < 0.1);
        assert_eq!(audio.to_string(), "audio of 2–4 seconds (noise, 16 kHz)");
        assert_eq!(audio.scaled(2.0).unwrap().to_string(), "audio of 4–8 seconds (noise, 16 kHz)");
        assert!(audio.scaled(1e4).unwrap_err().contains("a file of 64 MiB"));
    }

    #[test]
    fn a_table_has_one_source() {
        for (text, part) in [
            ("", "exactly one of seconds"),
            ("files = []", "exactly one of seconds"),
            ("seconds = { fixed = 3 }\nfile = \"a.wav\"", "exactly one of seconds"),
            ("file = \"a.wav\"\nfiles = [\"b.wav\"]", "exactly one of seconds"),
            ("file = \"a.wav\"\ncontent = \"tone\"", "recordings are sent as they are"),
            ("seconds = { fixed = 3000 }", "2097 s of audio"),
            ("seconds = { fixed = 3 }\nsample-rate = 4000", "between 8000 and 48000"),
            ("seconds = { fixed = 3 }\ncontent = \"speech\"", "unknown variant"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        for text in ["seconds = { fixed = 3 }", "file = \"a.wav\"", "files = [\"a\", \"b\"]"] {
            let audio = parse(text).unwrap();
            assert_eq!(parse(&toml::to_string(&audio).unwrap()), Ok(audio), "{text}");
        }
        assert_eq!(parse("files = [\"x/a\", \"b.wav\"]").unwrap().to_string(), "recordings in a, b.wav");
    }
}
