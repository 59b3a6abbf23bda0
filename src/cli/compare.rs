//! Arguments of `compare`.

use super::shared::rate;
use crate::units::{Rate, Span};
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "Gates:
  COLUMN[@LEVEL] >= CHANGE or COLUMN[@LEVEL] <= CHANGE, for example
    goodput >= -5%        ttft.p99 <= +10%        ttft.p99@20 <= +20ms
    failures <= +0.5pp    cost-per-mtok <= 0%     ttft.p99@pooled <= +10%
  Without @LEVEL, a gate on a latency checks every level that the runs share, or all levels
  pooled if they were measured in turns. The error for an unknown COLUMN lists all columns.
    holds      the change is within the threshold
    fails      the whole 95 % interval of the change is beyond the threshold, or the percentile
               now falls on failed requests, or the server no longer sustains the level
    undecided  the change is beyond the threshold but its interval is not, or the noise is unknown

Exit codes:
  0    compared, and every gate holds
  1    error, or the runs differ in SLO, workload, cache or measurement (see --force)
  2    a gate fails
  3    no gate fails, but one is undecided or a server stopped answering
  130  --measure was interrupted

Examples:
  goodput compare runs/before runs/after --gate 'goodput >= -5%' --summary \"$GITHUB_STEP_SUMMARY\"
  goodput compare runs/before runs/after --gate 'ttft.p99 <= +10%' --junit gates.xml
  goodput compare runs/variants             the series of one run with each other
  goodput compare runs/variants#bf16 runs/variants#fp8 --out runs/bf16-fp8
  goodput compare runs/before runs/after    folders of `sweep --repeat`: all runs of each
  goodput compare runs/b1 runs/b2 --against runs/a1 runs/a2 --gate 'goodput >= -5%'
  goodput compare --measure http://127.0.0.1:8000 http://127.0.0.1:8001 --slo chat --budget 10m
  goodput compare --measure a.toml b.toml --rate 10 --rate 20 --virtual-time";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct CompareArgs {
    /// Run folders, the baseline first. RUN#NAME selects one series or SLO tier of a run. A single run must have several series or tiers,
    /// which are compared with each other. With --measure: two plans (files or built-in names) or server URLs.
    #[arg(required_unless_present = "schema", value_name = "RUN")]
    pub runs: Vec<String>,
    /// Compare two groups of runs: these are the baseline, the runs before --against are the other side. A folder of `sweep --repeat`
    /// stands for all of its runs, also without --against.
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "measure")]
    pub against: Vec<String>,
    /// Measure two servers first: in turns, at the same rates, with the same requests.
    #[arg(long)]
    pub measure: bool,
    /// Exit with code 2 if a change is beyond this threshold; see Gates below. Repeatable.
    #[arg(long, value_name = "GATE")]
    pub gate: Vec<String>,
    /// Compare runs even if they differ in SLO, workload, cache or measurement.
    #[arg(long)]
    pub force: bool,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of compare.json, which --json prints, and exit.
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Write compare.md, compare.json and charts into this folder. With --measure, it is also the run folder [default:
    /// runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Append a summary in GitHub Markdown to this file, such as $GITHUB_STEP_SUMMARY.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Write the gates into this file as JUnit's XML, a test case for each figure and side: CI servers show it as tests. A gate that fails is a
    /// failure, one that is undecided an error.
    #[arg(long, value_name = "FILE", requires = "gate")]
    pub junit: Option<PathBuf>,
    /// With --measure: rate to measure at. Repeatable [default: the rates that both plans list; else one third and two thirds of the
    /// highest rate that both servers sustain in a short ramp].
    #[arg(long, value_name = "REQ/S", requires = "measure", value_parser = rate)]
    pub rate: Vec<Rate>,
    /// With --measure: time for the whole measurement, including the ramps.
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "measure")]
    pub budget: Span,
    /// With --measure: plan for servers given by URL [default: the built-in plan `default`].
    #[arg(long, value_name = "PLAN", requires = "measure")]
    pub plan: Option<PathBuf>,
    /// With --measure: SLO profile to judge by, instead of the plans' limits.
    #[arg(long, value_name = "PROFILE", requires = "measure")]
    pub slo: Option<String>,
    /// With --measure: override a key of both plans. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "measure")]
    pub set: Vec<String>,
    /// With --measure: do not ask before loading a public address with more than 10 requests/s.
    #[arg(long, requires = "measure")]
    pub yes: bool,
    /// With --measure: run in simulated time. Both servers must be simulated.
    #[arg(long, requires = "measure")]
    pub virtual_time: bool,
}
