//! What `deploy/` holds, checked without a cluster: manifests against schemas of their kinds, the names that they use of one another, their
//! commands against the command line, and the rights of leader and workers on the bus.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "deploy/bus.rs"]
mod bus;
#[path = "deploy/references.rs"]
mod references;
#[path = "deploy/schemas.rs"]
mod schemas;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the kustomize base.
const BASE: &str = "deploy/kustomize/base";

/// The batch script for Slurm.
const SLURM: &str = "deploy/slurm.sbatch";

/// One document of a YAML file.
struct Manifest {
    /// Path of the file from the root of the repository.
    file: String,
    value: Value,
}

impl Manifest {
    fn kind(&self) -> &str {
        text(&self.value["kind"])
    }

    fn name(&self) -> &str {
        text(&self.value["metadata"]["name"])
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Returns every document of the YAML files in a folder and in those within it, by file.
fn manifests(folder: &str) -> Vec<Manifest> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let file = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            found.extend(manifests(&file));
        } else if file.ends_with(".yaml") {
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(&read(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            found.extend(documents.into_iter().map(|value| Manifest { file: file.clone(), value }));
        }
    }
    found
}

/// Returns a text, or an empty one if there is none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the items of a list, or none if there is no list.
fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    items(value).iter().map(text).collect()
}
