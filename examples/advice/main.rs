//! How good the advice is: what the first advice of a report gains, against the best that a single change could gain,
//! on simulated servers whose goodput under every change is known. See `docs/why.md`.
//!
//! ```text
//! cargo run --release --example advice                          # named and drawn servers for development
//! cargo run --release --example advice -- --set held-out        # servers that no rule was tuned on
//! cargo run --release --example advice -- --case kv-full --each # what every change gains, and what was advised
//! RUST_LOG=goodput_sweep=debug cargo run ...                    # the fitted models and what they foresee
//! ```
//!
//! The *truth* of a change is the goodput of the model itself with it, by long simulation in steady state. Whole sweeps
//! in virtual time give the advice, as a user would get it.
#![expect(clippy::print_stdout, reason = "it is a program")]

mod advised;
mod case;
mod drawn;
mod knob;
mod named;
mod store;
mod table;
mod trial;
mod truth;

use anyhow::{Result, bail};
use case::Case;
use clap::{Parser, ValueEnum};
use goodput::sweep::cores::each;
use std::path::PathBuf;
use store::Store;
use tracing_subscriber::EnvFilter;
use trial::Trial;

/// The advice harness: what first advice gains on servers whose true bottleneck is known.
#[derive(Debug, Parser)]
struct Args {
    /// Only the servers of these names.
    #[arg(long)]
    case: Vec<String>,
    /// Which servers.
    #[arg(long, value_enum, default_value = "dev")]
    set: Set,
    /// Prints what every change of each server gains.
    #[arg(long)]
    each: bool,
    /// File that keeps the goodputs found by long simulation; delete it after a change of the engine model.
    #[arg(long, default_value = "target/advice-goodputs.tsv")]
    store: PathBuf,
    /// Folder that keeps the runs, a folder each by the name of the server; those that it has already are not measured again.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// A set of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Set {
    /// The named servers.
    Named,
    /// The named servers and the drawn ones for development.
    Dev,
    /// The held-out servers: to report, never to tune on.
    HeldOut,
}

fn main() -> Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mut cases: Vec<Case> = match args.set {
        Set::Named => named::named(),
        Set::Dev => named::named().into_iter().chain(drawn::development()?).collect(),
        Set::HeldOut => drawn::held_out()?,
    };
    cases.retain(|c| args.case.is_empty() || args.case.contains(&c.name));
    if cases.is_empty() {
        bail!("no server of this set goes by that name");
    }
    let store = Store::open(&args.store)?;
    let trials = each(cases.len(), |i| {
        let trial = Trial::of(&cases[i], &store, args.keep.as_deref())?;
        if args.each {
            println!("{}", table::one(&trial));
        }
        Ok(trial)
    })?;
    println!("{}", table::all(&trials));
    Ok(())
}
