//! Light and dark themes. Charts are drawn in the light palette and recoloured afterwards, so that no drawing code
//! depends on the theme.
//!
//! [`PALETTE`] lists every colour that a chart may use, its role, and its dark counterpart: the hue stays, and a colour
//! that stands out against white also stands out against the dark background. One test computes the contrast of each
//! (WCAG 2.2), another checks that no chart uses a colour outside the palette.

use super::canvas::{Canvas, Shape};
use super::hue::rgb;
use clap::ValueEnum;
use plotters::style::{RGBAColor, RGBColor};
use std::fmt::Write;

/// The colours of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Theme {
    /// White background.
    #[default]
    Light,
    /// Dark background.
    Dark,
}

/// The role of a colour, which determines its minimum contrast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Background.
    Ground,
    /// Text, and lines that have their names in the same colour: 4.5 to 1 at least.
    Text,
    /// Lines and marks: 3 to 1 at least in the dark.
    Line,
    /// Grids and areas behind data, which must not stand out.
    Fill,
}

/// A colour on white, on a dark ground, and its use.
const PALETTE: &[(u32, u32, Role)] = &[
    (0xffffff, 0x15181d, Role::Ground),
    // Ink and greys, the darkest first.
    (0x1a1a1a, 0xeceef1, Role::Text),
    (0x222222, 0xe1e4e8, Role::Text),
    (0x333333, 0xcfd3d9, Role::Text),
    (0x3d3d3d, 0xc2c7ce, Role::Text),
    (0x5f5f5f, 0xa3a9b3, Role::Text),
    (0x6a6a6a, 0x98a0aa, Role::Text),
    (0x6b6b6b, 0x9aa1ab, Role::Line),
    (0x707070, 0x969da7, Role::Line),
    (0x8a8a8a, 0x868d97, Role::Line),
    (0x8f8f8f, 0x828993, Role::Line),
    (0x9a9a9a, 0x79808a, Role::Line),
    (0xd4d4d4, 0x393f48, Role::Fill),
    (0xe3e3e3, 0x2c3139, Role::Fill),
    // Phases of a step that are not counted.
    (0xe4e0d6, 0x322f27, Role::Fill),
    (0xe2e6ee, 0x262b34, Role::Fill),
    // One hue per series: p99, p90, p50, and the text about the last two.
    (0x08306b, 0xaeceff, Role::Text),
    (0x3a87c8, 0x4d9ae0, Role::Line),
    (0x93c4e4, 0x2b79a6, Role::Line),
    (0x2a78b8, 0x5aa5ea, Role::Text),
    (0x3a7ca5, 0x4a97c6, Role::Text),
    (0x8c2d04, 0xffa98b, Role::Text),
    (0xec7014, 0xe07a22, Role::Line),
    (0xfec44f, 0x9a7414, Role::Line),
    (0xb85a00, 0xea8a35, Role::Text),
    (0x8d6a00, 0xbf962f, Role::Text),
    (0x3f007d, 0xd7cafe, Role::Text),
    (0x807dba, 0x918ed2, Role::Line),
    (0xbcbddc, 0x6865a8, Role::Line),
    (0x6863ab, 0x9a97da, Role::Text),
    (0x6f6cb0, 0x8784c7, Role::Text),
    (0x00441b, 0x9adba8, Role::Text),
    (0x41ab5d, 0x37a257, Role::Line),
    (0xa1d99b, 0x437c3f, Role::Line),
    (0x2a7f3f, 0x4cb069, Role::Text),
    (0x417a3a, 0x63a25c, Role::Text),
    // The answer, good requests, and the SLO.
    (0x2ca25f, 0x2fae6a, Role::Line),
    (0x14713a, 0x6cc488, Role::Text),
    (0x2a9d5c, 0x2ba566, Role::Line),
    (0xa5dcbc, 0x11492f, Role::Fill),
    (0xcb181d, 0xff6e66, Role::Text),
    (0x8f1014, 0xffa29a, Role::Text),
    // Overlaid series, and a paler variant of each.
    (0x0072b2, 0x4ba6e8, Role::Text),
    (0xc96500, 0xe2822f, Role::Line),
    (0x007f5f, 0x44b08b, Role::Text),
    (0x8e4fa8, 0xc987e4, Role::Text),
    (0x3fa0d8, 0x2f93c9, Role::Line),
    (0x8a7a00, 0xb0a036, Role::Line),
    (0xb3477d, 0xe77cae, Role::Text),
    (0x6b4423, 0xd79a68, Role::Text),
    (0x7fb8d8, 0x277ca4, Role::Line),
    (0xe4b27f, 0x9a662b, Role::Line),
    (0x7fbfaf, 0x167f6d, Role::Line),
    (0xc6a7d3, 0x8f66a0, Role::Line),
    (0x999999, 0x7e858f, Role::Line),
    (0x9fcfeb, 0x1b729a, Role::Line),
    (0xc4bc7f, 0x7d7323, Role::Line),
    (0xd9a3be, 0xa36084, Role::Line),
    (0xb5a191, 0xa2724a, Role::Line),
];

fn hex(c: RGBColor) -> u32 {
    u32::from(c.0) << 16 | u32::from(c.1) << 8 | u32::from(c.2)
}

impl Theme {
    /// Returns the counterpart in this theme of a colour of the light palette. Returns a colour outside the palette
    /// unchanged.
    pub(crate) fn of(self, light: RGBColor) -> RGBColor {
        match self {
            Self::Light => light,
            Self::Dark => {
                let own = PALETTE.iter().find(|(on_white, ..)| *on_white == hex(light));
                own.map_or(light, |(_, on_dark, _)| rgb(*on_dark))
            }
        }
    }
}

/// Returns the colours of the dark theme as CSS custom properties, for a page with charts of
/// [`super::Chart::svg_inline`]: one line `--c-RRGGBB: #rrggbb;` for every colour that a chart may use, named by its
/// counterpart in the light theme.
pub(crate) fn dark_variables() -> String {
    PALETTE.iter().fold(String::new(), |mut out, (light, dark, _)| {
        writeln!(out, "--c-{light:06x}: #{dark:06x};").expect("a string takes everything");
        out
    })
}

impl Canvas {
    /// Returns this picture in the colours of a theme.
    pub(crate) fn themed(mut self, theme: Theme) -> Self {
        let pure = |c: &mut RGBColor| *c = theme.of(*c);
        pure(&mut self.ground);
        for shape in &mut self.shapes {
            match shape {
                Shape::Polygon(_, colour) => {
                    let RGBColor(r, g, b) = theme.of(RGBColor(colour.0, colour.1, colour.2));
                    *colour = RGBAColor(r, g, b, colour.3);
                }
                Shape::Line { colour, .. } | Shape::Disc(_, _, colour) | Shape::Dots(_, _, colour) => {
                    pure(colour)
                }
                Shape::Text(_, face, _) => pure(&mut face.colour),
            }
        }
        self
    }
}

/// Returns true if a colour is in the palette.
#[cfg(test)]
pub(crate) fn known(c: RGBColor) -> bool {
    PALETTE.iter().any(|(light, ..)| *light == hex(c))
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Align, Rect, Type};
    use super::*;
    use plotters::style::{Color, WHITE};
    use std::collections::HashSet;

    /// Returns the relative luminance defined by WCAG 2.2.
    fn luminance(c: u32) -> f64 {
        let channel = |shift: u32| match f64::from(c >> shift & 0xff) / 255.0 {
            v if v <= 0.04045 => v / 12.92,
            v => ((v + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        for (a, b, want) in [(0, 0xffffff, 21.0), (0x777777, 0xffffff, 4.48), (0xff0000, 0xffffff, 4.0)] {
            assert!((contrast(a, b) - want).abs() < 0.01, "{a:06x}: {}", contrast(a, b));
        }
    }

    #[test]
    fn every_colour_stands_out_as_its_use_asks() {
        let ground = PALETTE.iter().find(|p| p.2 == Role::Ground).unwrap();
        for (light, dark, role) in PALETTE {
            let (on_white, on_dark) = (contrast(*light, ground.0), contrast(*dark, ground.1));
            let good = match role {
                Role::Ground => true,
                Role::Text => on_white >= 4.5 && on_dark >= 4.5,
                Role::Line => on_dark >= 3.0,
                Role::Fill => on_white < 1.6 && on_dark < 2.0 && on_dark > 1.1,
            };
            assert!(good, "{light:06x} on white {on_white:.2}, {dark:06x} on dark {on_dark:.2}: {role:?}");
        }
        let lights: HashSet<u32> = PALETTE.iter().map(|p| p.0).collect();
        assert_eq!(lights.len(), PALETTE.len(), "each once");
    }

    #[test]
    fn a_picture_is_turned_as_a_whole() {
        let mut c = Canvas::new(10, 10);
        c.fill(&Rect { x: 1.0, y: 1.0, w: 2.0, h: 2.0 }, WHITE.mix(0.75));
        c.disc((3.0, 3.0), 1.0, rgb(0xcb181d));
        c.text((0.0, 9.0), Align::Left, &Type::book(9.0, rgb(0x1a1a1a)), "a");
        let dark = format!("{:?}", c.themed(Theme::Dark).shapes);
        for gone in ["255, 255, 255", "203, 24, 29", "26, 26, 26"] {
            assert!(!dark.contains(gone), "{gone} in {dark}");
        }
        assert!(dark.contains("0.75"), "as transparent as before: {dark}");
        assert_eq!(Theme::Light.of(rgb(0x123456)), rgb(0x123456));
    }

    #[test]
    fn the_variables_are_those_of_the_palette() {
        let css = dark_variables();
        assert_eq!(css.lines().count(), PALETTE.len());
        assert!(css.contains("--c-ffffff: #15181d;") && css.lines().all(|l| l.ends_with(';')), "{css}");
    }
}
