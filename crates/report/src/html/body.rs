//! The Markdown of a section as HTML. Markdown is read by pulldown-cmark; what is written here are elements of our own and escaped
//! text: HTML within Markdown is shown as text, and nothing is linked.

use super::table::{Cell, Table};
use crate::escape::{clip, html};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeMap;

/// Code of more lines than this is folded away.
const LONG: usize = 16;

/// The charts of a page by the path that Markdown gives them, each as a figure.
pub(super) type Figures = BTreeMap<String, String>;

/// A body as HTML. Headings in it are one level below `depth`; tables are captioned by `title` and the sentence above them.
pub(super) fn body(markdown: &str, title: &str, depth: usize, figures: &Figures) -> String {
    let mut writer = Writer { title, depth, figures, ..Writer::new(figures) };
    for event in events(markdown) {
        writer.event(event);
    }
    writer.out
}

/// A line of Markdown as HTML, without a paragraph around it.
pub(super) fn inline(markdown: &str) -> String {
    let figures = Figures::new();
    let mut writer = Writer::new(&figures);
    for event in events(markdown) {
        if !matches!(event, Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph)) {
            writer.event(event);
        }
    }
    writer.out
}

/// The words of a line of Markdown.
pub(super) fn text(markdown: &str) -> String {
    let said = |e: Event<'_>| match e {
        Event::Text(t) | Event::Code(t) | Event::Html(t) | Event::InlineHtml(t) => Some(t.to_string()),
        Event::SoftBreak | Event::HardBreak => Some(" ".into()),
        _ => None,
    };
    events(markdown).filter_map(said).collect()
}

fn events(markdown: &str) -> Parser<'_> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES)
}

struct Writer<'a> {
    title: &'a str,
    depth: usize,
    figures: &'a Figures,
    out: String,
    /// The words since the last block began; of the last paragraph when a table begins.
    said: String,
    /// What a paragraph or an image began at in `out`, to take it back.
    paragraph: usize,
    image: Option<(String, usize, usize)>,
    code: Option<String>,
    table: Option<Table>,
    in_head: bool,
}

impl<'a> Writer<'a> {
    fn new(figures: &'a Figures) -> Self {
        Self {
            title: "",
            depth: 2,
            figures,
            out: String::new(),
            said: String::new(),
            paragraph: 0,
            image: None,
            code: None,
            table: None,
            in_head: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            // The parser has taken escapes away: what is HTML here came as HTML, and is shown.
            Event::Text(t) | Event::Html(t) | Event::InlineHtml(t) => self.words(&t, html),
            Event::Code(t) => self.words(&t, |t| format!("<code>{}</code>", html(t))),
            Event::SoftBreak => self.words("\n", str::to_owned),
            Event::HardBreak => self.words("\n", |_| "<br>\n".into()),
            Event::Rule => self.out.push_str("<hr>\n"),
            // Not switched on.
            Event::FootnoteReference(_)
            | Event::TaskListMarker(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_) => {}
        }
    }

    fn words(&mut self, text: &str, written: impl Fn(&str) -> String) {
        match &mut self.code {
            Some(code) => code.push_str(text),
            None => {
                self.out.push_str(&written(text));
                self.said.push_str(text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                self.said.clear();
                self.paragraph = self.out.len();
                self.out.push_str("<p>");
            }
            Tag::Heading { .. } => {
                self.said.clear();
                self.out.push_str(&format!("<h{}>", self.depth + 1));
            }
            Tag::List(None) => self.out.push_str("<ul>\n"),
            Tag::List(Some(_)) => self.out.push_str("<ol>\n"),
            Tag::Item => self.out.push_str("<li>"),
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                self.code = Some(String::new())
            }
            Tag::Table(columns) => {
                let right = columns.iter().map(|a| *a == Alignment::Right).collect();
                self.table = Some(Table { right, ..Table::default() });
            }
            Tag::TableHead => self.in_head = true,
            Tag::TableRow => self.table.iter_mut().for_each(|t| t.rows.push(Vec::new())),
            Tag::TableCell => self.image = Some((String::new(), self.out.len(), self.said.len())),
            Tag::Emphasis => self.out.push_str("<em>"),
            Tag::Strong => self.out.push_str("<strong>"),
            Tag::Image { dest_url, .. } => {
                self.image = Some((dest_url.to_string(), self.out.len(), self.said.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                // A figure is no part of a paragraph.
                if self.out[self.paragraph..].starts_with("<p><figure") {
                    self.out.replace_range(self.paragraph..self.paragraph + 3, "");
                } else {
                    self.out.push_str("</p>\n");
                }
            }
            TagEnd::Heading(_) => self.out.push_str(&format!("</h{}>\n", self.depth + 1)),
            TagEnd::List(ordered) => self.out.push_str(if ordered { "</ol>\n" } else { "</ul>\n" }),
            TagEnd::Item => self.out.push_str("</li>\n"),
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                self.out.push_str(&block(&code));
            }
            TagEnd::TableHead => self.in_head = false,
            TagEnd::TableCell => self.cell(),
            TagEnd::Table => {
                let caption = caption(self.title, &self.said);
                let table = self.table.take().unwrap_or_default();
                self.out.push_str(&table.html(&caption));
                self.said.clear();
            }
            TagEnd::Emphasis => self.out.push_str("</em>"),
            TagEnd::Strong => self.out.push_str("</strong>"),
            TagEnd::Image => self.figure(),
            _ => {}
        }
    }

    /// Takes the words since the cell began out of the text and into the table.
    fn cell(&mut self) {
        let Some((_, from, said)) = self.image.take() else { return };
        let cell = Cell { html: self.out.split_off(from), text: self.said.split_off(said) };
        let Some(table) = &mut self.table else { return };
        match table.rows.last_mut().filter(|_| !self.in_head) {
            Some(row) => row.push(cell),
            None => table.head.push(cell),
        }
    }

    /// Puts the chart where its alternative text stands; without a chart the text stays.
    fn figure(&mut self) {
        let Some((path, from, said)) = self.image.take() else { return };
        self.said.truncate(said);
        if let Some(figure) = self.figures.get(&path) {
            self.out.truncate(from);
            self.out.push_str(figure);
        }
    }
}

/// A block of code; a long one is folded.
fn block(code: &str) -> String {
    let pre = format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", html(code.trim_end()));
    match code.lines().count() {
        n if n > LONG => {
            format!("<details class=\"more\"><summary>Show all {n} lines</summary>\n{pre}</details>\n")
        }
        _ => pre,
    }
}

/// What a table is called: its section, and the sentence above it.
fn caption(title: &str, above: &str) -> String {
    let first = above.split(". ").next().unwrap_or_default().trim_end_matches(['.', ':', ' ']);
    if first.is_empty() { title.to_owned() } else { clip(&format!("{title}: {first}"), 160) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::{fence, markdown};
    use proptest::prelude::*;

    fn of(markdown: &str) -> String {
        body(markdown, "Title", 2, &Figures::from([("charts/a.png".into(), "<figure>A</figure>\n".into())]))
    }

    #[test]
    fn our_markdown_becomes_html() {
        for (from, to) in [
            ("a *b* **c** `d<`\n", "<p>a <em>b</em> <strong>c</strong> <code>d&lt;</code></p>\n"),
            ("- x\n- y *z*\n", "<ul>\n<li>x</li>\n<li>y <em>z</em></li>\n</ul>\n"),
            ("### Row 1: why?\n\nso\n", "<h3>Row 1: why?</h3>\n<p>so</p>\n"),
            ("![alt](charts/a.png)\n\ntext", "<figure>A</figure>\n<p>text</p>\n"),
            ("![no chart](charts/b.png)\n", "<p>no chart</p>\n"),
            ("```sh\na & b\n```\n", "<pre tabindex=\"0\"><code>a &amp; b</code></pre>\n"),
        ] {
            assert_eq!(of(from), to);
        }
        let table = of("In ms. More.\n\n| # | a |\n| ---: | --- |\n| 1 | *x* |\n");
        assert!(
            table.contains("<caption>Title: In ms</caption>") && table.contains("<em>x</em></th>"),
            "{table}"
        );
        assert!(
            of(&fence("toml", &"a = 1\n".repeat(30)))
                .starts_with("<details class=\"more\"><summary>Show all 30 lines")
        );
    }

    #[test]
    fn html_in_markdown_is_text_and_nothing_is_linked() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=y> b",
            "<!-- x -->",
            "[l](javascript:x)",
            "<http://x.y>",
        ] {
            let out = of(text);
            assert!(!out.contains("<script") && !out.contains("<img") && !out.contains("<!--"), "{out}");
            assert!(!out.contains("<a") && !out.contains("href"), "{out}");
        }
    }

    proptest! {
        /// Text from outside comes out as it went in, whatever it holds.
        #[test]
        fn escaped_text_is_shown_as_it_is(s in "[ -~]{0,40}|\\PC{0,20}") {
            let shown = text(&format!("x{}x", markdown(&s)));
            prop_assert_eq!(shown, format!("x{}x", crate::escape::plain(&s)));
            let out = of(&format!("x {}\n", markdown(&s)));
            prop_assert!(!out.replace("<p>", "").replace("</p>", "").contains('<'), "{}", out);
        }
    }
}
