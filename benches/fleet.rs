//! Measures what a sweep with workers costs, over a real broker: `cargo bench --bench fleet`. It needs `nats-server`.
//!
//! Name parts to measure only those: `cargo bench --bench fleet -- gather lost`. Broker, leader, workers and server share this machine, so give it nothing else to do.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on has failed")]

#[path = "fleet/ceiling.rs"]
mod ceiling;
#[path = "../crates/cluster/src/fixture.rs"]
mod fixture;
#[path = "fleet/gather.rs"]
mod gather;
#[path = "fleet/leader.rs"]
mod leader;
#[path = "fleet/messages.rs"]
mod messages;
#[path = "../tests/common/process.rs"]
mod process;
#[path = "fleet/processes.rs"]
mod processes;
#[path = "fleet/steps.rs"]
mod steps;

use std::process::{Command, Stdio};

/// The parts of the benchmark, in the order in which they run.
const PARTS: [(&str, fn()); 7] = [
    ("discovery", messages::discovery),
    ("clocks", messages::clocks),
    ("gather", gather::gather),
    ("start", steps::start),
    ("lost", steps::lost),
    ("idle", processes::idle),
    ("ceiling", ceiling::ceiling),
];

/// Prints a row of the table: a figure, its unit, and all of its measurements. Prints none without any.
fn print_row(figure: &str, unit: &str, mut all: Vec<f64>) {
    if all.is_empty() {
        return;
    }
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    let decimals = if at(1.0) >= 100.0 { 0 } else { 3 };
    println!(
        "| {figure} | {} | {:.decimals$} | {:.decimals$} | {:.decimals$} | {:.decimals$} | {:.decimals$} | {unit} |",
        all.len(),
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

fn main() {
    if Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("There is no nats-server: apt install nats-server");
        return;
    }
    // Cargo adds `--bench`.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let unknown = chosen.iter().find(|name| PARTS.iter().all(|(part, _)| part != name));
    assert!(unknown.is_none(), "there is no part {unknown:?}: {:?}", PARTS.map(|(name, _)| name));
    println!("| figure | n | least | p50 | p90 | p99 | most | unit |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (_, measure) in PARTS.iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|c| c == name))
    {
        measure();
    }
}
