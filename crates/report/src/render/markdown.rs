//! Documents as Markdown. Text is escaped, so that it cannot start a table cell, a link, emphasis, code or HTML.

use crate::document::{Block, Bullet, Cell, Document, Entry, Picture, Section, Span, Table, Text};
use crate::escape::visible;

/// Returns a document as a separate page.
pub fn render(document: &Document) -> String {
    page(document, 1)
}

/// Returns a document whose title is a heading of `depth`, and whose sections are one level below.
pub fn page(document: &Document, depth: usize) -> String {
    let mut out = format!("{} {}\n\n", "#".repeat(depth), inline(&document.title));
    blocks_into(&mut out, &document.lead, 3);
    for section in &document.sections {
        write(section, depth + 1, &mut out);
    }
    format!("{}\n", out.trim_end())
}

fn write(section: &Section, depth: usize, out: &mut String) {
    if section.is_empty() {
        return;
    }
    if !section.title.is_empty() {
        out.push_str(&format!("{} {}\n\n", "#".repeat(depth), inline(&section.title)));
    }
    blocks_into(out, &section.blocks, depth + 1);
    for part in &section.parts {
        write(part, depth + 1, out);
    }
}

/// Returns blocks separated by blank lines; headings in them are of `depth`.
pub(crate) fn blocks(blocks: &[Block], depth: usize) -> String {
    let mut out = String::new();
    blocks_into(&mut out, blocks, depth);
    if out.is_empty() { out } else { format!("{}\n", out.trim_end()) }
}

fn blocks_into(out: &mut String, all: &[Block], depth: usize) {
    for block in all.iter().filter(|b| !b.is_empty()) {
        out.push_str(self::block(block, depth).trim_end());
        out.push_str("\n\n");
    }
}

fn block(block: &Block, depth: usize) -> String {
    let line = |item: &Text| format!("- {}\n", inline(item));
    match block {
        Block::Paragraph(text) => inline(text),
        Block::Heading(text) => format!("{} {}", "#".repeat(depth), inline(text)),
        Block::List(items) => items.iter().map(line).collect(),
        Block::Outline(entries) => outline(entries, 0),
        Block::Legend(items) => items.iter().map(inline).collect::<Vec<_>>().join(" · "),
        Block::Facts(facts) => {
            facts.iter().map(|(name, text)| format!("- {}: {}\n", inline(name), inline(text))).collect()
        }
        Block::Caveats(all) => all
            .iter()
            .map(|c| match c.advice.is_empty() {
                true => line(&c.text),
                false => format!("- {} *{}*\n", inline(&c.text), inline(&c.advice)),
            })
            .collect(),
        Block::Warning(text) => format!("> **{}**", inline(text)),
        Block::Table(table) => self::table(table),
        Block::Code { language, text } => fence(language, text),
        Block::Picture(picture) => self::picture(picture),
        Block::Folded { summary, blocks } => {
            format!(
                "<details><summary>{}</summary>\n\n{}\n</details>",
                inline(summary),
                self::blocks(blocks, depth)
            )
        }
    }
}

fn outline(entries: &[Entry], depth: usize) -> String {
    let mut out = String::new();
    for entry in entries {
        let (indent, bullet) = (
            "  ".repeat(depth),
            match entry.bullet {
                Bullet::Number(n) => format!("{n}."),
                Bullet::None | Bullet::Arrow | Bullet::Bar => "-".to_owned(),
            },
        );
        out.push_str(&format!("{indent}{bullet} {}\n", inline(&entry.text)));
        out.push_str(&outline(&entry.below, depth + 1));
    }
    out
}

fn picture(picture: &Picture) -> String {
    let (caption, alternative) = (escaped(&picture.caption), escaped(&picture.alternative));
    let alternative = if alternative.is_empty() { alternative } else { format!(": {alternative}") };
    format!("![{caption}{alternative}]({})", picture.path)
}

fn table(table: &Table) -> String {
    let shown: Vec<usize> = table.in_pages().collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(shown.iter().map(|i| head(&table.columns[*i].head)).collect());
    let rule = |i: &usize| if table.columns[*i].is_right_in_pages() { "---:" } else { "---" };
    out.push_str(&line(shown.iter().map(|i| rule(i).to_owned()).collect()));
    for row in &table.rows {
        out.push_str(&line(shown.iter().map(|i| cell(&row[*i])).collect()));
    }
    out.extend(table.omission().map(|said| format!("\n{said}\n")));
    out
}

/// Returns the head of a column.
fn head(text: &Text) -> String {
    if text.words() == "#" { "#".into() } else { in_cell(text) }
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => in_cell(text),
        // Our own numbers contain nothing to escape.
        Cell::Number(_)
        | Cell::Precise(_)
        | Cell::Count(_)
        | Cell::Share(_)
        | Cell::Below(_)
        | Cell::Unknown
        | Cell::Empty => cell.words(),
        Cell::Figure { text, strong, .. } => match strong {
            true => format!("**{}**", figure(text)),
            false => figure(text),
        },
        Cell::Level { .. } | Cell::Verdict { .. } | Cell::Marked { .. } => escaped(&cell.words()),
    }
}

/// Returns a figure. Its interval may be in brackets, which are no link here.
fn figure(words: &str) -> String {
    let escaped = escaped(words);
    if words.contains("](") { escaped } else { escaped.replace("\\[", "[").replace("\\]", "]") }
}

/// Returns a line of text for a table, where a bar ends the cell even within code.
fn in_cell(text: &Text) -> String {
    let bars = |span: &Span| matches!(span, Span::Code(words) if words.contains('|'));
    if !text.spans().iter().any(bars) {
        return inline(text);
    }
    let one = |span: &Span| match span {
        Span::Code(_) => inline(&span.clone().into()).replace('|', "\\|"),
        Span::Plain(_) | Span::Strong(_) | Span::Emphasis(_) => inline(&span.clone().into()),
    };
    text.spans().iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Returns a line of text.
fn inline(text: &Text) -> String {
    let span = |span: &Span| match span {
        Span::Plain(words) => escape(&visible(words)),
        Span::Strong(words) => wrapped("**", &visible(words)),
        Span::Emphasis(words) => wrapped("*", &visible(words)),
        Span::Code(words) => format!("`{}`", visible(words).trim().replace('`', "'")),
    };
    text.spans().iter().map(span).collect::<String>().trim().to_owned()
}

/// Returns words between signs, with surrounding blanks outside: emphasis cannot begin with a blank.
fn wrapped(sign: &str, words: &str) -> String {
    let inner = words.trim();
    if inner.is_empty() {
        return String::new();
    }
    let (before, after) =
        (if words.starts_with(' ') { " " } else { "" }, if words.ends_with(' ') { " " } else { "" });
    format!("{before}{sign}{}{sign}{after}", escape(inner))
}

fn escaped(words: &str) -> String {
    escape(visible(words).trim())
}

/// Escapes the characters that have a meaning in Markdown.
fn escape(words: &str) -> String {
    let chars: Vec<char> = words.chars().collect();
    let mut out = String::with_capacity(words.len());
    for (i, c) in chars.iter().enumerate() {
        let word = |j: Option<usize>| j.and_then(|j| chars.get(j)).is_some_and(|c| c.is_alphanumeric());
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Some sites turn bare addresses and @names into links.
            ':' if chars[i..].starts_with(&[':', '/', '/']) => out.push_str("&#58;"),
            '.' if i >= 3 && chars[i - 3..i].iter().all(|c| c.eq_ignore_ascii_case(&'w')) => {
                out.push_str("&#46;");
            }
            '@' => out.push_str("&#64;"),
            // Within a word it does not start emphasis.
            '_' if word(i.checked_sub(1)) && word(Some(i + 1)) => out.push('_'),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(*c);
            }
            c => out.push(*c),
        }
    }
    out
}

/// Returns a fenced block that its text cannot close: the fence is longer than any run of backticks in it. Line breaks
/// are preserved.
fn fence(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest.max(2) + 1);
    format!("{ticks}{language}\n{}\n{ticks}\n", crate::escape::lines(text).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Column, code, emphasis, plain, strong};
    use proptest::prelude::*;

    #[test]
    fn spans_keep_their_kind_and_escape_their_words() {
        let text = Text::of([plain("a|b "), strong("<b>"), plain(" and"), emphasis(" x* "), code("d`e|")]);
        assert_eq!(inline(&text), "a\\|b **&lt;b&gt;** and *x\\** `d'e|`");
        assert_eq!(in_cell(&text), "a\\|b **&lt;b&gt;** and *x\\** `d'e\\|`");
    }

    #[test]
    fn markdown_stays_text() {
        for (from, to) in [
            ("a|b `c` <img src=x> [l](u)", "a\\|b \\`c\\` &lt;img src=x&gt; \\[l\\](u)"),
            ("http://x www.y: @z", "http&#58;//x www&#46;y: &#64;z"),
            ("x86_64 _a_ __b__", "x86_64 \\_a\\_ \\_\\_b\\_\\_"),
            ("a\nb\r\n c\t\u{1b}[31m", "a b c ␛\\[31m"),
        ] {
            assert_eq!(inline(&from.into()), to);
        }
    }

    #[test]
    fn a_fence_cannot_be_closed_from_inside() {
        let text = fence("toml", "a = 1\n````\nb = \"\u{1b}\"\r\n");
        assert_eq!(text, "`````toml\na = 1\n````\nb = \"␛\"\n`````\n");
    }

    #[test]
    fn a_table_has_its_rule() {
        let columns = vec![Column::step_number(), Column::level(), Column::text("a|b")];
        let row = vec![Cell::Count(1.0), Cell::Below(1), Cell::text("<x>|\ny")];
        assert_eq!(
            blocks(&[Table::new(columns, vec![row]).into()], 3),
            "| # | level | a\\|b |\n| ---: | --- | --- |\n| 1 | < 1 | &lt;x&gt;\\| y |\n"
        );
    }

    #[test]
    fn sections_nest_and_empty_ones_vanish() {
        let part = Section::titled("Steps", vec![Block::paragraph("text")]);
        let mut series = Section::titled("Series a", vec![]);
        series.parts = vec![part, Section::titled("Limits", vec![Block::List(vec![])])];
        let sections = vec![Section::titled("Empty", vec![]), series];
        let document = Document {
            title: "T".into(),
            lead: vec![Block::paragraph("n")],
            sections,
            ..Document::default()
        };
        assert_eq!(render(&document), "# T\n\nn\n\n## Series a\n\n### Steps\n\ntext\n");
    }

    proptest! {
        #[test]
        fn a_cell_is_one_line_without_a_bare_pipe(s in "\\PC*|[|\\\\`\n\r<>]*") {
            let cell = inline(&s.into());
            prop_assert!(!cell.contains('\n') && !cell.contains('<'));
            let mut escaped = false;
            for c in cell.chars() {
                prop_assert!(c != '|' || escaped, "{cell}");
                escaped = c == '\\' && !escaped;
            }
        }
    }
}
