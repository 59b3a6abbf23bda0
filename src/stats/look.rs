//! A look at a step while it runs: is it decided, or hopeless, so that its time is better spent elsewhere?

use super::limits::{Counted, counts};
use super::steady::{Window, stable};
use super::step::Verdict;
use super::summary::StepInput;
use super::verdict::{error_per_look, foreseen};
use crate::level::Control;
use crate::record::Record;

/// What a look says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Every tier is shown to be met, or one of its limits to be missed, however the open requests end; or the backlog grows.
    Decided,
    /// Not even the whole window is likely to decide it.
    Futile,
    /// More requests may decide.
    GoOn,
}

/// Looks at what is known of a step when `share` of its window, above 0, is over; the input's window is what is over of it.
/// The input's `looks` share its error, so a look costs what was planned for it and no more.
pub fn look(input: &StepInput<'_>, share: f64) -> Look {
    let rows = counts(input);
    let error = error_per_look(input.confidence, input.looks);
    let tiers = input.tiers.iter().map(|slo| {
        let own: Vec<&Counted> = rows.iter().filter(|c| c.row.tier == slo.tier()).collect();
        tier(&own, |c| at_the_end(c, (c.row.n + input.open) as f64 / share, error))
    });
    let looks: Vec<Look> = tiers.collect();
    match () {
        () if unstable(input) => Look::Decided,
        () if looks.contains(&Look::GoOn) => Look::GoOn,
        // A tier that is decided has had its look: only where all are hopeless may one end at any time.
        () if looks.contains(&Look::Decided) => Look::Decided,
        () => Look::Futile,
    }
}

/// Whether the backlog grows, by the requests that were due so long ago that they are all home.
fn unstable(input: &StepInput<'_>) -> bool {
    if input.level.control != Control::Rate {
        return false;
    }
    let waited = |r: &Record| r.first_token.unwrap_or(r.end).saturating_sub(r.due);
    let longest = input.records.iter().map(waited).max().unwrap_or_default();
    let window = Window::new(input.settle, input.measure.saturating_sub(longest));
    let home: Vec<Record> =
        input.records.iter().filter(|r| r.due.as_secs_f64() < window.to).cloned().collect();
    stable(&home, window) == Some(false)
}

/// The verdict that a row can still have at the end, of `whole` requests: with as many misses to come as its own share less a
/// standard error, so that a step is not given up for a little bad luck.
fn at_the_end(c: &Counted, whole: f64, error: f64) -> Verdict {
    let told = c.row.n.saturating_sub(c.row.censored).max(1) as f64;
    let misses = c.row.misses as f64;
    let share = misses / told;
    let likely = foreseen(share * whole, whole, c.p0, error, c.inflation);
    let lucky = (share - (c.inflation * share / told).sqrt()).max(0.0);
    match likely {
        Verdict::Undecided => foreseen(misses + lucky * (whole - told), whole, c.p0, error, c.inflation),
        decided => decided,
    }
}

/// The look at one tier; `at_the_end` is the verdict that a row would have after the whole window.
fn tier(rows: &[&Counted], at_the_end: impl Fn(&Counted) -> Verdict) -> Look {
    let shown = |v: Verdict| move |c: &&Counted| c.row.verdict == v;
    if rows.iter().any(|c| shown(Verdict::Fails)(c)) || rows.iter().all(|c| shown(Verdict::Meets)(c)) {
        return Look::Decided;
    }
    // A limit that nothing can be counted for stays undecided; the others are what more time is for.
    let open = || rows.iter().filter(|c| c.row.verdict != Verdict::Meets && c.row.n > 0);
    let fails = open().any(|c| at_the_end(c) == Verdict::Fails);
    let hopeless = open().any(|c| at_the_end(c) == Verdict::Undecided);
    if hopeless && !fails { Look::Futile } else { Look::GoOn }
}
