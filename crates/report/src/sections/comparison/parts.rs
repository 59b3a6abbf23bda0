//! The rows of a comparison as shown, and which changes exceed noise.

use crate::document::{self, Cell, Field, Table};
use crate::words::{figure_title, signed_percent, unsigned_percent};
use goodput_core::units::thousands;
use goodput_run::compare::{Basis, Beyond, Change, Column, ComparedFigure, Comparison, Infinite, Scope};

/// A row as shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShownRow {
    pub(super) title: String,
    /// The value of each side, if it has one.
    pub(super) values: Vec<Option<String>>,
    /// The change of every side but the first, with its comparison to noise.
    pub(super) changes: Vec<(String, Noise)>,
}

/// A part of the table.
pub(super) struct ShownTable {
    pub(super) heading: String,
    pub(super) rows: Vec<ShownRow>,
}

impl ShownTable {
    /// Returns true if several levels are combined: these have a change, and no value.
    pub(super) fn is_pooled(&self) -> bool {
        self.rows.iter().all(|r| r.values.iter().all(Option::is_none))
    }

    /// Returns the value of each side, and the changes from the first; the rows are named in the column `title`.
    pub(super) fn table(
        &self,
        c: &Comparison,
        title: document::Column,
        change: fn(&str, Noise) -> Cell,
    ) -> Table {
        let mut fields = vec![Field::new(title, |r: &ShownRow| Cell::text(r.title.as_str()))];
        if !self.is_pooled() {
            fields.extend(c.sides.iter().enumerate().map(|(i, s)| {
                Field::new(document::Column::number(s.label.as_str()), move |r: &ShownRow| {
                    r.values[i].as_ref().map_or(Cell::Unknown, |v| Cell::figure(v.as_str(), None))
                })
            }));
        }
        for (i, side) in c.sides.iter().skip(1).enumerate() {
            let whose = if c.sides.len() > 2 { format!(", {}", side.label) } else { String::new() };
            let head = document::Column::number(format!("change{whose}"));
            fields.push(Field::new(head, move |r: &ShownRow| change(&r.changes[i].0, r.changes[i].1)));
            fields.push(Field::new(document::Column::number("beyond noise"), move |r: &ShownRow| {
                Cell::text(r.changes[i].1.words())
            }));
        }
        Table::of(fields, &self.rows)
    }
}

/// Returns the parts of the table.
pub(super) fn parts(c: &Comparison) -> Vec<ShownTable> {
    let whole: Vec<&ComparedFigure> = c.rows.iter().filter(|r| r.place == Scope::Whole).collect();
    let pooled: Vec<&ComparedFigure> = c.rows.iter().filter(|r| r.place == Scope::Pooled).collect();
    // Listed rates were not searched: each run states its bracket instead.
    let whole = if c.alternating { Vec::new() } else { whole };
    let mut out = vec![("The run as a whole".to_owned(), whole)];
    let n = c.levels.len();
    out.push((if n == 1 { "All turns".to_owned() } else { format!("Over all {n} rates, in turns") }, pooled));
    for level in &c.levels {
        let own = |r: &&ComparedFigure| matches!(r.place, Scope::At(l) if l == level.level);
        let requests: Vec<String> = level.requests.iter().map(|n| thousands(*n as f64)).collect();
        let heading = format!("At {} ({} requests)", level.level, requests.join(" / "));
        out.push((heading, c.rows.iter().filter(own).collect()));
    }
    // A row of zero failures is omitted.
    let none_failed =
        |r: &ComparedFigure| r.column == Column::Failures && r.values.iter().all(|v| *v == Some(0.0));
    let part = |(heading, rows): (String, Vec<&ComparedFigure>)| {
        let rows = rows.into_iter().filter(|r| !none_failed(r)).map(|r| shown(r, c.sides.len()));
        ShownTable { heading, rows: rows.collect() }
    };
    out.into_iter().filter(|(_, rows)| !rows.is_empty()).map(part).collect()
}

fn shown(row: &ComparedFigure, sides: usize) -> ShownRow {
    let unit = match row.column {
        c if c.is_share() => "%",
        _ => row.unit.as_str(),
    };
    let title = figure_title(row.column);
    let title = if unit.is_empty() { title } else { format!("{title}, {unit}") };
    let values = (0..sides).map(|i| value(row, i)).collect();
    let changes = row.changes.iter().map(|c| (change(row.column, c), Noise::of(c))).collect();
    ShownRow { title, values, changes }
}

fn value(row: &ComparedFigure, side: usize) -> Option<String> {
    let text = |x: f64| figure(row.column, x);
    let value = row.values[side]?;
    Some(match row.intervals[side] {
        Some([low, high]) => format!("{} [{}, {}]", text(value), text(low), text(high)),
        None => text(value),
    })
}

/// Formats a value with three digits; shares in per cent.
fn figure(column: Column, x: f64) -> String {
    if x.is_infinite() {
        return "∞".to_owned();
    }
    match column {
        c if c.is_share() => {
            let percent = x * 100.0;
            if (99.0..100.0).contains(&percent) { format!("{percent:.2}") } else { format!("{percent:.1}") }
        }
        Column::Preemptions => thousands(x),
        _ if x.abs() >= 1_000.0 => thousands(x),
        _ => crate::words::precise(x),
    }
}

/// Formats a change: `+15 % [12, 18]`; for shares in percentage points.
fn change(column: Column, c: &Change) -> String {
    let points = column.is_share();
    let (value, interval) = if points { (c.absolute, c.absolute_interval) } else { (c.share, c.interval) };
    let Some(value) = value else {
        match (c.infinite, interval) {
            (Some(Infinite::New), _) => return "∞ now".to_owned(),
            (Some(Infinite::Old), _) => return "no longer ∞".to_owned(),
            // An infinite or undefined change: only its interval is shown.
            (None, Some([low, high])) => {
                return format!("[{}, {}]", unsigned_percent(low), unsigned_percent(high));
            }
            (None, None) => {}
        }
        let plain = c.absolute.filter(|_| column == Column::Preemptions);
        return plain
            .map_or("–".to_owned(), |d| format!("{}{}", if d > 0.0 { "+" } else { "" }, thousands(d)));
    };
    let shown = if points { signed_percent(value).replace(" %", " pp") } else { signed_percent(value) };
    let reach = |[low, high]: [f64; 2]| format!(" [{}, {}]", unsigned_percent(low), unsigned_percent(high));
    format!("{shown}{}", interval.map_or(String::new(), reach))
}

/// The comparison of a change with noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noise {
    /// It exceeds noise: the brackets of both sides do not overlap.
    BeyondByBrackets,
    /// It exceeds noise.
    Beyond,
    /// It is within noise.
    Within,
    /// The noise is unknown.
    Unknown,
}

impl Noise {
    const fn of(c: &Change) -> Self {
        match (c.beyond, c.basis) {
            (Beyond::Yes, Basis::Brackets) => Self::BeyondByBrackets,
            (Beyond::Yes, _) => Self::Beyond,
            (Beyond::No, _) => Self::Within,
            (Beyond::Unknown, _) => Self::Unknown,
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::BeyondByBrackets => "yes, brackets apart",
            Self::Beyond => "yes",
            Self::Within => "no",
            Self::Unknown => "?",
        }
    }

    pub(super) const fn is_beyond(self) -> bool {
        matches!(self, Self::BeyondByBrackets | Self::Beyond)
    }
}
