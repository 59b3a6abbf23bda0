//! Documents for a terminal: sections separated by blank lines, tables as wide as there is room. Control sequences in
//! text are shown, not obeyed.

use crate::document::{
    Advice, Block, Bullet, Cell, Column, Document, Entry, Mark, Place, Priority, Section, Setting, Table,
    Text,
};
use crate::escape::{lines, plain, visible};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};

/// Width of a terminal that does not report it, in columns.
const WIDTH: u16 = 100;

/// Lines above, below and under the head; none between rows, so that a sweep of twenty steps fits on one screen.
const STYLE: TableStyle = {
    let line = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(line).header_separator(line).bottom_border(line)
};

/// Zero-width characters that mark coloured text until tables are laid out; text from outside cannot contain them.
const COLOUR_ENDS: char = '\u{2060}';

/// The capabilities of the output device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Width in columns.
    pub width: u16,
    /// True if long lines are broken between words.
    pub wraps: bool,
    /// True if verdicts and caveats are coloured.
    pub colour: bool,
}

impl Default for Screen {
    /// Returns the settings for output that is not a terminal, such as a file or a pipe.
    fn default() -> Self {
        Self { width: WIDTH, wraps: false, colour: false }
    }
}

/// Returns a document as lines of text, without a final line break.
pub fn render(document: &Document, screen: &Screen) -> String {
    let mut printer = Printer { screen: *screen, out: String::new() };
    if !document.title.is_empty() {
        printer.line(0, 0, &inline(&document.title));
    }
    printer.blocks(&document.lead);
    for section in &document.sections {
        printer.section(section);
    }
    painted(printer.out.trim_end(), screen.colour)
}

/// Returns the placeholder character that begins a colour, and the code of the colour.
const fn colour(mark: Mark) -> (char, u8) {
    match mark {
        Mark::Good => ('\u{2061}', 32),
        Mark::Bad => ('\u{2062}', 31),
        Mark::Open => ('\u{2063}', 33),
        Mark::Invalid => ('\u{2064}', 90),
    }
}

/// Returns words in the colour of a mark.
fn coloured(mark: Mark, words: &str) -> String {
    format!("{}{words}{COLOUR_ENDS}", colour(mark).0)
}

/// Replaces the placeholders with colour codes, or removes them.
fn painted(text: &str, colours: bool) -> String {
    let all = [Mark::Good, Mark::Bad, Mark::Open, Mark::Invalid].map(colour);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match all.iter().find(|(from, _)| *from == c) {
            Some((_, code)) if colours => out.push_str(&format!("\u{1b}[{code}m")),
            None if c == COLOUR_ENDS && colours => out.push_str("\u{1b}[0m"),
            Some(_) => {}
            None if c == COLOUR_ENDS => {}
            None => out.push(c),
        }
    }
    out
}

/// Returns a line of text.
fn inline(text: &Text) -> String {
    let words: String = text.spans().iter().map(|span| visible(span.words())).collect();
    words.trim().to_owned()
}

struct Printer {
    screen: Screen,
    out: String,
}

impl Printer {
    fn section(&mut self, section: &Section) {
        if section.is_empty() {
            return;
        }
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        if !section.title.is_empty() {
            self.line(0, 0, &format!("{}:", inline(&section.title)));
        }
        self.blocks(&section.blocks);
        for part in &section.parts {
            self.section(part);
        }
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks.iter().filter(|b| !b.is_empty()) {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Paragraph(text) => self.line(0, 0, &inline(text)),
            Block::Heading(text) => self.line(0, 0, &format!("{}:", inline(text))),
            Block::List(items) => items.iter().for_each(|item| self.line(2, 2, &inline(item))),
            Block::Outline(entries) => self.outline(entries, 0),
            Block::Legend(items) => self.legend(items),
            Block::Facts(facts) => self.facts(facts),
            Block::Caveats(all) => all.iter().for_each(|c| self.caveat(c)),
            Block::Warning(text) => self.warning(&inline(text)),
            Block::Table(table) => self.table(table),
            Block::Code { text, .. } => {
                for line in lines(text).trim_end().lines() {
                    self.out.push_str(&format!("  {line}\n"));
                }
            }
            Block::Picture(picture) => {
                self.line(0, 0, &format!("{}: {}", plain(&picture.caption), plain(&picture.path)));
            }
            Block::Folded { summary, blocks } => {
                self.line(0, 0, &format!("{}:", inline(summary)));
                self.blocks(blocks);
            }
        }
    }

    /// Adds a line indented by `indent` blanks; continuation lines are indented by `hang`.
    fn line(&mut self, indent: usize, hang: usize, text: &str) {
        let text = format!("{}{text}", " ".repeat(indent));
        if self.screen.wraps {
            let hang = " ".repeat(hang);
            let options = textwrap::Options::new(usize::from(self.screen.width))
                .subsequent_indent(&hang)
                .word_splitter(textwrap::WordSplitter::NoHyphenation);
            self.out.push_str(&textwrap::fill(&text, options.break_words(false)));
        } else {
            self.out.push_str(&text);
        }
        self.out.push('\n');
    }

    fn outline(&mut self, entries: &[Entry], indent: usize) {
        for entry in entries {
            let (bullet, hang, below) = match entry.bullet {
                Bullet::None => (String::new(), 0, 2),
                Bullet::Number(n) => (format!("{n}. "), 0, 3),
                Bullet::Arrow => ("→ ".to_owned(), 2, 2),
                Bullet::Bar => ("│ ".to_owned(), 0, 2),
            };
            self.line(indent, indent + hang, &format!("{bullet}{}", inline(&entry.text)));
            self.outline(&entry.below, indent + below);
        }
    }

    /// Adds items, as many to a line as fit.
    fn legend(&mut self, items: &[Text]) {
        let mut line = String::new();
        for item in items.iter().map(inline) {
            let both = line.chars().count() + 3 + item.chars().count();
            if line.is_empty() {
                line = format!(" {item}");
            } else if both <= usize::from(self.screen.width) {
                line.push_str(&format!(" · {item}"));
            } else {
                self.out.push_str(&format!("{line}\n"));
                line = format!(" {item}");
            }
        }
        self.out.push_str(&format!("{line}\n"));
    }

    /// Adds names and values in two columns.
    fn facts(&mut self, facts: &[(Text, Text)]) {
        let named: Vec<(String, String)> =
            facts.iter().map(|(name, text)| (inline(name), inline(text))).collect();
        let widest = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, text) in named {
            self.line(0, widest + 2, &format!("{name:widest$}  {text}"));
        }
    }

    fn warning(&mut self, text: &str) {
        self.line(0, 2, &format!("{} {text}", coloured(Mark::Open, "!")));
    }

    fn caveat(&mut self, caveat: &Advice) {
        self.warning(&inline(&caveat.text));
        if !caveat.advice.is_empty() {
            self.line(2, 4, &format!("→ {}", inline(&caveat.advice)));
        }
    }

    fn table(&mut self, table: &Table) {
        let shown = shown(table, self.screen.width);
        let text = match table.setting {
            Setting::Bare => bare(table, &shown),
            Setting::Fitted | Setting::Tight | Setting::Whole => ruled(table, &shown, self.screen.width),
        };
        self.out.push_str(&text);
    }
}

/// Returns the indices of the columns that a terminal of this width shows: those of the lowest priority are dropped
/// first if not all fit.
fn shown(table: &Table, width: u16) -> Vec<usize> {
    let stays = |c: &Column| match c.priority {
        _ if c.place == Place::Page => false,
        Priority::Always | Priority::Droppable(_) => true,
        Priority::From(least) => width >= least,
        Priority::Below(most) => width < most,
    };
    let mut shown: Vec<usize> = (0..table.columns.len()).filter(|i| stays(&table.columns[*i])).collect();
    let droppable = |i: usize| match table.columns[i].priority {
        Priority::Droppable(order) => Some(order),
        Priority::Always | Priority::From(_) | Priority::Below(_) => None,
    };
    while room(table, &shown, 2) > width {
        let Some(least) =
            shown.iter().copied().filter(|i| droppable(*i).is_some()).min_by_key(|i| droppable(*i))
        else {
            break;
        };
        shown.retain(|i| *i != least);
    }
    shown
}

/// Returns the approximate total width of columns, with `between` characters between them.
fn room(table: &Table, shown: &[usize], between: u16) -> u16 {
    shown.iter().map(|i| table.columns[*i].width + between).sum()
}

fn head(column: &Column) -> String {
    match &column.short {
        Some(short) => short.split('\n').map(plain).collect::<Vec<_>>().join("\n"),
        None => inline(&column.head),
    }
}

/// Returns a table between lines.
fn ruled(table: &Table, shown: &[usize], width: u16) -> String {
    let mut out = comfy_table::Table::new();
    out.load_style(STYLE);
    if table.setting != Setting::Whole {
        out.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    out.set_header(shown.iter().map(|i| head(&table.columns[*i])));
    for row in &table.rows {
        out.add_row(shown.iter().map(|i| {
            let indent = if table.columns[*i].is_indented { "  " } else { "" };
            format!("{indent}{}", cell(&row[*i]))
        }));
    }
    let tight = match table.setting {
        Setting::Tight => true,
        Setting::Fitted => room(table, shown, 3) > width,
        Setting::Whole | Setting::Bare => false,
    };
    for (column, i) in out.column_iter_mut().zip(shown) {
        let right = table.columns[*i].is_right_on_terminals();
        column.set_cell_alignment(if right { CellAlignment::Right } else { CellAlignment::Left });
        if tight {
            column.set_padding((0, 1));
        }
    }
    let lines: String = out.to_string().lines().map(|l| format!("{}\n", l.trim_end())).collect();
    lines + &table.omission().map(|said| format!("{said}\n")).unwrap_or_default()
}

/// Returns a few figures below a sentence, without lines.
fn bare(table: &Table, shown: &[usize]) -> String {
    let heads: Vec<String> = shown.iter().map(|i| head(&table.columns[*i])).collect();
    let cells = |row: &Vec<Cell>| shown.iter().map(|i| painted(&cell(&row[*i]), false)).collect();
    let all: Vec<Vec<String>> = std::iter::once(heads).chain(table.rows.iter().map(cells)).collect();
    let width = |i: usize| all.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(i, c)| {
            let w = width(i);
            match table.columns[shown[i]].is_right_on_terminals() {
                true => format!("{c:>w$}"),
                false => format!("{c:w$}"),
            }
        });
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    all.iter().map(line).collect()
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => inline(text),
        Cell::Level { short, .. } => plain(short),
        // There is no room for decimals.
        Cell::Share(x) if *x > 0.99 && *x < 1.0 => "> 99 %".into(),
        Cell::Share(x) => format!("{:.0} %", 100.0 * x),
        Cell::Verdict { mark: Some(mark), word, limit, grows, expected } => {
            let said = format!("{} {word}{}", mark.sign(), if limit.is_some() { ":" } else { "" });
            let said = if *expected { said } else { coloured(*mark, &said) };
            let limit = limit.as_ref().map(|l| format!(" {}", plain(l))).unwrap_or_default();
            format!("{said}{limit}{}", if *grows { " ↗" } else { "" })
        }
        Cell::Marked { mark, words, .. } => {
            format!("{} {}", coloured(*mark, mark.sign()), plain(words))
        }
        Cell::Verdict { mark: None, .. }
        | Cell::Unknown
        | Cell::Empty
        | Cell::Number(_)
        | Cell::Precise(_)
        | Cell::Count(_)
        | Cell::Below(_)
        | Cell::Figure { .. } => plain(&cell.words()),
    }
}

#[cfg(test)]
mod tests;
