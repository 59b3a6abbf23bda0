//! A picture as SVG. Text is drawn as outlines, so that it looks the same if the font is not installed, with its words
//! as labels for screen readers.

use super::canvas::{Canvas, Point, Shape, Type};
use super::hints::Hint;
use crate::escape::entity;
use ab_glyph::{Font, GlyphId, OutlineCurve};
use plotters::style::RGBColor;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The context of an SVG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A separate file, in the size and the colours of the picture.
    File,
    /// Inside an HTML page, as wide as there is room, without headline and subtitle, which become its title and
    /// description. Each colour is a CSS custom property that defaults to the picture's colour.
    Page,
}

/// Returns the picture as SVG. Every id in it starts with `name`, so that several can share one page.
pub(crate) fn svg(canvas: &Canvas, name: &str, title: &str, description: &str, place: Place) -> String {
    let mut writer = Writer { name, place, glyphs: BTreeMap::new() };
    let top = if place == Place::Page { canvas.head } else { 0.0 };
    let shown = |s: &&Shape| !matches!(s, Shape::Text(at, ..) if at.1 < top);
    let body: String = canvas.shapes.iter().filter(shown).map(|s| writer.shape(s)).collect();
    let hints = hints(&canvas.hints);
    let outlines: String =
        writer.glyphs.iter().map(|(id, d)| format!("<path id=\"{id}\" d=\"{d}\"/>\n")).collect();
    let (w, h) = (canvas.size.0, num(f64::from(canvas.size.1) - top));
    let y = if top > 0.0 { format!(" y=\"{}\"", num(top)) } else { String::new() };
    let size = match place {
        Place::File => format!("width=\"{w}\" height=\"{h}\""),
        Place::Page => "class=\"chart\" width=\"100%\"".to_owned(),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {} {w} {h}\" {size} role=\"img\" \
         aria-labelledby=\"{name}-title {name}-desc\">\n<title id=\"{name}-title\">{}</title>\n\
         <desc id=\"{name}-desc\">{}</desc>\n<defs>\n{outlines}</defs>\n\
         <rect{y} width=\"{w}\" height=\"{h}\"{}/>\n{body}{hints}</svg>\n",
        num(top),
        xml(title),
        xml(description),
        writer.paint("fill", canvas.ground),
    )
}

/// An SVG while it is written.
struct Writer<'a> {
    /// Prefix of every id.
    name: &'a str,
    place: Place,
    /// Outlines that occur, each once, by their id.
    glyphs: BTreeMap<String, String>,
}

impl Writer<'_> {
    /// Returns the colour of a shape as an attribute. `var()` works only in a `style` attribute, not in `fill` or
    /// `stroke`.
    fn paint(&self, what: &str, colour: RGBColor) -> String {
        let RGBColor(r, g, b) = colour;
        let hex = format!("{r:02x}{g:02x}{b:02x}");
        match self.place {
            Place::File => format!(" {what}=\"#{hex}\""),
            Place::Page => format!(" style=\"{what}:var(--c-{hex},#{hex})\""),
        }
    }

    fn shape(&mut self, shape: &Shape) -> String {
        match shape {
            Shape::Polygon(points, colour) => {
                let opacity = if colour.3 < 1.0 {
                    format!(" fill-opacity=\"{}\"", num(colour.3))
                } else {
                    String::new()
                };
                let fill = self.paint("fill", RGBColor(colour.0, colour.1, colour.2));
                format!("<path d=\"{}Z\"{fill}{opacity}/>\n", path(points))
            }
            Shape::Line { points, width, dash, round, colour } => {
                let dash = dash
                    .map_or(String::new(), |(a, b)| format!(" stroke-dasharray=\"{} {}\"", num(a), num(b)));
                let ends = if *round { " stroke-linejoin=\"round\" stroke-linecap=\"round\"" } else { "" };
                let (d, stroke, width) = (path(points), self.paint("stroke", *colour), num(*width));
                format!("<path d=\"{d}\" fill=\"none\"{stroke} stroke-width=\"{width}\"{dash}{ends}/>\n")
            }
            Shape::Disc(at, r, colour) => {
                let (x, y, r) = (num(at.0), num(at.1), num(*r));
                format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"{}/>\n", self.paint("fill", *colour))
            }
            // Zero-length strokes with round ends take a third of the bytes of as many circles.
            Shape::Dots(places, r, colour) => {
                let d: String = places.iter().map(|p| format!("M{} {}h0", num(p.0), num(p.1))).collect();
                let (stroke, width) = (self.paint("stroke", *colour), num(2.0 * r));
                format!(
                    "<path d=\"{d}\" fill=\"none\"{stroke} stroke-width=\"{width}\" stroke-linecap=\"round\"/>\n"
                )
            }
            Shape::Text(at, face, text) => self.words(*at, face, text),
        }
    }

    /// Draws a text as outlines: in the font's units, scaled as a whole.
    fn words(&mut self, at: Point, face: &Type, text: &str) -> String {
        let font = face.font();
        let scale = face.size / f64::from(font.units_per_em().unwrap_or(2048.0));
        let mut out = format!(
            "<g role=\"img\" aria-label=\"{}\" transform=\"translate({} {}) scale({scale:.6})\"{}>",
            xml(text),
            num(at.0),
            num(at.1),
            self.paint("fill", face.colour)
        );
        for (c, shift) in face.set(text, 1.0).0 {
            let glyph = font.glyph_id(c);
            let id = format!("{}-{}{}", self.name, if face.bold { 'b' } else { 'r' }, glyph.0);
            let drawn = self.glyphs.entry(id.clone()).or_insert_with(|| outline(face, glyph));
            if !drawn.is_empty() {
                let x = (f64::from(shift) / scale).round();
                write!(out, "<use href=\"#{id}\" x=\"{x}\"/>").expect("a string takes everything");
            }
        }
        out.push_str("</g>\n");
        out
    }
}

/// Returns the tooltips, above all that is drawn: areas, lines, then points, since a browser picks the topmost element
/// under the pointer.
fn hints(hints: &[Hint]) -> String {
    if hints.is_empty() {
        return String::new();
    }
    let rank = |h: &Hint| match h.place {
        super::hints::Place::Over(_) => 0,
        super::hints::Place::Along(..) => 1,
        super::hints::Place::Around(..) => 2,
    };
    let mut sorted: Vec<&Hint> = hints.iter().collect();
    sorted.sort_by_key(|h| rank(h));
    let all: String = sorted.into_iter().map(hint).collect();
    format!("<g class=\"hints\" fill=\"transparent\">\n{all}</g>\n")
}

fn hint(h: &Hint) -> String {
    let title = format!("<title>{}</title>", xml(&h.text));
    match h.place {
        super::hints::Place::Around(at, r) => {
            let (x, y, r) = (num(at.0), num(at.1), num(r));
            format!("<circle class=\"hint\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\">{title}</circle>\n")
        }
        super::hints::Place::Along(a, b) => {
            let d = path(&[a, b]);
            format!(
                "<path class=\"hint\" d=\"{d}\" stroke=\"transparent\" stroke-width=\"8\">{title}</path>\n"
            )
        }
        super::hints::Place::Over(r) => {
            let [x, y, w, h] = [r.x, r.y, r.w, r.h].map(num);
            format!("<rect class=\"hint\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\">{title}</rect>\n")
        }
    }
}

/// Returns the outline of a glyph in the font's units, y downwards; empty for a blank.
fn outline(face: &Type, glyph: GlyphId) -> String {
    let Some(outline) = face.font().outline(glyph) else { return String::new() };
    let at = |p: ab_glyph::Point| format!("{} {}", p.x.round(), (-p.y).round() + 0.0);
    let mut d = String::new();
    let mut pen: Option<ab_glyph::Point> = None;
    for curve in outline.curves {
        let (from, to, piece) = match curve {
            OutlineCurve::Line(a, b) => (a, b, format!("L{}", at(b))),
            OutlineCurve::Quad(a, b, c) => (a, c, format!("Q{} {}", at(b), at(c))),
            OutlineCurve::Cubic(a, b, c, e) => (a, e, format!("C{} {} {}", at(b), at(c), at(e))),
        };
        if pen.is_none_or(|p| (p.x - from.x).abs() > 0.5 || (p.y - from.y).abs() > 0.5) {
            write!(d, "M{}", at(from)).expect("a string takes everything");
        }
        d.push_str(&piece);
        pen = Some(to);
    }
    d
}

fn path(points: &[Point]) -> String {
    let point =
        |(i, p): (usize, &Point)| format!("{}{} {}", if i == 0 { 'M' } else { 'L' }, num(p.0), num(p.1));
    points.iter().enumerate().map(point).collect()
}

/// Formats a number with at most two decimals: a hundredth of a logical pixel is not visible.
fn num(x: f64) -> String {
    let text = format!("{x:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".into() } else { short.to_owned() }
}

/// Escapes a text for an element or an attribute; characters that XML 1.0 cannot hold become replacement characters.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' | '\'' => out.push_str(entity(c)),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Align, Rect};
    use super::*;
    use plotters::style::{BLACK, Color};

    #[test]
    fn text_is_outlined_and_labelled() {
        let mut c = Canvas::new(100, 30);
        c.text((10.0, 20.0), Align::Left, &Type::book(12.0, BLACK), "a<b \"&\" a\u{1b}");
        let text = svg(&c, "x", "t & u", "d", Place::File);
        assert!(text.contains("aria-label=\"a&lt;b &quot;&amp;&quot; a\u{fffd}\""), "{text}");
        assert!(text.contains("<title id=\"x-title\">t &amp; u</title>") && !text.contains("<text"));
        let a = Type::book(12.0, BLACK).font().glyph_id('a').0;
        assert_eq!(text.matches(&format!("id=\"x-r{a}\"")).count(), 1, "an outline stands there once");
        assert_eq!(text.matches(&format!("href=\"#x-r{a}\"")).count(), 2, "and is used twice");
    }

    #[test]
    fn shapes_keep_their_place_and_colour() {
        let mut c = Canvas::new(100, 30);
        c.fill(&Rect { x: 1.0, y: 2.0, w: 3.0, h: 4.5 }, BLACK.mix(0.25));
        c.dashes([(0.0, 5.004), (9.0, 5.004)], 1.5, (3.0, 2.0), RGBColor(255, 0, 1));
        let text = svg(&c, "x", "", "", Place::File);
        assert!(text.contains("<path d=\"M1 2L4 2L4 6.5L1 6.5Z\" fill=\"#000000\" fill-opacity=\"0.25\"/>"));
        assert!(text.contains(
            "d=\"M0 5L9 5\" fill=\"none\" stroke=\"#ff0001\" stroke-width=\"1.5\" stroke-dasharray=\"3 2\""
        ));
    }
}
