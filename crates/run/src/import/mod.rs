//! Import of other tools' results as run folders: reads them (one module per tool), describes them as a plan, judges
//! them by our statistics, and writes the folder.
//!
//! Nothing is invented: data that a tool does not record stays empty, is listed, and becomes a caveat of every
//! report.

mod aiperf;
mod failure;
mod file;
mod find;
mod guidellm;
mod inference_perf;
mod plan;
mod results;
mod time;
mod vllm;
mod write;
mod yaml;

use crate::rundir::Tool;
use anyhow::{Context, Result, bail};
use goodput_core::level::{Control, Level};
use goodput_core::units::Span;
use results::ToolResults;
use std::path::{Path, PathBuf};

/// The arguments of an import.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Files and folders with results of one tool.
    pub files: Vec<PathBuf>,
    /// The tool, if it is not to be detected from the files.
    pub from: Option<Tool>,
    /// SLO profile.
    pub slo: Option<String>,
    /// Changes to the generated plan: `key=value`.
    pub sets: Vec<String>,
    /// The server's URL, if the files do not contain it.
    pub url: Option<String>,
    /// Name of the run.
    pub name: Option<String>,
    /// Length of the beginning of each step that is not counted.
    pub settle: Option<Span>,
    /// Kind of level to import, if the files have both rates and concurrencies.
    pub control: Option<Control>,
    /// Replaces an earlier run in the folder.
    pub force: bool,
}

/// Imports results into a run folder, which can then be read like any other.
///
/// # Errors
/// Fails if a file cannot be read, belongs to no known tool or lacks required data, or if the SLO is invalid; the
/// message names the file and the expected content. Nothing is written in these cases.
pub fn import(options: &Options, out: &Path) -> Result<()> {
    crate::rundir::check_free(out, options.force)?;
    let results = results(options)?;
    write::write(results, options, out)
}

/// Returns the name of the run folder if none is given.
pub fn default_name(options: &Options) -> String {
    let first = options.files.first().and_then(|f| f.file_stem()).map(|s| s.to_string_lossy().into_owned());
    options.name.clone().or(first).unwrap_or_else(|| "imported".into())
}

/// Reads all files and joins their contents.
fn results(options: &Options) -> Result<ToolResults> {
    let mut all: Option<ToolResults> = None;
    for source in find::sources(&options.files, options.from)? {
        let path = source.path().to_owned();
        let one = source
            .read()
            .and_then(with_levels)
            .with_context(|| format!("cannot import {}", path.display()))?;
        match &mut all {
            None => all = Some(one),
            Some(all) => join(all, one)?,
        }
    }
    let mut found = all.context("there is nothing to import: name result files or folders")?;
    one_control(&mut found, options.control)?;
    found.steps.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    Ok(found)
}

/// Checks that each step has a valid level.
fn with_levels(found: ToolResults) -> Result<ToolResults> {
    for step in &found.steps {
        let Level { control, value } = step.level;
        if !Level::is_sound(value) {
            let names = match (found.tool, control) {
                (Tool::Vllm, Control::Rate) => "request_rate",
                (Tool::Vllm, _) => "max_concurrency",
                (Tool::Guidellm, Control::Rate) => "config.strategy.rate",
                (Tool::Guidellm, _) => "config.strategy.streams or max_concurrency",
                (_, Control::Rate) => "the rate",
                _ => "the concurrency",
            };
            bail!(
                "{}: {names} is {value}, which is no level: a load is above nothing and at most 10^9",
                step.file.display()
            );
        }
    }
    Ok(found)
}

/// Appends another file as further steps of the sweep. Fails if the tool, the model or the server differs.
fn join(all: &mut ToolResults, one: ToolResults) -> Result<()> {
    if one.tool != all.tool {
        bail!(
            "the files are of {} and of {}: import the results of each tool into a folder of their own",
            all.tool.title(),
            one.tool.title()
        );
    }
    let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    for (what, a, b) in [("models", &all.model, &one.model), ("servers", &all.server, &one.server)] {
        if differ(a, b) {
            let shown = |of: &Option<String>| plan::shown(of.as_deref().unwrap_or_default());
            bail!(
                "the files are of two {what}, {} and {}: import each into a folder of its own",
                shown(a),
                shown(b)
            );
        }
    }
    all.due_known &= one.due_known;
    for missing in one.missing {
        if !all.missing.contains(&missing) {
            all.missing.push(missing);
        }
    }
    all.left_out.extend(one.left_out);
    all.steps.extend(one.steps);
    Ok(())
}

/// Keeps the steps with one kind of level: the wanted one, else rates if there are any.
fn one_control(found: &mut ToolResults, wanted: Option<Control>) -> Result<()> {
    let has = |control| found.steps.iter().any(|s| s.level.control == control);
    let wanted = wanted.unwrap_or(if has(Control::Rate) { Control::Rate } else { Control::Concurrency });
    let (kept, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut found.steps).into_iter().partition(|s| s.level.control == wanted);
    found.steps = kept;
    let title = match wanted {
        Control::Rate => "concurrency",
        _ => "rate",
    };
    found.left_out.extend(
        others
            .iter()
            .map(|s| format!("{} at {}: import it with --control {title}", s.file.display(), s.level)),
    );
    if found.steps.is_empty() {
        let why = found.left_out.join("; ");
        bail!("no step is left to import: {}", if why.is_empty() { "the files have none" } else { &why });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
