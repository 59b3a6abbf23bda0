//! A table of the report as HTML: with its caption and the scope of its heads, sums and counts that sort by value, in a box that
//! scrolls by itself where the page is too narrow for it.

use crate::escape::html;

/// Heads of the first column of tables whose rows may stand in any order, and that people want to sort.
const SORTABLE: [&str; 5] = ["#", "variant", "series", "row", "decision"];
/// Cells up to so many characters are not broken.
const SHORT: usize = 24;
/// Cells of more are sentences, and have room to be read.
const LONG: usize = 48;

/// A cell as HTML and as the text that is read off it.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub(super) html: String,
    pub(super) text: String,
}

/// A table as it is gathered.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// For each column whether it is set to the right.
    pub(super) right: Vec<bool>,
    pub(super) head: Vec<Cell>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The table; `caption` is heard by those who do not see what stands above it.
    pub(super) fn html(&self, caption: &str) -> String {
        let first = self.head.first().map_or("", |h| h.text.as_str());
        let sorts = SORTABLE.contains(&first) && self.rows.len() > 2;
        let class = |i: usize| if self.right.get(i) == Some(&true) { " class=\"n\"" } else { "" };
        let head: String = self.head.iter().enumerate().map(|(i, h)| head(h, class(i))).collect();
        // The number of a step, or a verdict, says less of its row than its level does.
        let names = usize::from(matches!(first, "#" | "decision"));
        let body: String = self.rows.iter().map(|row| self.row(row, names, sorts)).collect();
        let caption = html(caption);
        let sort = if sorts { " data-sort" } else { "" };
        format!(
            "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table{sort}>\n<caption>{caption}</caption>\n\
             <thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
        )
    }

    fn row(&self, row: &[Cell], names: usize, sorts: bool) -> String {
        let cell = |(i, c): (usize, &Cell)| {
            let mut classes = Vec::new();
            classes.extend((self.right.get(i) == Some(&true)).then_some("n"));
            classes.extend(tone(&c.text));
            classes.extend(match c.text.chars().count() {
                n if n <= SHORT => Some("short"),
                n if n > LONG => Some("long"),
                _ => None,
            });
            let class =
                if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
            let key =
                value(&c.text).filter(|_| sorts).map(|v| format!(" data-v=\"{v}\"")).unwrap_or_default();
            if i == names {
                format!("<th scope=\"row\"{class}{key}>{}</th>", c.html)
            } else {
                format!("<td{class}{key}>{}</td>", c.html)
            }
        };
        format!("<tr>{}</tr>\n", row.iter().enumerate().map(cell).collect::<String>())
    }
}

fn head(h: &Cell, class: &str) -> String {
    // A head without words heads nothing.
    if h.text.is_empty() { "<td></td>".into() } else { format!("<th scope=\"col\"{class}>{}</th>", h.html) }
}

/// The class for the sign that a cell begins with; the sign and its word are there as well.
fn tone(text: &str) -> Option<&'static str> {
    match text.chars().next()? {
        '●' => Some("good"),
        '✕' => Some("bad"),
        '○' | '△' => Some("open"),
        _ => None,
    }
}

/// The number by which a cell is sorted: that at its beginning, behind a sign or a word; `5 of 200` is a share, and times count in
/// milliseconds. `None` where there is none.
fn value(text: &str) -> Option<f64> {
    if text == "unloaded" {
        return Some(0.0);
    }
    let text = text.trim_start_matches(['●', '✕', '○', '△', '≈', '≥', '>', '<', ' ']);
    let text = ["at least ", "undecided: about ", "undecided: "]
        .into_iter()
        .find_map(|before| text.strip_prefix(before))
        .unwrap_or(text);
    let (number, rest) = leading(text)?;
    let unit = rest.split(' ').next().unwrap_or_default();
    if unit == "of" {
        let (all, _) = leading(rest.strip_prefix("of ")?)?;
        return Some(if all > 0.0 { number / all } else { 0.0 });
    }
    Some(match unit {
        "million" => number * 1e6,
        "s" => number * 1e3,
        "min" => number * 6e4,
        _ => number,
    })
}

/// A number at the beginning of a text, and what follows behind blanks.
fn leading(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".,-".contains(c))).unwrap_or(text.len());
    let number = text[..end].trim_end_matches([',', '.']).replace(',', "");
    Some((number.parse().ok()?, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_sort_by_what_they_say() {
        for (text, want) in [
            ("1,280", Some(1280.0)),
            ("–", None),
            ("20 req/s", Some(20.0)),
            ("unloaded", Some(0.0)),
            ("● 5 of 2,000", Some(0.0025)),
            ("✕ 0 of 0", Some(0.0)),
            ("1.72 million", Some(1_720_000.0)),
            ("1.5 s", Some(1500.0)),
            ("24.8 / 54.6", Some(24.8)),
            ("at least 30 req/s, fails at 34.6", Some(30.0)),
            ("> 99.99 %", Some(99.99)),
            ("● meets", None),
            ("99.97 % (99.8 – 100)", Some(99.97)),
            ("", None),
        ] {
            assert_eq!(value(text), want, "{text}");
        }
    }

    #[test]
    fn heads_have_a_scope_and_steps_sort() {
        let cell = |text: &str| Cell { html: html(text), text: text.into() };
        let row = |i: usize| vec![cell(&i.to_string()), cell("5 req/s"), cell("● meets")];
        let head = vec![cell("#"), cell("level"), cell("verdict")];
        let mut table = Table { right: vec![true, false, false], head, rows: (1..4).map(row).collect() };
        let text = table.html("Steps: in order");
        assert!(text.contains("<table data-sort>\n<caption>Steps: in order</caption>"), "{text}");
        assert!(text.contains("<th scope=\"col\" class=\"n\">#</th>"), "{text}");
        assert!(
            text.contains("<td class=\"n short\" data-v=\"1\">1</td><th scope=\"row\" class=\"short\" data-v=\"5\">5 req/s</th><td class=\"good short\">● meets</td>"),
            "{text}"
        );
        table.head[0] = cell("");
        let text = table.html("c");
        assert!(text.contains("<tr><td></td><th scope=\"col\">level") && !text.contains("data-"), "{text}");
    }
}
