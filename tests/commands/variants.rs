//! Variants on real processes: started, waited for, measured and stopped, with nothing left of any; and a grid in
//! simulated time.

use crate::common::{free_port, goodput, result, until, wait_until};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::tempdir;

/// The command of a small simulated server, for a shell.
fn simulate(port: u16) -> String {
    let bin = assert_cmd::cargo::cargo_bin!("goodput").display().to_string();
    format!("'{bin}' simulate --preset fixed --set ttft=5ms --set tpot=1ms --port {port}")
}

/// A plan with these variants, over in a second or two each.
fn plan(dir: &Path, port: u16, variants: &str) -> PathBuf {
    let path = dir.join("plan.toml");
    let text = format!(
        "name = \"variants\"\n[server]\nurl = \"http://127.0.0.1:{port}\"\nwarmup-requests = 2\n[slo]\nttft.p90 = \"100ms\"\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n\
         [step]\nsettle = \"200ms\"\nmeasure = \"600ms\"\ndrain = \"1s\"\n[search]\nrates = [20]\n{variants}"
    );
    fs::write(&path, text).unwrap();
    path
}

fn variant(name: &str, script: &str, rest: &str) -> String {
    format!("[[variant]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{rest}\n")
}

/// Returns the command lines of running processes that contain a word.
fn with_word(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let line =
        |e: fs::DirEntry| fs::read_to_string(e.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
    all.map(line).filter(|l| l.contains(word) && !l.contains("goodput sweep")).collect()
}

fn state<'a>(found: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    found["variants"].as_array().unwrap().iter().find(|v| v["variant"] == name).unwrap()
}

/// A script whose server is lost once a request of a step of the variant `dies` was answered.
fn dies_in_its_step(server: &str, out: &Path) -> String {
    let requests = out.join("requests.csv");
    format!(
        "{server} & until grep -q '^dies,[1-9]' '{}'; do sleep 0.1; done; kill -9 $!; echo 'engine lost'; exit 7",
        requests.display()
    )
}

#[test]
fn every_variant_is_a_row_whatever_becomes_of_its_server() {
    let dir = tempdir().unwrap();
    let (port, out) = (free_port(), dir.path().join("run"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = simulate(port);
    let pids = dir.path().join("pids");
    let stubborn = format!(
        "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo $! > {}; {server} & wait; while :; do sleep 0.1; done",
        pids.display()
    );
    let variants = [
        variant(
            "ends",
            "echo up; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 3",
            "",
        ),
        variant(
            "sound",
            &format!("exec {server}"),
            "env = { HF_TOKEN = \"hf_secret_1\" }\ncool-down = \"10ms\"",
        ),
        variant("never", "echo waiting; exec sleep 60", "timeout = \"400ms\""),
        variant(
            "dies",
            &dies_in_its_step(&server, &out),
            // As long as it lives.
            "set = { \"step.measure\" = \"60s\" }",
        ),
        variant("taken", "exit 0", &format!("url = \"http://{}\"", taken.local_addr().unwrap())),
        variant("stubborn", &stubborn, "stop-timeout = \"300ms\""),
        variant("absent", "", "").replace("[\"sh\", \"-c\", '''''']", "[\"no-such-program\"]"),
    ];
    let path = plan(dir.path(), port, &variants.concat());
    goodput().arg("check").arg(&path).assert().success().stdout(
        contains("started by: sh -c").and(contains("with HF_TOKEN")).and(contains("the starts of 7 servers")),
    );
    let says = contains("sound")
        .and(contains("ends could not be measured: out of memory"))
        .and(contains("engine lost"));
    goodput().arg("sweep").arg(&path).arg("--out").arg(&out).assert().stdout(says);

    let found = result(&out);
    let of = |name: &str| {
        let v = state(&found, name);
        (v["state"].as_str().unwrap().to_owned(), v["reason"].as_str().unwrap_or_default().to_owned())
    };
    for (name, is, says) in [
        ("ends", "failed", "exit code 3"),
        ("sound", "done", ""),
        ("never", "failed", "it was not ready within 400ms"),
        ("dies", "died", "exit code 7"),
        ("taken", "failed", "something answers at http://127.0.0.1:"),
        ("stubborn", "done", ""),
        ("absent", "failed", "no-such-program cannot be started"),
    ] {
        let (state, reason) = of(name);
        assert!(state == is && reason.contains(says), "{name}: {state}, {reason}");
    }
    assert_eq!(
        (&state(&found, "ends")["out_of_memory"], &state(&found, "never")["out_of_memory"]),
        (&true.into(), &false.into())
    );
    assert_eq!(state(&found, "never")["last_lines"][0], "waiting");
    assert!(state(&found, "dies")["last_lines"].to_string().contains("engine lost"));
    let steps =
        |name: &str| found["steps"].as_array().unwrap().iter().filter(|s| s["series"] == name).count();
    assert_eq!((steps("sound"), steps("dies"), steps("never")), (1, 1, 0), "what was measured is kept");

    // Nothing is left of any of them.
    assert_eq!(with_word(&format!("--port {port}")), Vec::<String>::new());
    let child = fs::read_to_string(&pids).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z"), "{stat}");
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());

    files_are_whole(&out);
}

/// No secret in any file, and the reports follow from the folder.
fn files_are_whole(out: &Path) {
    for file in ["plan.toml", "result.json", "report.md", "logs/sound.log"] {
        assert!(!fs::read_to_string(out.join(file)).unwrap().contains("hf_secret_1"), "{file}");
    }
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("✕ failed, out of memory") && report.contains("waiting"), "{report}");
    let rows = fs::read_to_string(out.join("variants.csv")).unwrap();
    assert_eq!(rows.lines().count(), 8);
    goodput().arg("report").arg(out).assert().success();
    assert_eq!(fs::read_to_string(out.join("report.md")).unwrap(), report);
}

#[test]
fn a_resumed_sweep_starts_what_is_left_and_no_more() {
    let dir = tempdir().unwrap();
    let (port, out, starts) = (free_port(), dir.path().join("run"), dir.path().join("starts"));
    let server = simulate(port);
    let script = |name: &str| format!("echo {name} >> {}; exec {server}", starts.display());
    let wanting = format!("test -n \"$GO_AHEAD\" || exit 9; {}", script("wanting"));
    let variants = [variant("first", &script("first"), ""), variant("wanting", &wanting, "")];
    let path = plan(dir.path(), port, &variants.concat());
    goodput()
        .arg("sweep")
        .arg(&path)
        .arg("--out")
        .arg(&out)
        .assert()
        .stdout(contains("wanting could not be measured"));
    assert_eq!(fs::read_to_string(&starts).unwrap(), "first\n");
    goodput()
        .args(["sweep", "--resume"])
        .arg(&out)
        .env("GO_AHEAD", "1")
        .assert()
        .stdout(contains("resumed once"));
    assert_eq!(
        fs::read_to_string(&starts).unwrap(),
        "first\nwanting\n",
        "the one that was done is not started again"
    );
    let found = result(&out);
    assert!(
        ["first", "wanting"].iter().all(|name| state(&found, name)["state"] == "done"),
        "{}",
        found["variants"]
    );
    assert_eq!(found["steps"].as_array().unwrap().len(), 2);
    goodput().args(["sweep", "--resume"]).arg(&out).assert().stderr(contains("nothing is left to measure"));
    assert_eq!(fs::read_to_string(&starts).unwrap().lines().count(), 2);
    assert_eq!(with_word(&format!("--port {port}")), Vec::<String>::new());
}

#[test]
fn an_interrupted_sweep_leaves_no_server() {
    for twice in [false, true] {
        let dir = tempdir().unwrap();
        let (port, out, up) = (free_port(), dir.path().join("run"), dir.path().join("up"));
        let script = format!("{} & touch {}; wait", simulate(port), up.display());
        let path = plan(dir.path(), port, &variant("a", &script, "set = { \"step.measure\" = \"60s\" }"));
        let mut sweep = std::process::Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
        let sweep = sweep.arg("sweep").arg(&path).arg("--out").arg(&out);
        let mut sweep = sweep.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&sweep);
        let signal = || rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        until(&mut sweep, "its step has requests", || {
            up.exists() && fs::read_to_string(out.join("requests.csv")).is_ok_and(|t| t.contains("\na,1,"))
        });
        signal();
        if twice {
            std::thread::sleep(Duration::from_millis(30));
            // It may have exited by then.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        assert_eq!(sweep.wait().unwrap().code(), Some(130));
        assert_eq!(with_word(&format!("--port {port}")), Vec::<String>::new());
        if !twice {
            assert_eq!(result(&out)["variants"][0]["state"], "running");
        }
    }
}

/// Killed with `kill -9`, goodput stops no server: a later sweep into its folder, or on its port, names the server that
/// is left.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_was_left_behind_is_named_by_the_next_run() {
    let dir = tempdir().unwrap();
    let (port, out, up) = (free_port(), dir.path().join("run"), dir.path().join("up"));
    let script = format!("{} & touch {}; wait", simulate(port), up.display());
    let path = plan(dir.path(), port, &variant("a", &script, ""));
    let mut sweep = std::process::Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
    let sweep = sweep.arg("sweep").arg(&path).arg("--out").arg(&out);
    let mut sweep = sweep.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let note = out.join("logs/a.pid");
    until(&mut sweep, "its server is up", || up.exists() && !fs::read(&note).unwrap_or_default().is_empty());
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    let left: serde_json::Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    let pid = left["pid"].as_i64().unwrap();
    let named = || {
        contains(format!("process {pid} (`sh -c "))
            .and(contains(format!("kill -- -{pid}")))
            .and(contains(", since 2"))
    };
    let resume = || {
        let mut command = goodput();
        command.args(["sweep", "--resume"]).arg(&out);
        command
    };
    resume().assert().code(1).stderr(named().and(contains("a: process")));
    goodput().arg("sweep").arg(&path).arg("--force").arg("--out").arg(&out).assert().code(1).stderr(named());
    // Another run, whether the port is open yet or not.
    let other = dir.path().join("other");
    let said = format!("was started for the run {}", out.display());
    goodput()
        .arg("sweep")
        .arg(&path)
        .arg("--out")
        .arg(&other)
        .assert()
        .stderr(contains(&said).and(contains("kill -- -")));
    assert_eq!(state(&result(&other), "a")["state"], "failed");
    let group = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    wait_until("its server is gone", || with_word(&format!("--port {port}")).is_empty());
    if out.join("result.json").is_file() {
        resume().assert().stdout(contains("resumed once"));
        assert_eq!(state(&result(&out), "a")["state"], "done");
    }
    assert!(!note.exists() && TcpListener::bind(("127.0.0.1", port)).is_ok());
}

#[test]
fn a_grid_is_answered_in_simulated_time() {
    let dir = tempdir().unwrap();
    let (path, out) = (dir.path().join("plan.toml"), dir.path().join("run"));
    let text = "name = \"grid\"\nserver.simulated = { preset = \"a40-qwen3-0.6b\" }\nslo = { ttft.p90 = \"2s\", tpot.p90 = \"12ms\" }\n\
                workload.prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }\n\
                step = { settle = \"5s\", measure = \"60s\" }\n[search]\nrates = [10, 20]\npeak = { concurrency = 1, settle = \"5s\", measure = \"20s\" }\n\
                [grid]\nset = { \"server.simulated.max-num-seqs\" = \"{max-num-seqs}\", \"search.peak.concurrency\" = \"{2*max-num-seqs}\" }\n\
                knobs.max-num-seqs = [2, 8, 32]\n";
    fs::write(&path, text).unwrap();
    let mut command = goodput();
    command
        .timeout(Duration::from_secs(300))
        .arg("sweep")
        .arg(&path)
        .args(["--virtual-time", "--out"])
        .arg(&out);
    command.assert().stdout(
        contains("Raw peak, with the server kept full: max-num-seqs=").and(contains("Best within the SLO")),
    );
    let found = result(&out);
    let all = found["variants"].as_array().unwrap();
    assert!(all.len() == 3 && all.iter().all(|v| v["state"] == "done"));
    let peak = |i: usize, key: &str| all[i]["peak"][key].as_f64().unwrap();
    let rates: Vec<f64> = (0..3).map(|i| peak(i, "output_tokens_per_s")).collect();
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "{rates:?}");
    assert!((peak(2, "in_flight") - 64.0).abs() < 1e-9 && peak(2, "tpot_p99_ms") > peak(0, "tpot_p99_ms"));
    assert_eq!(
        (&found["best"]["raw_peak"], &all[2]["peak"]["keeps_pace"]),
        (&"max-num-seqs=32".into(), &false.into())
    );
    let kinds: Vec<&str> =
        found["steps"].as_array().unwrap().iter().map(|s| s["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["list", "list", "peak"].repeat(3));
    // The saturated step is no level of the search.
    for a in found["answers"].as_array().unwrap() {
        assert!(a["control"] == "rate" && a["goodput"]["failed"].as_f64() != Some(4.0), "{a}");
    }
    assert!(
        out.join("charts/overlay.png").is_file() && out.join("charts/max-num-seqs-8/latency.png").is_file()
    );
    let again = fs::read_to_string(out.join("variants.csv")).unwrap();
    goodput().arg("report").arg(&out).assert().success();
    assert_eq!(
        (fs::read_to_string(out.join("variants.csv")).unwrap(), &result(&out)["variants"]),
        (again, &found["variants"])
    );
}

/// No load is offered to a server that misses unloaded: that is an answer, and no measurement that was cut short.
#[test]
fn a_variant_that_no_level_suits_is_rejected_and_not_measured_again() {
    let dir = tempdir().unwrap();
    let sweep = |name: &str, limit: &str, code: i32| {
        let (file, out) = (dir.path().join(format!("{name}.toml")), dir.path().join(name));
        let text = format!(
            "name = \"{name}\"\nslo.ttft.p99 = \"{limit}\"\nserver.simulated.preset = \"a40-qwen3-0.6b\"\n\
             workload.prompts.synthetic = {{ input-tokens.fixed = 600, output-tokens.fixed = 30 }}\n\
             search = {{ adaptive.budget = \"2m\", max-rate = 60 }}\n\
             [[variant]]\nname = \"base\"\n[[variant]]\nname = \"hopeless\"\nset = {{ \"server.simulated.slow-down\" = 20.0 }}\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = goodput();
        command.arg("sweep").arg(&file).args(["--virtual-time", "--out"]).arg(&out).assert().code(code);
        let page = fs::read_to_string(out.join("report.md")).unwrap();
        (out, page)
    };
    let (out, page) = sweep("one", "100ms", 0);
    assert!(
        page.contains("| ✕ rejected | hopeless |") && page.contains("it keeps the SLO at no level"),
        "{page}"
    );
    assert!(!page.contains("it was not measured to the end"), "{page}");
    let mut rows = csv::Reader::from_path(out.join("variants.csv")).unwrap();
    let head = rows.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|h| h == name).unwrap();
    let all: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!((&all[1][at("goodput_status")], &all[1][at("goodput")]), ("none", ""));
    let capacity = goodput().arg("capacity").arg(&out).args(["--daily-volume", "1M"]).output().unwrap();
    let said =
        String::from_utf8_lossy(&capacity.stdout).into_owned() + &String::from_utf8_lossy(&capacity.stderr);
    assert!(said.contains("no rate meets its SLO") && !said.contains("--resume"), "{said}");

    let (_, page) = sweep("none", "10ms", 2);
    assert!(page.contains("2 variants, and none is shown to keep the SLO"), "{page}");
    assert!(["base", "hopeless"].iter().all(|v| page.contains(&format!("| ✕ rejected | {v} |"))), "{page}");
}
