//! Run folders that an earlier version wrote (2026-11-23, before answers and caveats were typed facts) still read, and make reports.

use assert_cmd::Command;
use goodput::rundir;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a run folder of the fixtures, so that reports can be written into it.
fn copy(name: &str, to: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/runs").join(name);
    let dir = to.join(name);
    fs::create_dir(&dir).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    dir
}

/// Cases: folder; goodput of each answer; sentences of the report that come from what was written then.
#[test]
fn a_run_of_an_earlier_version_still_reads_and_reports() {
    let to = tempfile::tempdir().unwrap();
    for (name, answers, says) in CASES {
        let dir = copy(name, to.path());
        let run = rundir::read(&dir).unwrap();
        assert!(run.meta.server.is_simulated(), "{name}: {}", run.meta.server);
        let got: Vec<(&str, &str, Option<String>)> = run
            .answers
            .iter()
            .map(|a| (a.series.as_str(), a.tier.as_str(), a.goodput.rate().map(|r| format!("{r:.2}"))))
            .collect();
        let want: Vec<_> = answers.iter().map(|(s, t, r)| (*s, *t, r.map(str::to_owned))).collect();
        assert_eq!(got, want, "{name}");
        Command::cargo_bin("goodput").unwrap().arg("report").arg(&dir).assert().success();
        let report = fs::read_to_string(dir.join("report.md")).unwrap();
        for part in says {
            assert!(report.contains(part), "{name}: no {part:?} in its report");
        }
        assert!(fs::metadata(dir.join("report.html")).unwrap().len() > 100_000, "{name}");
    }
}

/// Series, tier and goodput of each answer, and parts of the report.
type Case =
    (&'static str, &'static [(&'static str, &'static str, Option<&'static str>)], &'static [&'static str]);

const CASES: [Case; 2] = [
    (
        "tiers",
        &[("main", "interactive", Some("5.32")), ("main", "batch", None)],
        &["19.9 req/s fails", "ended because the budget of 4m is spent", "Time was simulated", "Batching"],
    ),
    (
        "seats",
        &[("seats=4", "main", None), ("seats=16", "main", Some("4.00"))],
        &["a fit to 3 steps under load", "| ● accepted | seats=16 | seats = 16 |", "Time was simulated"],
    ),
];
