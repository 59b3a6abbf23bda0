//! Headers of PNG and JPEG files: format, size in pixels, and the place where the contents begin.

use super::{ImageFormat, ImageSize};
use std::ops::Range;

/// First bytes of a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// First bytes of a JPEG file.
const JPEG: &[u8] = b"\xff\xd8";
/// Most segments and fill bytes before the compressed data of a JPEG file, so that a damaged file is not read byte by byte. A profile or a
/// large thumbnail takes some dozens.
const MOST_STEPS: u32 = 10_000;

/// Header of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Format, by the first bytes.
    pub format: ImageFormat,
    /// Size in pixels.
    pub size: ImageSize,
    /// Offset in bytes of the first part that is not metadata. In a JPEG file, EXIF data and colour profiles precede it.
    pub contents: u64,
    /// True if a JPEG file has quantization tables. Without them it cannot be decoded.
    pub is_quantized: bool,
}

impl Header {
    /// Reads the header of a file. `read` fills a buffer with the bytes at an offset, and returns false if the file ends before.
    ///
    /// # Errors
    /// It is neither a PNG nor a JPEG file, or its header is damaged; the message begins with a verb, so that it can follow the name of the
    /// file.
    pub fn read(mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Result<Self, String> {
        let mut start = [0; 8];
        if read(0, &mut start) && start == PNG {
            return png(&mut read).ok_or_else(|| "is a PNG file with a damaged header".into());
        }
        if start.starts_with(JPEG) {
            return jpeg(&mut read).ok_or_else(|| "is a JPEG file with a damaged header".into());
        }
        Err("is neither a PNG nor a JPEG file".into())
    }

    /// Reads the header of a file in memory.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub fn of(file: &[u8]) -> Result<Self, String> {
        Self::read(|at, out| read_slice(file, at, out))
    }
}

/// Fills a buffer with the bytes at an offset; false if there are too few.
fn read_slice(file: &[u8], at: u64, out: &mut [u8]) -> bool {
    let bytes = usize::try_from(at).ok().and_then(|at| file.get(at..)?.get(..out.len()));
    bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
}

/// Reads a big-endian number.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Reads the size in the first chunk, `IHDR`.
fn png(read: &mut impl FnMut(u64, &mut [u8]) -> bool) -> Option<Header> {
    let mut chunk = [0; 16];
    if !read(PNG.len() as u64, &mut chunk) || &chunk[4..8] != b"IHDR" {
        return None;
    }
    let size = ImageSize { width: number(&chunk[8..12]), height: number(&chunk[12..]) };
    let header = Header { format: ImageFormat::Png, size, contents: 0, is_quantized: false };
    size.has_pixels().then_some(header)
}

/// Reads the size in the frame header, up to the compressed data.
fn jpeg(read: &mut impl FnMut(u64, &mut [u8]) -> bool) -> Option<Header> {
    let (mut size, mut contents, mut is_quantized) = (None, None, false);
    let mut steps = MOST_STEPS;
    let mut at = JPEG.len() as u64;
    loop {
        let segment = Segment::read(&mut at, read, &mut steps)?;
        match segment.kind {
            Kind::Metadata => continue,
            Kind::CompressedData => break,
            Kind::Quantization => is_quantized = true,
            Kind::Frame => size = Some(segment.frame_size(read)?),
            Kind::Other => {}
        }
        contents.get_or_insert(segment.marker_at);
    }
    let size = size.filter(|size| size.has_pixels())?;
    Some(Header { format: ImageFormat::Jpeg, size, contents: contents?, is_quantized })
}

/// Returns the places of the quantization tables in a JPEG file, each with its byte of precision and number.
pub(super) fn quantization(file: &[u8]) -> Vec<Range<usize>> {
    let mut read = |at, out: &mut [u8]| read_slice(file, at, out);
    let (mut steps, mut at) = (MOST_STEPS, JPEG.len() as u64);
    let mut tables = Vec::new();
    while let Some(segment) = Segment::read(&mut at, &mut read, &mut steps) {
        match segment.kind {
            Kind::CompressedData => break,
            Kind::Quantization => tables.extend(segment.tables(file)),
            Kind::Metadata | Kind::Frame | Kind::Other => {}
        }
    }
    tables
}

/// Contents of a segment of a JPEG file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// EXIF data, profiles, thumbnails, comments.
    Metadata,
    /// Quantization tables.
    Quantization,
    /// The frame header, which has the size.
    Frame,
    /// The header of the first scan, after which compressed data follow.
    CompressedData,
    Other,
}

impl Kind {
    /// Returns the kind of a segment by its marker; `None` if no segment before the compressed data has it.
    const fn of(marker: u8) -> Option<Self> {
        Some(match marker {
            0xe0..=0xef | 0xfe => Self::Metadata,
            0xdb => Self::Quantization,
            0xda => Self::CompressedData,
            // Huffman tables, extensions, arithmetic coding: in the range of the frames, and none.
            0xc4 | 0xc8 | 0xcc => Self::Other,
            0xc0..=0xcf => Self::Frame,
            // Neither restart markers nor the start and the end of the image.
            0xdc..=0xdf | 0xf0..=0xfd => Self::Other,
            _ => return None,
        })
    }
}

/// A segment of a JPEG file: a marker, a length, and contents.
#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: Kind,
    /// Offset of the marker.
    marker_at: u64,
    /// Offset of the contents.
    start: u64,
    /// Offset of the next segment.
    end: u64,
}

impl Segment {
    /// Reads the segment at an offset, and moves the offset behind it. Any number of fill bytes may precede a marker.
    fn read(at: &mut u64, read: &mut impl FnMut(u64, &mut [u8]) -> bool, steps: &mut u32) -> Option<Self> {
        let mut head = [0; 4];
        loop {
            *steps = steps.checked_sub(1)?;
            if !read(*at, &mut head) || head[0] != 0xff {
                return None;
            }
            if head[1] != 0xff {
                break;
            }
            *at += 1;
        }
        // The length counts its own two bytes.
        let length = u64::from(number(&head[2..]));
        if length < 2 {
            return None;
        }
        let end = *at + 2 + length;
        let segment = Self { kind: Kind::of(head[1])?, marker_at: *at, start: *at + 4, end };
        *at = end;
        Some(segment)
    }

    /// Reads the size in a frame header, after the precision of samples.
    fn frame_size(self, read: &mut impl FnMut(u64, &mut [u8]) -> bool) -> Option<ImageSize> {
        let mut frame = [0; 5];
        let is_whole = self.end - self.start >= frame.len() as u64 && read(self.start, &mut frame);
        is_whole.then(|| ImageSize { height: number(&frame[1..3]), width: number(&frame[3..]) })
    }

    /// Returns the places of the tables in a segment of quantization tables. Leaves out one that is cut off.
    fn tables(self, file: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let (mut at, end) = (self.start as usize, (self.end as usize).min(file.len()));
        std::iter::from_fn(move || {
            let is_wide = file.get(at).filter(|_| at < end)? >> 4 > 0;
            let table = at..at + 1 + 64 * if is_wide { 2 } else { 1 };
            at = table.end;
            (table.end <= end).then_some(table)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a segment of a JPEG file.
    fn segment(marker: u8, contents: &[u8]) -> Vec<u8> {
        let length = u16::try_from(contents.len() + 2).unwrap().to_be_bytes();
        [&[0xff, marker], &length[..], contents].concat()
    }

    fn jpeg_of(segments: &[Vec<u8>]) -> Vec<u8> {
        [JPEG, &segments.concat()].concat()
    }

    /// A frame of 640 × 480 pixels.
    const FRAME: &[u8] = &[8, 1, 0xe0, 2, 0x80, 1, 1, 0x11, 0];

    fn table() -> Vec<u8> {
        segment(0xdb, &[0; 65])
    }

    fn scan() -> Vec<u8> {
        [segment(0xda, &[1, 1, 0, 0, 63, 0]), vec![0; 100]].concat()
    }

    #[test]
    fn sizes_are_read_from_any_header() {
        let exif = || segment(0xe1, &vec![0xff; 60_000]);
        let thumbnail = segment(0xe1, &jpeg_of(&[table(), segment(0xc0, &[8, 0, 9, 0, 9]), scan()]));
        let frame = |marker| segment(marker, FRAME);
        for (name, segments, contents) in [
            ("baseline", vec![table(), frame(0xc0), scan()], 2),
            ("tables after the frame", vec![frame(0xc0), table(), scan()], 2),
            ("progressive", vec![segment(0xe0, b"JFIF"), table(), frame(0xc2), scan()], 10),
            ("a large header", vec![exif(), exif(), exif(), table(), frame(0xc0), scan()], 180_014),
            ("with a thumbnail", vec![thumbnail, table(), frame(0xc1), scan()], 196),
            ("Huffman tables first", vec![segment(0xc4, &[0; 17]), table(), frame(0xc0), scan()], 2),
            ("fill bytes", vec![vec![0xff; 5], segment(0xfe, b"a"), table(), frame(0xc0), scan()], 12),
        ] {
            let header = Header::of(&jpeg_of(&segments)).unwrap();
            let size = ImageSize { width: 640, height: 480 };
            let expected = Header { format: ImageFormat::Jpeg, size, contents, is_quantized: true };
            assert_eq!(header, expected, "{name}");
        }
        let header = Header::of(&jpeg_of(&[frame(0xc3), scan()])).unwrap();
        assert!(!header.is_quantized, "lossless");
    }

    #[test]
    fn files_without_a_size_are_refused() {
        let ihdr = |width: u32, height: u32| {
            let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
            [PNG, &13_u32.to_be_bytes(), b"IHDR", &sides, &[8, 2, 0, 0, 0]].concat()
        };
        let png = Header::of(&ihdr(1920, 1080)).unwrap();
        assert_eq!((png.size.width, png.size.height, png.format), (1920, 1080, ImageFormat::Png));
        let flat = segment(0xc0, &[8, 0, 0, 2, 0x80, 1, 1, 0x11, 0]);
        for (bytes, part) in [
            (b"".to_vec(), "neither a PNG nor a JPEG"),
            (b"GIF89a\x01\x00\x01\x00".to_vec(), "neither a PNG nor a JPEG"),
            (b"RIFF\0\0\0\0WEBPVP8 ".to_vec(), "neither a PNG nor a JPEG"),
            (ihdr(0, 9), "PNG file with a damaged header"),
            (ihdr(9, 9)[..20].to_vec(), "PNG file with a damaged header"),
            (jpeg_of(&[vec![0; 20]]), "JPEG file with a damaged header"),
            (jpeg_of(&[table(), scan()]), "JPEG file with a damaged header"),
            (jpeg_of(&[table(), flat, scan()]), "JPEG file with a damaged header"),
            (jpeg_of(&[segment(0xc0, FRAME), table()]), "JPEG file with a damaged header"),
            (jpeg_of(&[segment(0xc0, &[8, 0]), scan()]), "JPEG file with a damaged header"),
            (jpeg_of(&[vec![0xff; 20_000]]), "JPEG file with a damaged header"),
            (jpeg_of(&[vec![0xff, 0xe1, 0, 1, 0, 0, 0, 0]]), "JPEG file with a damaged header"),
        ] {
            let error = Header::of(&bytes).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn tables_of_both_precisions_are_found() {
        let (narrow, wide) = (vec![0; 65], [vec![0x11], vec![0; 128]].concat());
        let file = jpeg_of(&[
            segment(0xe1, &table()),
            segment(0xdb, &[narrow.clone(), wide.clone()].concat()),
            segment(0xdb, &[narrow.clone(), vec![0; 9]].concat()),
            segment(0xc0, FRAME),
            scan(),
            table(),
        ]);
        let first = 2 + 4 + table().len() + 4;
        let second = first + narrow.len() + wide.len() + 4;
        assert_eq!(quantization(&file), [first..first + 65, first + 65..first + 194, second..second + 65]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), begin in 0..3) {
            let begin = [&b""[..], PNG, JPEG][begin as usize];
            let file = [begin, &bytes].concat();
            let _ = Header::of(&file);
            for table in quantization(&file) {
                prop_assert!(table.end <= file.len());
            }
        }

        #[test]
        fn any_segments_are_read_or_refused(
            all in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..140)), 0..6),
            cut in 0..900_usize,
        ) {
            let segments: Vec<Vec<u8>> = all.iter().map(|(marker, contents)| segment(*marker, contents)).collect();
            let mut file = jpeg_of(&segments);
            file.truncate(cut);
            let _ = Header::of(&file);
            for table in quantization(&file) {
                prop_assert!(table.end <= file.len());
            }
        }
    }
}
