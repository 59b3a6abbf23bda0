//! Steps that a worker spoilt, from the files to the answers and the caveats.

use super::*;
use crate::fixture;
use crate::rundir::Meta;
use crate::rundir::json::result;
use goodput_plan::Plan;
use goodput_stats::stats::step::StepKind;
use goodput_stats::stats::workers::StepWorker;

const PLAN: &str = "name = \"four workers\"\nserver.url = \"http://127.0.0.1:8000\"\n\
                    slo = { ttft.p99 = \"200ms\", tpot.p99 = \"20ms\" }\n\
                    search.rates = [5, 10, 15, 20, 25, 28, 30, 32, 34, 36, 48]\n\
                    workload.prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }\n";

/// Returns the steps of the fixture, listed, with the spoilt one or without it.
fn steps(with_spoilt: bool) -> Vec<Step> {
    let run = fixture::workers();
    let all = run.all_steps().into_iter().filter(|s| with_spoilt || !s.is_worker_fault());
    all.map(|s| Step { kind: StepKind::List, ..s.clone() }).collect()
}

fn assembled(steps: Vec<Step>, failures: Vec<FailureRow>) -> Run {
    let meta = Meta { workers: fixture::workers().meta.workers, ..fixture::meta() };
    Run::assemble(&Plan::from_text(PLAN).unwrap(), PLAN.into(), meta, steps, failures, vec![]).unwrap()
}

/// The answers are those of a sweep in which no worker was lost, and so are all other caveats.
#[test]
fn a_spoilt_step_counts_for_nothing() {
    let failure = |step| FailureRow {
        series: "main".into(),
        step,
        kind: "reset".into(),
        count: 9,
        ..FailureRow::default()
    };
    let run = assembled(steps(true), vec![failure(7), failure(8)]);
    let without = assembled(steps(false), vec![failure(8)]);
    assert_eq!((run.steps.len(), run.spoilt.len(), run.all_steps().len()), (11, 1, 12));
    assert_eq!(
        (&run.steps, &run.answers, &run.failures),
        (&without.steps, &without.answers, &without.failures)
    );
    let faults = ClientCaveat::WorkerFaults { steps: 1, id: "node-2".into(), fault: WorkerFault::Lost };
    let others: Vec<&Caveat> = run.caveats.iter().filter(|c| **c != Caveat::from(faults.clone())).collect();
    assert_eq!((others, run.caveats.len()), (without.caveats.iter().collect(), without.caveats.len() + 1));
    let written = result(&run);
    let numbers: Vec<_> =
        written["steps"].as_array().unwrap().iter().map(|s| s["step"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>(), "the file has every step");
    assert_eq!(written["steps"][6]["workers"][1]["fault"], "lost");
}

#[test]
fn faults_are_counted_by_worker_and_kind() {
    let faulty = |faults: &[(u16, WorkerFault)]| {
        let mut step = fixture::workers().spoilt.remove(0);
        step.workers.iter_mut().for_each(|w| w.fault = None);
        for (worker, fault) in faults {
            step.workers[usize::from(*worker) - 1].fault = Some(*fault);
        }
        step
    };
    use WorkerFault::{LateStart, Lost};
    let spoilt = [
        faulty(&[(2, Lost)]),
        faulty(&[(3, LateStart)]),
        faulty(&[(1, LateStart), (2, Lost)]), // the gravest
        faulty(&[]),                          // nobody knows which
    ];
    let of =
        |id: &str, fault, steps| Caveat::from(ClientCaveat::WorkerFaults { steps, id: id.into(), fault });
    assert_eq!(caveats(&[], &spoilt, None), [of("node-2", Lost, 2), of("node-3", LateStart, 1)]);
}

/// Rows: case, change to the steps, and the step that shows the worker in the farther zone.
#[test]
fn the_step_nearest_the_answer_shows_the_farther_worker() {
    let answer = assembled(steps(false), vec![]).answers.remove(0);
    let alike = |w: &mut StepWorker| (w.ttft_p50_ms, w.apart_p) = (Some(20.0), None);
    for (what, change, with_answer, want) in [
        ("all", (|_| ()) as fn(&mut Vec<Step>), true, Some(10)),
        ("without an answer, the longest", |_| (), false, Some(11)),
        ("that step is invalid", |s| s[8].verdict = Verdict::Invalid, true, Some(9)),
        ("overloaded", |s| s.iter_mut().for_each(|s| s.stable = Some(false)), true, None),
        ("one machine", |s| s.iter_mut().for_each(|s| s.workers.clear()), true, None),
    ] {
        let mut all = steps(false);
        change(&mut all);
        let found = caveats(&all, &[], Some(&answer).filter(|_| with_answer));
        let step = found.first().and_then(Caveat::step);
        assert_eq!((step, found.len()), (want, usize::from(want.is_some())), "{what}: {found:?}");
    }
    let mut all = steps(false);
    all[8].workers.iter_mut().for_each(alike);
    assert!(caveats(&all, &[], Some(&answer)).is_empty(), "alike in the step nearest the answer");
}
