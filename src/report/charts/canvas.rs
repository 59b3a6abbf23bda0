//! A bitmap in the reader's own units: coordinates are logical pixels (1/96 inch), drawn at 3× and marked so in the PNG.
//!
//! plotters draws into memory at twice the final resolution, and each 2 × 2 block becomes one pixel: its polygons and
//! circles have hard edges otherwise, and its coordinates are whole pixels. Text is set with `ab_glyph` itself: plotters
//! 0.3 drops the side bearings of glyphs, which tears words apart.

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};
use anyhow::{Context, Result, anyhow};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBAColor, RGBColor, WHITE};
use std::sync::LazyLock;

/// Pixels of the PNG for each logical pixel.
pub(super) const SCALE: u32 = 3;
/// Pixels drawn for each pixel of the PNG, in both directions.
const OVERSAMPLE: u32 = 2;
/// Resolution written into the PNG, in pixels per metre: 3 × 96 dpi, so that it pastes at its logical size.
pub(super) const PIXELS_PER_METRE: u32 = 11_339;

/// DejaVu Sans, Book and Bold.
static FONTS: LazyLock<[FontRef<'static>; 2]> = LazyLock::new(|| {
    [
        include_bytes!("../../../assets/fonts/DejaVuSans.ttf").as_slice(),
        include_bytes!("../../../assets/fonts/DejaVuSans-Bold.ttf").as_slice(),
    ]
    .map(|bytes| {
        FontRef::try_from_slice(bytes).expect("the embedded fonts are valid: a test draws with them")
    })
});

/// A point in logical pixels, y downwards.
pub(super) type Point = (f64, f64);

/// A rectangle in logical pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    /// Left edge.
    pub(super) x: f64,
    /// Upper edge.
    pub(super) y: f64,
    /// Width.
    pub(super) w: f64,
    /// Height.
    pub(super) h: f64,
}

impl Rect {
    /// Right edge.
    pub(super) fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Lower edge.
    pub(super) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// Where the given point lies in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// At its left end.
    Left,
    /// In its middle.
    Middle,
    /// At its right end.
    Right,
}

/// Size in logical pixels, weight and colour of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    /// Size of the em.
    pub(super) size: f64,
    /// Bold or Book.
    pub(super) bold: bool,
    /// Colour.
    pub(super) colour: RGBColor,
}

impl Type {
    /// Book weight.
    pub(super) const fn book(size: f64, colour: RGBColor) -> Self {
        Self { size, bold: false, colour }
    }

    /// Bold weight.
    pub(super) const fn bold(size: f64, colour: RGBColor) -> Self {
        Self { size, bold: true, colour }
    }

    /// The same text, smaller or larger.
    pub(super) const fn sized(self, size: f64) -> Self {
        Self { size, ..self }
    }

    fn font(&self) -> &'static FontRef<'static> {
        &FONTS[usize::from(self.bold)]
    }

    /// The scale at which the em has its size; `ab_glyph` counts from the lowest to the highest line of the font.
    fn scale(&self, pixels: f64) -> PxScale {
        let font = self.font();
        let lines_per_em = font.height_unscaled() / font.units_per_em().unwrap_or(2048.0);
        PxScale::from((self.size * pixels) as f32 * lines_per_em)
    }

    /// Each character with its place on the line, and the place after the last.
    fn set(&self, text: &str, pixels: f64) -> (Vec<(char, f32)>, f32) {
        let font = self.font().as_scaled(self.scale(pixels));
        let (mut x, mut before) = (0.0f32, None);
        let mut places = Vec::new();
        for c in text.chars() {
            let id = font.glyph_id(c);
            x += before.map_or(0.0, |b| font.kern(b, id));
            places.push((c, x));
            x += font.h_advance(id);
            before = Some(id);
        }
        (places, x)
    }

    /// Width of a text in logical pixels.
    pub(super) fn width(&self, text: &str) -> f64 {
        f64::from(self.set(text, 1.0).1)
    }
}

/// The bitmap.
pub(super) struct Canvas {
    size: (u32, u32),
    fine: Vec<u8>,
    trouble: Option<String>,
}

impl Canvas {
    /// A white canvas of so many logical pixels.
    pub(super) fn new(width: u32, height: u32) -> Self {
        let pixels = (width * SCALE * OVERSAMPLE) as usize * (height * SCALE * OVERSAMPLE) as usize;
        Self { size: (width, height), fine: vec![255; pixels * 3], trouble: None }
    }

    /// Draws through plotters; the first error is kept and told by [`Self::png`].
    fn with<E: std::fmt::Display>(&mut self, draw: impl FnOnce(&mut BitMapBackend<'_>) -> Result<(), E>) {
        let size = (self.size.0 * SCALE * OVERSAMPLE, self.size.1 * SCALE * OVERSAMPLE);
        if let Err(e) = draw(&mut BitMapBackend::with_buffer(&mut self.fine, size)) {
            self.trouble.get_or_insert_with(|| e.to_string());
        }
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, points: &[Point], colour: RGBAColor) {
        let points: Vec<_> = points.iter().map(|p| fine(*p)).collect();
        self.with(|b| b.fill_polygon(points, &colour));
    }

    /// A filled rectangle.
    pub(super) fn fill(&mut self, r: &Rect, colour: RGBAColor) {
        let (a, (x, y)) = (fine((r.x, r.y)), fine((r.right(), r.bottom())));
        self.with(|b| b.draw_rect(a, (x, y), &colour, true));
    }

    /// Fades what is below a text that covers something.
    pub(super) fn veil(&mut self, r: &Rect, covers: bool) {
        if covers {
            self.fill(r, WHITE.mix(0.75));
        }
    }

    /// A straight stroke with flat ends.
    pub(super) fn stroke(&mut self, a: Point, b: Point, width: f64, colour: RGBColor) {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy);
        if length < 1e-6 {
            return;
        }
        let (nx, ny) = (-dy / length * width / 2.0, dx / length * width / 2.0);
        let corners =
            [(a.0 + nx, a.1 + ny), (b.0 + nx, b.1 + ny), (b.0 - nx, b.1 - ny), (a.0 - nx, a.1 - ny)];
        self.polygon(&corners, colour.to_rgba());
    }

    /// A line through points, with round joints.
    pub(super) fn line(&mut self, points: &[Point], width: f64, colour: RGBColor) {
        for w in points.windows(2) {
            self.stroke(w[0], w[1], width, colour);
        }
        for p in points {
            self.disc(*p, width / 2.0, colour);
        }
    }

    /// A stroke of dashes.
    pub(super) fn dashes(
        &mut self,
        a: Point,
        b: Point,
        width: f64,
        (dash, gap): (f64, f64),
        colour: RGBColor,
    ) {
        let length = (b.0 - a.0).hypot(b.1 - a.1);
        let at = |t: f64| (a.0 + (b.0 - a.0) * t / length, a.1 + (b.1 - a.1) * t / length);
        let mut from = 0.0;
        while from < length {
            self.stroke(at(from), at((from + dash).min(length)), width, colour);
            from += dash + gap;
        }
    }

    /// A filled circle.
    pub(super) fn disc(&mut self, at: Point, radius: f64, colour: RGBColor) {
        let r = (radius * f64::from(SCALE * OVERSAMPLE)).round().max(1.0) as u32;
        self.with(|b| b.draw_circle(fine(at), r, &colour, true));
    }

    /// A text whose baseline runs through `at`.
    pub(super) fn text(&mut self, at: Point, align: Align, face: &Type, text: &str) {
        let x = match align {
            Align::Left => at.0,
            Align::Middle => at.0 - face.width(text) / 2.0,
            Align::Right => at.0 - face.width(text),
        };
        let pixels = f64::from(SCALE * OVERSAMPLE);
        let scale = face.scale(pixels);
        for (c, shift) in face.set(text, pixels).0 {
            let place = point((x * pixels) as f32 + shift, (at.1 * pixels) as f32);
            let glyph = face.font().glyph_id(c).with_scale_and_position(scale, place);
            if let Some(outline) = face.font().outline_glyph(glyph) {
                let corner = outline.px_bounds().min;
                outline.draw(|dx, dy, cover| {
                    self.blend(
                        (corner.x as i64 + i64::from(dx), corner.y as i64 + i64::from(dy)),
                        cover,
                        face.colour,
                    );
                });
            }
        }
    }

    /// Mixes a colour into one fine pixel; nothing happens outside the canvas.
    fn blend(&mut self, (x, y): (i64, i64), cover: f32, colour: RGBColor) {
        let (w, h) =
            (i64::from(self.size.0 * SCALE * OVERSAMPLE), i64::from(self.size.1 * SCALE * OVERSAMPLE));
        if (0..w).contains(&x) && (0..h).contains(&y) {
            let at = ((y * w + x) * 3) as usize;
            for (below, ink) in self.fine[at..at + 3].iter_mut().zip([colour.0, colour.1, colour.2]) {
                let mixed = f32::from(*below) + (f32::from(ink) - f32::from(*below)) * cover.clamp(0.0, 1.0);
                *below = mixed.round() as u8;
            }
        }
    }

    /// The final pixels: mean of each block.
    fn pixels(&self) -> Vec<u8> {
        let (w, h) = ((self.size.0 * SCALE) as usize, (self.size.1 * SCALE) as usize);
        let mut out = Vec::with_capacity(w * h * 3);
        let row = w * 2 * 3;
        for y in 0..h {
            let (upper, lower) = self.fine[2 * y * row..].split_at(row);
            for (a, b) in upper.chunks_exact(6).zip(lower.chunks_exact(6)) {
                for c in 0..3 {
                    let sum = u16::from(a[c]) + u16::from(a[c + 3]) + u16::from(b[c]) + u16::from(b[c + 3]);
                    out.push(((sum + 2) / 4) as u8);
                }
            }
        }
        out
    }

    /// The finished PNG, with its resolution set.
    ///
    /// # Errors
    ///
    /// When something could not be drawn or encoded.
    pub(super) fn png(&self) -> Result<Vec<u8>> {
        if let Some(e) = &self.trouble {
            return Err(anyhow!("drawing failed: {e}"));
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.size.0 * SCALE, self.size.1 * SCALE);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_pixel_dims(Some(png::PixelDimensions {
            xppu: PIXELS_PER_METRE,
            yppu: PIXELS_PER_METRE,
            unit: png::Unit::Meter,
        }));
        let mut writer = encoder.write_header().context("failed to encode a PNG")?;
        writer.write_image_data(&self.pixels()).context("failed to encode a PNG")?;
        writer.finish().context("failed to encode a PNG")?;
        Ok(bytes)
    }
}

fn fine((x, y): Point) -> (i32, i32) {
    let s = f64::from(SCALE * OVERSAMPLE);
    ((x * s).round() as i32, (y * s).round() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::style::BLACK;

    #[test]
    fn text_has_width_and_leaves_ink() {
        let face = Type::book(12.0, BLACK);
        let (one, two) = (face.width("≤"), face.width("≤≤"));
        assert!(one > 5.0 && (two - 2.0 * one).abs() < 0.2, "{one} {two}");
        assert!(Type::bold(12.0, BLACK).width("goodput") > face.width("goodput"));
        let mut c = Canvas::new(40, 20);
        c.text((5.0, 15.0), Align::Left, &face, "p99");
        let dark = c.pixels().chunks(3).filter(|p| p[0] < 128).count();
        assert!(dark > 100, "{dark} dark pixels");
    }

    #[test]
    fn coordinates_are_logical() {
        let mut c = Canvas::new(10, 10);
        c.fill(&Rect { x: 2.0, y: 3.0, w: 4.0, h: 5.0 }, BLACK.to_rgba());
        let dark = c.pixels().chunks(3).filter(|p| p[0] == 0).count();
        assert_eq!(dark, (4 * SCALE * 5 * SCALE) as usize);
    }
}
