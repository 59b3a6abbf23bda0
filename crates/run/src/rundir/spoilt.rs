//! The steps of a run that a worker (one of several load machines) spoilt. They are in the files and in `result.json`, and count for
//! nothing else.

use super::{FailureRow, Run};
use goodput_core::caveat::{Caveat, ClientCaveat, WorkerFault};
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{Step, Verdict};

/// Separates the steps that a worker spoilt from those that count, and drops the failures of the former.
pub(super) fn set_apart(steps: Vec<Step>, failures: &mut Vec<FailureRow>) -> (Vec<Step>, Vec<Step>) {
    let (spoilt, steps): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(Step::is_worker_fault);
    failures.retain(|f| !spoilt.iter().any(|s| s.series == f.series && s.step == f.step));
    (steps, spoilt)
}

impl Run {
    /// Returns every finished step, including those that a worker spoilt, by number.
    pub fn all_steps(&self) -> Vec<&Step> {
        let mut all: Vec<&Step> = self.steps.iter().chain(&self.spoilt).collect();
        all.sort_by_key(|s| s.step);
        all
    }
}

/// Returns the caveats on the workers of a series: one for each worker and fault that spoilt steps, and one for a worker whose TTFT
/// is above that of the others.
pub(super) fn caveats(steps: &[Step], spoilt: &[Step], answer: Option<&Answer>) -> Vec<Caveat> {
    let mut faults: Vec<(&str, WorkerFault, u32)> = Vec::new();
    for worker in spoilt.iter().filter_map(Step::faulty_worker) {
        let Some(fault) = worker.fault else { continue };
        match faults.iter_mut().find(|(id, known, _)| *id == worker.id && *known == fault) {
            Some((.., steps)) => *steps += 1,
            None => faults.push((&worker.id, fault, 1)),
        }
    }
    let fault = |(id, fault, steps): (&str, WorkerFault, u32)| ClientCaveat::WorkerFaults {
        steps,
        id: id.to_owned(),
        fault,
    };
    let mut found: Vec<Caveat> = faults.into_iter().map(fault).map(Caveat::from).collect();
    found.extend(apart(steps, answer));
    found
}

/// Returns the caveat on a worker whose TTFT is above that of the others in the step nearest to the answer, or without an answer in
/// the step with the most requests.
fn apart(steps: &[Step], answer: Option<&Answer>) -> Option<Caveat> {
    let calm = |s: &&Step| {
        !s.workers.is_empty()
            && s.verdict != Verdict::Invalid
            && !s.overloaded()
            && !s.kind.is_outside_search()
    };
    let level = answer.and_then(|a| a.goodput.rate().or(a.goodput.bracket.met)).filter(|level| *level > 0.0);
    let far = |s: &Step| level.map_or(0.0, |level| (s.level.value / level).ln().abs());
    let nearer = |a: &&Step, b: &&Step| far(a).total_cmp(&far(b)).then(b.due_n.cmp(&a.due_n));
    let step = steps.iter().filter(calm).min_by(nearer)?;
    let apart = step.workers_apart()?;
    let (id, ttft_ms, others_ms) = (apart.worker.id.clone(), apart.ttft_ms, apart.others_ms);
    Some(ClientCaveat::WorkerApart { id, ttft_ms, others_ms, step: step.step }.into())
}

#[cfg(test)]
mod tests;
