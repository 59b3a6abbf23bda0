//! Latencies and rates at the levels that both sides measured and could sustain.
//!
//! Percentiles are over all measured requests; failed requests count as later than any other. The significance of a
//! difference comes from a bootstrap over blocks of successive requests, separately for each side, because the runs
//! are assumed to be independent. The resulting error covers the sampling of requests only: a server that is slower
//! on one day than on another differs by that as well, and only measuring in turns removes that drift.

use super::bootstrap::{DRAWS, Draws, Sample, Spread};
use super::carry::Slopes;
use super::column::PERCENTILES;
use super::level_figures::{attainment_error, failures_error, figure, rate_error};
use super::noise::{Basis, Change, Estimate};
use super::requests::{Requests, Timed};
use super::{Column, ComparedFigure, ComparedLevel, Scope, Side, blocks, same};
use goodput_core::level::{Control, Level};
use goodput_core::slo::Metric;
use goodput_core::units::short;
use goodput_stats::stats::step::{Step, Verdict};

/// Minimum number of requests beyond a percentile for its error to be estimated.
const LEAST_BEYOND: f64 = 5.0;
/// Largest relative difference between levels at which significance is claimed: near saturation latencies rise
/// steeply.
const EXACT: f64 = 0.001;
/// Minimum number of blocks for an error estimate.
const LEAST_BLOCKS: usize = 10;

/// A level with the steps of each side.
#[derive(Debug, Clone)]
pub struct CommonLevel<'a> {
    /// The level of the baseline.
    pub level: Level,
    /// Steps of each side; may be empty for some.
    pub steps: Vec<Vec<&'a Step>>,
}

impl CommonLevel<'_> {
    pub(super) fn summary(&self) -> ComparedLevel {
        ComparedLevel {
            level: self.level,
            steps: self.steps.iter().map(|s| s.iter().map(|s| s.step).collect()).collect(),
            requests: self.steps.iter().map(|s| s.iter().map(|s| s.due_n).sum()).collect(),
        }
    }

    /// Returns the levels of the baseline and of a side if they are not quite equal: those of one step if several
    /// differ.
    pub(super) fn off(&self, side: usize) -> Option<[f64; 2]> {
        let far = |a: f64, b: f64| (a / b).ln().abs() > EXACT;
        let pairs = self.steps[0].iter().flat_map(|old| self.steps[side].iter().map(move |new| (old, new)));
        pairs.map(|(old, new)| [old.level.value, new.level.value]).find(|[old, new]| far(*old, *new))
    }

    /// Returns true if a side has steps at the level.
    pub(super) fn has(&self, side: usize) -> bool {
        !self.steps[side].is_empty()
    }
}

/// Returns the steps of a side with usable latencies: complete, valid, and stable.
pub fn usable(side: &Side) -> Vec<&Step> {
    let calm = |s: &&Step| {
        !s.kind.is_outside_search() && !s.overloaded() && s.verdict != Verdict::Invalid && s.completed > 0
    };
    side.run.steps.iter().filter(calm).collect()
}

/// Returns the levels at which the baseline and another side have usable steps, ascending.
pub fn levels(sides: &[Side]) -> Vec<CommonLevel<'_>> {
    let usable: Vec<Vec<&Step>> = sides.iter().map(usable).collect();
    let control = super::side::control(&sides[0]);
    let mut found: Vec<Level> = Vec::new();
    for step in usable[0].iter().filter(|s| s.level.control == control) {
        if !found.iter().any(|l| same(l.value, step.level.value)) {
            found.push(step.level);
        }
    }
    found.sort_by(|a, b| a.value.total_cmp(&b.value));
    // A step near two levels belongs to the nearer one only.
    let apart = |s: &Step, level: &Level| (s.level.value / level.value).ln().abs();
    let nearest = |s: &Step| {
        let near = found.iter().filter(|l| l.control == s.level.control && same(s.level.value, l.value));
        near.min_by(|a, b| apart(s, a).total_cmp(&apart(s, b))).copied()
    };
    let at = |level: Level| -> CommonLevel<'_> {
        let here = |s: &&&Step| nearest(s) == Some(level);
        CommonLevel {
            level,
            steps: usable.iter().map(|u| u.iter().filter(here).copied().collect()).collect(),
        }
    };
    found.iter().copied().map(at).filter(|e| e.steps[1..].iter().any(|s| !s.is_empty())).collect()
}

/// Returns the requests of some steps of a side, one list per step.
pub(super) fn of_steps<'r>(steps: &[&Step], requests: &'r Requests) -> Vec<&'r [Timed]> {
    let of = |s: &&Step| requests.get(&(s.series.clone(), s.step)).map_or(&[][..], Vec::as_slice);
    steps.iter().map(of).collect()
}

/// Returns the rows of every level, for sides that were measured separately.
pub fn rows(sides: &[Side], levels: &[CommonLevel<'_>], requests: &[Requests]) -> Vec<ComparedFigure> {
    levels.iter().flat_map(|level| of_level(sides, level, requests, true)).collect()
}

/// Returns the rows of every level with the values alone: no bootstrap is run, and no latency has noise.
pub(super) fn values(
    sides: &[Side],
    levels: &[CommonLevel<'_>],
    requests: &[Requests],
) -> Vec<ComparedFigure> {
    levels.iter().flat_map(|level| of_level(sides, level, requests, false)).collect()
}

fn of_level(
    sides: &[Side],
    level: &CommonLevel<'_>,
    requests: &[Requests],
    draw: bool,
) -> Vec<ComparedFigure> {
    let lists: Vec<Vec<&[Timed]>> =
        level.steps.iter().zip(requests).map(|(steps, own)| of_steps(steps, own)).collect();
    let mut rows = Vec::new();
    for metric in Metric::PRINCIPAL {
        let drawn: Vec<Drawn> =
            lists.iter().enumerate().map(|(i, own)| Drawn::of(own, metric, i as u64, draw)).collect();
        for (k, permille) in PERCENTILES.into_iter().enumerate() {
            let column = Column::Latency(metric, permille);
            let values: Vec<Option<f64>> = drawn.iter().map(|d| d.values[k]).collect();
            let changes = drawn[1..].iter().map(|d| d.against(&drawn[0], k)).collect();
            rows.extend(row(column, level, values, changes, sides));
        }
    }
    rows.extend(gaps(sides, level));
    rows.extend(rates(sides, level, &lists));
    for side in 1..sides.len() {
        let Some(levels) = level.off(side) else { continue };
        let slopes = Slopes::of(sides, level, side, levels);
        for row in &mut rows {
            let (old, change) = (row.values[0], &mut row.changes[side - 1]);
            let correction = slopes.as_ref().and_then(|s| s.correction(row.column, change.ratio));
            let carried = correction.and_then(|c| change.carried(old, c, levels));
            *change = carried.unwrap_or_else(|| change.unclaimed(levels));
        }
    }
    rows
}

/// Makes a row, unless all of its values are unknown.
pub(super) fn row(
    column: Column,
    level: &CommonLevel<'_>,
    values: Vec<Option<f64>>,
    changes: Vec<Change>,
    sides: &[Side],
) -> Option<ComparedFigure> {
    if values.iter().all(Option::is_none) {
        return None;
    }
    let unit =
        column.unit(level.level.control.unit().trim(), sides[0].run.currency.as_deref().unwrap_or_default());
    Some(ComparedFigure {
        name: format!("{}@{}", column.name(), short(level.level.value)),
        column,
        unit,
        place: Scope::At(level.level),
        intervals: vec![None; values.len()],
        values,
        changes,
        each: Vec::new(),
    })
}

/// Percentiles of a metric on one side, and bootstrap draws of their logarithms.
struct Drawn {
    blocks: usize,
    values: [Option<f64>; 3],
    /// Draws for each percentile; empty if there are too few requests.
    draws: [Vec<Option<f64>>; 3],
}

impl Drawn {
    fn of(steps: &[&[Timed]], metric: Metric, seed: u64, draw: bool) -> Self {
        let defined = |list: &&[Timed]| -> Vec<f64> {
            list.iter().map(|t| t.get(metric.part())).filter(|v| !v.is_nan()).collect()
        };
        let lists: Vec<Vec<f64>> = steps.iter().map(defined).collect();
        let whole = Sample::new(lists.iter().flatten().map(|v| (*v, 0)), 1);
        let values = PERCENTILES.map(|p| whole.value(p as f64 / 1e3));
        let longest = |list: &Vec<f64>| {
            let of = |q: &f64| blocks::length(&list.iter().map(|v| v > q).collect::<Vec<_>>());
            values.iter().flatten().map(of).max().unwrap_or(1)
        };
        let (mut numbered, mut all) = (Vec::with_capacity(whole.n()), 0);
        for list in &lists {
            let (numbers, n) = blocks::numbers(list.len(), longest(list));
            numbered.extend(list.iter().copied().zip(numbers.map(|b| b + all)));
            all += n as u32;
        }
        let sample = Sample::new(numbered, all as usize);
        let mut draws: [Vec<Option<f64>>; 3] = [(); 3].map(|()| Vec::with_capacity(DRAWS));
        if draw && all as usize >= LEAST_BLOCKS {
            for weights in Draws::new(all as usize, 1 + seed) {
                for (own, p) in draws.iter_mut().zip(PERCENTILES) {
                    own.push(sample.of(&weights, p as f64 / 1e3).map(f64::ln));
                }
            }
        }
        for (own, p) in draws.iter_mut().zip(PERCENTILES) {
            if (1.0 - p as f64 / 1e3) * (whole.n() as f64) < LEAST_BEYOND {
                own.clear();
            }
        }
        Self { blocks: all as usize, values, draws }
    }

    fn against(&self, old: &Self, k: usize) -> Change {
        let sides = [(&old.draws[k], old.blocks), (&self.draws[k], self.blocks)];
        let noise = |_: Spread| {
            of_blocks(sides.map(|(draws, n)| (Spread::of(draws.iter().copied()).error, n as f64)))
        };
        ratio((old.values[k], &old.draws[k]), (self.values[k], &self.draws[k]), Basis::Blocks, noise)
    }
}

/// Returns the standard error of a difference of two sides with so many blocks each, and its degrees of freedom by
/// Satterthwaite. A bootstrap draw has only as many blocks as there are, which makes its spread too small by √((B −
/// 1) / B).
fn of_blocks(sides: [(f64, f64); 2]) -> (f64, f64) {
    let variances = sides.map(|(error, n)| error * error * n / (n - 1.0));
    let all: f64 = variances.iter().sum();
    let each: f64 = variances.iter().zip(sides).map(|(v, (_, n))| v * v / (n - 1.0)).sum();
    (all.sqrt(), if each > 0.0 { all * all / each } else { f64::INFINITY })
}

/// Returns the change of a percentile from draws of its logarithm on both sides. `noise` turns the spread of their
/// differences into a standard error and its degrees of freedom.
pub(super) fn ratio(
    (old, old_draws): (Option<f64>, &[Option<f64>]),
    (new, new_draws): (Option<f64>, &[Option<f64>]),
    basis: Basis,
    noise: impl FnOnce(Spread) -> (f64, f64),
) -> Change {
    let bare = Change::bare(old, new);
    let (Some(o), Some(n)) = (old, new) else { return bare };
    if old_draws.is_empty() || old_draws.len() != new_draws.len() {
        return bare;
    }
    if let Some(change) = failing(bare, (o, old_draws), (n, new_draws)) {
        return Change { basis, ..change };
    }
    let differences = old_draws.iter().zip(new_draws).map(|(o, n)| Some((*n)? - (*o)?));
    let spread = Spread::of(differences);
    // Percentiles that are infinite in some draws have no standard error.
    if spread.finite < 1.0 - super::noise::ALPHA / 2.0 || o <= 0.0 || n <= 0.0 {
        return bare;
    }
    let (error, freedom) = noise(spread);
    let estimate = Estimate { difference: (n / o).ln(), error, freedom };
    Change::of_ratio(old, new, estimate, basis)
}

/// Returns the change if one side's percentile is infinite in nearly all draws because of failed requests, and the
/// other's is not.
fn failing(bare: Change, old: (f64, &[Option<f64>]), new: (f64, &[Option<f64>])) -> Option<Change> {
    let sure = 1.0 - super::noise::ALPHA / 2.0;
    let infinite = |(_, draws): &(f64, &[Option<f64>])| {
        draws.iter().filter(|d| **d == Some(f64::INFINITY)).count() as f64 / draws.len() as f64
    };
    let (a, b) = (infinite(&old), infinite(&new));
    let apart = (a >= sure && b <= 1.0 - sure) || (b >= sure && a <= 1.0 - sure);
    apart.then_some(Change { beyond: super::Beyond::Yes, ..bare })
}

/// Returns the rows of inter-token latency. Their histograms are pooled per step, so the noise is unknown; among
/// several steps at the level the longest counts.
fn gaps(sides: &[Side], level: &CommonLevel<'_>) -> Vec<ComparedFigure> {
    let of = |steps: &Vec<&Step>, permille: u64| {
        let longest = steps.iter().max_by(|a, b| a.measure_s.total_cmp(&b.measure_s))?;
        longest.quantiles(Metric::Itl).at(permille as f64 / 1e3)
    };
    let one = |permille| {
        let values: Vec<Option<f64>> = level.steps.iter().map(|s| of(s, permille)).collect();
        let changes = values[1..].iter().map(|v| Change::bare(values[0], *v)).collect();
        row(Column::Latency(Metric::Itl, permille), level, values, changes, sides)
    };
    PERCENTILES.into_iter().filter_map(one).collect()
}

/// Returns the rows of attainment, rates and server counters.
fn rates(sides: &[Side], level: &CommonLevel<'_>, lists: &[Vec<&[Timed]>]) -> Vec<ComparedFigure> {
    let one = |column: Column| {
        let values: Vec<Option<f64>> =
            sides.iter().zip(&level.steps).map(|(side, steps)| figure(column, &side.tier, steps)).collect();
        let change = |i: usize| {
            let bare = Change::bare(values[0], values[i]);
            let (Some(old), Some(new)) = (values[0], values[i]) else { return bare };
            match column {
                Column::Failures => {
                    let Some((a, b)) = failures_error(&level.steps[0]).zip(failures_error(&level.steps[i]))
                    else {
                        return bare;
                    };
                    let change = Change::of_difference(old, new, Estimate::normal(new - old, a.hypot(b)));
                    if old > 0.0 || new > 0.0 { change } else { change.of_nothing() }
                }
                Column::Attainment => {
                    let error = |i: usize| attainment_error(&sides[i].tier, &level.steps[i]);
                    let Some((a, b)) = error(0).zip(error(i)) else { return bare };
                    Change::of_difference(old, new, Estimate::normal(new - old, a.hypot(b)))
                }
                Column::AchievedRate | Column::GoodRate | Column::OutputTokens
                    if level.level.control == Control::Rate =>
                {
                    let error = |i: usize| rate_error(column, &sides[i], &level.steps[i], &lists[i]);
                    let Some((a, b)) = error(0).zip(error(i)) else { return bare };
                    if old <= 0.0 || new <= 0.0 {
                        return bare;
                    }
                    let estimate = Estimate::normal((new / old).ln(), a.hypot(b));
                    Change::of_ratio(Some(old), Some(new), estimate, Basis::Counts)
                }
                _ => bare,
            }
        };
        let changes = (1..sides.len()).map(change).collect();
        row(column, level, values, changes, sides)
    };
    Column::LEVEL.into_iter().filter_map(one).collect()
}

/// Returns the claims about latencies of two sides that were measured separately, all judged together; `levels` has
/// the requests of both sides at each level. For the study in `docs/compare.md`.
pub fn claims(levels: &[[&[Timed]; 2]]) -> Vec<(Column, Change)> {
    let mut all = Vec::new();
    for both in levels {
        for metric in Metric::PRINCIPAL {
            let [old, new] = [0, 1].map(|i| Drawn::of(&[both[i]], metric, i as u64, true));
            let own = PERCENTILES.into_iter().enumerate();
            all.extend(own.map(|(k, permille)| (Column::Latency(metric, permille), new.against(&old, k))));
        }
    }
    super::noise::judge(all.iter_mut().map(|(_, change)| change));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_are_held_to_student() {
        let (error, freedom) = of_blocks([(0.1, 10.0), (0.1, 10.0)]);
        assert!((error - 0.1 * (2.0_f64 * 10.0 / 9.0).sqrt()).abs() < 1e-12 && (freedom - 18.0).abs() < 1e-9);
        let (_, one) = of_blocks([(0.1, 10.0), (0.0, 1_000.0)]);
        assert!((one - 9.0).abs() < 1e-9, "the noisy side's alone: {one}");
    }
}
