//! Blocks as HTML: our own elements and escaped text. It contains no links.

use super::escape::escape;
use super::table::table;
use crate::document::{Advice, Block, Bullet, Entry, Picture, Span, Text};
use crate::escape::{lines, visible};
use std::collections::BTreeMap;

/// Code with more lines than this is folded.
const LONG: usize = 16;

/// The charts of a page by their paths, each as a figure.
pub(super) type Figures = BTreeMap<String, String>;

/// The context of blocks.
pub(super) struct Place<'a> {
    /// The title of their section: the caption of tables that have none.
    pub(super) title: &'a str,
    /// The level of headings within them.
    pub(super) depth: usize,
    /// The charts of the page.
    pub(super) figures: &'a Figures,
}

/// Returns blocks as HTML.
pub(super) fn blocks(all: &[Block], place: &Place<'_>) -> String {
    all.iter().filter(|b| !b.is_empty()).map(|b| block(b, place)).collect()
}

fn block(block: &Block, place: &Place<'_>) -> String {
    match block {
        Block::Paragraph(text) => format!("<p>{}</p>\n", inline(text)),
        Block::Heading(text) => {
            let depth = place.depth;
            format!("<h{depth}>{}</h{depth}>\n", inline(text))
        }
        Block::List(items) => list(items.iter().map(inline)),
        Block::Facts(facts) => {
            list(facts.iter().map(|(name, text)| format!("{}: {}", inline(name), inline(text))))
        }
        Block::Caveats(all) => {
            format!("<ul class=\"caveats\">\n{}</ul>\n", all.iter().map(caveat).collect::<String>())
        }
        Block::Outline(entries) => outline(entries),
        Block::Legend(items) => {
            format!("<p>{}</p>\n", items.iter().map(inline).collect::<Vec<_>>().join(" · "))
        }
        Block::Warning(text) => format!("<p><strong>{}</strong></p>\n", inline(text)),
        Block::Table(all) => {
            let caption = if all.caption.is_empty() { place.title } else { &all.caption };
            let caption = if all.caption.is_empty() || all.caption == place.title {
                caption.to_owned()
            } else {
                format!("{}: {caption}", place.title)
            };
            table(all, &caption)
        }
        Block::Code { text, .. } => code(text),
        Block::Picture(picture) => figure(picture, place.figures),
        Block::Folded { summary, blocks } => format!(
            "<details class=\"more\"><summary>{}</summary>\n{}</details>\n",
            inline(summary),
            self::blocks(blocks, place)
        ),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("<ul>\n{}</ul>\n", items.map(|item| format!("<li>{item}</li>\n")).collect::<String>())
}

fn caveat(caveat: &Advice) -> String {
    match caveat.advice.is_empty() {
        true => format!("<li>{}</li>\n", inline(&caveat.text)),
        false => format!("<li>{} <em>{}</em></li>\n", inline(&caveat.text), inline(&caveat.advice)),
    }
}

fn outline(entries: &[Entry]) -> String {
    let one = |e: &Entry| {
        let bullet = match e.bullet {
            Bullet::None => String::new(),
            Bullet::Number(n) => format!("{n}. "),
            Bullet::Arrow => "→ ".to_owned(),
            Bullet::Bar => "│ ".to_owned(),
        };
        let below = if e.below.is_empty() { String::new() } else { outline(&e.below) };
        format!("{bullet}{}{below}", inline(&e.text))
    };
    list(entries.iter().map(one))
}

/// Returns a line of text, without a paragraph around it.
pub(super) fn inline(text: &Text) -> String {
    let span = |span: &Span| {
        let words = escape(&visible(span.words()));
        match span {
            Span::Plain(_) => words,
            Span::Strong(_) => format!("<strong>{words}</strong>"),
            Span::Emphasis(_) => format!("<em>{words}</em>"),
            Span::Code(_) => format!("<code>{words}</code>"),
        }
    };
    text.spans().iter().map(span).collect::<String>().trim().to_owned()
}

/// Returns code; folds it if it is long.
fn code(text: &str) -> String {
    let text = lines(text);
    let text = text.trim_end();
    let pre = format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape(text));
    match text.lines().count() {
        n if n > LONG => {
            format!("<details class=\"more\"><summary>Show all {n} lines</summary>\n{pre}</details>\n")
        }
        _ => pre,
    }
}

/// Returns a chart, or its alternative text if it is not drawn.
fn figure(picture: &Picture, figures: &Figures) -> String {
    match figures.get(&picture.path) {
        Some(figure) => figure.clone(),
        None => {
            let text = format!("{}: {}", picture.caption, picture.alternative);
            format!("<p>{}</p>\n", escape(&visible(&text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Column, Table, code, emphasis, plain, strong};
    use proptest::prelude::*;

    fn of(all: &[Block]) -> String {
        let figures = Figures::from([("charts/a.png".into(), "<figure>A</figure>\n".into())]);
        blocks(all, &Place { title: "Title", depth: 3, figures: &figures })
    }

    fn picture(path: &str) -> Block {
        Block::Picture(Picture { path: path.into(), caption: "no".into(), alternative: "chart".into() })
    }

    #[test]
    fn blocks_become_elements() {
        let text = Text::of([plain("a "), emphasis("b"), plain(" "), strong("c"), plain(" "), code("d<")]);
        let caveat = Advice { text: "x".into(), advice: "y".into() };
        for (from, to) in [
            (Block::Paragraph(text), "<p>a <em>b</em> <strong>c</strong> <code>d&lt;</code></p>\n"),
            (Block::List(vec!["x".into()]), "<ul>\n<li>x</li>\n</ul>\n"),
            (Block::Caveats(vec![caveat]), "<ul class=\"caveats\">\n<li>x <em>y</em></li>\n</ul>\n"),
            (Block::Heading("Row 1: why?".into()), "<h3>Row 1: why?</h3>\n"),
            (picture("charts/a.png"), "<figure>A</figure>\n"),
            (picture("charts/b.png"), "<p>no: chart</p>\n"),
            (
                Block::Code { language: "sh", text: "a & b\n".into() },
                "<pre tabindex=\"0\"><code>a &amp; b</code></pre>\n",
            ),
        ] {
            assert_eq!(of(&[from]), to);
        }
        let table = |caption: &str| {
            let row = vec![crate::document::Cell::Text(emphasis("x").into())];
            of(&[Table::new(vec![Column::text("a")], vec![row]).captioned(caption).into()])
        };
        assert!(table("").contains("<caption>Title</caption>") && table("").contains("<em>x</em></th>"));
        assert!(table("In ms").contains("<caption>Title: In ms</caption>"), "{}", table("In ms"));
        let long = of(&[Block::Code { language: "toml", text: "a = 1\n".repeat(30) }]);
        assert!(long.starts_with("<details class=\"more\"><summary>Show all 30 lines"), "{long}");
    }

    proptest! {
        /// Text from outside is shown verbatim and never interpreted.
        #[test]
        fn text_stays_text(s in "[ -~]{0,40}|\\PC{0,20}|[<>&\"'\n\u{1b}]{0,9}") {
            let out = of(&[Block::paragraph(format!("x{s}x"))]);
            let inner = out.strip_prefix("<p>").unwrap().strip_suffix("</p>\n").unwrap();
            prop_assert!(!inner.contains(['<', '>', '"', '\'', '\u{1b}']), "{}", out);
            let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
            let shown = entities.iter().fold(inner.to_owned(), |text, (from, to)| text.replace(from, to));
            prop_assert_eq!(shown, crate::escape::plain(&format!("x{s}x")));
        }
    }
}
