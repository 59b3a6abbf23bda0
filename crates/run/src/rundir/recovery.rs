//! How the server of each series recovered from the surge of its recovery step.

use super::requests::each_record;
use anyhow::Result;
use goodput_core::level::Level;
use goodput_core::record::{Outcome, Phase, Record};
use goodput_core::slo::{Judged, Slo};
use goodput_core::units::ms;
use goodput_plan::{Plan, Series};
use goodput_stats::search::Next;
use goodput_stats::search::recovery::NotMeasured;
use goodput_stats::stats::recovery::{Course, Recovered, TimedRequest, analyse};
use goodput_stats::stats::step::{Abort, Step, StepKind};
use serde::Serialize;
use std::path::Path;

/// The recovery step of a series, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Recovery {
    /// Name of the series.
    pub series: String,
    /// Ratio of the surge rate to the rate before and after it.
    pub factor: f64,
    /// Number of the step; `None` if none was measured.
    pub step: Option<u32>,
    /// Level before and after the surge.
    #[serde(skip)]
    pub level: Option<Level>,
    /// Value of that level.
    pub held: Option<f64>,
    /// Start and end of the surge.
    pub course: Option<Course>,
    /// Reason for an early end of the step, if there was one; then the recovery is not computed.
    pub abort: Option<Abort>,
    /// Failed requests of the step.
    pub failed: u64,
    /// Latency metric that is compared: `ttft`, or `e2e` if answers came in one piece.
    pub metric: Option<&'static str>,
    /// Result of the recovery.
    pub outcome: Option<Recovered>,
    /// Reason why no step was measured.
    pub not_measured: Option<NotMeasured>,
}

/// Reads the recovery of every series, in plan order; `None` if the plan asks for none, or the search is not
/// finished.
///
/// # Errors
/// Fails if `requests.csv` exists but cannot be read.
pub(super) fn read(dir: &Path, steps: &[Step], series: &[Series]) -> Result<Vec<Option<Recovery>>> {
    let mut all: Vec<Option<Recovery>> = Vec::with_capacity(series.len());
    for one in series {
        all.push(of_series(dir, steps, one)?);
    }
    Ok(all)
}

fn of_series(dir: &Path, steps: &[Step], one: &Series) -> Result<Option<Recovery>> {
    let (plan, Some(asked)) = (&one.plan, one.plan.recovery) else { return Ok(None) };
    let bare = Recovery {
        series: one.name.clone(),
        factor: asked.factor.get(),
        step: None,
        level: None,
        held: None,
        course: None,
        abort: None,
        failed: 0,
        metric: None,
        outcome: None,
        not_measured: None,
    };
    let own = |s: &&Step| s.series == one.name && s.kind == StepKind::Recovery && !s.broken_off();
    let Some(step) = steps.iter().rfind(own) else {
        let Ok(search) = plan.searcher() else { return Ok(None) };
        let done = search.next(&one.name, steps) == Next::Done;
        let why = search.recovery_not_measured(&one.name, steps).filter(|_| done);
        return Ok(why.map(|why| Recovery { not_measured: Some(why), ..bare }));
    };
    let course = asked.course(step.settle_s);
    let mut found = Recovery {
        step: Some(step.step),
        level: Some(step.level),
        held: Some(step.level.value),
        course: Some(course),
        abort: step.abort,
        failed: step.failed,
        metric: Some(step.response_metric().name()),
        ..bare
    };
    if step.abort.is_none() {
        let requests = requests(dir, plan, step)?;
        found.outcome = (!requests.is_empty()).then(|| analyse(&requests, &course));
    }
    Ok(Some(found))
}

/// Reads all requests of the step, including settling and tail, because these are in flight with the others.
fn requests(dir: &Path, plan: &Plan, step: &Step) -> Result<Vec<TimedRequest>> {
    let classes: Vec<&str> = plan.workload.classes().iter().map(|c| c.name.as_str()).collect();
    let (slo, metric) = (plan.slo.as_slice().first(), step.response_metric());
    let mut all = Vec::new();
    each_record(dir, &classes, |series, number, r| {
        if number != step.step || series != step.series || r.phase == Phase::Warmup {
            return;
        }
        let response = metric.of(r).filter(|_| r.outcome != Outcome::Failed);
        all.push(TimedRequest {
            due_s: r.due.as_secs_f64(),
            sent_s: r.sent.unwrap_or(r.due).as_secs_f64(),
            end_s: r.end.as_secs_f64(),
            response_ms: response.map_or(f64::INFINITY, ms),
            missed: slo.is_some_and(|slo| missed(slo, r)),
        });
    })?;
    Ok(all)
}

/// Returns true for a request that missed a limit of the tier, or failed.
fn missed(slo: &Slo, r: &Record) -> bool {
    let judged = |part: &goodput_core::slo::LimitGroup<'_>| {
        part.judges(r.class) && part.slo.limits().iter().any(|l| l.judge(r) == Judged::Missed)
    };
    r.outcome == Outcome::Failed || slo.limit_groups().iter().any(judged)
}
