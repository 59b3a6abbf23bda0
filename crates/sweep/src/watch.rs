//! The state of a running sweep for the page that shows it: numbers and enums, which the director updates where it updates the metrics. The
//! page's words are made elsewhere ([`LivePage`]).

use super::progress::StepProgress;
use super::tally::StepTally;
use goodput_core::level::{Control, Level};
use goodput_core::slo::{ALL, LimitGroup, Metric, Slo};
use goodput_core::units::Span;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::Run;
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::search::config::Mode;
use goodput_stats::stats::groups::GroupBy;
use goodput_stats::stats::step::{LimitRow, Quantiles, Step, StepKind, Verdict};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The page of a running sweep: its text, and how it words a run.
#[derive(Debug, Clone)]
pub struct LivePage {
    /// The page, which reads `events`.
    pub html: String,
    /// Its content security policy.
    pub policy: String,
    /// Returns the headline and the caveats of a run in English, as JSON.
    pub words: fn(&Run) -> serde_json::Value,
}

/// The part of a sweep that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    /// No step has begun, or one has ended and the next has not begun.
    Between,
    /// A step runs.
    Step,
    /// Everything is measured; the report is not written yet.
    Reporting,
    /// The report is served.
    Report,
}

/// The state of a sweep.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct State {
    version: &'static str,
    name: String,
    server: String,
    workload: String,
    limits: Vec<LimitLine>,
    steps: Vec<Point>,
    estimates: Vec<Estimate>,
    /// The headline and the caveats in English.
    words: serde_json::Value,
    #[serde(flatten)]
    now: Now,
    /// The budget that holds for all series together, in seconds.
    #[serde(skip)]
    budget_s: Option<f64>,
    /// Number of changes to anything but `now`.
    #[serde(skip)]
    revision: u64,
}

/// The part of the state that changes several times a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Now {
    phase: Phase,
    /// Time that the sweep has spent, in seconds.
    spent_s: f64,
    /// The budget in seconds, and the part of it that is spent; `None` if the search has none.
    budget: Option<Budget>,
    running: Option<Running>,
}

/// A time budget, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Budget {
    total_s: f64,
    began_s: f64,
}

/// A limit of the SLO on a latency.
#[derive(Debug, Clone, Serialize)]
struct LimitLine {
    tier: String,
    class: String,
    /// Name of the limit, such as `ttft.p99`.
    limit: String,
    limit_ms: f64,
}

/// The step that runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Running {
    series: String,
    step: u32,
    kind: StepKind,
    control: Control,
    level: f64,
    /// Time since the step began, in seconds.
    elapsed_s: f64,
    /// End of the measured window from the beginning of the step, in seconds.
    end_s: f64,
    in_flight: u64,
    misses: Vec<Misses>,
}

/// Misses of one limit in the running step.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Misses {
    tier: String,
    class: String,
    limit: String,
    misses: u64,
    /// Requests that count.
    n: u64,
    /// Share of misses that the limit permits.
    permitted: f64,
}

/// A measured step.
#[derive(Debug, Clone, Serialize)]
struct Point {
    series: String,
    step: u32,
    kind: StepKind,
    control: Control,
    level: f64,
    achieved: f64,
    verdict: Verdict,
    limits: Vec<Measured>,
}

/// The result of a step for one limit on a latency.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    tier: String,
    class: String,
    limit: String,
    /// The percentile that is limited, in milliseconds; `None` if reports do not have it.
    ms: Option<f64>,
    misses: u64,
    n: u64,
}

/// An answer as it was known after a step.
#[derive(Debug, Clone, Serialize)]
struct Estimate {
    series: String,
    tier: String,
    class: String,
    control: Control,
    step: u32,
    /// End of the step, in seconds of the sweep.
    at_s: f64,
    status: Status,
    rate: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    safe: Option<f64>,
    met: Option<f64>,
    failed: Option<f64>,
}

/// The state, shared by the director and the thread that serves the page. The director never waits longer than it takes to copy an [`Arc`].
#[derive(Debug, Clone)]
pub(crate) struct Watched(Arc<Mutex<Arc<State>>>);

impl Watched {
    /// Makes the state of a sweep that has not begun. `budget` is that of all series together.
    pub(crate) fn new(plan: &Plan, budget: Option<Span>) -> Self {
        let now = Now { phase: Phase::Between, spent_s: 0.0, budget: None, running: None };
        let state = State {
            version: env!("CARGO_PKG_VERSION"),
            name: plan.name.clone(),
            server: plan.measured_server().to_string(),
            workload: plan.measured_workload().to_string(),
            limits: plan.slo.as_slice().iter().flat_map(lines).collect(),
            steps: Vec::new(),
            estimates: Vec::new(),
            words: serde_json::Value::Null,
            now,
            budget_s: budget.map(|b| b.0.as_secs_f64()),
            revision: 0,
        };
        Self(Arc::new(Mutex::new(Arc::new(state))))
    }

    /// Returns the present state.
    pub(super) fn get(&self) -> Arc<State> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(Arc::make_mut(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    /// Records the start of a step, at `spent` of the sweep.
    pub(crate) fn begin(&self, series: &Series, step: u32, kind: StepKind, level: Level, spent: Duration) {
        let tiers = series.plan.slo.as_slice();
        let running = Running {
            series: series.name.clone(),
            step,
            kind,
            control: level.control,
            level: level.value,
            elapsed_s: 0.0,
            end_s: 0.0,
            in_flight: 0,
            misses: tiers.iter().flat_map(no_misses).collect(),
        };
        let adaptive = match &series.plan.search.mode {
            Mode::Adaptive(adaptive) => Some(adaptive.budget.0.as_secs_f64()),
            _ => None,
        };
        self.change(|state| {
            let before = state.now.running.as_ref().map(|r| r.series.as_str());
            let same = before == Some(series.name.as_str());
            let spent_s = spent.as_secs_f64();
            state.now.budget = match (state.budget_s, adaptive) {
                (Some(total_s), _) => Some(Budget { total_s, began_s: 0.0 }),
                (None, Some(_)) if same => state.now.budget,
                (None, Some(total_s)) => {
                    Some(Budget { total_s, began_s: if step == 1 { 0.0 } else { spent_s } })
                }
                (None, None) => None,
            };
            (state.now.spent_s, state.now.phase) = (spent_s, Phase::Step);
            state.now.running = Some(running);
        });
    }

    /// Shows the progress of the running step.
    pub(crate) fn tick(&self, shown: &StepProgress, tally: &StepTally) {
        self.change(|state| {
            let Some(running) = &mut state.now.running else { return };
            let elapsed_s = shown.elapsed.as_secs_f64();
            state.now.spent_s += elapsed_s - running.elapsed_s;
            (running.elapsed_s, running.end_s) = (elapsed_s, shown.end.as_secs_f64());
            running.in_flight = shown.in_flight;
            for (row, (misses, n)) in running.misses.iter_mut().zip(tally.misses()) {
                (row.misses, row.n) = (misses, n);
            }
        });
    }

    /// Records the end of a step. Its results follow with the answers.
    pub(crate) fn end(&self) {
        self.change(|state| state.now.phase = Phase::Between);
    }

    /// Updates the steps and the current answers.
    pub(crate) fn answers(&self, run: &Run, words: serde_json::Value) {
        let steps: Vec<Point> = run.steps.iter().map(Point::of).collect();
        let now: Vec<Estimate> = run.answers.iter().filter_map(|a| Estimate::of(a, run)).collect();
        self.change(|state| {
            state.estimates.retain(|old| now.iter().all(|new| !new.replaces(old)));
            state.estimates.extend(now);
            (state.steps, state.words) = (steps, words);
            state.revision += 1;
        });
    }

    /// Records that everything is measured.
    pub(crate) fn measured(&self) {
        self.change(|state| state.now.phase = Phase::Reporting);
    }

    /// Records that the report is served.
    pub(super) fn reported(&self) {
        self.change(|state| state.now.phase = Phase::Report);
    }
}

impl State {
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) const fn now(&self) -> &Now {
        &self.now
    }
}

/// Returns the limits of a tier on latencies.
fn lines(slo: &Slo) -> Vec<LimitLine> {
    let line = |part: LimitGroup<'_>| -> Vec<LimitLine> {
        let of = |l: goodput_core::slo::Limit| LimitLine {
            tier: slo.tier().to_owned(),
            class: part.class().to_owned(),
            limit: l.name(),
            limit_ms: l.limit_ms(),
        };
        part.slo.limits().into_iter().map(of).collect()
    };
    slo.limit_groups().into_iter().flat_map(line).collect()
}

/// Returns a row for every limit of a tier, in the order in which [`StepTally::misses`] counts them.
fn no_misses(slo: &Slo) -> Vec<Misses> {
    let rows = |part: LimitGroup<'_>| -> Vec<Misses> {
        let row = |limit: String, permitted: f64| Misses {
            tier: slo.tier().to_owned(),
            class: part.class().to_owned(),
            limit,
            misses: 0,
            n: 0,
            permitted,
        };
        let limits = part.slo.limits().into_iter().map(|l| row(l.name(), l.percentile.miss_share()));
        limits.chain(part.slo.error_rate.map(|p0| row("errors".into(), p0.get()))).collect()
    };
    slo.limit_groups().into_iter().flat_map(rows).collect()
}

impl Point {
    fn of(step: &Step) -> Self {
        let latencies = step.limits.iter().filter(|row| row.limit_ms.is_some());
        Self {
            series: step.series.clone(),
            step: step.step,
            kind: step.kind,
            control: step.level.control,
            level: step.level.value,
            achieved: step.achieved_rate,
            verdict: step.verdict,
            limits: latencies.map(|row| Measured::of(row, step)).collect(),
        }
    }
}

impl Measured {
    fn of(row: &LimitRow, step: &Step) -> Self {
        Self {
            tier: row.tier.clone(),
            class: row.class.clone(),
            limit: row.limit.clone(),
            ms: limited(row, step),
            misses: row.misses,
            n: row.n,
        }
    }
}

/// Returns the percentile of a step that a limit is about.
fn limited(row: &LimitRow, step: &Step) -> Option<f64> {
    let metric = Metric::of_limit(&row.limit)?;
    let own = |g: &&goodput_stats::stats::groups::Group| g.by == GroupBy::Class && g.name == row.class;
    let latency = match row.class.as_str() {
        ALL => &step.latency,
        _ => &step.groups.iter().find(own)?.latency,
    };
    let Quantiles { p50, p90, p95, p99, .. } = latency.get(&metric)?;
    match row.limit.rsplit_once(".p")?.1 {
        "50" => *p50,
        "90" => *p90,
        "95" => *p95,
        "99" => *p99,
        _ => None,
    }
}

impl Estimate {
    /// Returns the answer after the last step of its series; `None` before its first step.
    fn of(answer: &Answer, run: &Run) -> Option<Self> {
        let g = &answer.goodput;
        let last = run.steps.iter().rfind(|s| s.series == answer.series)?;
        let [low, high] = g.interval90().map_or([None; 2], |ends| ends.map(Some));
        Some(Self {
            series: answer.series.clone(),
            tier: answer.tier.clone(),
            class: answer.class.clone(),
            control: answer.control,
            step: last.step,
            at_s: last.ended_s,
            status: g.status(),
            rate: g.rate(),
            low,
            high,
            safe: g.safe_rate(),
            met: g.bracket.met,
            failed: g.bracket.failed,
        })
    }

    /// Returns true if this is a later version of the same answer after the same step.
    fn replaces(&self, old: &Self) -> bool {
        let key = |e: &Self| (e.series.clone(), e.tier.clone(), e.class.clone(), e.step);
        key(self) == key(old)
    }
}
