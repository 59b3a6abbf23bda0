//! Arguments of `import`.

use crate::level::Control;
use crate::rundir::Tool;
use crate::units::Span;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: those of `goodput sweep`: 0 a goodput was found, or the highest level meets, 2 none, 3 undecided. The run folder is there in each
of these cases; 1 is an error.

Examples:
  goodput import rate-4.json rate-8.json --slo chat --out runs/vllm   vLLM bench serve, a file for each rate
  goodput import guidellm.json.gz --set slo.ttft.p99=200ms            each benchmark of GuideLLM is a step
  goodput import artifacts/ --from aiperf --set hardware.gpu=A40      AIPerf's folder, or a folder of several
  goodput import reports-20261120/ --settle 5s                        inference-perf's folder, without each stage's first 5 s"
)]
pub struct ImportArgs {
    /// Result files, plain or compressed, or the folders that hold them; all of one tool.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Who wrote them, where the content is not to tell: vllm, guidellm, aiperf, inference-perf.
    #[arg(long, value_name = "TOOL")]
    pub from: Option<Tool>,
    /// SLO profile to judge by [default: chat, unless --set gives limits].
    #[arg(long, value_name = "PROFILE")]
    pub slo: Option<String>,
    /// Set a key of the plan that describes what was measured: slo, hardware, environment, notes, model, client; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The server that was measured, where the files do not tell.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Name of the run.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Do not count requests that were due in the first so much of each step.
    #[arg(long, value_name = "TIME")]
    pub settle: Option<Span>,
    /// Which levels to take where there are rates as well as numbers in flight: rate or concurrency [default: rate].
    #[arg(long, value_name = "CONTROL", value_parser = control)]
    pub control: Option<Control>,
    /// Run folder [default: runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace an earlier run in the run folder.
    #[arg(long)]
    pub force: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

fn control(name: &str) -> Result<Control, String> {
    let known = Control::from_name(name).filter(|c| matches!(c, Control::Rate | Control::Concurrency));
    known.ok_or_else(|| "it is rate or concurrency".into())
}
