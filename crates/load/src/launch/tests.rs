//! Tests with real processes: none must be left after a stop.

use super::*;
use std::fs;

fn launch(dir: &Path, script: &str) -> Launch {
    Launch {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::from([("WHO".to_owned(), "nobody".to_owned())]),
        folder: Some(dir.to_owned()),
        log: dir.join("logs/a.log"),
        secrets: Vec::new(),
        serves: Vec::new(),
    }
}

/// Waits for a file that a script writes, and parses the number in it.
async fn number(path: &Path) -> i32 {
    for _ in 0..400 {
        if let Ok(n) = fs::read_to_string(path).unwrap_or_default().trim().parse() {
            return n;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{} was not written", path.display());
}

/// Returns true if a process exists and is not a zombie.
fn alive(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    if cfg!(target_os = "linux") {
        return stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']));
    }
    rustix::process::Pid::from_raw(id).is_some_and(|id| rustix::process::test_kill_process(id).is_ok())
}

/// A script that ignores SIGTERM, with a child that does so too.
const STUBBORN: &str = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo $! > child.tmp; mv child.tmp child; while :; do sleep 0.1; done";

#[tokio::test]
async fn a_whole_group_is_gone_however_stubborn() {
    let dir = tempfile::tempdir().unwrap();
    let groups = Groups::default();
    let mut running = launch(dir.path(), STUBBORN).start(&groups).unwrap();
    let child = number(&dir.path().join("child")).await;
    assert!(alive(child) && running.exited().is_none());
    let kindly = running.stop(Duration::from_millis(200)).await.unwrap();
    assert!(!kindly && !alive(child), "killed, and its child with it");
}

#[tokio::test]
async fn one_that_goes_by_itself_is_not_killed() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "trap 'echo bye; exit 0' TERM; echo $WHO; sleep 30 & echo $! > child.tmp; mv child.tmp child; wait";
    let running = launch(dir.path(), script).start(&Groups::default()).unwrap();
    let (child, log) = (number(&dir.path().join("child")).await, running.log.clone());
    assert!(running.stop(Duration::from_secs(10)).await.unwrap());
    assert!(!alive(child), "asked to end like its parent");
    assert_eq!(log.last_lines(), ["nobody", "bye"]);
}

#[tokio::test]
async fn a_child_that_outlives_its_parent_is_stopped_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let script = "sleep 60 & echo $! > child.tmp; mv child.tmp child; exit 3";
    let mut running = launch(dir.path(), script).start(&Groups::default()).unwrap();
    let child = number(&dir.path().join("child")).await;
    while running.exited().is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(running.exited().and_then(|s| s.code()), Some(3));
    assert!(alive(child));
    running.stop(Duration::from_secs(5)).await.unwrap();
    assert!(!alive(child));
}

#[tokio::test]
async fn what_is_dropped_or_left_at_once_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("child");
    let running = launch(dir.path(), "sleep 60 & echo $! > child.tmp; mv child.tmp child; wait")
        .start(&Groups::default());
    let child = number(&path).await;
    drop(running);
    assert!(!alive(child));
    fs::remove_file(&path).unwrap();
    let groups = Groups::default();
    let running = launch(dir.path(), "sleep 60 & echo $! > child.tmp; mv child.tmp child; wait")
        .start(&groups)
        .unwrap();
    let child = number(&path).await;
    groups.kill();
    assert!(!alive(child));
    drop(running);
}

/// If goodput is killed, the record of the process stays next to its log, with the command as it was started.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_note_names_the_command_and_none_of_its_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let secret = "no-known-prefix-4711";
    // The second one straddles the length limit of the shown command.
    let padding = "x".repeat(90);
    let mut of = launch(dir.path(), &format!("sleep 60; : {secret} {padding} {secret} --api-key {secret}"));
    of.secrets = vec![secret.into()];
    let running = of.start(&Groups::default()).unwrap();
    let note = fs::read_to_string(dir.path().join("logs/a.pid")).unwrap();
    assert!(note.contains("sleep 60") && note.contains("***"), "{note}");
    assert!(!note.contains("no-known"), "{note}");
    drop(running);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut of = launch(dir.path(), "");
    of.argv = vec!["no-such-program-here".into()];
    let e = format!("{:#}", of.start(&Groups::default()).unwrap_err());
    assert!(e.contains("no-such-program-here cannot be started"), "{e}");
    of.argv.clear();
    assert!(of.start(&Groups::default()).is_err());
}
