//! A picture as PNG, drawn at 3× with its resolution set.
//!
//! plotters draws into memory at twice the final resolution, and each 2 × 2 block becomes one pixel: its polygons and
//! circles have hard edges otherwise, and its coordinates are whole pixels.

use super::canvas::{Canvas, Point, Shape, Type};
use ab_glyph::{Font, point};
use anyhow::{Context, Result, anyhow};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBAColor, RGBColor};

/// Default number of pixels of the PNG for each logical pixel.
pub(crate) const SCALE: u32 = 3;
/// Pixels drawn for each pixel of the PNG, in both directions.
const OVERSAMPLE: u32 = 2;
/// Bytes of a row that are compared at once: most of a picture is background.
const LEVEL: usize = 96;

/// The pixels while they are drawn.
struct Raster {
    size: (u32, u32),
    /// Pixels drawn for each logical pixel.
    per_pixel: f64,
    fine: Vec<u8>,
    trouble: Option<String>,
}

/// Returns the PNG with `scale` pixels for each logical pixel, and its resolution in pixels per metre.
///
/// # Errors
///
/// A shape cannot be drawn, or the picture cannot be encoded.
pub(crate) fn png(canvas: &Canvas, scale: u32, pixels_per_metre: u32) -> Result<Vec<u8>> {
    let raster = Raster::of(canvas, scale);
    if let Some(e) = &raster.trouble {
        return Err(anyhow!("drawing failed: {e}"));
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, canvas.size.0 * scale, canvas.size.1 * scale);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // Flat areas and thin lines: filters make such pictures larger, and a higher level saves less than 1 %.
    encoder.set_filter(png::Filter::NoFilter);
    encoder.set_deflate_compression(png::DeflateCompression::Level(5));
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: pixels_per_metre,
        yppu: pixels_per_metre,
        unit: png::Unit::Meter,
    }));
    let mut writer = encoder.write_header().context("failed to encode a PNG")?;
    writer.write_image_data(&raster.pixels()).context("failed to encode a PNG")?;
    writer.finish().context("failed to encode a PNG")?;
    Ok(bytes)
}

impl Raster {
    fn of(canvas: &Canvas, scale: u32) -> Self {
        let per_pixel = scale * OVERSAMPLE;
        let size = (canvas.size.0 * per_pixel, canvas.size.1 * per_pixel);
        let RGBColor(r, g, b) = canvas.ground;
        let fine = [r, g, b].repeat(size.0 as usize * size.1 as usize);
        let mut raster = Self { size, per_pixel: f64::from(per_pixel), fine, trouble: None };
        for shape in &canvas.shapes {
            match shape {
                Shape::Polygon(points, colour) => raster.polygon(points, *colour),
                Shape::Disc(at, radius, colour) => raster.disc(*at, *radius, *colour),
                Shape::Dots(places, radius, colour) => {
                    places.iter().for_each(|at| raster.disc(*at, *radius, *colour));
                }
                Shape::Text(at, face, text) => raster.text(*at, face, text),
                Shape::Line { points, width, dash: Some(dash), colour, .. } => {
                    for w in points.windows(2) {
                        raster.dashes(w[0], w[1], *width, *dash, *colour);
                    }
                }
                Shape::Line { points, width, dash: None, round, colour } => {
                    for w in points.windows(2) {
                        raster.stroke(w[0], w[1], *width, *colour);
                    }
                    for p in points.iter().filter(|_| *round) {
                        raster.disc(*p, width / 2.0, *colour);
                    }
                }
            }
        }
        raster
    }

    /// Draws through plotters; stores the first error, which [`png`] returns.
    fn with<E: std::fmt::Display>(&mut self, draw: impl FnOnce(&mut BitMapBackend<'_>) -> Result<(), E>) {
        if let Err(e) = draw(&mut BitMapBackend::with_buffer(&mut self.fine, self.size)) {
            self.trouble.get_or_insert_with(|| e.to_string());
        }
    }

    fn polygon(&mut self, points: &[Point], colour: RGBAColor) {
        // plotters fills an upright rectangle exactly, a polygon to within a pixel.
        if let [a, b, c, d] = *points
            && (a.1, b.0, c.1, d.0) == (b.1, c.0, d.1, a.0)
        {
            let (from, to) = (self.fine(a), self.fine(c));
            return self.with(|r| r.draw_rect(from, to, &colour, true));
        }
        let points: Vec<_> = points.iter().map(|p| self.fine(*p)).collect();
        self.with(|b| b.fill_polygon(points, &colour));
    }

    fn stroke(&mut self, a: Point, b: Point, width: f64, colour: RGBColor) {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy);
        if length < 1e-6 {
            return;
        }
        let (nx, ny) = (-dy / length * width / 2.0, dx / length * width / 2.0);
        let corners =
            [(a.0 + nx, a.1 + ny), (b.0 + nx, b.1 + ny), (b.0 - nx, b.1 - ny), (a.0 - nx, a.1 - ny)];
        let points: Vec<_> = corners.iter().map(|p| self.fine(*p)).collect();
        self.with(|b| b.fill_polygon(points, &colour.to_rgba()));
    }

    fn dashes(&mut self, a: Point, b: Point, width: f64, (dash, gap): (f64, f64), colour: RGBColor) {
        let length = (b.0 - a.0).hypot(b.1 - a.1);
        let at = |t: f64| (a.0 + (b.0 - a.0) * t / length, a.1 + (b.1 - a.1) * t / length);
        let mut from = 0.0;
        while from < length {
            self.stroke(at(from), at((from + dash).min(length)), width, colour);
            from += dash + gap;
        }
    }

    fn disc(&mut self, at: Point, radius: f64, colour: RGBColor) {
        let r = (radius * self.per_pixel).round().max(1.0) as u32;
        let at = self.fine(at);
        self.with(|b| b.draw_circle(at, r, &colour, true));
    }

    fn text(&mut self, at: Point, face: &Type, text: &str) {
        let (fine, scale) = (self.per_pixel, face.scale(self.per_pixel));
        for (c, shift) in face.set(text, fine).0 {
            let place = point((at.0 * fine) as f32 + shift, (at.1 * fine) as f32);
            let glyph = face.font().glyph_id(c).with_scale_and_position(scale, place);
            if let Some(outline) = face.font().outline_glyph(glyph) {
                let corner = outline.px_bounds().min;
                outline.draw(|dx, dy, cover| {
                    let place = (corner.x as i64 + i64::from(dx), corner.y as i64 + i64::from(dy));
                    self.blend(place, cover, face.colour);
                });
            }
        }
    }

    /// Mixes a colour into one fine pixel; does nothing outside the canvas.
    fn blend(&mut self, (x, y): (i64, i64), cover: f32, colour: RGBColor) {
        let (w, h) = (i64::from(self.size.0), i64::from(self.size.1));
        if (0..w).contains(&x) && (0..h).contains(&y) {
            let at = ((y * w + x) * 3) as usize;
            for (below, ink) in self.fine[at..at + 3].iter_mut().zip([colour.0, colour.1, colour.2]) {
                let mixed = f32::from(*below) + (f32::from(ink) - f32::from(*below)) * cover.clamp(0.0, 1.0);
                *below = mixed.round() as u8;
            }
        }
    }

    /// Returns the final pixels: the mean of each block.
    fn pixels(&self) -> Vec<u8> {
        let (w, h) = ((self.size.0 / OVERSAMPLE) as usize, (self.size.1 / OVERSAMPLE) as usize);
        let mut out = Vec::with_capacity(w * h * 3);
        let row = w * 2 * 3;
        for y in 0..h {
            let (upper, lower) = self.fine[2 * y * row..].split_at(row);
            for (a, b) in upper.chunks(LEVEL).zip(lower.chunks(LEVEL)) {
                if a == b && a[3..] == a[..a.len() - 3] {
                    (0..a.len() / 6).for_each(|_| out.extend_from_slice(&a[..3]));
                    continue;
                }
                for (a, b) in a.chunks_exact(6).zip(b.chunks_exact(6)) {
                    for c in 0..3 {
                        let sum =
                            u16::from(a[c]) + u16::from(a[c + 3]) + u16::from(b[c]) + u16::from(b[c + 3]);
                        out.push(((sum + 2) / 4) as u8);
                    }
                }
            }
        }
        out
    }

    fn fine(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.per_pixel).round() as i32, (y * self.per_pixel).round() as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Align, Rect};
    use super::*;
    use plotters::style::BLACK;

    #[test]
    fn text_leaves_ink() {
        let mut c = Canvas::new(40, 20);
        c.text((5.0, 15.0), Align::Left, &Type::book(12.0, BLACK), "p99");
        let dark = Raster::of(&c, SCALE).pixels().chunks(3).filter(|p| p[0] < 128).count();
        assert!(dark > 100, "{dark} dark pixels");
    }

    #[test]
    fn coordinates_are_logical() {
        let mut c = Canvas::new(10, 10);
        c.fill(&Rect { x: 2.0, y: 3.0, w: 4.0, h: 5.0 }, BLACK.to_rgba());
        let dark = Raster::of(&c, SCALE).pixels().chunks(3).filter(|p| p[0] == 0).count();
        assert_eq!(dark, (4 * SCALE * 5 * SCALE) as usize);
    }
}
