//! The command line as types.

mod capacity;
mod compare;
mod import;
mod report;
mod sensitivity;

pub use capacity::CapacityArgs;
pub use compare::CompareArgs;
pub use import::ImportArgs;
pub use report::ChartArgs;
pub use sensitivity::SensitivityArgs;

use crate::rundir::Tool;
use crate::units::Span;
use crate::workload::trace::{Format, Unit, Window};
use clap::{Args, Parser, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// How many requests per second can an LLM server take while p99 TTFT and p99 TPOT still meet the SLO?
///
/// A plan (TOML) steps the load up, each step is judged against the SLO, and the answer comes with its evidence: tables,
/// charts and a report in a run folder. The answer goes to standard output, progress to standard error.
#[derive(Debug, Parser)]
#[command(name = "goodput", version, propagate_version = true, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0    a goodput was found, or the SLO was met up to the plan's max-rate, or all that a matrix expects held; a gate held
  1    error
  2    ran, but no level meets the SLO, or not at a cost within hardware.max-cost-per-mtok, or something that a matrix
       expects, or a gate, did not hold
  3    undecided or invalid, or met at every level tried, max-rate not among them
  130  interrupted; what was measured until then is in the run folder

Example:
  goodput sweep demo --out runs/demo";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a sweep and answer.
    Sweep(SweepArgs),
    /// How fast is a single request, without contention and beside a few others?
    Latency(LatencyArgs),
    /// How much does the server complete at the most, however long it takes?
    Throughput(ThroughputArgs),
    /// Write a commented plan to start from.
    Init(InitArgs),
    /// Validate a plan; print what would run, how many requests, how long.
    Check(CheckArgs),
    /// Measure how exact and how fast this machine's client is, against a server that answers at once.
    Calibrate(CalibrateArgs),
    /// Read results of vLLM bench serve, GuideLLM, AIPerf or inference-perf into a run folder.
    Import(ImportArgs),
    /// Remake every report and chart from a run folder.
    Report(ReportArgs),
    /// Set runs beside one another: what differs, by how much, and what of that is noise; a gate for CI.
    Compare(CompareArgs),
    /// How many GPUs a demand takes, and what they cost: from a run, several, or a rate as given.
    Capacity(Box<CapacityArgs>),
    /// What moves the goodput, and by how much: longer prompts and answers, cache hits, burstiness, the mix.
    Sensitivity(SensitivityArgs),
    /// Serve the simulated server on a port.
    Simulate(SimulateArgs),
    /// Describe a recorded trace: rates, bursts, lengths, prefixes; or write it anew without its text.
    Trace(TraceArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page.
    #[command(after_help = "Example:\n  goodput man | man -l -")]
    Man,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput sweep demo                                          a built-in plan, no server needed
  goodput sweep --url http://127.0.0.1:8000 --slo chat        a real server, the built-in default plan
  goodput sweep plan.toml --set step.measure=30s --json       change a key of the plan, answer as JSON
  goodput sweep plan.toml --repeat 5                          five runs, their mean, and what the next one may be
  goodput sweep --resume runs/demo-20261120-141500            go on with a sweep that was killed or interrupted")]
pub struct SweepArgs {
    /// The plan: a file, or the name of a built-in plan; without it the default plan.
    pub plan: Option<PathBuf>,
    /// Server to measure; ends in /v1 or not. Replaces the plan's server.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Model to ask for; by default the one that the server lists.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// SLO profile, in place of the plan's limits.
    #[arg(long, value_name = "PROFILE")]
    pub slo: Option<String>,
    /// Begin no step that could end later than this. More time makes the interval of the answer narrower.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// After the search, soak the server at the safe rate for this long; the soak has a verdict of its own, and is not part of
    /// the budget.
    #[arg(long, value_name = "TIME")]
    pub confirm: Option<Span>,
    /// Go on with the sweep of a run folder, at the step that it had come to; the time in between spends no budget.
    ///
    /// Plan and server are those of the run: where one of them has changed, the differences are shown and nothing is done, unless
    /// --force is given. --budget gives the sweep more time than it had; of the other options only --repeat, --listen, --yes and --json go with it.
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["plan", "url", "model", "slo", "confirm", "out", "set", "virtual_time", "calibration"]
    )]
    pub resume: Option<PathBuf>,
    /// Run folder [default: runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run the plan N times, each with its own seed and the whole budget, into run-01, run-02 … of the run folder, and pool the answers.
    ///
    /// The summary has each run's answer, the mean over runs with its interval, how much runs differ, and from three runs on what the next
    /// one may be; the exit code is that of the pooled answer. With --resume FOLDER, interrupted runs go on, and --repeat N adds runs up to N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(crate::rundir::repeats::MOST)))]
    pub repeat: Option<u32>,
    /// With --repeat: stop and start anew, between runs, the server that the plan starts. Without it the server stays up.
    #[arg(long, requires = "repeat", conflicts_with = "resume")]
    pub restart: bool,
    /// Change a key of the plan; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Simulate time: the plan's server must be simulated.
    #[arg(long)]
    pub virtual_time: bool,
    /// What `calibrate --save` wrote on this machine: warns before the start where the plan asks for more than the client can
    /// do, and puts the figures into the report.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// While it runs, serve the sweep's own metrics for Prometheus at http://ADDR/metrics: latencies, load, verdicts, the answer
    /// so far. With port 0 any free one.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Send more than 10 requests a second, or one at a time as fast as it answers, to a public address without being asked whether that
    /// may be. Private addresses and names of a cluster are never asked about.
    #[arg(long)]
    pub yes: bool,
    /// Replace an earlier run in the run folder; with --resume, go on though plan or server are not what they were.
    #[arg(long)]
    pub force: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `latency` and `throughput` have in common: whom they ask, what they send, and where it goes.
#[derive(Debug, Args)]
pub struct OfflineArgs {
    /// Server to measure; ends in /v1 or not.
    #[arg(long, value_name = "URL", conflicts_with = "simulated")]
    pub url: Option<String>,
    /// A preset of the simulated server in the place of a real one.
    #[arg(long, value_name = "PRESET")]
    pub simulated: Option<String>,
    /// Model to ask for; by default the one that the server lists.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Input tokens of every request.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub input_tokens: u32,
    /// Output tokens of every request.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub output_tokens: u32,
    /// Run folder [default: runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Change a key of the plan that these options make, as prompts or headers; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Simulate time: the server must be simulated.
    #[arg(long)]
    pub virtual_time: bool,
    /// Send more than 10 requests a second, or one at a time as fast as it answers, to a public address without being asked whether that
    /// may be. Private addresses and names of a cluster are never asked about.
    #[arg(long)]
    pub yes: bool,
    /// Replace an earlier run in the run folder.
    #[arg(long)]
    pub force: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `latency`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput latency --url http://127.0.0.1:8000                             one request alone, then 4, 8, 16 and 32 at once
  goodput latency --url http://127.0.0.1:8000 --concurrency 1,2 --requests 100
  goodput latency --simulated a40-qwen3-0.6b --virtual-time               no server needed, over in seconds")]
pub struct LatencyArgs {
    /// Requests in flight, one step each.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [1, 4, 8, 16, 32].map(|n| std::num::NonZeroU32::new(n).expect("not zero")))]
    pub concurrency: Vec<std::num::NonZeroU32>,
    /// At least so many requests at each of them, however long that takes, up to ten minutes.
    #[arg(long, value_name = "N")]
    pub requests: Option<std::num::NonZeroU32>,
    /// How long each of them is measured [default: 30s, or with --requests as long as these take].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Whom to ask, and with what.
    #[command(flatten)]
    pub common: OfflineArgs,
}

/// Arguments of `throughput`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput throughput --url http://127.0.0.1:8000                          twice as many in flight until it buys no more
  goodput throughput --url http://127.0.0.1:8000 --all 1000               everything at once, until the last answer
  goodput throughput --simulated a40-qwen3-0.6b --virtual-time            no server needed, over in seconds")]
pub struct ThroughputArgs {
    /// Send so many requests at once, and wait for all of them, in place of the ladder.
    #[arg(long, value_name = "N")]
    pub all: Option<std::num::NonZeroU32>,
    /// The ladder goes no higher than this.
    #[arg(long, value_name = "N", default_value_t = std::num::NonZeroU32::new(512).expect("not zero"), conflicts_with = "all")]
    pub max_concurrency: std::num::NonZeroU32,
    /// How long each number in flight is measured at the least [default: 30s]; with --all, how long all of it may take [default: 10m].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Whom to ask, and with what.
    #[command(flatten)]
    pub common: OfflineArgs,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goodput init plan.toml && goodput check plan.toml")]
pub struct InitArgs {
    /// Where to write it.
    #[arg(default_value = "plan.toml")]
    pub plan: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput check demo
  goodput check --schema > plan.schema.json     for editors: put `#:schema ./plan.schema.json` first in a plan")]
pub struct CheckArgs {
    /// The plan: a file, or the name of a built-in plan.
    #[arg(required_unless_present = "schema")]
    pub plan: Option<PathBuf>,
    /// Print the JSON Schema of plans, for editors that complete and check keys, and do nothing else.
    #[arg(long, conflicts_with_all = ["plan", "set", "repeat", "json"])]
    pub schema: bool,
    /// Change a key of the plan; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the time that `sweep --repeat N` takes in all, too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(crate::rundir::repeats::MOST)))]
    pub repeat: Option<u32>,
    /// Print the plan as resolved, as JSON, with what would run.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput calibrate                                     about two minutes, on an otherwise idle machine
  goodput calibrate --save client.json                  kept, for the sweeps of this machine:
  goodput sweep plan.toml --calibration client.json     warns where the plan asks for more, and says so in the report")]
pub struct CalibrateArgs {
    /// A null server elsewhere (`goodput simulate --preset null`), so that it takes no core of this machine; by default one
    /// is started here.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// How many threads send, as `client.threads` of a plan; by default as many as this machine has cores, eight at most.
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroU32>,
    /// Send more than 10 requests a second, or one at a time as fast as it answers, to a public address without being asked whether that
    /// may be. Private addresses and names of a cluster are never asked about.
    #[arg(long, requires = "url")]
    pub yes: bool,
    /// Keep the figures in this file, for `sweep --calibration`.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput report runs/demo                                            every report and chart anew, and result.json
  goodput report runs/demo --chart latency --width 180mm --format png  one chart, as wide as a page
  goodput report runs/demo --theme dark --charts-dir slides            a dark set beside the report's own
  goodput report runs/demo --as vllm                                   the same requests as another tool counts them")]
pub struct ReportArgs {
    /// The run folder.
    pub run: PathBuf,
    /// Charts alone.
    #[command(flatten)]
    pub charts: ChartArgs,
    /// Print the figures that another tool would report of the same requests, beside ours, and why they differ: vllm, guidellm,
    /// aiperf or inference-perf. Writes nothing.
    #[arg(
        long = "as",
        value_name = "TOOL",
        conflicts_with_all = ["chart", "format", "theme", "width", "scale", "charts_dir"]
    )]
    pub as_tool: Option<Tool>,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput simulate --preset a40-qwen3-0.6b --set max-num-seqs=64 --port 8000
  goodput simulate --preset 4xa100-llama-70b-util --set gpu-memory-utilization=0.85
  goodput simulate --preset null --set first=20ms --set gap=5ms    exact delays, told in the field server-timing
  goodput simulate --preset null --unix /tmp/null.sock             on a Unix socket
  goodput simulate --fault stall=0.02 --fault status-500=0.01      what a client must be able to take")]
pub struct SimulateArgs {
    /// What to simulate: the engines demo, a40-qwen3-0.6b, 4xa100-llama-70b and 4xa100-llama-70b-util, the queues md1, mm1 and
    /// mmc, fixed, null.
    #[arg(long, default_value = "demo", value_name = "PRESET")]
    pub preset: String,
    /// Change a parameter of the preset, as in [server.simulated] of a plan; may be repeated. Here null also takes first (the
    /// delay of the first token) and gap (that from token to token).
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Play a fault on this share of the requests; may be repeated. `all=P` is each of them, save those that are named besides. A name
    /// that does not exist lists them; docs/faults.md says what each does. `--set fault-after=100` answers the first hundred as it should.
    #[arg(long, value_name = "NAME=PROBABILITY")]
    pub fault: Vec<String>,
    /// Listen on a Unix socket, whose file must not exist yet, in place of a port; only with the preset null.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    pub unix: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput trace conversation_trace.jsonl --out trace          table, trace/trace.png and trace/trace.svg
  goodput trace azure.csv.gz --window 10m..40m --json         a part of it, as JSON
  goodput trace log.csv --column timestamp=ts --column input-tokens=prompt_len --column output-tokens=gen_len --unit ms
  goodput trace requests.jsonl --anonymise trace.jsonl.gz --prefix-blocks 16
                                                              times, lengths and prefixes of a log of requests, no text")]
pub struct TraceArgs {
    /// The trace: JSONL or CSV, plain or compressed with gzip or zstd; or a JSONL log of requests.
    pub file: PathBuf,
    /// Its format, where the first row does not tell: mooncake, azure, burstgpt, vllm, weka, copilot, requests, csv, jsonl.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// The part to describe, from the first row on: 10m..40m, 10m.. or ..40m.
    #[arg(long, value_name = "FROM..TO")]
    pub window: Option<Window>,
    /// Name of a column or field; KEY is timestamp, input-tokens, output-tokens, hash-ids, session or failed. May be repeated.
    #[arg(long = "column", value_name = "KEY=NAME")]
    pub columns: Vec<String>,
    /// Unit of timestamps that are plain numbers: s, ms, us or ns; by default that of the format.
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<Unit>,
    /// Tokens in a prefix block; by default those of the format.
    #[arg(long, value_name = "N")]
    pub block_tokens: Option<std::num::NonZeroU32>,
    /// Count rows that cannot be read and leave them out, in place of an error.
    #[arg(long)]
    pub skip_bad_rows: bool,
    /// Write trace.png and trace.svg into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the description as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write times and lengths, and nothing else, as JSONL that goodput reads; compressed where the name ends in .gz.
    #[arg(long, value_name = "FILE")]
    pub anonymise: Option<PathBuf>,
    /// Write ids of prefix blocks of so many tokens as well: hashes under a salt, so that prompts that begin alike still do.
    #[arg(long, value_name = "N", requires = "anonymise")]
    pub prefix_blocks: Option<std::num::NonZeroU32>,
    /// Salt of those hashes; by default a random one that is not kept. Several files under one salt share their ids: keep it
    /// secret, since whoever knows it can try out texts.
    #[arg(long, value_name = "TEXT", requires = "prefix_blocks")]
    pub salt: Option<String>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  goodput completions bash > ~/.local/share/bash-completion/completions/goodput"
)]
pub struct CompletionsArgs {
    /// The shell.
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

    #[test]
    fn every_command_shows_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("goodput "), "{} has no example", command.get_name());
        }
    }
}
