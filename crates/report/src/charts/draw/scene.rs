//! The input of a chart, and the format of its picture.

use goodput_run::rundir::{Run, Traces};

/// The purpose of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A page: 7.5 inches wide, as tall as it needs to be.
    Report,
    /// A slide, 16:9: few logical pixels, so that its type is large.
    Slide,
}

impl Format {
    pub(crate) const fn width(self) -> u32 {
        match self {
            Self::Report => 720,
            Self::Slide => 640,
        }
    }

    /// Returns the height of a slide.
    pub(crate) const fn height(self) -> u32 {
        self.width() * 9 / 16
    }

    /// Returns the resolution written into the PNG: `scale` times 96 dpi, or for a slide, 13⅓ inches wide.
    pub(crate) fn pixels_per_metre(self, scale: u32) -> u32 {
        let inches = match self {
            Self::Report => 1.0 / 96.0,
            Self::Slide => 40.0 / 3.0 / f64::from(self.width()),
        };
        (f64::from(scale) / (inches * 0.0254)).round() as u32
    }
}

/// The input of a chart, and the format of its picture.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) run: &'a Run,
    pub(crate) traces: &'a Traces,
    /// The message of the chart: its headline.
    pub(crate) message: &'a str,
    pub(crate) format: Format,
    /// Width of the picture in logical pixels.
    pub(crate) width: u32,
}
