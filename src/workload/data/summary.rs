//! What a data set holds, for reports.

use crate::units::thousands;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// Bad rows that are kept to be shown; all are counted.
pub(super) const SHOWN: usize = 5;

/// A row that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[error("{}{}: {}{reason}", .file.display(), self.place(), self.prefix())]
pub struct BadRow {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// Byte in the line, from 1; of mistakes in the syntax.
    pub column: Option<u64>,
    /// Its number in a JSON array, from 1.
    pub element: Option<u64>,
    /// The field; of mistakes in what a row says.
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
}

impl BadRow {
    fn place(&self) -> String {
        let element = self.element.map(|n| format!(", element {n}")).unwrap_or_default();
        let column = self.column.map(|n| format!(", column {n}")).unwrap_or_default();
        format!("{element}, line {}{column}", self.line)
    }

    fn prefix(&self) -> String {
        self.field.as_ref().map(|f| format!("`{f}` ")).unwrap_or_default()
    }
}

/// What a data set holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Rows in the files.
    pub rows: u64,
    /// Rows that cannot be read.
    pub bad: u64,
    /// The first of them.
    pub bad_rows: Vec<BadRow>,
    /// Sound rows without anything to send: conversations without a question and an answer.
    pub nothing: u64,
    /// Conversations (of one row or several) left out for their length.
    pub filtered: u64,
    /// Samples: prompts or conversations that can be sent.
    pub samples: u64,
    /// Turns of all samples: requests of one round.
    pub turns: u64,
    /// Turns of the longest conversation.
    pub turns_max: u64,
    /// Whether tokens were counted with a tokenizer; else they are estimated from characters.
    pub exact: bool,
    /// Input tokens of a request, the recorded conversation before it included.
    pub input: Lengths,
    /// Output tokens, of the turns whose length the data gives.
    pub output: Lengths,
    /// Turns whose length is the plan's.
    pub output_from_plan: u64,
    /// File and line of the longest prompt.
    pub longest: Option<(PathBuf, u64)>,
}

impl Summary {
    /// Turns of a conversation on average.
    pub fn turns_mean(&self) -> f64 {
        self.turns as f64 / self.samples.max(1) as f64
    }
}

/// How long prompts or answers are, in tokens; all zero where there are none.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Lengths {
    /// How many.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// The percentiles, each exact to three figures.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// Counts for a chart: two bins to each doubling.
    pub bins: Vec<Bin>,
}

/// So many lengths from `from` to below `to`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Bin {
    /// The least.
    pub from: f64,
    /// Above the largest.
    pub to: f64,
    /// How many.
    pub n: u64,
}

impl Lengths {
    pub(super) fn of(h: &Histogram<u64>) -> Self {
        if h.is_empty() {
            return Self::default();
        }
        let mut bins: Vec<Bin> = Vec::new();
        for value in h.iter_recorded() {
            let (x, n) = (value.value_iterated_to() as f64, value.count_since_last_iteration());
            let from = (2.0 * x.log2()).floor();
            let (from, to) = ((from / 2.0).exp2(), ((from + 1.0) / 2.0).exp2());
            match bins.last_mut() {
                Some(bin) if x < bin.to => bin.n += n,
                _ => bins.push(Bin { from, to, n }),
            }
        }
        Self {
            n: h.len(),
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            max: h.max(),
            bins,
        }
    }
}

impl fmt::Display for Lengths {
    /// `mean 212, p50 180, p90 402, p99 811, max 1,024`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, p50, p90, p99, max] =
            [self.mean.round() as u64, self.p50, self.p90, self.p99, self.max].map(|n| thousands(n as f64));
        write!(f, "mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}")
    }
}

impl fmt::Display for Summary {
    /// Two to four lines: what is left out, turns, lengths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples of {} rows", thousands(self.samples as f64), thousands(self.rows as f64))?;
        for (n, what) in [
            (self.bad, "bad"),
            (self.nothing, "without a question and an answer"),
            (self.filtered, "outside of the length limits"),
        ] {
            if n > 0 {
                write!(f, ", {} {what}", thousands(n as f64))?;
            }
        }
        if self.turns_max > 1 {
            write!(f, "\nturns: mean {:.1}, max {}", self.turns_mean(), thousands(self.turns_max as f64))?;
        }
        let how = if self.exact { "" } else { " (estimated)" };
        write!(f, "\ninput tokens{how}: {}", self.input)?;
        if self.output.n > 0 {
            write!(f, "\noutput tokens{how}: {}", self.output)?;
        }
        if self.output_from_plan > 0 {
            write!(f, "\noutput tokens of {} turns from the plan", thousands(self.output_from_plan as f64))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_a_histogram() {
        let mut h = Histogram::<u64>::new(3).unwrap();
        for n in 1..=100 {
            h.record(n).unwrap();
        }
        let l = Lengths::of(&h);
        assert_eq!(l.to_string(), "mean 51, p50 50, p90 90, p99 99, max 100");
        assert_eq!(l.bins.iter().map(|b| b.n).sum::<u64>(), 100);
        assert!(l.bins.windows(2).all(|w| w[0].to <= w[1].from + 1e-9));
        assert!(l.bins.iter().all(|b| (b.to / b.from - std::f64::consts::SQRT_2).abs() < 1e-9));
        assert_eq!(Lengths::of(&Histogram::new(3).unwrap()), Lengths::default());
    }
}
