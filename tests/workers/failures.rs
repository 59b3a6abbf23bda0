//! The rules for failures: of a worker, of the broker, of the leader.

use crate::fleet::{Fleet, has_broker};
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::Instant;

/// Requests in the run folder once the step is in its middle, at 50 requests per second.
const MIDDLE: usize = 60;

/// Checks a sweep of one level whose first step lost the worker `w1`.
fn check_lost(ended: &crate::fleet::Ended, fault: &str, words: &str) {
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let steps = ended.steps();
    assert_eq!(steps.len(), 2, "{}", ended.said);
    assert_eq!(steps[0]["verdict"], "invalid", "{}", steps[0]);
    assert!(steps[0]["reason"].as_str().unwrap().contains(words), "{}", steps[0]);
    assert_eq!(steps[1]["verdict"], "meets", "{}", steps[1]);
    assert_eq!(steps[0]["level"], steps[1]["level"]);
    ended.check_counts(&steps[1]);
    let workers = ended.rows("workers.csv");
    let lost: Vec<_> = workers.iter().filter(|w| !w["fault"].is_empty()).collect();
    assert_eq!(lost.len(), 1, "{workers:?}");
    assert_eq!(
        (lost[0]["id"].as_str(), lost[0]["fault"].as_str(), lost[0]["step"].as_str()),
        ("w1", fault, "1")
    );
    let mut again = workers.iter().filter(|w| w["step"] == "2");
    assert!(again.all(|w| w["id"] != "w1" && w["n"] != "0"), "dealt again to the others: {workers:?}");
}

#[test]
fn a_killed_worker_is_noticed_at_once_and_its_step_measured_again() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(3);
    let plan = fleet.plan("killed", "rates = [50]", 3);
    let mut sweep = fleet.begin(&plan, "killed", 3);
    sweep.wait_for(MIDDLE);
    fleet.workers[0].signal(Signal::KILL);
    let ended = sweep.end();
    check_lost(&ended, "lost", "w1 was lost");
    assert_eq!(ended.rows("workers.csv").iter().filter(|w| w["step"] == "2").count(), 2);
}

/// A frozen worker is noticed too. A spare one takes its place.
#[test]
fn a_frozen_worker_is_replaced_by_a_spare_one() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(3);
    let plan = fleet.plan("frozen", "rates = [50]", 3);
    let mut sweep = fleet.begin(&plan, "frozen", 2);
    sweep.wait_for(MIDDLE);
    fleet.workers[0].signal(Signal::STOP);
    let ended = sweep.end();
    fleet.workers[0].signal(Signal::CONT);
    check_lost(&ended, "frozen", "w1");
    let again: Vec<_> = ended.rows("workers.csv").into_iter().filter(|w| w["step"] == "2").collect();
    let mut ids: Vec<&str> = again.iter().map(|w| w["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["w2", "w3"]);
}

/// The broker is away for three seconds in the middle of a step, or at its end, when the last records are fetched: the step is valid,
/// and nothing is lost.
#[test]
fn a_step_outlives_its_broker() {
    if !has_broker() {
        return;
    }
    // Of about 350 requests in all.
    for written in [MIDDLE, 280] {
        let mut fleet = Fleet::start(2);
        let plan = fleet.plan("broker", "rates = [50]", 6);
        let mut sweep = fleet.begin(&plan, "broker", 2);
        sweep.wait_for(written);
        fleet.broker.signal(Signal::KILL);
        std::thread::sleep(Duration::from_secs(3));
        fleet.restart_broker();
        let ended = sweep.end();
        let steps = ended.steps();
        assert_eq!((ended.code, steps.len()), (Some(0), 1), "{}", ended.said);
        assert_eq!(steps[0]["verdict"], "meets", "{}", steps[0]);
        ended.check_counts(&steps[0]);
    }
}

/// The leader is killed: within its lease the load ends, and the workers serve the next one.
#[test]
fn load_without_a_leader_ends() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(2);
    let plan = fleet.plan("left", "rates = [50]", 60);
    let mut sweep = fleet.begin(&plan, "left", 2);
    sweep.wait_for(MIDDLE);
    sweep.process.signal(Signal::KILL);
    sweep.process.0.wait().unwrap();
    let killed = Instant::now();
    // The next leader waits for the lease of the first to end.
    let short = fleet.plan("next", "rates = [20]", 5);
    let ended = fleet.begin(&short, "next", 2).end();
    assert_eq!((ended.code, ended.steps().len()), (Some(0), 1), "{}", ended.said);
    assert!(killed.elapsed() > Duration::from_secs(4), "the workers were free at once");
    // The load of the first leader is over: its requests would be in flight besides.
    assert!(ended.steps()[0]["in_flight_max"].as_u64() < Some(20), "{}", ended.steps()[0]);
}

/// A second leader is refused, with the name of the first; the first goes on.
#[test]
fn two_leaders_do_not_share_a_worker() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(1);
    let plan = fleet.plan("first", "rates = [50]", 5);
    let mut first = fleet.begin(&plan, "first", 1);
    first.wait_for(1);
    let second = fleet.command(&plan, "second", (1, "1s")).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("0 of 1 workers") && said.contains("uses it"), "{said}");
    let ended = first.end();
    assert_eq!((ended.code, ended.steps().len()), (Some(0), 1), "{}", ended.said);
}

/// Ctrl-C at the leader ends the load; the step keeps what came, and the sweep is resumed with workers.
#[test]
fn an_interrupted_sweep_is_resumed_with_workers() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(2);
    let plan = fleet.plan("interrupted", "rates = [50]", 4);
    let mut sweep = fleet.begin(&plan, "interrupted", 2);
    sweep.wait_for(MIDDLE);
    let pressed = Instant::now();
    sweep.process.signal(Signal::INT);
    let ended = sweep.end();
    assert_eq!(ended.code, Some(130), "{}", ended.said);
    assert!(pressed.elapsed() < Duration::from_secs(8), "{:?}: {}", pressed.elapsed(), ended.said);
    let mut command = std::process::Command::new(crate::common::goodput().get_program());
    command.args(["sweep", "--no-charts", "--resume"]).arg(&ended.run);
    let out =
        command.args(["--bus", &fleet.url(), "--expect", "2"]).envs(crate::fleet::USER).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}");
    let steps = ended.steps();
    assert_eq!((steps.len(), steps[0]["verdict"].as_str()), (1, Some("meets")), "{said}");
    ended.check_counts(&steps[0]);
    let numbers: std::collections::BTreeSet<String> =
        ended.rows("workers.csv").into_iter().map(|w| w["worker"].clone()).collect();
    assert_eq!(numbers, ["3", "4"].map(String::from).into(), "numbers go on after the first attempt's");
}
