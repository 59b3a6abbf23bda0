//! The refinement: steps between the highest level that does not fail and the lowest that does. First one or two at the likely
//! boundary, to see where it is; then whichever rate and window can be expected to narrow the bracket most in the time left.
//!
//! Where to measure is a guess from [`Curve`]; what a step shows is its own verdict.

use super::adaptive::{Policy, Seen, limits, round};
use super::ask::{Ask, Ends};
use super::curve::{Curve, Evidence};
use super::stop::Stop;
use crate::level::Level;
use crate::stats::cluster::pooled_inflation;
use crate::stats::step::{Step, StepKind, Verdict};
use crate::stats::verdict::{GROSS, GROSS_INFLATION, error_per_look, foreseen, gross};
use std::time::Duration;

/// Looks at a step that may be decided early. One that needs all the time left has a single one, at its end: looks cost
/// requests.
const LOOKS: u32 = 2;
/// A step at the likely boundary takes at most this share of the budget …
const LOCATE_SHARE: f64 = 0.1;
/// … and there are at most so many, while ln r* is known no better than this.
const LOCATE_STEPS: usize = 2;
const LOCATE_SPREAD: f64 = 0.15;
/// With ln r* known no better than this a step has to look for it, however short the time.
const LOST: f64 = 0.6;
/// No step is shorter than this share of the budget.
const LEAST_SHARE: f64 = 0.02;
/// A level this far below the likely boundary has few misses.
const BELOW: f64 = 0.75;
/// Shares of the time left that a step may take, with its looks. A shorter one leaves time for the next …
const WINDOWS: [(f64, u32); 5] = [(0.15, LOOKS), (0.35, LOOKS), (0.6, LOOKS), (0.8, 1), (1.0, 1)];
/// … and is taken where its gain is at least this share of the best one's.
const AS_GOOD: f64 = 0.85;
/// A step with less gain than this is not worth its time.
const LEAST_GAIN: f64 = 0.02;
/// A level this far below one that was beyond the client may be within it.
const CLIENT: f64 = 1.6;
/// Requests that it takes to see a queue grow at 1.05 times the capacity, two standard errors of the arrivals' walk. Limits
/// that count from `due` see it by themselves; a step without one that is to meet has to be so long.
const UNSEEN_QUEUE: f64 = 4000.0;
/// Where no level is shown to meet yet, one is sought from this far below the likely boundary.
const FAR: f64 = 4.0;
/// Rates are tried in steps of this factor …
const GRAIN: f64 = 1.02;
/// … and are the same where ln rate differs by less than this.
const SAME: f64 = 0.01;
/// A level is worth a step if it moves an end of the bracket by more than this factor.
const WORTH: f64 = 1.04;
/// Steps under load shorter than so many end-to-end times have not seen the steady state: what they meet is no evidence.
const STEADY: f64 = 5.0;

/// One limit, as the steps show it.
struct Fitted {
    curve: Curve,
    p0: f64,
    inflation: f64,
}

/// What is known of the bracket.
struct Bracket {
    /// Highest level shown to meet, below the ceiling.
    met: Option<f64>,
    /// Highest level below the ceiling that does not look like missing.
    holds: f64,
    /// Lowest level shown to fail.
    failed: Option<f64>,
    /// Lowest level that failed, missed by far, or was beyond the client: nothing is measured at it or above.
    ceiling: Option<f64>,
    /// Lowest level that was beyond the client.
    client: f64,
    /// The ceiling, or else the highest level of the ramp, up to which levels are measured.
    top: f64,
    /// The likely boundary, and how well it is known.
    edge: f64,
    spread: f64,
    fitted: Vec<Fitted>,
    /// Levels that have been under load already.
    measured: Vec<f64>,
}

/// The next step of the refinement, or why there is none.
pub(super) fn next(policy: &Policy, seen: &Seen<'_>) -> Result<Ask, Stop> {
    let b = Bracket::of(policy, seen);
    if let (Some(met), Some(failed)) = (b.met, b.failed)
        && failed / met <= 1.0 + policy.width
    {
        return Err(Stop::Width { low: met, high: failed });
    }
    if b.ceiling.is_none() && b.met.is_some_and(|met| met >= policy.max_rate * (1.0 - 1e-9)) {
        return Err(Stop::MaxRate { rate: policy.max_rate });
    }
    // Long enough for the requests of before to be over, if there is time for it.
    let settle = policy.times.settle.0.as_secs_f64().max(seen.e2e_s).min(0.1 * policy.budget_s);
    let left = policy.budget_s - seen.spent_s - settle - seen.tail().as_secs_f64() - 1.0;
    if left < (LEAST_SHARE * policy.budget_s).max(1.0) {
        return Err(Stop::Budget { budget_s: policy.budget_s });
    }
    let ask = |rate: f64, window: f64, ends: Ends| Ask {
        level: Level::rate(rate),
        kind: StepKind::Refine,
        settle: Duration::from_secs_f64(settle),
        measure: Duration::from_secs_f64(window),
        extend: false,
        tail: seen.tail(),
        drain: policy.drain(),
        ends,
        confidence: policy.confidence,
    };
    if let Some((rate, window)) = b.locate(policy, seen, left) {
        return Ok(ask(rate, window, Ends::WhenGross));
    }
    let best = b.best(policy, left).ok_or_else(|| {
        let needed_s = b.met.is_none().then(|| b.needed(policy) / (BELOW * b.edge));
        Stop::Resolution { left_s: left, budget_s: policy.budget_s, needed_s }
    })?;
    Ok(ask(best.rate, best.window_s, Ends::WhenDecided { looks: best.looks }))
}

/// A step that may be worth its time.
#[derive(Debug, Clone, Copy)]
struct Worth {
    rate: f64,
    window_s: f64,
    looks: u32,
    /// By how much it can be expected to narrow the bracket: the chance that it shows what it is for, times the change of
    /// ln rate.
    gain: f64,
}

impl Bracket {
    fn of(policy: &Policy, seen: &Seen<'_>) -> Self {
        let levels = |keep: &dyn Fn(&Step) -> bool| {
            seen.loaded.iter().filter(|s| keep(s)).map(|s| s.level.value).collect::<Vec<f64>>()
        };
        let least = |of: Vec<f64>| of.into_iter().min_by(f64::total_cmp);
        let most = |of: Vec<f64>| of.into_iter().max_by(f64::total_cmp);
        let failed = least(levels(&|s| s.stable == Some(false) || policy.verdict(s) == Verdict::Fails));
        let ceiling = least(levels(&|s| policy.too_much(s)));
        let top = ceiling.or_else(|| most(levels(&|_| true))).unwrap_or(policy.max_rate);
        let below = |s: &Step| ceiling.is_none_or(|c| s.level.value < c * (1.0 - 1e-9));
        let met = most(levels(&|s| below(s) && policy.verdict(s) == Verdict::Meets));
        let fitted = fit(policy, seen, top);
        let looks_bad = |s: &Step| {
            limits(&policy.slo).iter().any(|(limit, p0)| {
                policy.row(s, limit).is_some_and(|r| r.misses as f64 > 1.0 + 1.5 * p0 * r.n as f64)
            })
        };
        let holds = most(levels(&|s| below(s) && !looks_bad(s)));
        let nearest = fitted.iter().min_by(|a, b| a.curve.boundary().total_cmp(&b.curve.boundary()));
        // Beyond the top it is not sought: there something else fails first.
        let (edge, spread) = nearest.map_or((top, 0.0), |f| (f.curve.boundary().min(top), f.curve.spread()));
        let measured = levels(&|_| true);
        let holds = holds.unwrap_or(top / FAR);
        let client = least(levels(&|s| policy.verdict(s) == Verdict::Invalid)).unwrap_or(f64::INFINITY);
        Self { met, holds, failed, ceiling, client, top, edge, spread, fitted, measured }
    }

    /// The level at the likely boundary, and a window for it, while the boundary is not known well and there is more time
    /// than it takes to show that a level below it meets.
    fn locate(&self, policy: &Policy, seen: &Seen<'_>, left: f64) -> Option<(f64, f64)> {
        let refined = seen.loaded.len() - seen.ramp.len();
        if refined >= LOCATE_STEPS || (refined > 0 && self.spread < LOCATE_SPREAD) || self.ceiling.is_none() {
            return None;
        }
        let needed = self.needed(policy) / (BELOW * self.edge);
        let spare = (left - needed) / 2.0;
        // Where hardly anything is known, even the last step needs to know more.
        let least_s = if self.spread > LOST { LEAST_SHARE * 2.0 * policy.budget_s } else { 0.0 };
        let window = spare.max(least_s).min(LOCATE_SHARE * policy.budget_s).min(120.0);
        if window < LEAST_SHARE * policy.budget_s || window > left {
            return None;
        }
        if self.edge < self.top / WORTH && self.met.is_none_or(|met| self.edge > met * WORTH) {
            return Some((round(if self.known(self.edge) { self.edge / GRAIN } else { self.edge }), window));
        }
        // A boundary that no limit shows: the middle of what is left.
        (self.holds * WORTH * WORTH < self.top).then(|| (round((self.holds * self.top).sqrt()), window))
    }

    /// Requests without a single miss that it takes to show that every limit is met.
    fn needed(&self, policy: &Policy) -> f64 {
        let least = |f: &Fitted| f.inflation * (1.0 - policy.confidence).ln() / (-f.p0).ln_1p();
        self.fitted.iter().map(least).fold(0.0, f64::max)
    }

    /// The step that can be expected to narrow the bracket most; of those that are nearly as good the shortest.
    fn best(&self, policy: &Policy, longest_s: f64) -> Option<Worth> {
        let least_s = LEAST_SHARE * policy.budget_s;
        let windows = WINDOWS.map(|(share, looks)| (share * longest_s, looks));
        let windows = windows.into_iter().filter(|w| w.0 >= least_s.min(longest_s));
        let mut all: Vec<Worth> = Vec::new();
        for (window_s, looks) in windows {
            let error = error_per_look(policy.confidence, looks);
            let worth = |rate: f64, gain: f64| Worth { rate: self.rounded(rate), window_s, looks, gain };
            let long_enough = |rate: &f64| {
                policy.slo.tightest_from_due().is_some() || looks == 1 || rate * window_s >= UNSEEN_QUEUE
            };
            let may_meet = |rate: &f64| *rate <= self.to_meet() && long_enough(rate);
            all.extend(self.rates().into_iter().filter(may_meet).map(|rate| {
                let floor = self.met.unwrap_or(self.edge / FAR);
                worth(rate, (rate / floor).ln() * self.chance_to_meet(rate, window_s, error))
            }));
            // What a level fails by is no answer as long as none is shown to meet.
            if let Some(met) = self.met
                && (self.failed.is_some() || self.ceiling.is_none())
            {
                let failed = self.failed.unwrap_or(2.0 * self.top);
                let above = self.rates().into_iter().filter(|rate| *rate > met * WORTH);
                all.extend(above.map(|rate| {
                    worth(rate, (failed / rate).ln() * self.chance_to_fail(rate, window_s, error))
                }));
            }
        }
        let most = all.iter().map(|w| w.gain).max_by(f64::total_cmp)?;
        // The first level that meets is worth any time.
        let least = if self.met.is_some() { LEAST_GAIN } else { f64::MIN_POSITIVE };
        let good = all.into_iter().filter(|w| w.gain >= (AS_GOOD * most).max(least));
        good.min_by(|a, b| a.window_s.total_cmp(&b.window_s).then(b.gain.total_cmp(&a.gain)))
    }

    /// Rates that would narrow the bracket, or begin it.
    fn rates(&self) -> Vec<f64> {
        let low = self.met.map_or(self.edge / FAR, |met| met * WORTH);
        let high = if self.ceiling.is_some() { self.top / WORTH } else { self.top };
        let all =
            std::iter::successors(Some(high), |rate| Some(rate / GRAIN)).take_while(|rate| *rate >= low);
        let mut all: Vec<f64> = all.filter(|rate| !self.known(*rate)).collect();
        if self.ceiling.is_none() && self.met.is_none_or(|met| met < self.top * (1.0 - 1e-9)) {
            // The highest rate of all is measured again: there is none beside it.
            all.push(self.top);
        }
        all
    }

    /// To three digits, except for the highest rate, which may be the plan's.
    fn rounded(&self, rate: f64) -> f64 {
        if rate >= self.top { self.top } else { round(rate) }
    }

    /// Whether a level as good as this rate has been measured: another verdict on it would only be another chance.
    fn known(&self, rate: f64) -> bool {
        self.measured.iter().any(|level| (level / rate).ln().abs() < SAME)
    }

    /// The highest rate that it makes sense to try to show to meet: half way from what holds to what fails, since no curve of
    /// misses sees what makes a server unstable; and well below what was too much for the client, which chance decides.
    fn to_meet(&self) -> f64 {
        let half_way =
            self.ceiling.map_or(self.top, |c| (self.met.unwrap_or(0.0).max(self.holds).min(c) * c).sqrt());
        half_way.min(self.client / CLIENT)
    }

    /// How likely a step shows that every limit is met. A single miss share per limit decides it: the largest with which it
    /// would be shown.
    fn chance_to_meet(&self, rate: f64, window_s: f64, error: f64) -> f64 {
        let n = rate * window_s;
        let of = |f: &Fitted| {
            let shows = |p: f64| foreseen(p * n, n, f.p0, error, f.inflation) == Verdict::Meets;
            if shows(0.0) { f.curve.chance(rate, 0.0..turn(0.0, f.p0, shows)) } else { 0.0 }
        };
        self.fitted.iter().map(of).product()
    }

    /// How likely a step shows that some limit is missed.
    fn chance_to_fail(&self, rate: f64, window_s: f64, error: f64) -> f64 {
        let n = rate * window_s;
        let of = |f: &Fitted| {
            let hidden = |p: f64| {
                foreseen(p * n, n, f.p0, error, f.inflation) != Verdict::Fails
                    && gross((p * n) as u64, n as u64, f.p0, GROSS_INFLATION) <= GROSS
            };
            f.curve.chance(rate, turn(f.p0, 1.0, hidden)..1.0)
        };
        self.fitted.iter().map(of).fold(0.0, f64::max)
    }
}

/// Where `holds`, true at `low`, turns false, up to `high`.
fn turn(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..12 {
        let middle = 0.5 * (low + high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// A curve for each limit that allows some misses. The boundary is sought from a tenth of the lowest rate under load to ten
/// times the highest.
fn fit(policy: &Policy, seen: &Seen<'_>, top: f64) -> Vec<Fitted> {
    let lowest = seen.loaded.iter().map(|s| s.level.value).fold(top, f64::min);
    let some = limits(&policy.slo).into_iter().filter(|(_, p0)| *p0 > 0.0);
    let fitted = some.map(|(limit, p0)| {
        let tier = policy.slo.tier();
        let inflation = pooled_inflation(seen.loaded.iter().copied(), None, (tier, &limit), p0);
        let rows: Vec<Evidence> =
            seen.loaded.iter().filter_map(|s| evidence(policy, seen, s, &limit, inflation)).collect();
        Fitted { curve: Curve::fit(&rows, p0, (lowest / 10.0, top * 10.0)), p0, inflation }
    });
    fitted.collect()
}

fn evidence(policy: &Policy, seen: &Seen<'_>, step: &Step, limit: &str, inflation: f64) -> Option<Evidence> {
    let row = policy.row(step, limit).filter(|r| r.n > 0 && r.verdict != Verdict::Invalid)?;
    let steady = step.settle_s + step.measure_s >= STEADY * seen.e2e_s;
    if row.verdict != Verdict::Fails && !steady {
        return None;
    }
    // All gaps of a request are worth one.
    let requests = step.due_n.max(1) as f64;
    let told = row.n.saturating_sub(row.censored) as f64;
    let misses = row.misses as f64;
    let scale = (requests / row.n as f64).min(1.0);
    // A step that ended early was cut at a bad moment; the rate that was asked for is the better measure of its load.
    let rate = match step.abort {
        None if step.offered_rate > 0.0 => step.offered_rate,
        _ => step.level.value,
    };
    Some(Evidence { rate, n: told.max(misses) * scale, misses: misses * scale, inflation })
}
