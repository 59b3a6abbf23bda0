//! Finds the files with requests, and the tool that wrote each of them.

use super::file::{self, Text};
use super::results::ToolResults;
use super::{aiperf, guidellm, inference_perf, vllm};
use crate::rundir::Tool;
use anyhow::{Context, Result, bail};
use goodput_workload::open_packed;
use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// AIPerf's file with one row per request.
const AIPERF: &str = "profile_export.jsonl";
/// AIPerf's summary of a run, next to the requests.
const AIPERF_SUMMARY: &str = "profile_export_aiperf.json";
/// inference-perf's file with requests.
const INFERENCE_PERF: &str = "per_request_lifecycle_metrics.json";
/// Maximum folder depth to search; AIPerf's searches write nested folders.
const DEEPEST: u32 = 5;
/// Number of bytes of a first line that are read to detect the tool.
const HEAD: u64 = 4 << 20;

/// A file with requests, and the tool that wrote it.
#[derive(Debug)]
pub(super) struct Source {
    tool: Tool,
    path: PathBuf,
}

impl Source {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file with the importer of its tool.
    pub(super) fn read(self) -> Result<ToolResults> {
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

/// Returns the files with requests: named files directly, and files in named folders recognised by name or content.
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
    // A file may be named twice, directly and by its folder.
    let mut seen = HashSet::new();
    found.retain(|s| seen.insert(s.path.canonicalize().unwrap_or_else(|_| s.path.clone())));
    Ok(found)
}

/// Returns the description of the expected files.
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

/// Returns a file's name without the extension of its compression.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name).to_owned()
}

/// Collects all results in a folder; files next to a file of requests belong to it. In folders the tool is detected
/// from the content even if `from` is given, because a folder may contain anything. Each folder is visited once,
/// because links may form cycles.
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
                // AIPerf writes summaries of several runs that have no requests.
                Err(_) if tool == Tool::Aiperf && name(path) != AIPERF_SUMMARY => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Returns the tool that wrote a file; `None` if it is unknown.
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

/// Returns the file with the requests if another file of the same run was named.
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
