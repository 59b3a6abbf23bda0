//! The rules for a worker that does wrong without ending: the step does not count, and is measured again.

use crate::fleet::{Ended, has_broker};
use crate::relay::{Change, RelayedFleet, with_records};
use bytes::Bytes;
use goodput::record::Finished;
use goodput_cluster::message::{Answer, Attempt, Command, Refusal, Reply};
use std::time::Duration;

/// Runs a sweep of one level with two workers, of which `w1` answers as changed, and checks its results.
fn sweep(change: Change, check: impl FnOnce(&Ended)) {
    let relayed = RelayedFleet::start(change);
    let plan = relayed.fleet.plan("faulty", "rates = [150]", 1);
    let ended = relayed.fleet.begin(&plan, "faulty", 2).end();
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    check(&ended);
}

/// Returns the workers of a step that were to send requests.
fn workers(ended: &Ended, step: &str) -> Vec<String> {
    let rows = ended.rows("workers.csv").into_iter().filter(|w| w["step"] == step && w["n"] != "0");
    let mut ids: Vec<String> = rows.map(|w| w["id"].clone()).collect();
    ids.sort_unstable();
    ids
}

/// Checks that the first step counts.
fn check_valid(ended: &Ended, who: &[&str]) {
    let steps = ended.steps();
    assert_eq!((steps.len(), steps[0]["verdict"].as_str()), (1, Some("meets")), "{}", ended.said);
    assert_eq!(workers(ended, "1"), who, "{}", ended.said);
    ended.check_counts(&steps[0]);
}

/// Checks that the first step was invalid by the worker `w1`, and the second counts.
fn check_repeated(ended: &Ended, fault: &str, words: &str, who: &[&str]) {
    let steps = ended.steps();
    let verdicts: Vec<_> = steps.iter().map(|step| step["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["invalid", "meets"], "{}", ended.said);
    assert!(steps[0]["reason"].as_str().unwrap().contains(words), "{}", steps[0]);
    let faults: Vec<_> = ended.rows("workers.csv").into_iter().filter(|w| !w["fault"].is_empty()).collect();
    let [faulty] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((&*faulty["step"], &*faulty["id"], &*faulty["fault"]), ("1", "w1", fault));
    assert_eq!(workers(ended, "2"), who, "{}", ended.said);
    ended.check_counts(&steps[1]);
}

/// Changes the answers to the pulls of the first attempt.
fn first_attempt(mut change: impl FnMut(Answer) -> Answer + Send + 'static) -> Change {
    Box::new(move |command, answer| match command {
        Command::Pull { attempt: Attempt(1), .. } => Some(change(answer)),
        _ => Some(answer),
    })
}

/// Changes the answer to one pull of the first attempt, of those whose answer the change applies to.
fn once(mut change: impl FnMut(&Answer) -> Option<Answer> + Send + 'static) -> Change {
    let mut is_done = false;
    first_attempt(move |answer| {
        let changed = if is_done { None } else { change(&answer) };
        is_done |= changed.is_some();
        changed.unwrap_or(answer)
    })
}

/// Changes the records of the first chunk of the first attempt that has at least two.
fn first_chunk(change: impl Fn(&mut Vec<Finished>) + Send + 'static) -> Change {
    once(move |answer| {
        let mut is_long = false;
        let changed = with_records(answer.clone(), |records| {
            is_long = records.len() >= 2;
            if is_long {
                change(records);
            }
        });
        is_long.then_some(changed)
    })
}

/// Changes what the worker says at the end of its first attempt.
fn at_end(change: impl Fn(&mut goodput_cluster::message::Ended) + Send + 'static) -> Change {
    first_attempt(move |mut answer| {
        if let Reply::Progress(progress) = &mut answer.reply {
            progress.ended.iter_mut().for_each(&change);
        }
        answer
    })
}

#[test]
fn a_share_that_cannot_be_made_ready_is_dealt_to_the_others() {
    if !has_broker() {
        return;
    }
    let unable: Change = Box::new(|command, answer| match command {
        Command::Prepare { .. } => {
            let why = "there is no file prompts.jsonl".into();
            Some(Answer::of(Reply::Refused(Refusal::Failed { why })))
        }
        _ => Some(answer),
    });
    sweep(unable, |ended| {
        let said = &ended.said;
        assert!(said.contains("w1 cannot send its share") && said.contains("prompts.jsonl"), "{said}");
        check_valid(ended, &["w2"]);
    });
    let silent: Change = Box::new(|command, answer| match command {
        Command::Prepare { .. } => None,
        _ => Some(answer),
    });
    sweep(silent, |ended| {
        assert!(ended.said.contains("w1 was lost before the step"), "{}", ended.said);
        check_valid(ended, &["w2"]);
    });
}

#[test]
fn a_late_start_spoils_a_step() {
    if !has_broker() {
        return;
    }
    sweep(at_end(|end| end.start_late_us = 20_000), |ended| {
        check_repeated(ended, "late-start", "w1 started 20 ms late", &["w1", "w2"]);
    });
}

#[test]
fn a_worker_that_sends_late_spoils_a_step() {
    if !has_broker() {
        return;
    }
    let late = |finished: &mut Finished| {
        let record = &mut finished.record;
        record.sent = record.sent.map(|sent| sent + Duration::from_secs(3));
        record.end += Duration::from_secs(3);
    };
    let change =
        first_attempt(move |answer| with_records(answer, |records| records.iter_mut().for_each(late)));
    sweep(change, |ended| check_repeated(ended, "late", "w1 sent late", &["w1", "w2"]));
}

/// Damages the bytes of a chunk.
fn damaged(answer: &Answer) -> Option<Answer> {
    let mut bytes = answer.chunk.to_vec();
    *bytes.last_mut()? ^= 1;
    Some(Answer { chunk: Bytes::from(bytes), ..answer.clone() })
}

#[test]
fn a_damaged_chunk_is_asked_for_again() {
    if !has_broker() {
        return;
    }
    sweep(once(damaged), |ended| check_valid(ended, &["w1", "w2"]));
}

#[test]
fn chunks_that_stay_damaged_or_away_spoil_a_step() {
    if !has_broker() {
        return;
    }
    let always: Change = Box::new(|_, answer| Some(damaged(&answer).unwrap_or(answer)));
    for change in [always, at_end(|end| end.chunks += 1)] {
        sweep(change, |ended| {
            check_repeated(ended, "records-missing", "records of the worker w1 are missing", &["w2"]);
        });
    }
}

#[test]
fn records_that_are_not_the_plans_spoil_a_step() {
    if !has_broker() {
        return;
    }
    sweep(first_chunk(|records| records[1] = records[0].clone()), |ended| {
        check_repeated(ended, "other-requests", "not its own, or one of them twice", &["w2"]);
    });
    // Nothing is damaged, and the counts agree: only the plan tells that one is missing.
    let mut one_less = first_chunk(|records| _ = records.pop());
    let mut and_says_so = at_end(|end| end.records -= 1);
    let change: Change = Box::new(move |command, answer| and_says_so(command, one_less(command, answer)?));
    sweep(change, |ended| {
        check_repeated(ended, "records-missing", "records of the worker w1 are missing", &["w2"]);
    });
}
