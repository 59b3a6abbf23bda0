//! Comparison of sides that one run measured in turns: each step has a partner of the other side, just before or
//! after it, with equal arrivals and lengths.
//!
//! Drift changes both partners of a pair alike and cancels in their difference. Percentiles are over the requests of
//! all pairs pooled. Their error comes from resampling pairs (`bootstrap`), both partners at once, times √(P
//! / (P − 1)) because a draw has only P pairs, with Student's t and P − 1 degrees of freedom. Over several levels,
//! the mean of the logarithms of the ratios is used: one claim per metric, however many levels there are. A
//! percentile that became infinite at any level is a claim without a mean. The shares of failed requests, and of
//! requests that met every limit, are claims as well if they are not trivial.

use super::bootstrap::{Draws, Sample};
use super::column::PERCENTILES;
use super::common_levels::{CommonLevel, of_steps, ratio, row};
use super::level_figures::figure;
use super::noise::{Basis, Beyond, Change, Estimate, Infinite};
use super::requests::{Requests, Timed};
use super::{Column, ComparedFigure, Scope, Side};
use goodput_core::slo::Metric;
use goodput_stats::stats::step::Step;

/// Minimum number of pairs for an error estimate.
pub(super) const LEAST_PAIRS: usize = 4;
/// Percentiles for which claims are made, in thousandths.
pub(super) const CLAIMED: [u64; 2] = [500, 990];

/// Requests of the pairs of one level: for each pair those of the old and those of the new side.
pub type Pairs<'r> = Vec<(&'r [Timed], &'r [Timed])>;

/// Returns the two values of a percentile over the pairs of one level, and its change.
pub fn change(pairs: &Pairs<'_>, metric: Metric, permille: u64) -> (Option<f64>, Option<f64>, Change) {
    let share = permille as f64 / 1e3;
    let numbered = |lists: Vec<&[Timed]>| {
        let each = lists.into_iter().enumerate();
        let values = each.flat_map(|(i, list)| list.iter().map(move |t| (t.get(metric.part()), i as u32)));
        Sample::new(values, pairs.len())
    };
    let (old, new) = pairs.iter().copied().unzip();
    let (old, new) = (numbered(old), numbered(new));
    let (o, n) = (old.value(share), new.value(share));
    // A tail with so few requests is left to chance.
    let thin = (1.0 - share) * (old.n().min(new.n()) as f64) < 5.0;
    if pairs.len() < LEAST_PAIRS || thin {
        return (o, n, Change::bare(o, n));
    }
    let (mut old_draws, mut new_draws) = (Vec::new(), Vec::new());
    for weights in Draws::new(pairs.len(), 1) {
        old_draws.push(old.of(&weights, share).map(f64::ln));
        new_draws.push(new.of(&weights, share).map(f64::ln));
    }
    let p = pairs.len() as f64;
    let change = ratio((o, &old_draws), (n, &new_draws), Basis::Pairs, |s| {
        (s.error * (p / (p - 1.0)).sqrt(), p - 1.0)
    });
    (o, n, change)
}

/// Returns the change of a percentile over all levels; leaves out levels with too few requests.
///
/// If the percentile is significantly infinite on only one side at any level, that is the change, because there is no
/// mean with the other levels. If this happens in both directions, the level at which the new side fails counts.
pub fn pooled(levels: &[Pairs<'_>], metric: Metric, permille: u64) -> Option<Change> {
    let each: Vec<Change> = levels.iter().map(|pairs| change(pairs, metric, permille).2).collect();
    let failing: Vec<Infinite> =
        each.iter().filter(|c| c.beyond == Beyond::Yes).filter_map(|c| c.infinite).collect();
    for infinite in [Infinite::New, Infinite::Old] {
        let n = failing.iter().filter(|f| **f == infinite).count();
        if n > 0 {
            return Some(Change { levels: Some(n), ..Change::of_failing(infinite, Basis::Pairs) });
        }
    }
    let estimates: Vec<Estimate> = each.iter().filter_map(|c| c.estimate).collect();
    let change = Change::of_ratio(None, None, Estimate::mean(&estimates)?, Basis::Pairs);
    Some(Change { levels: Some(estimates.len()), ..change })
}

/// For each pair, count and total of a share on the old and on the new side.
type Shares = Vec<[(f64, f64); 2]>;

/// Returns the change of a share over all levels, in points; `None` if nothing was counted on either side, which is
/// no claim.
fn pooled_share(levels: &[Shares]) -> Option<Change> {
    let enough: Vec<&Shares> = levels.iter().filter(|l| l.len() >= LEAST_PAIRS).collect();
    if enough.iter().all(|l| l.iter().flatten().all(|(k, _)| *k <= 0.0)) {
        return None;
    }
    let estimates: Vec<Estimate> = enough.iter().filter_map(|l| of_share(l)).collect();
    let change = Change::of_points(Estimate::mean(&estimates)?, Basis::Pairs);
    Some(Change { levels: Some(estimates.len()), ..change })
}

/// Estimates the difference of a share over the pairs of a level. Small counts may be equal in all pairs by chance,
/// so the error is at least that of the counts.
fn of_share(pairs: &Shares) -> Option<Estimate> {
    let share = |(k, n): (f64, f64)| k / n;
    let differences: Vec<f64> = pairs.iter().map(|[old, new]| share(*new) - share(*old)).collect();
    let e = Estimate::of_pairs(&differences).filter(|_| pairs.len() >= LEAST_PAIRS)?;
    let variance = |side: usize| {
        let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(|p| of(&p[side])).sum::<f64>();
        let n = sum(|c| c.1);
        let p = (sum(|c| c.0) + 1.0) / (n + 2.0);
        p * (1.0 - p) / n
    };
    Some(Estimate { error: e.error.max((variance(0) + variance(1)).sqrt()), ..e })
}

/// Returns the number of failed or cut-off requests of each partner.
fn failures(pairs: &Pairs<'_>) -> Shares {
    let of = |list: &[Timed]| {
        let failed = list.iter().filter(|t| t.e2e.is_infinite()).count();
        (failed as f64, list.len() as f64)
    };
    pairs.iter().map(|(old, new)| [of(old), of(new)]).collect()
}

/// Returns the claims of an alternating run, with a family-wise error rate of 5 %: p50 and p99 of TTFT, TPOT and e2e,
/// and the share of failed requests if any failed.
pub fn claims(levels: &[Pairs<'_>]) -> Vec<(Column, Change)> {
    let all = Metric::PRINCIPAL.into_iter().flat_map(|m| CLAIMED.map(|p| (m, p)));
    let mut claims: Vec<(Column, Change)> =
        all.filter_map(|(m, p)| Some((Column::Latency(m, p), pooled(levels, m, p)?))).collect();
    let failed: Vec<Shares> = levels.iter().map(failures).collect();
    claims.extend(pooled_share(&failed).map(|c| (Column::Failures, c)));
    let ps: Vec<f64> = claims.iter().filter_map(|(_, c)| c.p).collect();
    // An infinite percentile is significant without a p-value.
    let judged = claims.iter_mut().filter(|(_, c)| c.p.is_some());
    for ((_, claim), holds) in judged.zip(super::noise::holm(&ps)) {
        claim.judged(holds, ps.len());
    }
    claims
}

/// Returns the rows of every level, and of all levels pooled.
pub(super) fn rows(sides: &[Side], levels: &[CommonLevel<'_>], requests: &[Requests]) -> Vec<ComparedFigure> {
    let mut rows = Vec::new();
    let pairs: Vec<Vec<Pairs<'_>>> = (1..sides.len())
        .map(|i| levels.iter().filter(|l| l.has(i)).map(|l| partners(sides, l, i, requests)).collect())
        .collect();
    let mut claims: Vec<Vec<(Column, Change)>> = pairs.iter().map(|levels| self::claims(levels)).collect();
    for (i, own) in claims.iter_mut().enumerate() {
        let missed: Vec<Shares> = levels.iter().map(|l| misses(sides, l, i + 1)).collect();
        // More misses mean a lower attainment, hence the sign change.
        own.extend(pooled_share(&missed).map(|c| (Column::Attainment, c.turned())));
    }
    let latencies = Metric::PRINCIPAL.into_iter().flat_map(|m| CLAIMED.map(|p| Column::Latency(m, p)));
    for column in latencies.chain([Column::Failures, Column::Attainment]) {
        let of = |own: &Vec<(Column, Change)>| own.iter().find(|(c, _)| *c == column).map(|(_, c)| *c);
        if claims.iter().any(|own| of(own).is_some()) {
            rows.push(ComparedFigure {
                name: format!("{}@pooled", column.name()),
                column,
                unit: String::new(),
                place: Scope::Pooled,
                values: vec![None; sides.len()],
                intervals: vec![None; sides.len()],
                each: Vec::new(),
                changes: claims
                    .iter()
                    .map(|own| of(own).unwrap_or_else(|| Change::bare(None, None)))
                    .collect(),
            });
        }
    }
    for level in levels {
        rows.extend(of_level(sides, level, requests));
    }
    rows
}

fn of_level(sides: &[Side], level: &CommonLevel<'_>, requests: &[Requests]) -> Vec<ComparedFigure> {
    let mut rows = Vec::new();
    let pairs: Vec<Pairs<'_>> = (1..sides.len()).map(|i| partners(sides, level, i, requests)).collect();
    for (metric, permille) in Metric::PRINCIPAL.into_iter().flat_map(|m| PERCENTILES.map(|p| (m, p))) {
        let each: Vec<_> = pairs.iter().map(|p| change(p, metric, permille)).collect();
        let first = each.iter().find_map(|e| e.0);
        let values = std::iter::once(first).chain(each.iter().map(|e| e.1)).collect();
        let changes = each.iter().map(|e| e.2).collect();
        rows.extend(row(Column::Latency(metric, permille), level, values, changes, sides));
    }
    for column in Column::LEVEL {
        rows.extend(of_steps_in_pairs(column, sides, level));
    }
    rows
}

/// Returns the row of a figure over the steps of a level that have a partner.
fn of_steps_in_pairs(column: Column, sides: &[Side], level: &CommonLevel<'_>) -> Option<ComparedFigure> {
    let of = |i: usize, steps: &[&Step]| figure(column, &sides[i].tier, steps);
    let mut values = vec![None; sides.len()];
    let mut changes = Vec::new();
    for i in 1..sides.len() {
        let pairs = together(sides, level, i);
        let (old, new): (Vec<&Step>, Vec<&Step>) = pairs.iter().copied().unzip();
        let (old, new) = (of(0, &old), of(i, &new));
        values[0] = values[0].or(old);
        values[i] = new;
        let bare = Change::bare(old, new);
        changes.push(match column {
            Column::Preemptions | Column::HitRate => bare,
            Column::Failures => of_shares((old, new), &failed(sides, level, i), 1.0),
            Column::Attainment => of_shares((old, new), &misses(sides, level, i), -1.0),
            _ => {
                let logs: Vec<f64> =
                    pairs.iter().filter_map(|(a, b)| Some((of(i, &[b])? / of(0, &[a])?).ln())).collect();
                let estimate = Estimate::of_pairs(&logs).filter(|_| logs.len() >= LEAST_PAIRS);
                estimate.map_or(bare, |e| Change::of_ratio(old, new, e, Basis::Pairs))
            }
        });
    }
    row(column, level, values, changes, sides)
}

/// Returns the change of a share at a level; the share rises with the counts, or falls if `sign` is −1. There is no
/// claim if nothing was counted on either side.
fn of_shares((old, new): (Option<f64>, Option<f64>), pairs: &Shares, sign: f64) -> Change {
    let (Some((o, n)), Some(e)) = (old.zip(new), of_share(pairs)) else { return Change::bare(old, new) };
    let e = Estimate { difference: sign * e.difference, ..e };
    let change = Change { basis: Basis::Pairs, ..Change::of_difference(o, n, e) };
    if pairs.iter().flatten().any(|(k, _)| *k > 0.0) { change } else { change.of_nothing() }
}

/// Returns the number of failed or cut-off requests of the partners of a level.
fn failed(sides: &[Side], level: &CommonLevel<'_>, side: usize) -> Shares {
    let of = |s: &Step| ((s.failed + s.cut) as f64, (s.completed + s.failed + s.cut) as f64);
    together(sides, level, side).into_iter().map(|(old, new)| [of(old), of(new)]).collect()
}

/// Returns the number of requests of the partners of a level that missed a limit.
fn misses(sides: &[Side], level: &CommonLevel<'_>, side: usize) -> Shares {
    let of = |i: usize, step: &Step| {
        let row = step.row(&sides[i].tier, "joint").filter(|r| r.n > 0)?;
        Some((row.misses as f64, row.n as f64))
    };
    let pairs = together(sides, level, side).into_iter();
    pairs.filter_map(|(old, new)| Some([of(0, old)?, of(side, new)?])).collect()
}

/// Returns the pairs of steps of a level that were measured with the same requests: one of the baseline and one of
/// another side.
fn together<'a>(sides: &[Side], level: &CommonLevel<'a>, side: usize) -> Vec<(&'a Step, &'a Step)> {
    let turn = |i: usize, step: &Step| {
        let own = sides[i].run.steps.iter().filter(|s| !s.broken_off());
        own.take_while(|s| s.step != step.step).count()
    };
    let partner = |old: &'a Step| {
        let of_it = turn(0, old);
        level.steps[side].iter().find(|new| turn(side, new) == of_it).map(|new| (old, *new))
    };
    level.steps[0].iter().filter_map(|old| partner(old)).collect()
}

/// Returns the requests of these pairs.
fn partners<'r>(sides: &[Side], level: &CommonLevel<'_>, side: usize, requests: &'r [Requests]) -> Pairs<'r> {
    let of = |i: usize, step: &Step| of_steps(&[step], &requests[i])[0];
    let pairs = together(sides, level, side).into_iter().map(|(old, new)| (of(0, old), of(side, new)));
    pairs.filter(|(o, n)| !o.is_empty() && !n.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten pairs of 100 requests of about 100 ms; on the new side every `nth` fails.
    fn level(salt: usize, nth: usize) -> Vec<[Vec<Timed>; 2]> {
        let request = |i: usize, fails: bool| {
            let ms = if fails { f64::INFINITY } else { 100.0 + ((i * 7919 + salt) % 101) as f64 };
            Timed { due: i as f64, ttft: ms, tpot: ms, e2e: ms, tokens: 1.0 }
        };
        let side = |pair: usize, fails: &dyn Fn(usize) -> bool| {
            (0..100).map(|i| request(100 * pair + i, fails(100 * pair + i))).collect::<Vec<_>>()
        };
        (0..10).map(|p| [side(p, &|_| false), side(p, &|i| nth > 0 && i % nth == 0)]).collect()
    }

    fn found(levels: &[Vec<[Vec<Timed>; 2]>]) -> Vec<(Column, Change)> {
        let slices: Vec<Pairs<'_>> =
            levels.iter().map(|l| l.iter().map(|[a, b]| (a.as_slice(), b.as_slice())).collect()).collect();
        claims(&slices)
    }

    #[test]
    fn requests_that_fail_are_a_claim_and_no_level_less() {
        let at = |all: &[(Column, Change)], c: Column| all.iter().find(|(n, _)| *n == c).map(|(_, c)| *c);
        let p99 = Column::Latency(Metric::E2e, 990);
        for (nths, levels) in [([33, 33], 2), ([0, 33], 1)] {
            let all = found(&nths.map(|n| level(n, n)));
            let tail = at(&all, p99).unwrap();
            assert_eq!(
                (tail.beyond, tail.infinite, tail.levels),
                (Beyond::Yes, Some(Infinite::New), Some(levels))
            );
            let failed = at(&all, Column::Failures).unwrap();
            assert!(failed.absolute.unwrap() > 0.01 && failed.beyond == Beyond::Yes, "{failed:?}");
            let median = at(&all, Column::Latency(Metric::E2e, 500)).unwrap();
            assert_eq!(median.levels, Some(2), "the median is of both");
        }
        let none = found(&[level(1, 0), level(2, 0)]);
        assert!(at(&none, Column::Failures).is_none() && at(&none, p99).unwrap().infinite.is_none());
    }

    #[test]
    fn few_failures_of_alike_pairs_are_no_finding() {
        let one = |k: f64| vec![[(0.0, 100.0), (k, 100.0)]; 4];
        let few =
            pooled_share(&[[[(0.0, 100.0), (0.0, 100.0)], [(0.0, 100.0), (1.0, 100.0)]].repeat(2)]).unwrap();
        assert!(few.p.unwrap() > 0.05, "{few:?}");
        assert!(pooled_share(&[one(10.0)]).unwrap().p.unwrap() < 0.01);
        assert!(pooled_share(&[one(0.0)]).is_none());
    }
}
