//! The command line as types.

mod capacity;
mod compare;
mod fit;
mod handoff;
mod import;
mod report;
mod sensitivity;
mod shared;
mod view;
mod worker;

pub use capacity::CapacityArgs;
pub use compare::CompareArgs;
pub use fit::{FitArgs, KvType};
pub use handoff::HandoffArgs;
pub use import::ImportArgs;
pub use report::ChartArgs;
pub use sensitivity::SensitivityArgs;
pub(crate) use shared::Output;
pub use shared::{FolderArgs, MeasureArgs};
pub use view::ViewArgs;
pub use worker::{BusArgs, BusTrustArgs, SweepWorkersArgs, WorkerArgs};

use crate::rundir::Tool;
use crate::units::Span;
use crate::workload::trace::{Format, Unit, Window};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Find how many requests per second an LLM server can serve within its SLO.
///
/// A sweep loads the server step by step, judges each step against the SLO and reports the highest load that meets it. The run folder
/// keeps the evidence: tables, charts and a report. The answer goes to standard output, progress to standard error.
#[derive(Debug, Parser)]
#[command(name = "goodput", version, propagate_version = true, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// The subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0    success: a goodput was found, or the SLO was met up to max-rate or the highest listed level,
       or every expectation of a matrix held, or every gate held
  1    error
  2    no level meets the SLO, or none within hardware.max-cost-per-mtok,
       or an expectation of a matrix failed, or a gate failed
  3    undecided or invalid, or the SLO was met at every level tried but max-rate was not reached
  130  interrupted; the run folder keeps what was measured

Example:
  goodput sweep demo --out runs/demo";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a sweep and report the goodput.
    Sweep(SweepArgs),
    /// Measure the latency of single requests and at low concurrency, without an SLO.
    Latency(LatencyArgs),
    /// Measure peak throughput, ignoring latency.
    Throughput(ThroughputArgs),
    /// Write a commented plan to start from.
    Init(InitArgs),
    /// Validate a plan and show what it would run: levels, requests, time.
    Check(CheckArgs),
    /// Measure the timing accuracy and the maximum load of this machine's client.
    Calibrate(CalibrateArgs),
    /// Convert results of vLLM bench serve, GuideLLM, AIPerf or inference-perf into a run folder.
    Import(ImportArgs),
    /// Rebuild the reports and charts of a run folder.
    Report(ReportArgs),
    /// Serve finished runs as pages: an index, reports, the trend of the goodput, comparisons.
    View(ViewArgs),
    /// Compare runs, tell changes from noise, and check gates in CI.
    Compare(CompareArgs),
    /// Calculate how many GPUs a demand needs and what they cost.
    Capacity(Box<CapacityArgs>),
    /// Write files for operations: Prometheus alerts with tests, autoscaling, admission limits, a Grafana dashboard, a CI workflow.
    Handoff(HandoffArgs),
    /// Calculate what fits on GPUs without a measurement: KV cache, sequences, and lower bounds of TTFT and TPOT.
    Fit(Box<FitArgs>),
    /// Measure how the workload changes the goodput: prompt and answer length, cache hits, burstiness, class mix.
    Sensitivity(SensitivityArgs),
    /// Serve a simulated LLM server on a port.
    Simulate(SimulateArgs),
    /// Send parts of the load of sweeps that run on other machines.
    Worker(WorkerArgs),
    /// Describe a recorded trace (rates, bursts, lengths, shared prefixes), or anonymise it.
    Trace(TraceArgs),
    /// Print shell completions.
    Completions(CompletionsArgs),
    /// Print the manual page.
    #[command(after_help = "Example:\n  goodput man | man -l -")]
    Man,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(
    mut_arg("force", |arg| arg.help("Overwrite an earlier run in the run folder. With --resume: continue even if the plan or the server has changed")),
    after_help = "Examples:
  goodput sweep demo                                      a built-in plan; needs no server
  goodput sweep --url http://127.0.0.1:8000 --slo chat    your server, with the default plan
  goodput sweep plan.toml --set step.measure=30s --json   override a key; answer as JSON
  goodput sweep plan.toml --repeat 5                      five runs and their pooled answer
  goodput sweep --resume runs/demo-20261120-141500        resume an interrupted sweep"
)]
pub struct SweepArgs {
    /// Plan to run: a file, or the name of a built-in plan [default: the built-in plan `default`].
    pub plan: Option<PathBuf>,
    /// Base URL of the server, with or without /v1. Overrides the plan's server.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Model to request. Overrides the plan's model [default: the model that the server lists].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// SLO profile to judge by, instead of the plan's limits.
    #[arg(long, value_name = "PROFILE")]
    pub slo: Option<String>,
    /// Time budget of the search, such as 30m: no step starts that could end later. More time narrows the interval of the answer.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// After the search, soak the server at the safe rate for this long. The soak has its own verdict and does not count against the
    /// budget.
    #[arg(long, value_name = "TIME")]
    pub confirm: Option<Span>,
    /// Resume an interrupted sweep at the step it reached. The pause does not count against the budget.
    ///
    /// Uses the plan and the server of the run. If one of them has changed, goodput shows the differences and stops, unless --force is
    /// given. --budget replaces the budget of the run. The only other options allowed are --repeat, --try-advice, --listen, --yes and --json.
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["plan", "url", "model", "slo", "confirm", "out", "set", "virtual_time", "calibration"]
    )]
    pub resume: Option<PathBuf>,
    /// Run the plan N times and pool the answers. Each run has its own seed, the full budget, and a folder run-01, run-02, …
    ///
    /// The summary lists the answer of each run, their mean with its interval, the spread between runs and, from three runs on, the range
    /// to expect of a next run. The exit code is that of the pooled answer. With --resume FOLDER, interrupted runs are resumed, and
    /// --repeat N adds runs until there are N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(crate::rundir::repeats::MOST)))]
    pub repeat: Option<u32>,
    /// With --repeat: restart the server that the plan starts before each further run [default: it keeps running].
    #[arg(long, requires = "repeat", conflicts_with = "resume")]
    pub restart: bool,
    /// After the search, measure the first N pieces of advice in the report, each as a variant with half of the search's budget: "raising
    /// max-num-seqs from 8 to 64 gave 14 → 35 req/s". Only settings of a server that the plan simulates or starts can be tried. With
    /// --resume, tries the advice of a finished run. [default N: 1]
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=20),
        conflicts_with = "repeat"
    )]
    pub try_advice: Option<u32>,
    /// File written by `goodput calibrate --save` on this machine. Warns before the start if the plan needs more than the client can do,
    /// and adds the figures to the report.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// While the sweep runs, serve a page to watch it at http://ADDR/, and its metrics for Prometheus at http://ADDR/metrics. Port 0 picks a
    /// free port.
    ///
    /// The page shows the latency of the steps, the interval of the goodput as it narrows, the running step and the caveats. It becomes the
    /// report when the sweep ends. It cannot change the sweep.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// The machines that send.
    #[command(flatten)]
    pub load: SweepWorkersArgs,
    /// Overrides, clock and consent.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Run folder and output.
    #[command(flatten)]
    pub folder: FolderArgs,
}

/// Arguments that `latency` and `throughput` share: server, request size, output.
#[derive(Debug, Args)]
pub struct OfflineArgs {
    /// Base URL of the server, with or without /v1.
    #[arg(long, value_name = "URL", conflicts_with = "simulated")]
    pub url: Option<String>,
    /// Measure a preset of the simulated server instead of a real server.
    #[arg(long, value_name = "PRESET")]
    pub simulated: Option<String>,
    /// Model to request [default: the model that the server lists].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Input tokens per request.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub input_tokens: u32,
    /// Output tokens per request.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub output_tokens: u32,
    /// Overrides, clock and consent.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Run folder and output.
    #[command(flatten)]
    pub folder: FolderArgs,
}

/// Arguments of `latency`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput latency --url http://127.0.0.1:8000                  1, 4, 8, 16 and 32 in flight
  goodput latency --url http://127.0.0.1:8000 --concurrency 1,2 --requests 100
  goodput latency --simulated a40-qwen3-0.6b --virtual-time    needs no server; done in seconds")]
pub struct LatencyArgs {
    /// Requests in flight; each number is one step.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [1, 4, 8, 16, 32].map(|n| std::num::NonZeroU32::new(n).expect("not zero")))]
    pub concurrency: Vec<std::num::NonZeroU32>,
    /// Measure at least this many requests in each step. A step takes at most 10 minutes, or --duration if that is longer.
    #[arg(long, value_name = "N")]
    pub requests: Option<std::num::NonZeroU32>,
    /// Measured time of each step [default: 30s; with --requests: 5s, or until they are measured].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Server, request size and output.
    #[command(flatten)]
    pub common: OfflineArgs,
}

/// Arguments of `throughput`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput throughput --url http://127.0.0.1:8000                  double concurrency until it peaks
  goodput throughput --url http://127.0.0.1:8000 --all 1000       1000 requests at once
  goodput throughput --simulated a40-qwen3-0.6b --virtual-time    needs no server; done in seconds")]
pub struct ThroughputArgs {
    /// Send N requests at once and wait for all of them, instead of increasing concurrency step by step.
    #[arg(long, value_name = "N")]
    pub all: Option<std::num::NonZeroU32>,
    /// Highest number of requests in flight.
    #[arg(long, value_name = "N", default_value_t = std::num::NonZeroU32::new(512).expect("not zero"), conflicts_with = "all")]
    pub max_concurrency: std::num::NonZeroU32,
    /// Measured time of each step [default: 30s]. With --all: the longest that the whole batch may take [default: 10m].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Server, request size and output.
    #[command(flatten)]
    pub common: OfflineArgs,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goodput init plan.toml && goodput check plan.toml")]
pub struct InitArgs {
    /// File to write.
    #[arg(default_value = "plan.toml")]
    pub plan: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput check demo
  goodput check --schema > plan.schema.json
        for editors: make `#:schema ./plan.schema.json` the first line of a plan")]
pub struct CheckArgs {
    /// Plan to check: a file, or the name of a built-in plan.
    #[arg(required_unless_present = "schema")]
    pub plan: Option<PathBuf>,
    /// Print the JSON Schema of plans, for completion and checks in editors, and exit.
    #[arg(long, conflicts_with_all = ["plan", "set", "repeat", "json", "calibration"])]
    pub schema: bool,
    /// File written by `goodput calibrate --save` on a load machine: tells how many of them the plan needs [default: an estimate by the cores
    /// of this one, told where one is not enough].
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Override a key of the plan, as in step.measure=30s. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Also print how long `sweep --repeat N` takes in total.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(crate::rundir::repeats::MOST)))]
    pub repeat: Option<u32>,
    /// Print the plan with profiles and defaults filled in, and what it would run, as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput calibrate                                    two minutes, on an otherwise idle machine
  goodput calibrate --save client.json                 save the figures for later sweeps
  goodput sweep plan.toml --calibration client.json    warn if the plan exceeds the client")]
pub struct CalibrateArgs {
    /// Null server on another machine (`goodput simulate --preset null`), so that it takes no cores from the client [default: start one
    /// on this machine].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Number of sending threads, as client.threads in a plan [default: one per core, at most 8].
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroU32>,
    /// Do not ask before loading a public address. goodput never asks about private addresses; it looks every name up, and checks again where it connects.
    #[arg(long, requires = "url")]
    pub yes: bool,
    /// Save the figures in this file, for `sweep --calibration`.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput report runs/demo                                     result.json, reports and charts
  goodput report runs/demo --chart latency --width 180mm       one chart, as wide as a page
  goodput report runs/demo --theme dark --charts-dir slides    dark charts in a separate folder
  goodput report runs/demo --as vllm                           as vLLM bench serve would report it")]
pub struct ReportArgs {
    /// Run folder.
    #[arg(required_unless_present = "schema")]
    pub run: Option<PathBuf>,
    /// Print the figures that another tool would report for the requests of the answer's step, beside goodput's, and why they differ: vllm,
    /// guidellm, aiperf or inference-perf. Writes no files.
    #[arg(
        long = "as",
        value_name = "TOOL",
        conflicts_with_all = ["chart", "tier", "title", "format", "theme", "width", "scale", "charts_dir"]
    )]
    pub as_tool: Option<Tool>,
    /// With --as: every step, as --json always has.
    #[arg(long, requires = "as_tool")]
    pub every_step: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of result.json, or with --schema=repeats of repeats.json, and exit. These are the files that --json prints.
    #[arg(long, exclusive = true, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "result")]
    pub schema: Option<ReportFile>,
    /// Options that draw charts only; last, because their help heading applies to all arguments after it.
    #[command(flatten)]
    pub charts: ChartArgs,
}

/// A file of `report` that has a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFile {
    /// result.json: the answer of a run.
    Result,
    /// repeats.json: the answer of the runs of `sweep --repeat`.
    Repeats,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput simulate --preset a40-qwen3-0.6b --set max-num-seqs=64 --port 8000
  goodput simulate --preset 4xa100-llama-70b-util --set gpu-memory-utilization=0.85
  goodput simulate --preset null --set first=20ms --set gap=5ms    exact delays
  goodput simulate --preset null --unix /tmp/null.sock             listen on a Unix socket
  goodput simulate --fault stall=0.02 --fault status-500=0.01      inject faults, to test a client")]
pub struct SimulateArgs {
    /// Server to simulate: an engine (demo, a40-qwen3-0.6b, l4-bge-large, l4-whisper-large-v3, 4xa100-llama-70b, 4xa100-llama-70b-util), a queue (md1, mm1, mmc), or fixed
    /// delays (fixed, null).
    #[arg(long, default_value = "demo", value_name = "PRESET")]
    pub preset: String,
    /// Override a parameter of the preset, with the keys of [server.simulated] in a plan. Repeatable. Here null also takes first (time to
    /// first token) and gap (time between tokens).
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Inject a fault into this share of the requests. Repeatable. all=P injects every fault that is not named separately; an unknown name
    /// lists the faults, and docs/faults.md describes them. --set fault-after=100 starts after 100 requests without faults.
    #[arg(long, value_name = "NAME=PROBABILITY")]
    pub fault: Vec<String>,
    /// Listen on a Unix socket instead of a port. Only for the preset null; the socket file must not exist yet.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    pub unix: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR")]
    pub host: IpAddr,
    /// Port to listen on; 0 picks a free port.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput trace conversation_trace.jsonl --out trace     also draws trace/trace.png and .svg
  goodput trace azure.csv.gz --window 10m..40m --json    a part of the trace, as JSON
  goodput trace log.csv --unit ms --column timestamp=ts --column input-tokens=prompt_len
  goodput trace requests.jsonl --anonymise trace.jsonl.gz --prefix-blocks 16
        times, lengths and shared prefixes of a request log, without its text")]
pub struct TraceArgs {
    /// Trace file: JSONL or CSV, plain or compressed with gzip or zstd; or a request log in JSONL.
    pub file: PathBuf,
    /// Format of the trace [default: detected from the first row]: mooncake, azure, burstgpt, vllm, weka, copilot, requests, csv, jsonl.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Part of the trace to describe, counted from its first row: 10m..40m, 10m.. or ..40m.
    #[arg(long, value_name = "FROM..TO")]
    pub window: Option<Window>,
    /// Name of a column or field. KEY is timestamp, input-tokens, output-tokens, hash-ids, session or failed. Repeatable.
    #[arg(long = "column", value_name = "KEY=NAME")]
    pub columns: Vec<String>,
    /// Unit of numeric timestamps: s, ms, us or ns [default: that of the format].
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<Unit>,
    /// Tokens per prefix block [default: that of the format].
    #[arg(long, value_name = "N")]
    pub block_tokens: Option<std::num::NonZeroU32>,
    /// Skip and count unreadable rows instead of stopping with an error.
    #[arg(long)]
    pub skip_bad_rows: bool,
    /// Write trace.png and trace.svg into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the description as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write only times and lengths, as JSONL that goodput reads back. Compressed if the name ends in .gz.
    #[arg(long, value_name = "FILE")]
    pub anonymise: Option<PathBuf>,
    /// Also write ids of prefix blocks of N tokens, as salted hashes: prompts that share a prefix still share its ids.
    #[arg(long, value_name = "N", requires = "anonymise")]
    pub prefix_blocks: Option<std::num::NonZeroU32>,
    /// Salt of the hashes [default: random, and not saved]. Files written with one salt share their ids. Keep the salt secret: whoever knows
    /// it can test guesses of the text.
    #[arg(long, value_name = "TEXT", requires = "prefix_blocks")]
    pub salt: Option<String>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  goodput completions bash > ~/.local/share/bash-completion/completions/goodput"
)]
pub struct CompletionsArgs {
    /// Shell to print completions for.
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every word that `--help` shows, so that a change of the wording is seen.
    #[test]
    fn help() {
        let mut cli = Cli::command().term_width(100);
        cli.build();
        insta::assert_snapshot!("help", cli.clone().render_long_help());
        for command in cli.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
            insta::assert_snapshot!(format!("help_{}", command.get_name()), help);
        }
    }
}
