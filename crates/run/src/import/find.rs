//! Which files are meant, and which tool wrote them.

use super::file::{self, Text};
use super::found::Found;
use super::{aiperf, guidellm, inference_perf, vllm};
use crate::rundir::Tool;
use anyhow::{Context, Result, bail};
use goodput_workload::open_packed;
use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// What AIPerf writes for each request, …
const AIPERF: &str = "profile_export.jsonl";
/// … and beside it, of a run, …
const AIPERF_SUMMARY: &str = "profile_export_aiperf.json";
/// … and what inference-perf writes.
const INFERENCE_PERF: &str = "per_request_lifecycle_metrics.json";
/// The results of AIPerf's searches lie this deep.
const DEEPEST: u32 = 5;
/// So much of a first line tells whose it is.
const HEAD: u64 = 4 << 20;

/// A file with requests, and who wrote it.
#[derive(Debug)]
pub(super) struct Source {
    tool: Tool,
    path: PathBuf,
}

impl Source {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it.
    pub(super) fn read(self) -> Result<Found> {
        match self.tool {
            Tool::Vllm => vllm::read(&Text::read(&self.path)?),
            Tool::Guidellm => guidellm::read(&Text::read(&self.path)?),
            Tool::Aiperf => aiperf::read(&self.path),
            Tool::InferencePerf => inference_perf::read(&self.path),
            Tool::GenaiBench => bail!(
                "genai-bench keeps the latencies of each request but not when it was sent, so neither the load over time nor whether it was \
                 steady is known, and its steps cannot be judged: measure the server with `goodput sweep` (search.concurrency = [2, 8, 16])"
            ),
        }
    }
}

/// The files with requests among what was named: files as they are, of folders what is known by its name or its content.
pub(super) fn sources(named: &[PathBuf], from: Option<Tool>) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for path in named {
        if path.is_dir() {
            let before = found.len();
            folder(path, from, 0, &mut found, &mut HashSet::new())?;
            if found.len() == before {
                bail!("{} holds no result that is known: {}", path.display(), expected(from));
            }
            continue;
        }
        if !path.exists() {
            bail!("there is no {}", path.display());
        }
        match tool(path, from)? {
            Some(tool) => found.push(Source { tool, path: requests_of(path, tool)? }),
            None => bail!("{} is no result that is known: {}", path.display(), expected(from)),
        }
    }
    // A file may be named twice, by itself and by its folder.
    let mut seen = HashSet::new();
    found.retain(|s| seen.insert(s.path.canonicalize().unwrap_or_else(|_| s.path.clone())));
    Ok(found)
}

/// What would have been understood.
fn expected(from: Option<Tool>) -> String {
    let of = |tool| match tool {
        Tool::Vllm => "the JSON of vLLM `bench serve --save-result --save-detailed`",
        Tool::Guidellm => "GuideLLM's JSON output",
        Tool::Aiperf => "AIPerf's profile_export.jsonl beside profile_export_aiperf.json",
        Tool::InferencePerf => "inference-perf's per_request_lifecycle_metrics.json beside its stage files",
        Tool::GenaiBench => "genai-bench's JSON",
    };
    match from {
        Some(tool) => format!("expected was {}", of(tool)),
        None => {
            let all = [Tool::Vllm, Tool::Guidellm, Tool::Aiperf, Tool::InferencePerf].map(of);
            format!("expected was {}", all.join(", or "))
        }
    }
}

/// A file's name without what tells that it is packed.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name).to_owned()
}

/// All results in a folder: what lies beside a file of requests belongs to it. Whose a file is its content says here, though `from` does
/// of one that is named: a folder may hold anything, links to itself among it, and each folder is looked into once.
fn folder(
    dir: &Path,
    from: Option<Tool>,
    depth: u32,
    found: &mut Vec<Source>,
    seen: &mut HashSet<PathBuf>,
) -> Result<()> {
    if !seen.insert(dir.canonicalize().unwrap_or_else(|_| dir.to_owned())) {
        return Ok(());
    }
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot look into {}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    let wanted = |tool| from.is_none_or(|from| from == tool);
    for (known, tool) in [(AIPERF, Tool::Aiperf), (INFERENCE_PERF, Tool::InferencePerf)] {
        if let Some(path) = paths.iter().find(|p| name(p) == known && p.is_file()).filter(|_| wanted(tool)) {
            found.push(Source { tool, path: path.clone() });
            return Ok(());
        }
    }
    for path in &paths {
        if path.is_dir() && depth < DEEPEST {
            folder(path, from, depth + 1, found, seen)?;
        } else if name(path).ends_with(".json")
            && path.is_file()
            && let Some(tool) = tool(path, None).ok().flatten().filter(|t| wanted(*t))
        {
            match requests_of(path, tool) {
                Ok(path) => found.push(Source { tool, path }),
                // AIPerf sums several runs up in files that have no requests of their own.
                Err(_) if tool == Tool::Aiperf && name(path) != AIPERF_SUMMARY => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Who wrote a file; `None` of what is nobody's.
fn tool(path: &Path, from: Option<Tool>) -> Result<Option<Tool>> {
    if from.is_some() {
        return Ok(from);
    }
    let name = name(path);
    if name == AIPERF
        || name == AIPERF_SUMMARY
        || (name.ends_with(".jsonl") && aiperf::is_row(&first_line(path)?))
    {
        return Ok(Some(Tool::Aiperf));
    }
    if name == INFERENCE_PERF || name.ends_with("_lifecycle_metrics.json") {
        return Ok(Some(Tool::InferencePerf));
    }
    let (keys, list) = file::keys(&Text::read(path)?)?;
    let has = |key: &str| keys.iter().any(|k| k == key);
    Ok(match list {
        true => (has("start_time") && has("info")).then_some(Tool::InferencePerf),
        false if has("benchmarks") => Some(Tool::Guidellm),
        false if has("individual_request_metrics") => Some(Tool::GenaiBench),
        false if has("aiperf_version") => Some(Tool::Aiperf),
        false if vllm::is(&keys) => Some(Tool::Vllm),
        false => None,
    })
}

fn first_line(path: &Path) -> Result<String> {
    let mut line = String::new();
    open_packed(path)?
        .take(HEAD)
        .read_line(&mut line)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(line)
}

/// The file with the requests, where another file of the same run was named.
fn requests_of(path: &Path, tool: Tool) -> Result<PathBuf> {
    let wanted = match tool {
        Tool::Aiperf if name(path).ends_with(".json") => AIPERF,
        Tool::InferencePerf
            if name(path) != INFERENCE_PERF && name(path).ends_with("_lifecycle_metrics.json") =>
        {
            INFERENCE_PERF
        }
        _ => return Ok(path.to_owned()),
    };
    let beside =
        [wanted.to_owned(), format!("{wanted}.gz"), format!("{wanted}.zst")].map(|n| path.with_file_name(n));
    let again = match tool {
        Tool::Aiperf => "measure again with --export-level records (its default)",
        _ => "measure again with report.request_lifecycle.per_request: true",
    };
    beside.into_iter().find(|p| p.is_file()).with_context(|| {
        format!("{} has no single requests, and there is no {wanted} beside it: {again}", path.display())
    })
}
