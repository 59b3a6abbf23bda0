//! Summary of many runs of a case.

use crate::cases::{Case, Right};
use crate::run::Run;
use goodput::search::answer::Status;

/// The figures of a case whose answer is a rate. Errors are 100·ln(found / true).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub(crate) bias: f64,
    pub(crate) rmse: f64,
    /// Share of runs that report a rate; bias and RMSE are over these runs.
    pub(crate) rated: f64,
    /// Share of the published intervals that contain the truth.
    pub(crate) coverage: Option<f64>,
    /// Share of all runs whose safe rate violates the SLO.
    pub(crate) violates: f64,
    /// Median over all runs of 100·(1 − safe / true); 100 for a run without a safe rate.
    pub(crate) shortfall: f64,
    /// Share of runs without a safe rate.
    pub(crate) unsafe_share: f64,
    /// Share of runs that answer that no rate meets the SLO.
    pub(crate) denied: f64,
    /// Share of all runs whose interval contains the truth; a run without an interval counts as a miss.
    pub(crate) held: f64,
    /// Share of runs that report a change of the server.
    pub(crate) named: f64,
}

/// The figures of a case whose answer is not a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StatusScore {
    /// Share of runs with the right status.
    pub(crate) right: f64,
    /// Share of runs whose safe rate violates the SLO: any safe rate if no rate meets it, or one above the truth if the
    /// limit is not reached.
    pub(crate) violates: f64,
    /// Share of runs that report a positive safe rate.
    pub(crate) positive: f64,
}

fn share(runs: &[Run], is: impl Fn(&Run) -> bool) -> f64 {
    runs.iter().filter(|r| is(r)).count() as f64 / runs.len().max(1) as f64
}

pub(crate) fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len() as f64
}

pub(crate) fn median(xs: &[f64]) -> f64 {
    let mut xs = xs.to_vec();
    xs.sort_by(f64::total_cmp);
    match xs.len() {
        0 => f64::NAN,
        n => 0.5 * (xs[(n - 1) / 2] + xs[n / 2]),
    }
}

impl Score {
    pub(crate) fn of(case: &Case, runs: &[Run]) -> Option<Self> {
        let truth = case.truth.rate.filter(|_| case.right() == Right::Rate)?;
        // A simulated truth has a standard error, so a rate slightly above it is no violation.
        let violation = truth * (1.0 + 2.0 * case.truth.error);
        let errors: Vec<f64> =
            runs.iter().filter_map(|r| Some(100.0 * (r.answer.rate? / truth).ln())).collect();
        let intervals: Vec<[f64; 2]> = runs.iter().filter_map(|r| r.answer.interval).collect();
        // For a truth with an error, the interval covers it if it overlaps the error.
        let slack = case.truth.error.exp();
        let holds = |[low, high]: &[f64; 2]| *low <= truth * slack && truth <= *high * slack;
        let held = intervals.iter().filter(|i| holds(i)).count();
        let squares: Vec<f64> = errors.iter().map(|e| e * e).collect();
        let shortfalls: Vec<f64> =
            runs.iter().map(|r| r.answer.safe.map_or(100.0, |s| 100.0 * (1.0 - s / truth))).collect();
        Some(Self {
            bias: mean(&errors),
            rmse: mean(&squares).sqrt(),
            rated: errors.len() as f64 / runs.len() as f64,
            coverage: (!intervals.is_empty()).then(|| held as f64 / intervals.len() as f64),
            violates: share(runs, |r| r.answer.safe.is_some_and(|s| s > violation)),
            shortfall: median(&shortfalls),
            unsafe_share: share(runs, |r| r.answer.safe.is_none()),
            denied: share(runs, |r| r.answer.status == Status::None),
            held: held as f64 / runs.len() as f64,
            named: share(runs, |r| r.answer.names_change),
        })
    }
}

impl StatusScore {
    pub(crate) fn of(case: &Case, runs: &[Run]) -> Option<Self> {
        let (right, bound) = match (case.right(), case.truth.rate) {
            (Right::None, _) => (Status::None, 0.0),
            (Right::NotReached, Some(truth)) => (Status::NotReached, truth),
            (Right::Rate | Right::NotReached, _) => return None,
        };
        Some(Self {
            right: share(runs, |r| r.answer.status == right),
            violates: share(runs, |r| r.answer.safe.is_some_and(|s| s > bound)),
            positive: share(runs, |r| r.answer.safe.is_some_and(|s| s > 0.0)),
        })
    }
}
