//! A trace as a stream of requests that never ends.

use super::Trace;
use super::row::RawRow;
use super::rows::Rows;
use super::scan::Input;
use super::sort::SortedRows;
use anyhow::{Context, Result, anyhow};
use std::sync::Arc;
use std::time::Duration;

/// A request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// When it is due, counted from the first request of the first round.
    pub at: Duration,
    /// Tokens of its prompt, at least 1.
    pub input_tokens: u32,
    /// Tokens of its answer, at least 1; `None` where the trace does not tell.
    pub output_tokens: Option<u32>,
    /// Ids of the blocks of its prompt, the first first; prompts with the same leading ids begin alike. Empty where the trace
    /// does not tell; they may cover less than the prompt.
    pub blocks: Arc<[u64]>,
    /// Its conversation, where the trace tells.
    pub session: Option<u64>,
}

/// A request, and in which round of the trace it comes: 0, then 1 when the trace begins anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The round.
    pub round: u32,
    /// The request.
    pub row: TraceRow,
}

/// The requests of a trace's window, again and again, read from disk as they are asked for.
///
/// A later round comes as much later as the window is long, and one mean gap. Ends only where the file cannot be read on:
/// [`Replay::error`] tells why. A clone goes on with the same request; it opens the file itself and reads up to there.
pub struct Replay {
    trace: Trace,
    round: u32,
    /// Requests of this round that were given out.
    given: u64,
    open: Option<Open>,
    error: Option<Arc<anyhow::Error>>,
}

enum Open {
    File(Box<Rows>),
    Sorted(SortedRows),
}

impl Open {
    fn next(&mut self, input: &Input) -> Result<Option<RawRow>> {
        match self {
            Self::File(rows) => rows.next(&input.how, input.hashing.as_ref()),
            Self::Sorted(rows) => rows.next(),
        }
    }
}

impl Replay {
    pub(super) fn new(trace: Trace) -> Self {
        Self { trace, round: 0, given: 0, open: None, error: None }
    }

    /// Why it ended, if it did.
    pub fn error(&self) -> Option<&anyhow::Error> {
        self.error.as_deref()
    }

    fn advance(&mut self) -> Result<Replayed> {
        let trace = self.trace.clone();
        let inner = &*trace.0;
        let input = &inner.input;
        if self.given == inner.summary.rows {
            self.round =
                self.round.checked_add(1).context("the trace was replayed four thousand million times")?;
            (self.given, self.open) = (0, None);
        }
        let skip = if self.open.is_none() { self.given } else { 0 };
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(match &input.sorted {
                Some(sorted) => Open::Sorted(sorted.rows()),
                None => Open::File(Box::new(input.rows()?)),
            }),
        };
        let mut skipped = 0;
        while let Some(row) = open.next(input)? {
            let (inside, behind) = input.place(row.at, inner.first);
            if behind {
                break;
            }
            if inside && skipped == skip {
                let since = u64::try_from(row.at - inner.base).ok().with_context(|| changed(input))?;
                self.given += 1;
                return Ok(Replayed {
                    round: self.round,
                    row: row.replayed(since, inner.period * self.round),
                });
            }
            skipped += u64::from(inside);
        }
        Err(anyhow!(changed(input)))
    }
}

fn changed(input: &Input) -> String {
    format!("{} was changed while it was replayed", input.source.file.display())
}

impl RawRow {
    fn replayed(self, since_ns: u64, shift: Duration) -> TraceRow {
        TraceRow {
            at: Duration::from_nanos(since_ns) + shift,
            input_tokens: self.input,
            output_tokens: self.output,
            blocks: self.blocks.into(),
            session: self.session,
        }
    }
}

impl Clone for Replay {
    fn clone(&self) -> Self {
        Self {
            trace: self.trace.clone(),
            round: self.round,
            given: self.given,
            open: None,
            error: self.error.clone(),
        }
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
