//! The leader's side of one worker.

use super::super::message::Ended;
use goodput_load::load::local::Outline;
use goodput_load::load::spec::Status;
use std::time::Duration;

/// The leader's side of one worker.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// True while a request is open.
    pub(super) is_open: bool,
    /// When the next request is due.
    pub(super) next: Duration,
    /// When the open request was sent.
    pub(super) asked: Duration,
    /// When it last replied.
    pub(super) heard: Duration,
    /// Its counts are no older than this.
    pub(super) fresh: Duration,
    pub(super) unanswered: u32,
    pub(super) broken: u32,
    pub(super) ready: Option<Outline>,
    /// Start by its own clock, in nanoseconds.
    pub(super) start_ns: u64,
    pub(super) is_armed: bool,
    pub(super) status: Status,
    /// The next chunk.
    pub(super) from: u64,
    pub(super) records: u64,
    pub(super) ended: Option<Ended>,
    /// It takes no part any more: it is at fault, or has ended after another one's fault.
    pub(super) is_out: bool,
}

impl Side {
    /// Returns true if all of its records are there.
    pub(super) fn is_complete(&self) -> bool {
        self.ended.is_some_and(|ended| self.from >= ended.chunks)
    }
}
