//! How many requests per second can an LLM server take while p99 TTFT and p99 TPOT still meet the SLO?
//!
//! Data flows one way:
//!
//! ```text
//! plan.toml ─ Plan ─ Workload ─ Chains ─ load ─ Records ─ Step ─ Search::next ─┐
//!                        ↑                                                     │
//!                        └──────────────────── next level ─────────────────────┘
//! run folder ─ Run ─ answers ─ terminal, report.md, report.html, charts, result.json
//! ```
//!
//! The middle is pure: [`workload`] draws requests from a seed, [`slo`] judges a record, [`stats`] turns records into a
//! step, [`search`] turns steps into the next level or an answer. Only [`client`], [`load`], [`sim`] and [`sweep`] are
//! async ([`calibrate`] uses the same client); [`sweep`] is the director that joins the parts. Reports are made from the files of a run folder alone.
//!
//! Where things go: an arrival process into `workload/arrivals.rs`, a length distribution into `workload/lengths.rs`, a
//! stop rule into `search/stop.rs`, an API dialect into `client/dialect.rs`, a chart into `report/charts/`, an SLO profile
//! into `slo-profiles/`, a plan that runs as it is into `sweeps/`.

pub mod calibrate;
pub mod capacity;
pub mod caveat;
pub mod check;
pub mod cli;
pub mod client;
mod cmd;
pub mod compare;
pub mod diagnosis;
pub mod distribution;
pub mod import;
pub mod key;
pub mod launch;
pub mod level;
pub mod load;
pub mod message;
pub mod peers;
pub mod plan;
pub mod record;
pub mod redact;
pub mod report;
pub mod roofline;
pub mod rundir;
pub mod search;
pub mod server;
pub mod sim;
pub mod slo;
pub mod stats;
pub mod sweep;
pub mod tokens;
pub mod units;
pub mod workload;

use cli::{Cli, Command};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// What the fuzz targets need of commands, which otherwise only print it.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::cmd::check::said as check_plan;
}

/// Standard error, with no secret and nothing in it that a terminal would obey: names, and what servers said, are part of messages. Each is
/// one write.
struct Told;

impl std::io::Write for Told {
    fn write(&mut self, message: &[u8]) -> std::io::Result<usize> {
        let text = report::escape::shown(&String::from_utf8_lossy(message));
        redact::Stderr.write_all(text.as_bytes()).map(|()| message.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        redact::Stderr.flush()
    }
}

/// Does what the command line asks; the exit code is that of the answer.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_env("GOODPUT_LOG").unwrap_or_else(|_| EnvFilter::new("goodput=info"));
    // Fails where a subscriber is set already, as in tests that call this twice: then that one serves.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(|| Told)
        .without_time()
        .with_target(false)
        .with_level(false)
        .try_init();
    match &cli.command {
        Command::Sweep(args) => cmd::sweep::sweep(args),
        Command::Latency(args) => cmd::latency::latency(args),
        Command::Throughput(args) => cmd::throughput::throughput(args),
        Command::Init(args) => cmd::init::init(args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => cmd::check::check(args).map(|()| ExitCode::SUCCESS),
        Command::Calibrate(args) => cmd::calibrate::calibrate(args),
        Command::Import(args) => cmd::import::import(args),
        Command::Report(args) => cmd::report::report(args).map(|()| ExitCode::SUCCESS),
        Command::Capacity(args) => cmd::capacity::capacity(args),
        Command::Compare(args) => cmd::compare::compare(args),
        Command::Sensitivity(args) => cmd::sensitivity::sensitivity(args),
        Command::Simulate(args) => cmd::simulate::simulate(args).map(|()| ExitCode::SUCCESS),
        Command::Trace(args) => cmd::trace::trace(args).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => cmd::docs::completions(args).map(|()| ExitCode::SUCCESS),
        Command::Man => cmd::docs::man().map(|()| ExitCode::SUCCESS),
    }
}
