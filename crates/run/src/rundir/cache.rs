//! Benefit of a warm prefix cache: a series with a cold cache compared with its warm counterpart at a load that both
//! can sustain.

use super::Run;
use super::derive::interval;
use goodput_core::slo::Metric;
use goodput_stats::search::answer::{Answer, Basis, Goodput, Status};
use goodput_stats::stats::step::{Step, StepKind, Verdict};
use goodput_workload::config::Cache;
use serde::Serialize;

/// Largest ratio between two levels that count as equal.
const SAME: f64 = 1.015;
/// Share of the highest common level down to which a level measured by all series is preferred.
const NEARLY: f64 = 0.75;

/// The TTFT of a series at one level, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "WarmthAt")]
pub struct At {
    /// The level; `None` if the server had one request at a time.
    pub level: Option<f64>,
    /// The step at the level, or the two steps between which it is interpolated.
    pub steps: Vec<u32>,
    /// Levels of these steps.
    pub levels: Vec<f64>,
    /// Median TTFT.
    pub p50: f64,
    /// 95 % bounds of the median by rank, assuming independent requests.
    pub p50_bounds: Option<[f64; 2]>,
    /// 99th percentile of TTFT.
    pub p99: Option<f64>,
    /// Share of prompt tokens that the server had in its prefix cache.
    pub hit_rate: Option<f64>,
}

/// A relative change of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RelativeChange")]
pub struct Gain {
    /// Relative change, as a share.
    pub share: f64,
    /// Bounds of the change from the bounds of both figures; conservative, because both are taken at their worst.
    pub bounds: Option<[f64; 2]>,
    /// True if the share is a lower bound: the plan ended the search of the second figure before its limit was found.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Both series of a pair at one load.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Medians {
    /// TTFT with a cold cache.
    pub cold: At,
    /// TTFT with a warm cache.
    pub warm: At,
    /// Relative reduction of the median TTFT.
    pub lower: Gain,
}

/// A pair of series with cold and warm cache, and the benefit of the warm one.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Pair {
    /// Name of the series with the cold cache.
    pub cold: String,
    /// Name of the series with the warm cache.
    pub warm: String,
    /// Relative increase of the goodput, as far as it is known.
    pub goodput: Option<Gain>,
    /// TTFTs on the unloaded server.
    pub unloaded: Option<Medians>,
    /// TTFTs at the highest load that both can sustain.
    pub loaded: Option<Medians>,
    /// TTFTs at every level that both measured, ascending; empty if the search chose the levels.
    pub listed: Vec<Medians>,
}

impl Gain {
    /// Returns the relative reduction from `old` to `new`.
    fn lower(old: (f64, Option<[f64; 2]>), new: (f64, Option<[f64; 2]>)) -> Self {
        let bounds = old.1.zip(new.1).map(|(o, n)| [1.0 - n[1] / o[0], 1.0 - n[0] / o[1]]);
        Self { share: 1.0 - new.0 / old.0, bounds, at_least: false }
    }

    /// Returns the relative increase from `old` to `new`.
    fn higher(old: (f64, Option<[f64; 2]>), new: (f64, Option<[f64; 2]>)) -> Self {
        let bounds = old.1.zip(new.1).filter(|(o, _)| o[0] > 0.0);
        Self {
            share: new.0 / old.0 - 1.0,
            bounds: bounds.map(|(o, n)| [n[0] / o[1] - 1.0, n[1] / o[0] - 1.0]),
            at_least: false,
        }
    }

    /// Returns the gain in goodput. If the plan ended the warm search early, the gain is a lower bound; if it ended
    /// the cold search early, it is unknown.
    fn in_goodput(cold: &Goodput, warm: &Goodput) -> Option<Self> {
        let rate = |g: &Goodput| {
            let estimate = interval(g).map(|(rate, ends)| (rate, Some(ends)));
            estimate.or_else(|| Some((g.rate().or(g.bracket.met)?, None)))
        };
        let ended = |g: &Goodput| g.status() == Status::NotReached;
        match (ended(cold), ended(warm)) {
            (false, false) => Some(Self::higher(rate(cold)?, rate(warm)?)),
            (false, true) => {
                let most = interval(cold).map(|(_, [_, high])| high).or(cold.bracket.failed)?;
                let share = rate(warm)?.0 / most - 1.0;
                (share > 0.0).then_some(Self { share, bounds: None, at_least: true })
            }
            (true, _) => None,
        }
    }
}

impl Pair {
    /// Returns all pairs of series of a run whose names differ only in the state of the cache.
    pub fn all(run: &Run) -> Vec<Self> {
        let [cold, warm] = [Cache::Cold, Cache::Warm].map(Cache::name);
        let partner = |name: &str| {
            let rest = name.strip_suffix(cold).filter(|rest| rest.is_empty() || rest.ends_with(", "))?;
            let wanted = format!("{rest}{warm}");
            run.parts.iter().find(|p| p.series() == wanted)
        };
        run.parts.iter().filter_map(|p| Some(Self::of(p, partner(p.series())?))).collect()
    }

    fn of(cold: &Run, warm: &Run) -> Self {
        let medians = |c: Option<At>, w: Option<At>| {
            let (cold, warm) = (c?, w?);
            let lower = Gain::lower((cold.p50, cold.p50_bounds), (warm.p50, warm.p50_bounds));
            Some(Medians { cold, warm, lower })
        };
        let level = common_level(&[cold, warm]);
        let at = |run: &Run| level.and_then(|level| run.at(level));
        let both =
            if listed(&[cold, warm]) { measured_by_all(&[cold.curve(), warm.curve()]) } else { Vec::new() };
        let of_level = |level: &f64| medians(cold.at(*level), warm.at(*level));
        Self {
            cold: cold.series().to_owned(),
            warm: warm.series().to_owned(),
            goodput: first(cold).zip(first(warm)).and_then(|(c, w)| Gain::in_goodput(c, w)),
            unloaded: medians(cold.unloaded(), warm.unloaded()),
            loaded: medians(at(cold), at(warm)),
            listed: both.iter().filter_map(of_level).collect(),
        }
    }
}

/// Returns the goodput of the first answer, which belongs to the plan's first tier.
fn first(run: &Run) -> Option<&Goodput> {
    run.answers.first().map(|a| &a.goodput)
}

/// Returns the highest level that each of these runs, each of one series, can sustain and has measured or has
/// bracketed by measured levels. Prefers a level that all have measured over one that is a little higher, and over any
/// other if the plan lists the levels.
pub fn common_level(runs: &[&Run]) -> Option<f64> {
    let answers: Vec<&Answer> = runs.iter().map(|r| r.answers.first()).collect::<Option<_>>()?;
    if answers.iter().any(|a| a.control != answers[0].control) {
        return None;
    }
    let listed = listed(runs);
    let curves: Vec<Vec<&Step>> = runs.iter().map(|r| r.curve()).collect();
    let most = |(a, curve): (&&Answer, &Vec<&Step>)| {
        // A list may be too short for a verdict; its latencies are compared all the same where no step fails.
        let unfailed =
            || curve.iter().take_while(|s| s.verdict != Verdict::Fails).last().map(|s| s.level.value);
        a.goodput.rate().or(a.goodput.bracket.met).or_else(|| unfailed().filter(|_| listed))
    };
    let most: Vec<f64> = answers.iter().zip(&curves).map(most).collect::<Option<_>>()?;
    let within = |level: f64| {
        curves.iter().zip(&most).all(|(curve, most)| {
            let ends = curve.first().zip(curve.last());
            let known =
                ends.is_some_and(|(a, b)| a.level.value <= level * SAME && level <= b.level.value * SAME);
            known && level <= most * SAME
        })
    };
    let highest = |all: Vec<f64>| all.into_iter().filter(|l| within(*l)).reduce(f64::max);
    let best = highest(curves.iter().flatten().map(|s| s.level.value).collect());
    let measured = highest(measured_by_all(&curves));
    measured.filter(|m| listed || best.is_none_or(|b| *m >= NEARLY * b)).or(best)
}

/// Returns true if the levels of these runs come from the plan, not from a search.
fn listed(runs: &[&Run]) -> bool {
    runs.iter().all(|r| r.answers.first().is_some_and(|a| a.goodput.basis != Basis::Search))
}

/// Returns the levels of the first curve that all curves have, ascending.
fn measured_by_all(curves: &[Vec<&Step>]) -> Vec<f64> {
    let Some(first) = curves.first() else { return Vec::new() };
    let all = |level: &f64| curves.iter().all(|c| c.iter().any(|s| same(s.level.value, *level)));
    first.iter().map(|s| s.level.value).filter(all).collect()
}

fn same(a: f64, b: f64) -> bool {
    a.max(b) <= a.min(b) * SAME
}

impl Run {
    /// Returns the steps with usable latencies of a run of one series, ascending, one for each level: the longest
    /// one.
    fn curve(&self) -> Vec<&Step> {
        let Some(a) = self.answers.first() else { return Vec::new() };
        let calm = |s: &&Step| {
            !s.kind.is_outside_search()
                && s.level.control == a.control
                && !s.overloaded()
                && s.verdict != Verdict::Invalid
                && s.quantiles(Metric::Ttft).p50.is_some()
        };
        let mut steps: Vec<&Step> = self.steps.iter().filter(calm).collect();
        steps.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
        let mut out: Vec<&Step> = Vec::new();
        for step in steps {
            match out.last_mut() {
                Some(last) if same(last.level.value, step.level.value) => {
                    if step.measure_s > last.measure_s {
                        *last = step;
                    }
                }
                _ => out.push(step),
            }
        }
        out
    }

    /// Returns the TTFT of a step of a run of one series.
    fn shown(&self, step: &Step, level: Option<f64>) -> Option<At> {
        let q = step.quantiles(Metric::Ttft);
        let p50 = q.p50?;
        // The bounds come from 1 % histogram bins and may miss the exact median.
        let bounds = self.view.medians.get(&step.step).map(|[low, high]| [low.min(p50), high.max(p50)]);
        Some(At {
            level,
            steps: vec![step.step],
            levels: vec![step.level.value],
            p50,
            p50_bounds: bounds,
            p99: q.p99,
            hit_rate: step.server.hit_rate,
        })
    }

    /// Returns the unloaded TTFT of a run of one series, from its longest baseline.
    pub fn unloaded(&self) -> Option<At> {
        let baselines = self.steps.iter().filter(|s| s.kind == StepKind::Baseline && !s.overloaded());
        let longest = baselines.max_by(|a, b| a.measure_s.total_cmp(&b.measure_s))?;
        self.shown(longest, None)
    }

    /// Returns the TTFT of a run of one series at a level: from the step there, else interpolated linearly between
    /// its neighbours.
    pub fn at(&self, level: f64) -> Option<At> {
        let curve = self.curve();
        if let Some(step) = curve.iter().find(|s| same(s.level.value, level)) {
            return self.shown(step, Some(level));
        }
        let above = curve.iter().position(|s| s.level.value > level)?;
        let (low, high) = (curve.get(above.checked_sub(1)?)?, curve.get(above)?);
        let part = (level - low.level.value) / (high.level.value - low.level.value);
        let between = |a: f64, b: f64| a + (b - a) * part;
        let (a, b) = (self.shown(low, None)?, self.shown(high, None)?);
        Some(At {
            level: Some(level),
            steps: [a.steps, b.steps].concat(),
            levels: [a.levels, b.levels].concat(),
            p50: between(a.p50, b.p50),
            p50_bounds: a
                .p50_bounds
                .zip(b.p50_bounds)
                .map(|(a, b)| [between(a[0], b[0]), between(a[1], b[1])]),
            p99: a.p99.zip(b.p99).map(|(a, b)| between(a, b)),
            hit_rate: a.hit_rate.zip(b.hit_rate).map(|(a, b)| between(a, b)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::search::answer::{AnswerLevel, Conclusion};

    #[test]
    fn a_pair_is_compared_where_both_can_stand_it() {
        let run = fixture::pair();
        let pairs = Pair::all(&run);
        let [pair] = pairs.as_slice() else { panic!("{pairs:?}") };
        assert_eq!((pair.cold.as_str(), pair.warm.as_str()), ("cold", "warm"));
        let loaded = pair.loaded.as_ref().unwrap();
        let rate = run.parts[0].answers[0].goodput.rate().unwrap();
        assert!(
            loaded.cold.level.is_some_and(|l| (l - 34.0).abs() < 1e-9 && l <= rate * SAME),
            "both have measured it: {rate}"
        );
        assert_eq!((loaded.cold.steps.len(), loaded.warm.steps.len()), (1, 1));
        assert!(loaded.lower.share > 0.2 && loaded.warm.hit_rate > loaded.cold.hit_rate, "{loaded:?}");
        assert!(
            pair.goodput.is_some_and(|g| g.at_least && (g.share - 0.41).abs() < 0.01),
            "48 and more of less than 34, the upper end of the fit: {pair:?}"
        );
        let mut ended = run.clone();
        ended.parts[0].answers[0].goodput.conclusion =
            Conclusion::NotReached { highest: AnswerLevel::new(rate), safe: None };
        assert_eq!(Pair::all(&ended)[0].goodput, None, "both may be anything above");
        assert!(pair.unloaded.is_none(), "no baseline");
        assert_eq!(Pair::all(&fixture::found()), []);
    }

    #[test]
    fn between_two_levels_it_is_in_proportion() {
        let mut run = fixture::pair();
        let part = &mut run.parts[1];
        let at = |part: &Run, level| part.at(level).map(|a| (a.p50, a.steps.len()));
        let ((low, _), (high, _)) = (at(part, 20.0).unwrap(), at(part, 25.0).unwrap());
        let (middle, steps) = at(part, 22.5).unwrap();
        assert!((middle - (low + high) / 2.0).abs() < 1e-9 && steps == 2);
        assert_eq!((at(part, 1.0), at(part, 500.0)), (None, None), "nothing is made up beyond the steps");
        part.view.medians = part.steps.iter().map(|s| (s.step, [10.0, 1e3])).collect();
        assert_eq!(part.at(22.5).unwrap().p50_bounds, Some([10.0, 1e3]));
    }

    /// Levels that only one series measured are compared with values interpolated in the other.
    #[test]
    fn a_level_of_one_series_is_found_in_the_other() {
        let mut run = fixture::pair();
        run.parts[1].steps.retain(|s| ![25.0, 28.0, 30.0, 32.0, 34.0].contains(&s.level.value));
        let listed = Pair::all(&run).remove(0).loaded.unwrap();
        assert_eq!(
            (listed.cold.level, listed.warm.steps.len()),
            (Some(20.0), 1),
            "the plan's levels have priority"
        );
        run.parts.iter_mut().for_each(|part| part.answers[0].goodput.basis = Basis::Search);
        let pair = Pair::all(&run).remove(0);
        let loaded = pair.loaded.unwrap();
        assert_eq!((loaded.cold.level, loaded.cold.steps.len(), loaded.warm.steps.len()), (Some(34.0), 1, 2));
        let g = &mut run.parts[0].answers[0].goodput;
        (g.conclusion, g.bracket.met) = (Conclusion::OPEN, None);
        assert_eq!(Pair::all(&run)[0].loaded, None, "no level is known to be met");
    }

    /// A list of levels without any verdict that meets: the latencies of the levels that both measured are compared.
    #[test]
    fn listed_levels_are_compared_without_an_answer() {
        let mut run = fixture::pair();
        for part in &mut run.parts {
            let g = &mut part.answers[0].goodput;
            (g.conclusion, g.bracket.met, g.basis) = (Conclusion::OPEN, None, Basis::Bracket);
            part.steps.iter_mut().for_each(|s| s.verdict = Verdict::Undecided);
        }
        run.parts[1].steps.retain(|s| s.level.value < 26.0);
        let pair = Pair::all(&run).remove(0);
        let levels: Vec<f64> = pair.listed.iter().filter_map(|m| m.cold.level).collect();
        assert!(levels.len() > 1 && levels.iter().all(|l| *l < 26.0), "{levels:?}");
        let loaded = pair.loaded.unwrap();
        assert_eq!((loaded.cold.level, loaded.warm.steps.len()), (levels.last().copied(), 1));
    }

    #[test]
    fn bounds_take_both_at_their_worst() {
        let gain = Gain::lower((100.0, Some([90.0, 110.0])), (60.0, Some([54.0, 63.0])));
        assert!((gain.share - 0.4).abs() < 1e-12);
        let [low, high] = gain.bounds.unwrap();
        assert!((low - 0.3).abs() < 1e-9 && (high - (1.0 - 54.0 / 110.0)).abs() < 1e-9, "{low} {high}");
        let gain = Gain::higher((20.0, Some([0.0, 22.0])), (30.0, Some([29.0, 31.0])));
        assert!((gain.share - 0.5).abs() < 1e-12 && gain.bounds.is_none(), "no bound where one begins at 0");
    }
}
