//! How good the adaptive search is, on servers whose true goodput is known: whole sweeps on the bare engine model, many seeds. See
//! `docs/accuracy.md`.
//!
//! ```text
//! cargo run --release --example accuracy                             # development cases, 900 s, 60 runs of each
//! cargo run --release --example accuracy -- --held-out --budget 300,900,2700 --strategy ours,grid,bisect,joint
//! cargo run --release --example accuracy -- --case 8b --case mm1 --seeds 3 --each --steps
//! cargo run --release --example accuracy -- cases --held-out         # what is simulated
//! cargo run --release --example accuracy -- think --case 8b          # how long the search takes to choose a step
//! cargo run --release --example accuracy -- truths --case 8b         # its truth by long simulation, and the standard error
//! ```
//!
//! A new case is a line in `cases/dev.rs`; `truths` prints the line of constants that goes with it.
#![expect(clippy::print_stdout, reason = "it is a program")]

mod cases;
mod peers;
mod run;
mod score;
mod table;
mod truth;

use anyhow::{Result, bail};
use cases::{Case, Right};
use clap::{Parser, Subcommand};
use goodput::stats::step::Step;
use run::{Run, Setting, Strategy};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The accuracy harness: whole sweeps in virtual time on servers whose true goodput is known.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only the cases of these names.
    #[arg(long, global = true)]
    case: Vec<String>,
    /// The held-out cases in place of the development ones: to report, never to tune on.
    #[arg(long, global = true)]
    held_out: bool,
    /// Budgets in seconds.
    #[arg(long, value_delimiter = ',', default_value = "900")]
    budget: Vec<u32>,
    /// Runs of each case.
    #[arg(long, default_value_t = 60)]
    seeds: u32,
    /// The first run's number.
    #[arg(long, default_value_t = 1)]
    first: u32,
    /// Who searches.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "ours")]
    strategy: Vec<Strategy>,
    /// Where the adaptive search stops: the width of its interval as a share of the rate. So small that the budget ends it.
    #[arg(long, default_value_t = 0.01)]
    width: f64,
    /// Prints what each run answered.
    #[arg(long)]
    each: bool,
    /// Prints the steps of each run.
    #[arg(long)]
    steps: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the cases and their truths.
    Cases,
    /// Measures one long step at each true rate, as a sweep would, and prints the share of misses: it should be 1 %.
    Check {
        /// Requests of each case.
        #[arg(long, default_value_t = 100_000)]
        requests: u32,
    },
    /// Prints how long the search thinks about its next step, by the number of steps that it has seen.
    Think,
    /// Finds the truths by long simulation and prints them with their standard errors.
    Truths {
        /// Requests of each case.
        #[arg(long, default_value_t = 2_000_000)]
        requests: usize,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut cases = if args.held_out { cases::held_out() } else { cases::development() };
    cases.retain(|c| args.case.is_empty() || args.case.contains(&c.name));
    match args.command {
        Some(Command::Truths { requests }) => truths(&cases, requests),
        Some(Command::Check { requests }) => check(&cases, requests),
        Some(Command::Think) => think(&cases),
        Some(Command::Cases) => {
            println!("{}", table::cases(&cases));
            Ok(())
        }
        None => {
            for budget in &args.budget {
                for strategy in &args.strategy {
                    let setting =
                        Setting { strategy: *strategy, budget_s: f64::from(*budget), width: args.width };
                    println!("{}", sweeps(&cases, setting, &args)?);
                }
            }
            Ok(())
        }
    }
}

/// Milliseconds of one `next` after so many steps, the least of five: of a sweep that is long enough to have them.
fn think(cases: &[Case]) -> Result<()> {
    const STEPS: [usize; 3] = [10, 30, 100];
    for case in cases.iter().filter(|c| c.right() == Right::Rate) {
        let budget_s = 150.0 * 130.0;
        let steps = run::run(case, Setting { strategy: Strategy::Ours, budget_s, width: 0.001 }, 1)?.steps;
        let search = case.build(1, budget_s, 0.001)?.0.searcher().map_err(anyhow::Error::msg)?;
        let least = |n: usize| {
            let once = || {
                let began = tokio::time::Instant::now();
                std::hint::black_box(search.next(run::SERIES, &steps[..n.min(steps.len())]));
                began.elapsed().as_secs_f64() * 1e3
            };
            (0..5).map(|_| once()).fold(f64::INFINITY, f64::min)
        };
        let times = STEPS.map(|n| format!("{n} steps {:.1} ms", least(n))).join(", ");
        println!("{}, {} limits, {} steps in all: {times}", case.name, case.limits.len(), steps.len());
    }
    Ok(())
}

/// All runs of all cases under one setting, as tables.
fn sweeps(cases: &[Case], setting: Setting, args: &Args) -> Result<String> {
    if let Some(case) = cases.iter().find(|c| !c.truth.is_known()) {
        bail!("the truth of {} is not known: `accuracy truths --case {0}` finds it", case.name);
    }
    let seeds = args.seeds as usize;
    let runs = each(cases.len() * seeds, |i| {
        let (case, seed) = (&cases[i / seeds], args.first + (i % seeds) as u32);
        let mut run = run::run(case, setting, seed)?;
        if args.each {
            println!("{}", answer(case, seed, &run));
        }
        if args.steps {
            println!("{}", steps(&run));
        }
        // Hundreds of runs are kept, and nobody asks for their steps again.
        run.steps.clear();
        Ok(run)
    })?;
    let mut runs = runs.into_iter();
    let rows: Vec<_> = cases.iter().map(|case| (case, runs.by_ref().take(seeds).collect())).collect();
    Ok(table::tables(&rows, setting))
}

fn answer(case: &Case, seed: u32, run: &Run) -> String {
    let rate = |x: Option<f64>| x.map_or("–".to_owned(), |x| format!("{x:.4}"));
    let a = &run.answer;
    let [low, high] = a.interval.map_or([None, None], |[low, high]| [Some(low), Some(high)]);
    format!(
        "{} seed {seed}: {} rate {} in {} to {}, safe {}, truth {}, {:.0} s: {}",
        case.name,
        a.status.name(),
        rate(a.rate),
        rate(low),
        rate(high),
        rate(a.safe),
        rate(case.truth.rate),
        run.spent_s,
        a.reason
    )
}

fn steps(run: &Run) -> String {
    let line = |s: &Step| {
        let counts: Vec<String> = s
            .limits
            .iter()
            .map(|r| format!("{} {} of {} in {}", r.limit, r.misses, r.n, r.clusters))
            .collect();
        format!(
            "  {:>3} {:8} {:>14} {:>6.1} s until {:>6.0} s {:9} {}",
            s.step,
            s.kind,
            s.level.to_string(),
            s.measure_s,
            s.ended_s,
            s.verdict,
            counts.join(", ")
        )
    };
    run.steps.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Does something for every number below `n`, on all cores.
fn each<T: Send>(n: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let part = || {
        let own = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < n));
        own.map(|i| Ok((i, work(i)?))).collect::<Result<Vec<_>>>()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut done = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|_| scope.spawn(part)).collect();
        let mut done = Vec::new();
        for part in parts {
            done.extend(part.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??);
        }
        anyhow::Ok(done)
    })?;
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, t)| t).collect())
}

fn check(cases: &[Case], requests: u32) -> Result<()> {
    each(cases.len(), |i| {
        let case = &cases[i];
        if let Some(found) = run::at_truth(case, requests)? {
            // In standard errors of the count, its inflation being known.
            let error = (case.truth.inflation * 0.0099 / f64::from(requests)).sqrt();
            println!("{:12} {:.3} %, {:+.1} s.e.", case.name, 100.0 * found, (found - 0.01) / error);
        }
        Ok(())
    })?;
    Ok(())
}

fn truths(cases: &[Case], requests: usize) -> Result<()> {
    each(cases.len(), |i| {
        let started = tokio::time::Instant::now();
        let (t, said) = truth::find(&cases[i], requests)?;
        println!(
            "    (\"{}\", [{:.5}, {:.3}, {:.3}, {:.2}, {:.3}, {:.4}]), // r*/cap {:.2}, bound at 900 s {:.3}; {said}; {:.0} s",
            cases[i].name,
            t.rate.unwrap_or(0.0),
            100.0 * t.error,
            t.slope,
            t.inflation,
            t.capacity,
            100.0 * t.unloaded,
            t.rate.unwrap_or(0.0) / t.capacity,
            t.bound(900.0).unwrap_or(f64::NAN),
            started.elapsed().as_secs_f64()
        );
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
