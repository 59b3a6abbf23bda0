//! Changes of the server during the measurement: it is throttled, has warmed up, or shares the machine with a load that
//! started or ended.
//!
//! One request at a time is measured repeatedly between the steps of the refinement, always at this one level, and its
//! latencies before and after each possible change are compared. The test uses the medians of TTFT, TPOT and e2e. The
//! logarithm of a median of n values has the standard error 1.2533·σ/√n, where σ is the standard deviation of the
//! logarithm. σ follows from the 90th percentile: ln(p90/p50)/1.2816 (asymptotic variance of a sample median, π/2·σ²/n,
//! for a log-normal distribution), pooled over all baselines. A change is reported if one of the metrics differs by
//! `LEAST` and by `SURE` standard errors between all baselines before and all after it; more is required if those on
//! one side differ among themselves.
//!
//! A server may be throttled under load only. So the median TPOT of the steps near the boundary, to which queueing does
//! not contribute, is regressed on their levels in order of time: ln TPOT = a + b·ln level, plus c from some step on
//! (`segmented.rs`).

use super::log_median::{sigma, variance_under_load};
use super::segmented::{Observation, shift};
use crate::stats::step::{Quantiles, Step, StepKind, Verdict};
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use serde::{Deserialize, Serialize};

/// Least reported change of the logarithm of a median for one request at a time.
///
/// A change costs all evidence before it: for a smaller one, the interval of what is left would widen by more than the answer
/// moves.
const LEAST: f64 = 0.08;
/// Least reported change of the logarithm of a median under load.
const LEAST_LOADED: f64 = 0.1;
/// Least reported change of a median, in ms: in simulated time latencies are whole milliseconds, so a median may move
/// by one without a cause.
const GRAIN_MS: f64 = 1.5;
/// Required difference in standard errors: with three metrics and up to five places of a change, fewer than one steady
/// sweep in a hundred shows a change.
const SURE: f64 = 4.0;
/// Small-sample correction: with this many values σ is twice as uncertain as with many. The fewer there are, the more
/// standard errors are required.
const SMALL: f64 = 6.0;
/// Least number of values for a median of one baseline. The baselines on one side count together, but each needs a
/// median.
const FEW: u64 = 2;
/// Least number of values for a median under load.
const FEW_LOADED: u64 = 100;
/// Lower bound of σ: the resolution of a timer, and the drift of an idle machine from one minute to the next.
const LEAST_SIGMA: f64 = 0.02;
/// Additional standard deviation of the logarithm of a median under load: latency over the level is not exactly a
/// straight line.
const MISFIT: f64 = 0.03;
/// Largest distance of a level from the middle level, in the logarithm, to be compared.
const REACH: f64 = 0.3;
/// Standard error of a median over that of a mean, for normal values: √(π/2).
const MEDIAN: f64 = 1.2533;
/// The median of χ² with one degree of freedom.
const MEDIAN_CHI: f64 = 0.4549;

/// The condition under which a change of the server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// For one request at a time.
    #[default]
    Unloaded,
    /// In the steps near the boundary.
    Loaded,
}

/// A change of the server's speed in the middle of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "ServerChange")]
pub struct Change {
    /// Last time at which the server was still as before, in seconds of the sweep.
    pub after_s: f64,
    /// First time at which it had changed, in seconds of the sweep; the answer rests on the steps from then on.
    pub before_s: f64,
    /// Condition under which the change shows.
    #[serde(default)]
    pub shows: Shows,
    /// Latency metric that shows the change.
    pub metric: Metric,
    /// Median before the change, in milliseconds: for one request at a time, or at the mean level of the steps near the
    /// boundary.
    pub from_ms: f64,
    /// Median after the change, in milliseconds.
    pub to_ms: f64,
}

impl Change {
    /// Returns the speed of the server as a multiple of its speed before.
    pub fn speed(&self) -> f64 {
        self.from_ms / self.to_ms
    }
}

/// The logarithm of the median of a step's values, the standard deviation of their logarithm, and their number.
#[derive(Debug, Clone, Copy)]
struct Median {
    ln: f64,
    sigma: f64,
    n: f64,
}

impl Median {
    fn of(q: &Quantiles, few: u64) -> Option<Self> {
        let (p50, p90) = (q.p50.filter(|p| *p > 0.0)?, q.p90?);
        let sigma = sigma(p50, p90, LEAST_SIGMA);
        (q.n >= few).then(|| Self { ln: p50.ln(), sigma, n: q.n as f64 })
    }

    /// Returns the mean of several medians, weighted by their numbers of values, with σ² pooled with these weights.
    fn mean(of: &[Self]) -> Option<Self> {
        let n: f64 = of.iter().map(|m| m.n).sum();
        let mean = |f: fn(&Self) -> f64| of.iter().map(|m| m.n * f(m)).sum::<f64>() / n;
        (n > 0.0).then(|| Self { ln: mean(|m| m.ln), sigma: mean(|m| m.sigma.powi(2)).sqrt(), n })
    }
}

/// Returns the last change of the server that the steps of a series show.
pub(super) fn last_change(steps: &[&Step]) -> Option<Change> {
    let baselines: Vec<&Step> =
        steps.iter().copied().filter(|s| s.kind == StepKind::Baseline && s.abort.is_none()).collect();
    let mut from = 0;
    let mut last = None;
    // There may be several changes: after one, the baselines before it are left out.
    while let Some((at, change)) = first(&baselines[from..]) {
        from += at;
        last = Some(change);
    }
    under_load(&current(steps, last)).or(last)
}

/// Returns the clearest change within some baselines, with the index of the first baseline after it.
fn first(baselines: &[&Step]) -> Option<(usize, Change)> {
    let splits =
        Metric::PRINCIPAL.into_iter().flat_map(|metric| (1..baselines.len()).map(move |at| (metric, at)));
    let tested = splits.filter_map(|(metric, at)| {
        let of = |steps: &[&Step]| -> Vec<Median> {
            steps.iter().filter_map(|s| Median::of(&s.quantiles(metric), FEW)).collect()
        };
        let (earlier, later) = (of(&baselines[..at]), of(&baselines[at..]));
        let (before, after) = (Median::mean(&earlier)?, Median::mean(&later)?);
        let sigma = Median::mean(&[before, after])?.sigma;
        let by = after.ln - before.ln;
        let se = MEDIAN * sigma * (before.n.recip() + after.n.recip()).sqrt();
        let scatter = scatter(&[&earlier, &later], sigma);
        let z = by.abs() / (se * scatter.sqrt()) / (1.0 + SMALL / (before.n + after.n));
        let change = Change {
            after_s: baselines[at - 1].ended_s,
            before_s: baselines[at].started_s,
            shows: Shows::Unloaded,
            metric,
            from_ms: before.ln.exp(),
            to_ms: after.ln.exp(),
        };
        // TPOT is a mean over many gaps, so the resolution does not affect it.
        let seen = metric == Metric::Tpot || (change.to_ms - change.from_ms).abs() > GRAIN_MS;
        (by.abs() >= LEAST && z >= SURE && seen).then_some((z, at, change))
    });
    tested.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at, change)| (at, change))
}

/// Returns the factor by which the variance between successive medians exceeds what `sigma` explains, at least 1: the
/// median of their squared differences over their variances, divided by that of χ² with one degree of freedom. Medians
/// of two kinds of requests jump between the two at any time; a later change is only one difference of several.
fn scatter(sides: &[&[Median]], sigma: f64) -> f64 {
    let of = |pair: &[Median]| {
        let variance = (MEDIAN * sigma).powi(2) * (pair[0].n.recip() + pair[1].n.recip());
        (pair[1].ln - pair[0].ln).powi(2) / variance
    };
    let mut all: Vec<f64> = sides.iter().flat_map(|side| side.windows(2).map(of)).collect();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 | 1 => 1.0,
        n => (0.5 * (all[(n - 1) / 2] + all[n / 2]) / MEDIAN_CHI).max(1.0),
    }
}

/// Returns a change that shows in the median TPOT of the steps near the boundary. Conversations are excluded: they grow
/// and fill a cache from step to step.
fn under_load(steps: &[&Step]) -> Option<Change> {
    let near = |s: &&&Step| {
        let told = s.abort.is_none() && s.verdict != Verdict::Invalid && s.stable != Some(false);
        told && s.kind.is_near_boundary() && s.level.control != Control::Sessions
    };
    let points = steps.iter().filter(near).filter_map(|s| {
        let median = Median::of(&s.quantiles(Metric::Tpot), FEW_LOADED)?;
        let variance = variance_under_load((MEDIAN * median.sigma).powi(2), median.n) + MISFIT.powi(2);
        Some((*s, Observation { x: s.level.value.ln(), y: median.ln, variance }))
    });
    let points: Vec<(&Step, Observation)> = points.collect();
    let mut levels: Vec<f64> = points.iter().map(|(_, p)| p.x).collect();
    levels.sort_by(f64::total_cmp);
    let middle = levels.get(levels.len() / 2)?;
    let (near, points): (Vec<&Step>, Vec<Observation>) =
        points.into_iter().filter(|(_, p)| (p.x - middle).abs() <= REACH).unzip();
    let shift = shift(&points).filter(|s| s.by.abs() >= LEAST_LOADED)?;
    let mean = points.iter().map(|p| p.y).sum::<f64>() / points.len() as f64;
    let after = (points.len() - shift.at) as f64 / points.len() as f64;
    let from = mean - shift.by * after;
    Some(Change {
        after_s: near[shift.at - 1].ended_s,
        before_s: near[shift.at].started_s,
        shows: Shows::Loaded,
        metric: Metric::Tpot,
        from_ms: from.exp(),
        to_ms: (from + shift.by).exp(),
    })
}

/// Returns the time, in seconds of the sweep, from which on steps describe the server after its last change.
pub(super) fn since(change: Option<Change>) -> f64 {
    change.map_or(f64::NEG_INFINITY, |c| c.before_s)
}

/// Returns the steps after the last change of the server; all of them if it did not change.
pub(super) fn current<'a>(steps: &[&'a Step], change: Option<Change>) -> Vec<&'a Step> {
    let since = since(change);
    steps.iter().copied().filter(|s| s.started_s >= since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::series::tests::step;
    use crate::stats::step::Verdict;
    use goodput_core::level::Level;

    fn baseline(at_s: f64, p50: f64, p90: f64, n: u64) -> Step {
        let mut s = step(Level::concurrency(1), Verdict::Meets);
        (s.kind, s.started_s, s.ended_s) = (StepKind::Baseline, at_s, at_s + 10.0);
        let q = Quantiles { n, p50: Some(p50), p90: Some(p90), ..Quantiles::default() };
        s.latency = [(Metric::Tpot, q)].into();
        s
    }

    fn at(medians: &[f64], n: u64) -> Option<(f64, f64)> {
        let steps: Vec<Step> =
            medians.iter().enumerate().map(|(i, m)| baseline(100.0 * i as f64, *m, 1.1 * m, n)).collect();
        last_change(&steps.iter().collect::<Vec<_>>()).map(|c| (c.after_s, c.before_s))
    }

    #[test]
    fn a_change_of_speed_is_found_where_it_is() {
        // σ = ln 1.1 / 1.28 = 7.4 %: the median of 50 has a standard error of 1.3 %.
        for (what, medians, n, want) in [
            ("steady", &[20.0, 20.1, 19.9, 20.2][..], 50, None),
            ("a tenth slower", &[20.0, 20.1, 22.1, 22.0], 50, Some((110.0, 200.0))),
            ("a tenth, by few requests", &[20.0, 20.1, 22.1, 22.0], 6, None),
            ("too little to matter", &[20.0, 20.0, 21.4, 21.4], 5000, None),
            ("slower, and then faster", &[20.0, 20.0, 30.0, 30.0, 20.0, 20.0], 50, Some((310.0, 400.0))),
            ("only one", &[20.0], 50, None),
            ("between two kinds of requests", &[20.0, 26.0, 20.0, 26.0, 26.0, 20.0, 26.0, 26.0], 50, None),
        ] {
            assert_eq!(at(medians, n), want, "{what}");
        }
    }

    #[test]
    fn a_change_that_only_load_shows_is_found() {
        // TPOT rises with the root of the level; from the fourth step on it is a quarter longer.
        let levels = [10.0, 9.0, 10.5, 9.5, 8.5, 10.2];
        let steps = |longer: f64| -> Vec<Step> {
            let of = |(i, level): (usize, &f64)| {
                let mut s = baseline(
                    150.0 * i as f64,
                    20.0 * level.sqrt() * if i >= 3 { longer } else { 1.0 },
                    0.0,
                    1500,
                );
                s.latency.values_mut().for_each(|q| q.p90 = q.p50.map(|p| 1.3 * p));
                (s.kind, s.level) = (StepKind::Refine, Level::rate(*level));
                s
            };
            levels.iter().enumerate().map(of).collect()
        };
        let found = |longer| last_change(&steps(longer).iter().collect::<Vec<_>>());
        let change = found(1.25).unwrap();
        assert_eq!((change.shows, change.after_s, change.before_s), (Shows::Loaded, 310.0, 450.0));
        assert!((change.speed() - 0.8).abs() < 0.005, "{change:?}");
        assert_eq!(found(1.0), None);
    }

    /// The standard error of the logarithm of a median agrees with the formula, and steady servers hardly ever look
    /// changed.
    #[test]
    fn steady_servers_seldom_look_changed() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let mut draw = |n: usize| {
            let mut values: Vec<f64> = (0..n)
                .map(|_| {
                    let (u, v): (f64, f64) = (rng.random(), rng.random());
                    20.0 * (0.4 * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()).exp()
                })
                .collect();
            values.sort_by(f64::total_cmp);
            (values[n / 2], values[9 * n / 10])
        };
        let changed = (0..400).filter(|_| {
            let steps: Vec<Step> = (0..5)
                .map(|i| {
                    let (p50, p90) = draw(40);
                    baseline(100.0 * f64::from(i), p50, p90, 40)
                })
                .collect();
            last_change(&steps.iter().collect::<Vec<_>>()).is_some()
        });
        let count = changed.count();
        assert!(count <= 8, "{count} of 400 sweeps of a steady server");
    }
}
