//! Arbitrary input bytes: every reader accepts or refuses them, and none panics, hangs or exhausts the memory.
//!
//! A short version of `cargo fuzz` (fuzz/README.md), with mutated fixtures and random bytes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/parsers.rs"]
#[expect(unreachable_pub, reason = "the fuzz targets have them from a crate of their own")]
mod parsers;

use goodput::caveat::{Caveat, SweepCaveat};
use goodput::{report, rundir};
use parsers::{BETWEEN, TARGETS, run_folder, seeds};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::Path;
#[cfg(unix)]
use std::process::Command;

/// Tokens to insert into inputs, each with a meaning for one of the readers.
const WORDS: [&[u8]; 33] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"=",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"data: ",
    b"null",
    b"NaN",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"\\u0000",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe4\xb8",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\0",
    b"[DONE]",
    b"event: error",
    b"\"type\":\"response.completed\"",
    b"\"type\":\"message_stop\"",
    b"\"delta\":",
    b"+Inf",
    b"9999-12-31 23:59:60",
    BETWEEN,
];

/// A mutation of an input.
#[derive(Debug, Clone)]
enum Change {
    Put(Index, Index),
    Take(Index, u8),
    Flip(Index, u8),
    /// Copies a piece of the input to another place.
    Copy(Index, Index, u8),
    End(Index),
}

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            4 => (any::<Index>(), any::<Index>()).prop_map(|(at, word)| Self::Put(at, word)),
            2 => (any::<Index>(), any::<u8>()).prop_map(|(at, n)| Self::Take(at, n)),
            2 => (any::<Index>(), any::<u8>()).prop_map(|(at, with)| Self::Flip(at, with)),
            2 => (any::<Index>(), any::<Index>(), any::<u8>()).prop_map(|(from, to, n)| Self::Copy(from, to, n)),
            1 => any::<Index>().prop_map(Self::End),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match self {
            Self::Put(at, word) => {
                let at = place(at, bytes);
                bytes.splice(at..at, WORDS[word.index(WORDS.len())].iter().copied());
            }
            Self::Take(at, n) => {
                let at = place(at, bytes);
                bytes.drain(at..bytes.len().min(at + usize::from(*n)));
            }
            Self::Flip(at, with) => {
                let at = place(at, bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= with;
                }
            }
            Self::Copy(from, to, n) => {
                let (from, to) = (place(from, bytes), place(to, bytes));
                let piece = bytes[from..bytes.len().min(from + usize::from(*n))].to_vec();
                bytes.splice(to..to, piece);
            }
            Self::End(at) => bytes.truncate(at.index(bytes.len() + 1)),
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the number of inputs of each kind: `few`, or the value of `GOODPUT_HOSTILE_CASES`.
fn cases(few: u32) -> u32 {
    std::env::var("GOODPUT_HOSTILE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}

/// Feeds one target with mutated seeds and with random bytes.
fn feed(name: &str, few: u32) {
    let (_, target) = TARGETS.into_iter().find(|(n, _)| *n == name).unwrap();
    let seeds = seeds(name, root());
    let taken = seeds.iter().filter(|seed| target(seed)).count();
    assert!(taken * 3 > seeds.len(), "{name}: of {} seeds {taken} are taken", seeds.len());
    let changed =
        (any::<Index>(), prop::collection::vec(Change::any(), 1..8)).prop_map(|(which, changes)| {
            let mut bytes = seeds[which.index(seeds.len())].clone();
            changes.iter().for_each(|change| change.apply(&mut bytes));
            bytes
        });
    let nothing = prop::collection::vec(any::<u8>(), 0..200);
    let config = Config { cases: cases(few), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let fed = runner.run(&prop_oneof![6 => changed, 1 => nothing], |bytes| {
        target(&bytes);
        Ok(())
    });
    if let Err(e) = fed {
        panic!("{name}: {e}");
    }
}

#[test]
fn plans() {
    feed("plan", 1_500);
}

#[test]
fn streams() {
    feed("sse", 1_500);
}

#[test]
fn templates() {
    feed("template", 1_500);
}

#[test]
fn pages_of_metrics() {
    feed("metrics", 1_000);
}

#[test]
fn traces() {
    feed("trace", 1_500);
}

#[test]
fn data_sets() {
    feed("data", 1_500);
}

#[test]
fn results_of_other_tools() {
    feed("import", 300);
}

#[test]
fn run_folders() {
    feed("run", 150);
}

/// Makes a temporary run folder.
fn run_of_others() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in run_folder() {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Returns the table with the wanted columns set to `cell` in every row.
fn with(table: &[Vec<String>], wanted: impl Fn(usize) -> bool, cell: &str) -> Vec<u8> {
    let mut to = csv::Writer::from_writer(Vec::new());
    for (i, row) in table.iter().enumerate() {
        let cells =
            row.iter().enumerate().map(|(at, own)| if i > 0 && wanted(at) { cell } else { own.as_str() });
        to.write_record(cells).unwrap();
    }
    to.into_inner().unwrap()
}

/// Columns with texts, or with the number of the step.
const TEXTS: [&str; 9] =
    ["series", "step", "started_at", "abort", "binding", "reason", "tier", "class", "limit"];

/// Puts impossible numbers into every column of a step and of its limits: each is refused by name, or can be shown. All
/// that are accepted are drawn together.
#[test]
fn numbers_that_nothing_measured() {
    for file in ["steps.csv", "limits.csv"] {
        let dir = run_of_others();
        let path = dir.path().join(file);
        let sound = fs::read(&path).unwrap();
        let table: Vec<Vec<String>> = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(&*sound)
            .records()
            .map(|row| row.unwrap().iter().map(str::to_owned).collect())
            .collect();
        for cell in ["inf", "-inf", "nan", "1e308", "-1", "0", "1e29"] {
            let odd = matches!(cell, "inf" | "-inf" | "nan" | "1e308");
            let mut taken = Vec::new();
            for (at, name) in
                table[0].iter().map(String::as_str).enumerate().filter(|(_, n)| !TEXTS.contains(n))
            {
                fs::write(&path, with(&table, |i| i == at, cell)).unwrap();
                match rundir::read_with_scale(dir.path()) {
                    Ok(_) => taken.push(at),
                    Err(e) => {
                        let e = format!("{e:#}");
                        let refused = ["line 2", file, name].iter().all(|n| e.contains(n));
                        assert!(refused || !odd, "{name} = {cell}: {e}");
                    }
                }
            }
            assert!(!odd || taken.is_empty(), "{file} with {cell}: columns {taken:?}");
            if matches!(cell, "-1" | "1e29") {
                fs::write(&path, with(&table, |i| i > 1 && taken.contains(&i), cell)).unwrap();
                if let Ok(run) = rundir::read_with_scale(dir.path()) {
                    report::write_all(&run, dir.path(), report::ChartFiles::Drawn).unwrap();
                }
            }
        }
    }
}

/// A run folder from elsewhere may contain links, pipes and devices.
#[cfg(unix)]
#[test]
fn what_is_no_file_of_a_run() {
    use std::os::unix::fs::symlink;
    for name in [
        "plan.toml",
        "result.json",
        "steps.csv",
        "limits.csv",
        "metrics.csv",
        "requests.csv",
        "server-metrics.csv",
    ] {
        for kind in ["pipe", "endless", "folder"] {
            let dir = run_of_others();
            let path = dir.path().join(name);
            let _ = fs::remove_file(&path);
            match kind {
                "pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                "endless" => symlink("/dev/zero", &path).unwrap(),
                _ => fs::create_dir(&path).unwrap(),
            }
            let e = format!("{:#}", rundir::read(dir.path()).unwrap_err());
            assert!(e.contains(name), "{kind} in place of {name}: {e}");
            let left = rundir::RunLock::of_run(dir.path())
                .and_then(|hold| rundir::read_interrupted(&hold, |_, _, _| ()));
            assert!(left.is_err(), "{kind} in place of {name}");
        }
    }
    let (dir, theirs) = (run_of_others(), tempfile::tempdir().unwrap());
    let run = rundir::read(dir.path()).unwrap();
    let victim = theirs.path().join("throughput.png");
    fs::write(&victim, "theirs").unwrap();
    for (link, to) in [("report.tmp", &*victim), ("report.md", &*victim), ("charts", theirs.path())] {
        symlink(to, dir.path().join(link)).unwrap();
    }
    let e = report::write_all(&run, dir.path(), report::ChartFiles::Drawn).unwrap_err().to_string();
    assert!(e.contains("charts is a link"), "{e}");
    fs::remove_file(dir.path().join("charts")).unwrap();
    report::write_all(&run, dir.path(), report::ChartFiles::Drawn).unwrap();
    assert_eq!(
        (fs::read(&victim).unwrap(), fs::read_dir(theirs.path()).unwrap().count()),
        (b"theirs".into(), 1)
    );
}

/// A link in a run folder from elsewhere may lead to something private: no line of that is read or quoted.
#[cfg(unix)]
#[test]
fn no_link_is_followed() {
    use std::os::unix::fs::symlink;
    let theirs = tempfile::tempdir().unwrap();
    let secret = theirs.path().join("secret");
    fs::write(&secret, "hunter2 = hunter2\nhunter2,hunter2\n").unwrap();
    let beside = run_of_others();
    for (name, to) in [
        ("plan.toml", &*secret),
        ("result.json", &secret),
        ("steps.csv", &secret),
        ("limits.csv", &secret),
        ("requests.csv", &secret),
        ("forecast.json", &secret),
        ("sensitivity", beside.path()),
    ] {
        let dir = run_of_others();
        let path = dir.path().join(name);
        let _ = fs::remove_file(&path);
        symlink(to, &path).unwrap();
        let e = format!("{:#}", rundir::read(dir.path()).unwrap_err());
        assert!(e.contains(name) && e.contains("is a link") && !e.contains("hunter2"), "{name}: {e}");
    }
}

/// Files of any size: what no sweep writes is refused before it fills the memory.
#[test]
fn a_run_folder_is_read_within_bounds() {
    let refused = |change: &dyn Fn(&Path), why: &str| {
        let dir = run_of_others();
        change(dir.path());
        let e = format!("{:#}", rundir::read(dir.path()).unwrap_err());
        assert!(e.contains(why), "{why}: {e}");
    };
    let sparse = |name: &'static str, length: u64| {
        move |dir: &Path| {
            fs::File::options().write(true).open(dir.join(name)).unwrap().set_len(length).unwrap()
        }
    };
    refused(&sparse("plan.toml", 3 << 30), "larger than 4 MiB");
    refused(&sparse("result.json", 100 << 20), "larger than 64 MiB");
    refused(&sparse("steps.csv", 3 << 30), "larger than 64 MiB");
    let meta = |dir: &Path| {
        let path = dir.join("result.json");
        let text = fs::read_to_string(&path).unwrap();
        let notes = format!("\"meta\": {{ \"padding\": \"{}\",", "x".repeat(9 << 20));
        fs::write(&path, text.replacen("\"meta\": {", &notes, 1)).unwrap();
    };
    refused(&meta, "larger than 8 MiB");
    let rows = |name: &'static str, n: usize| {
        move |dir: &Path| {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            let (head, rest) = text.split_once('\n').unwrap();
            let row = rest.lines().next().unwrap();
            fs::write(dir.join(name), format!("{head}\n{}", format!("{row}\n").repeat(n))).unwrap();
        }
    };
    refused(&rows("steps.csv", 5_001), "more than 5000 rows");
    refused(&rows("limits.csv", 200_001), "more than 200000 rows");
    // As many as a table shows, and more.
    let dir = run_of_others();
    rows("steps.csv", 1_500)(dir.path());
    let run = rundir::read(dir.path()).unwrap();
    report::write_all(&run, dir.path(), report::ChartFiles::Drawn).unwrap();
    let (page, text) =
        ["report.html", "report.md"].map(|name| fs::read_to_string(dir.path().join(name)).unwrap()).into();
    assert!(text.contains("500 more rows are not shown") && page.contains("500 more rows are not shown"));
    assert!(page.len() < 10 << 20, "{} bytes", page.len());
}

/// Rows that are none, by the million, are one caveat; one row without an end is refused.
#[test]
fn rows_that_are_none() {
    let dir = run_of_others();
    let path = dir.path().join("requests.csv");
    let sound = fs::read(&path).unwrap();
    let commas = sound.iter().take_while(|byte| **byte != b'\n').filter(|byte| **byte == b',').count();
    let steps: String =
        (5_000..9_000).map(|step| format!("main,{step}{}\n", ",".repeat(commas - 1))).collect();
    fs::write(&path, [&sound[..], "x\n".repeat(1 << 20).as_bytes(), steps.as_bytes()].concat()).unwrap();
    let run = rundir::read(dir.path()).unwrap();
    let torn = run.caveats.iter().filter(|c| matches!(c, Caveat::Sweep(SweepCaveat::TornRow { .. }))).count();
    let partial =
        run.caveats.iter().filter(|c| matches!(c, Caveat::Sweep(SweepCaveat::PartialStep { .. }))).count();
    assert_eq!((torn, partial), (1, 100));
    fs::write(&path, [&sound[..], b"\"", "x\n".repeat(5 << 20).as_bytes()].concat()).unwrap();
    let e = format!("{:#}", rundir::read(dir.path()).unwrap_err());
    assert!(e.contains("requests.csv") && e.contains("longer than 4 MiB"), "{e}");
}

/// Inputs that would take forever, or exhaust the memory, if a reader rescanned them for each of their parts.
#[test]
fn inputs_of_a_megabyte() {
    let n = 1 << 20;
    let deep = |open: &str, close: &str| open.repeat(n / 8) + &close.repeat(n / 8);
    let keys: String = (0..n / 16).map(|i| format!("\"k{i}\":{i},")).collect();
    let texts = [
        deep("[", "]"),
        deep("{\"a\":", "}"),
        deep("{\"messages\":[", "]}"),
        format!("a = {}", deep("[", "]")),
        format!("a = {}", deep("{a=", "}")),
        deep("[a]\n", ""),
        "a.".repeat(n / 2),
        "- a:\n".repeat(n / 8),
        (0..1_400).map(|i| format!("{}a:\n", " ".repeat(i))).collect(),
        format!("{{{keys}\"timestamp\":1,\"input_length\":1}}"),
        format!("a{{{}}} 1\n", "b=\"c\",".repeat(n / 8)),
        format!("a{{b=\"{}", "\\\"".repeat(n / 2)),
        "a{b=\"c\"} 1\n".repeat(n / 12),
        "data: x\n".repeat(n / 8),
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".repeat(n / 48),
        format!("data: {{\"choices\":[{}]}}\n\n", "{},".repeat(n / 4)),
        "\r".repeat(n),
        ",".repeat(n),
        "\"".repeat(n),
        "\"\n".repeat(n / 2),
        "x".repeat(n),
        "9".repeat(n),
        "\u{feff}".repeat(n / 4),
    ];
    for (name, target) in TARGETS {
        for text in &texts {
            // In a plan and a page the first byte is one of the text.
            for first in if matches!(name, "plan" | "metrics") { 0..1 } else { 0..9 } {
                // A run folder is read as a whole each time, and a result becomes one.
                if matches!(name, "run" | "import") && !matches!(first, 0..4) {
                    continue;
                }
                let prefix = if matches!(name, "plan" | "metrics") { vec![] } else { vec![first] };
                target(&[&prefix, text.as_bytes()].concat());
            }
        }
    }
}

/// Every fuzz target has seeds that its reader accepts. With `GOODPUT_WRITE_SEEDS=fuzz/corpus`, they are written for
/// `cargo fuzz`.
#[test]
fn seeds_are_there() {
    let corpus = std::env::var_os("GOODPUT_WRITE_SEEDS");
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is a fuzz target");
        let seeds = seeds(name, root());
        assert!(seeds.len() >= 5, "{name}: {}", seeds.len());
        let Some(corpus) = &corpus else { continue };
        let folder = Path::new(corpus).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (i, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{i}")), seed).unwrap();
        }
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
