//! Imports go one way: a module may use only what stands before it here, or beside it where it is its own part.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Modules by layer, lowest first. Modules of one layer do not know one another.
const LAYERS: &[&[&str]] = &[
    &["units"],
    &["level", "message", "check", "tokens", "distribution", "key", "roofline", "redact"],
    &["caveat"],
    &["record"],
    &["slo"],
    &["workload", "client", "server", "sim"],
    &["load", "stats", "launch"],
    &["search", "capacity", "calibrate"],
    &["diagnosis"],
    &["plan"],
    &["rundir"],
    &["sweep", "compare", "import", "peers"],
    &["report"],
    &["cli"],
    &["cmd"],
];

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&module))
        .unwrap_or_else(|| panic!("module {module} stands in no layer: add it to the list"))
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The modules that a source line names as `crate::module`.
fn named(line: &str) -> Vec<&str> {
    line.match_indices("crate::")
        .map(|(at, prefix)| {
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
            &rest[..end]
        })
        .filter(|module| !module.is_empty())
        .collect()
}

#[test]
fn imports_go_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 30, "the sources are here");
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        // Tests may look anywhere, also those in a file of their own.
        if matches!(module, "lib" | "main") || file.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for target in named(line).into_iter().filter(|t| *t != module) {
                if layer(target) >= layer(module) {
                    wrong.push(format!("{}: {}", relative.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The wall clock may be set at any time, so it is read where a moment is written down for people, and nowhere else: what is measured, waited
/// for or given up by counts on the monotonic clock. Each place with how often it reads it, and what for.
const MOMENTS: &[(&str, usize)] = &[
    ("calibrate/mod.rs", 1),    // when the client was calibrated
    ("client/transport.rs", 1), // a server's Retry-After may be a date
    ("cmd/sweep.rs", 1),        // the name of the run folder
    ("import/write.rs", 1),     // when it was imported
    ("sim/null/server.rs", 1),  // `created` of an answer
    ("sim/router.rs", 1),       // `created` of an answer
    ("sweep/about.rs", 1),      // when the sweep was started
    ("sweep/idle.rs", 2), // until when a server is left alone, for a sweep that is resumed by another process
    ("sweep/resume.rs", 1), // when it was resumed
    ("sweep/step.rs", 1), // when the step was started
];

#[test]
fn the_wall_clock_measures_nothing() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let reads: usize =
            ["SystemTime::now", "Timestamp::now", "Zoned::now"].iter().map(|n| code.matches(n).count()).sum();
        let file = file.strip_prefix(&src).unwrap().to_str().unwrap();
        let known = MOMENTS.iter().find(|m| m.0 == file).map_or(0, |m| m.1);
        if reads != known && !file.ends_with("tests.rs") {
            wrong.push(format!("{file} reads the wall clock {reads} times, where {known} are known"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
