//! Generated images of prompts: their number, sizes, formats and pixels.

use super::lengths::Lengths;
use goodput_core::checked;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest side of an image in pixels.
const LONGEST_SIDE: u32 = 16_384;
/// Largest number of images of a request.
const MOST: u32 = 1_000;
/// Quality of a JPEG, as most libraries write it.
const JPEG_QUALITY: u8 = 90;
/// Number of bytes of a flat image that are random, so that no two are the same.
const NONCE: usize = 24;

/// Images that precede the text of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Images {
    /// Number of images in a request; 1 by default.
    #[serde(default = "Lengths::one")]
    pub count: Lengths,
    /// Width of each image in pixels.
    pub width: Lengths,
    /// Height of each image in pixels.
    pub height: Lengths,
    /// File format.
    #[serde(default)]
    pub format: ImageFormat,
    /// Pixels.
    #[serde(default)]
    pub content: ImageContent,
}

checked!(Images);

/// File format of generated images.
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

/// Size of an image in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSize {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

/// An image file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: &'static str,
    /// Contents of the file.
    pub bytes: Vec<u8>,
}

impl Images {
    fn check(&self) -> Result<(), String> {
        for (key, lengths) in [("width", self.width), ("height", self.height)] {
            if lengths.longest() > LONGEST_SIDE {
                return Err(format!(
                    "{key} may be {}: an image may have {LONGEST_SIDE} pixels a side",
                    lengths.longest()
                ));
            }
        }
        if self.count.longest() > MOST {
            return Err(format!("count may be {}: a request may have {MOST} images", self.count.longest()));
        }
        Ok(())
    }

    /// Draws the sizes of a request's images.
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<ImageSize> {
        let count = self.count.draw(rng);
        (0..count).map(|_| ImageSize { width: self.width.draw(rng), height: self.height.draw(rng) }).collect()
    }

    /// Generates the file of an image. Its pixels depend on the random numbers alone.
    pub(crate) fn generate(&self, size: ImageSize, rng: &mut ChaCha8Rng) -> Image {
        let pixels = self.pixels(size, rng);
        match self.format {
            ImageFormat::Png => Image { media_type: "image/png", bytes: png(size, self.content, &pixels) },
            ImageFormat::Jpeg => Image { media_type: "image/jpeg", bytes: jpeg(size, &pixels) },
        }
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

impl fmt::Display for Images {
    /// Formats `2 images of 1024 × 768 pixels`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let image = if self.count.longest() == 1 { "image" } else { "images" };
        write!(f, "{} {image} of {} × {} pixels", self.count, self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};

    const SIZE: ImageSize = ImageSize { width: 64, height: 40 };

    fn parse(more: &str) -> Images {
        toml::from_str(&format!("width = {{ fixed = 64 }}\nheight = {{ fixed = 40 }}\n{more}")).unwrap()
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

    #[test]
    fn sizes_are_drawn_as_planned() {
        let text = "count = { uniform = { min = 1, max = 4 } }\nwidth = { uniform = { min = 100, max = 200 } }\nheight = { fixed = 50 }";
        let images: Images = toml::from_str(text).unwrap();
        let mut rng = rng(0);
        let all: Vec<Vec<ImageSize>> = (0..1_000).map(|_| images.draw(&mut rng)).collect();
        assert!(all.iter().all(|sizes| (1..=4).contains(&sizes.len())));
        assert!(all.iter().flatten().all(|size| (100..=200).contains(&size.width) && size.height == 50));
        assert_eq!(images.to_string(), "1–4 images of 100–200 × 50 pixels");
        assert_eq!(parse("").to_string(), "1 image of 64 × 40 pixels");
        for (text, part) in [
            ("width = { fixed = 20000 }\nheight = { fixed = 9 }", "width may be 20000"),
            ("width = { fixed = 9 }\nheight = { fixed = 9 }\ncount = { fixed = 2000 }", "1000 images"),
        ] {
            let error = toml::from_str::<Images>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
