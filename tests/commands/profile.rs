//! `[profile]`: one step more, under the profiler; what fails is a caveat and takes nothing away.

use crate::common::{goodput, result, sweep};
use predicates::str::contains;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

fn profiled(dir: &Path, profile: &str) -> (PathBuf, String) {
    let text = format!(
        "name = \"p\"\nserver.simulated = {{ preset = \"md1\", service = \"50ms\" }}\nslo.ttft.p99 = \"200ms\"\n\
         [search]\nrates = [2, 5, 15]\n[step]\nsettle = \"5s\"\nmeasure = \"15m\"\n[workload.prompts.synthetic]\n\
         input-tokens = {{ fixed = 20 }}\noutput-tokens = {{ fixed = 1 }}\n{profile}"
    );
    sweep(dir, &text, &["--virtual-time", "--force"])
}

#[test]
fn the_profiled_step_comes_last_and_decides_nothing() {
    let dir = tempdir().unwrap();
    let (out, _) = profiled(dir.path(), "");
    let without = result(&out);
    let note = dir.path().join("note");
    let script = |word: &str| {
        format!(
            "[\"sh\", \"-c\", \"echo {word} $GOODPUT_SERIES $GOODPUT_CONTROL $GOODPUT_LEVEL >> {}\"]",
            note.display()
        )
    };
    let table =
        format!("[profile]\nmeasure = \"20s\"\nbefore = {}\nafter = {}\n", script("on"), script("off"));
    let (out, said) = profiled(dir.path(), &table);
    let with = result(&out);
    let steps = with["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4);
    let last = &steps[3];
    assert_eq!((last["kind"].as_str(), last["measure_s"].as_f64()), (Some("profile"), Some(20.0)), "{last}");
    let level = last["level"].as_f64().unwrap();
    assert_eq!(Some(level), with["goodput"]["safe_rate"].as_f64(), "the safe rate that was found");
    assert_eq!(with["goodput"], without["goodput"], "no answer hangs on it");
    assert_eq!(fs::read_to_string(&note).unwrap(), format!("on main rate {level}\noff main rate {level}\n"));
    assert!(said.contains("profile: under the server's profiler"), "{said}");
    assert!(!with["caveats"].to_string().contains("profiler"), "{}", with["caveats"]);
    // The profile is done, so there is nothing to resume.
    goodput()
        .args(["sweep", "--no-charts"])
        .arg("--resume")
        .arg(&out)
        .assert()
        .stderr(contains("nothing is left to measure"));
}

#[test]
fn a_profiler_that_is_not_there_is_told_and_the_answer_stands() {
    let dir = tempdir().unwrap();
    for (profile, tried) in [
        ("[profile]\n", "POST /start_profile failed: HTTP 404"),
        ("[profile]\nbefore = [\"/nowhere/nsys\", \"start\"]\n", "`/nowhere/nsys start` failed"),
        ("[profile]\nbefore = [\"sh\", \"-c\", \"echo no device >&2; exit 3\"]\n", "no device"),
    ] {
        let (out, said) = profiled(dir.path(), profile);
        let run = result(&out);
        assert!(run["caveats"].to_string().contains(tried), "{tried}: {}", run["caveats"]);
        assert_eq!(run["goodput"]["met"].as_f64(), Some(5.0), "{said}");
        assert_eq!(run["steps"].as_array().unwrap().len(), 4, "the step is measured all the same");
    }
}
