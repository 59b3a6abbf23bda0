//! The files that a plan names, found beside it.

use super::{Grid, Plan, set};
use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The keys of the server that name files.
const OF_SERVER: [&str; 4] =
    ["server.api-key-file", "server.tls.ca", "server.tls.client-cert", "server.tls.client-key"];

impl Plan {
    /// Files are named as seen from the plan's own folder; one that is not there is looked for from here. They are known by their
    /// whole paths from then on, so that a run can be resumed from anywhere.
    pub(super) fn find_files(&mut self, folder: &Path) -> Result<()> {
        let mut problem = None;
        let mut find = |file: &mut PathBuf| {
            let beside = folder.join(&*file);
            let found = if beside.exists() || !file.exists() { beside } else { file.clone() };
            match std::path::absolute(&found) {
                Ok(whole) => *file = whole,
                Err(e) => problem = Some(anyhow!("the file {} cannot be found: {e}", found.display())),
            }
        };
        self.workload.each_file(&mut find);
        self.server.files().for_each(&mut find);
        let of_variants = self.variants.iter_mut().map(|v| &mut v.set);
        for set in of_variants.chain(self.grid.as_mut().map(Grid::set_mut)) {
            in_table(set, &[], &mut find);
        }
        let named = self.variants.iter_mut().filter_map(|v| v.start.as_mut());
        for start in named.chain(self.grid.as_mut().and_then(Grid::start_mut)) {
            if let Some(place) = &mut start.working_directory {
                *place = std::path::absolute(folder.join(&*place))
                    .with_context(|| format!("the folder {} cannot be found", place.display()))?;
            }
        }
        problem.map_or(Ok(()), Err)
    }
}

/// The files that a variant's `set` names, where a key may be dotted; `at` is the key of the table itself.
fn in_table(table: &mut Table, at: &[String], find: &mut impl FnMut(&mut PathBuf)) {
    for (key, value) in table.iter_mut() {
        // One that is no key was refused as the plan was read.
        let own = if at.is_empty() { set::path(key).unwrap_or_default() } else { vec![key.to_owned()] };
        in_value(value, &[at, &own].concat(), find);
    }
}

fn in_value(value: &mut Value, at: &[String], find: &mut impl FnMut(&mut PathBuf)) {
    match value {
        Value::Table(table) => in_table(table, at, find),
        Value::Array(all) => all.iter_mut().for_each(|value| in_value(value, at, find)),
        Value::String(text) if names_file(at) => {
            let mut file = PathBuf::from(&*text);
            find(&mut file);
            if let Some(found) = file.to_str() {
                found.clone_into(text);
            }
        }
        _ => {}
    }
}

fn names_file(key: &[String]) -> bool {
    let of_workload = key.first().is_some_and(|first| first == "workload")
        && key.last().is_some_and(|last| last == "file" || last == "files");
    of_workload || OF_SERVER.contains(&&*key.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    /// Rows: what a variant sets, and where the file is that it names.
    #[test]
    fn files_of_variants_are_found_beside_the_plan() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.toml");
        let whole = |name: &str| dir.path().join(name).display().to_string();
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
            assert!(set.contains(&whole(file)), "{set}");
        }
    }
}
