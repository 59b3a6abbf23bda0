//! A trace as a stream of requests that never ends.

use super::Trace;
use super::row::RawRow;
use super::spool::SpoolRows;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;

/// A request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// When it is due, counted from the moment at which the replay begins; of a request that follows another, how long after the
    /// answer to that one.
    pub at: Duration,
    /// Tokens of its prompt, at least 1; of a request that follows another, those that it adds.
    pub input_tokens: u32,
    /// Tokens of its answer, at least 1; `None` where the trace does not tell.
    pub output_tokens: Option<u32>,
    /// Ids of the blocks of its prompt, the first first; prompts with the same leading ids begin alike. Empty where the trace
    /// does not tell; they may cover less than the prompt.
    pub blocks: Arc<[u64]>,
    /// Its conversation, where the trace tells.
    pub session: Option<u64>,
}

/// A request that comes at a time of its own, and in which round of the trace it does: 0, then 1 once every request was given
/// out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The round.
    pub round: u32,
    /// The request.
    pub row: TraceRow,
    /// The requests that follow it, each the answer to the one before.
    pub further: Vec<TraceRow>,
}

/// Where in a trace a replay begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Begin {
    /// At the first request.
    First,
    /// At a moment: this share of its period, from 0 to below 1. What comes until the next request is waited for.
    Moment(f64),
    /// At a request: this share of their number, from 0 to below 1.
    Request(f64),
}

/// The requests of a trace's window, again and again, read from disk as they are asked for.
///
/// Behind the last comes the first again, one mean gap later. Ends only where they cannot be read on: [`Replay::error`] tells
/// why. A clone goes on with the same request.
pub struct Replay {
    trace: Trace,
    /// Number of the request that it began with.
    began: u64,
    /// The moment that times count from, from the first request of the window on.
    since: Duration,
    /// Requests that were given out.
    given: u64,
    open: Option<SpoolRows>,
    error: Option<Arc<anyhow::Error>>,
}

impl Replay {
    pub(super) fn new(trace: Trace, begin: Begin) -> Self {
        let mut replay = Self { trace, began: 0, since: Duration::ZERO, given: 0, open: None, error: None };
        match replay.place(begin) {
            Ok((began, since)) => (replay.began, replay.since) = (began, since),
            Err(e) => replay.error = Some(Arc::new(e)),
        }
        replay
    }

    /// The request that a replay begins with, and the moment that it counts from.
    fn place(&self, begin: Begin) -> Result<(u64, Duration)> {
        let inner = &*self.trace.0;
        let arrivals = inner.summary.arrivals();
        match begin {
            Begin::First => Ok((0, Duration::ZERO)),
            Begin::Moment(share) => {
                let since = inner.period.mul_f64(share.clamp(0.0, 1.0));
                let at = i64::try_from(since.as_nanos()).ok().and_then(|ns| inner.base.checked_add(ns));
                let at = at.context("the trace is too long")?;
                // Behind the last request it is the first one that comes next.
                Ok((inner.spool()?.first_at(at)?, since))
            }
            Begin::Request(share) => {
                let began = ((arrivals as f64 * share) as u64).min(arrivals.saturating_sub(1));
                let first = inner.spool()?.from(began)?.next()?.with_context(cut_short)?;
                Ok((began, Duration::from_nanos(first.at.abs_diff(inner.base))))
            }
        }
    }

    /// Number of the request that it began with, from 0.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Why it ended, if it did.
    pub fn error(&self) -> Option<&anyhow::Error> {
        self.error.as_deref()
    }

    fn advance(&mut self) -> Result<Replayed> {
        let trace = self.trace.clone();
        let inner = &*trace.0;
        let arrivals = inner.summary.arrivals();
        let number = (self.began + self.given) % arrivals;
        if number == 0 {
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(inner.spool()?.from(number)?),
        };
        let first = open.next()?.with_context(cut_short)?;
        let mut further = Vec::new();
        while let Some(row) = open.next()? {
            match row.after {
                Some(after) => further.push(row.replayed(Duration::from_nanos(after))),
                None => {
                    open.put_back(row);
                    break;
                }
            }
        }
        let round = u32::try_from(self.given / arrivals).ok();
        let round = round.context("the trace was replayed four thousand million times")?;
        // Of the rounds of the file itself, which begin anew at its first request.
        let rounds = (self.began + self.given) / arrivals;
        let late = self.since > Duration::from_nanos(inner.last.abs_diff(inner.base));
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX) + u32::from(late);
        let at = Duration::from_nanos(first.at.abs_diff(inner.base)) + inner.period * rounds;
        self.given += 1;
        Ok(Replayed { round, row: first.replayed(at.saturating_sub(self.since)), further })
    }
}

fn cut_short() -> String {
    "a request is missing where the trace was kept".into()
}

impl RawRow {
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
