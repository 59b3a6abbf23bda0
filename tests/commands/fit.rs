//! `goodput fit`: the published figures, plans, and errors that say what to do.

use crate::common::goodput;
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

fn succeeds(args: &[&str]) -> String {
    let out = goodput().arg("fit").args(args).assert().success();
    String::from_utf8(out.get_output().stdout.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&succeeds(&[args, &["--json"]].concat())).unwrap()
}

fn fails(args: &[&str]) -> String {
    let out = goodput().arg("fit").args(args).assert().code(1);
    String::from_utf8(out.get_output().stderr.clone()).unwrap()
}

const LLAMA: [&str; 6] = ["--model", "llama-3.1-70b", "--gpu", "A100 80GB", "--tensor-parallel", "4"];
const EIGHT: &str = "parameters=8B,precision=fp16,layers=32,kv-heads=8,head-size=128";

#[test]
fn the_published_figures_come_out() {
    let llama = json(&LLAMA);
    assert_eq!(llama["fit"]["blocks"], 28_626, "{}", llama["fit"]);
    let text = succeeds(&LLAMA);
    for want in ["28,626", "81,920 bytes", "35.28 GB", "2 of 8 KV heads", "gpu-memory-utilization 0.9"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    let args = ["--model", EIGHT, "--gpu", "A10", "--input-tokens", "0", "--output-tokens", "0"];
    let alone = &json(&args)["fit"]["alone"]["floor_ms"];
    assert!((alone.as_f64().unwrap() - 26.667).abs() < 0.001, "{alone}");
    let text = succeeds(&args);
    assert!(text.contains("26.67 ms") && text.contains("37.5 tokens/s"), "{text}");
}

#[test]
fn explain_shows_each_formula_with_its_numbers() {
    let text = succeeds(&[&LLAMA[..], &["--explain"]].concat());
    for want in [
        "a token, on each GPU = 2 × layers × KV heads of a GPU × head size × bytes",
        "= 2 × 80 × 2 × 128 × 2",
        "= 84.99 GB × 0.9",
        "1,000 ms / TPOT",
    ] {
        assert!(text.contains(want), "{want}: {text}");
    }
}

#[test]
fn a_configuration_and_its_folder_are_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/models/qwen3-8b");
    let file = format!("{folder}/config.json");
    let [built_in, of_folder, of_file] =
        ["qwen3-8b", folder, file.as_str()].map(|model| json(&["--model", model, "--gpu", "L40S"]));
    assert_eq!(built_in["fit"], of_folder["fit"]);
    assert_eq!(
        (&of_folder["fit"], &of_folder["setup"]["model"]["name"]),
        (&of_file["fit"], &"qwen3-8b".into())
    );
    let half = json(&["--model", folder, "--gpu", "L40S", "--precision", "fp8", "--kv-cache-dtype", "fp8"]);
    for key in ["weights", "token_bytes"] {
        let [half, whole] = [&half, &of_file].map(|of| of["fit"][key].as_f64().unwrap());
        assert!((2.0 * half / whole - 1.0).abs() < 1e-9, "{key}: {half} and {whole}");
    }
}

/// The plan gives model, hardware, lengths and the flags of the server that it simulates; options take precedence.
#[test]
fn a_plan_gives_what_options_leave_open() {
    let dir = tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    let text = "name = \"fit\"\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n\
                server.simulated = { preset = \"4xa100-llama-70b-util\", gpu-memory-utilization = 0.85 }\n\
                workload.prompts.synthetic = { input-tokens.fixed = 240, output-tokens.fixed = 684 }\n\
                hardware = { gpu = \"A100 80GB\", gpus = 8, tensor-parallel = 4 }\n\
                [model]\nparameters = \"70B\"\nprecision = \"bf16\"\nlayers = 80\nkv-heads = 8\nhead-size = 128\n";
    fs::write(&plan, text).unwrap();
    let plan = plan.to_str().unwrap();
    let setup = &json(&[plan])["setup"];
    let of = |key: &str| setup[key].as_f64().unwrap();
    for (key, want) in [
        ("utilization", 0.85),
        ("max_model_len", 1024.0),
        ("input_tokens", 240.0),
        ("output_tokens", 684.0),
        ("copies", 2.0),
    ] {
        assert!((of(key) - want).abs() < 1e-9, "{key}: {setup}");
    }
    let other = &json(&[plan, "--gpu", "H200", "--tensor-parallel", "2", "--gpu-memory-utilization", "0.92"])
        ["setup"];
    assert_eq!((&other["copies"], &other["utilization"]), (&1.into(), &0.92.into()));
    assert_eq!(other["machine"]["tensor_parallel"], 2);
    let lacking = fails(&["demo"]);
    assert!(lacking.contains("the plan has no [model]") && lacking.contains("--model"), "{lacking}");
}

#[test]
fn what_cannot_be_served_says_what_could() {
    for (args, says) in [
        (
            &["--model", "llama-9", "--gpu", "H100"][..],
            &["built-in models: llama-3.2-1b", "gpt-oss-120b", "config.json"][..],
        ),
        (&["--model", "qwen3-8b", "--gpu", "T4"], &["\"T4\" is not known", "A10, A40, L4"]),
        (
            &["--model", "llama-3.1-70b", "--gpu", "H100"],
            &["does not fit", "--tensor-parallel 2 (2 × H100)", "--precision fp8"],
        ),
        (
            &["--model", "llama-3.1-70b", "--gpu", "H100", "--tensor-parallel", "3"],
            &["neither divides the 8 KV heads", "1, 2, 4, 8"],
        ),
        (
            &["--model", "qwen3-8b", "--gpu", "H100", "--gpus", "4", "--tensor-parallel", "3"],
            &["does not divide gpus (4)"],
        ),
        (&["--model", "parameters=8B", "--gpu", "L4"], &["add layers, kv-heads and head-size"]),
        (&["--model", "parameters=8B,depth=3", "--gpu", "L4"], &["unknown key `depth`"]),
        (&["--model", "missing.json", "--gpu", "L4"], &["cannot read missing.json"]),
        (&["--model", "qwen3-8b", "--gpu", "L4", "--precision", "half"], &["unknown variant `half`"]),
        (
            &["--model", "qwen3-8b", "--gpu", "L4", "--gpu-memory-utilization", "90"],
            &["a share from 0.01 to 1"],
        ),
        (&["--gpu", "L4"], &["--model"]),
    ] {
        let error = fails(args);
        assert!(says.iter().all(|part| error.contains(part)), "{args:?}: {error}");
    }
}

/// More GPUs than KV heads: each head is kept twice, and a sequence that the cache cannot hold is a caveat.
#[test]
fn copies_of_heads_and_too_long_sequences_are_said() {
    let text =
        succeeds(&["--model", "qwen3-30b-a3b", "--gpu", "A10", "--tensor-parallel", "8", "--gpus", "8"]);
    assert!(
        text.contains("1 of 4 KV heads, each on 2 GPUs") && text.contains("more GPUs than KV heads"),
        "{text}"
    );
    let text = succeeds(&["--model", "llama-3.1-8b", "--gpu", "A10"]);
    assert!(text.contains("vLLM refuses to start") && text.contains("set --max-model-len to"), "{text}");
}
