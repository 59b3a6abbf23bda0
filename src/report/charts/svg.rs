//! A picture as SVG: text as outlines, so that it looks the same where the font is not installed, with its words as labels
//! for those who hear it.

use super::canvas::{Canvas, Point, Shape, Type};
use ab_glyph::{Font, GlyphId, OutlineCurve};
use plotters::style::RGBColor;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Outlines that occur, each once, by their id.
type Glyphs = BTreeMap<String, String>;

/// The picture; `name` begins every id in it, so that several can stand in one page.
pub(super) fn svg(canvas: &Canvas, name: &str, title: &str, description: &str) -> String {
    let mut glyphs = Glyphs::new();
    let body: String = canvas.shapes.iter().map(|s| shape(s, name, &mut glyphs)).collect();
    let outlines: String = glyphs.iter().map(|(id, d)| format!("<path id=\"{id}\" d=\"{d}\"/>\n")).collect();
    let (w, h) = canvas.size;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" \
         aria-labelledby=\"{name}-title {name}-desc\">\n<title id=\"{name}-title\">{}</title>\n\
         <desc id=\"{name}-desc\">{}</desc>\n<defs>\n{outlines}</defs>\n\
         <rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n{body}</svg>\n",
        xml(title),
        xml(description)
    )
}

fn shape(shape: &Shape, name: &str, glyphs: &mut Glyphs) -> String {
    match shape {
        Shape::Polygon(points, colour) => {
            let opacity =
                if colour.3 < 1.0 { format!(" fill-opacity=\"{}\"", num(colour.3)) } else { String::new() };
            let fill = hex(RGBColor(colour.0, colour.1, colour.2));
            format!("<path d=\"{}Z\" fill=\"{fill}\"{opacity}/>\n", path(points))
        }
        Shape::Line { points, width, dash, round, colour } => {
            let dash =
                dash.map_or(String::new(), |(a, b)| format!(" stroke-dasharray=\"{} {}\"", num(a), num(b)));
            let ends = if *round { " stroke-linejoin=\"round\" stroke-linecap=\"round\"" } else { "" };
            let (d, stroke, width) = (path(points), hex(*colour), num(*width));
            format!(
                "<path d=\"{d}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dash}{ends}/>\n"
            )
        }
        Shape::Disc(at, r, colour) => {
            let (x, y, r) = (num(at.0), num(at.1), num(*r));
            format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{}\"/>\n", hex(*colour))
        }
        // Strokes without length and with round ends: a third of the length of as many circles.
        Shape::Dots(places, r, colour) => {
            let d: String = places.iter().map(|p| format!("M{} {}h0", num(p.0), num(p.1))).collect();
            let (stroke, width) = (hex(*colour), num(2.0 * r));
            format!(
                "<path d=\"{d}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" stroke-linecap=\"round\"/>\n"
            )
        }
        Shape::Text(at, face, text) => words(*at, face, text, name, glyphs),
    }
}

/// A text as outlines: drawn in the font's own units, scaled as a whole.
fn words(at: Point, face: &Type, text: &str, name: &str, glyphs: &mut Glyphs) -> String {
    let font = face.font();
    let scale = face.size / f64::from(font.units_per_em().unwrap_or(2048.0));
    let mut out = format!(
        "<g role=\"img\" aria-label=\"{}\" transform=\"translate({} {}) scale({scale:.6})\" fill=\"{}\">",
        xml(text),
        num(at.0),
        num(at.1),
        hex(face.colour)
    );
    for (c, shift) in face.set(text, 1.0).0 {
        let glyph = font.glyph_id(c);
        let id = format!("{name}-{}{}", if face.bold { 'b' } else { 'r' }, glyph.0);
        let drawn = glyphs.entry(id.clone()).or_insert_with(|| outline(face, glyph));
        if !drawn.is_empty() {
            let x = (f64::from(shift) / scale).round();
            write!(out, "<use href=\"#{id}\" x=\"{x}\"/>").expect("a string takes everything");
        }
    }
    out.push_str("</g>\n");
    out
}

/// The outline of a glyph in the font's units, y downwards; empty for a blank.
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

/// Two decimals are a fiftieth of a printed dot; no more is written.
fn num(x: f64) -> String {
    let text = format!("{x:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".into() } else { short.to_owned() }
}

fn hex(c: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", c.0, c.1, c.2)
}

/// A text as it may stand in an element or in an attribute; what XML 1.0 cannot hold becomes a replacement mark.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
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
        let text = svg(&c, "x", "t & u", "d");
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
        c.dashes((0.0, 5.004), (9.0, 5.004), 1.5, (3.0, 2.0), RGBColor(255, 0, 1));
        let text = svg(&c, "x", "", "");
        assert!(text.contains("<path d=\"M1 2L4 2L4 6.5L1 6.5Z\" fill=\"#000000\" fill-opacity=\"0.25\"/>"));
        assert!(text.contains(
            "d=\"M0 5L9 5\" fill=\"none\" stroke=\"#ff0001\" stroke-width=\"1.5\" stroke-dasharray=\"3 2\""
        ));
    }
}
