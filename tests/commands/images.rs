//! Prompts with images from files.

use crate::common::{goodput, result, rows, sweep};
use predicates::prelude::*;
use std::path::Path;

/// A vision model that reads images of 120 × 80 pixels: 15 tokens each.
fn photos(images: &str, more: &str) -> String {
    format!(
        "name = \"photos\"\nslo.ttft.p99 = \"2s\"\n[server]\nwarmup-requests = 2\n\
         simulated = {{ preset = \"a40-qwen3-0.6b\", vision = {{ token-time = \"20us\" }} }}\n[workload]\n{more}\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 50 }}\noutput-tokens = {{ fixed = 4 }}\nimages = {{ {images} }}\n\
         [step]\nsettle = \"1s\"\nmeasure = \"20s\"\n[search]\nrates = [5]\n"
    )
}

/// Copies the fixtures into a folder.
fn copy(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    for name in ["photo.jpg", "map.png"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images").join(name);
        std::fs::copy(from, folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("notes.txt"), "no image").unwrap();
}

#[test]
fn images_from_files_are_sent_in_every_dialect() {
    let dir = tempfile::tempdir().unwrap();
    copy(&dir.path().join("photos"));
    for api in ["chat", "responses", "messages"] {
        let plan = photos("count = { uniform = { min = 1, max = 2 } }, file = \"../photos\"", "")
            .replace("[server]", &format!("[server]\napi = \"{api}\""));
        let own = dir.path().join(api);
        std::fs::create_dir(&own).unwrap();
        let (run, out) = sweep(&own, &plan, &["--virtual-time"]);
        let step = &result(&run)["steps"][0];
        assert!(step["completed"].as_u64().unwrap() > 50 && step["failed"] == 0, "{api}: {step}");
        let [images, requests] = ["items_per_s", "achieved_rate"].map(|key| step[key].as_f64().unwrap());
        assert!((1.3..1.7).contains(&(images / requests)), "{api}: {step}");
        // The text, and one or two images of 15 tokens.
        let tokens = step["input_tokens_mean"].as_f64().unwrap();
        assert!((tokens - 50.0 - 15.0 * images / requests).abs() < 3.0, "{api}: {step}");
        let report = std::fs::read_to_string(run.join("report.md")).unwrap();
        for part in ["1–2 of 2 images from files, 120 × 80 pixels", "images/s"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(out.contains("1–2 of 2 images from files"), "{out}");
        assert!(rows(&run.join("requests.csv")).iter().all(|row| ["1", "2"].contains(&&*row["items"])));
        let saved = std::fs::read_to_string(run.join("plan.toml")).unwrap();
        let absolute = dir.path().join("photos").canonicalize().unwrap();
        let saved: toml::Table = toml::from_str(&saved).unwrap();
        let file = saved["workload"]["prompts"]["synthetic"]["images"]["files"][0].as_str().unwrap();
        assert_eq!(Path::new(file).canonicalize().unwrap(), absolute);
    }
}

/// A prefix cache holds an image if it was sent before: the file is the beginning of the prompt, since there is no shared text.
#[test]
fn only_a_warm_cache_has_seen_an_image() {
    let dir = tempfile::tempdir().unwrap();
    copy(&dir.path().join("photos"));
    // 10 images of 15 tokens are more than a block.
    let plan = photos("count = { fixed = 10 }, files = [\"photos/photo.jpg\"]", "cache = \"pair\"")
        .replace("\"a40-qwen3-0.6b\",", "\"a40-qwen3-0.6b\", prefix-cache = true,");
    let run = sweep(dir.path(), &plan, &["--virtual-time"]).0;
    let sent = rows(&run.join("requests.csv"));
    let cached = |series: &str| {
        let own = sent.iter().filter(|row| row["series"] == series && row["phase"] == "measure");
        let tokens: Vec<f64> = own.map(|row| row["cached_tokens"].parse().unwrap_or(0.0)).collect();
        tokens.iter().sum::<f64>() / tokens.len() as f64
    };
    let (cold, warm) = (cached("cold"), cached("warm"));
    assert!(cold < 16.0 && warm > 128.0, "{cold} and {warm} of 150 tokens of images");
}

/// The encoder takes about 75 ms for an image, which is in the first turn or in each of three.
#[test]
fn a_conversation_keeps_its_images_in_the_prefix_cache() {
    let dir = tempfile::tempdir().unwrap();
    copy(&dir.path().join("photos"));
    for (api, turns) in [("chat", "first"), ("chat", "every"), ("responses", "every"), ("messages", "every")]
    {
        let talk = "conversation = { turns = { fixed = 3 }, input-tokens = { fixed = 20 } }";
        let plan = photos(&format!("file = \"../photos\", turns = \"{turns}\""), talk)
            .replace("[server]", &format!("[server]\napi = \"{api}\""))
            .replace("20us", "5ms")
            .replace("measure = \"20s\"", "measure = \"90s\"")
            // Seldom two at once.
            .replace("rates = [5]", "rates = [0.2]");
        let own = dir.path().join(format!("{api}-{turns}"));
        std::fs::create_dir(&own).unwrap();
        let run = sweep(&own, &plan, &["--virtual-time"]).0;
        let step = &result(&run)["steps"][0];
        assert!(step["completed"].as_u64().unwrap() > 15 && step["failed"] == 0, "{api}: {step}");
        for row in rows(&run.join("requests.csv")).iter().filter(|row| row["phase"] == "measure") {
            let number = |column: &str| row[column].parse::<f64>().unwrap();
            let turn = number("turn");
            let images = if turns == "every" { turn } else { 1.0 };
            assert!((number("items") - images).abs() < 1e-9, "{api}: {row:?}");
            let input = 50.0 + 24.0 * (turn - 1.0) + 15.0 * images;
            assert!((number("input_tokens") - input).abs() < 9.0, "{api}: {input} in {row:?}");
            // All of the history but a part of a block, with its images.
            let added = 20.0 + 15.0 + 16.0;
            assert!(turn < 2.0 || number("cached_tokens") > input - added - 9.0, "{api}: {row:?}");
            let ttft = number("first_token_ms") - number("sent_ms");
            let is_new = turn < 2.0 || turns == "every";
            assert!((ttft > 45.0) == is_new && ttft < 140.0, "{api}, {turns}, turn {turn}: {ttft} ms");
        }
    }
}

#[test]
fn files_that_are_no_images_are_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    copy(&dir.path().join("photos"));
    let path = dir.path().join("plan.toml");
    for (images, part) in [
        ("file = \"photos/notes.txt\"", "photos/notes.txt is neither a PNG nor a JPEG file"),
        ("file = \"missing\"", "cannot read"),
        ("file = \"photos\", width = { fixed = 9 }", "exactly one of width and height, file, and files"),
        ("file = \"photos\", turns = \"every\"", "turns = \"every\" is for conversations"),
    ] {
        std::fs::write(&path, photos(images, "")).unwrap();
        goodput().arg("check").arg(&path).assert().failure().stderr(predicate::str::contains(part));
    }
    std::fs::write(&path, photos("width = { fixed = 9 }, height = { fixed = 9 }", "")).unwrap();
    let set =
        format!("workload.prompts.synthetic.images={{ file = \"{}\" }}", dir.path().join("photos").display());
    goodput().arg("check").arg(&path).arg("--set").arg(set).assert().success();
}
