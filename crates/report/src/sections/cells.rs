//! Cells shared by many tables: number, level, verdict and latencies of a step.

use crate::document::{Cell, Column, Field, Mark, Table, UNKNOWN};
use crate::escape::clip;
use crate::words;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::{Basis, Status};
use goodput_stats::stats::step::{Step, StepKind, Verdict};

/// Returns a latency of a step in milliseconds. Unknown if the backlog grows: the latency then depends on the length of
/// the step.
pub(super) fn latency(s: &Step, ms: Option<f64>) -> Cell {
    Cell::number(ms.filter(|_| s.stable != Some(false)))
}

/// Returns a value of a metric, from milliseconds, as [`latency`]: a ratio as such.
pub(super) fn value_of(s: &Step, metric: Metric, ms: Option<f64>) -> Cell {
    latency(s, ms.map(|ms| if metric.is_ratio() { ms / 1e3 } else { ms }))
}

/// Returns the number of a step, which identifies it: several steps may have one level.
pub(super) fn number(s: &Step) -> Cell {
    Cell::figure(s.step.to_string(), Some(f64::from(s.step)))
}

/// Returns the level of a step, with its series if there are several.
pub(super) fn level(run: &Run, s: &Step) -> Cell {
    let several = run.steps.iter().any(|other| other.series != s.series);
    let series = if several { format!("{}: ", clip(&s.series, 40)) } else { String::new() };
    level_of(s, &series)
}

/// Returns the level of a step without its series.
pub(super) fn bare_level(s: &Step) -> Cell {
    level_of(s, "")
}

fn level_of(s: &Step, series: &str) -> Cell {
    let short = match s.kind {
        StepKind::Baseline => "unloaded".to_owned(),
        StepKind::Peak => "full".to_owned(),
        StepKind::List
        | StepKind::Burst
        | StepKind::Ramp
        | StepKind::Refine
        | StepKind::Hold
        | StepKind::Confirm
        | StepKind::Recovery
        | StepKind::Profile => words::level_number(s.level.value),
    };
    let value = if s.kind == StepKind::Baseline { 0.0 } else { s.level.value };
    Cell::Level { value, full: format!("{series}{}", words::step_level(s)), short }
}

/// Returns the first columns of a table of steps: the number of each, and its level in `column`.
pub(super) fn of_step<'s>(run: &'s Run, column: Column) -> [Field<'s, &'s Step>; 2] {
    [
        Field::new(Column::step_number().wide(2), |s: &&Step| number(s)),
        Field::new(column, |s: &&Step| level(run, s)),
    ]
}

/// Returns a sortable table of these steps: number and level, then `fields`.
pub(super) fn step_table<'s>(run: &'s Run, steps: &[&'s Step], fields: Vec<Field<'s, &'s Step>>) -> Table {
    let mut all: Vec<Field<'s, &'s Step>> = of_step(run, Column::level()).into();
    all.extend(fields);
    Table::of(all, steps).sorted_by_readers(1)
}

/// Returns the mark of a verdict.
pub(super) const fn mark(v: Verdict) -> Mark {
    match v {
        Verdict::Meets => Mark::Good,
        Verdict::Fails => Mark::Bad,
        Verdict::Undecided => Mark::Open,
        Verdict::Invalid => Mark::Invalid,
    }
}

/// Returns the verdict of a step as the answer of its series sees it: one with too few requests to tell by itself meets where its level is
/// not above the safe rate, and fails from the upper end of the interval on, by the curve fitted to all steps. Else as [`verdict`].
pub(super) fn verdict_by_fit(run: &Run, s: &Step) -> Cell {
    let answer = run.answers.iter().find(|a| a.series == s.series && a.control == s.level.control);
    let fitted = answer.filter(|a| a.goodput.basis != Basis::Bracket && a.goodput.status() == Status::Found);
    let ends = fitted.and_then(|a| Some((a.goodput.safe_rate()?, a.goodput.interval90()?[1])));
    let word = match (ends, verdict(s)) {
        (Some((safe, _)), Cell::Verdict { mark: Some(Mark::Open), .. }) if s.level.value <= safe => FIT_MEETS,
        (Some((_, high)), Cell::Verdict { mark: Some(Mark::Open), .. }) if s.level.value >= high => FIT_FAILS,
        (_, other) => return other,
    };
    Cell::Verdict {
        mark: Some(Mark::Open),
        word,
        expected: false,
        limit: None,
        grows: s.stable == Some(false),
    }
}

/// The verdict of the fit on a step that tells nothing by itself.
const FIT_MEETS: &str = "fit meets";
const FIT_FAILS: &str = "fit fails";

/// Returns the verdict of a step, with the limit that decided if that is new information. The unloaded server cannot
/// meet the SLO, only miss it; and auxiliary steps are not measured for a verdict, unless they are invalid.
pub(super) fn verdict(s: &Step) -> Cell {
    let unjudged = match s.verdict {
        Verdict::Meets | Verdict::Undecided => s.kind == StepKind::Baseline || s.kind.is_auxiliary(),
        Verdict::Fails => s.kind.is_auxiliary(),
        Verdict::Invalid => false,
    };
    let ramp = s.verdict == Verdict::Undecided && s.kind == StepKind::Ramp;
    let limit = s.binding.as_deref().filter(|_| !unjudged && s.verdict != Verdict::Meets && !ramp);
    let limit = limit.map(|b| clip(&words::binding_in_short(b), 18));
    Cell::Verdict {
        mark: (!unjudged).then(|| mark(s.verdict)),
        word: if unjudged { UNKNOWN } else { s.verdict.name() },
        expected: s.verdict == Verdict::Undecided && limit.is_none(),
        limit,
        grows: s.stable == Some(false),
    }
}
