//! What the steps say of each limit of a tier, and how much each step weighs.

use super::ease::ease;
use super::edge::unseen;
use super::fit::{Fit, Row};
use super::prior::{Ease, bursts};
use super::scatter;
use crate::search::change::Change;
use crate::search::refused::served;
use crate::stats::cluster::{inflation, is_near_boundary};
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use goodput_core::level::Control;

/// Under load shorter than this many end-to-end times a step has not seen the steady state: that it holds is no evidence.
const STEADY: f64 = 5.0;
/// The assumed inflation: this times a power of the slope at the boundary, and at least …
const PER_SLOPE: f64 = 1.3;
const SLOPE_POWER: f64 = 1.3;
const LEAST_PRIOR: f64 = 1.5;
/// Weight of what was counted before the server changed, at its rate times the change of speed: a hint where to look, and hardly more.
const OUTDATED: f64 = 0.05;
/// How fast clusters grow with the level, per slope.
const GROWTH: f64 = 0.3;

/// One step as evidence on one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Count {
    pub(super) rate: f64,
    pub(super) n: f64,
    pub(super) misses: f64,
    cluster_sq: f64,
    /// Arrivals that are independent: requests, or conversations.
    arrivals: f64,
    /// Whether the server has changed since.
    outdated: bool,
    /// Whether it was a short step of the ramp that was stopped for its misses.
    stopped: bool,
}

impl Count {
    /// Returns how many requests are worth one for what its own clusters say, where they say more than those of other steps: a short step was
    /// stopped because its misses were many, so their number says less than that of a step whose length was fixed.
    fn own_inflation(&self) -> f64 {
        if self.stopped && self.misses > 0.0 { self.cluster_sq / self.misses } else { 1.0 }
    }
}

/// What all steps say of one limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evidence {
    pub(super) limit: String,
    pub(super) p0: f64,
    pub(super) counts: Vec<Count>,
    bursts: f64,
    pub(super) ease: Ease,
}

impl Evidence {
    pub(super) fn of(
        steps: &[&Step],
        tier: &str,
        limit: &str,
        p0: f64,
        e2e_s: f64,
        dispersion: f64,
        change: Option<Change>,
    ) -> Self {
        let moved = |s: &&Step| {
            let count = count(s, tier, limit, p0, e2e_s)?;
            let before = change.filter(|c| s.started_s < c.before_s);
            Some(Count {
                rate: count.rate * before.map_or(1.0, |c| c.speed()),
                outdated: before.is_some(),
                ..count
            })
        };
        let counts = steps.iter().filter_map(moved).collect();
        Self {
            limit: limit.to_owned(),
            p0,
            counts,
            bursts: bursts(dispersion),
            ease: ease(steps, tier, limit, p0),
        }
    }

    /// Returns true if another limit has been missed by as many requests in every step, so that it adds nothing.
    pub(super) fn says_as_much_as(&self, other: &Self) -> bool {
        (self.p0 - other.p0).abs() < 1e-12 && self.counts == other.counts && self.ease == other.ease
    }

    /// How many requests are worth one at the boundary e^`centre`: (10·A + Σ C²/g) / (10 + Σ C) over the clusters C of misses in the
    /// steps under load that are not overloaded, at least 1. The assumed A is 1.3·slope^1.3: steep curves are those of long
    /// queues, and long queues make large clusters; bursts of gamma arrivals make them (1 + cv²)/2 times as large (fitted to the truths
    /// of the development cases of the accuracy harness). g is how much larger than at the boundary they are at the step's level.
    fn inflation(&self, slope: f64, centre: Option<f64>) -> f64 {
        let near = self.counts.iter().filter(|c| c.rate > 0.0 && is_near_boundary(c.misses, c.n, self.p0));
        let (misses, sum_sq) = near.fold((0.0, 0.0), |(k, sq), c| {
            let there = centre.map_or(1.0, |x| growth(slope, c.rate.ln() - x));
            (k + c.misses, sq + c.cluster_sq / there)
        });
        let assumed = (PER_SLOPE * slope.powf(SLOPE_POWER)).max(LEAST_PRIOR) * self.bursts;
        inflation(assumed, misses, sum_sq)
    }

    /// The rows of the likelihood, weighted for a boundary near e^`centre` and this slope.
    ///
    /// A step far from the boundary says less of it than its requests do, since no curve is quite the true one: its logarithm of the
    /// odds is taken to be off by clip(slope/2, .3, 1) per unit of ln rate. The variance that this adds is reckoned with the misses that
    /// are expected there and not with those that came, else a lucky step would weigh more.
    pub(super) fn rows(&self, centre: f64, slope: f64) -> Vec<Row> {
        let inflation = self.inflation(slope, Some(centre));
        let misfit = (0.5 * slope).clamp(0.3, 1.0);
        let row = |c: &Count| {
            let weight = if c.rate > 0.0 {
                let d = c.rate.ln() - centre;
                let expected = c.n * (self.p0 * (slope * d).min(5.0).exp()).min(0.6);
                let inflation = (inflation * growth(slope, d)).max(1.0).max(c.own_inflation());
                1.0 / (inflation + misfit.powi(2) * (expected + 1.0) * d * d)
            } else {
                1.0
            };
            self.row(c, weight)
        };
        self.counts.iter().map(row).collect()
    }

    /// How much more the steps scatter about a fitted curve than their weights say ([`scatter`]). Those that are overloaded have no part in it, nor
    /// those of the server as it was before it changed.
    pub(super) fn scatter(&self, rows: &[Row], fit: &Fit) -> f64 {
        let near = |c: &Count| c.rate > 0.0 && !c.outdated && is_near_boundary(c.misses, c.n, self.p0);
        let told = self.counts.iter().zip(rows).filter(|(c, _)| near(c));
        scatter::of(told.map(|(_, row)| scatter::deviance(row, fit.mean_share(row.rate))), fit.smooth())
    }

    /// The rows of the very first pass, when neither boundary nor slope are known.
    pub(super) fn first_rows(&self) -> Vec<Row> {
        let inflation = self.inflation(4.0, None);
        let weight = |c: &Count| if c.rate > 0.0 { 1.0 / (inflation + 0.1 * c.misses) } else { 1.0 };
        self.counts.iter().map(|c| self.row(c, weight(c))).collect()
    }

    fn row(&self, c: &Count, weight: f64) -> Row {
        let weight = if c.outdated { OUTDATED * weight } else { weight };
        Row { rate: c.rate, n: c.n, misses: c.misses, weight, unseen: unseen(self.bursts, c.arrivals) }
    }
}

/// How much larger clusters are at e^d times the boundary than at it.
///
/// In an M/M/1 queue they grow as 1/(1 − ρ)², which near the boundary is this power of the rate for one whose misses rise with the
/// slope; taken over for other servers.
fn growth(slope: f64, d: f64) -> f64 {
    (GROWTH * slope * d.clamp(-1.0, 0.2)).exp()
}

/// What a step says of a limit, if anything. Requests that were cut off before it could be told are judged both ways: a step that holds
/// must hold if all of them missed, and then they count as misses; one that fails does so without them.
fn count(step: &Step, tier: &str, limit: &str, p0: f64, e2e_s: f64) -> Option<Count> {
    let row = step.row(tier, limit).filter(|r| r.verdict != Verdict::Invalid && r.n > 0)?;
    let each = row.per_request(step.due_n);
    let [n, misses, cut] = [row.n, row.misses, row.censored].map(|x| x as f64 / each);
    let loaded = step.kind != StepKind::Baseline;
    let (misses, n) = if loaded { (misses, n) } else { served(step, row, (misses, n))? };
    let holds = misses <= p0 * (n - cut);
    let ended = step.unanswered() || matches!(step.abort, Some(Abort::Gross | Abort::Errors));
    let failed = row.verdict == Verdict::Fails || (ended && !holds);
    let short = step.kind == StepKind::Ramp && STEADY * e2e_s > step.measure_s;
    if (loaded && !failed && (short || (holds && misses + cut > p0 * n))) || n - cut <= 0.0 {
        return None;
    }
    let (n, misses) = if holds && loaded { (n, misses + cut) } else { (n - cut, misses) };
    let rate = if loaded { step.effective_level() } else { 0.0 };
    let sessions = step.level.control == Control::Sessions;
    let arrivals = if sessions { n.min(step.level.value * step.measure_s) } else { n };
    let stopped = matches!(step.kind, StepKind::Ramp | StepKind::Refine) && step.abort == Some(Abort::Gross);
    Some(Count {
        rate,
        n,
        misses,
        cluster_sq: row.cluster_sq as f64 / each.powi(2),
        arrivals,
        outdated: false,
        stopped,
    })
}
