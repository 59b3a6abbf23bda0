//! Gates on how much a figure may change, such as `--gate 'goodput >= -5%'`.
//!
//! A gate limits the change from the baseline. It **fails** if the whole 95 % interval of the change lies beyond the
//! threshold: the change exceeds both the threshold and the noise. It **holds** if the change lies within the
//! threshold and has an interval. It is **undecided** if the change lies beyond the threshold but its interval
//! reaches within, if its noise is unknown or there is nothing to compare, or if the two levels
//! are not quite equal and the figure could not be carried from one to the other.
//! A true change within the threshold therefore fails a gate in about one comparison of forty; `docs/compare.md` has
//! the measured rates by server and figure.

mod parse;

use super::lost_turns::LostTurns;
use super::noise::{Basis, Beyond, Change, Infinite};
use super::{Column, ComparedFigure, Comparison, Scope};
use goodput_core::level::Control;
use goodput_core::units::short;
use serde::Serialize;

/// Direction in which the threshold bounds the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
}

/// The levels that a gate names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    /// `@20`: one level.
    Level(f64),
    /// `@pooled`: all equal levels pooled, for sides that were measured in turns.
    Pooled,
}

/// The threshold of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Threshold {
    /// Share of the baseline: −0.05.
    Share(f64),
    /// Absolute change in the unit of the column: milliseconds, requests per second, a share.
    Absolute(f64),
}

/// A parsed gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    text: String,
    column: Column,
    /// The level, if the gate names one.
    at: Option<At>,
    bound: Bound,
    threshold: Threshold,
}

/// The result of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateResult {
    /// The change is within the threshold.
    Holds,
    /// The data does not decide.
    Undecided,
    /// The change exceeds the threshold and the noise.
    Fails,
}

/// The result of a gate for one figure of one side. Not all of it is part of this type's JSON: the report writes the
/// reason in English.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Outcome {
    /// The gate as written.
    pub gate: String,
    /// Name of the row that was checked, or of the column if there is no row.
    pub row: String,
    /// Label of the side.
    pub side: String,
    /// Result of the gate.
    #[serde(rename = "held")]
    pub result: GateResult,
    /// Reason for the result.
    #[serde(skip)]
    pub reason: GateReason,
}

/// The reason for the result of a gate.
#[derive(Debug, Clone, PartialEq)]
pub enum GateReason {
    /// Too little was measured to pool all levels.
    TooLittlePooled(Column),
    /// Levels are pooled only for sides that were measured in turns.
    NotInTurns,
    /// No level was compared at all, in particular not this one.
    NoLevels(f64),
    /// The level of the gate was not compared.
    LevelNotCompared {
        /// The figure of the gate.
        column: Column,
        /// The level of the gate.
        level: f64,
        /// The levels that were compared.
        compared: Vec<f64>,
    },
    /// The sides have no level in common.
    NoCommonLevel,
    /// Neither side has the figure.
    NoFigure(Column),
    /// The side could not sustain a level that the baseline could.
    LostTurns(LostTurns),
    /// The side has no goodput, and so no figure that follows from it.
    NoGoodput,
    /// The levels of the two sides are not quite equal.
    LevelsDiffer {
        /// Level of the side.
        level: f64,
        /// Level of the baseline.
        baseline: f64,
        /// Kind of level.
        control: Option<Control>,
    },
    /// The percentile changed to or from that of failed requests.
    Infinite(Infinite),
    /// One side has no value.
    UnknownValue,
    /// The change.
    Change {
        /// True if the change is a share of the baseline, false if it is in the unit of the column.
        is_share: bool,
        /// The change; `None` if only its interval is known.
        value: Option<f64>,
        /// 95 % interval of the change; `None` if the noise is unknown.
        interval: Option<[f64; 2]>,
    },
}

impl Gate {
    /// Evaluates the gate in a comparison: one outcome for each row and side that it applies to.
    pub fn judge(&self, c: &Comparison) -> Vec<Outcome> {
        let rows = self.rows(c);
        let others = c.sides.iter().skip(1).enumerate();
        let mut out = self.not_taken(c);
        if rows.is_empty() && !out.is_empty() {
            return out;
        }
        for (i, side) in others {
            if rows.is_empty() {
                let missing = (GateResult::Undecided, self.missing(c));
                out.push(self.outcome(self.column.name(), &side.label, missing));
            }
            for row in &rows {
                let judged = self.none_left(c, row, i).unwrap_or_else(|| self.judge_row(row, i));
                out.push(self.outcome(row.name.clone(), &side.label, judged));
            }
        }
        out
    }

    fn outcome(&self, row: String, side: &str, (result, reason): (GateResult, GateReason)) -> Outcome {
        Outcome { gate: self.text.clone(), row, side: side.to_owned(), result, reason }
    }

    /// Returns the rows that the gate applies to. For sides measured in turns this is the pooled row if it has the
    /// change, else every matching row.
    fn rows<'c>(&self, c: &'c Comparison) -> Vec<&'c ComparedFigure> {
        let answers = |change: &Change| {
            let told = match self.threshold {
                Threshold::Share(_) => change.share,
                Threshold::Absolute(_) => change.absolute,
            };
            told.is_some() || change.infinite.is_some()
        };
        let pooled = |r: &&ComparedFigure| {
            r.column == self.column && r.place == Scope::Pooled && r.changes.iter().any(answers)
        };
        match (self.at, c.rows.iter().find(pooled)) {
            (None, Some(row)) => vec![row],
            _ => c.rows.iter().filter(|r| self.is_about(r)).collect(),
        }
    }

    /// Returns a failure for each level that the baseline could sustain and a side could not: the remaining figures
    /// at such a level prove nothing.
    fn not_taken(&self, c: &Comparison) -> Vec<Outcome> {
        let at_levels = matches!(self.column, Column::Latency(..))
            || matches!(self.column, Column::Attainment | Column::Failures | Column::AchievedRate)
            || (self.at.is_some() && Column::LEVEL.contains(&self.column));
        if !at_levels || self.towards() != Some(self.bound) {
            return Vec::new();
        }
        let named = |level: f64| match self.at {
            Some(At::Level(at)) => super::same(at, level),
            Some(At::Pooled) | None => true,
        };
        let worse = c.lost.iter().filter(|l| l.worse() == Some(true) && named(l.level.value));
        worse
            .map(|l| {
                let row = format!("{}@{}", self.column.name(), short(l.level.value));
                self.outcome(row, &l.side, (GateResult::Fails, GateReason::LostTurns(l.clone())))
            })
            .collect()
    }

    fn is_about(&self, row: &ComparedFigure) -> bool {
        let both = Column::LEVEL.contains(&self.column) && Column::WHOLE.contains(&self.column);
        row.column == self.column
            && match (self.at, row.place) {
                (Some(At::Level(at)), Scope::At(level)) => super::same(at, level.value),
                (Some(At::Pooled), Scope::Pooled) => true,
                (Some(_), _) | (None, Scope::Pooled) => false,
                (None, Scope::Whole) => true,
                // For a figure that exists both for the run and at its levels, a gate without a level means the run.
                (None, Scope::At(_)) => !both,
            }
    }

    /// Returns the reason why no row matches.
    fn missing(&self, c: &Comparison) -> GateReason {
        let compared: Vec<f64> = c.levels.iter().map(|l| l.level.value).collect();
        let column = self.column;
        match self.at {
            Some(At::Pooled) if c.alternating => GateReason::TooLittlePooled(column),
            Some(At::Pooled) => GateReason::NotInTurns,
            Some(At::Level(level)) if compared.is_empty() => GateReason::NoLevels(level),
            Some(At::Level(level)) => GateReason::LevelNotCompared { column, level, compared },
            None if matches!(column, Column::Latency(..)) && compared.is_empty() => GateReason::NoCommonLevel,
            None => GateReason::NoFigure(column),
        }
    }

    /// Fails a gate on a figure derived from the goodput if the side has significantly no goodput: then it has no
    /// safe rate, and no cost would be low enough.
    fn none_left(
        &self,
        c: &Comparison,
        row: &ComparedFigure,
        other: usize,
    ) -> Option<(GateResult, GateReason)> {
        let follows = matches!(
            self.column,
            Column::SafeRate
                | Column::OutputTokens
                | Column::Items
                | Column::CostPerMtok
                | Column::CostPer1000Items
        );
        let gone = row.values[0].is_some() && row.values[other + 1].is_none();
        if !follows || row.place != Scope::Whole || !gone || self.towards() != Some(self.bound) {
            return None;
        }
        let goodput = c.rows.iter().find(|r| r.column == Column::Goodput && r.place == Scope::Whole)?;
        let none = goodput.values[other + 1] == Some(0.0) && goodput.changes[other].beyond == Beyond::Yes;
        none.then_some((GateResult::Fails, GateReason::NoGoodput))
    }

    /// Returns the bound that protects the column from getting worse.
    fn towards(&self) -> Option<Bound> {
        self.column.more_is_better().map(|up| if up { Bound::AtLeast } else { Bound::AtMost })
    }

    /// Judges a row for the side with index `other + 1`.
    fn judge_row(&self, row: &ComparedFigure, other: usize) -> (GateResult, GateReason) {
        let change = &row.changes[other];
        match change.apart {
            Some([baseline, level]) => {
                let control = if let Scope::At(level) = row.place { Some(level.control) } else { None };
                (GateResult::Undecided, GateReason::LevelsDiffer { level, baseline, control })
            }
            None => self.judge_change(change),
        }
    }

    fn judge_change(&self, change: &Change) -> (GateResult, GateReason) {
        let (value, interval, t) = match self.threshold {
            Threshold::Share(t) => (change.share, change.interval, t),
            Threshold::Absolute(t) => (change.absolute, change.absolute_interval, t),
        };
        let is_share = matches!(self.threshold, Threshold::Share(_));
        if let Some(infinite) = change.infinite.filter(|_| change.beyond == Beyond::Yes) {
            return (self.judge_infinite(infinite), GateReason::Infinite(infinite));
        }
        let value = value.filter(|v| !self.is_against_a_bound(change, *v, interval));
        // A baseline of zero has no relative changes, but its interval may have infinite ends.
        let open = interval.map(|[low, high]| if self.bound == Bound::AtLeast { low } else { high });
        let (Some(judged), Some([low, high])) = (value.or(open), interval) else {
            let unknown = GateReason::UnknownValue;
            let reason = value.map_or(unknown, |_| GateReason::Change { is_share, value, interval: None });
            return (GateResult::Undecided, reason);
        };
        let (within, beyond) = match self.bound {
            Bound::AtLeast => (judged >= t, high < t),
            Bound::AtMost => (judged <= t, low > t),
        };
        let result = match (within, beyond) {
            (true, _) => GateResult::Holds,
            (false, true) => GateResult::Fails,
            (false, false) => GateResult::Undecided,
        };
        let value = value.filter(|value| value.is_finite());
        (result, GateReason::Change { is_share, value, interval })
    }
}

impl Gate {
    /// Returns true if the baseline is only a bound (a lower one; for costs an upper one). Against a bound only the
    /// ends of a change are known, unless the other value is a bound of the same kind and no worse.
    fn is_against_a_bound(&self, change: &Change, value: f64, interval: Option<[f64; 2]>) -> bool {
        let Some([low, high]) = interval.filter(|_| change.basis == Basis::Brackets) else { return false };
        let without_low = low.is_infinite() || matches!(self.threshold, Threshold::Share(_)) && low <= -1.0;
        match self.bound {
            Bound::AtLeast => without_low && !(high.is_infinite() && value >= 0.0),
            Bound::AtMost => high.is_infinite() && !(without_low && value <= 0.0),
        }
    }

    /// Judges a significant change to or from infinity, which exceeds any threshold in one direction.
    const fn judge_infinite(&self, infinite: Infinite) -> GateResult {
        match (infinite, self.bound) {
            (Infinite::New, Bound::AtMost) | (Infinite::Old, Bound::AtLeast) => GateResult::Fails,
            (Infinite::New, Bound::AtLeast) | (Infinite::Old, Bound::AtMost) => GateResult::Holds,
        }
    }
}

/// Returns the overall result: fails before undecided before holds.
pub fn overall(outcomes: &[Outcome]) -> GateResult {
    outcomes.iter().map(|o| o.result).max().unwrap_or(GateResult::Holds)
}

#[cfg(test)]
mod tests;
