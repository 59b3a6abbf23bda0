//! Accuracy of the elasticities of `goodput sensitivity`, on queues whose elasticity is known in closed form or by long
//! simulation.
//!
//! ```sh
//! cargo run --release --example sensitivity -- --runs 200
//! ```
//!
//! Each run measures as the command does (five turns of four steps of 60 s after 15 s, with the command's arrivals and
//! lengths) around a boundary with the error of a sweep of 900 s: 6 %. Prints the truth, bias, RMSE, and the share of
//! runs whose 90 % interval contains the truth.

#![expect(clippy::print_stdout, reason = "it is a program")]

use goodput::stats::elasticity::{elasticity, tail_log};
use goodput::units::{Positive, Rate};
use goodput::workload::arrivals::{Arrivals, GammaShape, Times};
use goodput::workload::lengths::Lengths;
use goodput::workload::seed::{Purpose, stream};
use std::collections::BinaryHeap;

/// A queue in front of some servers. A request takes `fixed + each × tokens` seconds.
struct Server {
    name: &'static str,
    servers: usize,
    fixed: f64,
    each: f64,
    lengths: &'static str,
    /// Limit on the 99th percentile of the time in the system, in seconds.
    limit: f64,
    /// Share by which the rate is moved, as the command chooses it from the slope of the tail.
    by: f64,
}

const SERVERS: [Server; 4] = [
    Server {
        name: "M/D/1, limit 4 × service",
        servers: 1,
        fixed: 0.0,
        each: 5e-4,
        lengths: "{ fixed = 100 }",
        limit: 0.2,
        by: 0.2,
    },
    Server {
        name: "M/D/1, limit 20 × service",
        servers: 1,
        fixed: 0.0,
        each: 5e-4,
        lengths: "{ fixed = 100 }",
        limit: 1.0,
        by: 0.05,
    },
    Server {
        name: "prefill, lognormal prompts",
        servers: 1,
        fixed: 0.005,
        each: 2e-5,
        lengths: "{ lognormal = { mean = 1000, cv = 1.0 } }",
        limit: 0.4,
        by: 0.14,
    },
    Server {
        name: "8 seats, lognormal answers",
        servers: 8,
        fixed: 0.1,
        each: 2e-3,
        lengths: "{ lognormal = { mean = 200, cv = 0.5 } }",
        limit: 2.5,
        by: 0.08,
    },
];

/// A factor of the workload whose elasticity is measured.
#[derive(Clone, Copy, PartialEq)]
enum Factor {
    Length,
    Burstiness,
}

/// The load of one step.
#[derive(Clone, Copy)]
struct Step {
    rate: f64,
    length: f64,
    cv: f64,
    seed: u32,
    turn: u32,
}

impl Server {
    fn lengths(&self) -> Lengths {
        #[derive(serde::Deserialize)]
        struct T {
            x: Lengths,
        }
        toml::from_str::<T>(&format!("x = {}", self.lengths)).map(|t| t.x).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the times in the system of the requests due between two times, in seconds.
    fn serve(&self, step: Step, from: f64, to: f64) -> Vec<f64> {
        let key = |purpose| stream(step.seed, "in turns", step.turn, purpose);
        let cv = Positive::try_from(step.cv).unwrap_or_else(|e| panic!("{e}"));
        let shape = if (step.cv - 1.0).abs() < 1e-12 {
            Arrivals::Poisson
        } else {
            Arrivals::Gamma(GammaShape { cv })
        };
        let rate = Rate::try_from(step.rate).unwrap_or_else(|e| panic!("{e}"));
        let (lengths, mut rng) = (self.lengths().scaled(step.length), key(Purpose::Input));
        // Negative nanoseconds, so that the greatest is the seat that becomes free first.
        let mut seats: BinaryHeap<i64> = vec![0; self.servers].into();
        let mut all = Vec::new();
        for due in Times::new(shape, rate, key(Purpose::Arrivals)) {
            let now = due.as_secs_f64();
            if now > to {
                break;
            }
            let free = -seats.pop().unwrap_or(0) as f64 / 1e9;
            let end = free.max(now) + self.fixed + self.each * f64::from(lengths.draw(&mut rng));
            seats.push(-(end * 1e9) as i64);
            if now >= from {
                all.push(end - now);
            }
        }
        all
    }

    /// Finds the highest rate whose p99 is within the limit, in a long simulation.
    fn boundary(&self, length: f64, cv: f64, requests: f64) -> f64 {
        let (mut low, mut high) =
            (0.0, self.servers as f64 / (self.fixed + self.each * length * self.lengths().mean()));
        for _ in 0..18 {
            let rate = (low + high) / 2.0;
            let step = Step { rate, length, cv, seed: 99, turn: 1 };
            let mut times = self.serve(step, 500.0 / rate, requests / rate);
            times.sort_unstable_by(f64::total_cmp);
            let p99 = times[(0.99 * times.len() as f64).ceil() as usize - 1];
            if p99 <= self.limit { low = rate } else { high = rate }
        }
        (low + high) / 2.0
    }

    /// Computes d ln r*/d ln x by central differences of long simulations.
    fn truth(&self, factor: Factor, requests: f64) -> f64 {
        let by: f64 = 1.08;
        let at = |by: f64| match factor {
            Factor::Length => self.boundary(by, 1.0, requests),
            Factor::Burstiness => self.boundary(1.0, by, requests),
        };
        (at(by) / at(1.0 / by)).ln() / (2.0 * by.ln())
    }

    /// Returns the slope of the tail of each turn as a factor is moved to either side.
    fn slopes(&self, by: f64, seed: u32, step: impl Fn(f64) -> Step) -> Vec<f64> {
        let tail = |to: f64, turn: u32| {
            let step = Step { seed, turn, ..step(to) };
            tail_log(&mut self.serve(step, 15.0, 75.0), 0.01).unwrap_or(f64::NAN)
        };
        (1..=5)
            .map(|turn| (tail(1.0 + by, turn) - tail(1.0 / (1.0 + by), turn)) / (2.0 * by.ln_1p()))
            .collect()
    }
}

fn main() {
    let number = |name: &str, or: f64| {
        let mut args = std::env::args().skip_while(|a| a != name).skip(1);
        args.next().and_then(|n| n.parse().ok()).unwrap_or(or)
    };
    let (runs, long) = (number("--runs", 200.0) as u32, number("--long", 2e6));
    println!("| server | factor | truth | bias | RMSE | covers | median width |");
    println!("| --- | --- | --: | --: | --: | --: | --: |");
    for server in &SERVERS {
        let boundary = server.boundary(1.0, 1.0, long);
        for factor in [Factor::Length, Factor::Burstiness] {
            let truth = server.truth(factor, long);
            let (mut bias, mut squares, mut covers, mut widths) = (0.0, 0.0, 0, Vec::new());
            for run in 0..runs {
                // The boundary as a sweep finds it, with 6 % of scatter: quantiles of a normal distribution in a fixed
                // order.
                let z = [-1.38, 0.0, 0.67, -0.67, 1.38, -0.32, 0.32, 1.0, -1.0][run as usize % 9];
                let centre = boundary * f64::exp(0.06 * z);
                let at = |rate: f64, length: f64, cv: f64| Step { rate, length, cv, seed: run, turn: 0 };
                let rate = server.slopes(server.by, run, |by| at(centre * by, 1.0, 1.0));
                let own = match factor {
                    Factor::Length => server.slopes(server.by, run, |by| at(centre, by, 1.0)),
                    Factor::Burstiness => {
                        server.slopes((3.0 * server.by).min(0.2), run, |by| at(centre, 1.0, by))
                    }
                };
                let Some(e) = elasticity(&rate, &own) else { continue };
                bias += (e.value - truth) / f64::from(runs);
                squares += (e.value - truth).powi(2) / f64::from(runs);
                covers += u32::from(e.interval90.is_none_or(|[low, high]| low <= truth && truth <= high));
                widths.extend(e.interval90.map(|[low, high]| high - low));
            }
            widths.sort_unstable_by(f64::total_cmp);
            println!(
                "| {} | {} | {truth:.2} | {bias:+.2} | {:.2} | {:.0} % | {:.2} |",
                server.name,
                if factor == Factor::Length { "length" } else { "burstiness" },
                f64::sqrt(squares),
                100.0 * f64::from(covers) / f64::from(runs),
                widths.get(widths.len() / 2).copied().unwrap_or(f64::INFINITY)
            );
        }
    }
}
