//! Files as they come: gzip and zstd are noticed by their first bytes, whatever the file is called.

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// How much is read ahead at once.
const AHEAD: usize = 128 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// The text of a file, read in order with bounded memory, without a byte order mark.
pub(super) type Bytes = BufReader<Box<dyn Read + Send>>;

/// A file whose beginning has been looked at.
pub(super) enum Opened {
    /// As it lies there: a regular file, which can be read at any place. Its text begins behind so many bytes.
    Plain(File, u64),
    /// Compressed, or a pipe: it can only be read in order.
    InOrder(Bytes),
}

/// Opens a file to be read from its start.
///
/// # Errors
/// It cannot be opened or read, or is not UTF-8; the message names it.
pub(super) fn open(path: &Path) -> Result<Bytes> {
    match look(path)? {
        Opened::InOrder(bytes) => Ok(bytes),
        Opened::Plain(file, start) => {
            let mut bytes = BufReader::with_capacity(AHEAD, Box::new(file) as Box<dyn Read + Send>);
            bytes.fill_buf().with_context(|| unread(path))?;
            bytes.consume(start as usize);
            Ok(bytes)
        }
    }
}

/// Opens a file and looks at how it is packed.
///
/// # Errors
/// As [`open`].
pub(super) fn look(path: &Path) -> Result<Opened> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    opened(file).with_context(|| unread(path))
}

fn unread(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

fn opened(file: File) -> Result<Opened> {
    let regular = file.metadata()?.is_file();
    let mut input = BufReader::with_capacity(AHEAD, file);
    let head = input.fill_buf()?;
    let packed: Box<dyn Read + Send> = if head.starts_with(GZIP) {
        Box::new(Packed { name: "gzip", source: MultiGzDecoder::new(input) })
    } else if head.starts_with(ZSTD) {
        Box::new(Packed {
            name: "zstd",
            source: Zstd { source: input, decoder: FrameDecoder::new(), open: false },
        })
    } else if regular {
        let start = mark(head)?;
        let mut file = input.into_inner();
        io::Seek::rewind(&mut file)?;
        return Ok(Opened::Plain(file, start));
    } else {
        Box::new(input)
    };
    let mut bytes = BufReader::with_capacity(AHEAD, packed);
    let start = mark(bytes.fill_buf()?)?;
    bytes.consume(start as usize);
    Ok(Opened::InOrder(bytes))
}

/// The length of the byte order mark.
fn mark(head: &[u8]) -> Result<u64> {
    if UTF16_MARKS.into_iter().any(|mark| head.starts_with(mark)) {
        bail!("the text is UTF-16: save it as UTF-8");
    }
    Ok(if head.starts_with(UTF8_MARK) { UTF8_MARK.len() as u64 } else { 0 })
}

/// Says in an error what the file was unpacked as.
struct Packed<R> {
    name: &'static str,
    source: R,
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.source.read(into).map_err(|e| io::Error::new(e.kind(), format!("as {}: {e}", self.name)))
    }
}

/// Frame after frame: tools that compress on several threads write many.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.open && !self.begin()? {
                return Ok(0);
            }
            self.open = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            let n = self.decoder.read(into)?;
            if n > 0 || into.is_empty() {
                return Ok(n);
            }
            self.open = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    #[test]
    fn compression_is_noticed_whatever_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        let long = "0123456789".repeat(50_000);
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd("b")].concat();
        for (bytes, want) in [
            (b"a,b\n".to_vec(), "a,b\n".to_owned()),
            ("\u{feff}a,b\n".as_bytes().to_vec(), "a,b\n".to_owned()),
            (Vec::new(), String::new()),
            ([gzip("a"), gzip(&long)].concat(), format!("a{long}")),
            ([zstd(&long), zstd("c")].concat(), format!("{long}c")),
            ([zstd("a"), skipped].concat(), "ab".to_owned()),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            let mut text = String::new();
            open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, want);
        }
    }

    #[test]
    fn torn_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        for bytes in [gzip(&"abc".repeat(5_000)), zstd(&"abc".repeat(5_000))] {
            std::fs::write(&path, &bytes[..bytes.len() - 6]).unwrap();
            assert!(open(&path).and_then(|mut b| Ok(b.read_to_end(&mut Vec::new())?)).is_err());
        }
        std::fs::write(&path, b"\xff\xfea\0").unwrap();
        let error = format!("{:#}", open(&path).map(drop).unwrap_err());
        assert!(error.contains("UTF-16") && error.contains(&path.display().to_string()), "{error}");
        let error = open(&dir.path().join("none")).map(drop).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot open"), "{error:#}");
    }
}
