//! Workers: several load machines that share the requests of a step. Splits the requests by worker, and finds the workers that
//! spoilt the step, and one whose answers come later than those of the others.

use super::client::tightest_from_due;
use super::client_faults::lateness_ms;
use super::compact_record::CompactRecord;
use super::kruskal_wallis;
use super::percentile::order_statistic;
use super::reason::tier_verdict;
use super::step::{Abort, Step, Verdict};
use super::summary::StepInput;
pub use goodput_core::caveat::WorkerFault;
use goodput_core::record::{Outcome, Phase};
use goodput_core::slo::Metric;
use goodput_core::units::{ms, short};
use serde::Serialize;
use std::num::NonZeroU16;
use std::time::Duration;

/// A worker that starts a step later than this spoils it: its requests were not sent when the plan says.
pub const LATE_START: Duration = Duration::from_millis(10);
/// A worker whose clock drifts by more than this against the leader's within a step, and by more than [`FREE_RUN`] of its length, spoils it:
/// the times of its requests cannot be placed among those of the others.
pub const UNSTABLE_CLOCK: Duration = Duration::from_millis(2);
/// The drift of two sound clocks that nothing keeps together, as a share of the time: 50 ppm, as quartz oscillators are specified. A soak of
/// an hour may show 180 ms of it, steadily.
pub const FREE_RUN: f64 = 50e-6;

/// Times that a step is measured if workers spoil it.
pub const MOST_ATTEMPTS: usize = 3;

/// Largest p at which the TTFT of the workers counts as different.
const SIGNIFICANT: f64 = 0.001;
/// A worker with fewer values than this is not compared.
const MIN_VALUES: usize = 5;
/// A difference is material if the median is above that of the others by more than this factor and by more than this many
/// milliseconds. Among a million requests, one of 20 µs is significant too.
const MATERIAL_FACTOR: f64 = 1.1;
const MATERIAL_MS: f64 = 1.0;

/// A worker's report about a step, besides its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerReport {
    /// Number of the worker in `meta.workers`, from 1; that of its records.
    pub worker: u16,
    /// Name of the worker.
    pub id: String,
    /// Delay of its start after the common start, in milliseconds.
    pub start_late_ms: f64,
    /// Its clock minus the leader's at the start of the step, in milliseconds.
    pub clock_offset_ms: f64,
    /// Change of that offset until the end of the step, in milliseconds.
    pub clock_drift_ms: f64,
    /// The change up to which the clock counts as stable, in milliseconds: see [`clock_tolerance`].
    pub clock_tolerance_ms: f64,
    /// The reason why it spoilt the step; `None` if nothing happened.
    pub fault: Option<WorkerFault>,
}

/// One worker's part of a step: a row of `workers.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct StepWorker {
    /// Number of the worker in `meta.workers`, from 1.
    pub worker: u16,
    /// Name of the worker.
    pub id: String,
    /// Measured requests that it was to send.
    pub n: u64,
    /// Number of them that failed.
    pub failed: u64,
    /// Delay of its start after the common start, in milliseconds.
    pub start_late_ms: f64,
    /// 99th percentile of sent − due over its measured requests, in milliseconds.
    pub lateness_p99_ms: Option<f64>,
    /// Its clock minus the leader's at the start of the step, in milliseconds.
    pub clock_offset_ms: f64,
    /// Change of that offset until the end of the step, in milliseconds.
    pub clock_drift_ms: f64,
    /// Median TTFT of its measured requests, in milliseconds.
    pub ttft_p50_ms: Option<f64>,
    /// 99th percentile of the TTFT of its measured requests, in milliseconds.
    pub ttft_p99_ms: Option<f64>,
    /// The reason why it spoilt the step; `None` if it did not.
    pub fault: Option<WorkerFault>,
    /// Probability that the TTFT of the workers differs by chance as much as it does (Kruskal–Wallis), if that is below 0.001 and
    /// this worker's median is materially above that of the others; else `None`.
    pub apart_p: Option<f64>,
}

/// A worker whose answers come later than those of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkersApart<'a> {
    /// The worker.
    pub worker: &'a StepWorker,
    /// Its median TTFT, in milliseconds.
    pub ttft_ms: f64,
    /// Lower median of the medians of the others, in milliseconds.
    pub others_ms: f64,
}

impl StepWorker {
    /// Explains how the worker spoilt the step: `the worker node-3 was lost`; `None` if it did not.
    pub fn fault_text(&self) -> Option<String> {
        let id = &self.id;
        let of_ms = |ms: f64| format!("{} ms", short(ms));
        Some(match self.fault? {
            WorkerFault::Lost => format!("the worker {id} was lost"),
            WorkerFault::Frozen => format!("the worker {id} stood still"),
            WorkerFault::Replaced => format!("the worker {id} was replaced by another process"),
            WorkerFault::RecordsMissing => format!("records of the worker {id} are missing"),
            WorkerFault::OtherRequests => {
                format!("the worker {id} reported requests that are not its own, or one of them twice")
            }
            WorkerFault::Refused => format!("the worker {id} refused the step"),
            WorkerFault::ClientLimit => {
                format!("the worker {id} ran out of descriptors or ports, or reached its max-in-flight")
            }
            WorkerFault::LateStart => format!("the worker {id} started {} late", of_ms(self.start_late_ms)),
            WorkerFault::UnstableClock => {
                format!("the clock of the worker {id} drifted by {}", of_ms(self.clock_drift_ms.abs()))
            }
            WorkerFault::Late => {
                let p99 = self.lateness_p99_ms.map(|p99| format!(": p99 {}", of_ms(p99)));
                format!("the worker {id} sent late{}", p99.unwrap_or_default())
            }
        })
    }
}

/// Returns one row for each report, with the figures of the worker's measured requests. A late start and an unstable clock are
/// faults where the report has no other; [`WorkerFault::Late`] is left to [`super::summary::summarize`], which knows the limits.
pub fn step_workers(kept: &[CompactRecord], reports: &[WorkerReport]) -> Vec<StepWorker> {
    if reports.is_empty() {
        return Vec::new();
    }
    let sent = by_worker(kept.iter().filter(|r| r.phase == Phase::Measure));
    let own = |report: &WorkerReport| sent.get(usize::from(report.worker)).map_or(&[][..], Vec::as_slice);
    let mut ttft: Vec<(f64, usize)> = Vec::with_capacity(kept.len());
    let mut rows = Vec::with_capacity(reports.len());
    for (at, report) in reports.iter().enumerate() {
        let records = own(report);
        let answered = records.iter().filter(|r| r.counts_for(Metric::Ttft));
        let mut values: Vec<f64> = answered.filter_map(|r| r.record().ttft()).map(ms).collect();
        values.sort_unstable_by(f64::total_cmp);
        if values.len() >= MIN_VALUES {
            ttft.extend(values.iter().map(|v| (*v, at)));
        }
        rows.push(StepWorker {
            worker: report.worker,
            id: report.id.clone(),
            n: records.len() as u64,
            failed: records.iter().filter(|r| r.outcome == Outcome::Failed).count() as u64,
            start_late_ms: report.start_late_ms,
            lateness_p99_ms: lateness_ms(records, 990),
            clock_offset_ms: report.clock_offset_ms,
            clock_drift_ms: report.clock_drift_ms,
            ttft_p50_ms: order_statistic(&values, 500),
            ttft_p99_ms: order_statistic(&values, 990),
            fault: report.fault.or_else(|| by_clock(report)),
            apart_p: None,
        });
    }
    // Independent requests are assumed. Each worker has a share of one sequence of arrivals, drawn by chance: requests that are
    // near in time share the server's queue whichever worker sends them, which makes the workers more alike than chance would.
    let p = kruskal_wallis::p_value(&mut ttft, reports.len()).filter(|p| *p < SIGNIFICANT);
    if let (Some(p), Some((at, ..))) = (p, slowest(&rows)) {
        rows[at].apart_p = Some(p);
    }
    rows
}

/// Returns the measured requests by the number of their worker.
fn by_worker<'a>(records: impl Iterator<Item = &'a CompactRecord>) -> Vec<Vec<&'a CompactRecord>> {
    let mut all: Vec<Vec<&CompactRecord>> = Vec::new();
    for r in records {
        let at = usize::from(r.worker.map_or(0, NonZeroU16::get));
        if all.len() <= at {
            all.resize_with(at + 1, Vec::new);
        }
        all[at].push(r);
    }
    all
}

/// Returns the fault that the clocks of a report show.
fn by_clock(report: &WorkerReport) -> Option<WorkerFault> {
    if report.start_late_ms > ms(LATE_START) {
        return Some(WorkerFault::LateStart);
    }
    (report.clock_drift_ms.abs() > report.clock_tolerance_ms).then_some(WorkerFault::UnstableClock)
}

/// Returns the drift up to which a clock counts as stable, for two measurements so long apart, whose errors are `error` together.
pub fn clock_tolerance(apart: Duration, error: Duration) -> Duration {
    UNSTABLE_CLOCK.max(apart.mul_f64(FREE_RUN)) + error
}

/// Returns the index of the worker with the highest median TTFT, that median, and the lower median of the others' medians; `None`
/// if the difference is not material.
fn slowest(rows: &[StepWorker]) -> Option<(usize, f64, f64)> {
    let medians = || rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.ttft_p50_ms?)));
    let (at, own) = medians().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut others: Vec<f64> = medians().filter(|(other, _)| *other != at).map(|(_, p50)| p50).collect();
    others.sort_unstable_by(f64::total_cmp);
    let usual = order_statistic(&others, 500)?;
    (own > MATERIAL_FACTOR * usual && own > usual + MATERIAL_MS).then_some((at, own, usual))
}

/// Returns the 99th percentile of sent − due in milliseconds: that of the worker for which it is highest, since a late one hides
/// among many. `None` with a single machine.
pub(super) fn lateness_of_worst(measured: &[&CompactRecord]) -> Option<f64> {
    if measured.iter().all(|r| r.worker.is_none()) {
        return None;
    }
    let sent = by_worker(measured.iter().copied());
    sent.iter().filter_map(|own| lateness_ms(own, 990)).reduce(f64::max)
}

impl Step {
    /// Returns true if a worker spoilt the step: it says nothing about the server, and is measured again. A step in which the
    /// server went away is not: the server is gone whatever a worker did.
    pub fn is_worker_fault(&self) -> bool {
        let faulty = self.workers.iter().any(|w| w.fault.is_some());
        self.abort == Some(Abort::WorkerLost) || (faulty && self.abort != Some(Abort::ServerGone))
    }

    /// Returns true if workers spoilt the step, and all that they did was to send late.
    fn is_only_late(&self) -> bool {
        self.is_worker_fault() && self.faulty_worker().is_some_and(|w| w.fault == Some(WorkerFault::Late))
    }

    /// Returns true if nothing rests on the step, and it is measured again if the sweep goes on: it was broken off, or spoilt by a
    /// worker.
    pub fn is_void(&self) -> bool {
        self.broken_off() || self.is_worker_fault()
    }

    /// Returns the worker that spoilt the step, by the gravest fault; of several late ones, the latest.
    pub fn faulty_worker(&self) -> Option<&StepWorker> {
        let key = |w: &&StepWorker| (w.fault, std::cmp::Reverse(ordered(w.lateness_p99_ms)));
        self.workers.iter().filter(|w| w.fault.is_some()).min_by_key(key)
    }

    /// Returns the worker whose answers came later than those of the others, by chance with a probability below 0.001 and by a
    /// material difference.
    pub fn workers_apart(&self) -> Option<WorkersApart<'_>> {
        let (at, ttft_ms, others_ms) = slowest(&self.workers)?;
        let worker = self.workers.get(at).filter(|w| w.apart_p.is_some())?;
        Some(WorkersApart { worker, ttft_ms, others_ms })
    }

    /// Marks the workers whose lateness made a tier invalid, and makes the step invalid for every tier if a worker spoilt it.
    ///
    /// Workers that were late in every earlier attempt at the step are too few for its load: the last attempt is judged as that of one
    /// machine that sends late, and the search goes on by it.
    pub(super) fn judge_workers(&mut self, input: &StepInput<'_>) {
        let is_attempt = |s: &&Step| (s.kind, s.level) == (input.kind, input.level) && s.is_only_late();
        let late_before = input.earlier.iter().rev().take_while(is_attempt).count();
        let tiers = if late_before + 1 < MOST_ATTEMPTS { input.tiers } else { &[] };
        for slo in tiers {
            let invalid = tier_verdict(&self.limits, slo.tier()).0 == Verdict::Invalid;
            let Some(limit_ms) = tightest_from_due(slo).filter(|_| invalid) else { continue };
            let is_late = |w: &&mut StepWorker| {
                w.lateness_p99_ms.is_some_and(|p99| p99 > input.allowed.lateness * limit_ms)
            };
            for worker in self.workers.iter_mut().filter(is_late) {
                worker.fault = worker.fault.or(Some(WorkerFault::Late));
            }
        }
        if !self.is_worker_fault() {
            return;
        }
        self.verdict = Verdict::Invalid;
        self.limits.iter_mut().for_each(|l| l.verdict = Verdict::Invalid);
        (self.binding, self.stable) = (None, None);
        let text = self.faulty_worker().and_then(StepWorker::fault_text);
        self.reason = text.unwrap_or_else(|| "a worker was lost or failed".into());
    }
}

/// Returns a latency as a key of order; unknown ones come first.
fn ordered(ms: Option<f64>) -> i64 {
    ms.map_or(i64::MIN, |ms| (ms * 1e6) as i64)
}

#[cfg(test)]
mod tests;
