//! Paths in a plan, resolved relative to the plan's folder.

use super::{Plan, set};
use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Keys under `[server]` that name files.
const SERVER_FILES: [&str; 4] =
    ["server.api-key-file", "server.tls.ca", "server.tls.client-cert", "server.tls.client-key"];

impl Plan {
    /// Makes all paths absolute, so that a run can be resumed from any folder. A path is relative to the plan's `folder`; a file that is
    /// missing there is looked for in the current folder.
    pub(super) fn resolve_paths(&mut self, folder: &Path) -> Result<()> {
        let mut problem = None;
        let mut resolve = |file: &mut PathBuf| {
            let in_folder = folder.join(&*file);
            let path = if in_folder.exists() || !file.exists() { in_folder } else { file.clone() };
            match std::path::absolute(&path) {
                Ok(absolute) => *file = absolute,
                Err(e) => problem = Some(anyhow!("cannot make the path {} absolute: {e}", path.display())),
            }
        };
        self.workload.each_file(&mut resolve);
        self.server.files().for_each(&mut resolve);
        let of_variants = self.variants.iter_mut().map(|v| (&mut v.set, &mut v.working_directory));
        let of_grid = self.grid.iter_mut().map(|grid| (&mut grid.set, &mut grid.working_directory));
        for (set, working_directory) in of_variants.chain(of_grid) {
            in_table(set, &[], &mut resolve);
            if let Some(path) = working_directory {
                *path = std::path::absolute(folder.join(&*path))
                    .with_context(|| format!("cannot make the path {} absolute", path.display()))?;
            }
        }
        problem.map_or(Ok(()), Err)
    }
}

/// Resolves the paths in a variant's `set`, whose keys may be dotted; `at` is the key of the table itself.
fn in_table(table: &mut Table, at: &[String], resolve: &mut impl FnMut(&mut PathBuf)) {
    for (key, value) in table.iter_mut() {
        // Parsing the plan has refused invalid keys.
        let path = if at.is_empty() { set::path(key).unwrap_or_default() } else { vec![key.to_owned()] };
        in_value(value, &[at, &path].concat(), resolve);
    }
}

fn in_value(value: &mut Value, at: &[String], resolve: &mut impl FnMut(&mut PathBuf)) {
    match value {
        Value::Table(table) => in_table(table, at, resolve),
        Value::Array(all) => all.iter_mut().for_each(|value| in_value(value, at, resolve)),
        Value::String(text) if names_file(at) => {
            let mut file = PathBuf::from(&*text);
            resolve(&mut file);
            if let Some(resolved) = file.to_str() {
                resolved.clone_into(text);
            }
        }
        _ => {}
    }
}

/// Returns true if the value of a key is a path.
fn names_file(key: &[String]) -> bool {
    let in_workload = key.first().is_some_and(|first| first == "workload")
        && key.last().is_some_and(|last| last == "file" || last == "files");
    in_workload || SERVER_FILES.contains(&&*key.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    /// Cases: a variant's `set`, the key, and the path relative to the plan.
    #[test]
    fn paths_in_variants_are_relative_to_the_plan() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.toml");
        let absolute = |name: &str| dir.path().join(name).display().to_string();
        for (set, key, file) in [
            ("\"server.tls.ca\" = \"ca.pem\"", "server.tls.ca", "ca.pem"),
            ("\"server.tls\" = { ca = \"keys/ca.pem\" }", "server.tls", "keys/ca.pem"),
            ("\"server.api-key-file\" = \"key.txt\"", "server.api-key-file", "key.txt"),
            ("\"workload.prompts.text.file\" = \"a.txt\"", "workload.prompts.text.file", "a.txt"),
        ] {
            let text = format!(
                "name = \"x\"\nserver.url = \"https://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\n[workload.prompts.text]\nfile = \"b.txt\"\n\
                 input-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 3 }}\n[[variant]]\nname = \"v\"\nset = {{ {set} }}\n"
            );
            std::fs::write(&path, text).unwrap();
            let plan = Plan::load(&Source::File(path.clone()), &[]).unwrap();
            let set = plan.variants[0].set[key].to_string();
            assert!(set.contains(&absolute(file)), "{set}");
        }
    }
}
