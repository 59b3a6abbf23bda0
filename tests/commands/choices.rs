//! Requests for several choices (`n`): their first token is that of the first choice to begin, and their pace is that of one choice.

use crate::common::{column, goodput, result, sweep};
use goodput::plan::Plan;
use goodput::slo::Metric;
use goodput::sweep::bare;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A plan of one level, five requests/s of four choices with sixteen tokens each.
fn plan(server: &str, simulated: &str, slo: &str) -> String {
    format!(
        "name = \"choices\"\nslo.{slo}\nstep.settle = \"2s\"\nstep.measure = \"120s\"\nsearch.rates = [5]\n[server]\n\
         simulated = {{ {simulated} }}\nwarmup-requests = 2\nbody.n = 4\n{server}\n[workload.prompts.synthetic]\n\
         input-tokens.fixed = 20\noutput-tokens.fixed = 16\n"
    )
}

/// Every choice by itself: the first token after 20 ms, and the other fifteen each 10 ms later.
const FIXED: &str = "preset = \"fixed\", ttft = \"20ms\", tpot = \"10ms\"";
/// One choice after the other: each waits for a server that takes 20 ms for a prompt, and has a token every 10 ms.
const QUEUE: &str = "preset = \"md1\", service = \"20ms\", decode = \"10ms\"";

fn figure(step: &Value, metric: &str, figure: &str) -> f64 {
    step[metric][figure].as_f64().unwrap_or_else(|| panic!("{metric} {figure}: {step}"))
}

fn column_is(run: &Path, name: &str, value: &str) {
    let all = column(&run.join("requests.csv"), name);
    assert!(!all.is_empty() && all.iter().all(|cell| cell == value), "{name}: {:?}", all.first());
}

/// Rows: the server, the SLO and the verdict.
#[test]
fn the_pace_is_that_of_one_choice() {
    for (server, simulated, slo, verdict) in [
        ("", FIXED, "tpot.p90 = \"9ms\"", "fails"),
        ("", FIXED, "tpot.p90 = \"11ms\"", "meets"),
        ("api = \"completions\"", FIXED, "tpot.p90 = \"9ms\"", "fails"),
        (
            "body.stream_options.continuous_usage_stats = true\nbody.stream_options.include_usage = true",
            FIXED,
            "itl.p90 = \"9ms\"",
            "fails",
        ),
        ("", FIXED, "itl.p90 = \"11ms\"", "meets"),
        ("", QUEUE, "tpot.p90 = \"9ms\"", "fails"),
        ("", QUEUE, "tpot.p90 = \"11ms\"", "meets"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (run, _) = sweep(dir.path(), &plan(server, simulated, slo), &["--virtual-time"]);
        let result = result(&run);
        let step = &result["steps"][0];
        assert_eq!(step["verdict"], verdict, "{server} {simulated} {slo}: {step}");
        for metric in ["tpot_ms", "itl_ms"] {
            assert!((figure(step, metric, "p50") - 10.0).abs() < 0.1, "{metric}: {step}");
            assert!((figure(step, metric, "p99") - 10.0).abs() < 0.1, "{metric}: {step}");
        }
        let (completed, rate) =
            (step["completed"].as_f64().unwrap(), step["achieved_rate"].as_f64().unwrap());
        assert_eq!(step["output_tokens_mean"], 64.0, "of all choices: {step}");
        assert!((step["output_tokens_per_s"].as_f64().unwrap() - 64.0 * rate).abs() < 1e-6, "{step}");
        assert_eq!(step["itl_ms"]["n"].as_f64(), Some(60.0 * completed), "of each choice fifteen: {step}");
        for (name, value) in [
            ("choices", "4"),
            ("decoding_ms", "600.0"),
            ("output_asked", "64"),
            ("output_tokens", "64"),
            ("first_event_tokens", "4"),
            ("events", "64"),
            ("finish", "length"),
            ("token_source", "usage"),
        ] {
            column_is(&run, name, value);
        }
        let caveats = result["caveats"].to_string();
        for word in ["lengths", "counters", "cache", "miscounted"] {
            assert!(!caveats.contains(word), "{word}: {caveats}");
        }
    }
}

/// TTFT is the time until the first choice begins, and e2e lasts until the last one has ended.
#[test]
fn first_and_last_token_are_those_of_any_choice() {
    let dir = tempfile::tempdir().unwrap();
    // One request at a time.
    let alone =
        |simulated| plan("", simulated, "e2e.p99 = \"10s\"").replace("rates = [5]", "concurrency = [1]");
    for (name, simulated, ttft, e2e) in [("fixed", FIXED, 20.0, 170.0), ("queue", QUEUE, 20.0, 230.0)] {
        let dir = dir.path().join(name);
        fs::create_dir(&dir).unwrap();
        let (run, _) = sweep(&dir, &alone(simulated), &["--virtual-time"]);
        let step = &result(&run)["steps"][0];
        for (metric, want) in [("ttft_ms", ttft), ("e2e_ms", e2e), ("tpot_ms", 10.0)] {
            assert!((figure(step, metric, "p99") - want).abs() < 0.1, "{name} {metric}: {step}");
        }
    }
}

/// The report is made again from the files, and other figures of requests are as well.
#[test]
fn a_report_is_made_again_from_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _) = sweep(dir.path(), &plan("", QUEUE, "tpot.p90 = \"11ms\""), &["--virtual-time"]);
    let first = result(&run);
    goodput().arg("report").arg(&run).assert().success();
    assert_eq!(result(&run)["steps"], first["steps"]);
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("4 choices") && report.contains("count each choice as a request"), "{report}");
}

#[test]
fn an_answer_in_one_piece_has_all_choices() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _) = sweep(dir.path(), &plan("stream = false", FIXED, "e2e.p99 = \"1s\""), &["--virtual-time"]);
    let step = &result(&run)["steps"][0];
    assert_eq!((&step["output_tokens_mean"], &step["tpot_ms"]["n"]), (&64.0.into(), &0.into()), "{step}");
    // The paused clock has whole milliseconds.
    assert!((170.0..171.0).contains(&figure(step, "e2e_ms", "p99")), "{step}");
    column_is(&run, "choices", "4");
    column_is(&run, "decoding_ms", "");
}

/// A server that ignores `n` is refused before it is loaded, and fails where only some of its answers do.
#[test]
fn a_server_that_ignores_n_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let with = |share: &str| format!("{FIXED}, fault = {{ one-choice = {share} }}, seed = 2");
    fs::write(dir.path().join("all.toml"), plan("", &with("1.0"), "tpot.p90 = \"11ms\"")).unwrap();
    let done = goodput()
        .current_dir(dir.path())
        .args(["sweep", "all.toml", "--no-charts", "--virtual-time", "--out", "all"])
        .assert()
        .code(1);
    let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(said.contains("the answer has 1 choice where n = 4 asks for 4"), "{said}");
    let half =
        plan("", &with("0.5"), "tpot.p90 = \"11ms\"").replace("warmup-requests = 2", "warmup-requests = 0");
    fs::write(dir.path().join("half.toml"), half).unwrap();
    goodput()
        .current_dir(dir.path())
        .args(["sweep", "half.toml", "--no-charts", "--virtual-time", "--out", "half"])
        .assert()
        .code(3);
    let step = &result(&dir.path().join("half"))["steps"][0];
    assert_eq!((&step["verdict"], &step["binding"]), (&"fails".into(), &"errors".into()), "{step}");
    let failures = fs::read_to_string(dir.path().join("half/failures.csv")).unwrap();
    assert!(failures.contains("miscounted") && failures.contains("has 1 choice where"), "{failures}");
}

/// Each class of a mix asks for its own number, and its requests count its own tokens.
#[test]
fn classes_have_choices_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let class = |name: &str, body: &str| {
        format!(
            "[[workload.class]]\nname = \"{name}\"\nweight = 1\n{body}\n\
             prompts.synthetic = {{ input-tokens.fixed = 20, output-tokens.fixed = 16 }}\n"
        )
    };
    let text = plan("", FIXED, "tpot.p90 = \"11ms\"");
    let (head, _) = text.split_once("[workload.prompts").unwrap();
    let text = format!("{head}{}{}", class("four", ""), class("one", "body.n = 1"));
    let (run, _) = sweep(dir.path(), &text, &["--virtual-time"]);
    let csv = run.join("requests.csv");
    let rows =
        column(&csv, "class").into_iter().zip(column(&csv, "choices")).zip(column(&csv, "output_tokens"));
    for ((class, choices), tokens) in rows.filter(|((class, _), _)| class != "all") {
        let want = if class == "four" { ("4", "64") } else { ("", "16") };
        assert_eq!((&*choices, &*tokens), want, "{class}");
    }
}

/// The engine alone measures the same as a client over HTTP, on a server where choices share seats, iterations and blocks.
#[test]
fn the_bare_model_has_choices_too() {
    let dir = tempfile::tempdir().unwrap();
    let text = plan("", "preset = \"a40-qwen3-0.6b\"", "tpot.p99 = \"1s\"")
        .replace("input-tokens.fixed = 20", "input-tokens.fixed = 200");
    let (run, _) = sweep(dir.path(), &text, &["--virtual-time"]);
    let result = result(&run);
    let step = &result["steps"][0];
    let steps = bare::steps(&Plan::from_text(&text).unwrap()).unwrap();
    for (metric, name) in [(Metric::Ttft, "ttft_ms"), (Metric::Tpot, "tpot_ms"), (Metric::E2e, "e2e_ms")] {
        let (exact, got) = (steps[0].quantiles(metric).p50.unwrap(), figure(step, name, "p50"));
        assert!((got - exact).abs() < 1.5_f64.max(0.02 * exact), "{name}: {got} over HTTP, {exact} without");
    }
    assert_eq!(steps[0].output_tokens_mean, Some(64.0));
    // The prompt is read once, and found by the three other choices up to its last block.
    let hits = step["server"]["hit_rate"].as_f64().unwrap();
    assert!((0.6..0.76).contains(&hits), "{hits}");
}

/// The client counts the tokens of all choices, each text by itself, if the server does not.
#[cfg(feature = "tokenizer")]
#[test]
fn a_tokenizer_counts_every_choice() {
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenizer.json");
    for server in ["", "api = \"completions\""] {
        let dir = tempfile::tempdir().unwrap();
        let server =
            format!("{server}\ntokenizer = \"{tokenizer}\"\nbody.stream_options.include_usage = false");
        let text = plan(&server, FIXED, "tpot.p90 = \"11ms\"");
        let text = text.replace("warmup-requests = 2", "warmup-requests = 0");
        let (run, _) = sweep(dir.path(), &text, &["--virtual-time"]);
        let step = &result(&run)["steps"][0];
        assert_eq!(
            (&step["verdict"], &step["output_tokens_mean"]),
            (&"meets".into(), &64.0.into()),
            "{step}"
        );
        assert!((figure(step, "tpot_ms", "p50") - 10.0).abs() < 0.1, "{step}");
        for (name, value) in [
            ("choices", "4"),
            ("output_tokens", "64"),
            ("token_source", "tokenizer"),
            ("first_event_tokens", "4"),
        ] {
            column_is(&run, name, value);
        }
    }
}
