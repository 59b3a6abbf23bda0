//! Images from files: found, measured, and varied if no two may be the same.

use super::header::Header;
use super::{Image, ImageFormat, ImageSize, LONGEST_SIDE, PlannedImage, variation};
use crate::files::SentKind;
use anyhow::{Context, Result, anyhow, bail};
use goodput_core::units::thousands;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KIND: SentKind = SentKind {
    extensions: &["png", "jpg", "jpeg"],
    name: ".png, .jpg or .jpeg",
    owner: "an image",
    convert: "only PNG and JPEG files are sent; convert others first, such as with `magick photo.webp photo.jpg`",
};

/// Image files with known sizes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ImageFiles {
    files: Arc<[ImageFile]>,
}

#[derive(Debug)]
struct ImageFile {
    path: PathBuf,
    format: ImageFormat,
    size: ImageSize,
}

impl ImageFiles {
    /// Finds the files and reads their sizes. Of a directory, it takes the files that end in `.png`, `.jpg` or `.jpeg`.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Self> {
        let files = KIND.find(paths)?.into_iter().map(ImageFile::open).collect::<Result<_>>()?;
        Ok(Self { files })
    }

    /// Draws one of the files.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> PlannedImage {
        let index = rng.random_range(0..self.files.len());
        PlannedImage { size: self.files[index].size, file: Some(index as u32) }
    }

    /// Reads a file. With random numbers, returns a variant of it with other pixels.
    ///
    /// # Errors
    /// The file can no longer be read, or not be decoded.
    pub(super) fn read(&self, index: u32, rng: Option<&mut ChaCha8Rng>) -> Result<Image> {
        let Some(file) = self.files.get(index as usize) else { bail!("there is no image file {index}") };
        let named = || file.path.display();
        let bytes = fs::read(&file.path).with_context(|| format!("cannot read {}", named()))?;
        match rng {
            None => Ok(Image { media_type: file.format.media_type(), bytes }),
            Some(rng) => variation::vary(file.format, bytes, rng)
                .map_err(|problem| anyhow!("{} {problem}; leave it out, or write it anew", named())),
        }
    }
}

impl ImageFile {
    /// Reads format and size of a file.
    fn open(path: PathBuf) -> Result<Self> {
        let header = header(&path)?;
        let named = || path.display();
        let ImageSize { width, height } = header.size;
        if width.max(height) > LONGEST_SIDE {
            bail!(
                "{} has {} pixels: an image may have {LONGEST_SIDE} pixels a side; shrink it, such as with `magick large.jpg -resize 50% \
                 small.jpg`",
                named(),
                header.size
            );
        }
        if header.format == ImageFormat::Jpeg && !header.is_quantized {
            bail!(
                "{} is a JPEG file without quantization tables, which few servers can decode: write it anew, such as with \
                 `magick old.jpg new.jpg`",
                named()
            );
        }
        Ok(Self { format: header.format, size: header.size, path })
    }
}

/// Reads the header of a file.
fn header(path: &Path) -> Result<Header> {
    let mut file = KIND.open(path)?;
    let read =
        |at: u64, out: &mut [u8]| file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(out)).is_ok();
    Header::read(read).map_err(|problem| anyhow!("{} {problem}: {}", path.display(), KIND.convert))
}

impl fmt::Display for ImageFiles {
    /// Formats `120 images from files, 640 × 480 – 1920 × 1080 pixels`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = || self.files.iter().map(|file| file.size);
        let pixels = |size: &ImageSize| u64::from(size.width) * u64::from(size.height);
        let (Some(least), Some(most)) = (sizes().min_by_key(pixels), sizes().max_by_key(pixels)) else {
            return Ok(());
        };
        match self.files.len() {
            1 => f.write_str("an image from a file, ")?,
            n => write!(f, "{} images from files, ", thousands(n as f64))?,
        }
        if least == most { write!(f, "{most} pixels") } else { write!(f, "{least} – {most} pixels") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::sent::MOST_BYTES;
    use crate::seed::{Purpose, stream};
    use std::fs::File;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/images").join(name)
    }

    #[test]
    fn files_are_found_and_measured() {
        let dir = tempfile::tempdir().unwrap();
        let copy = |from: &str, to: &str| fs::copy(fixture(from), dir.path().join(to)).unwrap();
        copy("photo.jpg", "a.JPEG");
        copy("map.png", "b.png");
        // Its first bytes decide, not its name.
        copy("map.png", "c.jpg");
        fs::write(dir.path().join("notes.txt"), "no image").unwrap();
        let all = ImageFiles::open(&[dir.path().into(), fixture("photo.jpg")]).unwrap();
        assert_eq!(all.to_string(), "4 images from files, 120 × 80 pixels");
        let mut rng = stream(1, "main", 1, Purpose::Images);
        let drawn: Vec<u32> = (0..400).filter_map(|_| all.draw(&mut rng).file).collect();
        for index in 0..4 {
            let n = drawn.iter().filter(|file| **file == index).count();
            assert!((70..130).contains(&n), "{n} of 400 are file {index}");
        }
        let as_it_is = all.read(2, None).unwrap();
        assert_eq!(
            (as_it_is.media_type, as_it_is.bytes),
            ("image/png", fs::read(fixture("map.png")).unwrap())
        );
        let variant = all.read(0, Some(&mut rng)).unwrap();
        assert_ne!(
            (variant.media_type, variant.bytes),
            ("image/jpeg", fs::read(fixture("photo.jpg")).unwrap())
        );
        let one = ImageFiles::open(&[dir.path().join("b.png")]).unwrap();
        assert_eq!(one.to_string(), "an image from a file, 120 × 80 pixels");
        fs::remove_file(dir.path().join("b.png")).unwrap();
        assert!(format!("{:#}", one.read(0, None).unwrap_err()).contains("cannot read"));
    }

    /// Rows: the name of a file, its contents, and a part of the error.
    #[test]
    fn files_that_cannot_be_sent_are_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        let wide =
            |side: u32| [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", &side.to_be_bytes()[..], &[0, 0, 0, 9]].concat();
        let lossless = b"\xff\xd8\xff\xc3\0\x0b\x08\0\x09\0\x09\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\0\0";
        for (name, contents, part) in [
            (
                "a.webp",
                b"RIFF\0\0\0\0WEBPVP8 ".to_vec(),
                "a.webp is neither a PNG nor a JPEG file: only PNG and JPEG",
            ),
            ("a.png", b"GIF89a and more".to_vec(), "a.png is neither a PNG nor a JPEG file"),
            ("cut.png", wide(9)[..20].to_vec(), "damaged header"),
            ("wide.png", wide(20_000), "20000 × 9 pixels: an image may have 16384 pixels a side; shrink it"),
            ("lossless.jpg", lossless.to_vec(), "without quantization tables"),
        ] {
            fs::write(dir.path().join(name), contents).unwrap();
            let error = format!("{:#}", ImageFiles::open(&[dir.path().join(name)]).unwrap_err());
            assert!(error.contains(part), "{name}: {error}");
        }
        let large = File::create(dir.path().join("large.png")).unwrap();
        large.set_len(u64::from(MOST_BYTES) + (1 << 20)).unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::create_dir(dir.path().join("texts")).unwrap();
        fs::write(dir.path().join("texts/a.txt"), "").unwrap();
        for (name, part) in [
            ("missing.png", "cannot read"),
            ("large.png", "has 65 MiB: an image may have a file of 64 MiB"),
            ("empty", "contains no files"),
            ("texts", "contains no .png, .jpg or .jpeg files: only PNG and JPEG"),
        ] {
            let error = format!("{:#}", ImageFiles::open(&[dir.path().join(name)]).unwrap_err());
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}
