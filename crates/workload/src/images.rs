//! Images of prompts: their number, and their sizes or files.

mod files;
mod generated;
mod header;
mod turn;
mod variation;

pub use generated::{GeneratedImages, ImageContent, ImageFormat};
pub use header::Header;
pub use turn::TurnImages;

use super::lengths::Lengths;
use super::sources::name;
use anyhow::Result;
use files::ImageFiles;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Largest side of an image in pixels.
const LONGEST_SIDE: u32 = 16_384;
/// Largest number of images of a request.
const MOST: u32 = 1_000;

/// Images that precede the text of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawImages", into = "RawImages")]
pub struct Images {
    /// Number of images in a request.
    pub count: Lengths,
    /// User turns of a conversation that have images.
    pub turns: ImageTurns,
    /// Origin of each image.
    pub source: ImageSource,
}

/// User turns of a conversation that have images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageTurns {
    /// The first.
    #[default]
    First,
    /// All.
    Every,
}

/// Origin of the images of prompts.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageSource {
    /// Generated for each request.
    Generated(GeneratedImages),
    /// PNG and JPEG files, or directories of them.
    Files(Vec<PathBuf>),
}

/// The `[workload.prompts.synthetic.images]` table as written.
// A mirror of `Images`: its sources are told apart by their keys.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "ImagesTable")]
struct RawImages {
    /// Number of images in a request; 1 by default. In a conversation, number in a turn that has images.
    #[serde(default = "Lengths::one")]
    count: Lengths,
    /// User turns of a conversation that have images; the first by default. Later turns send the images of earlier ones again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turns: Option<ImageTurns>,
    /// Width of each generated image in pixels. Either `width` and `height`, or one of `file` and `files` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    width: Option<Lengths>,
    /// Height of each generated image in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    height: Option<Lengths>,
    /// File format of generated images; PNG by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<ImageFormat>,
    /// Pixels of generated images; noise by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<ImageContent>,
    /// A PNG or JPEG file, or a directory of them, in place of generated images; relative paths count from the plan's directory. Each image
    /// is drawn at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// Several PNG or JPEG files or directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Vec<PathBuf>>,
}

impl TryFrom<RawImages> for Images {
    type Error = String;
    fn try_from(raw: RawImages) -> Result<Self, String> {
        let turns = raw.turns.unwrap_or_default();
        let is_generated = raw.format.is_some() || raw.content.is_some();
        let files = match (raw.width, raw.height, raw.file, raw.files) {
            (Some(width), Some(height), None, None) => {
                let (format, content) = (raw.format.unwrap_or_default(), raw.content.unwrap_or_default());
                let generated = GeneratedImages { width, height, format, content };
                return Self { count: raw.count, turns, source: ImageSource::Generated(generated) }.checked();
            }
            (None, None, Some(file), None) => vec![file],
            (None, None, None, Some(files)) if !files.is_empty() => files,
            (_, _, None, None) => {
                return Err("images needs width and height, such as { fixed = 1024 }, for generated images, or file or files, for images \
                            from files"
                    .into());
            }
            _ => return Err("images needs exactly one of width and height, file, and files".into()),
        };
        if is_generated {
            return Err(
                "format and content are those of generated images: images from files have their own".into()
            );
        }
        Self { count: raw.count, turns, source: ImageSource::Files(files) }.checked()
    }
}

impl From<Images> for RawImages {
    fn from(images: Images) -> Self {
        let raw = Self {
            count: images.count,
            turns: Some(images.turns).filter(|turns| *turns != ImageTurns::First),
            width: None,
            height: None,
            format: None,
            content: None,
            file: None,
            files: None,
        };
        match images.source {
            ImageSource::Generated(GeneratedImages { width, height, format, content }) => Self {
                width: Some(width),
                height: Some(height),
                format: Some(format),
                content: Some(content),
                ..raw
            },
            ImageSource::Files(files) => Self { files: Some(files), ..raw },
        }
    }
}

/// Size of an image in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSize {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl ImageSize {
    /// Returns true if both sides have pixels.
    const fn has_pixels(self) -> bool {
        self.width > 0 && self.height > 0
    }
}

/// An image of a request, before it is generated or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedImage {
    /// Size in pixels.
    pub size: ImageSize,
    /// Index of the file; `None` if the image is generated.
    pub file: Option<u32>,
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
    /// Returns the table, or its first mistake as an error message.
    fn checked(self) -> Result<Self, String> {
        if self.count.longest() > MOST {
            return Err(format!("count may be {}: a request may have {MOST} images", self.count.longest()));
        }
        let problem = match &self.source {
            ImageSource::Generated(generated) => generated.problem(),
            ImageSource::Files(_) => None,
        };
        problem.map_or(Ok(self), Err)
    }

    /// Returns the files and directories that images come from; empty if they are generated.
    pub(crate) fn files_mut(&mut self) -> &mut [PathBuf] {
        match &mut self.source {
            ImageSource::Generated(_) => &mut [],
            ImageSource::Files(files) => files,
        }
    }

    /// Returns true if images come from files.
    pub(crate) const fn are_files(&self) -> bool {
        matches!(self.source, ImageSource::Files(_))
    }

    /// Returns the problem of these images in conversations of so many turns, as an error message; one turn is no conversation.
    pub(crate) fn turns_problem(&self, turns: u32) -> Option<String> {
        if self.turns == ImageTurns::First {
            return None;
        }
        if turns < 2 {
            return Some(
                "turns = \"every\" is for conversations: add [workload.conversation], or leave it out".into(),
            );
        }
        let most = self.count.longest().saturating_mul(turns);
        (most > MOST).then(|| {
            format!("a conversation may have {most} images, which its last turn sends together: a request may have {MOST}")
        })
    }
}

/// The images of prompts, with their files opened. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct OpenedImages {
    count: Lengths,
    turns: ImageTurns,
    source: OpenedImageSource,
}

#[derive(Debug, Clone)]
enum OpenedImageSource {
    Generated(GeneratedImages),
    Files(ImageFiles),
}

impl OpenedImages {
    /// Opens the files, if images come from files.
    ///
    /// # Errors
    /// A file cannot be read, or is no image to send; the message names it.
    pub(crate) fn open(images: &Images) -> Result<Self> {
        let source = match &images.source {
            ImageSource::Generated(generated) => OpenedImageSource::Generated(*generated),
            ImageSource::Files(paths) => OpenedImageSource::Files(ImageFiles::open(paths)?),
        };
        Ok(Self { count: images.count, turns: images.turns, source })
    }

    /// Draws the images of each turn of a conversation, or of a request.
    pub(crate) fn draw_turns(&self, turns: u32, rng: &mut ChaCha8Rng) -> impl Iterator<Item = TurnImages> {
        let added = (0..turns).map(|turn| match self.turns {
            ImageTurns::First if turn > 0 => Vec::new(),
            ImageTurns::First | ImageTurns::Every => self.draw(rng),
        });
        TurnImages::of_turns(added.collect())
    }

    /// Draws the images that a turn adds.
    fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<PlannedImage> {
        let one = |rng: &mut ChaCha8Rng| match &self.source {
            OpenedImageSource::Generated(images) => PlannedImage { size: images.draw(rng), file: None },
            OpenedImageSource::Files(files) => files.draw(rng),
        };
        (0..self.count.draw(rng)).map(|_| one(rng)).collect()
    }

    /// Generates an image whose pixels depend on the random numbers alone, or reads a file and varies its pixels by them.
    ///
    /// # Errors
    /// The file can no longer be read, or not be decoded.
    pub(crate) fn unique(&self, image: PlannedImage, rng: &mut ChaCha8Rng) -> Result<Image> {
        match &self.source {
            OpenedImageSource::Files(files) => files.read(image.file.unwrap_or(0), Some(rng)),
            OpenedImageSource::Generated(images) => Ok(images.generate(image.size, rng)),
        }
    }

    /// Generates an image that is the same for the same random numbers, or reads a file as it is.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub(crate) fn repeated(&self, image: PlannedImage, mut rng: ChaCha8Rng) -> Result<Image> {
        match &self.source {
            OpenedImageSource::Files(files) => files.read(image.file.unwrap_or(0), None),
            OpenedImageSource::Generated(images) => Ok(images.generate(image.size, &mut rng)),
        }
    }

    /// Returns true if images come from files.
    pub(crate) const fn are_files(&self) -> bool {
        matches!(self.source, OpenedImageSource::Files(_))
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.width, self.height)
    }
}

impl fmt::Display for ImageTurns {
    /// Formats ` in every turn`; nothing if only the first turn has images.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => Ok(()),
            Self::Every => f.write_str(" in every turn"),
        }
    }
}

impl fmt::Display for Images {
    /// Formats `2 images of 1024 × 768 pixels`, or `2 images from photos, map.png`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let image = if self.count.longest() == 1 { "image" } else { "images" };
        write!(f, "{} {image} ", self.count)?;
        match &self.source {
            ImageSource::Generated(images) => write!(f, "of {images}")?,
            ImageSource::Files(files) => {
                let names: Vec<String> = files.iter().map(|file| name(file)).collect();
                write!(f, "from {}", names.join(", "))?;
            }
        }
        self.turns.fmt(f)
    }
}

impl fmt::Display for OpenedImages {
    /// Formats `1–2 of 120 images from files, 640 × 480 – 1920 × 1080 pixels`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            OpenedImageSource::Generated(images) => {
                let source = ImageSource::Generated(*images);
                Images { count: self.count, turns: self.turns, source }.fmt(f)
            }
            OpenedImageSource::Files(files) => write!(f, "{} of {files}{}", self.count, self.turns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, stream};

    fn parse(text: &str) -> Result<Images, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn numbers_and_sizes_are_drawn_as_planned() {
        let text = "count = { uniform = { min = 1, max = 4 } }\nwidth = { uniform = { min = 100, max = 200 } }\nheight = { fixed = 50 }";
        let images = parse(text).unwrap();
        let opened = OpenedImages::open(&images).unwrap();
        let mut rng = stream(1, "main", 1, Purpose::Images);
        let drawn = |_| opened.draw_turns(1, &mut rng).flat_map(|turn| turn.added().to_vec()).collect();
        let all: Vec<Vec<PlannedImage>> = (0..1_000).map(drawn).collect();
        assert!(all.iter().all(|sizes| (1..=4).contains(&sizes.len())));
        let planned = |image: &PlannedImage| {
            (100..=200).contains(&image.size.width) && image.size.height == 50 && image.file.is_none()
        };
        assert!(all.iter().flatten().all(planned));
        assert_eq!(images.to_string(), "1–4 images of 100–200 × 50 pixels");
        assert_eq!(opened.to_string(), images.to_string());
    }

    #[test]
    fn a_table_has_one_source() {
        const SIZE: &str = "width = { fixed = 64 }\nheight = { fixed = 40 }";
        for (text, part) in [
            ("", "needs width and height"),
            ("width = { fixed = 9 }", "needs width and height"),
            ("files = []", "exactly one of"),
            ("file = \"a.png\"\nfiles = [\"b.png\"]", "exactly one of"),
            (&format!("{SIZE}\nfile = \"a.png\""), "exactly one of"),
            ("width = { fixed = 9 }\nfile = \"a.png\"", "exactly one of"),
            ("file = \"a.png\"\nformat = \"png\"", "have their own"),
            ("file = \"a.png\"\ncontent = \"flat\"", "have their own"),
            ("file = \"a.png\"\nsize = 3", "unknown field"),
            ("width = { fixed = 20000 }\nheight = { fixed = 9 }", "width may be 20000"),
            (&format!("{SIZE}\ncount = {{ fixed = 2000 }}"), "1000 images"),
            ("file = \"a.png\"\ncount = { fixed = 2000 }", "1000 images"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, title) in [
            (SIZE, "1 image of 64 × 40 pixels"),
            ("file = \"photos/a.png\"", "1 image from a.png"),
            ("files = [\"a\", \"x/b.jpg\"]\ncount = { fixed = 2 }", "2 images from a, b.jpg"),
            ("turns = \"every\"\nfile = \"a.png\"", "1 image from a.png in every turn"),
        ] {
            let images = parse(text).unwrap();
            assert_eq!(images.to_string(), title);
            assert_eq!(parse(&toml::to_string(&images).unwrap()), Ok(images), "{text}");
        }
    }
}
