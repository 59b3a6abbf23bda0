//! The arguments of `sensitivity`.

use crate::units::Span;
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "Given a plan, this runs its sweep and then the paired steps; given a run folder, the paired steps alone, at the goodput that was found
there. [sensitivity] of the plan says which factors are moved, by how much and for how long; `goodput sweep` measures it too where the
plan has that table. The steps lie in RUN/sensitivity; `goodput report` and `goodput capacity` read them.

Exit codes: those of `goodput sweep`.

Examples:
  goodput sensitivity demo --virtual-time --out runs/demo           a built-in plan, no server needed
  goodput sensitivity plan.toml --set 'sensitivity.factors=[\"prompt-length\"]'
  goodput sensitivity runs/chat --budget 40m                        what moves an answer that was found before
  goodput capacity runs/demo --daily-volume 5M                      GPUs, and GPUs with longer prompts";

/// Arguments of `sensitivity`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct SensitivityArgs {
    /// A plan (a file, or the name of a built-in plan), or the folder of a run that has an answer.
    #[arg(value_name = "PLAN|RUN")]
    pub target: PathBuf,
    /// Server to measure; ends in /v1 or not. Replaces the plan's server.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Wall time of the paired steps, beside the search's own budget [default: that of the plan's sensitivity.budget, else 30m].
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Change a key of the plan; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run folder [default: runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Simulate time: the plan's server must be simulated. A run folder keeps the clock that it has.
    #[arg(long)]
    pub virtual_time: bool,
    /// Send more than 10 requests a second to a public address without being asked whether that may be.
    #[arg(long)]
    pub yes: bool,
    /// Replace an earlier run in the run folder; of a run folder, measure its pairs anew.
    #[arg(long)]
    pub force: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}
