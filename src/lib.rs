//! Finds how many requests per second an LLM server can serve within its SLO.
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
//! async ([`calibrate`] uses the same client); [`sweep`] directs the other parts. Reports are made only from the files of a run folder.
//!
//! Each part is a crate of this workspace, in `crates/`; `CONTRIBUTING.md` lists them. This crate is the command-line program, and re-exports
//! the other crates under their module names.

pub mod cli;
mod cmd;

pub use goodput_core::{
    caveat, check, distribution, key, level, message, record, redact, slo, tokens, units,
};
pub use goodput_load::launch;
pub use goodput_plan as plan;
pub use goodput_report as report;
pub use goodput_run::{compare, import, peers, rundir};
pub use goodput_stats::{capacity, diagnosis, fit, roofline, search, server, stats};
pub use goodput_sweep as sweep;
pub use goodput_workload as workload;

/// Calibration: the timing accuracy and the maximum load of this machine's client.
pub mod calibrate {
    pub use goodput_load::calibrate::*;
    pub use goodput_stats::calibration::*;
}

/// The HTTP client, and the plan's `[server]` table.
pub mod client {
    pub use goodput_core::endpoint::{Api, BaseUrl};
    pub use goodput_core::secrets;
    pub use goodput_load::client::*;
    pub use goodput_plan::server::key::KeySource;
    pub use goodput_plan::server::pages::{PageUrl, ServerMetrics};
    pub use goodput_plan::server::proxy::Proxy;
    pub use goodput_plan::server::tls::Tls;
    pub use goodput_plan::server::{Connections, Http, PromptForm, Server, Target, extras, pages, template};

    /// The plan's `[server]` table.
    pub mod config {
        pub use goodput_core::endpoint::{Api, BaseUrl};
        pub use goodput_plan::server::{Connections, Http, PromptForm, Server, Target};
    }
}

/// Load generation: the sending threads and their tables in the plan.
pub mod load {
    pub use goodput_core::times as config;
    pub use goodput_load::load::*;
    pub use goodput_load::pages;
    pub use goodput_plan::client::ClientLimits;
}

/// The simulated server: engine models, and the HTTP server in front of them.
pub mod sim {
    pub use goodput_engine as engine;
    pub use goodput_engine::{config, fault};
    pub use goodput_load::sim::*;
}

use cli::{Cli, Command};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Command output as text, for the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::cmd::check::description as check_plan;
}

/// Standard error for log messages, with secrets redacted and terminal control characters escaped, since messages quote names and servers.
/// Each message is one write.
struct LogWriter;

impl std::io::Write for LogWriter {
    fn write(&mut self, message: &[u8]) -> std::io::Result<usize> {
        let text = report::escape::shown(&String::from_utf8_lossy(message));
        redact::Stderr.write_all(text.as_bytes()).map(|()| message.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        redact::Stderr.flush()
    }
}

/// Runs the command and returns its exit code.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_env("GOODPUT_LOG").unwrap_or_else(|_| EnvFilter::new("goodput=info"));
    // Fails if a subscriber is already installed, as in tests that call this twice.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(|| LogWriter)
        .without_time()
        .with_target(false)
        .with_level(false)
        // Reporting a failed write would print to standard error again, and panic.
        .log_internal_errors(false)
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
        Command::Handoff(args) => cmd::handoff::handoff(args),
        Command::Fit(args) => cmd::fit::fit(args).map(|()| ExitCode::SUCCESS),
        Command::View(args) => cmd::view::view(args).map(|()| ExitCode::SUCCESS),
        Command::Compare(args) => cmd::compare::compare(args),
        Command::Sensitivity(args) => cmd::sensitivity::sensitivity(args),
        Command::Simulate(args) => cmd::simulate::simulate(args).map(|()| ExitCode::SUCCESS),
        Command::Trace(args) => cmd::trace::trace(args).map(|()| ExitCode::SUCCESS),
        Command::Worker(args) => cmd::worker::worker(args).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => cmd::docs::completions(args).map(|()| ExitCode::SUCCESS),
        Command::Man => cmd::docs::man().map(|()| ExitCode::SUCCESS),
    }
}
