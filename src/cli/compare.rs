//! The arguments of `compare`.

use crate::units::{Rate, Span};
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "A gate is COLUMN[@LEVEL] >= CHANGE or <= CHANGE: goodput >= -5%, ttft.p99 <= +10% (in turns all equal rates together, which is
also ttft.p99@pooled; else at every one), ttft.p99@20 <= +20ms, failures <= +0.5pp, cost-per-mtok <= 0%. It fails where the whole 95 % interval of the change lies beyond the threshold; it holds where the change
itself is within it; it fails as well where the percentile is now that of requests that failed, or a rate can no longer be taken; it is
undecided where the change is beyond the threshold and the interval reaches within, or nothing tells
the noise. The names of the columns stand in the JSON, and in the message of a gate with a wrong one.

Exit codes:
  0    compared, and every gate holds
  1    error, or unlike runs without --force
  2    a gate fails
  3    no gate fails, and one is undecided, or a server stopped answering
  130  --measure was interrupted

Examples:
  goodput compare runs/before runs/after --gate 'goodput >= -5%' --summary \"$GITHUB_STEP_SUMMARY\"
  goodput compare runs/variants                          the series of one run with one another
  goodput compare runs/variants#bf16 runs/variants#fp8 --out runs/bf16-fp8
  goodput compare runs/before runs/after                 each made by `sweep --repeat`: all runs of each
  goodput compare runs/b1 runs/b2 runs/b3 --against runs/a1 runs/a2 runs/a3 --gate 'goodput >= -5%'
  goodput compare --measure http://127.0.0.1:8000 http://127.0.0.1:8001 --slo chat --budget 10m
  goodput compare --measure a.toml b.toml --rate 10 --rate 20 --virtual-time";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct CompareArgs {
    /// Run folders, the baseline first; RUN#NAME takes one series or tier of a run. One run with several series, or several
    /// tiers, is compared with itself. With --measure: two plans (files or names of built-in ones) or URLs of servers.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Runs of the baseline: those before it are then one side together, and these the other. A folder made by `sweep --repeat` stands for all
    /// of its runs, here and without --against, where each argument is a side.
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "measure")]
    pub against: Vec<String>,
    /// Measure the two first, in turns at equal rates, both with the same requests.
    #[arg(long)]
    pub measure: bool,
    /// Fail where a change is beyond this: see below. May be repeated.
    #[arg(long, value_name = "GATE")]
    pub gate: Vec<String>,
    /// Compare runs that did not measure the same thing all the same.
    #[arg(long)]
    pub force: bool,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write compare.md, compare.json and charts into this folder. With --measure it is the run folder [default:
    /// runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Append a summary in GitHub's Markdown to this file, as to $GITHUB_STEP_SUMMARY.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// With --measure: a rate to measure at; may be repeated. By default the plans' list of rates, else a third and two thirds
    /// of the highest rate that both took in a short ramp.
    #[arg(long, value_name = "REQ/S", requires = "measure", value_parser = rate)]
    pub rate: Vec<Rate>,
    /// With --measure: the time for all of it, the ramp included.
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "measure")]
    pub budget: Span,
    /// With --measure: the plan for servers that are given by URL [default: the built-in default plan].
    #[arg(long, value_name = "PLAN", requires = "measure")]
    pub plan: Option<PathBuf>,
    /// With --measure: SLO profile, in place of the plans' limits.
    #[arg(long, value_name = "PROFILE", requires = "measure")]
    pub slo: Option<String>,
    /// With --measure: change a key of both plans; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", requires = "measure")]
    pub set: Vec<String>,
    /// With --measure: send more than 10 requests a second to a public address without being asked whether that may be.
    #[arg(long, requires = "measure")]
    pub yes: bool,
    /// With --measure: simulate time; both servers must be simulated.
    #[arg(long, requires = "measure")]
    pub virtual_time: bool,
}

fn rate(text: &str) -> Result<Rate, String> {
    let x: f64 =
        text.parse().map_err(|_| format!("{text:?} is no rate: write requests per second, as 12.5"))?;
    Rate::try_from(x).map_err(|e| e.to_string())
}
