//! `goodput trace` as a user meets it.

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces").join(name)
}

fn trace(name: &str) -> Command {
    let mut command = Command::cargo_bin("goodput").unwrap();
    command.arg("trace").arg(fixture(name));
    command
}

/// Row: fixture, further arguments, and what the description says.
#[test]
fn every_format_is_described() {
    let csv = "--unit ms --column timestamp=when --column input-tokens=prompt_len --column output-tokens=gen_len --column failed=err";
    let jsonl = "--format jsonl --column timestamp=ts --column input-tokens=prompt_tokens --column output-tokens=output_tokens";
    for (name, args, says) in [
        ("mooncake.jsonl", "", "36 requests of mooncake.jsonl (mooncake), 27 s, prefix blocks of 512 tokens"),
        ("aiperf.jsonl", "", "8 requests do not tell the length of their answer"),
        ("azure-2023.csv", "", "30 requests of azure-2023.csv (azure)"),
        ("azure-2024.csv", "", "the generator's choice"),
        ("azure-2025.csv.gz", "", "30 requests of azure-2025.csv.gz (azure)"),
        ("burstgpt-1.csv", "", "3 requests failed where they were recorded"),
        ("burstgpt-3.csv", "", "2 requests failed where they were recorded"),
        ("vllm.jsonl.zst", "", "prefix blocks of 16 tokens"),
        ("weka.jsonl", "", "4 conversations"),
        ("copilot.jsonl.gz", "", "stood behind later ones"),
        ("generic.csv", csv, "23 requests of generic.csv (csv)"),
        ("generic.jsonl", jsonl, "25 requests of generic.jsonl (jsonl)"),
        ("requests.jsonl", "", "Lengths of 12 requests are estimated"),
        ("mooncake.jsonl", "--window 6s..15s", "The file holds 36 requests in all"),
    ] {
        let described = contains(says).and(contains("p99")).and(contains("Burstiness"));
        trace(name).args(args.split_whitespace()).assert().success().stdout(described);
    }
}

#[test]
fn the_description_is_json_as_well_and_a_chart() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("charts");
    let done = trace("mooncake.jsonl").arg("--json").arg("--out").arg(&out).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert_eq!(json["summary"]["rows"], 36);
    assert_eq!(json["summary"]["grid_s"], 3.0);
    assert_eq!(json["summary"]["prefix"]["block_tokens"], 512);
    assert!(json["notes"].to_string().contains("multiples of 3 s"), "{}", json["notes"]);
    assert!(fs::metadata(out.join("trace.png")).unwrap().len() > 10_000);
    assert!(fs::read_to_string(out.join("trace.svg")).unwrap().contains("aria-label=\"Prompts\""));
}

/// Row: text of a file, arguments, and what the error says.
#[test]
fn errors_say_where_and_what_to_do() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    let good = "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}\n";
    for (text, args, says) in [
        (
            format!("{good}{{\"timestamp\":1,\"input_length\":\"long\"}}\n"),
            "",
            "t.jsonl, line 2, input_length: \"long\"",
        ),
        (good.into(), "--window 40m..10m", "not before"),
        (good.into(), "--window 40m..", "the window contains no requests"),
        (good.into(), "--column prompt=x", "prompt is not a column"),
        (good.into(), "--column prompt", "write KEY=NAME"),
        (good.into(), "--format azure", "is a JSON object, but azure is CSV with a header"),
        (good.into(), "--format parquet", "is not a trace format; the formats are mooncake, azure"),
        (good.into(), "--format mooncake --column timestamp=x", "those of mooncake are fixed"),
        (good.into(), "--unit minutes", "a unit must be s, ms, us or ns"),
        (good.into(), "--prefix-blocks 16", "--anonymise"),
        (good.into(), "--anonymise /nowhere/x --prefix-blocks 16", "has no prefix blocks"),
        (good.into(), "--anonymise /nowhere/x", "failed to write /nowhere/x"),
        ("{\"a\":1}".into(), "", "is not recognised from the first row (a)"),
    ] {
        fs::write(&path, text).unwrap();
        let mut command = Command::cargo_bin("goodput").unwrap();
        let done = command.arg("trace").arg(&path).args(args.split_whitespace()).assert();
        done.code(predicates::ord::ne(0)).stderr(contains(says));
    }
    fs::write(&path, format!("{good}oops\n{good}")).unwrap();
    let mut command = Command::cargo_bin("goodput").unwrap();
    let told =
        contains("1 row could not be read and are left out").and(contains("line 2: is not a valid JSON"));
    command.arg("trace").arg(&path).arg("--skip-bad-rows").assert().success().stdout(told);
}

#[test]
fn logs_lose_their_text_and_keep_their_prefixes() {
    let dir = tempdir().unwrap();
    let (once, again, gz) =
        (dir.path().join("a.jsonl"), dir.path().join("b.jsonl"), dir.path().join("c.jsonl.gz"));
    for out in [&once, &again, &gz] {
        let args = ["--prefix-blocks", "16", "--anonymise"];
        trace("requests.jsonl").args(args).arg(out).assert().success().stderr(contains("prefix blocks only"));
    }
    let text = fs::read_to_string(&once).unwrap();
    for word in ["garden", "tulip", "customer", "shop-8b", "17650"] {
        assert!(!text.contains(word), "{word}");
    }
    assert_ne!(text, fs::read_to_string(&again).unwrap(), "each file has a salt of its own");
    for out in [&once, &gz] {
        let mut command = Command::cargo_bin("goodput").unwrap();
        let says =
            contains("(jsonl)").and(contains("prefix blocks of 16 tokens")).and(contains("would hold 80"));
        command.arg("trace").arg(out).assert().success().stdout(says);
    }
    let salted = |out: &Path| {
        let args = ["--prefix-blocks", "16", "--salt", "one of ours", "--anonymise"];
        trace("requests.jsonl").args(args).arg(out).assert().success();
        fs::read_to_string(out).unwrap()
    };
    assert_eq!(salted(&once), salted(&again), "one salt, the same ids");
}
