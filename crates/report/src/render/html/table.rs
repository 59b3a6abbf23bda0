//! Tables as HTML: with a caption and the scope of the heads, numbers that sort by value, in a box that scrolls
//! separately if the page is too narrow.

use super::body::inline;
use super::escape::escape;
use crate::document::{Cell, Column, Mark, Table};
use crate::escape::visible;

/// Cells of at most this many characters are not broken.
const SHORT: usize = 24;
/// Cells of more characters are sentences, and get a minimum width.
const LONG: usize = 48;
/// A table with fewer rows needs no sorting.
const FEW: usize = 3;

/// Returns the table; `caption` is for screen readers.
pub(super) fn table(table: &Table, caption: &str) -> String {
    let shown: Vec<usize> = table.in_pages().collect();
    let sorts = table.sorts && table.rows.len() >= FEW;
    let head: String = shown.iter().map(|i| head(&table.columns[*i])).collect();
    let row = |row: &Vec<Cell>| {
        let cells = shown.iter().enumerate().map(|(at, i)| {
            let column = &table.columns[*i];
            cell(&row[*i], column, &Role { is_row_head: at == table.row_head, sorts })
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = table.rows.iter().map(row).collect();
    let caption = escape(&visible(caption));
    let sort = if sorts { " data-sort" } else { "" };
    let omission = table.omission().map(|said| format!("<p>{}</p>\n", escape(&said))).unwrap_or_default();
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table{sort}>\n<caption>{caption}</caption>\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{omission}"
    )
}

fn head(column: &Column) -> String {
    let class = if column.is_right_in_pages() { " class=\"n\"" } else { "" };
    // A head without words gets no scope.
    match column.head.is_empty() {
        true => "<td></td>".into(),
        false => format!("<th scope=\"col\"{class}>{}</th>", inline(&column.head)),
    }
}

/// The role of a cell in its table.
struct Role {
    is_row_head: bool,
    sorts: bool,
}

fn cell(cell: &Cell, column: &Column, role: &Role) -> String {
    let words = cell.words();
    let mut classes = Vec::new();
    classes.extend(column.is_right_in_pages().then_some("n"));
    classes.extend(cell.mark().map(tone));
    classes.extend(match words.chars().count() {
        n if n <= SHORT => Some("short"),
        n if n > LONG => Some("long"),
        _ => None,
    });
    let class = if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
    let value = cell.value().filter(|v| role.sorts && v.is_finite());
    let key = value.map(|v| format!(" data-v=\"{v}\"")).unwrap_or_default();
    let html = match cell {
        Cell::Text(text) => inline(text),
        Cell::Figure { text, strong: true, .. } => format!("<strong>{}</strong>", escape(&visible(text))),
        Cell::Figure { strong: false, .. }
        | Cell::Unknown
        | Cell::Empty
        | Cell::Number(_)
        | Cell::Precise(_)
        | Cell::Count(_)
        | Cell::Share(_)
        | Cell::Below(_)
        | Cell::Level { .. }
        | Cell::Verdict { .. }
        | Cell::Marked { .. } => escape(&visible(&words)),
    };
    match role.is_row_head {
        true => format!("<th scope=\"row\"{class}{key}>{html}</th>"),
        false => format!("<td{class}{key}>{html}</td>"),
    }
}

/// Returns the CSS class of a mark; its sign and its word are also shown.
pub(super) const fn tone(mark: Mark) -> &'static str {
    match mark {
        Mark::Good => "good",
        Mark::Bad => "bad",
        Mark::Open | Mark::Invalid => "open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_a_scope_and_steps_sort() {
        let columns = || vec![Column::step_number(), Column::level(), Column::text("verdict")];
        let level = || Cell::Level { value: 5.0, full: "5 req/s".into(), short: "5".into() };
        let row = |i: u32| {
            vec![Cell::figure(i.to_string(), Some(f64::from(i))), level(), Cell::marked(Mark::Good, "meets")]
        };
        let rows = || (1..4).map(row).collect();
        let text = table(&Table::new(columns(), rows()).sorted_by_readers(1), "Steps: in order");
        assert!(text.contains("<table data-sort>\n<caption>Steps: in order</caption>"), "{text}");
        assert!(text.contains("<th scope=\"col\" class=\"n\">#</th>"), "{text}");
        assert!(
            text.contains("<td class=\"n short\" data-v=\"1\">1</td><th scope=\"row\" class=\"short\" data-v=\"5\">5 req/s</th><td class=\"good short\">● meets</td>"),
            "{text}"
        );
        let mut columns = columns();
        columns[0] = Column::text("");
        let text = table(&Table::new(columns, rows()), "c");
        assert!(text.contains("<tr><td></td><th scope=\"col\">level") && !text.contains("data-"), "{text}");
    }

    #[test]
    fn text_in_a_table_stays_text() {
        let row = vec![Cell::text("a|b\nc <script>\u{1b}[31m"), Cell::figure("\"x' <b>", None)];
        let text = table(&Table::new(vec![Column::text("<i>"), Column::number("n")], vec![row]), "\"<u>");
        assert!(
            text.contains("a|b c &lt;script&gt;␛[31m") && text.contains("&quot;x&#39; &lt;b&gt;"),
            "{text}"
        );
        assert!(
            !text.contains("<script")
                && !text.contains("<i>")
                && text.contains("aria-label=\"&quot;&lt;u&gt;\"")
        );
    }
}
