//! Arguments of `import`.

use super::FolderArgs;
use crate::level::Control;
use crate::rundir::Tool;
use crate::units::Span;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes (as for `goodput sweep`; the run folder is written except on an error):
  0    a goodput was found, or the highest level meets the SLO
  1    error
  2    no level meets the SLO
  3    undecided

Examples:
  goodput import rate-4.json rate-8.json --slo chat           vLLM bench serve, one file per rate
  goodput import guidellm.json.gz --set slo.ttft.p99=200ms    GuideLLM; each benchmark is a step
  goodput import artifacts/ --from aiperf                     AIPerf's folder, or a folder of several
  goodput import reports-20261120/ --settle 5s                inference-perf's folder")]
pub struct ImportArgs {
    /// Result files of one tool, plain or compressed, or folders of them.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Tool that wrote the files [default: detected from their content]: vllm, guidellm, aiperf, inference-perf.
    #[arg(long, value_name = "TOOL")]
    pub from: Option<Tool>,
    /// SLO profile to judge by [default: chat, unless --set sets limits].
    #[arg(long, value_name = "PROFILE")]
    pub slo: Option<String>,
    /// Set a key of the plan that describes the run, under slo, hardware, environment, notes, model or client. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// URL of the measured server, if the files do not name it.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Name of the run.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Settling time: do not count requests due in this first part of each step.
    #[arg(long, value_name = "TIME")]
    pub settle: Option<Span>,
    /// Levels to import if the files hold both request rates and fixed concurrencies: rate or concurrency [default: rate].
    #[arg(long, value_name = "CONTROL", value_parser = control)]
    pub control: Option<Control>,
    /// Run folder and output.
    #[command(flatten)]
    pub folder: FolderArgs,
}

fn control(name: &str) -> Result<Control, String> {
    let known = Control::from_name(name).filter(|c| matches!(c, Control::Rate | Control::Concurrency));
    known.ok_or_else(|| "write rate or concurrency".into())
}
