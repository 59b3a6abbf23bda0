//! Rates of false alarms between runs on a single server, for every level that `compare` claims, on servers whose
//! misses come singly and in clusters.

use anyhow::{Context, Result, anyhow};
use clap::Args;
use goodput::compare::requests::Timed;
use goodput::compare::{Change, common_levels, group, whole_run};
use goodput::level::Level;
use goodput::plan::{MAIN, Plan};
use goodput::search::answer::{Goodput, Status};
use goodput::search::{Ask, Next};
use goodput::sweep::bare::Bare;
use goodput::sweep::cores::each;
use goodput::units::Span;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::time::Duration;

/// Two runs, or two groups of runs, on the same server.
#[derive(Debug, Args)]
pub(crate) struct Null {
    /// Only the cases of these names.
    #[arg(long)]
    case: Vec<String>,
    /// Sweeps of each case; two of them are a comparison.
    #[arg(long, default_value_t = 200)]
    sweeps: u32,
    /// The time that a sweep may take.
    #[arg(long, default_value = "15m")]
    budget: Span,
    /// The measured window of each level.
    #[arg(long, default_value = "2m")]
    window: Span,
    /// Standard deviation of the speed of a server from run to run, as a share: what a restart, or another day,
    /// changes.
    #[arg(long, default_value_t = 0.0)]
    scatter: f64,
    /// Runs of each side in groups.
    #[arg(long, value_delimiter = ',', default_values_t = [3, 5])]
    group: Vec<usize>,
    /// Leave out the levels.
    #[arg(long)]
    goodput_only: bool,
}

/// A server with a workload, a limit, and levels at which it is compared.
struct Case {
    name: &'static str,
    server: &'static str,
    workload: &'static str,
    limit: &'static str,
    rates: [f64; 3],
}

/// Prompts and answers of mixed lengths.
const MIXED: &str = "{ input-tokens.lognormal = { mean = 600, cv = 0.4, max = 2400 }, output-tokens.lognormal = { mean = 30, cv = 0.4, max = 120 } }";
/// Short prompts and answers of equal length.
const ALIKE: &str = "{ input-tokens.fixed = 50, output-tokens.fixed = 4 }";

/// All cases. Misses of the first two come singly or in short runs, those of the others in long ones.
const CASES: [Case; 5] = [
    Case { name: "md1", server: "preset = \"md1\"", workload: ALIKE, limit: "200ms", rates: [4.0, 6.0, 8.0] },
    Case {
        name: "a40",
        server: "preset = \"a40-qwen3-0.6b\"",
        workload: MIXED,
        limit: "80ms",
        rates: [10.0, 20.0, 30.0],
    },
    Case {
        name: "mm1",
        server: "preset = \"mm1\"",
        workload: ALIKE,
        limit: "500ms",
        rates: [4.0, 7.0, 10.0],
    },
    Case {
        name: "mm32",
        server: "preset = \"mmc\"",
        workload: ALIKE,
        limit: "200ms",
        rates: [6.0, 9.0, 12.0],
    },
    Case {
        name: "a40, 8 seats",
        server: "preset = \"a40-qwen3-0.6b\"\nmax-num-seqs = 8",
        workload: MIXED,
        limit: "300ms",
        rates: [10.0, 20.0, 25.0],
    },
];

impl Case {
    /// Returns the plan of a run. Its engine and its requests have separate random numbers.
    fn plan(&self, seed: u32, slow_down: f64, search: &str) -> Result<Plan> {
        let Self { server, workload, limit, .. } = self;
        Plan::from_text(&format!(
            "name = \"null\"\nseed = {seed}\nslo.ttft.p99 = \"{limit}\"\n[search]\n{search}\n\
             [server.simulated]\n{server}\nseed = {seed}\nslow-down = {slow_down}\n[workload]\nprompts.synthetic = {workload}"
        ))
    }

    /// Sweeps the server.
    fn sweep(&self, args: &Null, seed: u32) -> Result<Goodput> {
        let plan = self.plan(
            seed,
            speed(args.scatter, seed),
            &format!("adaptive.budget = \"{}\"\nmax-rate = 2000", args.budget),
        )?;
        let search = plan.searcher().map_err(|e| anyhow!(e))?;
        let mut sweep = Bare::new(&plan)?;
        while let Next::Measure(ask) = search.next(MAIN, sweep.steps()) {
            sweep.measure(ask)?;
        }
        let answer =
            search.answers(MAIN, sweep.steps()).into_iter().next().context("a sweep has an answer")?;
        Ok(answer.goodput)
    }

    /// Returns the requests of a run at each of the levels.
    fn levels(&self, args: &Null, seed: u32) -> Result<Vec<Vec<Timed>>> {
        let plan = self.plan(seed, speed(args.scatter, seed), "rates = [1]")?;
        let search = plan.searcher().map_err(|e| anyhow!(e))?;
        let Next::Measure(like) = search.next(MAIN, &[]) else { return Err(anyhow!("nothing to measure")) };
        let mut server = Bare::new(&plan)?;
        let settle = Duration::from_secs(10);
        let level = |rate: &f64| {
            let ask = Ask { level: Level::rate(*rate), settle, measure: args.window.0, ..like };
            let mut requests = Vec::new();
            server.measure_each(ask, |record| requests.push(Timed::of(record)))?;
            requests.sort_by(|a, b| a.due.total_cmp(&b.due));
            Ok(requests)
        };
        self.rates.iter().map(level).collect()
    }
}

/// Returns the slow-down of the server of a run: lognormal, where `scatter` is the standard deviation of the logarithm.
fn speed(scatter: f64, seed: u32) -> f64 {
    let z: f64 = StandardNormal.sample(&mut ChaCha8Rng::seed_from_u64(u64::from(seed) + 1_000_000));
    (scatter * z).exp()
}

/// Number of comparisons, and of those with a claim.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    of: u32,
    apart: u32,
    below: u32,
}

impl Count {
    fn add(&mut self, change: &Change) {
        self.of += 1;
        self.apart += u32::from(change.p.is_some_and(|p| p < 0.05));
        // A gate at no change fails if the whole interval lies on its far side.
        self.below += u32::from(change.interval.is_some_and(|[_, high]| high < 0.0));
    }

    fn words(self) -> String {
        let share = |n: u32| {
            if self.of == 0 {
                "–".to_owned()
            } else {
                format!("{:.1} %", 100.0 * f64::from(n) / f64::from(self.of))
            }
        };
        format!("{} | {} | {}", self.of, share(self.apart), share(self.below))
    }
}

/// Prints the rates of false alarms of every case.
pub(crate) fn run(args: &Null) -> Result<()> {
    println!(
        "{} sweeps of {} a case, speeds scatter by {:.0} %\n",
        args.sweeps,
        args.budget,
        100.0 * args.scatter
    );
    println!(
        "| server | claim | comparisons | told apart at 5 % | gate fails at no change |\n| --- | --- | --- | --- | --- |"
    );
    for case in CASES.iter().filter(|c| args.case.is_empty() || args.case.iter().any(|name| name == c.name)) {
        goodputs(case, args)?;
        if !args.goodput_only {
            levels(case, args)?;
        }
    }
    Ok(())
}

/// Prints the claims about the goodput, for pairs of runs and for pairs of groups.
fn goodputs(case: &Case, args: &Null) -> Result<()> {
    let sweeps: Vec<Goodput> = each(args.sweeps as usize, |i| case.sweep(args, i as u32 + 1))?;
    let found = sweeps.iter().filter(|g| g.status() == Status::Found).count();
    let mut two = Count::default();
    for pair in sweeps.chunks_exact(2) {
        whole_run::change(&pair[0], &pair[1], None).iter().for_each(|change| two.add(change));
    }
    println!("| {} | goodput of two runs ({found} of {} found) | {} |", case.name, sweeps.len(), two.words());
    for size in &args.group {
        for (old, new) in [(*size, *size), (*size, 1)] {
            let mut groups = Count::default();
            for both in sweeps.chunks_exact(old + new) {
                let all: Vec<&Goodput> = both.iter().collect();
                group::change(&all[..old], &all[old..]).iter().for_each(|change| groups.add(change));
            }
            println!("| {} | goodput of {new} against {old} runs | {} |", case.name, groups.words());
        }
    }
    Ok(())
}

/// Prints the claims about latencies at equal levels of two runs.
fn levels(case: &Case, args: &Null) -> Result<()> {
    let runs: Vec<Vec<Vec<Timed>>> = each(args.sweeps as usize, |i| case.levels(args, i as u32 + 1))?;
    let (mut tables, mut any, mut single) = (0, 0, Count::default());
    for pair in runs.chunks_exact(2) {
        let both: Vec<[&[Timed]; 2]> = pair[0].iter().zip(&pair[1]).map(|(a, b)| [&a[..], &b[..]]).collect();
        let claims = common_levels::claims(&both);
        tables += 1;
        any += u32::from(claims.iter().any(|(_, c)| c.beyond == goodput::compare::Beyond::Yes));
        claims.iter().filter(|(_, c)| c.p.is_some()).for_each(|(_, c)| single.add(c));
    }
    println!(
        "| {} | any latency of a table, all claims together | {tables} | {:.1} % | |",
        case.name,
        100.0 * f64::from(any) / f64::from(tables.max(1))
    );
    println!("| {} | a latency at a level, each by itself | {} |", case.name, single.words());
    Ok(())
}
