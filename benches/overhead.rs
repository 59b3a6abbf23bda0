//! What clients add to the times that they measure: `cargo bench --bench overhead`.
//!
//! A server writes the first token of an answer after 50 ms and each further one after 10 ms, and stamps what it writes. The table has each
//! client's median and 99th percentile less those of the server; goodput counts TTFT from when a request is due, all others from when they have sent
//! it. vLLM's clients take part where `VLLM_BENCH` and `VLLM` name their programs and `TOKENIZER` a folder with a tokenizer:
//!
//! ```sh
//! VLLM_BENCH=vllm-bench VLLM=vllm TOKENIZER=model cargo bench --bench overhead -- streams=1,10,100,500,1000 rates=100,400
//! ```
//!
//! Each load lasts about five seconds, its beginning included, and the clients take turns. `docs/timing.md` quotes the results.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench tells its figures, and fails by panicking"
)]

#[path = "overhead/clients.rs"]
mod clients;
#[path = "overhead/ideal.rs"]
mod ideal;
#[path = "overhead/server.rs"]
mod server;

use clients::{Client, Load, Quantiles};
use goodput::load::descriptors::Descriptors;
use rustix::param::clock_ticks_per_second;
use server::Server;
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, ideal, url, kind, n] = &arguments[..]
        && ideal == "ideal"
    {
        let n = n.parse().unwrap();
        return ideal::main(url, if kind == "rate" { Load::Rate(n) } else { Load::Streams(n) });
    }
    Descriptors::raise();
    let asked = |key: &str, default: &[usize]| -> Vec<usize> {
        let given = arguments.iter().find_map(|argument| argument.strip_prefix(key));
        given.map_or(default.to_vec(), |list| list.split(',').filter_map(|n| n.parse().ok()).collect())
    };
    let streams = asked("streams=", &[1, 10, 100, 500, 1_000]).into_iter().map(Load::Streams);
    let loads: Vec<Load> = asked("rates=", &[100, 400]).into_iter().map(Load::Rate).chain(streams).collect();
    let server = Server::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let heads = [
        "load",
        "client",
        "requests",
        "TTFT of the server p50 / p99 ms",
        "TTFT error p50 / p99 ms",
        "from sent",
        "ITL error p50 / p99 ms",
        "CPU ms a request",
    ];
    println!("| {} |\n|{}", heads.join(" | "), " --- |".repeat(heads.len()));
    for load in loads {
        for client in Client::all().iter().filter(|client| client.can(load)) {
            println!("{}", measure(client, load, &server, dir.path()));
        }
    }
}

/// Returns one line of the table.
fn measure(client: &Client, load: Load, server: &Server, dir: &Path) -> String {
    let before = children_cpu_ms();
    server.take();
    let said = match client.run(&server.url, load, dir) {
        Ok(said) => said,
        Err(e) => return format!("| {} | {} | failed: {e} | | | | | |", load.name(), client.name()),
    };
    let (cpu, seen) = (children_cpu_ms() - before, server.take());
    let answers = seen.ttft.len();
    let (ttft, gaps) = (Quantiles::of(seen.ttft).unwrap(), Quantiles::of(seen.gaps).unwrap());
    let error = |said: Quantiles, truth: Quantiles| {
        format!("{:.2} / {:.2}", said.p50 - truth.p50, said.p99 - truth.p99)
    };
    format!(
        "| {} | {} | {} | {:.2} / {:.2} | {} | {} | {} | {:.3} |",
        load.name(),
        client.name(),
        said.requests,
        ttft.p50,
        ttft.p99,
        error(said.ttft, ttft),
        error(said.from_sent, ttft),
        error(said.itl, gaps),
        cpu / answers as f64,
    )
}

/// Returns the CPU time of the clients so far.
fn children_cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name of the program, in parentheses, may have spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(13) + ticks(14)) * 1e3 / clock_ticks_per_second() as f64
}
