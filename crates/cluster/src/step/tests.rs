//! The leader's state machine.

use super::*;
use crate::chunk::Chunks;
use crate::fixture::spec;
use crate::message::{ChunkHead, Ended};
use goodput_core::record::{Phase, Record};

const STOP: Wanted = Wanted { window: Duration::from_secs(9), stop: true, cut: true };

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn finished(id: u64) -> Finished {
    Finished::new(Record::due(id, Phase::Measure, Duration::ZERO), Vec::new())
}

fn ready() -> Answer {
    Answer::of(Reply::Ready(Outline::default()))
}

fn refused(refusal: Refusal) -> Answer {
    Answer::of(Reply::Refused(refusal))
}

fn progress(status: Status, ended: Option<(u64, u64)>) -> Answer {
    let ended = ended.map(|(chunks, records)| Ended { chunks, records, start_late_us: 5 });
    Answer::of(Reply::Progress(Progress { status, chunk: None, ended }))
}

/// Returns a chunk with one record, and what the load has come to.
fn chunk(number: u64, ended: Option<(u64, u64)>) -> Answer {
    let mut chunks = Chunks::default();
    chunks.add(&finished(number));
    let (head, bytes) = chunks.pull(0).unwrap();
    let mut answer = progress(Status::default(), ended);
    if let Reply::Progress(progress) = &mut answer.reply {
        progress.chunk = Some(ChunkHead { number, ..head });
    }
    Answer { chunk: bytes, ..answer }
}

fn broken(number: u64) -> Answer {
    let answer = chunk(number, None);
    // The rows can still be read, but the id of one is another one.
    let mut bytes = answer.chunk.to_vec();
    bytes[5] ^= 1;
    Answer { chunk: bytes.into(), ..answer }
}

/// Returns a leader that has its workers make a load ready.
fn preparing(n: usize) -> StepMachine {
    let one = Preparation { spec: spec(s(9.0)), url: None, connections: 1, allowed: Default::default() };
    StepMachine::new(s(0.0), Attempt(1), Outline::default(), vec![one; n])
}

fn firing(n: usize) -> StepMachine {
    let mut leader = preparing(n);
    answer_all(&mut leader, s(0.0), &ready());
    assert!(leader.is_ready());
    leader.fire(s(0.0), &(1..=n as u64).collect::<Vec<_>>());
    leader
}

/// Returns a leader whose load runs.
fn running(n: usize) -> StepMachine {
    let mut leader = firing(n);
    answer_all(&mut leader, s(0.0), &Answer::of(Reply::Armed));
    assert!(leader.is_running());
    leader
}

/// Answers every request that is due, and returns the requests.
fn answer_all(leader: &mut StepMachine, now: Duration, answer: &Answer) -> Vec<(usize, Command)> {
    let due = leader.due(now);
    due.iter().for_each(|(i, _)| leader.reply(now, *i, answer.clone()));
    due
}

fn fault(leader: &StepMachine) -> Option<(usize, WorkerFault)> {
    leader.fault().map(|fault| (fault.worker, fault.fault))
}

#[test]
fn a_load_goes_through_its_stages() {
    let mut leader = preparing(2);
    let due = leader.due(s(0.0));
    assert!(matches!(due[..], [(0, Command::Prepare { .. }), (1, Command::Prepare { .. })]), "{due:?}");
    assert_eq!((leader.due(s(0.0)), leader.next_due()), (vec![], None));
    leader.reply(s(0.01), 0, ready());
    leader.reply(s(0.02), 1, Answer::of(Reply::Preparing));
    assert_eq!((leader.next_due(), leader.due(s(0.06))), (Some(s(0.07)), vec![]));
    assert_eq!(answer_all(&mut leader, s(0.07), &ready()).len(), 1);
    assert!(leader.is_ready());
    assert_eq!((leader.next_due(), leader.due(s(1.0))), (None, vec![]));
    leader.fire(s(1.0), &[70, 80]);
    let fire = |start_ns| Command::Fire { attempt: Attempt(1), start_ns };
    assert_eq!(leader.due(s(1.0)), [(0, fire(70)), (1, fire(80))]);
    leader.reply(s(1.01), 1, Answer::of(Reply::Armed));
    assert_eq!(leader.next_due(), None);
    leader.failed(s(1.45), 0, Failure::Unanswered);
    assert_eq!(answer_all(&mut leader, s(1.5), &Answer::of(Reply::Armed)), [(0, fire(70))]);
    assert!(leader.is_running());
    let wanted = Wanted { window: s(9.0), stop: false, cut: false };
    let pull = |seq, wanted, from| Command::Pull { attempt: Attempt(1), seq, wanted, from };
    assert_eq!(leader.due(s(1.5)), [(0, pull(1, wanted, 0)), (1, pull(1, wanted, 0))]);
    leader.reply(s(1.6), 0, chunk(0, None));
    // There may be more.
    assert_eq!(leader.due(s(1.6)), [(0, pull(1, wanted, 1))]);
    leader.reply(s(1.6), 0, progress(Status::default(), None));
    assert_eq!(leader.next_due(), Some(s(1.65)));
    leader.want(STOP);
    assert_eq!(leader.due(s(1.6)), [(0, pull(2, STOP, 1))]);
    leader.reply(s(1.7), 0, progress(Status::default(), Some((1, 1))));
    // The first is complete: it is not asked again.
    assert_eq!((leader.next_due(), leader.due(s(1.7))), (None, vec![]));
    leader.reply(s(1.7), 1, progress(Status::default(), Some((1, 1))));
    assert!(!leader.is_over());
    answer_all(&mut leader, s(1.7), &chunk(0, Some((1, 1))));
    assert!(leader.is_over());
    assert_eq!((leader.fault(), leader.next_due()), (None, None));
    assert_eq!(leader.late().collect::<Vec<_>>(), [Duration::from_micros(5); 2]);
    assert_eq!(leader.take_records(), [(0, vec![finished(0)]), (1, vec![finished(0)])]);
    assert_eq!(leader.take_records(), []);
}

#[test]
fn refusals_blame_the_worker() {
    let failed = Refusal::Failed { why: "no file".into() };
    let rows: [(Answer, WorkerFault, Option<&str>); 5] = [
        (refused(Refusal::Held { holder: "b".into() }), WorkerFault::Replaced, Some("b")),
        (refused(Refusal::NotClaimed), WorkerFault::Replaced, None),
        (refused(Refusal::OutOfOrder), WorkerFault::Replaced, None),
        (refused(failed), WorkerFault::Refused, Some("no file")),
        (
            Answer::of(Reply::Ready(Outline { digest: 1, trace: None })),
            WorkerFault::Refused,
            Some(OTHER_REQUESTS),
        ),
    ];
    for (answer, want, why) in rows {
        let is_refusal = matches!(answer.reply, Reply::Refused(_));
        for mut leader in
            [preparing(2), firing(2), running(2)].into_iter().take(if is_refusal { 3 } else { 1 })
        {
            leader.due(s(0.0));
            leader.reply(s(0.1), 1, answer.clone());
            let got = leader.fault().unwrap().clone();
            assert_eq!(got, Fault { worker: 1, fault: want, why: why.map(str::to_owned) });
            assert_eq!(leader.is_over(), !leader.is_running());
        }
    }
}

/// The failures of one worker, each with its time in tenths of a second, the time at which the bus comes back, and the
/// fault that follows.
#[test]
fn failures_blame_the_worker() {
    use Failure::{NoBus, NobodyThere, Unanswered};
    type Row = (&'static [(u32, Failure)], u32, Option<WorkerFault>);
    const NEVER: u32 = u32::MAX;
    let rows: [Row; 10] = [
        (&[(1, NobodyThere)], NEVER, Some(WorkerFault::Lost)),
        (&[(5, Unanswered)], NEVER, None),
        (&[(5, Unanswered), (10, Unanswered)], NEVER, Some(WorkerFault::Frozen)),
        (&[(5, Unanswered), (10, NoBus), (15, NoBus)], NEVER, None),
        (&[(10, NoBus), (20, NoBus), (49, NoBus)], NEVER, None),
        (&[(10, NoBus), (50, NoBus)], NEVER, Some(WorkerFault::Lost)),
        // The bus has just come back.
        (&[(10, NobodyThere), (15, NobodyThere), (20, Unanswered), (25, Unanswered)], 5, None),
        (&[(1, Unanswered), (10, Unanswered)], 5, None),
        (&[(46, NobodyThere), (50, NoBus)], 5, Some(WorkerFault::Lost)),
        (&[(1, NobodyThere)], 5, Some(WorkerFault::Lost)),
    ];
    for (failures, back, want) in rows {
        for mut leader in [firing(2), running(2)] {
            for tenth in 0..=failures.last().unwrap().0 {
                let now = s(f64::from(tenth) / 10.0);
                if tenth == back {
                    leader.reconnected(now);
                }
                // The other one answers all the time.
                let answer = if leader.is_running() {
                    progress(Status::default(), None)
                } else {
                    Answer::of(Reply::Armed)
                };
                let due = leader.due(now);
                due.iter().filter(|(i, _)| *i == 1).for_each(|_| leader.reply(now, 1, answer.clone()));
                if let Some((_, failure)) = failures.iter().find(|(at, _)| *at == tenth) {
                    leader.failed(now, 0, *failure);
                }
            }
            assert_eq!(fault(&leader), want.map(|fault| (0, fault)), "{failures:?}");
        }
    }
}

#[test]
fn a_reply_ends_the_count_of_unanswered_requests() {
    let mut leader = running(1);
    for at in 0..6 {
        leader.due(s(f64::from(at)));
        match at % 2 {
            0 => leader.failed(s(f64::from(at)), 0, Failure::Unanswered),
            _ => leader.reply(s(f64::from(at)), 0, progress(Status::default(), None)),
        }
    }
    assert_eq!(fault(&leader), None);
}

#[test]
fn chunks_are_checked_and_asked_for_again() {
    type Row = (Vec<Answer>, usize, Option<WorkerFault>);
    let again = |n| vec![broken(0); n];
    let wrong = |ended| vec![chunk(0, Some(ended))];
    let rows: [Row; 8] = [
        (again(2), 0, None),
        ([again(2), vec![chunk(0, None)], again(2)].concat(), 1, None),
        (
            [again(2), vec![chunk(0, None), broken(1), broken(1), broken(1)]].concat(),
            1,
            Some(WorkerFault::RecordsMissing),
        ),
        (again(3), 0, Some(WorkerFault::RecordsMissing)),
        (wrong((1, 2)), 1, Some(WorkerFault::RecordsMissing)),
        // Another chunk than the one that was asked for is not taken.
        (vec![chunk(1, None), chunk(7, None)], 0, None),
        // A load that has ended owes its chunks.
        (vec![chunk(1, Some((2, 2))); 2], 0, None),
        (vec![chunk(1, Some((2, 2))); 3], 0, Some(WorkerFault::RecordsMissing)),
    ];
    for (answers, records, want) in rows {
        let mut leader = running(1);
        for (i, answer) in answers.into_iter().enumerate() {
            let due = leader.due(s(0.1 * i as f64));
            assert!(matches!(due[..], [(0, Command::Pull { .. })]), "{due:?}");
            leader.reply(s(0.1 * i as f64), 0, answer);
        }
        assert_eq!((leader.take_records().len(), fault(&leader)), (records, want.map(|fault| (0, fault))));
    }
}

#[test]
fn the_first_fault_counts_and_the_others_are_heard_to_their_end() {
    let mut leader = running(3);
    assert_eq!(leader.due(s(0.0)).len(), 3);
    leader.failed(s(0.1), 1, Failure::NobodyThere);
    assert_eq!((leader.wanted(), leader.is_over()), (STOP, false));
    leader.reply(s(0.1), 0, chunk(0, None));
    let due = leader.due(s(0.1));
    assert!(matches!(due[..], [(0, Command::Pull { wanted: STOP, from: 1, .. })]), "{due:?}");
    leader.failed(s(0.2), 2, Failure::NobodyThere);
    assert!(!leader.is_over());
    leader.reply(s(0.3), 0, chunk(1, Some((2, 2))));
    assert!(leader.is_over());
    assert_eq!(fault(&leader), Some((1, WorkerFault::Lost)));
    assert_eq!(leader.take_records().len(), 2);
}

#[test]
fn a_worker_that_does_not_get_ready_is_refused() {
    let mut leader = preparing(2);
    for at in 0..60 {
        let due = leader.due(s(f64::from(at)));
        for (i, _) in due {
            let answer = if i == 0 { ready() } else { Answer::of(Reply::Preparing) };
            leader.reply(s(f64::from(at)), i, answer);
        }
        assert_eq!(fault(&leader), None);
    }
    leader.due(s(60.0));
    assert_eq!((fault(&leader), leader.is_over()), (Some((1, WorkerFault::Refused)), true));
}

#[test]
fn the_absence_of_the_leader_is_no_silence_of_its_workers() {
    for (looks, want) in [(vec![7.0], None), (vec![0.4, 0.8, 7.0, 11.9], None)] {
        let mut leader = running(1);
        leader.due(s(0.0));
        looks.iter().for_each(|at| _ = leader.due(s(*at)));
        assert_eq!(fault(&leader), want, "{looks:?}");
    }
    let mut leader = running(1);
    (0..=50).for_each(|at| _ = leader.due(s(0.1 * f64::from(at))));
    assert_eq!(fault(&leader), Some((0, WorkerFault::Lost)));
}

#[test]
fn counts_are_added_up_and_fresh_once_all_are() {
    let mut leader = running(3);
    let status = |n, flag| Status {
        in_flight: n,
        measured_open: 2 * n,
        to_come: flag,
        client_limit: flag,
        sent_all: !flag,
    };
    assert!(leader.due(s(1.0)).len() == 3 && leader.is_fresh(s(0.0)));
    leader.reply(s(1.1), 0, progress(status(1, true), None));
    leader.reply(s(1.1), 1, progress(status(2, false), None));
    assert!(!leader.is_fresh(s(1.0)));
    leader.reply(s(1.1), 2, progress(status(4, false), None));
    // As old as the requests for them.
    assert!(leader.is_fresh(s(1.0)) && !leader.is_fresh(s(1.01)));
    let all = Status { in_flight: 7, measured_open: 14, to_come: true, client_limit: true, sent_all: false };
    assert_eq!(leader.status(), all);
    assert_eq!(leader.each_status().map(|s| s.in_flight).collect::<Vec<_>>(), [1, 2, 4]);
    answer_all(&mut leader, s(2.0), &progress(status(0, false), Some((0, 0))));
    let none = Status { sent_all: true, ..Status::default() };
    assert_eq!((leader.status(), leader.is_over()), (none, true));
}

#[test]
fn the_counts_of_a_worker_that_takes_no_part_any_more_are_final() {
    let mut leader = running(3);
    leader.due(s(1.0));
    leader.reply(s(1.0), 0, progress(Status::default(), Some((0, 0))));
    leader.failed(s(1.0), 1, Failure::NobodyThere);
    leader.reply(s(1.0), 2, progress(Status::default(), None));
    assert!(leader.is_fresh(s(1.0)) && !leader.is_fresh(s(5.0)));
    leader.due(s(5.0));
    leader.reply(s(5.0), 2, progress(Status::default(), None));
    assert!(leader.is_fresh(s(5.0)));
}
