//! Goodput under tighter and looser limits, from the recorded requests: every latency limit of the SLO is scaled by a
//! factor.
//!
//! Every step is judged again by the scaled limits, under the rules of the measurement, and the search computes its
//! answer from these verdicts. Nothing new is sent, so nothing is known beyond the levels that were measured for the
//! unscaled SLO: [`Reach`] tells where an answer is bounded by them.

mod monotone;

use super::Run;
use super::requests::RequestRow;
use super::split::searcher;
use super::table::each_row;
use anyhow::Result;
use goodput_core::record::{Failure, Phase};
use goodput_core::slo::{ALL, Slo};
use goodput_core::units::Fraction;
use goodput_plan::{Plan, Series};
use goodput_stats::search::Search;
use goodput_stats::search::answer::{Goodput, Status};
use goodput_stats::stats::compact_record::CompactRecord;
use goodput_stats::stats::itl::ItlTally;
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};
use goodput_stats::stats::summary::{StepInput, rejudged, step_verdict};
use monotone::order;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Scale factors, ascending; 1.0 is the unscaled SLO.
const FACTORS: [f64; 12] = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0];

/// Minimum number of requests for a step that represents its level.
const FEW: u64 = 100;

/// The goodput of a series as a function of the scale of all latency limits in the first tier of its SLO.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SloScale {
    /// One point per factor, ascending.
    pub points: Vec<Scaled>,
    /// Limits that are left out because requests have no values for them: ITL, which is recorded as a histogram only.
    pub without: Vec<String>,
    /// Number of steps under load without recorded requests; these are evidence only by their backlog.
    pub untold: u32,
    /// Lowest and highest level under load that was measured with enough requests.
    pub measured: [f64; 2],
    /// True if the answers are estimates of the adaptive search, false if they are brackets of listed levels.
    pub estimated: bool,
}

/// The answer for one scale factor.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Scaled {
    /// Factor applied to the limits; 1 is the unscaled SLO.
    pub factor: f64,
    /// Goodput under the scaled limits.
    #[serde(flatten)]
    pub goodput: Goodput,
}

/// The range that an answer is known to lie in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reach {
    /// An estimate with its 90 % interval, which starts at 0 if no level is shown to be safe.
    Between {
        /// Median.
        rate: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// True if the upper end lies above every measured level, so that it rests on the fit alone.
        open: bool,
    },
    /// A bracket of two measured levels.
    Bracket {
        /// Highest level shown to meet the limits.
        met: f64,
        /// Lowest level shown to fail them.
        failed: f64,
    },
    /// Lower bound: this level meets the limits, and higher ones were not measured enough.
    AtLeast(f64),
    /// Upper bound: this level fails the limits, and lower ones were not measured enough.
    Below(f64),
    /// No level meets the limits.
    Nothing,
    /// The steps do not decide.
    Unknown,
}

impl SloScale {
    /// Returns the range of the answer of a point.
    pub fn reach(&self, point: &Scaled) -> Reach {
        let g = &point.goodput;
        let most = self.measured[1];
        match (g.status(), g.rate(), g.interval90(), g.bracket.met, g.bracket.failed) {
            // With listed levels the lowest one was chosen for the unscaled SLO, so lower levels remain unknown.
            (Status::None, .., Some(failed)) if !self.estimated => Reach::Below(failed),
            (Status::None, ..) => Reach::Nothing,
            (Status::Invalid, ..) => Reach::Unknown,
            (_, Some(rate), Some([low, high]), ..) => {
                Reach::Between { rate, low, high, open: high > most * (1.0 + 1e-9) }
            }
            (Status::NotReached, Some(rate), ..) => Reach::AtLeast(self.at_least(point, rate)),
            (_, _, _, Some(met), Some(failed)) => Reach::Bracket { met, failed },
            (_, _, _, Some(met), None) => {
                Reach::AtLeast(self.at_least(point, g.safe_rate().map_or(met, |safe| safe.max(met))))
            }
            _ if g.safe_rate().is_some() => {
                g.safe_rate().map_or(Reach::Unknown, |safe| Reach::AtLeast(self.at_least(point, safe)))
            }
            (.., Some(failed)) => Reach::Below(failed),
            _ => Reach::Unknown,
        }
    }

    /// Returns a lower bound for a point: what is shown of tighter limits holds for looser ones.
    fn at_least(&self, point: &Scaled, own: f64) -> f64 {
        let tighter = self.points.iter().filter(|p| p.factor < point.factor);
        let shown = |p: &Scaled| p.goodput.interval90().map(|[low, _]| low).or(p.goodput.safe_or_met());
        tighter.filter_map(shown).fold(own, f64::max)
    }
}

/// Returns the scaled answers of every series, in plan order; `None` for a series without a limit to scale or without
/// requests.
///
/// # Errors
///
/// Fails if `requests.csv` exists but cannot be read.
pub(super) fn read(dir: &Path, run: &Run, series: &[Series]) -> Result<Vec<Option<SloScale>>> {
    let judged = run.purpose.is_goodput() && run.matrix.is_empty();
    let mut all: Vec<Option<Rejudge<'_>>> =
        series.iter().map(|one| Rejudge::new(run, one).filter(|_| judged)).collect();
    if all.iter().all(Option::is_none) {
        return Ok(series.iter().map(|_| None).collect());
    }
    let mut open: Option<(usize, u32)> = None;
    each_row(dir, |row: &mut RequestRow| {
        // Requests of one step are adjacent.
        let own = |(place, step): (usize, u32)| step == row.step && series[place].name == row.series;
        if !open.is_some_and(own) {
            if let Some(done) = open.and_then(|(place, _)| all[place].as_mut()) {
                done.close();
            }
            open = series.iter().position(|s| s.name == row.series).map(|place| (place, row.step));
        }
        if let Some(own) = open.and_then(|(place, _)| all[place].as_mut()) {
            own.add(row);
        }
    })?;
    all.into_iter().map(|one| one.map_or(Ok(None), Rejudge::answer)).collect()
}

/// Judges the steps of a series again while their requests are streamed.
struct Rejudge<'a> {
    plan: &'a Plan,
    search: Search,
    /// One scaled tier for each factor.
    tiers: Vec<Slo>,
    without: Vec<String>,
    classes: Vec<&'a str>,
    /// The steps, with limit rows of all factors once they are judged.
    steps: Vec<Step>,
    /// True for each step that has been judged.
    done: Vec<bool>,
    /// Index of the step whose requests are being read.
    open: Option<usize>,
    records: Vec<CompactRecord>,
    itl: ItlTally,
    /// The answer of the measurement, under the SLO as it stands.
    answer: Option<&'a Goodput>,
}

impl<'a> Rejudge<'a> {
    /// Returns `None` if the SLO has no limit that can be scaled.
    fn new(run: &'a Run, one: &'a Series) -> Option<Self> {
        let tiers = one.plan.slo.as_slice();
        let answered = run.answers.iter().find(|a| a.series == one.name);
        let slo = answered.and_then(|a| tiers.iter().find(|t| t.tier() == a.tier)).or(tiers.first())?;
        let tiers: Vec<Slo> = FACTORS.iter().map(|f| slo.scaled(*f, &name(*f))).collect();
        let limited = |slo: &Slo| slo.limit_groups().iter().any(|p| !p.slo.limits().is_empty());
        let search = searcher(&one.plan).ok().filter(|_| limited(&tiers[0]))?;
        let gaps = |p: &goodput_core::slo::LimitGroup<'_>| -> Vec<String> {
            let itl = p.slo.limits().into_iter().filter(|l| !l.metric.is_per_request());
            itl.map(|l| p.title(&l.to_string())).collect()
        };
        // In measuring order.
        let own = run.steps.iter().filter(|s| s.series == one.name && !s.kind.is_auxiliary());
        let steps: Vec<Step> =
            own.cloned().map(|s| Step { limits: stability_rows(&s, slo.tier()), ..s }).collect();
        Some(Self {
            plan: &one.plan,
            search,
            without: slo.limit_groups().iter().flat_map(gaps).collect(),
            classes: one.plan.workload.classes().iter().map(|c| c.name.as_str()).collect(),
            done: vec![false; steps.len()],
            steps,
            open: None,
            records: Vec::new(),
            itl: ItlTally::new(&[]),
            answer: run
                .answers
                .iter()
                .find(|a| a.series == one.name && a.tier == slo.tier() && a.class == ALL)
                .map(|a| &a.goodput),
            tiers,
        })
    }

    /// Adds a request to its step.
    fn add(&mut self, row: &mut RequestRow) {
        let open = self.open.filter(|at| self.steps[*at].step == row.step);
        self.open = open.or_else(|| self.steps.iter().position(|s| s.step == row.step));
        if self.open.is_some() {
            let class = self.classes.iter().position(|class| *class == row.class).unwrap_or_default();
            row.record.class = class as u16;
            self.records.push(CompactRecord::from(&row.record));
        }
    }

    /// Judges the step whose requests were read, unless their number differs from its row.
    fn close(&mut self) {
        let mut records = std::mem::take(&mut self.records);
        let Some(at) = self.open.take() else { return };
        let step = &self.steps[at];
        if step.abort.is_some() && step.settle_s <= 0.0 {
            // The step ended while settling, so all of its requests count.
            records.iter_mut().for_each(|r| r.phase = Phase::Measure);
        }
        let n = records.iter().filter(|r| r.phase == Phase::Measure).count() as u64;
        if n == step.due_n && n > 0 {
            records.sort_unstable_by_key(|r| (r.due, r.id));
            let mut rows = self.judge(at, &records);
            follow(&mut rows, &self.tiers);
            self.steps[at].limits.extend(rows);
            self.done[at] = true;
        }
        records.clear();
        self.records = records;
    }

    fn judge(&self, at: usize, records: &[CompactRecord]) -> Vec<LimitRow> {
        let s = &self.steps[at];
        let time = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
        rejudged(&StepInput {
            series: &s.series,
            step: s.step,
            kind: s.kind,
            level: s.level,
            started_at: &s.started_at,
            started_s: s.started_s,
            ended_s: s.ended_s,
            settle: time(s.settle_s),
            measure: time(s.measure_s),
            tail: time(s.tail_s),
            drain: time(s.drain_s),
            abort: s.abort,
            records,
            classes: &self.classes,
            itl: &self.itl,
            earlier: &self.steps[..at],
            tiers: &self.tiers,
            receive_lag_p99_ms: s.receive_lag_p99_ms,
            client_busy: s.client_busy,
            client_waiting: s.client_waiting,
            confidence: self.search.confidence(s.kind),
            halts: &[],
            workers: &[],
            client_limit: records.iter().any(|r| r.failure == Some(Failure::ClientLimit)),
            in_flight_limit: None,
            allowed: self.plan.allowed(),
            max_error_share: self.plan.step.max_error_share.map(Fraction::get),
            price_per_hour: None,
        })
    }

    /// Returns the answer for every factor; `None` if no step under load could be judged.
    fn answer(mut self) -> Result<Option<SloScale>> {
        self.close();
        let loaded = || self.steps.iter().zip(&self.done).filter(|(s, _)| s.kind != StepKind::Baseline);
        let told = |least: u64| {
            let own = loaded().filter(move |(s, done)| **done && s.due_n >= least);
            own.map(|(s, _)| s.level.value).fold([f64::INFINITY, 0.0_f64], |[l, h], v| [l.min(v), h.max(v)])
        };
        // As in the estimate, a step with few requests does not count as a measured level.
        let measured = [FEW, 1].map(told).into_iter().find(|[_, high]| *high > 0.0);
        let Some(measured) = measured else { return Ok(None) };
        let untold = loaded().filter(|(_, done)| !**done).count() as u32;
        let point = |(factor, slo): (f64, &Slo)| {
            let steps: Vec<Step> = self.steps.iter().map(|s| under(s, factor, slo)).collect();
            let series = self.steps.first().map_or("", |s| &s.series);
            let goodput = self.search.for_slo(slo).goodput_of(series, &steps);
            goodput.map(|goodput| Scaled { factor, goodput })
        };
        let mut points: Vec<Scaled> = FACTORS.into_iter().zip(&self.tiers).filter_map(point).collect();
        if let (Some(answer), true) = (self.answer, self.without.is_empty()) {
            let unscaled = points.iter_mut().find(|p| is_unscaled(p));
            unscaled.into_iter().for_each(|p| p.goodput = answer.clone());
        }
        order(&mut points);
        Ok(Some(SloScale {
            points,
            without: self.without,
            untold,
            measured,
            estimated: self.search.terms().is_some(),
        }))
    }
}

/// Propagates verdicts between factors: a level that meets a limit meets a looser one, and a level that fails it
/// fails a tighter one. Only undecided rows change, because their assumptions are conservative when misses are few;
/// rows of the unscaled SLO never change, because they were measured.
fn follow(rows: &mut [LimitRow], tiers: &[Slo]) {
    let key = |r: &LimitRow| (r.class.clone(), r.limit.clone());
    let mut keys: Vec<(String, String)> = rows.iter().map(key).collect();
    keys.sort();
    keys.dedup();
    for (class, limit) in keys {
        let own = |tier: &Slo| {
            rows.iter().position(|r| r.tier == tier.tier() && r.class == class && r.limit == limit)
        };
        let places: Vec<usize> = tiers.iter().filter_map(own).collect();
        let mut spread = |places: &mut dyn Iterator<Item = usize>, verdict: Verdict| {
            let mut shown = false;
            for at in places {
                shown |= rows[at].verdict == verdict;
                if shown && rows[at].verdict == Verdict::Undecided && rows[at].tier != name(1.0) {
                    rows[at].verdict = verdict;
                }
            }
        };
        if limit != "error-rate" {
            spread(&mut places.iter().copied(), Verdict::Meets);
            spread(&mut places.iter().rev().copied(), Verdict::Fails);
        }
    }
}

/// Returns a step with the limit rows of one factor only.
fn under(step: &Step, factor: f64, slo: &Slo) -> Step {
    let of = |row: &LimitRow| match row.limit.as_str() {
        "stability" => Some(LimitRow { tier: slo.tier().to_owned(), ..row.clone() }),
        _ => (row.tier == slo.tier()).then(|| row.clone()),
    };
    let limits: Vec<LimitRow> = step.limits.iter().filter_map(of).collect();
    // A soak runs at the safe level of the unscaled SLO; under other factors it is an ordinary step.
    let as_it_stands = (factor - 1.0).abs() < 1e-9;
    let kind = if step.kind == StepKind::Confirm && !as_it_stands { StepKind::Refine } else { step.kind };
    let mut step = Step { limits, kind, ..step.clone() };
    (step.verdict, step.binding) = step_verdict(&step, slo.tier());
    step
}

/// Returns true for the point of the SLO as it stands.
fn is_unscaled(point: &Scaled) -> bool {
    (point.factor - 1.0).abs() < 1e-9
}

/// Returns the name of the tier of a factor, which no tier of a plan can have.
fn name(factor: f64) -> String {
    format!("× {factor}")
}

/// Returns the rows of a step that do not depend on latency limits: the stability of its backlog.
fn stability_rows(step: &Step, tier: &str) -> Vec<LimitRow> {
    step.limits.iter().filter(|r| r.tier == tier && r.limit == "stability").cloned().collect()
}

#[cfg(test)]
mod tests;
