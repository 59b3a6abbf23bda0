//! Images in requests to the simulated server: their size and identity, from base64.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use goodput_core::hash::fnv1a;
use goodput_engine::config::image_tokens;
use goodput_workload::images::Header;

/// Number of bytes by which images are told apart: tables, and compressed pixels.
const IDENTIFYING: usize = 3000;
/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An image as the model reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageTokens {
    /// Identity of its pixels: each of its tokens.
    pub(super) id: u64,
    /// Number of tokens.
    pub(super) count: u32,
}

impl ImageTokens {
    /// Reads the header of a PNG or JPEG file, in a data URL or in base64; `None` if it is neither. Metadata before the pixels may have any
    /// length, and do not make another image.
    pub(super) fn of(image: &str) -> Option<Self> {
        let base64 = image.split_once(";base64,").map_or(image, |(_, base64)| base64).as_bytes();
        let header = Header::read(|at, out| decode(base64, at, out)).ok()?;
        let contents = usize::try_from(header.contents).ok()?;
        let rest = base64.get(contents / 3 * 4..)?;
        let bytes = BASE64.decode(&rest[..rest.len().min((IDENTIFYING / 3 + 1) * 4)]).ok()?;
        let id = fnv1a(bytes.get(contents % 3..)?.chunks(IDENTIFYING).next()?);
        Some(Self { id, count: image_tokens(header.size.width, header.size.height) })
    }
}

/// Fills a buffer with the bytes at an offset of a file in base64; false if it ends before, or is no base64.
fn decode(base64: &[u8], at: u64, out: &mut [u8]) -> bool {
    // Four characters are three bytes.
    let Ok(at) = usize::try_from(at) else { return false };
    let (first, last) = (at / 3 * 4, (at + out.len()).div_ceil(3) * 4);
    let Some(characters) = base64.get(first..last.min(base64.len())) else { return false };
    let bytes = BASE64.decode(characters).unwrap_or_default();
    let bytes = bytes.get(at % 3..).and_then(|bytes| bytes.get(..out.len()));
    bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fixture(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/images/");
        std::fs::read(format!("{folder}{name}")).unwrap()
    }

    fn url(file: &[u8]) -> String {
        format!("data:image/any;base64,{}", BASE64.encode(file))
    }

    #[test]
    fn the_size_is_found_behind_any_metadata() {
        let (photo, map) = (fixture("photo.jpg"), fixture("map.png"));
        let exif = [&[0xff, 0xe1, 0xff, 0xff][..], &[7; 65_533]].concat();
        let large = [&photo[..2], &exif, &exif, &photo[2..]].concat();
        let tokens = |file: &[u8]| ImageTokens::of(&url(file)).unwrap();
        // 120 × 80 pixels are 5 by 3 squares of 28.
        for file in [&photo, &map, &large] {
            assert_eq!(tokens(file).count, 15);
        }
        assert_eq!(
            ImageTokens::of(&BASE64.encode(&photo)),
            Some(tokens(&photo)),
            "without the head of a URL"
        );
        assert_eq!(
            ImageTokens::of(url(&photo).trim_end_matches('=')),
            Some(tokens(&photo)),
            "without padding"
        );
    }

    #[test]
    fn images_are_told_apart_by_their_pixels() {
        let photo = fixture("photo.jpg");
        let id = |file: &[u8]| ImageTokens::of(&url(file)).unwrap().id;
        let comment = [&photo[..2], &[0xff, 0xfe, 0, 6, 1, 2, 3, 4], &photo[2..]].concat();
        let mut tables = photo.clone();
        let at = photo.windows(2).position(|marker| marker == [0xff, 0xdb]).unwrap();
        tables[at + 9] += 1;
        assert_eq!(id(&comment), id(&photo), "metadata");
        assert_ne!(id(&tables), id(&photo), "other tables");
        assert_ne!(id(&photo), id(&fixture("map.png")));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        for text in [
            "",
            "x y",
            "data:image/png;base64,",
            "https://example.com/a.png",
            "data:image/gif;base64,R0lGODlhAQABAAAA",
        ] {
            assert_eq!(ImageTokens::of(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            text in "(?s).{0,40}",
            cut in 0..400_usize,
        ) {
            let mut file = BASE64.encode([&b"\xff\xd8"[..], &bytes].concat());
            file.truncate(cut);
            let _ = ImageTokens::of(&(file + &text));
            let _ = ImageTokens::of(&text);
        }
    }
}
