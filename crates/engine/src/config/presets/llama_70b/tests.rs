use super::count;
use crate::Request;
use crate::batch::{Batch, Limits, Settings};
use crate::config::{Deployment, Engine, Simulated};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use std::time::Duration;

/// `max-num-seqs`; published output tokens per second, median and p99 TPOT in ms.
const BY_SEATS: [(u32, f64, f64, f64); 7] = [
    (8, 1280.0, 6.2, 8.1),
    (16, 2410.0, 6.6, 9.5),
    (32, 3780.0, 8.4, 12.8),
    (64, 4650.0, 13.7, 19.2),
    (128, 5120.0, 24.9, 35.1),
    (256, 4890.0, 52.3, 78.4),
    (512, 3200.0, 159.8, 245.0),
];

/// Share of memory; published blocks, sequences and output tokens per second.
const BY_SHARE: [(&str, u32, u32, f64); 4] = [
    ("0.80", 1842, 28, 3150.0),
    ("0.85", 2105, 32, 3480.0),
    ("0.90", 2368, 36, 3780.0),
    ("0.92", 2473, 38, 3850.0),
];

/// Prompt tokens computed in one iteration; published time in ms.
const BY_PROMPT: [(u32, f64); 3] = [(512, 28.0), (2048, 95.0), (4096, 198.0)];

/// Results of a closed loop.
#[derive(Debug)]
struct ClosedLoop {
    output_rate: f64,
    /// TPOT in ms of the requests that finished in the window, ascending.
    tpot: Vec<f64>,
    /// Preemptions per request finished in the window.
    preemptions: f64,
    most_running: usize,
}

impl ClosedLoop {
    fn tpot(&self, share: f64) -> f64 {
        self.tpot[(share * self.tpot.len() as f64).ceil() as usize - 1]
    }
}

/// Runs a closed loop of `concurrency` requests from an idle engine, and measures in the window `(from, to)`.
fn saturate(
    sim: &Simulated,
    concurrency: u64,
    mut lengths: impl FnMut() -> (u32, u32),
    (from, to): (Duration, Duration),
) -> ClosedLoop {
    let mut model = sim.build();
    let mut next = 0;
    // By id: length of the answer, and time of its first token.
    let mut open: Vec<(u32, Option<Duration>)> = vec![];
    let mut arrive = |model: &mut crate::Model, open: &mut Vec<_>, at| {
        let (input, output) = lengths();
        open.push((output, None));
        model.arrive(at, Request::new(next, input, output));
        next += 1;
    };
    (0..concurrency).for_each(|_| arrive(&mut model, &mut open, Duration::ZERO));
    let (mut tokens, mut tpot, mut before, mut most_running) = (0_u64, vec![], 0, 0);
    while let Some(at) = model.next_event().filter(|at| *at <= to) {
        if at <= from {
            before = model.preemptions();
        } else {
            most_running = most_running.max(model.running());
        }
        for e in model.advance(at) {
            tokens += u64::from(at > from);
            let (output, first) = &mut open[e.id as usize];
            let first = *first.get_or_insert(e.at);
            if e.finished {
                if at > from {
                    tpot.push((e.at - first).as_secs_f64() * 1e3 / f64::from(*output - 1));
                }
                arrive(&mut model, &mut open, at);
            }
        }
    }
    tpot.sort_by(f64::total_cmp);
    ClosedLoop {
        output_rate: tokens as f64 / (to - from).as_secs_f64(),
        preemptions: (model.preemptions() - before) as f64 / tpot.len() as f64,
        tpot,
        most_running,
    }
}

fn parse(text: &str) -> Simulated {
    toml::from_str(text).unwrap()
}

/// Workload of the first table: a prompt of 40 tokens and a long answer.
fn long_answers(seed: u64) -> impl FnMut() -> (u32, u32) {
    let (normal, mut rng) = (Normal::new(2950.0, 0.11 * 2950.0).unwrap(), ChaCha8Rng::seed_from_u64(seed));
    move || {
        let output: f64 = normal.sample(&mut rng);
        (40, output.round().clamp(1760.0, 3460.0) as u32)
    }
}

/// Workload of the second table: up to 1,024 tokens, nearly half of them prompt.
fn half_prompt(seed: u64) -> impl FnMut() -> (u32, u32) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    move || (480, rng.random_range(472..=544))
}

fn by_seats(seats: u32, seed: u64, minutes: u64) -> ClosedLoop {
    let sim = parse(&format!("preset = \"4xa100-llama-70b\"\nmax-num-seqs = {seats}\nseed = {seed}"));
    let window = (10, 10 + minutes);
    let [from, to] = [window.0, window.1].map(|minute| Duration::from_secs(60 * minute));
    saturate(&sim, 2 * u64::from(seats), long_answers(seed), (from, to))
}

fn by_share(share: &str, seed: u64, minutes: u64) -> (Simulated, ClosedLoop) {
    let sim = parse(&format!(
        "preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = {share}\nseed = {seed}"
    ));
    let [from, to] = [1, 1 + minutes].map(|minute| Duration::from_secs(60 * minute));
    let reached = saturate(&sim, 80, half_prompt(seed), (from, to));
    (sim, reached)
}

fn within(got: f64, wanted: f64, share: f64, what: &str) {
    assert!((got / wanted - 1.0).abs() <= share, "{what}: {got}, not {wanted} within {share}");
}

/// Runs of this length have an error of about 3 % (the drift), and of 5 % in p99.
#[test]
fn max_num_seqs_reproduces_the_published_table() {
    let mut best = vec![];
    for (seats, rate, p50, p99) in BY_SEATS {
        let run = by_seats(seats, 1, if seats < 256 { 10 } else { 30 });
        let tpot = [run.tpot(0.5), run.tpot(0.99)];
        within(run.output_rate, rate, 0.10, &format!("tokens/s with {seats}"));
        within(tpot[0], p50, 0.10, &format!("median TPOT with {seats}"));
        within(tpot[1], p99, 0.25, &format!("p99 TPOT with {seats}"));
        assert_eq!(
            run.preemptions > 0.01,
            seats >= 256,
            "{} preemptions a request with {seats}",
            run.preemptions
        );
        best.push((seats, run.output_rate, tpot[1] <= 20.0));
    }
    let most = |rows: &mut dyn Iterator<Item = &(u32, f64, bool)>| {
        rows.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0
    };
    assert_eq!(most(&mut best.iter()), 128, "raw peak");
    assert_eq!(most(&mut best.iter().filter(|row| row.2)), 64, "best within 20 ms");
}

#[test]
fn gpu_memory_utilization_reproduces_the_published_table() {
    for (share, blocks, sequences, rate) in BY_SHARE {
        let (sim, run) = by_share(share, 1, 10);
        let Engine::Batch { deployment: Deployment { limits, .. }, .. } = &sim.engine else {
            panic!("it is one")
        };
        assert_eq!((limits.kv_blocks.get(), limits.max_num_seqs.get()), (blocks, sequences), "{share}");
        assert_eq!((sim.check_startup(), run.most_running), (Ok(()), sequences as usize), "{share}");
        within(run.output_rate, rate, 0.10, &format!("tokens/s with {share}"));
        assert!(run.preemptions < f64::EPSILON, "{share}");
    }
}

/// The median unloaded TTFT of both presets, over the noise and the drift, is the published time within 2 %.
#[test]
fn prefill_takes_the_published_times() {
    for preset in ["4xa100-llama-70b", "4xa100-llama-70b-util"] {
        for (tokens, published) in BY_PROMPT {
            let mut times: Vec<f64> = (1..=2001).map(|seed| prefill(preset, tokens, seed)).collect();
            times.sort_by(f64::total_cmp);
            // One standard error of the median is 0.6 %.
            within(times[1000], published, 0.02, &format!("{preset}, {tokens} tokens"));
        }
    }
}

/// Chunks of 512 tokens keep decoding requests waiting for as long as a prompt of 512 takes, not for the whole prompt,
/// and take a third longer for a prompt of 4,096.
#[test]
fn chunks_shorten_the_gaps_and_lengthen_the_prompt() {
    for (chunk, longest_gap, ttft) in [(512, 34.5, 260.0), (2048, 109.0, 212.0), (8192, 195.0, 195.0)] {
        let Engine::Batch { deployment, .. } = parse("preset = \"4xa100-llama-70b\"").engine else {
            panic!("it is one")
        };
        let limits = Limits { max_num_batched_tokens: count(chunk), ..deployment.limits };
        let mut engine = Batch::new(Settings {
            limits,
            block_size: deployment.block_size,
            cost: deployment.cost,
            cv: 0.0,
            drift: None,
            seed: 1,
        });
        engine.arrive(Duration::ZERO, Request::new(0, 40, 1000));
        let start = engine.next_event().unwrap();
        engine.arrive(start, Request::new(1, 4096, 1));
        let events = engine.advance(Duration::from_secs(1));
        let first = events.iter().find(|e| e.id == 1).unwrap().at;
        let decoded: Vec<Duration> = events.iter().filter(|e| e.id == 0).map(|e| e.at).collect();
        let gap = decoded.windows(2).map(|w| w[1] - w[0]).max().unwrap();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        within(ms(gap), longest_gap, 0.01, &format!("longest gap with chunks of {chunk}"));
        within(ms(first - start), ttft, 0.01, &format!("prompt of 4,096 with chunks of {chunk}"));
    }
}

/// Returns the time to the first token, in ms, of a prompt on the idle engine.
fn prefill(preset: &str, tokens: u32, seed: u64) -> f64 {
    let mut model = parse(&format!("preset = \"{preset}\"\nseed = {seed}")).build();
    model.arrive(Duration::ZERO, Request::new(0, tokens, 1));
    model.next_event().unwrap().as_secs_f64() * 1e3
}

/// Recomputes the tables of the module's documentation: `cargo test the_tables -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute"]
fn the_tables() {
    const SEEDS: u64 = 8;
    for (seats, rate, p50, p99) in BY_SEATS {
        let runs: Vec<ClosedLoop> = (1..=SEEDS).map(|seed| by_seats(seats, seed, 60)).collect();
        let mean = |f: &dyn Fn(&ClosedLoop) -> f64| runs.iter().map(f).sum::<f64>() / SEEDS as f64;
        println!(
            "//! | {seats} | {rate} | {:.0} | {p50} | {:.1} | {p99} | {:.1} |",
            mean(&|r| r.output_rate),
            mean(&|r| r.tpot(0.5)),
            mean(&|r| r.tpot(0.99))
        );
        println!("  preemptions a request: {:.2}", mean(&|r| r.preemptions));
        let off = |f: &dyn Fn(&ClosedLoop) -> f64, wanted: f64| {
            runs.iter()
                .map(|r| format!("{:+.1}", (f(r) / wanted - 1.0) * 100.0))
                .collect::<Vec<_>>()
                .join(" ")
        };
        println!(
            "  rate {} p50 {} p99 {}",
            off(&|r| r.output_rate, rate),
            off(&|r| r.tpot(0.5), p50),
            off(&|r| r.tpot(0.99), p99)
        );
    }
    for (share, blocks, sequences, rate) in BY_SHARE {
        let runs: Vec<f64> = (1..=SEEDS).map(|seed| by_share(share, seed, 60).1.output_rate).collect();
        let mean = runs.iter().sum::<f64>() / SEEDS as f64;
        println!("//! | {share} | {blocks} | {sequences} | {rate} | {mean:.0} |");
        println!(
            "  {}",
            runs.iter().map(|r| format!("{:+.1}", (r / rate - 1.0) * 100.0)).collect::<Vec<_>>().join(" ")
        );
    }
}
