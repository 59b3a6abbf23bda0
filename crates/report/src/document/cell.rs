//! Typed cells of tables.

use super::text::Text;
use crate::words::units::{figure, percent, precise, thousands};

/// The sign of an unknown cell.
pub(crate) const UNKNOWN: &str = "–";

/// A sign before a verdict or a status. A word always follows, so that nothing depends on colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It meets, holds or is accepted.
    Good,
    /// It fails or is rejected.
    Bad,
    /// It is undecided.
    Open,
    /// It is invalid.
    Invalid,
}

impl Mark {
    /// Returns the sign.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Good => "●",
            Self::Bad => "✕",
            Self::Open => "○",
            Self::Invalid => "△",
        }
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Unknown.
    Unknown,
    /// Nothing to show.
    Empty,
    /// Words.
    Text(Text),
    /// A measured number, three significant figures.
    Number(f64),
    /// A number that others are derived from, four significant figures.
    Precise(f64),
    /// A whole number.
    Count(f64),
    /// A share of one, shown in per cent.
    Share(f64),
    /// A number below this whole number.
    Below(u32),
    /// The level of a step.
    Level {
        /// Sort key: 0 for the unloaded server.
        value: f64,
        /// The level with its unit, and its series if there are several.
        full: String,
        /// The bare number, for a column whose head has the unit.
        short: String,
    },
    /// The verdict of a step.
    Verdict {
        /// Its sign; none if the step was not measured for a verdict.
        mark: Option<Mark>,
        /// Its word.
        word: &'static str,
        /// The limit that decided, if that is new information.
        limit: Option<String>,
        /// True if the backlog grows.
        grows: bool,
        /// True for an expected verdict, such as an undecided step of a ramp: it has no colour on a terminal.
        expected: bool,
    },
    /// A sign with words.
    Marked {
        /// The sign.
        mark: Mark,
        /// The words.
        words: String,
        /// Sort key, if any.
        value: Option<f64>,
    },
    /// A figure in words: with a unit, a bound or a second figure.
    Figure {
        /// The text shown.
        text: String,
        /// Sort key, if any.
        value: Option<f64>,
        /// True if it is the key figure of its row.
        strong: bool,
    },
}

impl Cell {
    /// Returns a cell of words.
    pub(crate) fn text(words: impl Into<Text>) -> Self {
        Self::Text(words.into())
    }

    /// Returns a cell of words; unknown if they are empty.
    pub(crate) fn known(words: String) -> Self {
        if words.is_empty() { Self::Unknown } else { Self::text(words) }
    }

    /// Returns a measured number; unknown if there is none.
    pub(crate) fn number(x: Option<f64>) -> Self {
        x.filter(|x| x.is_finite()).map_or(Self::Unknown, Self::Number)
    }

    /// Returns a whole number; unknown if there is none.
    pub(crate) fn count(x: Option<f64>) -> Self {
        x.map_or(Self::Unknown, Self::Count)
    }

    /// Returns a share; unknown if there is none.
    pub(crate) fn share(x: Option<f64>) -> Self {
        x.map_or(Self::Unknown, Self::Share)
    }

    /// Returns a figure in words, sorted by `value`.
    pub(crate) fn figure(text: impl Into<String>, value: Option<f64>) -> Self {
        Self::Figure { text: text.into(), value, strong: false }
    }

    /// Returns a figure in words that is the key figure of its row.
    pub(crate) fn strong(text: impl Into<String>) -> Self {
        Self::Figure { text: text.into(), value: None, strong: true }
    }

    /// Returns a sign with words.
    pub(crate) fn marked(mark: Mark, words: impl Into<String>) -> Self {
        Self::Marked { mark, words: words.into(), value: None }
    }

    /// Returns the sort key.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Number(x) | Self::Precise(x) | Self::Count(x) => Some(*x),
            Self::Share(x) => Some(100.0 * x),
            Self::Below(x) => Some(f64::from(*x)),
            Self::Level { value, .. } => Some(*value),
            Self::Marked { value, .. } | Self::Figure { value, .. } => *value,
            Self::Unknown | Self::Empty | Self::Text(_) | Self::Verdict { .. } => None,
        }
    }

    /// Returns the sign that the cell begins with.
    pub(crate) const fn mark(&self) -> Option<Mark> {
        match self {
            Self::Verdict { mark, .. } => *mark,
            Self::Marked { mark, .. } => Some(*mark),
            _ => None,
        }
    }

    /// Returns the cell as a page shows it, unescaped.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Unknown => UNKNOWN.into(),
            Self::Empty => String::new(),
            Self::Text(text) => text.words(),
            Self::Number(x) => figure(*x),
            Self::Precise(x) => precise(*x),
            Self::Count(x) => thousands(*x),
            Self::Share(x) => percent(*x),
            Self::Below(x) => format!("< {x}"),
            Self::Level { full, .. } => full.clone(),
            Self::Verdict { mark, word, grows, .. } => {
                let grows = if *grows { " ↗" } else { "" };
                match mark {
                    Some(mark) => format!("{} {word}{grows}", mark.sign()),
                    None => format!("{word}{grows}"),
                }
            }
            Self::Marked { mark, words, .. } => format!("{} {words}", mark.sign()),
            Self::Figure { text, .. } => text.clone(),
        }
    }
}
