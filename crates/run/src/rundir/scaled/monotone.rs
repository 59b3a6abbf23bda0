//! Estimates under scaled limits, made monotonic: a looser limit never lowers the goodput.
//!
//! Each factor has a fit of its own, and the fits scatter: neighbours may come out in the wrong order, by less than their
//! intervals. Isotonic regression (Barlow et al. 1972; pool adjacent violators) averages those that do. The answer of the
//! unscaled SLO was measured for it, so it never moves: the others are first bounded by it.

use super::{Scaled, is_unscaled};
use goodput_stats::search::answer::{AnswerLevel, Conclusion, Located, Undecided};
use goodput_stats::stats::isotonic::isotonic;

/// The ends of an estimate and what lies between: low end, safe level, median, high end. Each is in order over the factors
/// separately, which keeps the order within an estimate.
type Figures = [f64; 4];

/// Orders the estimates of points that ascend by their factor.
pub(super) fn order(points: &mut [Scaled]) {
    let known: Vec<(usize, Figures)> =
        points.iter().enumerate().filter_map(|(i, p)| Some((i, figures(&p.goodput.conclusion)?))).collect();
    let fixed = known.iter().position(|(i, _)| is_unscaled(&points[*i]));
    let column = |n: usize| ordered(&known.iter().map(|k| k.1[n]).collect::<Vec<_>>(), fixed);
    let columns = [0, 1, 2, 3].map(column);
    for (row, (i, _)) in known.iter().enumerate() {
        set(&mut points[*i].goodput.conclusion, [0, 1, 2, 3].map(|n| columns[n][row]));
    }
}

/// Returns the figures of an estimate; `None` for other conclusions.
fn figures(conclusion: &Conclusion) -> Option<Figures> {
    match conclusion {
        Conclusion::Found(Located::Estimate { median, interval: [low, high], safe, .. }) => {
            Some([*low, *safe, median.level, *high])
        }
        Conclusion::Undecided(Undecided::Below { median: Some(median), high, .. }) => {
            Some([0.0, 0.0, median.level, *high])
        }
        Conclusion::Found(Located::Bracket(_))
        | Conclusion::None
        | Conclusion::NotReached { .. }
        | Conclusion::Undecided(
            Undecided::Open
            | Undecided::Safe(_)
            | Undecided::Contradicted(_)
            | Undecided::Below { median: None, .. },
        )
        | Conclusion::Invalid { .. } => None,
    }
}

/// Sets the figures of an estimate.
fn set(conclusion: &mut Conclusion, [to_low, to_safe, to_median, to_high]: Figures) {
    match conclusion {
        Conclusion::Found(Located::Estimate { median, interval, safe, .. }) => {
            (*interval, *safe) = ([to_low, to_high], to_safe);
            move_to(median, to_median);
        }
        Conclusion::Undecided(Undecided::Below { median: Some(median), high, .. }) => {
            *high = to_high;
            move_to(median, to_median);
        }
        _ => {}
    }
}

/// Moves a level, and what follows from it in proportion.
fn move_to(at: &mut AnswerLevel, level: f64) {
    let times = if at.level > 0.0 { level / at.level } else { 1.0 };
    at.level = level;
    at.throughput = at.throughput.map(|x| x * times);
    at.per_gpu = at.per_gpu.map(|x| x * times);
}

/// Returns the isotonic regression of some values, in which the one at `fixed` keeps its value.
fn ordered(values: &[f64], fixed: Option<usize>) -> Vec<f64> {
    let Some(at) = fixed else { return isotonic(values) };
    let limit = values[at];
    let below: Vec<f64> = values[..at].iter().map(|v| v.min(limit)).collect();
    let above: Vec<f64> = values[at + 1..].iter().map(|v| v.max(limit)).collect();
    [isotonic(&below), vec![limit], isotonic(&above)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Status;

    #[test]
    fn values_that_fall_are_pooled() {
        for (values, fixed, want) in [
            (&[1.0, 2.0, 3.0][..], None, &[1.0, 2.0, 3.0][..]),
            (&[1.0, 3.0, 2.0, 4.0], None, &[1.0, 2.5, 2.5, 4.0]),
            (&[5.0, 4.0, 3.0], None, &[4.0, 4.0, 4.0]),
            (&[714.0, 704.0, 720.0], Some(2), &[709.0, 709.0, 720.0]),
            (&[9.0, 8.0, 7.0], Some(1), &[8.0, 8.0, 8.0]), // the answer does not move
            (&[], None, &[]),
        ] {
            assert_eq!(ordered(values, fixed), want, "{values:?}");
        }
    }

    #[test]
    fn a_looser_limit_never_lowers_an_estimate() {
        let estimate = |factor: f64, rate: f64, status| {
            let mut goodput = fixture::found().answers.swap_remove(0).goodput;
            let safe = (status == Status::Found).then_some(0.95 * rate);
            let low = safe.map_or(0.0, |_| 0.9 * rate);
            goodput.conclusion = conclusion(status, Some(rate), Some([low, 1.1 * rate]), safe);
            Scaled { factor, goodput }
        };
        let mut points = vec![
            estimate(0.5, 6.0, Status::Undecided),
            estimate(0.6, 714.0, Status::Found),
            estimate(0.7, 704.0, Status::Found),
            estimate(1.0, 700.0, Status::Found),
            estimate(1.5, 690.0, Status::Found),
        ];
        let answer = points[3].clone();
        order(&mut points);
        assert_eq!(points[3], answer);
        let rates: Vec<f64> = points.iter().filter_map(|p| p.goodput.rate()).collect();
        assert_eq!(rates, [6.0, 700.0, 700.0, 700.0, 700.0]);
        for p in &points[1..] {
            let (g, [low, high]) = (&p.goodput, p.goodput.interval90().unwrap());
            let (safe, rate) = (g.safe_rate().unwrap(), g.rate().unwrap());
            assert!(low <= safe && safe <= rate && rate <= high, "{g:?}");
        }
    }
}
