//! Contents of a tool's result files in our terms, before validation.

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

/// All data found in the files of one tool.
#[derive(Debug)]
pub(crate) struct ToolResults {
    pub(crate) tool: Tool,
    pub(crate) version: Option<String>,
    /// The server's URL as recorded; may contain secrets that must not be written to files.
    pub(crate) server: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) api: Api,
    /// True if due times are recorded; otherwise requests count from their send time.
    pub(crate) due_known: bool,
    /// Data missing from the files.
    pub(crate) missing: Vec<String>,
    pub(crate) left_out: Vec<String>,
    pub(crate) steps: Vec<ResultStep>,
}

/// A run at one level. All times are relative to its start, the due time of its first request.
#[derive(Debug)]
pub(crate) struct ResultStep {
    pub(crate) file: PathBuf,
    pub(crate) level: Level,
    /// Arrival process of an open loop.
    pub(crate) arrivals: Option<Arrivals>,
    /// Start time.
    pub(crate) started: Option<jiff::Timestamp>,
    /// Measured window, if the tool records one; otherwise from the first request to the last.
    pub(crate) window: Option<Range<Duration>>,
    /// Window over which the tool computes its rates, in seconds.
    pub(crate) tool_window: [f64; 2],
    /// Figures reported by the tool, under its own names.
    pub(crate) reported: BTreeMap<String, f64>,
    pub(crate) requests: Requests,
}

/// A request, with its output tokens by the tool's own count if that differs from the server's.
#[derive(Debug)]
pub(crate) struct ImportedRequest {
    pub(crate) finished: Finished,
    pub(crate) counted: Option<u32>,
}

impl From<Finished> for ImportedRequest {
    fn from(finished: Finished) -> Self {
        Self { finished, counted: None }
    }
}

/// The requests of a step, in order of `due`, numbered from 0.
#[derive(Debug)]
pub(crate) enum Requests {
    /// Requests held in memory.
    InMemory(Vec<ImportedRequest>),
    /// Requests that are read again row by row, so that they are never all in memory.
    Lines(Lines),
}

impl Requests {
    /// Sorts the requests by `due` and numbers them.
    pub(crate) fn in_memory(mut requests: Vec<ImportedRequest>) -> Self {
        requests.sort_by_key(|r| r.finished.record.due);
        for (id, r) in (0..).zip(&mut requests) {
            r.finished.record.id = id;
        }
        Self::InMemory(requests)
    }

    /// Returns the due time of the last request; `None` if there are no requests.
    pub(crate) fn last_due(&self) -> Option<Duration> {
        match self {
            Self::InMemory(requests) => requests.last().map(|r| r.finished.record.due),
            Self::Lines(lines) => lines.last_due(),
        }
    }

    /// Passes each request to `take`; requests that are read row by row come in file order.
    pub(crate) fn each(self, mut take: impl FnMut(ImportedRequest) -> Result<()>) -> Result<()> {
        match self {
            Self::InMemory(requests) => requests.into_iter().try_for_each(take),
            Self::Lines(lines) => lines.each(&mut take),
        }
    }
}
