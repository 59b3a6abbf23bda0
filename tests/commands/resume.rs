//! Resuming: a sweep that was interrupted continues as if nothing had happened.
//!
//! In simulated time on a queue without randomness of its own (M/D/1) that is exact, down to every request. Other
//! simulated engines draw their own random numbers in the order of the requests they have seen, which a new one begins
//! anew: there, and on real servers, only what is asked is the same (levels, arrivals, lengths), as long as the
//! verdicts are.

use crate::common::{goodput, result, until};
use goodput::caveat::{Caveat, SweepCaveat};
use goodput::plan::Plan;
use goodput::rundir::{self, Disk, Meta, Run, Writer, json};
use goodput::stats::step::{Abort, Step};
use goodput::sweep::Options;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

/// A plan over an M/D/1 queue that is through in a few seconds.
fn text(search: &str) -> String {
    format!(
        "name = \"md1\"\nseed = 3\n[server]\nsimulated = {{ preset = \"md1\", service = \"5ms\" }}\nwarmup-requests = 3\n\
         [slo]\nttft.p99 = \"20ms\"\n[workload.prompts.synthetic]\ninput-tokens = {{ uniform = {{ min = 20, max = 60 }} }}\n\
         output-tokens = {{ fixed = 2 }}\n[step]\nsettle = \"1s\"\nmeasure = \"5s\"\n[search]\nmax-rate = 500\n{search}\n"
    )
}

fn sweep(dir: &Path, search: &str, flags: &[&str]) -> Value {
    result(&crate::common::sweep(dir, &text(search), &[&["--virtual-time"], flags].concat()).0)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Returns the lines of a file that belong to these steps.
fn lines(path: &Path, steps: impl Fn(usize) -> bool) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let of = |line: &&str| line.split(',').nth(1).and_then(|step| step.parse().ok()).is_some_and(&steps);
    text.lines().filter(of).map(str::to_owned).collect()
}

/// Leaves of a file the head, the rows of the first `k` steps, some rows of the next one, and half a row after them.
fn cut(path: &Path, k: usize, more: usize) {
    let head = fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned();
    let (kept, next) = (lines(path, |s| s <= k), lines(path, |s| s == k + 1));
    let mut text = [vec![head], kept, next.iter().take(more).cloned().collect()].concat().join("\n") + "\n";
    if let Some(torn) = next.get(more) {
        text.push_str(&torn[..torn.len() / 2]);
    }
    fs::write(path, text).unwrap();
}

/// Returns the steps without the time of day.
fn steps(result: &Value) -> Vec<Value> {
    let mut steps = result["steps"].as_array().unwrap().clone();
    steps.iter_mut().for_each(|s| drop(s.as_object_mut().unwrap().remove("started_at")));
    steps
}

#[test]
fn a_resumed_sweep_is_the_uninterrupted_one() {
    // Row: the search, and after how many of its steps it is cut, in parts of all of them.
    for (search, cuts) in [
        ("adaptive = { budget = \"100s\" }", &[0.0, 0.5, 0.99][..]),
        ("rates = [20, 60, 90, 120, 150, 40, 70]", &[0.2]),
    ] {
        goes_on(search, cuts);
    }
}

/// Interruptions within the first series, between both, and within the second.
#[test]
fn a_sweep_of_two_series_is_resumed_in_either() {
    goes_on("rates = [20, 60, 90, 120]\n[workload]\ncache = \"pair\"", &[0.25, 0.5, 0.76]);
}

/// Truncates a sweep after these fractions of its steps, and resumes it from there.
fn goes_on(search: &str, cuts: &[f64]) {
    let dir = tempdir().unwrap();
    let whole = sweep(dir.path(), search, &[]);
    let n = whole["steps"].as_array().unwrap().len();
    assert!(n >= 7, "{search}: {n} steps");
    for k in cuts.iter().map(|part| (n as f64 * part) as usize) {
        let run = dir.path().join(format!("cut-{k}"));
        copy(&dir.path().join("run"), &run);
        for (file, more) in [
            ("steps.csv", 0),
            ("limits.csv", 1),
            ("requests.csv", 5),
            ("histograms.csv", 9),
            ("server.csv", 0),
            ("server-metrics.csv", 3),
        ] {
            cut(&run.join(file), k, more);
        }
        let args = ["sweep", "--no-charts", "--json", "--resume", run.to_str().unwrap()];
        goodput().args(args).assert().stderr(contains(format!("resumed at step {}", k + 1)));
        let resumed = result(&run);
        for (a, b) in steps(&whole).iter().zip(&steps(&resumed)) {
            assert_eq!(a, b, "{search}, cut after step {k}");
        }
        assert_eq!(whole["answers"], resumed["answers"], "{search}, cut after step {k}");
        assert_eq!(steps(&resumed).len(), n);
        // Counters begin anew with a new server, and so do those of `server-metrics.csv`: what they grew by is in
        // `server.csv`.
        for file in ["requests.csv", "limits.csv", "histograms.csv", "server.csv"] {
            let of = |run: &Path| lines(&run.join(file), |step| step > 0);
            assert_eq!(of(&dir.path().join("run")), of(&run), "{search}, cut after step {k}: {file}");
        }
        // The rows of the incomplete step are in a separate file, once, with a caveat.
        assert_eq!(lines(&run.join("requests-partial.csv"), |step| step == k + 1).len(), 5);
        assert_eq!(fs::read_to_string(run.join("requests-partial.csv")).unwrap().lines().count(), 6);
        let said = resumed["caveats"].to_string();
        let torn = ["steps.csv", "limits.csv", "server.csv", "server-metrics.csv"]
            .map(|f| format!("The last row of {f} was incomplete"));
        for says in torn.iter().map(String::as_str).chain(["its 5 requests are in", "resumed once"]) {
            assert!(said.contains(says), "{says}: {said}");
        }
    }
}

#[test]
fn a_search_over_files_asks_what_a_search_over_memory_asks() {
    for search in ["adaptive = { budget = \"300s\" }", "ramp = { start = 20, factor = 1.3 }"] {
        let plan = Plan::from_text(&text(search)).unwrap();
        let measured = goodput::sweep::bare::steps(&plan).unwrap();
        assert!(measured.len() > 4);
        let own = plan.searcher().unwrap();
        let dir = tempdir().unwrap();
        let plan_toml = plan.to_toml().unwrap();
        let mut writer = Writer::create(&dir.path().join("run"), &plan_toml, false).unwrap();
        let empty = Run::assemble(&plan, plan_toml, meta(), vec![], vec![], vec![]).unwrap();
        writer.result(&json::result(&empty)).unwrap();
        for n in 0..=measured.len() {
            if n > 0 {
                writer.step(&measured[n - 1], &[]).unwrap();
            }
            let read: Vec<Step> = rundir::read(&dir.path().join("run")).unwrap().steps;
            assert_eq!(own.next("main", &read), own.next("main", &measured[..n]), "{search}: after {n}");
            assert_eq!(own.answers("main", &read), own.answers("main", &measured[..n]));
            let limits = |steps: &[Step]| steps.iter().map(|s| s.limits.clone()).collect::<Vec<_>>();
            assert_eq!(limits(&read), limits(&measured[..n]));
        }
    }
}

fn meta() -> Meta {
    let fields = ["goodput_version", "host", "started", "server", "model", "workload", "slo"];
    let mut meta: Value = fields.iter().map(|f| (f.to_string(), Value::from("x"))).collect();
    (meta["seed"], meta["virtual_time"]) = (3.into(), true.into());
    serde_json::from_value(meta).unwrap()
}

#[test]
fn a_finished_sweep_is_only_reported() {
    let dir = tempdir().unwrap();
    let whole = sweep(dir.path(), "rates = [50, 150]", &[]);
    let run = dir.path().join("run");
    fs::remove_file(run.join("report.md")).unwrap();
    let code = goodput().arg("report").arg(&run).arg("--json").assert().success();
    let first: Value = serde_json::from_slice(&code.get_output().stdout).unwrap();
    let resumed = goodput().args(["sweep", "--no-charts"]).arg("--resume").arg(&run).assert().code(3);
    resumed.stderr(contains("nothing is left to measure"));
    assert_eq!((&whole, &first), (&result(&run), &result(&run)));
    assert!(run.join("report.md").is_file());
}

/// Row: the search, the first budget, the second, and what the plan holds then.
#[test]
fn more_budget_measures_more() {
    for (search, first, second, plan) in [
        ("adaptive = { budget = \"1h\", width = 0.01 }", "60s", "150s", "budget = \"2m 30s\""),
        ("rates = [20, 30, 40, 50]", "80s", "10m", "rates = [20.0, 30.0, 40.0, 50.0]"),
    ] {
        let dir = tempdir().unwrap();
        let n = steps(&sweep(dir.path(), search, &["--budget", first])).len();
        let run = dir.path().join("run");
        let resume = |flags: &[&str]| {
            goodput()
                .args(["sweep", "--no-charts"])
                .arg("--resume")
                .arg(&run)
                .args(flags)
                .assert()
                .code(predicates::ord::ne(1))
        };
        resume(&[]).stderr(contains("nothing is left to measure"));
        resume(&["--budget", second]).stderr(contains(format!("resumed at step {}", n + 1)));
        let more = result(&run);
        assert!(steps(&more).len() > n, "{search}: {n} steps and then {}", steps(&more).len());
        let text = fs::read_to_string(run.join("plan.toml")).unwrap();
        assert!(text.contains(plan), "{text}");
        assert!(!more["caveats"].to_string().contains("budget-spent"));
    }
}

#[test]
fn what_cannot_go_on_says_why() {
    let dir = tempdir().unwrap();
    sweep(dir.path(), "rates = [50, 150]", &[]);
    let broken = |edit: fn(&Path), says: &str| {
        let run = dir.path().join("broken");
        let _ = fs::remove_dir_all(&run);
        copy(&dir.path().join("run"), &run);
        cut(&run.join("steps.csv"), 1, 0);
        edit(&run);
        let before = fs::read(run.join("steps.csv")).unwrap();
        goodput()
            .args(["sweep", "--no-charts"])
            .arg("--resume")
            .arg(&run)
            .assert()
            .code(1)
            .stderr(contains(says));
        assert_eq!(before, fs::read(run.join("steps.csv")).unwrap(), "{says}: nothing was touched");
    };
    broken(|run| fs::remove_file(run.join("plan.toml")).unwrap(), "is not a run folder: it has no plan.toml");
    broken(|run| edit(run, "plan.toml", "seed = 3", "seed = \"three\""), "a whole number");
    broken(|run| edit(run, "plan.toml", "seed = 3", "seed = 4"), "\n  seed was 3 and is 4\n");
    broken(|run| edit(run, "plan.toml", "20ms", "30ms"), "\n  slo.ttft.p99 was \"20ms\" and is \"30ms\"\n");
    broken(|run| edit(run, "result.json", "goodput/1", "goodput/9"), "use the version that made it");
    broken(
        |run| edit(run, "result.json", "\"model\": \"simulated\"", "\"model\": \"other\""),
        "does not serve the model \"other\"",
    );
    broken(
        |run| {
            edit(run, "plan.toml", "seed = 3", "seed = 4");
            edit(run, "plan.toml", "50.0", "60.0");
        },
        "\n  search.rates was [50.0,150.0] and is [60.0,160.0]\n  seed was 3 and is 4\nrestore plan.toml",
    );
    broken(
        |run| edit(run, "result.json", "\"max_model_len\": ", "\"max_model_len\": 1"),
        "the server has changed since the run began:\n  max_model_len was 1",
    );
    broken(
        |run| edit(run, "result.json", "\"per_word\": 1.0", "\"per_word\": 1.4"),
        "counts the tokens of prompts differently",
    );
    broken(|run| edit(run, "steps.csv", "main,1,", "main,7,"), "not numbered 1, 2, 3");
    goodput()
        .args(["sweep", "--no-charts", "--resume", "/nowhere"])
        .assert()
        .code(1)
        .stderr(contains("not a run folder"));
    for with in [&["demo"][..], &["--out", "x"], &["--set", "seed=1"], &["--url", "http://x"]] {
        let assert = goodput().args(["sweep", "--no-charts", "--resume", "x"]).args(with).assert().code(1);
        assert.stderr(contains("cannot be used with").and(contains("--resume")));
    }
}

fn edit(run: &Path, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(run.join(file)).unwrap();
    assert!(text.contains(from), "{file} holds {from}: {text}");
    fs::write(run.join(file), text.replace(from, to)).unwrap();
}

/// With `--force`, the sweep continues nevertheless, with a caveat.
#[test]
fn another_plan_and_another_server_are_gone_on_with_where_that_is_wanted() {
    let dir = tempdir().unwrap();
    sweep(dir.path(), "rates = [50, 150]", &[]);
    let run = dir.path().join("run");
    cut(&run.join("steps.csv"), 1, 0);
    edit(&run, "plan.toml", "150.0", "100.0");
    edit(&run, "result.json", "\"max_model_len\": ", "\"max_model_len\": 1");
    goodput()
        .args(["sweep", "--no-charts", "--force", "--resume"])
        .arg(&run)
        .assert()
        .code(predicates::ord::ne(1));
    let resumed = result(&run);
    let said = resumed["caveats"].to_string();
    for says in
        ["search.rates was [50.0,150.0] and is [50.0,100.0]", "its max_model_len was 1", "server-changed"]
    {
        assert!(said.contains(says), "{says}: {said}");
    }
    assert_eq!(steps(&resumed)[1]["level"], 100.0);
    // The changed plan is now the plan of the run.
    cut(&run.join("steps.csv"), 1, 0);
    goodput().args(["sweep", "--no-charts", "--resume"]).arg(&run).assert().code(predicates::ord::ne(1));
}

/// A step that would be extended for ever ends at the deadline, and so does the sweep: by the deadline and the drain.
#[test]
fn a_deadline_ends_a_sweep_whatever_the_server_does() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("plan.toml");
    let run = dir.path().join("run");
    let endless = text("rates = [20, 30, 40]\ndeadline = \"45s\"")
        .replace("[step]", "[step]\nmin-requests = 1000000\nmax-duration = \"100h\"\ndrain = \"2s\"");
    fs::write(&path, endless).unwrap();
    goodput()
        .arg("check")
        .arg(&path)
        .assert()
        .success()
        .stdout(contains("45s after the start").and(contains("search.deadline")));
    let step = ended_by_its_deadline(&path, &run, 47.0);
    assert_eq!(step["verdict"], "undecided", "a window that was cut shows nothing to be met");
    goodput().arg("report").arg(&run).assert().success().stdout(contains("deadline of 45s"));
    // A server that does not get ready, too.
    let slow = "name = \"slow\"\n[server]\nsimulated = { preset = \"fixed\", ttft = \"50s\" }\n[slo]\nttft.p99 = \"60s\"\n\
                [workload.prompts.synthetic]\ninput-tokens = { fixed = 20 }\noutput-tokens = { fixed = 2 }\n[search]\nrates = [1]\n\
                deadline = \"40s\"\n";
    fs::write(&path, slow).unwrap();
    let out = dir.path().join("slow");
    let assert = goodput()
        .args(["sweep", "--no-charts", "--virtual-time", "--out"])
        .arg(&out)
        .arg(&path)
        .assert()
        .code(1);
    assert.stderr(contains("nothing was measured before the deadline of 40s"));
    assert!(!out.exists(), "no folder is left behind");
}

/// Sweeps under a deadline of 45 s, which is to end the first step, no later than `latest`, in seconds; the step.
fn ended_by_its_deadline(plan: &Path, run: &Path, latest: f64) -> Value {
    goodput()
        .args(["sweep", "--no-charts", "--virtual-time", "--out"])
        .arg(run)
        .arg(plan)
        .assert()
        .code(3)
        .stdout(contains("deadline of 45s (search.deadline)"));
    let found = result(run);
    let all = steps(&found);
    assert_eq!((all.len(), &all[0]["abort"]), (1, &"deadline".into()), "{all:?}");
    let ended = all[0]["ended_s"].as_f64().unwrap();
    assert!((40.0..=latest).contains(&ended), "{ended}: within the deadline and the drain");
    all[0].clone()
}

/// A burst is awaited as long as necessary, but not beyond the deadline and the drain.
#[test]
fn a_deadline_ends_a_burst_that_is_not_answered() {
    let dir = tempdir().unwrap();
    let (path, run) = (dir.path().join("plan.toml"), dir.path().join("run"));
    let stalls = text("burst = 200\ndeadline = \"45s\"")
        .replace("\"5ms\"", "\"5ms\", fault = { silent = 1.0 }, fault-after = 100")
        .replace("[step]", "[step]\nmax-duration = \"1h\"\ntimeout = \"2h\"\ndrain = \"2s\"");
    fs::write(&path, stalls).unwrap();
    let step = ended_by_its_deadline(&path, &run, 48.0);
    assert!(step["completed"].as_u64().unwrap() > 0, "{step:?}");
}

/// Under a plan that has no place for what was measured nothing goes on, wanted or not: those steps would be thrown
/// away.
#[test]
fn no_step_that_was_measured_is_thrown_away() {
    let dir = tempdir().unwrap();
    sweep(dir.path(), "rates = [50, 100, 150]", &[]);
    let run = dir.path().join("run");
    cut(&run.join("steps.csv"), 2, 0);
    edit(&run, "plan.toml", "[slo.ttft]", "[slo]\nname = \"gold\"\n\n[slo.ttft]");
    let before = fs::read(run.join("steps.csv")).unwrap();
    for force in [&[][..], &["--force"]] {
        let assert =
            goodput().args(["sweep", "--no-charts", "--resume"]).arg(&run).args(force).assert().code(1);
        assert.stderr(
            contains("has no place for step 1").and(contains("slo.name was not there and is \"gold\"")),
        );
        assert_eq!(before, fs::read(run.join("steps.csv")).unwrap());
    }
}

/// Nor are the reports of a sweep that is over made again under another plan, unless that is wanted; then they say so.
#[test]
fn another_plan_is_refused_where_nothing_is_left_too() {
    let dir = tempdir().unwrap();
    sweep(dir.path(), "rates = [50, 150]", &[]);
    let run = dir.path().join("run");
    edit(&run, "plan.toml", "20ms", "30ms");
    let before = fs::read(run.join("result.json")).unwrap();
    let resume =
        |force: &[&str]| goodput().args(["sweep", "--no-charts", "--resume"]).arg(&run).args(force).assert();
    resume(&[]).code(1).stderr(contains("slo.ttft.p99 was \"20ms\" and is \"30ms\""));
    assert_eq!(before, fs::read(run.join("result.json")).unwrap());
    let assert = resume(&["--force", "--yes"]).code(predicates::ord::ne(1));
    assert.stderr(contains("nothing is left to measure"));
    assert!(result(&run)["caveats"].to_string().contains("slo.ttft.p99 was"));
    resume(&[]).code(predicates::ord::ne(1));
}

/// Before its disk is full a sweep ends, with everything measured until then; with room again it comes to what it would
/// have come to.
#[test]
fn a_sweep_ends_before_its_disk_is_full() {
    let dir = tempdir().unwrap();
    let search = "adaptive = { budget = \"100s\" }";
    let whole = sweep(dir.path(), search, &[]);
    let run = dir.path().join("low");
    let plan = Plan::from_text(&text(search)).unwrap();
    let room = goodput::rundir::space::RESERVE + (1 << 20);
    let options =
        Options { out: run.clone(), virtual_time: true, disk: Disk::Imagined(room), ..Options::default() };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let measured = runtime.block_on(goodput::sweep::run(&plan, &options, CancellationToken::new())).unwrap();
    let aborts: Vec<_> = measured.steps.iter().filter_map(|s| s.abort).collect();
    assert!(aborts.contains(&Abort::Disk), "{aborts:?}");
    assert!(
        measured.caveats.iter().any(|c| matches!(c, Caveat::Sweep(SweepCaveat::DiskLow { .. }))),
        "{:?}",
        measured.caveats
    );
    let written: u64 = fs::read_dir(&run).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(written < room, "{written}: within what there was");
    goodput().arg("report").arg(&run).assert().success().stdout(contains("The disk was nearly full"));
    goodput().args(["sweep", "--no-charts", "--resume"]).arg(&run).assert().code(0);
    let resumed = result(&run);
    assert_eq!(steps(&whole), steps(&resumed));
    assert_eq!(whole["answers"], resumed["answers"]);
    assert!(!resumed["caveats"].to_string().contains("disk-low"));
    // What does not fit is refused before anything is sent.
    let options = Options { out: dir.path().join("none"), disk: Disk::Imagined(1 << 20), ..options };
    let e = runtime
        .block_on(goodput::sweep::run(&plan, &options, CancellationToken::new()))
        .unwrap_err()
        .to_string();
    assert!(e.contains("has 1 MiB free") && !options.out.exists(), "{e}");
}

/// Two servers in turns: cut off within a pair, or interrupted at any time, the comparison comes to the same.
#[test]
fn a_comparison_in_turns_is_resumed() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("a.toml"), text("rates = [40]")).unwrap();
    fs::write(at("b.toml"), text("rates = [40]").replace("service = \"5ms\"", "service = \"6ms\"")).unwrap();
    let measure = |out: &Path| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
        command
            .args(["compare", "--measure", "--rate", "40", "--budget", "3m", "--virtual-time", "--out"])
            .arg(out);
        command.args([at("a.toml"), at("b.toml")]).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    assert!(measure(&at("run")).status().unwrap().code().is_some_and(|code| code != 1));
    let whole = result(&at("run"));
    let n = whole["steps"].as_array().unwrap().len();
    assert!(n >= 8, "{n} steps");
    let same = |run: &Path, what: &str| {
        let resumed = result(run);
        assert_eq!(steps(&whole), steps(&resumed), "{what}");
        assert_eq!(whole["answers"], resumed["answers"], "{what}");
        goodput()
            .arg("compare")
            .arg(run)
            .assert()
            .code(predicates::ord::ne(1))
            .stdout(contains("a").and(contains("b")));
    };
    // Behind a whole pair, and within one.
    for k in [4, 5] {
        let run = at(&format!("cut-{k}"));
        copy(&at("run"), &run);
        for file in
            ["steps.csv", "limits.csv", "requests.csv", "histograms.csv", "server.csv", "server-metrics.csv"]
        {
            cut(&run.join(file), k, 0);
        }
        goodput()
            .args(["sweep", "--no-charts", "--resume"])
            .arg(&run)
            .assert()
            .stderr(contains(format!("resumed at step {}", k + 1)));
        same(&run, &format!("cut after step {k}"));
    }
    let run = at("interrupted");
    let mut child = measure(&run).spawn().unwrap();
    until(&mut child, "the second step has requests", || {
        !lines(&run.join("requests.csv"), |step| step == 2).is_empty()
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    // Where this process was halted for long, the other one may be through.
    assert!(matches!(child.wait().unwrap().code(), Some(130 | 0 | 3)));
    goodput().args(["sweep", "--no-charts", "--resume"]).arg(&run).assert().code(predicates::ord::ne(1));
    same(&run, "interrupted");
}
