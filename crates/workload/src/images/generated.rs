//! Generated images: their sizes, formats and pixels.

use super::{Image, ImageSize, LONGEST_SIDE};
use crate::lengths::Lengths;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Quality of a JPEG, as most libraries write it.
const JPEG_QUALITY: u8 = 90;
/// Number of bytes of a flat image that are random, so that no two are the same.
const NONCE: usize = 24;

/// Images generated for each request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GeneratedImages {
    /// Width of each image in pixels.
    pub width: Lengths,
    /// Height of each image in pixels.
    pub height: Lengths,
    /// File format.
    pub format: ImageFormat,
    /// Pixels.
    pub content: ImageContent,
}

/// File format of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageFormat {
    /// PNG with 8 bits for each of red, green and blue.
    #[default]
    Png,
    /// Baseline JPEG of quality 90.
    Jpeg,
}

/// Pixels of generated images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageContent {
    /// Random pixels, which no format can shrink: the largest file of a size.
    #[default]
    Noise,
    /// One colour but for a few pixels: the smallest file of a size.
    Flat,
}

impl GeneratedImages {
    /// Returns the first mistake, as an error message.
    pub(super) fn problem(&self) -> Option<String> {
        let sides = [("width", self.width), ("height", self.height)];
        let (key, lengths) = sides.into_iter().find(|(_, lengths)| lengths.longest() > LONGEST_SIDE)?;
        Some(format!(
            "{key} may be {}: an image may have {LONGEST_SIDE} pixels a side; set max",
            lengths.longest()
        ))
    }

    /// Draws the size of an image.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> ImageSize {
        ImageSize { width: self.width.draw(rng), height: self.height.draw(rng) }
    }

    /// Generates the file of an image. Its pixels depend on the random numbers alone.
    pub(super) fn generate(&self, size: ImageSize, rng: &mut ChaCha8Rng) -> Image {
        let pixels = self.pixels(size, rng);
        let bytes = match self.format {
            ImageFormat::Png => png(size, self.content, &pixels),
            ImageFormat::Jpeg => jpeg(size, &pixels),
        };
        Image { media_type: self.format.media_type(), bytes }
    }

    fn pixels(&self, size: ImageSize, rng: &mut ChaCha8Rng) -> Vec<u8> {
        let bytes = 3 * size.width as usize * size.height as usize;
        match self.content {
            ImageContent::Noise => {
                let mut pixels = vec![0; bytes];
                rng.fill_bytes(&mut pixels);
                pixels
            }
            ImageContent::Flat => {
                let mut pixels = vec![rng.random(); bytes];
                rng.fill_bytes(&mut pixels[..NONCE.min(bytes)]);
                pixels
            }
        }
    }
}

fn png(size: ImageSize, content: ImageContent, pixels: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(if content == ImageContent::Noise {
        pixels.len() + (pixels.len() >> 6)
    } else {
        0
    });
    let mut encoder = png::Encoder::new(&mut out, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(match content {
        // Compressing noise takes time and gains nothing.
        ImageContent::Noise => png::Compression::NoCompression,
        ImageContent::Flat => png::Compression::Fast,
    });
    // After the compression, which sets a filter too. Equal neighbours become zeros, which that compression is made for.
    encoder.set_filter(match content {
        ImageContent::Noise => png::Filter::NoFilter,
        ImageContent::Flat => png::Filter::Sub,
    });
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    written.expect("pixels of the declared size are written to memory");
    out
}

fn jpeg(size: ImageSize, pixels: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let side = |pixels: u32| u16::try_from(pixels).expect("a side is at most 16,384 pixels");
    jpeg_encoder::Encoder::new(&mut out, JPEG_QUALITY)
        .encode(pixels, side(size.width), side(size.height), jpeg_encoder::ColorType::Rgb)
        .expect("pixels of the declared size are written to memory");
    out
}

impl ImageFormat {
    /// Returns the media type.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }
}

impl fmt::Display for GeneratedImages {
    /// Formats `1024 × 768 pixels`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} pixels", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ImageSource, Images};
    use super::*;
    use crate::seed::{Purpose, stream};

    const SIZE: ImageSize = ImageSize { width: 64, height: 40 };

    fn parse(more: &str) -> GeneratedImages {
        let text = format!("width = {{ fixed = 64 }}\nheight = {{ fixed = 40 }}\n{more}");
        match toml::from_str::<Images>(&text).unwrap().source {
            ImageSource::Generated(images) => images,
            ImageSource::Files(files) => panic!("{files:?}"),
        }
    }

    fn rng(id: u64) -> ChaCha8Rng {
        let mut rng = stream(1, "main", 1, Purpose::Pixels);
        rng.set_stream(id);
        rng
    }

    /// Rows: the table, the first bytes of the file, and the least and the greatest size in bytes.
    #[test]
    fn files_have_their_format_and_the_weight_of_their_content() {
        const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
        const JPEG: &[u8] = b"\xff\xd8\xff";
        let raw = 3 * 64 * 40;
        for (more, magic, least, most) in [
            ("", PNG, raw, raw + 300),
            ("content = \"flat\"", PNG, 60, 400),
            ("format = \"jpeg\"", JPEG, raw / 3, 2 * raw),
            ("format = \"jpeg\"\ncontent = \"flat\"", JPEG, 600, 2_500),
        ] {
            let images = parse(more);
            let image = images.generate(SIZE, &mut rng(7));
            assert!(image.bytes.starts_with(magic), "{more}");
            assert!((least..=most).contains(&image.bytes.len()), "{more}: {} bytes", image.bytes.len());
            assert_eq!(image, images.generate(SIZE, &mut rng(7)), "deterministic");
            assert_ne!(image, images.generate(SIZE, &mut rng(8)), "{more}: another request has other pixels");
        }
    }

    #[test]
    fn a_png_reads_back_as_its_pixels() {
        for content in ["noise", "flat"] {
            let images = parse(&format!("content = \"{content}\""));
            let image = images.generate(SIZE, &mut rng(7));
            let mut reader = png::Decoder::new(std::io::Cursor::new(image.bytes)).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).unwrap();
            assert_eq!((info.width, info.height), (64, 40));
            assert_eq!(pixels, images.pixels(SIZE, &mut rng(7)), "{content}");
        }
    }
}
