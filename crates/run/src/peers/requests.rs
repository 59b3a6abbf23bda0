//! The measured requests of each step, and the gaps between their tokens, from the files of a run folder.

use crate::rundir::REQUESTS;
use crate::rundir::requests::RequestRow;
use crate::rundir::table::{Bucket, OwnTokenCount, StepRow, each_row, read_rows};
use anyhow::{Result, bail};
use goodput_core::record::{Outcome, Phase};
use goodput_core::slo::{ALL, Metric};
use goodput_core::units::ms;
use goodput_stats::stats::step::Step;
use std::collections::HashMap;
use std::path::Path;

/// The fields of a row of `requests.csv` that other tools' figures need; times in ms from the start of the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Request {
    pub(super) outcome: Outcome,
    pub(super) sent: Option<f64>,
    pub(super) first_event: Option<f64>,
    pub(super) first_token: Option<f64>,
    pub(super) last_token: Option<f64>,
    pub(super) end: f64,
    pub(super) input: Option<u32>,
    /// Output tokens; the tool's own count if it measured the run and counted differently.
    pub(super) output: Option<u32>,
    pub(super) first_event_tokens: Option<u32>,
}

impl Request {
    pub(super) fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    pub(super) fn failed(&self) -> bool {
        self.outcome == Outcome::Failed
    }

    /// Returns the time from the send to a moment, in ms.
    pub(super) fn since_sent(&self, at: Option<f64>) -> Option<f64> {
        Some(at? - self.sent?)
    }

    /// Returns the number of output tokens, if there are any.
    pub(super) fn tokens(&self) -> Option<f64> {
        self.output.filter(|n| *n > 0).map(f64::from)
    }
}

/// Gaps between events with tokens, pooled over a step: middle of a bucket in ms and number of gaps, ascending.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Gaps(pub(super) Vec<(f64, u64)>);

/// Reads the measured requests of each step, in step order. If `counted`, uses the tool's own token counts where they
/// differ.
pub(super) fn read(dir: &Path, steps: &[Step], counted: bool) -> Result<Vec<Vec<Request>>> {
    if !dir.join(REQUESTS).is_file() {
        bail!("{} has no {REQUESTS}, from which these figures are made", dir.display());
    }
    let place: HashMap<(&str, u32), usize> =
        steps.iter().enumerate().map(|(i, s)| ((s.series.as_str(), s.step), i)).collect();
    let own = if counted { own_counts(dir)? } else { HashMap::new() };
    let mut found = vec![Vec::new(); steps.len()];
    each_row(dir, |row: &mut RequestRow| {
        let r = &row.record;
        let at = place.get(&(row.series.as_str(), row.step));
        let Some(at) = at.filter(|_| r.phase == Phase::Measure) else { return };
        found[*at].push(Request {
            outcome: r.outcome,
            sent: r.sent.map(ms),
            first_event: r.first_event.map(ms),
            first_token: r.first_token.map(ms),
            last_token: r.last_token.map(ms),
            end: ms(r.end),
            input: r.input_tokens,
            output: own.get(&(row.step, r.id)).copied().or(r.output_tokens),
            first_event_tokens: r.first_event_tokens,
        });
    })?;
    Ok(found)
}

/// Reads the output tokens as counted by the tool that measured the run, by step and id.
fn own_counts(dir: &Path) -> Result<HashMap<(u32, u64), u32>> {
    let rows: Vec<OwnTokenCount> = read_rows(dir, &mut Vec::new())?;
    Ok(rows.into_iter().map(|row| ((row.step, row.id), row.output_tokens)).collect())
}

/// Reads the gaps of each step, in step order.
pub(super) fn gaps(dir: &Path, steps: &[Step]) -> Result<Vec<Gaps>> {
    let mut found = vec![Gaps::default(); steps.len()];
    let buckets: Vec<StepRow<Bucket>> = read_rows(dir, &mut Vec::new())?;
    for StepRow { series, step, row: bucket } in buckets {
        let itl = bucket.class == ALL && bucket.metric == Metric::Itl.name();
        if let Some(at) = steps.iter().position(|s| itl && series == s.series && step == s.step) {
            let middle_ms = (bucket.low_us as f64 + bucket.high_us as f64) / 2e3;
            found[at].0.push((middle_ms, bucket.count));
        }
    }
    for gaps in &mut found {
        gaps.0.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(found)
}
