//! Killed or interrupted sweeps: all measurements are on disk, `report` makes a report of them, and `--resume`
//! continues.

mod kills;

use crate::common::{Manner, goodput, loose, plan, result, serve, until};
use predicates::ord::ne;
use predicates::str::contains;
use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::tempdir;

/// Returns the rows of these steps in a file like `requests.csv`: step, cached tokens, and the whole row.
fn requests(path: &Path, steps: std::ops::RangeInclusive<u32>) -> Vec<(u32, u32, String)> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let heads = reader.headers().unwrap().clone();
    let at = |name: &str| heads.iter().position(|h| h == name).unwrap();
    let (step, cached) = (at("step"), at("cached_tokens"));
    let rows = reader.records().map(Result::unwrap);
    rows.map(|r| (r[step].parse().unwrap(), r[cached].parse().unwrap_or(0), r.iter().collect()))
        .filter(|(step, ..)| steps.contains(step))
        .collect()
}

/// Resumes the run and returns its result, after checking that all six levels were measured once.
fn resume(run: &Path) -> serde_json::Value {
    goodput().arg("sweep").arg("--resume").arg(run).assert().code(ne(1)).stdout(contains("resumed once"));
    let result = result(run);
    let steps = result["steps"].as_array().unwrap();
    let numbers: Vec<_> = steps.iter().map(|s| s["step"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert!(steps.iter().all(|s| s["abort"].is_null()));
    let number = |step: &serde_json::Value, key: &str| step[key].as_f64().unwrap();
    for (before, after) in steps.iter().zip(&steps[1..]) {
        assert!(number(after, "started_s") >= number(before, "ended_s"), "one after the other");
    }
    // The interruption does not count: more wall-clock time than sweep time lies between the two steps.
    let again = result["meta"]["resumed"][0]["step"].as_u64().unwrap() as usize;
    let (before, after) = (&steps[again - 2], &steps[again - 1]);
    let at =
        |step: &serde_json::Value| step["started_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let spent = number(after, "started_s") - number(before, "started_s");
    let passed = at(after).duration_since(at(before)).as_secs_f64();
    assert!(spent < passed, "{spent} s of {passed} s");
    result
}

/// Number of requests that are answered before the others wait: those before the first step, its own (about sixty), and
/// some of the second.
const ANSWERED: usize = 95;

/// A sweep in the middle of its second step, which does not end before the gate is open.
struct Begun {
    child: Child,
    answered: &'static AtomicUsize,
}

impl Begun {
    /// Lets the server answer all requests.
    fn open(&self) {
        self.answered.store(usize::MAX, Ordering::SeqCst);
    }

    /// Lets the server answer no further request, however few it has answered so far.
    fn close(&self) {
        self.answered.store(0, Ordering::SeqCst);
    }

    /// Kills the sweep as with `kill -9`, and opens the gate of its server.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.open();
    }
}

/// Starts a sweep of one-second steps and waits until its second step has requests on disk.
fn begin(dir: &Path) -> Begun {
    let answered: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(ANSWERED)));
    let url = format!("url = \"http://{}\"", serve(Manner::HoldsAfter(answered)));
    let path = plan(dir, &url, "rates = [50, 51, 52, 53, 54, 55]");
    loose(&path);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .arg("sweep")
        .arg(path)
        .arg("--out")
        .arg(dir.join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let requests = dir.join("run/requests.csv");
    until(&mut child, "the second step has requests", || {
        fs::read_to_string(&requests).unwrap_or_default().contains("\nmain,2,")
    });
    Begun { child, answered }
}

/// Returns the number of finished steps in the folder of a sweep.
fn finished(run: &Path) -> usize {
    fs::read_to_string(run.join("steps.csv")).unwrap().matches("\nmain,").count()
}

#[test]
fn kill_9_loses_no_finished_step() {
    let dir = tempdir().unwrap();
    begin(dir.path()).kill();
    let run = dir.path().join("run");
    let steps = finished(&run);
    let says = format!("Step {} was not finished", steps + 1);
    let begun = !requests(&run.join("requests.csv"), steps as u32 + 1..=99).is_empty();
    let assert = goodput().arg("report").arg(&run).assert().success();
    let said = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert_eq!(said.contains(&says), begun, "{said}");
    let result = result(&run);
    assert!(steps >= 1 && result["steps"].as_array().unwrap().len() == steps);
    assert_eq!(fs::read_to_string(run.join("report.md")).unwrap().contains(&says), begun);
    assert!(run.join("charts/latency.png").is_file());
}

#[test]
fn a_killed_sweep_goes_on_with_prompts_that_the_server_has_not_seen() {
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let begun = begin(dir.path());
    goodput()
        .arg("sweep")
        .arg("--resume")
        .arg(&run)
        .assert()
        .code(1)
        .stderr(contains("is still writing into"));
    begun.kill();
    let next = finished(&run) as u32 + 1;
    let first_try = requests(&run.join("requests.csv"), next..=6).len();
    let result = resume(&run);
    // None if the kill came between two steps.
    let partial = match first_try {
        0 => Vec::new(),
        _ => requests(&run.join("requests-partial.csv"), next..=next),
    };
    assert!(first_try.abs_diff(partial.len()) <= 1, "{first_try} or one that is torn: {}", partial.len());
    let says = format!("its {} requests are in", partial.len());
    assert!(partial.is_empty() || result["caveats"].to_string().contains(&says), "{}", result["caveats"]);
    let again = requests(&run.join("requests.csv"), 1..=6);
    assert!(again.iter().filter(|(step, ..)| *step == next).count() >= partial.len());
    assert!(again.iter().all(|(_, cached, _)| *cached < 16), "no block of any prompt had been seen");
    let mut warmups = requests(&run.join("requests.csv"), 0..=0);
    warmups.dedup_by(|a, b| a.2 == b.2);
    assert_eq!(warmups.len(), 4, "both times two");
    assert_eq!(result["meta"]["resumed"][0]["step"], next);
}

/// A resumed sweep locks the folder even while it waits for its server. Otherwise a second one would discard, as
/// unfinished, steps that the first one has measured in the meantime.
#[cfg(target_os = "linux")]
#[test]
fn of_two_that_go_on_with_a_folder_the_second_is_told() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let mut begun = begin(dir.path());
    begun.child.kill().unwrap();
    begun.child.wait().unwrap();
    begun.close();
    let files = || ["steps.csv", "requests.csv", "result.json"].map(|name| fs::read(run.join(name)).unwrap());
    let left = files();
    let mut first = Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
    let first = first.arg("sweep").arg("--resume").arg(&run);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let held = format!(":{} ", fs::metadata(&run).unwrap().ino());
    until(&mut first, "the first one holds the folder", || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|lock| lock.contains("FLOCK") && lock.contains(&held))
    });
    let second = |args: &[&str]| {
        let mut command = goodput();
        command.arg("sweep").args(args).arg(&run);
        command.assert().code(1).stderr(contains("is still writing into"));
    };
    second(&["--resume"]);
    second(&[dir.path().join("plan.toml").to_str().unwrap(), "--force", "--out"]);
    assert!(files() == left, "none of the three has changed anything");
    begun.open();
    let output = first.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(result(&run)["steps"].as_array().unwrap().len(), 6);
}

#[test]
fn a_torn_row_is_dropped_and_said() {
    let dir = tempdir().unwrap();
    begin(dir.path()).kill();
    let run = dir.path().join("run");
    let steps = fs::read_to_string(run.join("steps.csv")).unwrap();
    let n = finished(&run);
    fs::write(run.join("steps.csv"), format!("{steps}main,{},list,rate,5", n + 1)).unwrap();
    goodput()
        .arg("report")
        .arg(&run)
        .assert()
        .success()
        .stdout(contains("The last row of steps.csv was incomplete"));
    assert_eq!(result(&run)["steps"].as_array().unwrap().len(), n);
}

/// Three kills at random moments, with the checks of `kills.rs` after each.
#[test]
fn whatever_is_killed_goes_on() {
    let tally = kills::kills(3, false, 1);
    assert_eq!(tally.kills, 3);
}

/// Many random kills: `GOODPUT_KILLS=200 cargo test --test commands many_kills -- --ignored --nocapture`, with `GOODPUT_SEED` for
/// other moments.
#[test]
#[ignore = "minutes to hours, as long as one likes"]
fn many_kills() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let n = number("GOODPUT_KILLS").unwrap_or(200) as u32;
    let tally = kills::kills(n, true, number("GOODPUT_SEED").unwrap_or(20_261_122));
    println!("{tally:#?}");
    assert_eq!(tally.kills, n);
}

/// The second signal does not wait for requests in flight: the current step has no row, which an orderly end would have
/// written.
#[test]
fn a_second_signal_leaves_at_once_and_the_folder_is_sound() {
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let url = format!("url = \"http://{}\"", serve(Manner::HangsAfter(60)));
    let path = plan(dir.path(), &url, "rates = [50]\nmax-rate = 50");
    // The requests would hang until long after the timeout of this test.
    let text = fs::read_to_string(&path).unwrap();
    let text = text
        .replace("measure = \"1s\"\ndrain = \"1s\"", "measure = \"1h\"\ndrain = \"1h\"\ntimeout = \"1h\"");
    fs::write(&path, text).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
    let command = command.arg("sweep").arg(&path).arg("--out").arg(&run);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(&mut child, "the first step has requests", || {
        fs::read_to_string(run.join("requests.csv")).unwrap_or_default().contains("\nmain,1,")
    });
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    signal(&child, "-INT");
    assert!(said.any(|line| line.contains("interrupt again to exit at once")));
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(said.any(|line| line.contains("goodput sweep --resume")));
    goodput().arg("report").arg(&run).assert().success().stdout(contains("Step 1 was not finished"));
    assert!(result(&run)["steps"].as_array().unwrap().is_empty());
}

/// Data written into a removed file is lost, so the removal is noticed within a second or two, not at the end of the
/// step.
#[test]
fn a_folder_that_is_removed_is_an_error() {
    let dir = tempdir().unwrap();
    let begun = begin(dir.path());
    fs::rename(dir.path().join("run"), dir.path().join("gone")).unwrap();
    begun.open();
    let output = begun.child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("run")
            && (said.contains("was removed, moved or replaced") || said.contains("No such file")),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    goodput().arg("report").arg(dir.path().join("gone")).assert().success();
}

/// A full disk, as the process sees it: the flushed data is readable and the sweep can be resumed.
#[test]
fn a_write_that_fails_ends_the_sweep_and_loses_nothing() {
    let dir = tempdir().unwrap();
    let run = dir.path().join("run");
    let server = "simulated = { preset = \"fixed\", ttft = \"5ms\", tpot = \"1ms\" }";
    let path = plan(dir.path(), server, "rates = [50, 51, 52, 53, 54, 55]");
    loose(&path);
    let bin = assert_cmd::cargo::cargo_bin!("goodput").display().to_string();
    // In blocks of 512 bytes: enough for some steps, but not for six.
    let script = format!("ulimit -f 80; exec '{bin}' sweep '{}' --out '{}'", path.display(), run.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("failed to write {}", run.display())) && said.contains("File too large"),
        "{said}"
    );
    assert!(said.contains("the steps before are kept") && !said.contains("panicked"), "{said}");
    let before = fs::read_to_string(run.join("steps.csv")).unwrap();
    let whole = before.rfind('\n').map_or("", |at| &before[..=at]).to_owned();
    goodput().arg("report").arg(&run).assert().success();
    goodput().arg("sweep").arg("--resume").arg(&run).assert().code(ne(1)).stdout(contains("resumed once"));
    assert!(fs::read_to_string(run.join("steps.csv")).unwrap().starts_with(&whole));
    assert_eq!(result(&run)["steps"].as_array().unwrap().len(), 6);
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupted_sweep_reports_and_exits_130() {
    let dir = tempdir().unwrap();
    let mut begun = begin(dir.path());
    let mut said = std::io::BufReader::new(begun.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    signal(&begun.child, "-TERM");
    assert!(said.any(|line| line.contains("interrupt again to exit at once")));
    begun.open();
    let said: Vec<String> = said.collect();
    let output = begun.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let run = dir.path().join("run");
    let result = result(&run);
    let steps = result["steps"].as_array().unwrap();
    // No step is interrupted if the signal came between two, or after the last request of one.
    let cut = steps.last().unwrap()["abort"] == "interrupted";
    assert!(steps.iter().rev().skip(1).all(|s| s["abort"].is_null()));
    assert!(result["caveats"].to_string().contains("interrupted"), "{}", result["caveats"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"));
    let hint = format!("goodput sweep --resume {}", run.display());
    assert!(said.last().unwrap().ends_with(&hint), "{said:?}");
    // The interrupted step is measured again under its number.
    let next = steps.len() as u64 + u64::from(!cut);
    let result = resume(&run);
    assert_eq!(result["meta"]["resumed"][0]["step"], next);
    assert!(!result["caveats"].to_string().contains("interrupted"), "{}", result["caveats"]);
}

#[test]
fn reports_are_made_again_from_the_files_alone() {
    let dir = tempdir().unwrap();
    let path = plan(dir.path(), &format!("url = \"http://{}\"", serve(Manner::Plain)), "rates = [20, 40]");
    let run = dir.path().join("run");
    goodput().arg("sweep").arg(path).arg("--out").arg(&run).assert().code(ne(1));
    let first = [fs::read(run.join("result.json")).unwrap(), fs::read(run.join("report.md")).unwrap()];
    for name in ["report.md", "charts/latency.png", "charts/throughput.png"] {
        fs::remove_file(run.join(name)).unwrap();
    }
    goodput().arg("report").arg(&run).assert().success();
    assert_eq!(first, [fs::read(run.join("result.json")).unwrap(), fs::read(run.join("report.md")).unwrap()]);
    assert!(run.join("charts/throughput.png").is_file());
    goodput().arg("report").arg(dir.path()).assert().code(1).stderr(contains("is not a run folder"));
}
