//! WAV files: the header of generated audio, and the length of a recording from its header.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

/// Size in bytes of the header that [`header`] writes.
pub const HEADER: usize = 44;
/// Bytes of a sample: 16 bits, one channel.
pub const SAMPLE: u32 = 2;

/// Size of the fields of a `fmt ` chunk that every WAV file has.
const FORMAT: u32 = 16;
/// Format tag of plain samples.
const PCM: u16 = 1;

/// Returns the header of a file with these many samples of 16 bits in one channel.
pub fn header(samples: u32, sample_rate: u32) -> [u8; HEADER] {
    let data = samples.saturating_mul(SAMPLE);
    let mut out = [0; HEADER];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(b"RIFF");
    put(&data.saturating_add(HEADER as u32 - 8).to_le_bytes());
    put(b"WAVEfmt ");
    put(&FORMAT.to_le_bytes());
    put(&PCM.to_le_bytes());
    put(&1_u16.to_le_bytes());
    put(&sample_rate.to_le_bytes());
    put(&sample_rate.saturating_mul(SAMPLE).to_le_bytes());
    put(&(SAMPLE as u16).to_le_bytes());
    put(&(8 * SAMPLE as u16).to_le_bytes());
    put(b"data");
    put(&data.to_le_bytes());
    out
}

/// Reads the length of a WAV file of any sample format and number of channels, to the millisecond.
///
/// A program that writes to a pipe cannot go back and fill in the size of the samples. If the header has none, or more than the file, the
/// samples end with the file.
///
/// # Errors
/// It is not a WAV file, or has no samples; the message begins with a verb, so that it can follow the name of the file.
pub fn length(mut file: impl Read + Seek) -> Result<Duration, String> {
    let size = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let mut head = [0; 12];
    let is_whole = file.read_exact(&mut head).is_ok();
    if !is_whole || &head[..4] != b"RIFF" || &head[8..] != b"WAVE" {
        return Err("is not a WAV file".into());
    }
    let (mut at, mut bytes_per_s) = (head.len() as u64, None);
    loop {
        let mut chunk = [0; 8];
        if file.read_exact(&mut chunk).is_err() {
            return Err("is a WAV file without samples".into());
        }
        at += chunk.len() as u64;
        let (name, declared) = (&chunk[..4], number(&chunk[4..]));
        match name {
            b"fmt " => {
                let mut format = [0; FORMAT as usize];
                if declared < FORMAT || file.read_exact(&mut format).is_err() {
                    return Err("is a WAV file with a damaged header".into());
                }
                bytes_per_s = Some(number(&format[8..12]));
            }
            b"data" => {
                let rest = size.saturating_sub(at);
                let samples = if declared == 0 { rest } else { u64::from(declared).min(rest) };
                return of_samples(samples, bytes_per_s);
            }
            _ => {}
        }
        // Chunks begin at even places.
        at += u64::from(declared) + u64::from(declared % 2);
        file.seek(SeekFrom::Start(at)).map_err(unreadable)?;
    }
}

/// Returns the length of samples of a format.
fn of_samples(bytes: u64, bytes_per_s: Option<u32>) -> Result<Duration, String> {
    let Some(per_s) = bytes_per_s.filter(|n| *n > 0) else {
        return Err("is a WAV file that does not give its format before its samples".into());
    };
    let ms = bytes.saturating_mul(1000) / u64::from(per_s);
    if ms == 0 { Err("is a WAV file without samples".into()) } else { Ok(Duration::from_millis(ms)) }
}

/// Reads a little-endian number of four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn unreadable(error: io::Error) -> String {
    format!("cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn of(bytes: &[u8]) -> Result<Duration, String> {
        length(Cursor::new(bytes))
    }

    /// Returns a file of chunks: each a name, its declared size and its contents.
    fn riff(chunks: &[(&[u8; 4], u32, &[u8])]) -> Vec<u8> {
        let mut out = b"RIFF\0\0\0\0WAVE".to_vec();
        for (name, declared, bytes) in chunks {
            out.extend_from_slice(*name);
            out.extend_from_slice(&declared.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        out
    }

    /// Fields of a format: 8 kHz, two channels of 16 bits, 32,000 bytes/s.
    const STEREO: &[u8] = &[1, 0, 2, 0, 0x40, 0x1f, 0, 0, 0, 0x7d, 0, 0, 4, 0, 16, 0];

    #[test]
    fn a_header_has_the_fields_of_the_format() {
        let header = header(16_000, 16_000);
        let expected = [
            &b"RIFF"[..],
            &[0x24, 0x7d, 0, 0],
            b"WAVEfmt ",
            &[16, 0, 0, 0, 1, 0, 1, 0, 0x80, 0x3e, 0, 0, 0, 0x7d, 0, 0, 2, 0, 16, 0],
            b"data",
            &[0, 0x7d, 0, 0],
        ];
        assert_eq!(header.to_vec(), expected.concat());
    }

    #[test]
    fn lengths_are_read_from_any_header() {
        let second = vec![0; 32_000];
        let extended = [STEREO, &[0, 0]].concat();
        for (name, bytes, ms) in [
            ("plain", riff(&[(b"fmt ", 16, STEREO), (b"data", 32_000, &second)]), 1_000),
            ("a longer format", riff(&[(b"fmt ", 18, &extended), (b"data", 32_000, &second)]), 1_000),
            (
                "an odd chunk with its padding",
                riff(&[(b"LIST", 3, b"abc\0"), (b"fmt ", 16, STEREO), (b"data", 32_000, &second)]),
                1_000,
            ),
            ("size unknown", riff(&[(b"fmt ", 16, STEREO), (b"data", u32::MAX, &second)]), 1_000),
            ("size left open", riff(&[(b"fmt ", 16, STEREO), (b"data", 0, &second)]), 1_000),
            ("a part", riff(&[(b"fmt ", 16, STEREO), (b"data", 800, &second)]), 25),
        ] {
            assert_eq!(of(&bytes), Ok(Duration::from_millis(ms)), "{name}");
        }
        let whole = [&header(24_000, 16_000)[..], &vec![0; 48_000]].concat();
        assert_eq!(of(&whole), Ok(Duration::from_millis(1_500)));
    }

    #[test]
    fn files_without_a_length_are_refused() {
        let mute = [&STEREO[..8], &[0; 4], &STEREO[12..]].concat();
        for (bytes, part) in [
            (b"".to_vec(), "not a WAV file"),
            (b"ID3\x04 an mp3 file".to_vec(), "not a WAV file"),
            (b"RIFF\0\0\0\0AVI LIST".to_vec(), "not a WAV file"),
            (riff(&[]), "without samples"),
            (riff(&[(b"fmt ", 16, STEREO)]), "without samples"),
            (riff(&[(b"fmt ", 16, STEREO), (b"data", 0, b"")]), "without samples"),
            (riff(&[(b"data", 4, b"abcd")]), "does not give its format"),
            (riff(&[(b"fmt ", 16, &mute), (b"data", 4, b"abcd")]), "does not give its format"),
            (riff(&[(b"fmt ", 4, b"abcd")]), "damaged header"),
            (riff(&[(b"LIST", u32::MAX, b"")]), "without samples"),
        ] {
            let error = of(&bytes).unwrap_err();
            assert!(error.contains(part), "{bytes:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), begins: bool) {
            if begins && bytes.len() > 12 {
                bytes[..12].copy_from_slice(b"RIFF\0\0\0\0WAVE");
            }
            let _ = of(&bytes);
        }
    }
}
