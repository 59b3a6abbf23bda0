//! Requests of items, each with a result, and prompts with images.

use crate::common::{column, goodput, result, sweep};
use std::path::Path;

/// An embedder that reads one text after the other, 50 ms each: requests of two texts wait as in a queue M/D/1 with 100 ms.
fn embedder(search: &str) -> String {
    format!(
        "name = \"embedder\"\nslo = {{ e2e.p99 = \"400ms\", error-rate = 0.01 }}\n[server]\napi = \"embeddings\"\nwarmup-requests = 2\n\
         simulated = {{ preset = \"md1\" }}\n[workload.prompts.items]\ninput-tokens = {{ fixed = 40 }}\ncount = {{ fixed = 2 }}\n\
         [step]\nsettle = \"20s\"\nmeasure = \"30m\"\n[search]\n{search}\n[hardware]\ngpus = 1\nprice-per-hour = 3.6\ncurrency = \"USD\"\n"
    )
}

#[test]
fn an_embedder_is_judged_by_e2e_and_told_in_texts() {
    let dir = tempfile::tempdir().unwrap();
    // The closed form for M/D/1: 9.26 / 2 = 4.63 requests/s.
    let (run, said) = sweep(dir.path(), &embedder("rates = [4.2, 5.2]"), &["--virtual-time"]);
    let result = result(&run);
    let goodput = &result["goodput"];
    assert!(said.contains(" texts/s) while keeping p99 e2e "), "{said}");
    assert_eq!((&goodput["met"], &goodput["failed"]), (&4.2.into(), &5.2.into()), "{goodput}");
    assert_eq!(goodput["binding"], "e2e.p99");
    for step in result["steps"].as_array().unwrap() {
        let [items, requests] = ["items_per_s", "achieved_rate"].map(|key| step[key].as_f64().unwrap());
        assert!((items - 2.0 * requests).abs() < 1e-9, "{step}");
        assert_eq!((&step["ttft_ms"]["n"], &step["output_tokens_per_s"]), (&0.into(), &0.0.into()), "{step}");
        assert!((step["input_tokens_mean"].as_f64().unwrap() - 80.0).abs() < 4.0, "{step}");
    }
    let capacity = &result["capacity"];
    let per_s = capacity["items_per_s"].as_f64().unwrap();
    assert!((capacity["cost_per_1000_items"].as_f64().unwrap() - 1.0 / per_s).abs() < 1e-9, "{capacity}");
    assert!(column(&dir.path().join("run/requests.csv"), "items").iter().all(|n| n == "2"));
    sized_in_texts(&run, per_s);
    let report = std::fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(report.contains("2 texts of 40 tokens") && report.contains("texts/s"), "{report}");
    for word in ["TTFT", "TPOT", "[DONE]", "sent no usage", "NaN"] {
        assert!(!report.contains(word), "{word}: {report}");
    }
}

/// Sizes a fleet for a demand in texts, and compares the run with itself in texts.
fn sized_in_texts(run: &Path, per_s: f64) {
    let json = |args: &[&str]| -> serde_json::Value {
        let output =
            goodput().args(args).arg(run).arg("--json").assert().success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    };
    let sized = json(&["capacity", "--daily-items", "4M"]);
    assert_eq!(sized["demand"]["per_day"], 2e6, "two texts a request: {sized}");
    let run_path = run.to_str().unwrap();
    let compared = json(&["compare", run_path]);
    let rows = compared["rows"].as_array().unwrap();
    let texts = rows.iter().find(|row| row["name"] == "items").unwrap();
    assert_eq!(texts["unit"], "texts/s");
    assert!((texts["values"][0].as_f64().unwrap() - per_s).abs() < 1e-9, "{texts}");
    let table = goodput().args(["capacity", "--daily-items", "4M"]).arg(run).assert().success();
    let table = String::from_utf8_lossy(&table.get_output().stdout).into_owned();
    assert!(table.contains("… texts/s") && table.contains("cost of 1,000 texts"), "{table}");
    let tokens = ["capacity", "--goodput", "5", "--daily-items", "4M"];
    goodput().args(tokens).assert().failure();
}

#[test]
fn a_reranker_is_swept_over_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let plan = embedder("rates = [20]")
        .replace("\"embeddings\"", "\"rerank\"")
        .replace("md1", "l4-bge-large")
        .replace("count =", "query-tokens = { fixed = 5 }\ncount =")
        .replace("30m", "1s")
        .replace("20s", "200ms")
        .replace("400ms", "5s");
    let result = result(&sweep(dir.path(), &plan, &[]).0);
    let step = &result["steps"][0];
    assert!(step["completed"].as_u64().unwrap() > 5 && step["failed"] == 0, "{step}");
    assert!(
        (step["input_tokens_mean"].as_f64().unwrap() - 90.0).abs() < 6.0,
        "two documents, the query with each: {step}"
    );
}

#[test]
fn a_vision_model_is_told_in_images_too() {
    let dir = tempfile::tempdir().unwrap();
    let plan = "name = \"vision\"\nslo.ttft.p99 = \"2s\"\n[server]\nwarmup-requests = 2\n\
        simulated = { preset = \"a40-qwen3-0.6b\", vision = { token-time = \"20us\" } }\n\
        [workload.prompts.synthetic]\ninput-tokens = { fixed = 50 }\noutput-tokens = { fixed = 4 }\n\
        images = { count = { fixed = 2 }, width = { fixed = 56 }, height = { fixed = 84 }, content = \"flat\" }\n\
        [step]\nsettle = \"1s\"\nmeasure = \"20s\"\n[search]\nrates = [5]\n";
    for api in ["chat", "responses", "messages"] {
        let dir = dir.path().join(api);
        std::fs::create_dir(&dir).unwrap();
        let plan = plan.replace("[server]", &format!("[server]\napi = \"{api}\""));
        let result = result(&sweep(&dir, &plan, &["--virtual-time"]).0);
        let step = &result["steps"][0];
        assert!(step["completed"].as_u64().unwrap() > 50 && step["failed"] == 0, "{api}: {step}");
        let [images, requests] = ["items_per_s", "achieved_rate"].map(|key| step[key].as_f64().unwrap());
        assert!((images - 2.0 * requests).abs() < 1e-9, "{api}: {step}");
        // The text, and two images of two by three squares of 28 pixels.
        assert!((step["input_tokens_mean"].as_f64().unwrap() - 62.0).abs() < 3.0, "{api}: {step}");
        // Its answers have tokens, which the server counts too.
        let report = std::fs::read_to_string(dir.join("run/report.md")).unwrap();
        for word in ["images/s", "output tokens/s", "TTFT of the client", "but for the TTFT"] {
            assert!(
                report.contains(word) || (word == "but for the TTFT" && step["cut"] == 0),
                "{word}: {report}"
            );
        }
    }
    let path = dir.path().join("completions.toml");
    std::fs::write(&path, plan.replace("[server]", "[server]\napi = \"completions\"")).unwrap();
    goodput().arg("check").arg(&path).assert().failure().stderr(predicates::str::contains("takes no images"));
}
