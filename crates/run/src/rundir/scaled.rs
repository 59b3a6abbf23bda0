//! What the requests already recorded say of tighter and of looser limits: the goodput as every latency limit of the SLO is scaled.
//!
//! Every step is judged anew by the scaled limits, with the same rules as when it was measured, and the search is asked what it would
//! answer from these steps. Nothing is sent, so nothing is known beyond the levels that were measured for the SLO as it stands:
//! [`Reach`] tells where an answer ends at them.

use super::Run;
use super::requests::{RequestRow, each_request};
use super::split::searcher;
use anyhow::Result;
use goodput_core::record::{Failure, Phase};
use goodput_core::slo::{Metric, Slo};
use goodput_core::units::Fraction;
use goodput_plan::{Plan, Series};
use goodput_stats::search::Search;
use goodput_stats::search::answer::{Goodput, Status};
use goodput_stats::stats::compact_record::CompactRecord;
use goodput_stats::stats::itl::ItlTally;
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};
use goodput_stats::stats::summary::{StepInput, rejudged, step_verdict};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// The factors, ascending; one of them is the SLO as it stands.
const FACTORS: [f64; 12] = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0];

/// A step with fewer requests says little of its level.
const FEW: u64 = 100;

/// The goodput of a series as every latency limit of the first tier of its SLO is scaled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SloScale {
    /// By factor, ascending.
    pub points: Vec<Scaled>,
    /// The limits that are not scaled but left out, since no request tells of them: ITL, of which a histogram is kept.
    pub without: Vec<String>,
    /// Steps under load that have no requests in the folder, and so are no evidence but for their backlog.
    pub untold: u32,
    /// The lowest and the highest level that was measured under load with requests enough to speak of.
    pub measured: [f64; 2],
    /// Whether the answers are estimates of the adaptive search; else they are brackets of listed levels.
    pub estimated: bool,
}

/// The answer for limits that are this many times as large.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaled {
    /// 1 is the SLO as it stands.
    pub factor: f64,
    /// What the search says of it.
    #[serde(flatten)]
    pub goodput: Goodput,
}

/// How far an answer reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reach {
    /// An estimate with its 90 % interval, which begins at 0 where no level is shown to be safe.
    Between {
        /// The median.
        rate: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Whether the upper end lies above every level that was measured: then it is the fit's, and no step's.
        open: bool,
    },
    /// Shown to meet at the one, and to fail at the other.
    Bracket {
        /// The highest level shown to meet.
        met: f64,
        /// The lowest shown to fail.
        failed: f64,
    },
    /// Met at this level, and what lies above was not measured enough.
    AtLeast(f64),
    /// Fails at this level, and what lies below was not measured enough.
    Below(f64),
    /// No level meets it.
    Nothing,
    /// The steps say nothing of it.
    Unknown,
}

impl SloScale {
    /// How far the answer of one of its points reaches.
    pub fn reach(&self, point: &Scaled) -> Reach {
        let g = &point.goodput;
        let most = self.measured[1];
        match (g.status, g.rate, g.interval90, g.met, g.failed) {
            // Where levels are listed the lowest one fails, and it was the lowest for the SLO as it stands alone.
            (Status::None, .., Some(failed)) if !self.estimated => Reach::Below(failed),
            (Status::None, ..) => Reach::Nothing,
            (Status::Invalid, ..) => Reach::Unknown,
            (_, Some(rate), Some([low, high]), ..) => {
                Reach::Between { rate, low, high, open: high > most * (1.0 + 1e-9) }
            }
            (Status::NotReached, Some(rate), ..) => Reach::AtLeast(rate),
            (_, _, _, Some(met), Some(failed)) => Reach::Bracket { met, failed },
            (_, _, _, Some(met), None) => Reach::AtLeast(g.safe_rate.map_or(met, |safe| safe.max(met))),
            _ if g.safe_rate.is_some() => g.safe_rate.map_or(Reach::Unknown, Reach::AtLeast),
            (.., Some(failed)) => Reach::Below(failed),
            _ => Reach::Unknown,
        }
    }
}

/// The answers of every series, in the order of the plan; `None` of one without a limit to scale, or without requests.
///
/// # Errors
///
/// When `requests.csv` is there and cannot be read.
pub(super) fn read(dir: &Path, run: &Run, series: &[Series]) -> Result<Vec<Option<SloScale>>> {
    let judged = run.purpose.is_goodput() && run.matrix.is_empty();
    let mut all: Vec<Option<Rejudge<'_>>> =
        series.iter().map(|one| Rejudge::new(run, one).filter(|_| judged)).collect();
    if all.iter().all(Option::is_none) {
        return Ok(series.iter().map(|_| None).collect());
    }
    let mut open: Option<(usize, u32)> = None;
    each_request(dir, |row| {
        // Requests of a step stand together.
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

/// Every step of a series judged anew, as its requests come.
struct Rejudge<'a> {
    plan: &'a Plan,
    search: Search,
    /// One tier for each factor.
    tiers: Vec<Slo>,
    without: Vec<String>,
    classes: Vec<&'a str>,
    /// The steps with the rows of all factors, as far as they were judged.
    steps: Vec<Step>,
    /// Which of them were.
    done: Vec<bool>,
    /// The step whose requests come, by its place.
    open: Option<usize>,
    records: Vec<CompactRecord>,
    itl: ItlTally,
}

impl<'a> Rejudge<'a> {
    /// `None` where the SLO has no limit that can be scaled.
    fn new(run: &Run, one: &'a Series) -> Option<Self> {
        let slo = one.plan.slo.as_slice().first()?;
        let tiers: Vec<Slo> = FACTORS.iter().map(|f| slo.scaled(*f, &name(*f))).collect();
        let limited = |slo: &Slo| slo.parts().iter().any(|p| !p.slo.limits().is_empty());
        let search = searcher(&one.plan).ok().filter(|_| limited(&tiers[0]))?;
        let gaps = |p: &goodput_core::slo::Part<'_>| -> Vec<String> {
            let itl = p.slo.limits().into_iter().filter(|l| l.metric == Metric::Itl);
            itl.map(|l| p.title(&l.to_string())).collect()
        };
        // In the order in which they were measured.
        let own = run.steps.iter().filter(|s| s.series == one.name && !s.kind.is_auxiliary());
        let steps: Vec<Step> = own.cloned().map(|s| Step { limits: kept(&s, slo.tier()), ..s }).collect();
        Some(Self {
            plan: &one.plan,
            search,
            without: slo.parts().iter().flat_map(gaps).collect(),
            classes: one.plan.workload.classes().iter().map(|c| c.name.as_str()).collect(),
            done: vec![false; steps.len()],
            steps,
            open: None,
            records: Vec::new(),
            itl: ItlTally::new(&[]),
            tiers,
        })
    }

    /// Takes a request of a step.
    fn add(&mut self, row: &RequestRow<'_>) {
        let open = self.open.filter(|at| self.steps[*at].step == row.step);
        self.open = open.or_else(|| self.steps.iter().position(|s| s.step == row.step));
        if self.open.is_some() {
            let class = self.classes.iter().position(|class| *class == row.class).unwrap_or_default();
            self.records.push(CompactRecord::from(&row.record(class as u16)));
        }
    }

    /// Judges the step whose requests have come, unless these are others than its row counts.
    fn close(&mut self) {
        let mut records = std::mem::take(&mut self.records);
        let Some(at) = self.open.take() else { return };
        let step = &self.steps[at];
        if step.abort.is_some() && step.settle_s <= 0.0 {
            // It ended while it settled: all that there is counts.
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
            client_limit: records.iter().any(|r| r.failure == Some(Failure::ClientLimit)),
            in_flight_limit: None,
            allowed: self.plan.allowed(),
            max_error_share: self.plan.step.max_error_share.map(Fraction::get),
            price_per_hour: None,
        })
    }

    /// The answer for every factor; none where no step under load could be judged.
    fn answer(mut self) -> Result<Option<SloScale>> {
        self.close();
        let loaded = || self.steps.iter().zip(&self.done).filter(|(s, _)| s.kind != StepKind::Baseline);
        let told = |least: u64| {
            let own = loaded().filter(move |(s, done)| **done && s.due_n >= least);
            own.map(|(s, _)| s.level.value).fold([f64::INFINITY, 0.0_f64], |[l, h], v| [l.min(v), h.max(v)])
        };
        // As the estimate has it: a step with a few requests is no level that was tried.
        let measured = [FEW, 1].map(told).into_iter().find(|[_, high]| *high > 0.0);
        let Some(measured) = measured else { return Ok(None) };
        let untold = loaded().filter(|(_, done)| !**done).count() as u32;
        let point = |(factor, slo): (f64, &Slo)| {
            let steps: Vec<Step> = self.steps.iter().map(|s| under(s, factor, slo)).collect();
            let series = self.steps.first().map_or("", |s| &s.series);
            let goodput = self.search.for_slo(slo).goodput_of(series, &steps);
            goodput.map(|goodput| Scaled { factor, goodput })
        };
        let points: Vec<Scaled> = FACTORS.into_iter().zip(&self.tiers).filter_map(point).collect();
        Ok(Some(SloScale {
            points,
            without: self.without,
            untold,
            measured,
            estimated: self.search.terms().is_some(),
        }))
    }
}

/// What is shown of one limit is shown of others: who meets a limit meets a looser one, and who misses it misses a tighter one. So a row
/// that is undecided by its own counts, whose assumptions are on the cautious side where misses are few, follows the others; but for that
/// of the SLO as it stands, which is what was measured.
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

/// A step with the rows of one factor alone.
fn under(step: &Step, factor: f64, slo: &Slo) -> Step {
    let of = |row: &LimitRow| match row.limit.as_str() {
        "stability" => Some(LimitRow { tier: slo.tier().to_owned(), ..row.clone() }),
        _ => (row.tier == slo.tier()).then(|| row.clone()),
    };
    let limits: Vec<LimitRow> = step.limits.iter().filter_map(of).collect();
    // A soak is at the level that was safe for the SLO as it stands: for another it is a step like others.
    let as_it_stands = (factor - 1.0).abs() < 1e-9;
    let kind = if step.kind == StepKind::Confirm && !as_it_stands { StepKind::Refine } else { step.kind };
    let mut step = Step { limits, kind, ..step.clone() };
    (step.verdict, step.binding) = step_verdict(&step, slo.tier());
    step
}

/// What a tier of that factor is called; a plan's tier cannot be.
fn name(factor: f64) -> String {
    format!("× {factor}")
}

/// The rows of a step that hold whatever the latency limits are: whether its backlog grew.
fn kept(step: &Step, tier: &str) -> Vec<LimitRow> {
    step.limits.iter().filter(|r| r.tier == tier && r.limit == "stability").cloned().collect()
}

#[cfg(test)]
mod tests;
