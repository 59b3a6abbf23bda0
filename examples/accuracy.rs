//! How good the adaptive search is, on queues whose true goodput is known: whole sweeps on the bare engine model, many seeds.
//!
//! ```text
//! cargo run --release --example accuracy            # 100 seeds a case, a budget of 900 s
//! cargo run --release --example accuracy 20 2700    # 20 seeds, 2700 s
//! ```
#![expect(clippy::print_stdout, reason = "it is a program")]

use anyhow::{Context, Result};
use goodput::plan::Plan;
use goodput::search::Search;
use goodput::search::answer::{Goodput, Status};
use goodput::sweep::bare;
use std::thread;

/// A server, its limit on p99 TTFT, and its true goodput in requests/s (Poisson arrivals).
struct Case {
    name: &'static str,
    server: &'static str,
    ttft_p99: &'static str,
    truth: f64,
}

/// M/D/1 and M/M/1 with 50 ms of service; 32 servers with 2 s of holding time and 50 ms of prefill. The truths are closed
/// forms: Crommelin's distribution of the wait, 1 − ρ·exp(−(1 − ρ)·t/s), Erlang C with an exponential tail.
const CASES: [Case; 3] = [
    Case { name: "md1", server: "preset = \"md1\"", ttft_p99: "200ms", truth: 9.2576 },
    Case { name: "mm1", server: "preset = \"mm1\"", ttft_p99: "500ms", truth: 10.7897 },
    Case { name: "mmc", server: "preset = \"mmc\"", ttft_p99: "200ms", truth: 10.713 },
];

fn plan(case: &Case, seed: u32, budget: &str) -> Result<Plan> {
    let text = format!(
        "name = \"accuracy\"\nseed = {seed}\n[server]\nsimulated = {{ {}, seed = {seed} }}\n[slo]\nttft.p99 = \"{}\"\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 1 }}\noutput-tokens = {{ fixed = 2 }}\n\
         [search]\nadaptive = {{ budget = \"{budget}\" }}\nmax-rate = 1000\n",
        case.server, case.ttft_p99
    );
    Plan::from_text(&text)
}

/// One sweep: what it answered, and the seconds it took.
fn sweep(case: &Case, seed: u32, budget: &str, verbose: bool) -> Result<(Goodput, f64)> {
    let plan = plan(case, seed, budget)?;
    let steps = bare::steps(&plan)?;
    let search =
        Search::new(&plan.search, &plan.step, plan.slo.as_slice(), None).map_err(anyhow::Error::msg)?;
    let answer = search.answers("main", &steps).into_iter().next().context("there is one answer")?;
    if verbose {
        println!("\n{} seed {seed}: {}", case.name, answer.goodput.reason);
        for s in &steps {
            let row = &s.limits[0];
            println!(
                "  {:>3} {:9} {:>14} {:>7.1} s {:>6} of {:>6}  {:9} until {:.0} s",
                s.step,
                s.kind,
                s.level.to_string(),
                s.measure_s,
                row.misses,
                row.n,
                s.verdict,
                s.ended_s
            );
        }
    }
    Ok((answer.goodput, steps.last().map_or(0.0, |s| s.ended_s)))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let seeds: u32 =
        args.next().map_or(Ok(100), |n| n.parse()).context("the first argument is the number of seeds")?;
    let budget = args.next().unwrap_or_else(|| "900".into()) + "s";
    println!("{seeds} seeds a case, budget {budget}; errors are 100·ln(found/true)");
    println!(
        "| case | truth | found | RMSE of rate | RMSE of the middle | holds the truth | met violates | failed / met | time |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for case in &CASES {
        let runs = all(case, seeds, &budget)?;
        println!("{}", row(case, &runs));
    }
    Ok(())
}

fn all(case: &Case, seeds: u32, budget: &str) -> Result<Vec<(Goodput, f64)>> {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u32;
    thread::scope(|scope| {
        let part = |t: u32| {
            scope.spawn(move || {
                let own = (1..=seeds).filter(|seed| seed % threads == t);
                own.map(|seed| sweep(case, seed, budget, seeds < 4)).collect::<Result<Vec<_>>>()
            })
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        let mut runs = Vec::new();
        for part in parts {
            runs.extend(part.join().map_err(|_| anyhow::anyhow!("a sweep panicked"))??);
        }
        Ok(runs)
    })
}

fn row(case: &Case, runs: &[(Goodput, f64)]) -> String {
    let share = |n: usize, of: usize| {
        if of == 0 { "–".to_owned() } else { format!("{:.0} %", 100.0 * n as f64 / of as f64) }
    };
    let rmse = |errors: &[f64]| {
        (errors.iter().map(|e| e * e).sum::<f64>() / errors.len().max(1) as f64).sqrt() * 100.0
    };
    let found: Vec<&Goodput> = runs.iter().map(|r| &r.0).filter(|g| g.status == Status::Found).collect();
    let brackets: Vec<(f64, f64)> = found.iter().filter_map(|g| Some((g.met?, g.failed?))).collect();
    let rates: Vec<f64> = brackets.iter().map(|b| (b.0 / case.truth).ln()).collect();
    let middles: Vec<f64> = brackets.iter().map(|b| ((b.0 * b.1).sqrt() / case.truth).ln()).collect();
    let holds = brackets.iter().filter(|b| b.0 <= case.truth && case.truth <= b.1).count();
    let met: Vec<f64> = runs.iter().filter_map(|r| r.0.met).collect();
    let violates = met.iter().filter(|m| **m > case.truth).count();
    let width = brackets.iter().map(|b| (b.1 / b.0).ln()).sum::<f64>() / brackets.len().max(1) as f64;
    let time = runs.iter().map(|r| r.1).sum::<f64>() / runs.len().max(1) as f64;
    format!(
        "| {} | {} | {} | {:.1} % | {:.1} % | {} | {} | {:.2} | {time:.0} s |",
        case.name,
        case.truth,
        share(found.len(), runs.len()),
        rmse(&rates),
        rmse(&middles),
        share(holds, brackets.len()),
        share(violates, met.len()),
        width.exp()
    )
}
