//! Tests with damaged files in every tool's format, and their error messages.

use super::file::Text;
use super::*;
use goodput_core::level::Level;
use proptest::prelude::*;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The text of a fixture.
fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/peers").join(name);
    let mut text = String::new();
    goodput_workload::open_packed(&path).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn options(path: &Path) -> Options {
    Options { files: vec![path.to_owned()], ..Options::default() }
}

/// Makes a folder of AIPerf or inference-perf with one file replaced.
fn folder(of: &str, replaced: &str, text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/peers").join(of);
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let packed = dir.path().join(format!("{replaced}.gz"));
    if packed.exists() {
        fs::remove_file(packed).unwrap();
    }
    fs::write(dir.path().join(replaced), text).unwrap();
    dir
}

/// Returns the error for a vLLM file with one text replaced.
fn said(from: &str, to: &str) -> String {
    let text = fixture("vllm/rate-2.5.json");
    assert!(text.contains(from), "{from}");
    let changed = text.replacen(from, to, 1);
    format!("{:#}", vllm::read(&Text::new("a.json", &changed)).map(|_| ()).unwrap_err())
}

#[test]
fn what_a_result_lacks_is_named_with_what_to_do() {
    for (from, to, says) in [
        ("\"ttfts\":", "\"no\":", "--save-detailed"),
        ("\"start_times\":", "\"no\":", "measure again with a vLLM that writes it"),
        ("\"output_lens\": [32, ", "\"output_lens\": [", "has 49 entries where ttfts has 50"),
        ("\"request_rate\": 2.5", "\"request_rate\": \"x\"", "is no rate"),
        ("\"date\":", "\"ramp_up_strategy\": \"linear\", \"date\":", "--ramp-up-strategy linear"),
        ("\"duration\":", "\"no\":", "missing field `duration`"),
        ("\"duration\": ", "\"duration\": 1e30, \"no\": ", "no length of time"),
    ] {
        let e = said(from, to);
        assert!(e.contains(says), "{to}: {e}");
    }
}

/// An HTTP error with an empty reason has no text in vLLM's `errors`, and zeros elsewhere.
#[test]
fn a_request_without_an_answer_is_none_that_was_quick() {
    let outcomes = |text: &str| {
        let mut found = vllm::read(&Text::new("a.json", text)).unwrap();
        let mut failed = Vec::new();
        found
            .steps
            .swap_remove(0)
            .requests
            .each(|r| {
                failed.push(r.finished.sample.map(|s| s.to_string()));
                Ok(())
            })
            .unwrap();
        (failed, found.missing.iter().find(|m| m.starts_with("which requests failed")).cloned())
    };
    let mut refused: serde_json::Value = serde_json::from_str(&fixture("vllm-failed/refused.json")).unwrap();
    for entry in refused["errors"].as_array_mut().unwrap() {
        *entry = "".into();
    }
    let (failed, missing) = outcomes(&refused.to_string());
    assert!(failed.iter().all(|s| s.as_deref() == Some("no answer, and no reason told")), "{failed:?}");
    assert_eq!((failed.len(), missing), (10, None));
    let text = fixture("vllm/rate-2.5.json");
    let (failed, missing) = outcomes(&text);
    assert!(failed.iter().all(Option::is_none) && missing.is_none(), "{missing:?}");
    let (_, missing) = outcomes(&text.replacen("\"completed\": 50", "\"completed\": 49", 1));
    assert!(missing.is_some_and(|m| m.contains("50 of its requests") && m.contains("reports 49 completed")));
}

#[test]
fn a_folder_is_searched_for_what_is_a_result() {
    // Other files of a run, without its requests.
    for (of, file, says) in [
        ("aiperf", "profile_export_aiperf.json", "--export-level records"),
        ("inference-perf", "stage_0_lifecycle_metrics.json", "report.request_lifecycle.per_request: true"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(file), fixture(&format!("{of}/{file}"))).unwrap();
        for from in [None, Some(if of == "aiperf" { Tool::Aiperf } else { Tool::InferencePerf })] {
            let e = format!("{:#}", results(&Options { from, ..options(dir.path()) }).unwrap_err());
            assert!(e.contains("has no single requests") && e.contains(says) && e.contains(file), "{e}");
        }
    }
    // AIPerf's summary over several runs has no requests, nor does any file next to it.
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run_1");
    fs::create_dir(&run).unwrap();
    for file in ["profile_export.jsonl", "profile_export_aiperf.json"] {
        let packed = if file.ends_with('l') { ".gz" } else { "" };
        fs::write(run.join(file), fixture(&format!("aiperf/{file}{packed}"))).unwrap();
    }
    fs::write(dir.path().join("aggregate.json"), "{\"aiperf_version\": \"0.13\"}").unwrap();
    assert_eq!(results(&options(dir.path())).unwrap().steps.len(), 1);
    // Folders contain other files as well, so files must be recognised by content.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.json"), fixture("vllm/rate-2.5.json")).unwrap();
    fs::write(dir.path().join("notes.json"), "{\"mine\": 1}").unwrap();
    let from = Some(Tool::Vllm);
    assert_eq!(results(&Options { from, ..options(dir.path()) }).unwrap().steps.len(), 1);
}

/// Twenty links to the folder itself, five levels deep, would be three million folders; opening a pipe would block.
#[cfg(unix)]
#[test]
fn a_folder_that_holds_itself_is_searched_once() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..20 {
        std::os::unix::fs::symlink(dir.path(), dir.path().join(format!("again-{i}"))).unwrap();
    }
    let pipe = dir.path().join("a.json");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let e = find::sources(&[dir.path().to_owned()], None).unwrap_err().to_string();
    assert!(e.contains("holds no result that is known"), "{e}");
    fs::write(dir.path().join("b.json"), fixture("vllm/rate-2.5.json")).unwrap();
    assert_eq!(find::sources(&[dir.path().to_owned()], None).unwrap().len(), 1);
}

#[test]
fn a_load_that_is_none_is_named() {
    let text = fixture("vllm/rate-2.5.json");
    let dir = tempfile::tempdir().unwrap();
    for (rate, concurrency, says) in [
        ("\"inf\"", "0", "max_concurrency is 0"),
        ("0", "null", "request_rate is 0"),
        ("-3", "null", "request_rate is -3"),
        ("1e308", "null", "request_rate is 1"),
    ] {
        let changed = text
            .replacen("\"request_rate\": 2.5", &format!("\"request_rate\": {rate}"), 1)
            .replacen("\"max_concurrency\":", &format!("\"max_concurrency\": {concurrency}, \"no\":"), 1);
        let path = dir.path().join("a.json");
        fs::write(&path, changed).unwrap();
        let e = format!("{:#}", results(&options(&path)).unwrap_err());
        assert!(e.contains(says) && e.contains("a.json"), "{e}");
    }
}

#[test]
fn a_file_that_is_named_twice_is_imported_once() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a.json", "b.json"].map(|name| dir.path().join(name));
    let text = fixture("vllm/rate-2.5.json");
    fs::write(&a, &text).unwrap();
    fs::write(&b, text.replacen("\"request_rate\": 2.5", "\"request_rate\": 5", 1)).unwrap();
    let files = vec![a.clone(), b, a, dir.path().join(".").join("a.json"), dir.path().to_owned()];
    assert_eq!(results(&Options { files, ..Options::default() }).unwrap().steps.len(), 2);
}

#[test]
fn files_that_are_nobodys_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("{\"a\": 1}", "is no result that is known: expected was the JSON of vLLM"),
        ("not json", "cannot be read"),
        ("[]", "is no result"),
        ("{\"benchmarks\": []}", "it has no benchmark"),
        ("{\"benchmarks\": [{}]}", "cannot be read as a report of GuideLLM 0.8"),
        ("{\"individual_request_metrics\": []}", "genai-bench keeps the latencies"),
        ("{\"request_throughput\": 1, \"num_prompts\": 1, \"duration\": 1}", "--save-detailed"),
    ] {
        let path = dir.path().join("x.json");
        fs::write(&path, text).unwrap();
        let e = format!("{:#}", results(&options(&path)).unwrap_err());
        assert!(e.contains(says) && e.contains("x.json"), "{text}: {e}");
    }
    let e = format!("{:#}", results(&options(&dir.path().join("none.json"))).unwrap_err());
    assert!(e.contains("there is no"), "{e}");
    let dir = tempfile::tempdir().unwrap();
    let e = format!("{:#}", results(&options(dir.path())).unwrap_err());
    assert!(e.contains("holds no result"), "{e}");
}

#[test]
fn parts_that_are_missing_are_named() {
    for (of, file, text, says) in [
        ("aiperf", "profile_export_aiperf.json", "{}", "cannot be read as AIPerf"),
        ("aiperf", "profile_export.jsonl", "{\"x\": 1}\n", "line 1 is no record of AIPerf"),
        ("aiperf", "profile_export.jsonl", "\n", "no request of the profiled phase"),
        (
            "inference-perf",
            "stage_0_lifecycle_metrics.json",
            "{\"load_summary\": {\"count\": 9}}",
            "of no stage",
        ),
        (
            "inference-perf",
            "stage_0_lifecycle_metrics.json",
            "{\"load_summary\": {\"count\": 999}}",
            "not of one run",
        ),
        ("inference-perf", "stage_0_lifecycle_metrics.json", "{}", "no load_summary.count"),
        ("inference-perf", "per_request_lifecycle_metrics.json", "[]", "has no request"),
    ] {
        let dir = folder(of, file, text);
        let e = format!("{:#}", results(&options(dir.path())).unwrap_err());
        assert!(e.contains(says), "{of} {file} {text}: {e}");
    }
    let dir = folder("aiperf", "other", "");
    fs::remove_file(dir.path().join("profile_export_aiperf.json")).unwrap();
    let e = format!("{:#}", results(&options(dir.path())).unwrap_err());
    assert!(e.contains("tells the rate or the concurrency"), "{e}");
}

#[test]
fn secrets_of_a_url_are_not_kept() {
    for (url, shown) in [
        ("http://user:pw@host:8000/v1/chat/completions?key=1", "http://host:8000"),
        ("https://host/v1/", "https://host/v1"),
        ("tiny-llama", "tiny-llama"),
        ("user:pw@host", "not shown"),
    ] {
        assert_eq!(plan::shown(url), shown);
    }
}

#[test]
fn rates_are_taken_before_numbers_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let text = fixture("vllm/rate-2.5.json");
    fs::write(dir.path().join("a.json"), &text).unwrap();
    let closed = text.replacen("\"request_rate\": 2.5", "\"request_rate\": \"inf\"", 1);
    fs::write(
        dir.path().join("b.json"),
        closed.replacen("\"max_concurrency\": null", "\"max_concurrency\": 4", 1),
    )
    .unwrap();
    let mut options = options(dir.path());
    let rates = results(&options).unwrap();
    assert_eq!(rates.steps.len(), 1);
    assert_eq!((rates.steps[0].level.per_s(), rates.left_out.len()), (Some(2.5), 1));
    assert!(rates.left_out[0].contains("--control concurrency"), "{:?}", rates.left_out);
    options.control = Some(Control::Concurrency);
    assert_eq!(results(&options).unwrap().steps[0].level, Level::concurrency(4));
    options.sets = vec!["search.rates=[1]".into()];
    let e = format!("{:#}", import(&options, &dir.path().join("run")).unwrap_err());
    assert!(e.contains("cannot be changed any more"), "{e}");
    assert!(!dir.path().join("run").exists(), "nothing is written");
}

/// Returns a text with parts removed, doubled or replaced.
fn mutated(text: &str, changes: &[(usize, usize, u8)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (at, n, what) in changes {
        let at = at % bytes.len().max(1);
        let end = (at + n).min(bytes.len());
        match what % 5 {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..end, *b"null").for_each(drop),
            3 => bytes.splice(at..end, *b"-1e9").for_each(drop),
            _ => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice).for_each(drop);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn changes() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((0_usize..60_000, 0_usize..24, any::<u8>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A damaged file gives an error or a result, never a crash; a result can be written and read back.
    #[test]
    fn no_damage_is_a_crash(changes in changes()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(&path, mutated(&fixture("vllm/rate-2.5.json"), &changes)).unwrap();
        let options = Options { from: Some(Tool::Vllm), ..options(&path) };
        let out = dir.path().join("run");
        if import(&options, &out).is_ok() {
            crate::rundir::read(&out).unwrap();
        }
        let _ = results(&super::tests::options(&path));
    }

    #[test]
    fn no_damage_to_a_report_of_guidellm_is_a_crash(changes in changes()) {
        let text = fixture("guidellm/goodput.json.gz");
        let _ = guidellm::read(&Text::new("g.json", &mutated(&text, &changes)));
    }

    #[test]
    fn no_damage_to_a_folder_is_a_crash(changes in changes()) {
        for (of, file) in [
            ("aiperf", "profile_export.jsonl"),
            ("inference-perf", "per_request_lifecycle_metrics.json"),
        ] {
            let dir = folder(of, file, &mutated(&fixture(&format!("{of}/{file}.gz")), &changes));
            for step in results(&options(dir.path())).map_or(Vec::new(), |f| f.steps) {
                let _ = step.requests.each(|_| Ok(()));
            }
        }
    }
}
