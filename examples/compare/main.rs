//! Rates of false alarms and of missed differences of `compare`, on the bare engine model, over many seeds: two
//! simulated servers measured in turns, and with `null` two runs, or groups of runs, on a single server. See
//! `docs/compare.md`.
//!
//! ```text
//! cargo run --release --example compare                                  # the study of docs/compare.md: 100 seeds, same and 15 % slower
//! cargo run --release --example compare -- null                          # false alarms of every claim
//! cargo run --release --example compare -- null --scatter 0.05 --goodput-only
//! cargo run --release --example compare -- --slow-down 1,1.05 --budget 5m --seeds 50 --preset demo --each
//! ```
#![expect(clippy::print_stdout, reason = "it is a program")]

mod null;

use anyhow::{Result, anyhow};
use clap::{Parser, Subcommand};
use goodput::compare::pair::Schedule;
use goodput::compare::paired::claims;
use goodput::compare::requests::Timed;
use goodput::compare::{Beyond, Change, Column};
use goodput::level::Level;
use goodput::plan::Plan;
use goodput::report::words::{figure_title, signed_percent};
use goodput::search::{Ask, Next};
use goodput::sweep::bare::Bare;
use goodput::sweep::cores::each;
use goodput::units::Span;
use std::time::Duration;

/// How often a comparison in turns is wrong, and how often it finds a slower server.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Study>,
    /// The engine.
    #[arg(long, default_value = "a40-qwen3-0.6b")]
    preset: String,
    /// Equal rates.
    #[arg(long, value_delimiter = ',', default_value = "10,20")]
    rates: Vec<f64>,
    /// What both servers together are measured for.
    #[arg(long, default_value = "10m")]
    budget: Span,
    /// So many times as slow is the second server.
    #[arg(long, value_delimiter = ',', default_value = "1,1.15")]
    slow_down: Vec<f64>,
    /// Runs of each.
    #[arg(long, default_value_t = 100)]
    seeds: u32,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u32,
    /// Prompt and answer, mean tokens.
    #[arg(long, value_delimiter = ',', default_values_t = [600, 30])]
    tokens: Vec<u32>,
    /// Print the strongest claim of each run.
    #[arg(long)]
    each: bool,
}

#[derive(Debug, Subcommand)]
enum Study {
    /// Two runs, or two groups of runs, on the same server: how often each claim is a false alarm.
    Null(null::Null),
}

/// Returns the plan of one server. Its engine has separate random numbers, and its requests those of the pair.
fn plan(args: &Args, seed: u32, side: u64, slow_down: f64) -> Result<Plan> {
    let (input, output) =
        (args.tokens.first().copied().unwrap_or(600), args.tokens.get(1).copied().unwrap_or(30));
    Plan::from_text(&format!(
        "name = \"one of two\"\nseed = {seed}\nslo = {{ ttft.p99 = \"1s\", tpot.p99 = \"200ms\" }}\nsearch.rates = [1]\n\
         [server.simulated]\npreset = \"{}\"\nseed = {}\nslow-down = {slow_down}\n[workload]\n\
         prompts.synthetic = {{ input-tokens.lognormal = {{ mean = {input}, cv = 0.4, max = {} }}, output-tokens.lognormal = {{ mean = {output}, cv = 0.4, max = {} }} }}",
        args.preset,
        2 * u64::from(seed) + side,
        4 * input,
        4 * output,
    ))
}

/// Makes one comparison and returns its claims.
fn measure(args: &Args, seed: u32, slow_down: f64) -> Result<Vec<(Column, Change)>> {
    let schedule = Schedule::of(args.budget.0, args.rates.len(), Duration::from_secs(1))?;
    let plans = [plan(args, seed, 0, 1.0)?, plan(args, seed, 1, slow_down)?];
    let mut servers = [Bare::new(&plans[0])?, Bare::new(&plans[1])?];
    let search = plans[0].searcher().map_err(|e| anyhow!(e))?;
    let Next::Measure(like) = search.next(goodput::plan::MAIN, &[]) else {
        return Err(anyhow!("nothing to measure"));
    };
    let mut pairs: Vec<Vec<[Vec<Timed>; 2]>> = vec![Vec::new(); args.rates.len()];
    for _ in 0..schedule.turns.get() {
        for (level, rate) in pairs.iter_mut().zip(&args.rates) {
            let ask =
                Ask { level: Level::rate(*rate), settle: schedule.settle, measure: schedule.measure, ..like };
            let mut both = [Vec::new(), Vec::new()];
            for (server, requests) in servers.iter_mut().zip(&mut both) {
                server.measure_each(ask, |record| requests.push(Timed::of(record)))?;
            }
            level.push(both);
        }
    }
    let slices: Vec<_> =
        pairs.iter().map(|l| l.iter().map(|[a, b]| (a.as_slice(), b.as_slice())).collect()).collect();
    Ok(claims(&slices))
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(Study::Null(null)) = &args.command {
        return null::run(null);
    }
    let schedule = Schedule::of(args.budget.0, args.rates.len(), Duration::from_secs(1))?;
    println!(
        "{}, {} tokens, {} req/s, budget {}: {} turns of {} s each, {} settled",
        args.preset,
        args.tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" / "),
        args.rates.iter().map(f64::to_string).collect::<Vec<_>>().join(" and "),
        args.budget,
        schedule.turns,
        schedule.measure.as_secs(),
        Span(schedule.settle),
    );
    for slow_down in &args.slow_down {
        case(&args, *slow_down)?;
    }
    Ok(())
}

fn case(args: &Args, slow_down: f64) -> Result<()> {
    let all = each(args.seeds as usize, |i| {
        let seed = args.first + i as u32;
        Ok((seed, measure(args, seed, slow_down)?))
    })?;
    let (mut found, mut wrong_way, mut gates) = (0, 0, 0);
    let mut columns: Vec<(Column, u32, f64, f64, u32)> = Vec::new();
    let truth = slow_down - 1.0;
    for (seed, claims) in all {
        let beyond: Vec<&(Column, Change)> = claims.iter().filter(|(_, c)| c.beyond == Beyond::Yes).collect();
        found += u32::from(!beyond.is_empty());
        // A gate at no change fails if the whole interval lies beyond zero.
        gates += claims.iter().filter(|(_, c)| c.interval.is_some_and(|[low, _]| low > 0.0)).count();
        wrong_way += u32::from(beyond.iter().any(|(_, c)| c.share.is_some_and(|s| s < 0.0)));
        for (column, change) in &claims {
            let at = columns.iter().position(|c| c.0 == *column).unwrap_or_else(|| {
                columns.push((*column, 0, 0.0, 0.0, 0));
                columns.len() - 1
            });
            let (_, yes, share, detectable, held) = &mut columns[at];
            *yes += u32::from(change.beyond == Beyond::Yes);
            *share += change.share.unwrap_or(0.0) / f64::from(args.seeds);
            *detectable += change.detectable.unwrap_or(0.0) / f64::from(args.seeds);
            *held += u32::from(change.interval.is_some_and(|[l, h]| l <= truth && truth <= h));
        }
        if args.each {
            let strongest =
                claims.iter().min_by(|a, b| a.1.p.unwrap_or(1.0).total_cmp(&b.1.p.unwrap_or(1.0)));
            if let Some((column, change)) = strongest {
                println!(
                    "  seed {seed}: {} of {} claims; {} {} p = {:.4}",
                    beyond.len(),
                    claims.len(),
                    figure_title(*column),
                    signed_percent(change.share.unwrap_or(0.0)),
                    change.p.unwrap_or(1.0)
                );
            }
        }
    }
    println!(
        "slow-down {slow_down}: a difference found in {found} of {} runs, {wrong_way} of them the wrong way",
        args.seeds
    );
    println!("  a gate at no change fails {gates} times, of one for each latency and run");
    for (column, yes, share, detectable, held) in columns {
        println!(
            "  {:9} beyond noise in {yes:3}; mean change {:>7}; 95 % interval holds {:>6} in {held:3}; detectable {:>7}",
            figure_title(column),
            signed_percent(share),
            signed_percent(truth),
            signed_percent(detectable)
        );
    }
    Ok(())
}
