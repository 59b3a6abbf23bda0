//! A picture as a list of shapes, in logical pixels (1/96 inch); [`super::raster`] and [`super::svg`] render it.
//!
//! Text is set with `ab_glyph` itself: plotters 0.3 drops the side bearings of glyphs, which tears words apart.

use super::hints::Hint;
use ab_glyph::{Font, FontRef, PxScale, ScaleFont};
use plotters::style::{Color, RGBAColor, RGBColor, WHITE};
use std::sync::LazyLock;

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
pub(crate) type Point = (f64, f64);

/// Distance from the origin, in logical pixels, beyond which a shape is not drawn.
const FAR: f64 = 1e5;

/// Returns true if a point is finite and not farther than [`FAR`] from the canvas: the rasterizer uses whole pixels
/// (`i32`), which overflow.
pub(crate) fn is_near((x, y): Point) -> bool {
    x.abs() <= FAR && y.abs() <= FAR
}

/// A rectangle in logical pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    /// Left edge.
    pub(crate) x: f64,
    /// Upper edge.
    pub(crate) y: f64,
    /// Width.
    pub(crate) w: f64,
    /// Height.
    pub(crate) h: f64,
}

impl Rect {
    /// Returns the right edge.
    pub(crate) fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Returns the lower edge.
    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// Position of the anchor point relative to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// At its left end.
    Left,
    /// In its middle.
    Middle,
    /// At its right end.
    Right,
}

/// Size in logical pixels, weight and colour of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type {
    /// Size of the em.
    pub(crate) size: f64,
    /// Bold or Book.
    pub(crate) bold: bool,
    /// Colour.
    pub(crate) colour: RGBColor,
}

impl Type {
    /// Returns a type of Book weight.
    pub(crate) const fn book(size: f64, colour: RGBColor) -> Self {
        Self { size, bold: false, colour }
    }

    /// Returns a type of Bold weight.
    pub(crate) const fn bold(size: f64, colour: RGBColor) -> Self {
        Self { size, bold: true, colour }
    }

    /// Returns this type at another size, in logical pixels.
    pub(crate) const fn sized(self, size: f64) -> Self {
        Self { size, ..self }
    }

    /// Returns this type in another colour.
    pub(crate) const fn coloured(self, colour: RGBColor) -> Self {
        Self { colour, ..self }
    }

    /// Returns its font.
    pub(crate) fn font(&self) -> &'static FontRef<'static> {
        &FONTS[usize::from(self.bold)]
    }

    /// Returns the scale at which the em has its size; `ab_glyph` counts from the lowest to the highest line of the
    /// font.
    pub(crate) fn scale(&self, pixels: f64) -> PxScale {
        let font = self.font();
        let lines_per_em = font.height_unscaled() / font.units_per_em().unwrap_or(2048.0);
        PxScale::from((self.size * pixels) as f32 * lines_per_em)
    }

    /// Returns each character with its horizontal offset, and the width of the whole text, both in physical pixels.
    pub(crate) fn set(&self, text: &str, pixels: f64) -> (Vec<(char, f32)>, f32) {
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

    /// Returns the width of a text in logical pixels.
    pub(crate) fn width(&self, text: &str) -> f64 {
        f64::from(self.set(text, 1.0).1)
    }

    /// Returns the width of the widest of some texts, in logical pixels.
    pub(crate) fn widest<'a>(&self, texts: impl IntoIterator<Item = &'a String>) -> f64 {
        texts.into_iter().map(|text| self.width(text)).fold(0.0, f64::max)
    }
}

/// One shape to draw.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A filled polygon.
    Polygon(Vec<Point>, RGBAColor),
    /// A line through points: its width, and, if dashed, the lengths of dashes and gaps.
    Line { points: Vec<Point>, width: f64, dash: Option<(f64, f64)>, round: bool, colour: RGBColor },
    /// A filled circle.
    Disc(Point, f64, RGBColor),
    /// Filled circles of one size.
    Dots(Vec<Point>, f64, RGBColor),
    /// A text that starts at this point, on its baseline.
    Text(Point, Type, String),
}

/// The list of shapes drawn so far, the lowest first.
pub(crate) struct Canvas {
    /// Width and height, in logical pixels.
    pub(crate) size: (u32, u32),
    /// Y coordinate below headline and subtitle: an HTML page has its title instead and crops the picture here.
    pub(crate) head: f64,
    /// Background colour.
    pub(crate) ground: RGBColor,
    /// All shapes, the lowest first.
    pub(crate) shapes: Vec<Shape>,
    /// Tooltips of the SVG.
    pub(crate) hints: Vec<Hint>,
}

impl Canvas {
    /// Creates a white canvas of this size, in logical pixels.
    pub(crate) const fn new(width: u32, height: u32) -> Self {
        Self { size: (width, height), head: 0.0, ground: WHITE, shapes: Vec::new(), hints: Vec::new() }
    }

    /// Draws a filled polygon; nothing if a corner is far off the canvas.
    pub(crate) fn polygon(&mut self, points: &[Point], colour: RGBAColor) {
        if points.iter().copied().all(is_near) {
            self.shapes.push(Shape::Polygon(points.to_vec(), colour));
        }
    }

    /// Draws a filled rectangle.
    pub(crate) fn fill(&mut self, r: &Rect, colour: RGBAColor) {
        self.polygon(&[(r.x, r.y), (r.right(), r.y), (r.right(), r.bottom()), (r.x, r.bottom())], colour);
    }

    /// Fades the shapes below a text that covers something.
    pub(crate) fn veil(&mut self, r: &Rect, covers: bool) {
        if covers {
            self.fill(r, WHITE.mix(0.75));
        }
    }

    /// Draws a straight stroke with flat ends; nothing if one of them is far off the canvas.
    pub(crate) fn stroke(&mut self, a: Point, b: Point, width: f64, colour: RGBColor) {
        if is_near(a) && is_near(b) && (b.0 - a.0).hypot(b.1 - a.1) > 1e-6 {
            self.shapes.push(Shape::Line { points: vec![a, b], width, dash: None, round: false, colour });
        }
    }

    /// Draws a line through points, with round joints and ends; skips points far off the canvas.
    pub(crate) fn line(&mut self, points: &[Point], width: f64, colour: RGBColor) {
        let points: Vec<Point> = points.iter().copied().filter(|p| is_near(*p)).collect();
        if points.len() > 1 {
            self.shapes.push(Shape::Line { points, width, dash: None, round: true, colour });
        }
    }

    /// Draws a dashed stroke; nothing if one of its ends is far off the canvas.
    pub(crate) fn dashes(&mut self, line: [Point; 2], width: f64, dash: (f64, f64), colour: RGBColor) {
        if line.into_iter().all(is_near) {
            let points = line.to_vec();
            self.shapes.push(Shape::Line { points, width, dash: Some(dash), round: false, colour });
        }
    }

    /// Draws a filled circle; nothing far off the canvas.
    pub(crate) fn disc(&mut self, at: Point, radius: f64, colour: RGBColor) {
        if is_near(at) && radius <= FAR {
            self.shapes.push(Shape::Disc(at, radius, colour));
        }
    }

    /// Draws filled circles of one size; skips those far off the canvas.
    pub(crate) fn dots(&mut self, mut places: Vec<Point>, radius: f64, colour: RGBColor) {
        places.retain(|at| is_near(*at));
        self.shapes.push(Shape::Dots(places, radius, colour));
    }

    /// Draws a text into a rectangle found by [`Taken`](super::place::Taken), `baseline` below its upper edge; on a veil
    /// if it covers something.
    pub(crate) fn label(&mut self, place: Option<(Rect, bool)>, baseline: f64, face: &Type, text: &str) {
        if let Some((r, covers)) = place {
            self.veil(&r, covers);
            self.text((r.x, r.y + baseline), Align::Left, face, text);
        }
    }

    /// Draws a text whose baseline runs through `at`; nothing far off the canvas.
    pub(crate) fn text(&mut self, at: Point, align: Align, face: &Type, text: &str) {
        if !is_near(at) {
            return;
        }
        let x = match align {
            Align::Left => at.0,
            Align::Middle => at.0 - face.width(text) / 2.0,
            Align::Right => at.0 - face.width(text),
        };
        self.shapes.push(Shape::Text((x, at.1), *face, text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::raster::Raster;
    use super::super::scene::Format;
    use super::*;
    use plotters::style::BLACK;

    #[test]
    fn text_has_width() {
        let face = Type::book(12.0, BLACK);
        let (one, two) = (face.width("≤"), face.width("≤≤"));
        assert!(one > 5.0 && (two - 2.0 * one).abs() < 0.2, "{one} {two}");
        assert!(Type::bold(12.0, BLACK).width("goodput") > face.width("goodput"));
    }

    /// The rasterizer computes in `i32` and overflows on larger coordinates.
    #[test]
    fn nothing_is_drawn_far_off() {
        let face = Type::book(12.0, BLACK);
        for far in [f64::NAN, f64::INFINITY, 1e308, -1e9] {
            for at in [(far, 5.0), (5.0, far)] {
                let mut c = Canvas::new(30, 20);
                c.polygon(&[(0.0, 0.0), (4.0, 0.0), at], BLACK.to_rgba());
                c.fill(&Rect { x: at.0, y: at.1, w: 1.0, h: far }, BLACK.to_rgba());
                c.stroke((0.0, 0.0), at, 1.0, BLACK);
                c.dashes([at, (0.0, 0.0)], 1.0, (1.0, 1.0), BLACK);
                c.disc(at, 2.0, BLACK);
                c.text(at, Align::Left, &face, "p99");
                assert!(c.shapes.is_empty(), "{at:?}: {:?}", c.shapes);
                c.line(&[(0.0, 0.0), at, (9.0, 9.0)], 1.0, BLACK);
                c.dots(vec![at, (3.0, 3.0)], 1.0, BLACK);
                assert_eq!(c.shapes.len(), 2);
                Raster::default().png(&c, 1, Format::Report).unwrap();
            }
        }
    }

    #[test]
    fn text_is_kept_by_its_left_end() {
        let mut c = Canvas::new(100, 20);
        let face = Type::book(12.0, BLACK);
        c.text((90.0, 15.0), Align::Right, &face, "p99");
        let Some(Shape::Text(at, ..)) = c.shapes.first() else { panic!("no text") };
        assert!((at.0 + face.width("p99") - 90.0).abs() < 1e-9);
    }
}
