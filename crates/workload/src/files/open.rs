//! Opening text files, decompressing gzip and zstd, which are recognised by their first bytes regardless of the file
//! name.

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Size of the read buffer, in bytes.
const BUFFER: usize = 128 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const UTF8_BOM: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16_BOMS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// The text of a file without byte order mark, read sequentially in bounded memory.
pub(crate) type Bytes = BufReader<Box<dyn Read + Send>>;

/// A file whose format is known.
pub(super) enum Opened {
    /// An uncompressed regular file, which can be read at any position; the number is the length of its byte order
    /// mark.
    Plain(File, u64),
    /// A compressed file or a pipe, which can only be read in order.
    Sequential(Bytes),
}

/// Opens a file for reading from its start.
///
/// # Errors
/// It cannot be opened or read, or is not UTF-8; names the file.
pub(crate) fn open(path: &Path) -> Result<Bytes> {
    match detect(path)? {
        Opened::Sequential(bytes) => Ok(bytes),
        Opened::Plain(file, start) => {
            let mut bytes = BufReader::with_capacity(BUFFER, Box::new(file) as Box<dyn Read + Send>);
            bytes.fill_buf().with_context(|| unread(path))?;
            bytes.consume(start as usize);
            Ok(bytes)
        }
    }
}

/// Opens a file and detects its compression.
///
/// # Errors
/// See [`open`].
pub(super) fn detect(path: &Path) -> Result<Opened> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    detect_format(file).with_context(|| unread(path))
}

fn unread(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

fn detect_format(file: File) -> Result<Opened> {
    let regular = file.metadata()?.is_file();
    let mut input = BufReader::with_capacity(BUFFER, file);
    let head = input.fill_buf()?;
    let decompressed: Box<dyn Read + Send> = if head.starts_with(GZIP) {
        Box::new(NamedErrors { format: "gzip", source: MultiGzDecoder::new(input) })
    } else if head.starts_with(ZSTD) {
        Box::new(NamedErrors {
            format: "zstd",
            source: Zstd { source: input, decoder: FrameDecoder::new(), open: false },
        })
    } else if regular {
        let start = bom_length(head)?;
        let mut file = input.into_inner();
        io::Seek::rewind(&mut file)?;
        return Ok(Opened::Plain(file, start));
    } else {
        Box::new(input)
    };
    let mut bytes = BufReader::with_capacity(BUFFER, decompressed);
    let start = bom_length(bytes.fill_buf()?)?;
    bytes.consume(start as usize);
    Ok(Opened::Sequential(bytes))
}

/// Returns the length of the byte order mark.
fn bom_length(head: &[u8]) -> Result<u64> {
    if UTF16_BOMS.into_iter().any(|bom| head.starts_with(bom)) {
        bail!("the text is UTF-16: save it as UTF-8");
    }
    Ok(if head.starts_with(UTF8_BOM) { UTF8_BOM.len() as u64 } else { 0 })
}

/// Reader that adds the compression format to errors.
struct NamedErrors<R> {
    format: &'static str,
    source: R,
}

impl<R: Read> Read for NamedErrors<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.source.read(into).map_err(|e| io::Error::new(e.kind(), format!("as {}: {e}", self.format)))
    }
}

/// Decoder of a sequence of frames, which multi-threaded compressors write.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Starts the next frame; returns false at the end of the file.
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
    fn compression_is_recognised_regardless_of_the_name() {
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
    fn truncated_files_are_errors() {
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
