//! Whole steps on a server with all faults at once: they end in time and account for every request.

use crate::accounts::{Account, accounts};
use crate::common::{goodput, result, simulate, sweep};
use crate::simulated::expected;
use goodput::sim::fault::Fault;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Writes a plan whose simulated server has these faults, each on this share of the requests.
fn plan(faults: &[Fault], share: f64, step: &str, rate: u32) -> String {
    let faults: Vec<String> = faults.iter().map(|f| format!("{} = {share}", f.name())).collect();
    format!(
        "name = \"faults\"\nseed = 1\n[server]\nwarmup-requests = 2\n[server.simulated]\npreset = \"fixed\"\n\
         ttft = \"20ms\"\ntpot = \"5ms\"\nfault-after = 100\nfault = {{ {} }}\n[slo]\nttft.p99 = \"1s\"\nerror-rate = 0.01\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n\
         [step]\nmax-error-share = 1\n{step}\n[search]\nrates = [{rate}]\n",
        faults.join(", ")
    )
}

/// Checks that the failures of a step have only kinds and statuses that its faults cause.
fn known(account: &Account, faults: &[Fault]) {
    for ((kind, status), n) in &account.failed {
        let status = status.parse().ok();
        let brings = |f: &&Fault| {
            let want = expected(**f);
            want.failures.iter().any(|k| k.name() == kind) && (want.status == status || kind == "timeout")
        };
        assert!(faults.iter().any(|f| brings(&f)), "{n} × {kind} {status:?} is none of the faults");
    }
}

#[test]
fn a_step_of_faults_ends_in_time_and_accounts_for_every_request() {
    let dir = tempfile::tempdir().unwrap();
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|f| !f.needs_socket()).collect();
    let step = "settle = \"5s\"\nmeasure = \"60s\"\ndrain = \"5s\"\ntimeout = \"20s\"";
    let plan = plan(&faults, 0.02, step, 40);
    let run = simulate(dir.path(), &plan).0;
    let before = result(&run);
    let step = &before["steps"][0];
    assert_eq!((step["abort"].as_str(), step["verdict"].as_str()), (None, Some("fails")), "{step}");
    // Settle, window, a tail of half a timeout, and the drain, within the resolution of the clock.
    let took = step["ended_s"].as_f64().unwrap() - step["started_s"].as_f64().unwrap();
    assert!((65.0..=80.1).contains(&took), "{took} s");
    let account = &accounts(&run)[&1];
    known(account, &faults);
    assert!(account.due > 2000 && account.cut > 0, "{account:?}");
    // About 2 % of each: kinds that several faults bring have as many times that. Four standard errors.
    let mut kinds = BTreeMap::<&str, f64>::new();
    for fault in &faults {
        let kind = expected(*fault).failures.first().map_or("ok", |k| k.name());
        *kinds.entry(kind).or_default() += 0.02;
    }
    let sound = 1.0 - 0.02 * faults.len() as f64;
    *kinds.entry("ok").or_default() += sound;
    let n = account.due as f64;
    for (kind, p) in kinds {
        let got = match kind {
            "ok" => account.completed,
            // Requests that were still open at the end of the drain.
            "timeout" => account.of(kind) + account.cut,
            kind => account.of(kind),
        };
        let within = 4.0 * (n * p * (1.0 - p)).sqrt();
        assert!((got as f64 - n * p).abs() <= within, "{kind}: {got} of {n}, not {p}");
    }
    the_wall_clock_says_nothing(&run, &before);
}

/// Setting the wall clock during a sweep changes only the recorded moments, and no figure.
fn the_wall_clock_says_nothing(run: &Path, before: &serde_json::Value) {
    let path = run.join("steps.csv");
    let moment = before["steps"][0]["started_at"].as_str().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(moment));
    fs::write(&path, text.replace(moment, "1999-12-31T23:59:59Z")).unwrap();
    goodput().arg("report").arg(run).assert().success();
    let mut after = result(run);
    assert_eq!(after["steps"][0]["started_at"], "1999-12-31T23:59:59Z");
    after["steps"][0]["started_at"] = moment.into();
    assert_eq!(&after, before);
}

/// All faults over a socket, including those that need one: times depend on the machine, but no request is lost.
#[test]
fn nothing_is_lost_over_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let step = "settle = \"200ms\"\nmeasure = \"3s\"\ndrain = \"1s\"\ntimeout = \"2s\"";
    let plan = plan(&Fault::ALL, 0.02, step, 60);
    let run = sweep(dir.path(), &plan, &[]).0;
    let account = &accounts(&run)[&1];
    known(account, &Fault::ALL);
    assert!(account.completed > 0 && account.failures() > 0, "{account:?}");
}

#[test]
fn faults_of_connections_need_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.toml");
    let plan = plan(&[Fault::Goaway, Fault::Stall, Fault::Reset], 0.1, "measure = \"1s\"", 1);
    fs::write(&path, plan).unwrap();
    let said = goodput().arg("sweep").arg(&path).arg("--virtual-time").assert().code(1);
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(said.contains("reset, goaway") && said.contains("in real time"), "{said}");
}

#[test]
fn the_command_line_checks_faults() {
    for (fault, says) in [
        ("teapot=0.1", "there is no fault \"teapot\"; the faults are refused, closed"),
        ("stall=2", "a probability is a number from 0 to 1"),
        ("all=0.5", "add up to 20.500"),
    ] {
        let said = goodput().args(["simulate", "--port", "0", "--fault", fault]).assert().code(1);
        let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
        assert!(said.contains(says), "{said}");
    }
}
