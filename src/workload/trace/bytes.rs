//! The bytes of a trace's file: gzip and zstd are noticed by their first bytes, whatever the file is called.

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// How much is read ahead at once.
const AHEAD: usize = 128 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BOM: &[u8] = &[0xef, 0xbb, 0xbf];

/// Plain bytes of a file, with bounded memory, without a byte order mark.
pub(super) type Bytes = BufReader<Box<dyn Read + Send>>;

/// Opens a file to be read from its start.
///
/// # Errors
///
/// It cannot be opened or read; the message names it.
pub(super) fn open(path: &Path) -> Result<Bytes> {
    let named = || format!("failed to read {}", path.display());
    let mut file = BufReader::with_capacity(AHEAD, File::open(path).with_context(named)?);
    let head = file.fill_buf().with_context(named)?;
    let (gzip, zstd) = (head.starts_with(GZIP), head.starts_with(ZSTD));
    let plain: Box<dyn Read + Send> = match (gzip, zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(file)),
        (_, true) => Box::new(Zstd { source: file, decoder: FrameDecoder::new(), open: false }),
        _ => Box::new(file),
    };
    let mut plain = BufReader::with_capacity(AHEAD, plain);
    if plain.fill_buf().with_context(named)?.starts_with(BOM) {
        plain.consume(BOM.len());
    }
    Ok(plain)
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
        let error = open(&dir.path().join("none")).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("failed to read"), "{error:#}");
    }
}
