//! Colours of charts, in the light theme.

use plotters::style::RGBColor;

/// Annotations.
pub(crate) const GREY: RGBColor = rgb(0x5f5f5f);
/// Headlines, and marks of no single series.
pub(crate) const INK: RGBColor = rgb(0x1a1a1a);
/// The SLO.
pub(crate) const RED: RGBColor = rgb(0xcb181d);
/// Line and band of the goodput.
pub(crate) const GREEN: RGBColor = rgb(0x2ca25f);
/// Text about the goodput.
pub(crate) const GREEN_TEXT: RGBColor = rgb(0x14713a);
/// Line at the knee.
pub(crate) const KNEE: RGBColor = rgb(0x6b6b6b);
/// Good requests.
pub(crate) const GOOD: RGBColor = rgb(0x2a9d5c);

/// Three shades of one hue, dark to light, and darker variants of the paler two that are legible as text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hue {
    /// For p99 and for a single line.
    pub(crate) dark: RGBColor,
    /// For p90.
    pub(crate) middle: RGBColor,
    /// For p50.
    pub(crate) light: RGBColor,
    /// For text that labels `light`.
    pub(crate) light_text: RGBColor,
    /// For text that labels `middle`.
    pub(crate) middle_text: RGBColor,
}

impl Hue {
    /// Ink in every shade, for charts whose legend is about no single series.
    pub(crate) const INK: Self =
        Self { dark: INK, middle: INK, light: INK, light_text: INK, middle_text: INK };
}

/// One hue per series, distinguishable with red-green colour blindness, and by lightness in print.
const HUES: [Hue; 4] = [
    hue([0x08306b, 0x3a87c8, 0x93c4e4, 0x3a7ca5, 0x2a78b8]),
    hue([0x8c2d04, 0xec7014, 0xfec44f, 0x8d6a00, 0xb85a00]),
    hue([0x3f007d, 0x807dba, 0xbcbddc, 0x6f6cb0, 0x6863ab]),
    hue([0x00441b, 0x41ab5d, 0xa1d99b, 0x417a3a, 0x2a7f3f]),
];

/// One colour per overlaid series, distinguishable with red-green colour blindness. None is the colour of the SLO.
pub(crate) const OVERLAID: [u32; 9] =
    [0x0072b2, 0xc96500, 0x007f5f, 0x8e4fa8, 0x333333, 0x3fa0d8, 0x8a7a00, 0xb3477d, 0x6b4423];

/// Returns the colours of series number `series`.
pub(crate) const fn hue_of(series: usize) -> Hue {
    HUES[series % HUES.len()]
}

/// Returns the colour of overlaid series number `series`, and a paler variant.
pub(crate) fn overlaid(series: usize) -> Hue {
    let dark = rgb(OVERLAID[series % OVERLAID.len()]);
    let light = paler(dark, 0.5);
    Hue { dark, middle: light, light, light_text: dark, middle_text: dark }
}

/// Returns a colour mixed with white; a `share` of 1 is white.
pub(crate) fn paler(c: RGBColor, share: f64) -> RGBColor {
    let mix = |v: u8| (f64::from(v) + share * (255.0 - f64::from(v))) as u8;
    RGBColor(mix(c.0), mix(c.1), mix(c.2))
}

const fn hue([dark, middle, light, light_text, middle_text]: [u32; 5]) -> Hue {
    let [dark, middle, light] = [rgb(dark), rgb(middle), rgb(light)];
    Hue { dark, middle, light, light_text: rgb(light_text), middle_text: rgb(middle_text) }
}

/// Converts a colour written as in HTML.
pub(crate) const fn rgb(hex: u32) -> RGBColor {
    RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}
