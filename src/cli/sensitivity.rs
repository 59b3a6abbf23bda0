//! Arguments of `sensitivity`.

use super::{FolderArgs, MeasureArgs};
use crate::units::Span;
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "Sensitivity is measured with paired steps near the goodput, each with one factor changed.
Given a plan, goodput runs the sweep and then the paired steps; given a run folder, only the
paired steps. The plan's [sensitivity] table sets the factors, the size of the change and the
time; if a plan has that table, `goodput sweep` also measures the pairs. The results are in
RUN/sensitivity, where `goodput report` and `goodput capacity` read them.

Exit codes: those of `goodput sweep`.

Examples:
  goodput sensitivity demo --virtual-time --out runs/demo    a built-in plan; needs no server
  goodput sensitivity plan.toml --set 'sensitivity.factors=[\"prompt-length\"]'
  goodput sensitivity runs/chat --budget 40m                 an earlier run
  goodput capacity runs/demo --daily-volume 5M               GPUs now, and with longer prompts";

/// Arguments of `sensitivity`.
#[derive(Debug, Args)]
#[command(
    mut_arg("virtual_time", |arg| arg.help("Run in simulated time. The server must be simulated. A run folder keeps its own clock")),
    mut_arg("force", |arg| arg.help("Overwrite an earlier run in the run folder. Given a run folder: measure its pairs again")),
    after_help = HELP
)]
pub struct SensitivityArgs {
    /// Plan (a file, or the name of a built-in plan), or the folder of a run that found a goodput.
    #[arg(value_name = "PLAN|RUN")]
    pub target: PathBuf,
    /// Base URL of the server, with or without /v1. Overrides the plan's server.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Time budget of the paired steps, in addition to the budget of the search [default: the plan's sensitivity.budget, else 30m].
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Overrides, clock and consent.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Run folder and output.
    #[command(flatten)]
    pub folder: FolderArgs,
}
