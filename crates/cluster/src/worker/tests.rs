//! The worker's state machine.

use super::*;
use crate::chunk;
use crate::fixture::spec;
use goodput_core::record::{Phase, Record};
use proptest::prelude::*;

const LEADER: LeaderId = LeaderId(1);
const OTHER: LeaderId = LeaderId(2);
const WANTED: Wanted = Wanted { window: Duration::from_secs(9), stop: false, cut: false };
const STOP: Wanted = Wanted { stop: true, ..WANTED };

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn claim(holder: &str) -> Command {
    Command::Claim { holder: holder.into() }
}

fn prepare(attempt: u64) -> Command {
    let preparation =
        Preparation { spec: spec(s(9.0)), url: None, connections: 1, allowed: Default::default() };
    Command::Prepare { attempt: Attempt(attempt), preparation: Box::new(preparation) }
}

fn fire(attempt: u64) -> Command {
    Command::Fire { attempt: Attempt(attempt), start_ns: 7 }
}

fn pull(attempt: u64, seq: u64, wanted: Wanted, from: u64) -> Command {
    Command::Pull { attempt: Attempt(attempt), seq, wanted, from }
}

fn delays(attempt: u64) -> Command {
    Command::Delays { attempt: Attempt(attempt), counted: s(0.0)..s(1.0) }
}

fn release(attempt: u64) -> Command {
    Command::Release { attempt: Attempt(attempt) }
}

fn finished(id: u64) -> Finished {
    Finished::new(Record::due(id, Phase::Measure, Duration::ZERO), vec![id as u32])
}

/// A worker, and the loads that it was asked for.
#[derive(Default)]
struct Tester {
    machine: WorkerMachine,
    loads: Vec<LoadId>,
}

impl Tester {
    /// Returns a worker whose second attempt has come to a stage.
    fn at(stage: &str) -> Self {
        let mut tester = Self::default();
        if stage != "free" {
            tester.ask(LEADER, claim("a"));
        }
        if !["free", "claimed"].contains(&stage) {
            tester.ask(LEADER, prepare(2));
        }
        match stage {
            "unprepared" => tester.machine.prepared(tester.loads[0], Err("no file".into())),
            "failed" | "firing" | "ended" | "ready" => {
                tester.machine.prepared(tester.loads[0], Ok(Outline::default()));
            }
            _ => {}
        }
        if ["firing", "ended", "failed"].contains(&stage) {
            tester.ask(LEADER, fire(2));
        }
        match stage {
            "failed" => tester.machine.ended(tester.loads[0], Err("no port".into())),
            "ended" => tester.end(),
            _ => {}
        }
        tester
    }

    fn end(&mut self) {
        self.machine.ended(self.loads[0], Ok((Duration::from_millis(3), Delays::default())));
    }

    fn ask(&mut self, leader: LeaderId, command: Command) -> (Answer, Vec<Effect>) {
        self.ask_at(0.0, leader, command)
    }

    fn ask_at(&mut self, now: f64, leader: LeaderId, command: Command) -> (Answer, Vec<Effect>) {
        let (answer, effects) = self.machine.request(s(now), Request { leader, command });
        self.loads.extend(effects.iter().filter_map(|e| match e {
            Effect::Prepare(id, _) => Some(*id),
            _ => None,
        }));
        (answer, effects)
    }

    /// Pulls, and returns the ids of the records that come.
    fn pulled(&mut self, from: u64) -> Vec<u64> {
        let (answer, _) = self.ask(LEADER, pull(2, 1, WANTED, from));
        chunk::read(&answer.chunk).unwrap().iter().map(|one| one.record.id).collect()
    }
}

/// Names a reply.
fn name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Clock { .. } => "clock",
        Reply::Claimed => "claimed",
        Reply::Preparing => "preparing",
        Reply::Ready(_) => "ready",
        Reply::Armed => "armed",
        Reply::Progress(_) => "progress",
        Reply::Delays(_) => "delays",
        Reply::Released => "released",
        Reply::Freed => "freed",
        Reply::Refused(Refusal::Held { .. }) => "held",
        Reply::Refused(Refusal::NotClaimed) => "unclaimed",
        Reply::Refused(Refusal::OutOfOrder) => "order",
        Reply::Refused(Refusal::Failed { .. }) => "failed",
    }
}

/// Names effects, by a letter each: Prepare, Fire, Control, and X for Cancel.
fn letters(effects: &[Effect]) -> String {
    let letter = |effect: &Effect| match effect {
        Effect::Prepare(..) => 'P',
        Effect::Fire(..) => 'F',
        Effect::Control(_) => 'C',
        Effect::Cancel => 'X',
    };
    effects.iter().map(letter).collect()
}

/// Every stage of attempt 2, and what requests for attempts 1, 2 and 3 do there.
#[test]
fn each_stage_has_its_replies() {
    type Row = (&'static str, [&'static str; 13]);
    #[rustfmt::skip]
    let table: [Row; 8] = [
        ("free",       ["unclaimed", "unclaimed", "unclaimed", "unclaimed", "unclaimed", "unclaimed", "unclaimed", "unclaimed", "unclaimed", "unclaimed", "claimed", "claimed", "unclaimed"]),
        ("claimed",    ["preparing P", "preparing P", "preparing P", "order", "order", "order", "order", "released", "released", "released", "claimed", "held", "freed"]),
        ("preparing",  ["order", "preparing", "preparing XP", "order", "order", "order", "order", "released", "released X", "released X", "claimed", "held", "freed X"]),
        ("ready",      ["order", "ready", "preparing XP", "order", "armed F", "order", "order", "released", "released X", "released X", "claimed", "held", "freed X"]),
        ("firing",     ["order", "order", "preparing XP", "order", "armed", "progress C", "order", "released", "released X", "released X", "claimed", "held", "freed X"]),
        ("ended",      ["order", "order", "preparing XP", "order", "armed", "progress", "delays", "released", "released X", "released X", "claimed", "held", "freed X"]),
        ("unprepared", ["order", "failed", "preparing XP", "order", "failed", "failed", "order", "released", "released X", "released X", "claimed", "held", "freed X"]),
        ("failed",     ["order", "failed", "preparing XP", "order", "failed", "failed", "order", "released", "released X", "released X", "claimed", "held", "freed X"]),
    ];
    let requests = || {
        let of_leader =
            [prepare(1), prepare(2), prepare(3), fire(1), fire(2), pull(2, 1, WANTED, 0), delays(2)];
        let rest = [release(1), release(2), release(3), claim("a"), claim("b"), Command::Free];
        of_leader.into_iter().chain(rest)
    };
    for (stage, row) in table {
        for (want, command) in row.into_iter().zip(requests()) {
            let leader = if command == claim("b") { OTHER } else { LEADER };
            let (answer, effects) = Tester::at(stage).ask(leader, command.clone());
            let got = format!("{} {}", name(&answer.reply), letters(&effects));
            assert_eq!(got.trim(), want, "{stage}: {command:?}");
        }
    }
}

#[test]
fn a_second_leader_is_refused_with_the_name_of_the_first() {
    let mut worker = Tester::at("firing");
    let held = Reply::Refused(Refusal::Held { holder: "a".into() });
    assert_eq!(worker.ask_at(1.0, OTHER, claim("b")).0.reply, held);
    assert_eq!(name(&worker.ask_at(1.0, OTHER, Command::Free).0.reply), "unclaimed");
    assert_eq!(worker.machine.holder(), Some("a"));
    // The refused requests did not renew the lease.
    let (answer, effects) = worker.ask_at(5.0, OTHER, claim("b"));
    assert_eq!((name(&answer.reply), effects), ("claimed", vec![Effect::Cancel]));
    assert_eq!(name(&worker.ask_at(5.0, LEADER, pull(2, 9, WANTED, 0)).0.reply), "unclaimed");
}

#[test]
fn the_end_of_the_lease_cancels_the_load() {
    for (command, renews) in
        [(pull(2, 1, WANTED, 0), true), (claim("a"), true), (delays(7), true), (Command::Clock, false)]
    {
        let mut worker = Tester::at("firing");
        worker.ask_at(3.0, LEADER, command.clone());
        let until = if renews { 8.0 } else { 5.0 };
        assert_eq!(worker.machine.tick(s(until - 0.001)), [], "{command:?}");
        assert_eq!(worker.machine.tick(s(until)), [Effect::Cancel], "{command:?}");
        assert_eq!((worker.machine.tick(s(99.0)), worker.machine.holder()), (vec![], None));
    }
    let (answer, effects) = Tester::at("firing").ask_at(5.0, LEADER, pull(2, 1, WANTED, 0));
    assert_eq!((name(&answer.reply), effects), ("unclaimed", vec![Effect::Cancel]));
}

#[test]
fn repeated_and_late_requests_change_nothing() {
    let mut worker = Tester::at("firing");
    let steps = [
        (pull(2, 2, STOP, 0), "C"),
        (pull(2, 2, STOP, 0), ""),
        (pull(2, 1, WANTED, 0), ""),
        // What is wanted is wanted already.
        (pull(2, 3, STOP, 0), ""),
        (fire(2), ""),
        (prepare(2), ""),
        (prepare(1), ""),
        (release(1), ""),
        (release(2), "X"),
        (release(2), ""),
        // The attempt is over: it is neither made ready nor fired again.
        (prepare(2), ""),
        (fire(2), ""),
        (prepare(3), "P"),
    ];
    for (command, want) in steps {
        let (_, effects) = worker.ask(LEADER, command.clone());
        assert_eq!(letters(&effects), want, "{command:?}");
    }
    // Nor after the worker was given back and claimed again; but another leader has attempts of its own.
    worker.ask(LEADER, Command::Free);
    for (leader, want) in [(LEADER, "order"), (OTHER, "preparing")] {
        worker.ask(leader, claim("x"));
        assert_eq!(name(&worker.ask(leader, prepare(2)).0.reply), want);
        worker.ask(leader, Command::Free);
    }
}

#[test]
fn an_attempt_that_was_not_fired_may_be_made_ready_again() {
    let mut worker = Tester::at("ready");
    worker.machine.tick(s(5.0));
    worker.ask_at(5.0, LEADER, claim("a"));
    assert_eq!(letters(&worker.ask_at(5.0, LEADER, prepare(2)).1), "P");
}

#[test]
fn a_refused_pull_changes_nothing() {
    let mut worker = Tester::at("ready");
    assert_eq!(name(&worker.ask(LEADER, pull(2, 5, STOP, 0)).0.reply), "order");
    worker.ask(LEADER, fire(2));
    assert_eq!(worker.ask(LEADER, pull(2, 5, STOP, 0)).1, [Effect::Control(STOP)]);
}

#[test]
fn pulls_acknowledge_and_repeat_chunks() {
    let mut worker = Tester::at("firing");
    let load = worker.loads[0];
    assert!(worker.pulled(0).is_empty());
    for id in 1..=2 {
        worker.machine.finished(load, &finished(id));
    }
    assert_eq!((worker.pulled(0), worker.pulled(0)), (vec![1, 2], vec![1, 2]));
    worker.machine.finished(load, &finished(3));
    let kept = worker.machine.unacknowledged_bytes();
    assert_eq!((worker.pulled(1), worker.pulled(1)), (vec![3], vec![3]));
    assert!(worker.machine.unacknowledged_bytes() < kept);
    // A late request for a chunk that is acknowledged brings nothing, and loses nothing.
    assert_eq!((worker.pulled(0), worker.pulled(1)), (vec![], vec![3]));
    assert_eq!((worker.pulled(2), worker.machine.unacknowledged_bytes()), (vec![], 0));
    let status = Status { in_flight: 4, ..Status::default() };
    worker.machine.status(load, status);
    worker.end();
    let ended = Some(Ended { chunks: 2, records: 3, start_late_us: 3000 });
    let progress = Reply::Progress(Progress { status, chunk: None, ended });
    assert_eq!(worker.ask(LEADER, pull(2, 1, WANTED, 2)).0, Answer::of(progress));
}

#[test]
fn an_older_load_does_not_count_for_a_newer_one() {
    let mut worker = Tester::at("firing");
    worker.machine.tick(s(5.0));
    worker.ask_at(5.0, OTHER, claim("b"));
    worker.ask_at(5.0, OTHER, prepare(2));
    let [old, new] = worker.loads[..] else { panic!("{:?}", worker.loads) };
    worker.machine.prepared(old, Err("too late".into()));
    worker.machine.finished(old, &finished(1));
    worker.machine.ended(old, Ok(Default::default()));
    assert_eq!(name(&worker.ask_at(6.0, OTHER, prepare(2)).0.reply), "preparing");
    worker.machine.prepared(new, Ok(Outline::default()));
    let (_, effects) = worker.ask_at(6.0, OTHER, fire(2));
    assert_eq!(effects, [Effect::Fire(new, 7)]);
    worker.machine.ended(old, Err("too late".into()));
    let (answer, _) = worker.ask_at(6.0, OTHER, pull(2, 1, WANTED, 0));
    assert_eq!(answer, Answer::of(Reply::Progress(Progress::default())));
}

fn any_command() -> impl Strategy<Value = Command> {
    let attempt = || 1..4_u64;
    let any_pull =
        (attempt(), 0..4_u64, any::<[bool; 2]>(), 0..4_u64).prop_map(|(attempt, seq, [stop, cut], from)| {
            pull(attempt, seq, Wanted { stop, cut, ..WANTED }, from)
        });
    prop_oneof![
        Just(Command::Clock),
        Just(claim("x")),
        attempt().prop_map(prepare),
        attempt().prop_map(fire),
        any_pull,
        attempt().prop_map(delays),
        attempt().prop_map(release),
        Just(Command::Free),
    ]
}

/// Something that happens at a worker.
#[derive(Debug, Clone)]
enum Event {
    Request(u64, Command),
    Tick,
    /// One of its loads becomes ready, or fails to.
    Prepared(prop::sample::Index, bool),
    Finished(prop::sample::Index),
    Ended(prop::sample::Index, bool),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..3_u64, any_command()).prop_map(|(leader, command)| Event::Request(leader, command)),
        1 => Just(Event::Tick),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(i, ok)| Event::Prepared(i, ok)),
        2 => any::<prop::sample::Index>().prop_map(Event::Finished),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(i, ok)| Event::Ended(i, ok)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// In any order of messages, only the leader with the lease is obeyed, and no attempt is fired twice.
    #[test]
    fn only_the_leader_with_the_lease_is_obeyed(
        events in proptest::collection::vec((0..2500_u64, any_event()), 1..80),
    ) {
        let (mut worker, mut now, mut lease) = (Tester::default(), Duration::ZERO, None);
        let mut fired = Vec::new();
        for (after, event) in events {
            now += Duration::from_millis(after);
            lease = lease.filter(|(_, heard)| now < *heard + LEASE);
            match event {
                Event::Request(leader, command) => {
                    let is_held = lease.is_some_and(|(by, _)| by == leader);
                    let (answer, effects) = worker.ask_at(now.as_secs_f64(), LeaderId(leader), command.clone());
                    let reply = name(&answer.reply);
                    match command {
                        Command::Clock => prop_assert_eq!(reply, "clock"),
                        Command::Claim { .. } if is_held || lease.is_none() => prop_assert_eq!(reply, "claimed"),
                        Command::Claim { .. } => prop_assert_eq!(reply, "held"),
                        _ if is_held => prop_assert!(!["held", "unclaimed"].contains(&reply), "{reply}"),
                        _ => prop_assert_eq!(reply, "unclaimed"),
                    }
                    if reply == "claimed" || is_held && command != Command::Clock {
                        lease = Some((leader, now)).filter(|_| command != Command::Free);
                    }
                    if let (Command::Fire { attempt, .. }, true) = (command, letters(&effects).contains('F')) {
                        prop_assert!(!fired.contains(&(leader, attempt)), "{attempt:?} was fired twice");
                        fired.push((leader, attempt));
                    }
                }
                Event::Tick => _ = worker.machine.tick(now),
                _ if worker.loads.is_empty() => {}
                Event::Prepared(i, ok) => {
                    let made = if ok { Ok(Outline::default()) } else { Err("no".into()) };
                    worker.machine.prepared(*i.get(&worker.loads), made);
                }
                Event::Finished(i) => worker.machine.finished(*i.get(&worker.loads), &finished(1)),
                Event::Ended(i, ok) => {
                    let ended = if ok { Ok(Default::default()) } else { Err("no".into()) };
                    worker.machine.ended(*i.get(&worker.loads), ended);
                }
            }
        }
    }
}
