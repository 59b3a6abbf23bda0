//! The requests of a load, as its workers report them, against those of the plan: each must come from the worker that its chain falls to, once,
//! and none may be missing.

use goodput_workload::part::Parts;
use goodput_workload::schedule::Schedule;
use std::time::Duration;

/// The largest number of a request that is believed: beyond it, a broken number would take all memory.
const LARGEST: u64 = 1 << 36;

/// The requests that have been reported.
pub(crate) struct Ledger {
    schedule: Schedule,
    parts: Parts,
    /// A bit for each number of a request.
    reported: Vec<u64>,
}

impl Ledger {
    /// For a load that so many workers fire.
    pub(crate) fn new(schedule: Schedule, workers: usize) -> Self {
        let parts = schedule.parts(workers as u32);
        Self { schedule, parts, reported: Vec::new() }
    }

    /// Enters a request that a worker reports, by the worker's index. Returns false if it is not the worker's, or was reported before.
    pub(crate) fn enter(&mut self, worker: usize, request: u64) -> bool {
        let part = self.parts.part_of(self.schedule.chain(request));
        if part as usize != worker || request > LARGEST || self.has(request) {
            return false;
        }
        let (word, bit) = place(request);
        if self.reported.len() <= word {
            self.reported.resize(word + 1, 0);
        }
        self.reported[word] |= bit;
        true
    }

    fn has(&self, request: u64) -> bool {
        let (word, bit) = place(request);
        self.reported.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns the index of the worker whose request is missing, of the first one among the chains that are due before a time. In a closed
    /// loop none is: its chains have no due times.
    pub(crate) fn missing(&self, end: Duration) -> Option<usize> {
        let due = self.schedule.due_before(end)?;
        let chain = (0..due).find(|chain| !self.has(self.schedule.first_request(*chain)))?;
        Some(self.parts.part_of(chain) as usize)
    }
}

/// Returns the place of a request's bit: the index of its word, and the word with that bit alone.
fn place(request: u64) -> (usize, u64) {
    ((request / 64) as usize, 1 << (request % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_core::level::Level;
    use goodput_load::load::spec::Spec;
    use goodput_workload::draw::Chains;
    use goodput_workload::traffic::Traffic;

    const END: Duration = Duration::from_secs(60);

    fn ledger(level: Level) -> Ledger {
        let Spec { plan, step, .. } = fixture::spec(END);
        let traffic = Traffic::open(&plan.workload, &plan.counter().unwrap()).unwrap();
        let chains = Chains::new(&traffic, &step.arrivals, level).unwrap();
        Ledger::new(Schedule::new(chains), 2)
    }

    /// Enters all requests due in the window but one.
    fn all_but(left_out: Option<u64>) -> (Ledger, u64) {
        let mut ledger = ledger(Level::rate(2.0));
        let due = ledger.schedule.due_before(END).unwrap();
        for request in (0..due).filter(|request| Some(*request) != left_out) {
            let worker = ledger.parts.part_of(request) as usize;
            assert!(ledger.enter(worker, request), "{request}");
        }
        (ledger, due)
    }

    #[test]
    fn each_request_is_reported_once_by_its_worker() {
        let (mut ledger, due) = all_but(None);
        assert_eq!(ledger.missing(END), None);
        let own = ledger.parts.part_of(due) as usize;
        for (worker, request, is_good) in [
            (own, due - 1, false),
            (1 - own, due - 1, false),
            (1 - own, due, false),
            (own, due, true),
            (own, due, false),
        ] {
            assert_eq!(ledger.enter(worker, request), is_good, "{worker} {request}");
        }
        for worker in 0..2 {
            assert!(!ledger.enter(worker, u64::MAX), "a broken number");
        }
    }

    #[test]
    fn the_worker_of_a_missing_request_is_named() {
        let (_, due) = all_but(None);
        for request in [0, 17, due - 1] {
            let (ledger, _) = all_but(Some(request));
            assert_eq!(ledger.missing(END), Some(ledger.parts.part_of(request) as usize), "{request}");
        }
        assert_eq!(ledger(Level::concurrency(3)).missing(END), None, "a closed loop");
    }
}
