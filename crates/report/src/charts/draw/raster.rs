//! A picture as PNG, drawn at 3× with its resolution set.
//!
//! plotters draws into memory at twice the final resolution, and each 2 × 2 block becomes one pixel: its polygons and
//! circles have hard edges otherwise, and its coordinates are whole pixels.

use super::canvas::{Canvas, Point, Shape, Type};
use super::scene::Format;
use ab_glyph::{Font, point};
use anyhow::{Context, Result, anyhow};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBAColor, RGBColor};

/// Default number of pixels of the PNG for each logical pixel.
pub(crate) const SCALE: u32 = 3;
/// Pixels drawn for each pixel of the PNG, in both directions.
const OVERSAMPLE: u32 = 2;
/// [`OVERSAMPLE`], to count with.
const BLOCK: usize = OVERSAMPLE as usize;
/// Side of a tile, in drawn pixels: a multiple of [`OVERSAMPLE`].
const TILE: usize = 32;
/// Bytes of a drawn pixel.
const BYTES: usize = 3;

/// The memory in which pictures are drawn, kept from one picture to the next: a picture takes tens of megabytes, and
/// most of them are background. Only the tiles that a shape touches are filled, drawn and averaged.
#[derive(Default)]
pub(crate) struct Raster {
    /// Width and height, in drawn pixels.
    size: (u32, u32),
    /// Pixels drawn for each logical pixel.
    per_pixel: f64,
    /// A row of a tile in the colour of the background.
    blank: Vec<u8>,
    /// The drawn pixels. Outside the touched tiles they are those of earlier pictures.
    fine: Vec<u8>,
    /// True for each tile that was touched, row by row.
    touched: Vec<bool>,
    trouble: Option<String>,
}

impl Raster {
    /// Returns a canvas as PNG with `scale` pixels for each logical pixel, at the resolution of its format.
    ///
    /// # Errors
    ///
    /// A shape cannot be drawn, or the picture cannot be encoded.
    pub(crate) fn png(&mut self, canvas: &Canvas, scale: u32, format: Format) -> Result<Vec<u8>> {
        self.draw(canvas, scale);
        if let Some(e) = self.trouble.take() {
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
            xppu: format.pixels_per_metre(scale),
            yppu: format.pixels_per_metre(scale),
            unit: png::Unit::Meter,
        }));
        let mut writer = encoder.write_header().context("failed to encode a PNG")?;
        writer.write_image_data(&self.pixels()).context("failed to encode a PNG")?;
        writer.finish().context("failed to encode a PNG")?;
        Ok(bytes)
    }

    fn draw(&mut self, canvas: &Canvas, scale: u32) {
        let per_pixel = scale * OVERSAMPLE;
        let size = (canvas.size.0 * per_pixel, canvas.size.1 * per_pixel);
        let RGBColor(r, g, b) = canvas.ground;
        (self.size, self.per_pixel, self.blank) = (size, f64::from(per_pixel), [r, g, b].repeat(TILE));
        let (w, h) = (size.0 as usize, size.1 as usize);
        if self.fine.len() < w * h * BYTES {
            // Memory that the system gives zeroed takes no time until it is used.
            self.fine = vec![0; w * h * BYTES];
        }
        self.touched.clear();
        self.touched.resize(w.div_ceil(TILE) * h.div_ceil(TILE), false);
        for shape in &canvas.shapes {
            match shape {
                Shape::Polygon(points, colour) => self.polygon(points, *colour),
                Shape::Disc(at, radius, colour) => self.disc(*at, *radius, *colour),
                Shape::Dots(places, radius, colour) => {
                    places.iter().for_each(|at| self.disc(*at, *radius, *colour));
                }
                Shape::Text(at, face, text) => self.text(*at, face, text),
                Shape::Line { points, width, dash: Some(dash), colour, .. } => {
                    for w in points.windows(2) {
                        self.dashes(w[0], w[1], *width, *dash, *colour);
                    }
                }
                Shape::Line { points, width, dash: None, round, colour } => {
                    for w in points.windows(2) {
                        self.stroke(w[0], w[1], *width, *colour);
                    }
                    for p in points.iter().filter(|_| *round) {
                        self.disc(*p, width / 2.0, *colour);
                    }
                }
            }
        }
    }

    /// Fills the tiles in and at the border of a rectangle with the background, unless they were touched before. Each
    /// shape touches what it covers before it is drawn.
    fn touch(&mut self, (left, top): (i32, i32), (right, bottom): (i32, i32)) {
        let (w, h) = (self.size.0 as usize, self.size.1 as usize);
        let tiles = |from: i32, to: i32, size: usize| {
            // plotters draws up to a pixel beyond the corners.
            let end = (i64::from(to) + 2).clamp(0, size as i64) as usize;
            (i64::from(from) - 1).clamp(0, size as i64) as usize / TILE..end.div_ceil(TILE)
        };
        let columns = tiles(left, right, w);
        for row in tiles(top, bottom, h) {
            for column in columns.clone() {
                let tile = &mut self.touched[row * w.div_ceil(TILE) + column];
                if std::mem::replace(tile, true) {
                    continue;
                }
                let (x, end) = (column * TILE, ((column + 1) * TILE).min(w));
                for y in row * TILE..((row + 1) * TILE).min(h) {
                    let line = &mut self.fine[(y * w + x) * BYTES..(y * w + end) * BYTES];
                    line.copy_from_slice(&self.blank[..line.len()]);
                }
            }
        }
    }

    /// Draws through plotters within the bounds of some points; stores the first error, which [`Raster::png`] returns.
    fn with<E: std::fmt::Display>(
        &mut self,
        points: &[(i32, i32)],
        draw: impl FnOnce(&mut BitMapBackend<'_>) -> Result<(), E>,
    ) {
        let least = |pick: fn(&(i32, i32)) -> i32| points.iter().map(pick).min().unwrap_or(0);
        let most = |pick: fn(&(i32, i32)) -> i32| points.iter().map(pick).max().unwrap_or(0);
        self.touch((least(|p| p.0), least(|p| p.1)), (most(|p| p.0), most(|p| p.1)));
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
            return self.with(&[from, to], |r| r.draw_rect(from, to, &colour, true));
        }
        let points: Vec<_> = points.iter().map(|p| self.fine(*p)).collect();
        self.with(&points, |b| b.fill_polygon(points.clone(), &colour));
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
        let points = corners.map(|p| self.fine(p));
        self.with(&points, |b| b.fill_polygon(points, &colour.to_rgba()));
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
        let r = (radius * self.per_pixel).round().max(1.0) as i32;
        let at = self.fine(at);
        let bounds = [(at.0 - r, at.1 - r), (at.0 + r, at.1 + r)];
        self.with(&bounds, |b| b.draw_circle(at, r as u32, &colour, true));
    }

    fn text(&mut self, at: Point, face: &Type, text: &str) {
        let (fine, scale) = (self.per_pixel, face.scale(self.per_pixel));
        for (c, shift) in face.set(text, fine).0 {
            let place = point((at.0 * fine) as f32 + shift, (at.1 * fine) as f32);
            let glyph = face.font().glyph_id(c).with_scale_and_position(scale, place);
            if let Some(outline) = face.font().outline_glyph(glyph) {
                let bounds = outline.px_bounds();
                let corner = (bounds.min.x as i32, bounds.min.y as i32);
                self.touch(corner, (bounds.max.x as i32, bounds.max.y as i32));
                outline.draw(|dx, dy, cover| {
                    self.blend((corner.0 + dx as i32, corner.1 + dy as i32), cover, face.colour);
                });
            }
        }
    }

    /// Mixes a colour into one drawn pixel; does nothing outside the canvas.
    fn blend(&mut self, (x, y): (i32, i32), cover: f32, RGBColor(r, g, b): RGBColor) {
        let (w, h) = (self.size.0 as i32, self.size.1 as i32);
        if cover <= 0.0 || !(0..w).contains(&x) || !(0..h).contains(&y) {
            return;
        }
        let at = (y as usize * w as usize + x as usize) * BYTES;
        let (pixel, ink) = (&mut self.fine[at..at + BYTES], [r, g, b]);
        if cover >= 1.0 {
            return pixel.copy_from_slice(&ink);
        }
        for c in 0..BYTES {
            let below = f32::from(pixel[c]);
            // Rounds; `f32::round` is a call.
            pixel[c] = (below + (f32::from(ink[c]) - below) * cover + 0.5) as u8;
        }
    }

    /// Returns the final pixels: the mean of each block.
    fn pixels(&self) -> Vec<u8> {
        let (w, h) = (self.size.0 as usize / BLOCK, self.size.1 as usize / BLOCK);
        let mut out = self.blank[..BYTES].repeat(w * h);
        let columns = (self.size.0 as usize).div_ceil(TILE);
        // Row by row: tile by tile takes longer, since each has its rows far apart in memory.
        for y in 0..h {
            let tiles = y * BLOCK / TILE * columns..;
            for (column, touched) in self.touched[tiles][..columns].iter().enumerate() {
                let (x, end) = (column * TILE / BLOCK, ((column + 1) * TILE / BLOCK).min(w));
                if *touched {
                    let [upper, lower] = [BLOCK * y, BLOCK * y + 1].map(|line| {
                        &self.fine[(line * w + x) * BLOCK * BYTES..][..(end - x) * BLOCK * BYTES]
                    });
                    average(upper, lower, &mut out[(y * w + x) * BYTES..(y * w + end) * BYTES]);
                }
            }
        }
        out
    }

    fn fine(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.per_pixel).round() as i32, (y * self.per_pixel).round() as i32)
    }
}

/// Writes the mean of each block of two rows.
fn average(upper: &[u8], lower: &[u8], out: &mut [u8]) {
    if upper == lower && upper[BYTES..] == upper[..upper.len() - BYTES] {
        return out.copy_from_slice(&upper[..out.len()]);
    }
    for (i, pixel) in out.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
        let block = i * BLOCK * BYTES..(i + 1) * BLOCK * BYTES;
        let (a, b) = (&upper[block.clone()], &lower[block]);
        for c in 0..BYTES {
            let sum = u16::from(a[c]) + u16::from(a[c + BYTES]) + u16::from(b[c]) + u16::from(b[c + BYTES]);
            pixel[c] = ((sum + 2) / 4) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Align, Rect};
    use super::*;
    use plotters::style::BLACK;

    fn pixels(c: &Canvas) -> Vec<u8> {
        let mut raster = Raster::default();
        raster.draw(c, SCALE);
        raster.pixels()
    }

    #[test]
    fn text_leaves_ink() {
        let mut c = Canvas::new(40, 20);
        c.text((5.0, 15.0), Align::Left, &Type::book(12.0, BLACK), "p99");
        let dark = pixels(&c).chunks(3).filter(|p| p[0] < 128).count();
        assert!(dark > 100, "{dark} dark pixels");
    }

    #[test]
    fn coordinates_are_logical() {
        let mut c = Canvas::new(10, 10);
        c.fill(&Rect { x: 2.0, y: 3.0, w: 4.0, h: 5.0 }, BLACK.to_rgba());
        let dark = pixels(&c).chunks(3).filter(|p| p[0] == 0).count();
        assert_eq!(dark, (4 * SCALE * 5 * SCALE) as usize);
    }
}
