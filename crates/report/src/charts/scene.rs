//! What charts are drawn from, and for what.

use goodput_run::rundir::{Run, Traces};

/// What a picture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A page: 7.5 inches wide, as tall as it needs to be.
    Report,
    /// A slide, 16:9: few logical pixels, so that its type is large.
    Slide,
}

impl Format {
    pub(super) const fn width(self) -> u32 {
        match self {
            Self::Report => 720,
            Self::Slide => 640,
        }
    }

    /// Returns the height of a slide.
    pub(super) const fn height(self) -> u32 {
        self.width() * 9 / 16
    }

    /// Resolution written into the PNG: so many times 96 dpi, or a slide of 13⅓ inches.
    pub(super) fn pixels_per_metre(self, scale: u32) -> u32 {
        let inches = match self {
            Self::Report => 1.0 / 96.0,
            Self::Slide => 40.0 / 3.0 / f64::from(self.width()),
        };
        (f64::from(scale) / (inches * 0.0254)).round() as u32
    }
}

/// What a chart is drawn from, and for what.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) run: &'a Run,
    pub(super) traces: &'a Traces,
    pub(super) format: Format,
    /// Width of the picture in logical pixels.
    pub(super) width: u32,
}
