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
//! Each part is a crate of this workspace, in `crates/`; `CONTRIBUTING.md` lists them and says where things go. This crate is the command, and
//! exports the others under the names of their modules.

pub mod cli;
mod cmd;

pub use goodput_core::{
    caveat, check, distribution, key, level, message, record, redact, slo, tokens, units,
};
pub use goodput_load::launch;
pub use goodput_plan as plan;
pub use goodput_report as report;
pub use goodput_run::{compare, import, peers, rundir};
pub use goodput_stats::{capacity, diagnosis, roofline, search, server, stats};
pub use goodput_sweep as sweep;
pub use goodput_workload as workload;

/// How exact and how fast this machine's client is.
pub mod calibrate {
    pub use goodput_load::calibrate::*;
    pub use goodput_stats::calibration::*;
}

/// The client, and the plan's table that names the server.
pub mod client {
    pub use goodput_core::endpoint::{Api, BaseUrl};
    pub use goodput_core::secrets;
    pub use goodput_load::client::*;
    pub use goodput_plan::server::key::KeySource;
    pub use goodput_plan::server::pages::{OwnMetrics, PageUrl};
    pub use goodput_plan::server::proxy::Proxy;
    pub use goodput_plan::server::tls::Tls;
    pub use goodput_plan::server::{Connections, Http, PromptForm, Server, Target, extras, pages};

    /// The plan's `[server]` table.
    pub mod config {
        pub use goodput_core::endpoint::{Api, BaseUrl};
        pub use goodput_plan::server::{Connections, Http, PromptForm, Server, Target};
    }
}

/// Load: the threads that send, and the plan's tables for them.
pub mod load {
    pub use goodput_core::times as config;
    pub use goodput_load::load::*;
    pub use goodput_plan::own;
}

/// The simulated server: the models of engines, and the server over them.
pub mod sim {
    pub use goodput_engine as engine;
    pub use goodput_engine::{config, fault};
    pub use goodput_load::sim::*;
}

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
