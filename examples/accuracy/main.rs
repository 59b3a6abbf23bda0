//! How good the adaptive search is, on servers whose true goodput is known: whole sweeps on the bare engine model, many seeds. See
//! `docs/accuracy.md`.
//!
//! ```text
//! cargo run --release --example accuracy                             # development cases, 900 s, 60 runs of each
//! cargo run --release --example accuracy -- --set held-out --budget 300,900,2700 --strategy ours,grid,bisect,joint
//! cargo run --release --example accuracy -- --case 8b --case mm1 --seeds 3 --each --steps
//! cargo run --release --example accuracy -- --group cliffs,breaks     # by what the cases are about
//! cargo run --release --example accuracy -- cases --set held-out     # what is simulated
//! cargo run --release --example accuracy -- bounds                   # how often the printed bounds of a p99 hold it
//! cargo run --release --example accuracy -- knee                     # how near the knee of a ramp lies to the capacity
//! cargo run --release --example accuracy -- think --case 8b          # how long the search takes to choose a step
//! cargo run --release --example accuracy -- truths --case 8b         # its truth by long simulation, and the standard error
//! cargo run --release --example accuracy -- quantiles --case 8b --rate 15
//! ```
//!
//! There are three sets. The search may be tuned on the *development* cases (`dev`). The *held-out* ones (`held-out`) are forty draws from
//! a wide distribution whose seed was fixed before the first run: they are run to report, never to tune on. The held-out ones of before
//! (`former`) have been looked at, and are kept to compare with what was published.
//!
//! A new case is a line in one of the files of `cases`; `truths` prints the line of constants that goes with it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

mod cases;
mod peers;
mod run;
mod score;
mod table;
mod truth;

use anyhow::{Context, Result, bail};
use cases::{Arrivals, Case, Group, Right};
use clap::{Parser, Subcommand, ValueEnum};
use goodput::stats::step::Step;
use goodput::sweep::cores::each;
use run::{Run, Setting, Strategy};

/// The accuracy harness: whole sweeps in virtual time on servers whose true goodput is known.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only the cases of these names.
    #[arg(long, global = true)]
    case: Vec<String>,
    /// Only the cases of these groups.
    #[arg(long, global = true, value_delimiter = ',')]
    group: Vec<String>,
    /// Which cases.
    #[arg(long, global = true, value_enum, default_value = "dev")]
    set: Set,
    /// Budgets in seconds.
    #[arg(long, value_delimiter = ',', default_value = "900")]
    budget: Vec<u32>,
    /// Runs of each case.
    #[arg(long, global = true, default_value_t = 60)]
    seeds: u32,
    /// The first run's number.
    #[arg(long, global = true, default_value_t = 1)]
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

/// A set of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Set {
    /// The development cases.
    Dev,
    /// The held-out cases: to report, never to tune on.
    HeldOut,
    /// The held-out cases of before, which have been looked at.
    Former,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the cases and their truths.
    Cases,
    /// Measures one long step at each true rate, as a sweep would, and prints the misses over what the limit allows: it should be 1.
    Check {
        /// Requests of each case.
        #[arg(long, default_value_t = 100_000)]
        requests: u32,
    },
    /// Measures steps at the true rate and prints how often the 95 % bounds of their p99 hold the limit, which is the true p99 there.
    Bounds {
        /// Steps of each case.
        #[arg(long, default_value_t = 200)]
        steps: u32,
    },
    /// Ramps the rate until the knee and prints how near the knee lies to the capacity of the model.
    Knee,
    /// Prints how long the search thinks about its next step, by the number of steps that it has seen.
    Think,
    /// Prints percentiles of the latencies at a rate: for choosing limits.
    Quantiles {
        /// Requests per second.
        #[arg(long)]
        rate: f64,
        /// Requests of each case.
        #[arg(long, default_value_t = 1_000_000)]
        requests: usize,
    },
    /// Finds the truths by long simulation and prints them with their standard errors.
    Truths {
        /// Requests of each case.
        #[arg(long, default_value_t = 2_000_000)]
        requests: usize,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut cases = match args.set {
        Set::Dev => cases::development(),
        Set::HeldOut => cases::held_out(),
        Set::Former => cases::former(),
    };
    cases.retain(|c| args.case.is_empty() || args.case.contains(&c.name));
    cases.retain(|c| args.group.is_empty() || args.group.iter().any(|g| g == c.group.title()));
    if cases.is_empty() {
        bail!("no case of this set goes by that name or group: `accuracy cases` lists them");
    }
    match args.command {
        Some(Command::Bounds { steps }) => bounds(&cases, steps, args.first),
        Some(Command::Knee) => knee(&cases, args.first, args.seeds),
        Some(Command::Quantiles { rate, requests }) => {
            for case in &cases {
                println!("{}\n{}", case.name, truth::quantiles(case, rate, requests)?);
            }
            Ok(())
        }
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
        println!("{}, {} limits, {} steps in all: {times}", case.name, case.targets.len(), steps.len());
    }
    Ok(())
}

/// All runs of all cases under one setting, as tables.
fn sweeps(cases: &[Case], setting: Setting, args: &Args) -> Result<String> {
    for case in cases.iter().filter(|c| !c.truth.is_known()) {
        eprintln!("left out: the truth of {} is not known; `accuracy truths --case {0}` finds it", case.name);
    }
    let suited = |c: &&Case| c.truth.is_known() && (setting.strategy == Strategy::Ours || c.suits_peers());
    let cases: Vec<&Case> = cases.iter().filter(suited).collect();
    let seeds = |case: &Case| args.seeds.min(case.most_runs());
    let jobs: Vec<(&Case, u32)> =
        cases.iter().flat_map(|case| (0..seeds(case)).map(|i| (*case, args.first + i))).collect();
    let runs = each(jobs.len(), |i| {
        let (case, seed) = jobs[i];
        let mut run = run::run(case, setting, seed).with_context(|| format!("{} seed {seed}", case.name))?;
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
    let rows: Vec<_> =
        cases.iter().map(|case| (*case, runs.by_ref().take(seeds(case) as usize).collect())).collect();
    Ok(table::tables(&rows, setting))
}

/// Coverage of the printed bounds of the p99 at the true rate, where the limit is the true p99.
fn bounds(cases: &[Case], steps: u32, first: u32) -> Result<()> {
    let suited = |c: &&Case| {
        let plain = c.group.is_steady() && c.suits_peers() && c.joint.is_none();
        c.right() == Right::Rate
            && plain
            && matches!(&c.targets[..], [t] if (t.percentile - 99.0).abs() < 1e-9 && t.metric.is_per_request())
            && c.truth.slope.is_finite()
    };
    let cases: Vec<&Case> = cases.iter().filter(suited).collect();
    println!(
        "| case | steps | no bound | held, of those with both | limit below | limit above |\n|---|---|---|---|---|---|"
    );
    let rows = each(cases.len(), |i| {
        let case = cases[i];
        let limit = case.targets[0].ms;
        let all = run::bounds_at_truth(case, first, steps)?;
        let both: Vec<(f64, f64)> = all.iter().filter_map(|[low, high]| Some(((*low)?, (*high)?))).collect();
        let share = |n: usize| format!("{:.0} %", 100.0 * n as f64 / both.len().max(1) as f64);
        let below = both.iter().filter(|(low, _)| limit < *low).count();
        let above = both.iter().filter(|(_, high)| limit > *high).count();
        let line = format!(
            "| {} | {} | {} | {} | {} | {} |",
            case.name,
            all.len(),
            all.len() - both.len(),
            share(both.len() - below - above),
            share(below),
            share(above)
        );
        Ok((line, (both.len() - below - above) as f64 / both.len() as f64))
    })?;
    rows.iter().for_each(|(line, _)| println!("{line}"));
    let held: Vec<f64> = rows.iter().map(|r| r.1).filter(|x| x.is_finite()).collect();
    println!("| mean | | | {:.0} % | | |", 100.0 * score::mean(&held));
    Ok(())
}

/// How often the knee of a ramp lies within a tenth of the capacity.
fn knee(cases: &[Case], first: u32, seeds: u32) -> Result<()> {
    let suited = |c: &&Case| {
        let plain = c.group.is_steady() && c.suits_peers() && c.cap.is_none();
        plain && c.truth.is_known() && c.arrivals != Arrivals::Constant && c.group != Group::Limit
    };
    let cases: Vec<&Case> = cases.iter().filter(suited).collect();
    println!(
        "| case | capacity | runs | named a knee | within 10 % | median of knee / capacity |\n|---|---|---|---|---|---|"
    );
    let seeds = seeds as usize;
    let knees = each(cases.len() * seeds, |i| run::knee(cases[i / seeds], first + (i % seeds) as u32))?;
    let mut within_all = 0;
    for (case, knees) in cases.iter().zip(knees.chunks(seeds)) {
        let ratios: Vec<f64> = knees.iter().flatten().map(|k| k / case.truth.capacity).collect();
        let within = ratios.iter().filter(|r| (0.9..=1.1).contains(*r)).count();
        within_all += within;
        println!(
            "| {} | {:.3} | {seeds} | {} | {:.0} % | {:.2} |",
            case.name,
            case.truth.capacity,
            ratios.len(),
            100.0 * within as f64 / seeds as f64,
            score::median(&ratios)
        );
    }
    println!(
        "| all | | {} | | {:.0} % | |",
        knees.len(),
        100.0 * within_all as f64 / knees.len().max(1) as f64
    );
    Ok(())
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

fn check(cases: &[Case], requests: u32) -> Result<()> {
    each(cases.len(), |i| {
        let case = &cases[i];
        if let Some(found) = run::at_truth(case, requests)? {
            // In standard errors of the count, its inflation being known.
            let p = case.truth.allowed;
            let error = (case.truth.inflation * (1.0 - p) / (p * f64::from(requests))).sqrt();
            println!("{:12} {found:.3}, {:+.1} s.e.", case.name, (found - 1.0) / error);
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
