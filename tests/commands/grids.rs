//! Grids of simulated servers, whole and in simulated time: room in the KV cache, goodput and raw peak, one level.

use crate::common::{result, rows, simulate};
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

/// A grid over the preset whose blocks follow from its memory.
fn grid(search: &str, knob: &str, values: &str) -> String {
    format!(
        "name = \"grid\"\nserver.simulated = {{ preset = \"4xa100-llama-70b-util\" }}\nslo.tpot.p99 = \"20ms\"\n\
         workload.prompts.synthetic = {{ input-tokens = {{ fixed = 240 }}, output-tokens = {{ fixed = 200 }} }}\n\
         step = {{ settle = \"20s\", measure = \"2m\", timeout = \"1h\" }}\n[search]\n{search}\n\
         [grid]\nset = {{ \"server.simulated.{knob}\" = \"{{{knob}}}\" }}\nknobs.{knob} = {values}\n"
    )
}

/// A shorter `max-model-len` admits more requests at a time; one that the cache cannot hold is a row with its reason.
#[test]
fn max_model_len_is_a_knob_that_sets_how_many_requests_fit() {
    let dir = tempdir().unwrap();
    let search = "adaptive = { budget = \"3m\" }\nmax-rate = 40\npeak = { concurrency = 160, settle = \"20s\", measure = \"1m\" }";
    let (run, said) = simulate(dir.path(), &grid(search, "max-model-len", "[512, 1024, 2048, 65536]"));
    let found = rows(&run.join("variants.csv"));
    let of = |name: &str| found.iter().map(|r| r[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("kv_blocks"), ["2368", "2368", "2368", ""]);
    assert_eq!(of("sequences_that_fit"), ["73", "36", "18", ""]);
    assert_eq!(of("state"), ["done", "done", "done", "failed"]);
    let number = |r: usize, name: &str| found[r][name].parse::<f64>().ok();
    assert!(number(0, "peak_output_tokens_per_s") > number(1, "peak_output_tokens_per_s"));
    assert!(number(1, "peak_output_tokens_per_s") > number(2, "peak_output_tokens_per_s"));
    assert!(said.contains("max-model-len (65536 tokens) does not fit into the KV cache"), "{said}");
    for (row, cells) in found.iter().enumerate().take(3) {
        let peak =
            [number(row, "peak_requests_per_s").unwrap(), number(row, "peak_output_tokens_per_s").unwrap()];
        assert!(number(row, "goodput").is_none_or(|rate| rate <= peak[0]), "{row}: {}", cells["goodput"]);
        assert!(number(row, "output_tokens_per_s").is_none_or(|tokens| tokens <= peak[1]), "{row}");
        assert!(number(row, "high").is_none_or(|high| high <= 1.1 * peak[0] + 1e-9), "{row}");
    }
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("| KV blocks | requests of full length that fit |"), "{report}");
}

/// Variants at one level have its verdict and latencies in the table: there is no search to tell of.
#[test]
fn variants_at_one_level_show_its_latencies() {
    let dir = tempdir().unwrap();
    let (run, said) = simulate(dir.path(), &grid("rates = [2]", "gpu-memory-utilization", "[0.8, 0.9]"));
    for head in ["measured at", "verdict", "TTFT p50", "TPOT p50"] {
        assert!(said.contains(head), "{head}: {said}");
    }
    let all = result(&run)["variants"].clone();
    for v in all.as_array().unwrap() {
        let at = &v["at"];
        assert_eq!((at["level"]["value"].as_f64(), at["only"].as_bool()), (Some(2.0), Some(true)), "{v}");
        let ms = |name: &str| at[name].as_f64().unwrap();
        assert!(ms("ttft_p50_ms") > 10.0 && ms("ttft_p99_ms") >= ms("ttft_p50_ms"), "{at}");
        assert!(ms("tpot_p50_ms") > 4.0 && ms("tpot_p99_ms") >= ms("tpot_p50_ms"), "{at}");
        assert!(matches!(&at["verdict"], Value::String(_)));
    }
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(
        report.contains("| measured at | verdict | TTFT p50 / p99, ms | TPOT p50 / p99, ms |"),
        "{report}"
    );
}
