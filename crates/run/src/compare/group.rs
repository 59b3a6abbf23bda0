//! Sides that consist of several runs, and their comparison.
//!
//! Two runs differ by their sampling errors and by run-to-run variation. With one run per side only the sampling
//! error is known; with several, both are. The figures of a side's runs are pooled by the random-effects model of
//! [`goodput_stats::stats::meta`], latencies and rates as logarithms, shares unchanged. The goodput and figures
//! derived from it use the variance of each run's own interval; every other figure is a plain sample, whose scatter
//! contains both kinds of error. Two pooled sides are compared by the difference of their means, with the errors of
//! both means by Hartung and Knapp and degrees of freedom by Welch and Satterthwaite (Welch, Biometrika 34, 1947). A
//! single run is compared with a side of three or more runs by the prediction for that side's next run: the error of
//! a prediction, with two degrees of freedom less than there are runs.

use super::answer::Undecided;
use super::common_levels::{self, CommonLevel};
use super::noise::{Basis, Change, Estimate};
use super::{Column, ComparedFigure, ComparedLevel, Scope, Side, side, whole_run};
use crate::rundir::repeats::{self, PooledAnswer, study};
use crate::rundir::{folder_and_part, repeats::is_repeated};
use anyhow::Result;
use goodput_stats::search::answer::{Answer, Goodput};
use goodput_stats::search::config::Mode;
use goodput_stats::stats::meta::{Pooled, Study};
use serde::Serialize;
use std::ops::Range;
use std::path::Path;

/// Several runs that are compared as one side.
#[derive(Debug, Clone)]
pub struct Group {
    /// Label of the side.
    pub label: String,
    /// Its runs, at least one.
    pub runs: Vec<Side>,
}

/// The runs of a side and their pooled goodput.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GroupedRuns {
    /// Label of the side.
    pub label: String,
    /// The run folders.
    pub runs: Vec<String>,
    /// Pooled goodput; `None` if no run has an answer.
    pub pooled: Option<PooledAnswer>,
}

/// Returns the groups named by the arguments, the baseline first; `None` if each argument is a single run.
///
/// If `against` is given, it lists the runs of the baseline and `runs` those of the other side. Otherwise each
/// argument is a side: a folder of repeated runs stands for all of them.
///
/// # Errors
/// Fails if a folder is not a run and contains none, or has several series and none is named.
pub fn groups(runs: &[String], against: &[String]) -> Result<Option<Vec<Group>>> {
    let repeated = |argument: &String| is_repeated(&folder_and_part(argument).0);
    let sides: Vec<Vec<String>> = if against.is_empty() {
        if !runs.iter().any(repeated) {
            return Ok(None);
        }
        runs.iter().map(|run| vec![run.clone()]).collect()
    } else {
        vec![against.to_vec(), runs.to_vec()]
    };
    if sides.len() < 2 {
        anyhow::bail!(
            "{0} holds several runs of one plan: name what to compare them with, as in `goodput compare {0} RUN`; `goodput report {0}` shows \
             what they come to",
            runs.first().map(String::as_str).unwrap_or_default()
        );
    }
    let mut groups: Vec<Group> = sides.iter().map(|side| group(side)).collect::<Result<_>>()?;
    label(&mut groups, &sides);
    Ok(Some(groups))
}

/// Reads the runs of one side.
fn group(arguments: &[String]) -> Result<Group> {
    let mut runs = Vec::new();
    for argument in arguments {
        let (dir, part) = folder_and_part(argument);
        let folders = if is_repeated(&dir) { repeats::begun(&dir)? } else { vec![dir] };
        for folder in folders {
            runs.push(side::of_folder(&folder, part)?);
        }
    }
    Ok(Group { label: String::new(), runs })
}

/// Assigns distinct labels to sides and runs.
fn label(groups: &mut [Group], arguments: &[Vec<String>]) {
    let short = |argument: &String| {
        let (dir, part) = folder_and_part(argument);
        let name =
            dir.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
        part.map_or(name.clone(), |part| format!("{name}#{part}"))
    };
    let joined = |names: Vec<String>| match &names[..] {
        [first, .., last] if names.len() > 3 => format!("{first} … {last}"),
        _ => names.join(" + "),
    };
    let mut labels: Vec<String> = arguments.iter().map(|a| joined(a.iter().map(short).collect())).collect();
    if labels.iter().enumerate().any(|(i, label)| labels[..i].contains(label)) {
        labels = arguments.iter().map(|a| joined(a.clone())).collect();
    }
    for (group, label) in groups.iter_mut().zip(labels) {
        let several = group.runs.len() > 1;
        for (i, run) in group.runs.iter_mut().enumerate() {
            run.label = if several { format!("{label} ({})", i + 1) } else { label.clone() };
        }
        group.label = label;
    }
}

/// Returns the index range of each group's runs in the list of all runs.
pub(super) fn places(groups: &[Group]) -> Vec<Range<usize>> {
    let mut from = 0;
    groups
        .iter()
        .map(|group| {
            let own = from..from + group.runs.len();
            from = own.end;
            own
        })
        .collect()
}

impl Group {
    /// Returns the run that represents the side in sentences: one whose server stopped answering, if there is one.
    pub(super) fn representative(&self) -> Side {
        let run = self.runs.iter().find(|run| run.gone().is_some()).unwrap_or(&self.runs[0]);
        Side { label: self.label.clone(), ..run.clone() }
    }

    /// Returns the runs with their pooled goodput.
    pub(super) fn grouped(&self) -> GroupedRuns {
        let answers: Vec<&Answer> = self.runs.iter().filter_map(Side::answer).collect();
        let goodputs: Vec<&Goodput> = answers.iter().map(|a| &a.goodput).collect();
        let confidence = match &self.runs[0].plan.search.mode {
            Mode::Adaptive(adaptive) => adaptive.confidence.get(),
            _ => repeats::CONFIDENCE,
        };
        GroupedRuns {
            label: self.label.clone(),
            runs: self.runs.iter().map(|run| run.dir.display().to_string()).collect(),
            pooled: answers.first().map(|first| PooledAnswer::of(first, &goodputs, confidence)),
        }
    }
}

/// Returns the rows of groups, with the runs of each group pooled.
pub(super) fn rows(
    groups: &[Group],
    flat: &[Side],
    levels: &[CommonLevel<'_>],
    requests: &[super::requests::Requests],
) -> Vec<ComparedFigure> {
    let places = places(groups);
    let mut of_runs = whole_run::rows(flat);
    of_runs.extend(common_levels::values(flat, levels, requests));
    of_runs.iter().map(|row| together(row, flat, &places)).collect()
}

/// Returns a level with the steps and requests of each group's runs combined.
pub(super) fn level(level: &CommonLevel<'_>, places: &[Range<usize>]) -> ComparedLevel {
    let told = level.summary();
    ComparedLevel {
        level: told.level,
        steps: places.iter().map(|own| told.steps[own.clone()].concat()).collect(),
        requests: places.iter().map(|own| told.requests[own.clone()].iter().sum()).collect(),
    }
}

/// Returns true if the baseline and another group have steps at a level.
pub(super) fn is_shared(level: &CommonLevel<'_>, places: &[Range<usize>]) -> bool {
    let has = |own: &Range<usize>| own.clone().any(|i| level.has(i));
    has(&places[0]) && places[1..].iter().any(has)
}

/// The scale on which runs are pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Pooled as logarithms.
    Log,
    /// Pooled without transformation.
    Linear,
    /// Not pooled: a count without a known error.
    Count,
}

impl Scale {
    fn of(column: Column) -> Self {
        match column {
            Column::Preemptions => Self::Count,
            share if share.is_share() => Self::Linear,
            _ => Self::Log,
        }
    }

    fn from(self, x: f64) -> f64 {
        if self == Self::Log { x.ln() } else { x }
    }

    fn back(self, x: f64) -> f64 {
        if self == Self::Log { x.exp() } else { x }
    }
}

/// A figure of a group of runs.
#[derive(Debug, Clone, PartialEq)]
enum Figure {
    /// Pooled value of several runs.
    Runs(Pooled),
    /// Value of a single run, with the variance of its error.
    One(Study),
    /// Mean of the known values, which are too few to pool.
    Unpooled(Option<f64>),
}

/// Returns the studies of a row's runs, and true if a run found that no rate meets the SLO.
fn studies(row: &ComparedFigure, flat: &[Side], own: &Range<usize>) -> (Vec<Study>, bool) {
    let scale = Scale::of(row.column);
    let mut against = false;
    let one = |i: usize| {
        let value = row.values[i].filter(|v| v.is_finite() && (scale != Scale::Log || *v > 0.0))?;
        let variance = match noise(row, &flat[i]) {
            Some(of_goodput) => of_goodput?.variance,
            None => 0.0,
        };
        Some(Study { value: scale.from(value), variance })
    };
    let found = own.clone().filter_map(|i| {
        against |= row.column == Column::Goodput && row.values[i].is_some_and(|v| v <= 0.0);
        one(i)
    });
    let found = found.collect();
    (found, against)
}

/// Returns the goodput of a run with its variance, for a figure that is the goodput or derived from it; the outer
/// `None` is for every other figure.
fn noise(row: &ComparedFigure, side: &Side) -> Option<Option<Study>> {
    let answer = side.answer();
    match (row.place, row.column) {
        (Scope::Whole, Column::JointGoodput) => Some(answer.and_then(|a| study(&a.joint_goodput))),
        (
            Scope::Whole,
            Column::Goodput
            | Column::SafeRate
            | Column::PerGpu
            | Column::OutputTokens
            | Column::Items
            | Column::CostPerMtok
            | Column::CostPer1000Items,
        ) => Some(answer.and_then(|a| study(&a.goodput))),
        _ => None,
    }
}

/// Returns the figure of a group: pooled if more than half of its runs have it and no run found that no rate meets
/// the SLO.
fn figure(row: &ComparedFigure, flat: &[Side], own: &Range<usize>) -> Figure {
    let scale = Scale::of(row.column);
    let (studies, against) = studies(row, flat, own);
    let whole = own.len();
    let enough = 2 * studies.len() > whole && !against && scale != Scale::Count;
    let known: Vec<f64> = own.clone().filter_map(|i| row.values[i]).collect();
    // A mean over found rates and runs without any rate would be meaningless.
    let mixed = against && known.iter().any(|v| *v > 0.0);
    let mean = || (!known.is_empty() && !mixed).then(|| known.iter().sum::<f64>() / known.len() as f64);
    match (&studies[..], Pooled::of(&studies)) {
        ([only], _) if whole == 1 => Figure::One(*only),
        (_, Some(pooled)) if enough => Figure::Runs(pooled),
        _ => Figure::Unpooled(mean()),
    }
}

/// Converts a row of runs to a row of groups.
fn together(row: &ComparedFigure, flat: &[Side], places: &[Range<usize>]) -> ComparedFigure {
    let scale = Scale::of(row.column);
    let figures: Vec<Figure> = places.iter().map(|own| figure(row, flat, own)).collect();
    let value = |figure: &Figure| match figure {
        Figure::Runs(pooled) => Some(scale.back(pooled.mean)),
        Figure::One(study) => Some(scale.back(study.value)),
        Figure::Unpooled(mean) => *mean,
    };
    let values: Vec<Option<f64>> = figures.iter().map(value).collect();
    let is_goodput =
        row.place == Scope::Whole && matches!(row.column, Column::Goodput | Column::JointGoodput);
    let interval = |(figure, own): (&Figure, &Range<usize>)| match figure {
        Figure::Runs(pooled) if is_goodput => pooled.interval(0.9).map(|ends| ends.map(|x| scale.back(x))),
        Figure::One(_) => row.intervals[own.start],
        _ => ends(row, own),
    };
    let intervals: Vec<Option<[f64; 2]>> = figures.iter().zip(places).map(interval).collect();
    let change = |i: usize| {
        // Two single runs are compared as in a comparison of runs.
        if places[0].len() == 1 && places[i].len() == 1 && row.place == Scope::Whole {
            return row.changes[places[i].start - 1];
        }
        let change = match estimate(&figures[0], &figures[i]) {
            Some(estimate) => of_estimate(scale, (values[0], values[i]), estimate),
            // The interval of a mean is not a bracket: a pooled figure that cannot be compared makes no claim.
            None if [0, i].iter().any(|side| matches!(figures[*side], Figure::Unpooled(_))) => {
                of_ends(row, places, (values[0], values[i]), i)
            }
            None => Change::bare(values[0], values[i]),
        };
        // Means of runs are not carried to a common level.
        let apart = |j: usize| row.changes.get(j.wrapping_sub(1)).and_then(|c| c.apart.or(c.carried));
        let apart = places[i].clone().find_map(apart);
        apart.map_or(change, |levels| change.unclaimed(levels))
    };
    ComparedFigure {
        values: values.clone(),
        intervals,
        changes: (1..places.len()).map(change).collect(),
        each: places.iter().map(|own| row.values[own.clone()].to_vec()).collect(),
        ..row.clone()
    }
}

/// Makes a change from an estimate on the scale of the figure.
fn of_estimate(scale: Scale, (old, new): (Option<f64>, Option<f64>), estimate: Estimate) -> Change {
    let (Some(before), Some(after)) = (old, new) else { return Change::bare(old, new) };
    let change = match scale {
        Scale::Log => Change::of_ratio(old, new, estimate, Basis::Runs),
        // Shares that are zero on both sides make no claim.
        _ if before <= 0.0 && after <= 0.0 => Change::of_difference(before, after, estimate).of_nothing(),
        _ => Change::of_difference(before, after, estimate),
    };
    Change { basis: Basis::Runs, ..change }
}

/// Makes the change of a goodput for which one side has brackets or no rate: from the range that contains all of its
/// runs.
fn of_ends(
    row: &ComparedFigure,
    places: &[Range<usize>],
    (old, new): (Option<f64>, Option<f64>),
    i: usize,
) -> Change {
    let bare = Change::bare(old, new);
    let (Some(before), Some(after)) = (old, new) else { return bare };
    match ends(row, &places[0]).zip(ends(row, &places[i])) {
        Some((a, b)) if row.place == Scope::Whole => Change::of_brackets((before, a), (after, b)),
        _ => bare,
    }
}

/// Returns the range that contains the figure of every run of a group, if each has an interval or a bracket.
fn ends(row: &ComparedFigure, own: &Range<usize>) -> Option<[f64; 2]> {
    let all: Option<Vec<[f64; 2]>> = own.clone().map(|i| row.intervals[i]).collect();
    all?.into_iter().reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

/// Returns the difference of two groups on the scale of a figure, with its error and degrees of freedom; `None` if a
/// side is not pooled, and for a single run against fewer than three.
fn estimate(old: &Figure, new: &Figure) -> Option<Estimate> {
    match (old, new) {
        (Figure::Runs(a), Figure::Runs(b)) => {
            let variances = [a, b].map(|p| p.error * p.error);
            let all: f64 = variances.iter().sum();
            let each: f64 = variances.iter().zip([a, b]).map(|(v, p)| v * v / p.degrees_of_freedom()).sum();
            let freedom =
                if each > 0.0 { all * all / each } else { a.degrees_of_freedom() + b.degrees_of_freedom() };
            Some(Estimate { difference: b.mean - a.mean, error: all.sqrt(), freedom })
        }
        (Figure::Runs(a), Figure::One(b)) => predicted(a, b, b.value - a.mean),
        (Figure::One(a), Figure::Runs(b)) => predicted(b, a, b.mean - a.value),
        _ => None,
    }
}

/// Returns the change between the goodputs of two groups of runs; `None` if a side has too few rates with an
/// interval. For the study in `docs/compare.md`.
pub fn change(old: &[&Goodput], new: &[&Goodput]) -> Option<Change> {
    let figure = |all: &[&Goodput]| {
        let studies: Vec<Study> = all.iter().filter_map(|g| study(g)).collect();
        match (&studies[..], Pooled::of(&studies)) {
            ([only], _) if all.len() == 1 => Some(Figure::One(*only)),
            (_, pooled) => pooled.filter(|_| 2 * studies.len() > all.len()).map(Figure::Runs),
        }
    };
    let (old, new) = (figure(old)?, figure(new)?);
    let value = |figure: &Figure| match figure {
        Figure::Runs(pooled) => Some(pooled.mean.exp()),
        Figure::One(study) => Some(study.value.exp()),
        Figure::Unpooled(_) => None,
    };
    Some(of_estimate(Scale::Log, (value(&old), value(&new)), estimate(&old, &new)?))
}

/// Returns the difference of a single run from the prediction of several others.
fn predicted(runs: &Pooled, one: &Study, difference: f64) -> Option<Estimate> {
    let freedom = runs.predicted_degrees_of_freedom()?;
    Some(Estimate { difference, error: runs.predicted_error().hypot(one.variance.sqrt()), freedom })
}

/// Returns the reason for an undecided answer of side `i`.
pub(super) fn undecided(groups: &[Group], i: usize) -> Undecided {
    let sizes = [groups[0].runs.len(), groups[i].runs.len()];
    if sizes.contains(&1) && sizes.contains(&2) { Undecided::OneRunAgainstTwo } else { Undecided::FewRuns }
}

/// Returns the folder of a group, or a list of its folders, as shown to the user.
pub(super) fn shown(runs: &[Side]) -> String {
    let parent = |side: &Side| side.dir.parent().map(Path::to_path_buf);
    match (&runs[0], parent(&runs[0])) {
        (first, Some(dir)) if is_repeated(&dir) && runs.iter().all(|r| parent(r) == parent(first)) => {
            dir.display().to_string()
        }
        _ => runs.iter().map(|r| r.dir.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
