//! Supply chain and shipping: dependencies against deny.toml, and the image and the job against the sources.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use clap::Parser;
use goodput::cli::{Cli, Command};
use goodput::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn toml(name: &str) -> toml::Table {
    toml::from_str(&read(name)).unwrap()
}

fn texts(list: &toml::Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

/// Returns name, version and licence of the packages in this machine's build, from an offline `cargo tree`.
fn packages() -> BTreeSet<(String, String, String)> {
    let out = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{l}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let package = |line: &str| {
        let (name, licence) = line.split_once('|')?;
        let mut words = name.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned(), licence.trim_end_matches(" (*)").trim().to_owned()))
    };
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| package(line).unwrap_or_else(|| panic!("{line:?} is no package"))).collect()
}

/// Returns true if allowed licences satisfy an expression: one for `A OR B`, both for `A AND B`. `A/B` is an old form
/// of `A OR B`.
fn allowed(expression: &str, list: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, list);
    assert_eq!(at, words.len(), "{expression} is no expression");
    met
}

/// Parses one or more alternatives.
fn any(words: &[&str], at: &mut usize, list: &[&str]) -> bool {
    let mut met = all(words, at, list);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, list);
    }
    met
}

fn all(words: &[&str], at: &mut usize, list: &[&str]) -> bool {
    let mut met = one(words, at, list);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, list);
    }
    met
}

fn one(words: &[&str], at: &mut usize, list: &[&str]) -> bool {
    let word = words[*at];
    *at += 1;
    if word == "(" {
        let met = any(words, at, list);
        assert_eq!(words.get(*at), Some(&")"));
        *at += 1;
        return met;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
        return list.contains(&format!("{word} WITH {}", words[*at - 1]).as_str());
    }
    list.contains(&word)
}

#[test]
fn licence_expressions_are_understood() {
    let list = ["MIT", "ISC", "BSD-3-Clause"];
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND ISC", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("MIT AND (ISC OR GPL-3.0)", true),
    ] {
        assert_eq!(allowed(expression, &list), met, "{expression}");
    }
}

#[test]
fn dependencies_are_as_deny_toml_has_them() {
    let deny = toml("deny.toml");
    let licences = texts(&deny["licenses"]["allow"]);
    let skipped: Vec<&str> =
        deny["bans"]["skip"].as_array().unwrap().iter().map(|s| s["crate"].as_str().unwrap()).collect();
    let packages = packages();
    assert!(packages.len() > 150, "{}", packages.len());
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, version, licence) in &packages {
        assert!(
            allowed(licence, &licences),
            "{name} {version}: {licence:?} is not among the licences of deny.toml"
        );
        versions.entry(name).or_default().push(version);
    }
    for (name, versions) in versions {
        let skips = |version: &&&str| {
            skipped.iter().filter_map(|s| s.split_once('@')).any(|(n, prefix)| {
                n == name
                    && version
                        .strip_prefix(prefix)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        let left: Vec<_> = versions.iter().filter(|v| !skips(v)).collect();
        assert!(
            left.len() <= 1,
            "{name} is there as {versions:?}: take one out, or give the reason in deny.toml"
        );
    }
}

/// Every package on any platform comes from the registry.
#[test]
fn all_sources_are_the_one_registry() {
    let deny = toml("deny.toml");
    assert_eq!(texts(&deny["sources"]["allow-registry"]), [CRATES_IO.strip_prefix("registry+").unwrap()]);
    let banned: Vec<&str> =
        deny["bans"]["deny"].as_array().unwrap().iter().map(|s| s["crate"].as_str().unwrap()).collect();
    for (lock, own) in [("Cargo.lock", 12), ("fuzz/Cargo.lock", 13)] {
        let lock = toml(lock);
        let packages = lock["package"].as_array().unwrap();
        let without = packages.iter().filter(|p| p.get("source").is_none()).count();
        assert_eq!(without, own, "only our own packages have no source");
        for package in packages.iter().filter(|p| p.get("source").is_some()) {
            let name = package["name"].as_str().unwrap();
            assert_eq!(package["source"].as_str(), Some(CRATES_IO), "{name}");
            assert!(package.get("checksum").is_some(), "{name} has no checksum");
            assert!(!banned.contains(&name), "{name} is one of those that deny.toml bans");
        }
    }
    assert!(!read(".gitignore").contains("Cargo.lock"), "the lock file is part of the repository");
}

#[test]
fn unsafe_code_is_forbidden() {
    let manifest = toml("Cargo.toml");
    assert_eq!(manifest["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = crates.chain([root.to_owned()]).collect();
    assert_eq!(folders.len(), 12, "{folders:?}");
    for folder in folders {
        let manifest: toml::Table =
            toml::from_str(&fs::read_to_string(folder.join("Cargo.toml")).unwrap()).unwrap();
        let inherited = manifest["lints"]["workspace"].as_bool();
        assert_eq!(inherited, Some(true), "{} has other lints", folder.display());
        let built = manifest["package"].get("build").is_some() || folder.join("build.rs").exists();
        assert!(!built, "{} has a build script", folder.display());
    }
}

#[test]
fn the_image_is_built_from_all_that_the_sources_include() {
    let (docker, manifest) = (read("Dockerfile"), toml("Cargo.toml"));
    let from: Vec<&str> = docker.lines().filter_map(|l| l.strip_prefix("FROM ")).collect();
    assert_eq!(from.len(), 2, "{from:?}");
    let parts = |text: &str| text.split('.').take(2).map(|n| n.parse().unwrap()).collect::<Vec<u32>>();
    let rust = from[0].strip_prefix("rust:").and_then(|tag| tag.split('-').next()).unwrap();
    assert!(
        parts(rust) >= parts(manifest["workspace"]["package"]["rust-version"].as_str().unwrap()),
        "rust {rust} is too old"
    );
    assert!(from.iter().all(|image| image.contains(':') && !image.contains("latest")), "{from:?}");
    let user = docker.lines().find_map(|l| l.strip_prefix("USER ")).unwrap();
    assert_ne!(user.split(':').next(), Some("0"));
    let copied: Vec<&str> = docker
        .lines()
        .filter_map(|l| l.strip_prefix("COPY ").filter(|l| !l.starts_with("--")))
        .flat_map(|l| l.split(' '))
        .collect();
    let ignored = read(".dockerignore");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut included = vec!["benches".to_owned(), "crates".to_owned(), "src".to_owned()];
    sources(&root.join("src"), &mut included);
    sources(&root.join("crates"), &mut included);
    for folder in &included {
        assert!(copied.contains(&folder.as_str()), "the Dockerfile does not copy {folder}");
        assert!(ignored.contains(&format!("\n!{folder}")), ".dockerignore leaves {folder} out");
    }
    assert!(
        included.iter().any(|f| f == "slo-profiles") && included.iter().any(|f| f == "sweeps"),
        "{included:?}"
    );
}

/// Collects the top folders that `include_str!` and `include_bytes!` read, except in tests.
fn sources(dir: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
            continue;
        }
        if path.extension().is_none_or(|e| e != "rs")
            || path.file_name().unwrap().to_string_lossy().contains("tests")
            || path.parent().unwrap().ends_with("tests")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in text.split("#[cfg(test)]").next().unwrap().lines().filter(|l| l.contains("include_")) {
            let Some(path) = line.split('"').find(|part| part.starts_with("../")) else { continue };
            let up = path.matches("../").count();
            let from = dir.ancestors().nth(up).unwrap().join(path.trim_start_matches("../"));
            let top = from.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().iter().next().unwrap();
            into.push(top.to_str().unwrap().to_owned());
        }
    }
}

/// Returns the lines below a key that are indented more than the key, without that indentation.
fn below<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|l| l.trim_start() != key);
    let head = lines.next().unwrap_or_else(|| panic!("the job has no {key}"));
    let own = head.len() - head.trim_start().len();
    let inside = lines.take_while(|l| l.is_empty() || l.len() - l.trim_start().len() > own);
    inside.map(|l| l.get(own + 2..).unwrap_or_default()).collect()
}

#[test]
fn the_job_is_one_that_the_command_takes() {
    let job = read("deploy/job.yaml");
    let args: Vec<&str> = below(&job, "args:").iter().filter_map(|l| l.trim().strip_prefix("- ")).collect();
    let cli = Cli::try_parse_from(["goodput"].iter().chain(&args)).unwrap();
    let Command::Sweep(sweep) = &cli.command else { panic!("{args:?}") };
    let at =
        |path: &Path, mount: &str| path.starts_with(mount) && job.contains(&format!("mountPath: {mount}\n"));
    assert!(
        at(sweep.plan.as_deref().unwrap(), "/plan") && at(sweep.folder.out.as_deref().unwrap(), "/work/runs")
    );
    let plan = Plan::from_text(&below(&job, "plan.toml: |").join("\n")).unwrap();
    assert!(plan.measured_server().to_string().contains(".svc.cluster.local"));
    let manifest = toml("Cargo.toml");
    let version = manifest["workspace"]["package"]["version"].as_str().unwrap();
    assert!(job.contains(&format!("image: goodput:{version}\n")));
    // Limits equal requests (the Guaranteed QoS class), so that other pods cannot take the client's CPU.
    let container = job.split("containers:").nth(1).unwrap();
    let (limits, requests) = (below(container, "limits:"), below(container, "requests:"));
    assert!(limits == requests && limits.iter().any(|l| l.starts_with("cpu:")), "{limits:?} {requests:?}");
    for asked in [
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "backoffLimit: 0",
    ] {
        assert!(job.contains(asked), "{asked}");
    }
    let key = toml::to_string(&plan).unwrap();
    assert!(key.contains("api-key-env = \"OPENAI_API_KEY\"") && job.contains("- name: OPENAI_API_KEY\n"));
    assert!(!job.contains("stringData"), "no key stands in the file");
}
