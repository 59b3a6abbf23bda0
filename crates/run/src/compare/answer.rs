//! The answer for each side but the baseline: the finding and the facts behind it.

use super::common_levels::CommonLevel;
use super::lost_turns::LostTurns;
use super::noise::{Beyond, Change, Infinite};
use super::{Column, ComparedFigure, Scope, Side};
use goodput_core::slo::Metric;
use serde::Serialize;

/// The result of comparing a side with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Better in every figure that differs beyond noise.
    Better,
    /// Worse in every figure that differs beyond noise.
    Worse,
    /// Better in some figures, worse in others.
    Mixed,
    /// No figure differs beyond noise.
    Same,
    /// The data does not decide.
    Undecided,
}

/// The answer for one side. Not all of it is part of this type's JSON: the report writes the reason in English.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// Label of the side.
    pub side: String,
    /// Label of the baseline.
    pub against: String,
    /// Result of the comparison.
    pub finding: Finding,
    /// The facts behind the finding.
    #[serde(skip)]
    pub reason: Reason,
}

/// The facts behind a finding.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// The data does not decide.
    Undecided(Undecided),
    /// No difference exceeds noise.
    Same {
        /// Number of levels compared together.
        levels: usize,
        /// Smallest changes that would have been detected, as shares.
        detectable: Vec<(Column, f64)>,
    },
    /// The sides differ.
    Differs(Differences),
}

/// Reason for an undecided answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// The server of the baseline stopped answering.
    BaselineGone,
    /// The goodput has no interval, and the sides have no level in common.
    NoCommonLevel,
    /// Too few pairs of steps were measured in turns.
    FewPairs,
    /// Too few requests were measured at the common levels.
    FewRequests,
    /// One run is compared with two.
    OneRunAgainstTwo,
    /// Too few runs have a rate with an interval.
    FewRuns,
}

/// The differences of a side from the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Differences {
    /// Number of levels compared together.
    pub levels: usize,
    /// True if only finite latencies differ, at levels measured in turns: the side is faster or slower.
    pub only_speed: bool,
    /// The step in which the side's server stopped answering.
    pub server_gone: Option<u32>,
    /// Turns that one side lost significantly more often.
    pub lost: Vec<LostTurns>,
    /// The most significant figures, each once.
    pub named: Vec<NamedChange>,
    /// Number of further differences, which are in the table.
    pub more: usize,
}

/// A figure that an answer names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedChange {
    /// Kind of figure.
    pub column: Column,
    /// Scope of the figure.
    pub scope: Scope,
    /// Change of the figure.
    pub change: Change,
}

/// Maximum number of differences that an answer names.
const MOST_NAMED: usize = 3;

/// The input of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared<'a> {
    /// The compared figures.
    pub(super) rows: &'a [ComparedFigure],
    /// The compared levels.
    pub(super) levels: &'a [CommonLevel<'a>],
    /// Turns that a side could not sustain.
    pub(super) lost: &'a [LostTurns],
    /// True if the sides were measured in turns.
    pub(super) alternating: bool,
}

/// Makes the answer for one side.
pub(super) fn answer(sides: &[Side], side: usize, compared: &Compared<'_>) -> Answer {
    let Compared { rows, levels, lost, alternating } = *compared;
    let (label, against) = (sides[side].label.clone(), sides[0].label.clone());
    let claims: Vec<NamedChange> = rows
        .iter()
        .filter(|r| !alternating || r.place == Scope::Pooled)
        .map(|r| NamedChange { column: r.column, scope: r.place, change: r.changes[side - 1] })
        .filter(|c| c.change.share.is_some() || c.change.absolute.is_some() || c.change.beyond == Beyond::Yes)
        .collect();
    // Turns that one side could not sustain rule out the finding "same".
    let lost: Vec<LostTurns> =
        lost.iter().filter(|l| l.side == label && l.worse().is_some()).cloned().collect();
    let mut found: Vec<NamedChange> = claims
        .iter()
        .filter(|c| c.is_better().is_some() && c.change.beyond == Beyond::Yes)
        .copied()
        .collect();
    found.sort_by(|a, b| a.rank().total_cmp(&b.rank()));
    let known = claims.iter().any(|c| c.change.beyond != Beyond::Unknown);
    let any = |better: bool| {
        found.iter().any(|c| c.is_better() == Some(better)) || lost.iter().any(|l| l.worse() == Some(!better))
    };
    let finding = match (any(true), any(false), known) {
        (true, true, _) => Finding::Mixed,
        (true, false, _) => Finding::Better,
        (false, true, _) => Finding::Worse,
        (false, false, true) => Finding::Same,
        (false, false, false) => Finding::Undecided,
    };
    let gone = [&sides[0], &sides[side]].map(Side::gone);
    let finding = match gone {
        [Some(_), _] => Finding::Undecided,
        [None, Some(_)] if finding == Finding::Mixed || any(true) => Finding::Mixed,
        [None, Some(_)] => Finding::Worse,
        [None, None] => finding,
    };
    // This is a maximum: a figure known at fewer levels says so itself.
    let over = claims.iter().filter_map(|c| c.change.levels).max().unwrap_or(0);
    let reason = match finding {
        Finding::Undecided if gone[0].is_some() => Reason::Undecided(Undecided::BaselineGone),
        Finding::Undecided if levels.is_empty() => Reason::Undecided(Undecided::NoCommonLevel),
        Finding::Undecided if alternating => Reason::Undecided(Undecided::FewPairs),
        Finding::Undecided => Reason::Undecided(Undecided::FewRequests),
        Finding::Same => Reason::Same { levels: over, detectable: detectable(&claims) },
        Finding::Better | Finding::Worse | Finding::Mixed => {
            let is_speed =
                |c: &NamedChange| matches!(c.column, Column::Latency(..)) && c.change.infinite.is_none();
            let only_speed =
                alternating && gone[1].is_none() && lost.is_empty() && found.iter().all(is_speed);
            let (named, more) = named(found);
            Reason::Differs(Differences { levels: over, only_speed, server_gone: gone[1], lost, named, more })
        }
    };
    Answer { side: label, against, finding, reason }
}

/// Picks the changes to name: of each figure the most significant level. Returns the number of others, too.
fn named(mut found: Vec<NamedChange>) -> (Vec<NamedChange>, usize) {
    let all = found.len();
    let mut seen = Vec::new();
    found.retain(|c| {
        let new = !seen.contains(&c.column);
        seen.push(c.column);
        new
    });
    found.truncate(MOST_NAMED);
    let more = all - found.len();
    (found, more)
}

impl NamedChange {
    /// Returns true if the change is an improvement; `None` if the direction is unknown or has no better end.
    fn is_better(&self) -> Option<bool> {
        let up = match (self.change.infinite, self.change.share.or(self.change.absolute)) {
            (Some(infinite), _) => infinite == Infinite::New,
            (None, Some(d)) => d > 0.0,
            (None, None) => return None,
        };
        Some(self.column.more_is_better()? == up)
    }

    /// Returns the sort key: goodput first, then failures and infinite percentiles, then by p-value; other whole-run
    /// figures last.
    fn rank(&self) -> f64 {
        match (self.column, self.scope) {
            (Column::Goodput, _) => -2.0,
            // Failed requests come before late ones.
            (Column::Failures, Scope::Pooled) => -1.0,
            _ if self.change.infinite.is_some() => -0.5,
            (_, Scope::Whole) => 2.0,
            _ => self.change.p.unwrap_or(0.0),
        }
    }
}

/// Returns the smallest detectable changes of goodput, median and tail latencies.
fn detectable(claims: &[NamedChange]) -> Vec<(Column, f64)> {
    let wanted = [
        Column::Goodput,
        Column::Latency(Metric::Ttft, 500),
        Column::Latency(Metric::Ttft, 990),
        Column::Latency(Metric::Tpot, 500),
    ];
    let of = |column: Column| {
        let own = claims.iter().filter(|c| c.column == column);
        let best = own.filter_map(|c| c.change.detectable).min_by(f64::total_cmp)?;
        // A detectable change of tenfold or more is not informative.
        Some((column, best)).filter(|(_, share)| *share < 9.0)
    };
    wanted.into_iter().filter_map(of).collect()
}
