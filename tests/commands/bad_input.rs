//! Bad input and bad servers: errors name the problem, its place and a remedy, and no measurement is lost.

use crate::common::{Manner, goodput, plan, result, serve, wait_until};
use predicates::ord::ne;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// Returns an address at which no server listens.
fn nobody() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn run_dir(dir: &Path) -> std::path::PathBuf {
    dir.join("run")
}

/// Row: a change in a valid plan, and text that the message must contain besides file, line and column.
#[test]
fn mistakes_in_the_plan_are_shown_in_their_place() {
    let dir = tempdir().unwrap();
    let server = format!("url = \"http://{}\"", nobody());
    for (from, to, say) in [
        ("settle =", "setle =", vec!["unknown key `setle`: did you mean `settle`?", "`measure`"]),
        ("rates = [5]", "rates = [-5]", vec!["a rate must be positive and finite", "got -5"]),
        ("ttft.p90", "ttft.p199", vec!["a percentile is written p50"]),
        (
            "ttft.p90 = \"100ms\"",
            "profile = \"chta\"",
            vec!["no SLO profile \"chta\"", "code-completion", "rag"],
        ),
        ("rates = [5]", "rates = []", vec!["the list is empty"]),
        (
            "rates = [5]",
            "rates = [5]\nconcurrency = [1]",
            vec!["only one of adaptive, rates, ramp, concurrency"],
        ),
        (
            "warmup-requests",
            "urls = [\"http://127.0.0.1:1\"]\nwarmup-requests",
            vec!["only one of url, urls, simulated"],
        ),
    ] {
        let path = plan(dir.path(), &server, "rates = [5]");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let mut assert =
            goodput().arg("sweep").arg(&path).arg("--out").arg(run_dir(dir.path())).assert().code(1);
        for part in say.into_iter().chain(["plan.toml", "line ", "column "]) {
            assert = assert.stderr(contains(part));
        }
        assert!(!run_dir(dir.path()).exists(), "nothing was begun: {to}");
    }
}

#[test]
fn a_plan_that_does_not_exist_names_those_that_do() {
    goodput()
        .args(["sweep", "no-such-plan"])
        .assert()
        .code(1)
        .stderr(contains("demo").and(contains("goodput init")));
}

#[test]
fn nobody_listens() {
    let dir = tempdir().unwrap();
    let address = nobody();
    let path = plan(dir.path(), &format!("url = \"http://{address}\""), "rates = [5]");
    goodput().arg("sweep").arg(path).arg("--out").arg(run_dir(dir.path())).assert().code(1).stderr(
        contains(address.to_string()).and(contains("refused")).and(contains("Check that the server runs")),
    );
    assert!(!run_dir(dir.path()).exists());
}

#[test]
fn the_name_does_not_resolve() {
    let dir = tempdir().unwrap();
    let path = plan(dir.path(), "url = \"http://no-such-host.invalid:8000\"", "rates = [5]");
    goodput()
        .arg("sweep")
        .arg(path)
        .assert()
        .code(1)
        .stderr(contains("no-such-host.invalid").and(contains("does not resolve")));
}

#[test]
fn tls_fails() {
    let dir = tempdir().unwrap();
    let address = serve(Manner::Plain);
    let path = plan(dir.path(), &format!("url = \"https://{address}\""), "rates = [5]");
    goodput().arg("sweep").arg(path).assert().code(1).stderr(contains("TLS").and(contains("http://")));
}

#[test]
fn the_model_is_not_served() {
    let dir = tempdir().unwrap();
    let server = format!("url = \"http://{}\"\nmodel = \"big\"", serve(Manner::Plain));
    let path = plan(dir.path(), &server, "rates = [5]");
    goodput().arg("sweep").arg(path).assert().code(1).stderr(contains("big").and(contains("tiny")));
}

#[test]
fn refused_keys_are_explained_and_never_shown() {
    let dir = tempdir().unwrap();
    let secret = "sk-very-secret-0123456789";
    let address = serve(Manner::Locked);
    let path =
        plan(dir.path(), &format!("url = \"http://{address}\"\napi-key-env = \"MY_KEY\""), "rates = [5]");
    goodput()
        .arg("sweep")
        .arg(&path)
        .env("MY_KEY", secret)
        .assert()
        .code(1)
        .stderr(contains("401").and(contains("MY_KEY")).and(contains(secret).not()));
    goodput().arg("sweep").arg(&path).assert().code(1).stderr(contains("MY_KEY").and(contains("not set")));
    let path = plan(dir.path(), &format!("url = \"http://{}\"", serve(Manner::Forbidden)), "rates = [5]");
    goodput().arg("sweep").arg(path).assert().code(1).stderr(contains("403").and(contains("api-key-env")));
}

#[test]
fn secrets_in_the_plan_are_refused() {
    let dir = tempdir().unwrap();
    for (server, advice) in [
        ("url = \"http://127.0.0.1:1\"\nheaders = { Authorization = \"Bearer abcdef\" }", "api-key-env"),
        ("url = \"http://127.0.0.1:1\"\nheaders = { x-api-key = \"abcdef\" }", "api-key-env"),
        ("url = \"http://me:abcdef@127.0.0.1:1\"", "api-key-env"),
    ] {
        let path = plan(dir.path(), server, "rates = [5]");
        goodput().arg("check").arg(path).assert().code(1).stderr(
            contains(advice).and(contains("line ")).and(contains("column ")).and(contains("abcdef").not()),
        );
    }
    goodput()
        .args(["check", "demo", "--set", "server.url=http://me:abcdef@127.0.0.1:1"])
        .assert()
        .code(1)
        .stderr(contains("server.url").and(contains("abcdef").not()));
}

#[test]
fn a_step_of_failures_fails_and_ends_the_sweep() {
    let dir = tempdir().unwrap();
    // One request to negotiate, three to calibrate and two to warm up come before the step.
    let server = format!("url = \"http://{}\"", serve(Manner::FailsAfter(6)));
    let path = plan(dir.path(), &server, "rates = [80, 160]");
    let out = run_dir(dir.path());
    goodput().arg("sweep").arg(path).arg("--out").arg(&out).assert().code(2).stdout(contains("server-error"));
    let result = result(&out);
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "the second level is not tried");
    assert_eq!(steps[0]["verdict"], "fails");
    let failures = fs::read_to_string(out.join("failures.csv")).unwrap();
    assert!(failures.contains("server-error,500") && failures.contains("CUDA out of memory"), "{failures}");
}

/// Row: TTFT of the server, rates of the steps, of which there are more than it lives for, SLO. With many requests in
/// flight their resets alone are gross misses of a p99 limit, and still say nothing of a server that is there.
#[test]
fn a_server_that_dies_leaves_the_steps_before() {
    for (ttft, rates, slo) in [
        ("5ms", "rates = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29]", "ttft.p90 = \"30s\""),
        ("400ms", "rates = [200, 201, 202, 203, 204, 205, 206, 207]", "ttft.p99 = \"30s\""),
        ("400ms", "ramp = { start = 200, factor = 1.01 }", "ttft.p99 = \"30s\""),
    ] {
        dies(ttft, rates, slo);
    }
}

fn dies(ttft: &str, search: &str, slo: &str) {
    let dir = tempdir().unwrap();
    let mut server = std::process::Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .args(["simulate", "--preset", "fixed", "--set", &format!("ttft={ttft}"), "--port", "0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut told = std::io::BufReader::new(server.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    let url = line.split_whitespace().find(|w| w.starts_with("http://")).unwrap().to_owned();
    let path = plan(dir.path(), &format!("url = \"{url}\""), search);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("ttft.p90 = \"100ms\"", slo)).unwrap();
    let out = run_dir(dir.path());
    let steps = out.join("steps.csv");
    let killer = std::thread::spawn(move || {
        // One step is done when there are two lines: the names and its row.
        wait_until("a step is done", || fs::read_to_string(&steps).is_ok_and(|t| t.lines().count() >= 2));
        // Into the next one, or wherever a machine that was halted is then.
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.kill().unwrap();
        server.wait().unwrap();
    });
    goodput()
        .arg("sweep")
        .arg(path)
        .arg("--out")
        .arg(&out)
        .assert()
        .code(3)
        .stdout(contains("stopped answering"));
    killer.join().unwrap();
    let result = result(&out);
    assert_eq!(result["goodput"]["status"], "undecided");
    let steps = result["steps"].as_array().unwrap();
    let (last, before) = steps.split_last().unwrap();
    assert!(!before.is_empty() && before.iter().all(|s| s["abort"].is_null()), "the steps before");
    assert_eq!(last["abort"], "server-gone", "the one in which it died");
    assert!(out.join("report.md").is_file());
}

#[test]
fn a_full_output_folder_is_not_overwritten() {
    let dir = tempdir().unwrap();
    let out = run_dir(dir.path());
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    let path = plan(dir.path(), &format!("url = \"http://{}\"", serve(Manner::Plain)), "rates = [20]");
    let sweep = |force: bool| {
        let mut c = goodput();
        c.arg("sweep").arg(&path).arg("--out").arg(&out).args(force.then_some("--force"));
        c.assert()
    };
    sweep(false).code(1).stderr(contains("not empty").and(contains("--force")));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "nothing was written");
    sweep(true).code(ne(1));
    assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "mine", "what is not ours stays");
    sweep(true).code(ne(1));
}

/// Row: the server's behaviour, and text about it in the report.
#[test]
fn servers_that_do_not_know_our_fields_are_asked_again_without() {
    for (manner, say) in [
        (Manner::Refuses(&["ignore_eos"]), "still pins output lengths"),
        (Manner::Refuses(&["ignore_eos", "min_tokens"]), "output lengths were not pinned"),
        (Manner::ThreeTokens, "output lengths were not pinned"),
        (Manner::Refuses(&["stream_options"]), "refused stream_options"),
    ] {
        let dir = tempdir().unwrap();
        let path = plan(dir.path(), &format!("url = \"http://{}\"", serve(manner)), "rates = [20]");
        let out = run_dir(dir.path());
        goodput().arg("sweep").arg(path).arg("--out").arg(&out).assert().code(ne(1));
        let report = fs::read_to_string(out.join("report.md")).unwrap();
        assert!(report.contains(say), "{manner:?}: {report}");
        assert!(result(&out)["steps"][0]["completed"].as_u64().unwrap() > 5, "{manner:?}");
    }
}

/// The plan is a good one, the server that it asks for does not start: that is said when it is started, wherever that
/// is.
#[test]
fn a_simulated_server_out_of_memory_does_not_start() {
    let dir = tempdir().unwrap();
    let said = "the simulated server did not start: CUDA out of memory: gpu-memory-utilization 0.95";
    goodput()
        .args(["simulate", "--preset", "4xa100-llama-70b-util", "--set", "gpu-memory-utilization=0.95"])
        .args(["--port", "0"])
        .assert()
        .code(1)
        .stderr(contains(said).and(contains("http://").not()));
    let server = "simulated = { preset = \"4xa100-llama-70b-util\", gpu-memory-utilization = 0.95 }";
    let path = plan(dir.path(), server, "rates = [5]");
    goodput().arg("check").arg(&path).assert().success();
    for flags in [&[][..], &["--virtual-time"]] {
        goodput()
            .arg("sweep")
            .arg(&path)
            .arg("--out")
            .arg(run_dir(dir.path()))
            .args(flags)
            .assert()
            .code(1)
            .stderr(contains(said).and(contains("lower gpu-memory-utilization to 0.93")));
    }
}
