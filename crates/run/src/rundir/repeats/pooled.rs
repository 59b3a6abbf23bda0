//! The pooled answer of several runs.

use super::RepeatedRun;
use crate::rundir::derive::interval;
use goodput_core::level::Control;
use goodput_stats::search::answer::{Answer, Goodput, Status};
use goodput_stats::stats::meta::{Pooled, Study};
use serde::Serialize;

/// Confidence of the safe rate if the plan lists its levels and so names none.
pub const CONFIDENCE: f64 = 0.95;
/// Probability of the intervals, equal to that of a single run.
const LEVEL: f64 = 0.9;
/// Standard normal quantile of the upper end of a 90 % interval.
const Z90: f64 = 1.644_853_626_951_472_6;

/// A reason why the pooled answer is weaker than intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shortfall {
    /// Fewer than two runs have a rate with an interval, so nothing can be pooled.
    TooFewRates,
    /// Only two runs have a rate with an interval: too few to predict the next run.
    NoPrediction,
    /// Some runs found that no rate meets the SLO while others found one: the mean over the others would be too high.
    Contradiction,
    /// At least half of the runs have no rate with an interval.
    Minority,
}

/// The pooled answer of several runs, for one series, tier and class.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PooledAnswer {
    /// Name of the series.
    pub series: String,
    /// Tier of the SLO.
    pub tier: String,
    /// Class of requests; `all` if there is only one.
    pub class: String,
    /// The kind of level.
    pub control: Control,
    /// Status of the pooled answer.
    pub status: Status,
    /// Number of runs that have such an answer.
    pub runs: u32,
    /// Number of runs with a rate and an interval; the pooled figures are based on these.
    pub pooled: u32,
    /// Number of runs with the status found.
    pub found: u32,
    /// Number of runs with the status none.
    pub none: u32,
    /// Number of runs with the status not-reached.
    pub not_reached: u32,
    /// Number of runs with the status undecided.
    pub undecided: u32,
    /// Number of runs with the status invalid.
    pub invalid: u32,
    /// The mean over runs: the exponential of the mean of ln r\*.
    pub rate: Option<f64>,
    /// 90 % interval of that mean (Hartung and Knapp).
    pub interval90: Option<[f64; 2]>,
    /// 90 % prediction interval for the boundary of the next run; `None` for fewer than three runs with a rate.
    pub prediction90: Option<[f64; 2]>,
    /// Rate that is safe in the next run at the plan's confidence; `None` if the runs do not support one.
    pub safe_rate: Option<f64>,
    /// Standard deviation of ln r\* between runs, τ (0.03 is about 3 %).
    pub between_sd: Option<f64>,
    /// Typical standard deviation of ln r\* within a run: the root of the mean variance of the runs' own intervals.
    pub within_sd: Option<f64>,
    /// Highest level that every found run met, and lowest that any of them failed, if the runs have brackets but no
    /// intervals. For runs that all met their highest level: that level, without an upper end.
    pub bracket: Option<[Option<f64>; 2]>,
    /// Confidence of the safe rate.
    pub confidence: f64,
    /// Reasons why the pooled answer is weaker than intended.
    pub shortfalls: Vec<Shortfall>,
}

/// Pools the answers of runs, for every series, tier and class that any of them answers.
pub(super) fn of_runs(runs: &[RepeatedRun], confidence: f64) -> Vec<PooledAnswer> {
    let mut keys: Vec<&Answer> = Vec::new();
    for answer in runs.iter().flat_map(|run| &run.answers) {
        if !keys.iter().any(|key| is_same(key, answer)) {
            keys.push(answer);
        }
    }
    let of_key = |key: &Answer| {
        let own: Vec<&Goodput> = runs
            .iter()
            .flat_map(|r| r.answers.iter().find(|a| is_same(key, a)))
            .map(|a| &a.goodput)
            .collect();
        PooledAnswer::of(key, &own, confidence)
    };
    keys.into_iter().map(of_key).collect()
}

/// Returns true if two answers belong to one series, tier and class.
fn is_same(a: &Answer, b: &Answer) -> bool {
    (&a.series, &a.tier, &a.class) == (&b.series, &b.tier, &b.class)
}

/// Returns the logarithm of a run's rate and its variance, from the 90 % interval under a normal approximation;
/// `None` if there is no rate, no interval, or one that begins at zero.
pub fn study(goodput: &Goodput) -> Option<Study> {
    let (rate, [low, high]) = interval(goodput).filter(|_| goodput.status() == Status::Found)?;
    let sound = low > 0.0 && low <= rate && rate <= high && high.is_finite();
    sound.then(|| Study { value: rate.ln(), variance: ((high / low).ln() / (2.0 * Z90)).powi(2) })
}

impl PooledAnswer {
    /// Pools the goodputs of runs; series, tier, class and control are those of `key`.
    pub fn of(key: &Answer, goodputs: &[&Goodput], confidence: f64) -> Self {
        let count = |status| goodputs.iter().filter(|g| g.status() == status).count() as u32;
        let studies: Vec<Study> = goodputs.iter().filter_map(|g| study(g)).collect();
        let all = goodputs.len() as u32;
        let pooled = Pooled::of(&studies);
        let [found, none, not_reached] = [Status::Found, Status::None, Status::NotReached].map(count);
        let bracket = bracket(goodputs, &studies);
        let shortfalls = shortfalls(studies.len() as u32, all, none, bracket.is_some());
        let status = match () {
            () if all == 0 => Status::Undecided,
            () if none == all => Status::None,
            () if not_reached == all => Status::NotReached,
            () if bracket.is_some() && found == all => Status::Found,
            () if pooled.is_some() && shortfalls.iter().all(|s| *s == Shortfall::NoPrediction) => {
                Status::Found
            }
            () => Status::Undecided,
        };
        let of_rate = |x: f64| x.exp();
        let ends = |ends: Option<[f64; 2]>| ends.map(|ends| ends.map(of_rate));
        let safe =
            pooled.as_ref().filter(|_| shortfalls.is_empty()).and_then(|p| p.predicted_above(confidence));
        let within = studies.iter().map(|s| s.variance).sum::<f64>() / studies.len().max(1) as f64;
        Self {
            series: key.series.clone(),
            tier: key.tier.clone(),
            class: key.class.clone(),
            control: key.control,
            status,
            runs: all,
            pooled: studies.len() as u32,
            found,
            none,
            not_reached,
            undecided: count(Status::Undecided),
            invalid: count(Status::Invalid),
            rate: pooled.as_ref().map(|p| of_rate(p.mean)),
            interval90: ends(pooled.as_ref().and_then(|p| p.interval(LEVEL))),
            prediction90: ends(pooled.as_ref().and_then(|p| p.prediction(LEVEL))),
            safe_rate: safe.map(of_rate),
            between_sd: pooled.as_ref().map(|p| p.between.sqrt()),
            within_sd: (!studies.is_empty()).then(|| within.sqrt()),
            bracket,
            confidence,
            shortfalls,
        }
    }
}

/// Returns the shortfalls from the number of pooled runs, of all runs, of runs without any rate, and the presence of
/// a bracket.
fn shortfalls(pooled: u32, all: u32, none: u32, bracketed: bool) -> Vec<Shortfall> {
    let mut found = Vec::new();
    if none > 0 && none < all {
        found.push(Shortfall::Contradiction);
    }
    match pooled {
        _ if bracketed => {}
        0 | 1 => found.push(Shortfall::TooFewRates),
        2 => found.push(Shortfall::NoPrediction),
        _ => {}
    }
    if pooled >= 2 && 2 * pooled <= all {
        found.push(Shortfall::Minority);
    }
    found
}

/// Returns the bracket of runs that give no intervals.
fn bracket(goodputs: &[&Goodput], studies: &[Study]) -> Option<[Option<f64>; 2]> {
    if !studies.is_empty() || goodputs.is_empty() {
        return None;
    }
    let least = |of: fn(&Goodput) -> Option<f64>| {
        let all: Option<Vec<f64>> = goodputs.iter().map(|g| of(g)).collect();
        all?.into_iter().reduce(f64::min)
    };
    if goodputs.iter().all(|g| g.status() == Status::NotReached) {
        return Some([Some(least(|g| g.rate().or(g.bracket.met))?), None]);
    }
    let bracketed = goodputs.iter().all(|g| g.status() == Status::Found);
    bracketed.then_some(())?;
    Some([Some(least(|g| g.bracket.met)?), Some(least(|g| g.bracket.failed)?)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::repeats::State;
    use goodput_stats::fixture::{answered, conclusion};
    use goodput_stats::search::answer::Conclusion;

    fn found(rate: f64, half: f64) -> Goodput {
        let [low, high] = [rate * (1.0 - half), rate * (1.0 + half)];
        answered(conclusion(Status::Found, Some(rate), Some([low, high]), Some(low)), None, None)
    }

    fn none() -> Goodput {
        answered(Conclusion::None, None, Some(1.0))
    }

    fn pooled(goodputs: &[Goodput]) -> PooledAnswer {
        let run = |(i, goodput): (usize, &Goodput)| RepeatedRun {
            run: i as u32 + 1,
            folder: String::new(),
            seed: 1,
            started: None,
            state: State::Done,
            answers: vec![Answer {
                series: "main".into(),
                tier: String::new(),
                class: "all".into(),
                control: Control::Rate,
                goodput: goodput.clone(),
                joint_goodput: goodput.clone(),
                knee: None,
            }],
        };
        let runs: Vec<RepeatedRun> = goodputs.iter().enumerate().map(run).collect();
        of_runs(&runs, CONFIDENCE).remove(0)
    }

    #[test]
    fn three_runs_have_a_mean_and_a_prediction() {
        let p = pooled(&[found(10.0, 0.05), found(10.5, 0.05), found(9.6, 0.05)]);
        assert_eq!((p.status, p.runs, p.pooled), (Status::Found, 3, 3));
        assert!(p.rate.is_some_and(|r| (r - 10.03).abs() < 0.02), "{p:?}");
        let ([low, high], [next_low, next_high]) = (p.interval90.unwrap(), p.prediction90.unwrap());
        assert!(next_low < low && low < 10.0 && high > 10.1 && next_high > high, "{p:?}");
        assert!((p.safe_rate.unwrap() - next_low).abs() < 1e-9, "both are the 5 % quantile");
        assert!(p.shortfalls.is_empty());
    }

    #[test]
    fn two_runs_have_a_mean_and_no_prediction() {
        let p = pooled(&[found(10.0, 0.05), found(10.5, 0.05)]);
        assert_eq!((p.status, p.prediction90, p.safe_rate), (Status::Found, None, None));
        assert_eq!(p.shortfalls, [Shortfall::NoPrediction]);
        assert!(p.interval90.is_some());
    }

    /// Row: the runs, the pooled status, the number of pooled runs, and the shortfalls.
    #[test]
    fn runs_without_a_rate_are_counted_and_not_dropped() {
        let undecided = || answered(Conclusion::OPEN, Some(3.0), None);
        let open = || answered(conclusion(Status::Found, Some(5.0), Some([0.0, 9.0]), Some(1.0)), None, None);
        let reached = || answered(conclusion(Status::NotReached, Some(20.0), None, None), Some(20.0), None);
        let listed =
            |met, failed| answered(conclusion(Status::Found, Some(met), None, None), Some(met), Some(failed));
        use Shortfall::{Contradiction, Minority, NoPrediction, TooFewRates};
        for (runs, status, used, shortfalls) in [
            (
                vec![found(10.0, 0.1), found(10.0, 0.1), found(10.0, 0.1), undecided()],
                Status::Found,
                3,
                vec![],
            ),
            (
                vec![found(10.0, 0.1), found(10.0, 0.1), found(10.0, 0.1), none()],
                Status::Undecided,
                3,
                vec![Contradiction],
            ),
            (vec![found(10.0, 0.1), undecided()], Status::Undecided, 1, vec![TooFewRates]),
            (vec![found(10.0, 0.1), found(10.0, 0.1), open()], Status::Found, 2, vec![NoPrediction]),
            (
                vec![found(10.0, 0.1), found(10.0, 0.1), undecided(), undecided()],
                Status::Undecided,
                2,
                vec![NoPrediction, Minority],
            ),
            (vec![none(), none()], Status::None, 0, vec![TooFewRates]),
            (vec![reached(), reached()], Status::NotReached, 0, vec![]),
            (vec![listed(20.0, 25.0), listed(15.0, 20.0)], Status::Found, 0, vec![]),
            (vec![listed(20.0, 25.0), undecided()], Status::Undecided, 0, vec![TooFewRates]),
        ] {
            let p = pooled(&runs);
            assert_eq!((p.status, p.pooled, &p.shortfalls), (status, used, &shortfalls), "{runs:?}");
            assert_eq!(p.found + p.none + p.not_reached + p.undecided + p.invalid, p.runs);
            assert!(shortfalls.is_empty() || p.safe_rate.is_none(), "{p:?}");
        }
        assert_eq!(pooled(&[listed(20.0, 25.0), listed(15.0, 20.0)]).bracket, Some([Some(15.0), Some(20.0)]));
        assert_eq!(pooled(&[reached(), reached()]).bracket, Some([Some(20.0), None]));
    }
}
