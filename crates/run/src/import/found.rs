//! What a tool's files hold, in our terms, before it is judged.

use super::aiperf::Lines;
use crate::rundir::Tool;
use anyhow::Result;
use goodput_core::endpoint::Api;
use goodput_core::level::Level;
use goodput_core::record::Finished;
use goodput_workload::arrivals::Arrivals;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// All that was found in the files of one tool.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) tool: Tool,
    pub(crate) version: Option<String>,
    /// The server's URL as recorded; it may hold what must not be written down.
    pub(crate) server: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) api: Api,
    /// Whether it is known when requests were due; else they count from when they were sent.
    pub(crate) due_known: bool,
    /// What the files do not tell.
    pub(crate) missing: Vec<String>,
    pub(crate) left_out: Vec<String>,
    pub(crate) steps: Vec<FoundStep>,
}

/// A run at one level. All times count from its start, which is when the first request was due.
#[derive(Debug)]
pub(crate) struct FoundStep {
    pub(crate) file: PathBuf,
    pub(crate) level: Level,
    /// The shape of the arrivals of an open loop.
    pub(crate) arrivals: Option<Arrivals>,
    /// When it began.
    pub(crate) started: Option<jiff::Timestamp>,
    /// The part that counts, where the tool says; else from the first request to the last.
    pub(crate) window: Option<Range<Duration>>,
    /// What the tool reckons its rates over, in seconds.
    pub(crate) tool_window: [f64; 2],
    /// What it reported, by its own names.
    pub(crate) reported: BTreeMap<String, f64>,
    pub(crate) requests: Requests,
}

/// A request, and its output tokens by the tool's own count where that is another one.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) finished: Finished,
    pub(crate) counted: Option<u32>,
}

impl From<Finished> for Seen {
    fn from(finished: Finished) -> Self {
        Self { finished, counted: None }
    }
}

/// The requests of a step, in order of `due`, numbered from 0.
#[derive(Debug)]
pub(crate) enum Requests {
    /// Read with the file that holds them.
    Held(Vec<Seen>),
    /// Read again, row by row, so that they are never in memory together.
    Lines(Lines),
}

impl Requests {
    /// Held requests, brought into order and numbered.
    pub(crate) fn held(mut requests: Vec<Seen>) -> Self {
        requests.sort_by_key(|r| r.finished.record.due);
        for (id, r) in (0..).zip(&mut requests) {
            r.finished.record.id = id;
        }
        Self::Held(requests)
    }

    /// When the last one was due; `None` where there is none.
    pub(crate) fn last_due(&self) -> Option<Duration> {
        match self {
            Self::Held(requests) => requests.last().map(|r| r.finished.record.due),
            Self::Lines(lines) => lines.last_due(),
        }
    }

    /// Hands each of them over; those that are read row by row come in the order of the file.
    pub(crate) fn each(self, mut take: impl FnMut(Seen) -> Result<()>) -> Result<()> {
        match self {
            Self::Held(requests) => requests.into_iter().try_for_each(take),
            Self::Lines(lines) => lines.each(&mut take),
        }
    }
}
