//! Checks which crate depends on which, and where the wall clock is read.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates below the root, lowest first, each with those that it may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("workload", &["core"]),
    ("engine", &["core"]),
    ("stats", &["core", "workload"]),
    ("plan", &["core", "engine", "stats", "workload"]),
    ("run", &["core", "engine", "plan", "stats", "workload"]),
    ("load", &["core", "engine", "plan", "stats", "workload"]),
    ("cluster", &["core", "load", "plan", "stats", "workload"]),
    ("sweep", &["cluster", "core", "engine", "load", "plan", "run", "stats", "workload"]),
    ("report", &["core", "plan", "run", "stats", "workload"]),
    ("handoff", &["core", "plan", "run", "stats"]),
];

/// Foreign crates, each with the only crates of ours that may depend on it, directly or through others.
const CONFINED: &[(&str, &[&str])] = &[
    ("tokio", &["cluster", "load", "sweep"]),
    ("reqwest", &["cluster", "load", "sweep"]),
    ("axum", &["cluster", "load", "sweep"]),
    ("async-nats", &["cluster", "sweep"]),
    ("plotters", &["report"]),
];

/// Returns the platform that tests are run on, such as `x86_64-unknown-linux-gnu`.
fn host() -> String {
    let out = std::process::Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Returns the output of `cargo metadata`, run without a network: for this platform, since the packages of others were never fetched.
fn metadata() -> serde_json::Value {
    let out = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", &host()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Returns the name of a crate within `crates/`, given that of its package.
fn own(package: &str) -> Option<&str> {
    package.strip_prefix("goodput-")
}

/// The resolved dependencies of all packages, by package id.
struct Graph {
    names: BTreeMap<String, String>,
    normal: BTreeMap<String, Vec<String>>,
    development: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn read() -> Self {
        let metadata = metadata();
        let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
        let packages = metadata["packages"].as_array().unwrap();
        let names = packages.iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
        let (mut normal, mut development) = (BTreeMap::new(), BTreeMap::new());
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let of = |dev: bool| -> Vec<String> {
                let kind = if dev { "dev" } else { "normal" };
                let is = |k: &serde_json::Value| k["kind"].as_str().unwrap_or("normal") == kind;
                let deps = node["deps"].as_array().unwrap().iter();
                let deps = deps.filter(|d| d["dep_kinds"].as_array().unwrap().iter().any(is));
                deps.map(|d| text(&d["pkg"])).collect()
            };
            normal.insert(text(&node["id"]), of(false));
            development.insert(text(&node["id"]), of(true));
        }
        Self { names, normal, development }
    }

    /// Returns the ids of our crates by name.
    fn crates(&self) -> BTreeMap<&str, &str> {
        self.names.iter().filter_map(|(id, name)| Some((own(name)?, id.as_str()))).collect()
    }

    /// Returns the names of all packages that a package reaches through normal dependencies.
    fn reached(&self, from: &str) -> BTreeSet<&str> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(id) = open.pop() {
            for next in &self.normal[id] {
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen.into_iter().map(|id| self.names[id].as_str()).collect()
    }
}

#[test]
fn dependencies_go_one_way() {
    let graph = Graph::read();
    let crates = graph.crates();
    let listed: BTreeSet<&str> = CRATES.iter().map(|c| c.0).collect();
    assert_eq!(crates.keys().copied().collect::<BTreeSet<_>>(), listed, "CRATES lists every crate");
    for (i, (name, allowed)) in CRATES.iter().enumerate() {
        let below: BTreeSet<&str> = CRATES[..i].iter().map(|c| c.0).collect();
        assert!(allowed.iter().all(|a| below.contains(a)), "{name} may depend on what stands before it");
        let of = |ids: &[String]| -> BTreeSet<&str> {
            ids.iter().filter_map(|id| own(&graph.names[id.as_str()])).collect()
        };
        let normal = of(&graph.normal[crates[name]]);
        assert_eq!(
            normal,
            allowed.iter().copied().collect(),
            "{name} depends on other crates than CRATES says"
        );
        // Otherwise tests would meet two copies of a crate, whose types differ.
        let development = of(&graph.development[crates[name]]);
        assert!(development.is_subset(&below), "the tests of {name} need a crate above it: {development:?}");
    }
}

#[test]
fn heavy_dependencies_are_confined() {
    let graph = Graph::read();
    let wrong: Vec<String> = graph
        .crates()
        .into_iter()
        .flat_map(|(name, id)| {
            let reached = graph.reached(id);
            let confined =
                CONFINED.iter().filter(move |(dep, homes)| reached.contains(dep) && !homes.contains(&name));
            confined.map(move |(dep, _)| format!("{name} depends on {dep}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

/// The wall clock may be set at any time, so it is read where a moment is written down for people, and nowhere else: what is measured, waited
/// for or given up by counts on the monotonic clock. Each place with how often it reads it, and what for.
const MOMENTS: &[(&str, usize)] = &[
    ("crates/load/src/calibrate/mod.rs", 1), // when the client was calibrated
    ("crates/load/src/client/transport.rs", 1), // a server's Retry-After may be a date
    ("src/cmd/sweep.rs", 1),                 // the name of the run folder
    ("crates/run/src/import/write.rs", 1),   // when it was imported
    ("crates/load/src/sim/rules.rs", 1),     // `created` of an answer
    ("crates/sweep/src/metadata.rs", 1),     // when the sweep was started
    ("crates/sweep/src/retry_after.rs", 2), // until when a server is left alone, for a sweep that is resumed by another process
    ("crates/sweep/src/resume.rs", 1),      // when it was resumed
    ("crates/sweep/src/step.rs", 1),        // when the step was started
];

#[test]
fn the_wall_clock_measures_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    for own in CRATES {
        sources(&root.join("crates").join(own.0).join("src"), &mut files);
    }
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let reads: usize =
            ["SystemTime::now", "Timestamp::now", "Zoned::now"].iter().map(|n| code.matches(n).count()).sum();
        let file = file.strip_prefix(root).unwrap().to_str().unwrap();
        let known = MOMENTS.iter().find(|m| m.0 == file).map_or(0, |m| m.1);
        if reads != known && !file.ends_with("tests.rs") {
            wrong.push(format!("{file} reads the wall clock {reads} times, where {known} are known"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
