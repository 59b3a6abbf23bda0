//! `goodput capacity`: figures, inputs and exit codes, from a rate as given and from run folders.

use crate::common::{a40_without_charts, goodput, result};
use goodput_run::fixture::json_schema::Output;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

/// The A40's sweep, shortened, in simulated time, with more of `[hardware]`.
fn run(dir: &TempDir, name: &str, sets: &[&str]) -> PathBuf {
    let out = dir.path().join(name);
    let sets = sets.iter().flat_map(|s| ["--set", s]);
    a40_without_charts("6m").arg("--out").arg(&out).args(sets).output().unwrap();
    out
}

fn json(args: &[&str]) -> serde_json::Value {
    let out = goodput().arg("capacity").args(args).arg("--json").assert().success();
    let json = serde_json::from_slice(&out.get_output().stdout).unwrap();
    Output::new(&goodput::report::sections::capacity::schema()).check(&args.join(" "), &json);
    json
}

/// The seed figures: at 35 requests/s per GPU.
#[test]
fn five_million_requests_a_day() {
    for volume in ["5M", "5,000,000", "5e6", "5_000_000", "5000k"] {
        let args = ["capacity", "--goodput", "35", "--daily-volume", volume, "--headroom", "2"];
        goodput().args(args).assert().success().stdout(contains(
            "5,000,000 requests a day at 35 requests/s per GPU: 57.87 requests/s, 2 GPUs; with headroom 2: 4 GPUs",
        ));
    }
    let v = json(&[
        "--goodput",
        "35",
        "--rate",
        "57.87037037037037",
        "--headroom",
        "2",
        "--gpus-per-replica",
        "4",
    ]);
    let fleet = &v["candidates"][0]["at_goodput"];
    assert_eq!((fleet["replicas"].as_u64(), fleet["gpus"].as_u64()), (Some(4), Some(16)));
    assert!((v["demand"]["per_day"].as_f64().unwrap() - 5e6).abs() < 1e-3);
}

/// Rows: arguments, and the expected message.
#[test]
fn bad_input_says_what_to_write() {
    let dir = tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let short = file("short.csv", "hour,requests\n0,5\n1,x\n");
    let tiny = file(
        "tiny.jsonl",
        "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5}\n{\"timestamp\": 900, \"input_length\": 5, \"output_length\": 5}\n",
    );
    for (args, says) in [
        (&["--goodput", "35"][..], "--daily-volume"), // as clap has it: usage
        (&["--daily-volume", "5M"], "--goodput"),
        (&["--goodput", "0", "--daily-volume", "5M"], "a rate must be positive"),
        (&["--goodput", "NaN", "--daily-volume", "5M"], "a rate must be positive"),
        (&["--goodput", "35", "--daily-volume", "0"], "positive number of requests"),
        (&["--goodput", "35", "--daily-volume", "5m"], "write 5M"),
        (&["--goodput", "35", "--daily-volume", "5M", "--headroom", "0.5"], "a factor of 1 or more"),
        (&["--goodput", "35", "--daily-volume", "5M", "--rate", "7"], "cannot be used with"),
        (&["--goodput", "35", "--daily-volume", "5M", "--safe-rate", "36"], "at most the goodput"),
        (&["--goodput", "35", "--daily-volume", "5M", "--energy-price", "1"], "add --watts"),
        (&["--goodput", "35", "--daily-volume", "5M", "--currency", "USD"], "add --price-per-hour"),
        (&["--goodput", "35", "--daily-volume", "5M", "--max-cost-per-mtok", "1"], "--output-tokens"),
        (&["--goodput", "35", "--profile", &short], "short.csv, line 3: \"x\" is no number of requests"),
        (&["--goodput", "35", "--profile", "nowhere.csv"], "nowhere.csv"),
        (&["--goodput", "35", "--trace", &tiny], "too short to tell its peak"),
        (&["nowhere", "--daily-volume", "5M"], "nowhere is not a run folder"),
    ] {
        goodput().arg("capacity").args(args).assert().code(1).stderr(contains(says));
    }
}

#[test]
fn a_profile_is_checked_hour_by_hour() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("hourly.csv");
    let rows: String = (0..24).map(|h| format!("{h},{}\n", if h == 14 { 720_000 } else { 72_000 })).collect();
    fs::write(&path, format!("hour,requests\n{rows}")).unwrap();
    let path = path.to_str().unwrap();
    // 200 requests/s at 14 o'clock, 20 else: a mean of 27.5.
    let v = json(&["--goodput", "35", "--profile", path, "--price-per-hour", "1"]);
    let fleet = &v["candidates"][0]["at_goodput"];
    assert_eq!(fleet["gpus"], 6);
    assert_eq!((&fleet["autoscaled"]["least"], &fleet["autoscaled"]["most"]), (&1.into(), &6.into()));
    assert_eq!(fleet["autoscaled"]["gpu_hours_per_day"], 29.0);
    assert!((v["demand"]["per_day"].as_f64().unwrap() - 2_376_000.0).abs() < 1e-6);
    goodput()
        .args(["capacity", "--goodput", "35", "--profile", path])
        .assert()
        .success()
        .stdout(contains("7.273 × the mean: the hour 14").and(contains("29 of 144")));
    let v = json(&["--goodput", "35", "--profile", path, "--daily-volume", "23.76M"]);
    assert_eq!(
        v["candidates"][0]["at_goodput"]["gpus"], 58,
        "ten times as much in the same shape: 2,000 requests/s"
    );
}

#[test]
fn a_trace_gives_the_peak() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces/burstgpt-1.csv");
    let trace = trace.to_str().unwrap();
    let v = json(&["--goodput", "35", "--trace", trace, "--daily-volume", "5M"]);
    let ratio = v["demand"]["peak_to_mean"].as_f64().unwrap();
    assert!(ratio >= 1.0, "{ratio}");
    assert!((v["demand"]["per_day"].as_f64().unwrap() - 5e6).abs() < 1e-6);
    assert_eq!(v["demand"]["source"]["trace"]["shape_only"], true);
    goodput().args(["capacity", "--goodput", "35", "--trace", trace, "--explain"]).assert().success().stdout(
        contains("its busiest")
            .and(contains("mean rate = requests of the trace / (its length + one mean gap)"))
            .and(contains("requests of the busiest stretch / its length / mean rate of the trace")),
    );
}

/// The folder of a run may take the answer as well, and its own chart stays what it was.
fn run_keeps_its_chart(a40: &Path) {
    let chart = fs::read(a40.join("charts/capacity.png")).unwrap();
    let both = ["--daily-volume", "5M", "--out"];
    goodput().arg("capacity").arg(a40).args(both).arg(a40).assert().success();
    assert!(a40.join("capacity-charts/capacity.png").is_file());
    assert_eq!(fs::read(a40.join("charts/capacity.png")).unwrap(), chart);
}

fn power_must_be_known_of_all(dear: &Path, a40: &Path) {
    goodput()
        .arg("capacity")
        .args([dear, a40])
        .args(["--daily-volume", "5M", "--energy-price", "0.3"])
        .assert()
        .code(1)
        .stderr(contains("unknown for dear: add --watts"));
}

#[test]
fn runs_beside_one_another_and_their_files() {
    let dir = tempdir().unwrap();
    let a40 = run(&dir, "a40", &["hardware.watts=300"]);
    goodput().arg("report").arg(&a40).assert().success();
    let dear =
        run(&dir, "dear", &["hardware.gpu=\"H100\"", "hardware.price-per-hour=2", "slo.ttft.p99=\"100ms\""]);
    let out = dir.path().join("out");
    goodput()
        .arg("capacity")
        .args([&dear, &a40])
        .args([
            "--daily-volume",
            "5M",
            "--peak-to-mean",
            "3",
            "--headroom",
            "2",
            "--spare-replicas",
            "1",
            "--out",
        ])
        .arg(&out)
        .assert()
        .success()
        .stdout(contains("These runs are not alike").and(contains("a40 takes the most for its money")));
    let text = fs::read_to_string(out.join("capacity.md")).unwrap();
    assert!(
        text.contains("## a40") && text.contains("](capacity-charts/capacity.png)") && text.contains("kWh"),
        "{text}"
    );
    for file in [
        "capacity.json",
        "capacity-charts/capacity.png",
        "capacity-charts/capacity.svg",
        "capacity-charts/slides/capacity.png",
    ] {
        assert!(fs::metadata(out.join(file)).unwrap().len() > 1_000, "{file}");
    }
    let v: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("capacity.json")).unwrap()).unwrap();
    let (one, own) = (&v["candidates"][0], result(&a40));
    assert_eq!(one["candidate"]["name"], "a40");
    assert!(
        (one["candidate"]["safe"]["rate"].as_f64().unwrap() - own["goodput"]["safe_rate"].as_f64().unwrap())
            .abs()
            < 1e-9
    );
    assert!((one["candidate"]["goodput"]["output_tokens"].as_f64().unwrap() - 30.0).abs() < 0.5);
    assert!(
        fs::read_to_string(a40.join("report.md")).unwrap().contains("charts/capacity.png"),
        "the run has a chart of its own"
    );
    run_keeps_its_chart(&a40);
    power_must_be_known_of_all(&dear, &a40);
    // At 3 times the mean and with headroom, seven of eight GPU-hours are idle: 0.75 USD for a million tokens, and 0.1
    // at full load.
    let limit = |max: &str, extra: &[&str]| {
        let mut c = goodput();
        c.arg("capacity").arg(&a40).args(["--daily-volume", "5M", "--max-cost-per-mtok", max]).args(extra);
        c.assert()
    };
    limit("0.2", &[]).success().stdout(contains("Cost limit accepted"));
    limit("0.2", &["--peak-to-mean", "3", "--headroom", "2"]).code(2).stdout(contains("Cost limit rejected"));
    goodput()
        .arg("capacity")
        .arg(format!("{}#lead", a40.display()))
        .args(["--daily-volume", "5M"])
        .assert()
        .code(1)
        .stderr(contains("has no answer \"lead\"").and(contains("main/main")));
}

/// A plan's cost limit applies to the figure that `capacity` calls the cost at full load; both include energy.
#[test]
fn energy_is_in_every_cost() {
    let dir = tempdir().unwrap();
    let out = run(&dir, "paid", &["hardware.watts=300", "hardware.energy-price=0.25"]);
    let own = result(&out);
    let cost = own["capacity"]["at_safe_rate"]["cost_per_mtok"].as_f64().unwrap();
    let v = json(&[out.to_str().unwrap(), "--daily-volume", "5M"]);
    let full = v["candidates"][0]["at_safe_rate"]["cost"]["full_load_per_mtok"].as_f64().unwrap();
    assert!((cost / full - 1.0).abs() < 1e-9, "{cost}, {full}");
    // 0.39 + 0.3 × 0.25 for an hour of one A40.
    let rate = own["goodput"]["safe_rate"].as_f64().unwrap();
    assert!((cost * rate * 0.108 / 0.465 - 1.0).abs() < 0.02, "{cost} at {rate}: 30 output tokens each");
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("at 0.465 USD an hour, 0.075 USD of it energy"), "{report}");
}

/// Rows: a change in the plan, the sweep's exit code, and text in its report.
#[test]
fn a_plan_may_limit_what_tokens_cost() {
    let dir = tempdir().unwrap();
    for (limit, code, says) in [("0.2", 0, "accepted"), ("0.05", 2, "rejected")] {
        let out = dir.path().join(limit);
        a40_without_charts("6m")
            .args(["--set", &format!("hardware.max-cost-per-mtok={limit}"), "--out"])
            .arg(&out)
            .assert()
            .code(code)
            .stdout(contains(format!(
                "cost limit       {says}: at most {limit} USD for a million output tokens"
            )));
        assert_eq!(result(&out)["capacity"]["cost_limit"]["kept"], says);
        let report = fs::read_to_string(out.join("report.md")).unwrap();
        assert!(
            report.contains(&format!("Cost limit: **{says}: at most")) && report.contains("| ✕ "),
            "{limit}"
        );
        // A report from the files agrees.
        goodput()
            .arg("report")
            .arg(&out)
            .assert()
            .success()
            .stdout(contains(format!("cost limit       {says}")));
    }
}

#[test]
fn a_run_without_an_answer_is_refused_with_its_reason() {
    let dir = tempdir().unwrap();
    for (name, set, says) in [
        ("none", "slo.ttft.p99=\"5ms\"", "no rate meets its SLO"),
        ("open", "search.adaptive.budget=\"40s\"", "its goodput is undecided"),
    ] {
        let out = run(&dir, name, &[set]);
        let old = dir.path().join(format!("{name}-out"));
        fs::create_dir_all(old.join("capacity-charts/slides")).unwrap();
        fs::write(old.join("capacity-charts/capacity.png"), "an earlier one").unwrap();
        goodput()
            .arg("capacity")
            .arg(&out)
            .args(["--daily-volume", "5M", "--out"])
            .arg(&old)
            .assert()
            .code(3)
            .stdout(contains(format!("{name} has no rate to plan with: {says}")).and(contains("→")));
        if name == "open" {
            let resume = format!("goodput sweep --resume {} --budget", out.display());
            goodput()
                .arg("capacity")
                .arg(&out)
                .args(["--daily-volume", "5M"])
                .assert()
                .stdout(contains(resume));
        }
        assert!(
            old.join("capacity.md").is_file() && !old.join("capacity-charts").exists(),
            "no chart of old"
        );
        let json =
            goodput().arg("capacity").arg(&out).args(["--daily-volume", "5M", "--json"]).assert().code(3);
        let v: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
        assert_eq!(
            (v["refused"].as_array().map(Vec::len), v["candidates"].as_array().map(Vec::len)),
            (Some(1), Some(0))
        );
    }
}

/// The capacity of a mix is never derived from one of its classes by default; a class chosen by name appears in the
/// answer and in the chart.
#[test]
fn a_mix_is_not_sized_by_one_of_its_classes() {
    let dir = tempdir().unwrap();
    let (run, out) = (dir.path().join("traffic"), dir.path().join("out"));
    // Longer documents and a tighter limit leave the mix undecided within a minute.
    let mix = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/sweeps/mix.toml")).unwrap();
    let mix = mix.replace("{ fixed = 4000 }", "{ fixed = 8000 }").replace("300ms", "200ms");
    let plan = dir.path().join("mix.toml");
    fs::write(&plan, mix).unwrap();
    goodput()
        .args(["sweep", "--no-charts"])
        .arg(&plan)
        .args(["--virtual-time", "--set", "search.adaptive.budget=\"1m\"", "--out"])
        .arg(&run)
        .output()
        .unwrap();
    let capacity = |run: String| {
        goodput().arg("capacity").arg(run).args(["--daily-volume", "5M", "--out"]).arg(&out).assert()
    };
    capacity(run.display().to_string()).code(3).stdout(
        contains("traffic, mix has no rate to plan with")
            .and(contains("RUN#SERIES plans with another of its series: only chat; only documents"))
            .and(contains("requests/s per A40").not()),
    );
    capacity(format!("{}#only chat", run.display())).success().stdout(
        contains("traffic, only chat: 5,000,000 requests a day at")
            .and(contains("measured  traffic, only chat: ~300"))
            .and(contains("Planned with is its series only chat")),
    );
    let chart = fs::read_to_string(out.join("capacity-charts/capacity.svg")).unwrap();
    assert!(chart.contains("traffic, only chat: "), "{}", &chart[..2_000]);
}

/// The limit would be kept from 12 requests/s on, and the plan ends at 10: at 12 the SLO was never tried, so nothing is
/// rejected.
#[test]
fn a_limit_above_the_highest_rate_is_open() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("low");
    a40_without_charts("3m")
        .args(["--set", "search.max-rate=10", "--set", "hardware.max-cost-per-mtok=0.3", "--out"])
        .arg(&out)
        .assert()
        .code(3)
        .stdout(
            contains("cost limit       undecided: at most 0.3 USD")
                .and(contains("not tried above 10 (raise")),
        );
    assert_eq!(result(&out)["capacity"]["cost_limit"]["kept"], "undecided");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("○ undecided: at most 0.3 USD, kept only from 12"), "the card says it");
}
