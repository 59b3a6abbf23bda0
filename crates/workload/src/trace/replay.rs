//! Endless replay of a trace.

use super::Trace;
use super::row::UncheckedRow;
use super::spool::SpoolRows;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;

/// A request of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// Due time from the start of the replay; for a follow-up, the delay after the previous answer.
    pub at: Duration,
    /// Prompt tokens, at least 1; for a follow-up, those that it adds.
    pub input_tokens: u32,
    /// Answer tokens, at least 1; `None` if not recorded.
    pub output_tokens: Option<u32>,
    /// Ids of the prompt's blocks in order; prompts with equal leading ids share a prefix. Empty if not recorded; may
    /// cover less than the prompt.
    pub blocks: Arc<[u64]>,
    /// Conversation of the request, if recorded.
    pub session: Option<u64>,
}

/// An arrival with its follow-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Round of the replay: 0, then 1 once every request has been replayed, and so on.
    pub round: u32,
    /// The request that arrives.
    pub row: TraceRow,
    /// Requests that follow, each after the answer to the previous one.
    pub follow_ups: Vec<TraceRow>,
}

/// Position in a trace at which a replay begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Begin {
    /// At the first request.
    First,
    /// At a moment: this share of the period, in [0, 1). The replay waits for the next request.
    Moment(f64),
    /// At a request: this share of their number, in [0, 1).
    Request(f64),
}

/// Endless replay of a trace's window, read from disk as needed.
///
/// After the last request the first follows, one mean gap later. Ends only if the rows cannot be read: see
/// [`Replay::error`]. A clone continues with the same request.
pub struct Replay {
    trace: Trace,
    /// Number of the first request.
    position: u64,
    /// Origin of times, from the first request of the window.
    since: Duration,
    /// Number of requests returned.
    returned: u64,
    open: Option<SpoolRows>,
    error: Option<Arc<anyhow::Error>>,
}

impl Replay {
    pub(super) fn new(trace: Trace, begin: Begin) -> Self {
        let mut replay =
            Self { trace, position: 0, since: Duration::ZERO, returned: 0, open: None, error: None };
        match replay.locate(begin) {
            Ok((position, since)) => (replay.position, replay.since) = (position, since),
            Err(e) => replay.error = Some(Arc::new(e)),
        }
        replay
    }

    /// Returns the number of the first request and the origin of times.
    fn locate(&self, begin: Begin) -> Result<(u64, Duration)> {
        let inner = &*self.trace.0;
        let arrivals = inner.summary.arrivals();
        match begin {
            Begin::First => Ok((0, Duration::ZERO)),
            Begin::Moment(share) => {
                let since = inner.period.mul_f64(share.clamp(0.0, 1.0));
                let at = i64::try_from(since.as_nanos()).ok().and_then(|ns| inner.base.checked_add(ns));
                let at = at.context("the trace is too long")?;
                // After the last request, the first one comes next.
                Ok((inner.spool()?.first_at(at)?, since))
            }
            Begin::Request(share) => {
                let position = ((arrivals as f64 * share) as u64).min(arrivals.saturating_sub(1));
                let first = inner.spool()?.from(position)?.next()?.with_context(cut_short)?;
                Ok((position, Duration::from_nanos(first.at.abs_diff(inner.base))))
            }
        }
    }

    /// Returns the number of the first request, from 0.
    pub(crate) fn start_index(&self) -> u64 {
        self.position
    }

    /// Returns why the replay ended, if it did.
    pub fn error(&self) -> Option<&anyhow::Error> {
        self.error.as_deref()
    }

    fn advance(&mut self) -> Result<Replayed> {
        let trace = self.trace.clone();
        let inner = &*trace.0;
        let arrivals = inner.summary.arrivals();
        let number = (self.position + self.returned) % arrivals;
        if number == 0 {
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(inner.spool()?.from(number)?),
        };
        let first = open.next()?.with_context(cut_short)?;
        let mut follow_ups = Vec::new();
        while let Some(row) = open.next()? {
            match row.after {
                Some(after) => follow_ups.push(row.replayed(Duration::from_nanos(after))),
                None => {
                    open.put_back(row);
                    break;
                }
            }
        }
        let round = u32::try_from(self.returned / arrivals).ok();
        let round = round.context("the trace was replayed four billion times")?;
        // Rounds of the file, which start at its first request.
        let rounds = (self.position + self.returned) / arrivals;
        let late = self.since > Duration::from_nanos(inner.last.abs_diff(inner.base));
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX) + u32::from(late);
        let at = Duration::from_nanos(first.at.abs_diff(inner.base)) + inner.period * rounds;
        self.returned += 1;
        Ok(Replayed { round, row: first.replayed(at.saturating_sub(self.since)), follow_ups })
    }
}

fn cut_short() -> String {
    "the temporary file of the trace ends too early".into()
}

impl UncheckedRow {
    fn replayed(self, at: Duration) -> TraceRow {
        TraceRow {
            at,
            input_tokens: self.input,
            output_tokens: self.output,
            blocks: self.blocks.into(),
            session: self.session,
        }
    }
}

impl Clone for Replay {
    fn clone(&self) -> Self {
        Self { trace: self.trace.clone(), open: None, error: self.error.clone(), ..*self }
    }
}

impl Iterator for Replay {
    type Item = Replayed;

    fn next(&mut self) -> Option<Replayed> {
        if self.error.is_some() {
            return None;
        }
        self.advance().map_err(|e| self.error = Some(Arc::new(e))).ok()
    }
}
