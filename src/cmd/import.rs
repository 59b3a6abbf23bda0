//! `import`: converts results of another tool into a run folder with reports.

use crate::cli::ImportArgs;
use crate::cmd::sweep::{answer, default_folder};
use crate::import::{self, Options};
use crate::plan::Plan;
use crate::rundir::PLAN;
use anyhow::{Context, Result};
use std::fs;
use std::process::ExitCode;

/// Imports the files, makes the reports and prints the answer.
pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode> {
    let options = Options {
        files: args.files.clone(),
        from: args.from,
        slo: args.slo.clone(),
        sets: args.set.clone(),
        url: args.url.clone(),
        name: args.name.clone(),
        settle: args.settle,
        control: args.control,
        force: args.folder.force,
    };
    let out = args.folder.out.clone().unwrap_or_else(|| default_folder(&import::default_name(&options)));
    import::import(&options, &out)?;
    if args.slo.is_none() && !args.set.iter().any(|set| set.trim_start().starts_with("slo")) {
        tracing::info!(
            "judged by the SLO profile chat; choose other limits with --slo PROFILE or --set slo.ttft.p99=200ms"
        );
    }
    let path = out.join(PLAN);
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    answer(&out, &Plan::from_text(&text)?, args.folder.output())
}
