//! A million requests: time to write them as rows, to read them for a report and to summarize them, and the memory they
//! need.
//!
//! `cargo bench --bench records`. The run folder is left for `goodput report`; its path is printed.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use goodput::level::Level;
use goodput::plan::Plan;
use goodput::record::{Conn, Finished, Outcome, Phase, Record, TokenSource};
use goodput::rundir::{self, Meta, Run, Traces, Writer, json};
use goodput::stats::compact_record::CompactRecord;
use goodput::stats::itl::ItlTally;
use goodput::stats::step::{Step, StepKind};
use goodput::stats::summary::{StepInput, summarize};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp, LogNormal};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

const REQUESTS: u64 = 1_000_000;
/// Rate of the Poisson arrivals, in requests per second.
const RATE: f64 = 2000.0;
const SETTLE: Duration = Duration::from_secs(10);
const TOKENS: u32 = 30;

const PLAN: &str = r#"
name = "a million requests"
server = { simulated = { preset = "demo" } }
slo = { ttft = { p99 = "200ms" }, tpot = { p99 = "50ms" }, itl = { p95 = "80ms" }, error-rate = 0.01 }
search.rates = [2000]
[workload.prompts.synthetic]
input-tokens = { fixed = 600 }
output-tokens = { fixed = 30 }
"#;

fn main() {
    let before = memory("VmRSS");
    let kept = kept();
    let (held, input) = (memory("VmRSS"), plan());
    black_box(sum_up(&input, &kept, &ItlTally::new(&[])));
    if let (Some(before), Some(held), Some(peak)) = (before, held, memory("VmHWM")) {
        println!("a million kept: {:.0} MiB ({} bytes each)", held - before, size_of::<CompactRecord>());
        println!("summed up: {:.0} MiB more at the peak; {peak:.0} MiB in all", peak - held);
    }
    println!("run folder: {}", folder().display());
    drop(kept);
    divan::main();
}

/// Returns a memory figure of this process in MiB, by its name in `/proc/self/status`.
fn memory(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with(name))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

fn plan() -> Plan {
    Plan::parse(PLAN).unwrap()
}

/// Draws the requests of a step in the order of `due`; every call returns identical ones.
fn requests() -> impl Iterator<Item = Finished> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let arrivals = Exp::new(RATE).unwrap();
    let first = LogNormal::new(-3.2, 0.4).unwrap();
    let gap = LogNormal::new(-4.6, 0.5).unwrap();
    let mut due = 0.0;
    (0..REQUESTS).map(move |id| {
        due += arrivals.sample(&mut rng);
        let at = Duration::from_secs_f64(due);
        let phase = if at < SETTLE { Phase::Settle } else { Phase::Measure };
        let mut r = Record::due(id, phase, at);
        let sent = at + Duration::from_nanos(40_000 + id % 7_919);
        let token = sent + Duration::from_secs_f64(first.sample(&mut rng));
        let gaps_us: Vec<u32> =
            (1..TOKENS).map(|_| (1e6 * Distribution::<f64>::sample(&gap, &mut rng)) as u32).collect();
        let last = token + Duration::from_micros(gaps_us.iter().map(|g| u64::from(*g)).sum());
        (r.sent, r.headers, r.first_event) = (Some(sent), Some(token), Some(token));
        (r.first_token, r.first_content, r.last_token) = (Some(token), Some(token), Some(last));
        (r.end, r.conn, r.attempts) = (last + Duration::from_micros(30), Some(Conn::Reused), 1);
        (r.input_asked, r.input_tokens, r.output_asked, r.output_tokens) =
            (600, Some(601), TOKENS, Some(TOKENS));
        (r.token_source, r.first_event_tokens, r.events) = (Some(TokenSource::Usage), Some(1), TOKENS);
        (r.itl_max, r.output_bytes) =
            (gaps_us.iter().max().map(|g| Duration::from_micros(u64::from(*g))), 7_200);
        (r.outcome, r.status, r.finish) = (Outcome::Ok, Some(200), Some("length".into()));
        Finished::new(r, gaps_us)
    })
}

fn kept() -> Vec<CompactRecord> {
    let mut kept = Vec::with_capacity(REQUESTS as usize);
    kept.extend(requests().map(|f| CompactRecord::from(&f.record)));
    kept
}

fn sum_up(plan: &Plan, kept: &[CompactRecord], itl: &ItlTally) -> Step {
    let last = kept.last().unwrap().due.get();
    summarize(&StepInput {
        series: "main",
        step: 1,
        kind: StepKind::List,
        level: Level::rate(RATE),
        started_at: "2026-11-01T00:00:00Z",
        started_s: 0.0,
        ended_s: last.as_secs_f64() + 1.0,
        settle: SETTLE,
        measure: last - SETTLE,
        tail: Duration::ZERO,
        drain: Duration::from_secs(1),
        abort: None,
        records: kept,
        classes: &[],
        itl,
        earlier: &[],
        tiers: plan.slo.as_slice(),
        receive_lag_p99_ms: Some(0.1),
        client_busy: Some(0.2),
        client_waiting: Some(0.01),
        confidence: 0.95,
        halts: &[],
        workers: &[],
        client_limit: false,
        in_flight_limit: None,
        allowed: plan.allowed(),
        max_error_share: plan.step.max_error_share.map(goodput::units::Fraction::get),
        price_per_hour: None,
    })
}

/// Returns a run folder with the one step, which is made once.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("million");
        let plan = plan();
        let mut writer = Writer::create(&dir, &plan.to_toml().unwrap(), true).unwrap();
        let (mut kept, mut itl) = (Vec::with_capacity(REQUESTS as usize), ItlTally::new(plan.slo.as_slice()));
        for finished in requests() {
            writer.request("main", 1, "all", &finished).unwrap();
            itl.add(&finished);
            kept.push(CompactRecord::from(&finished.record));
        }
        let step = sum_up(&plan, &kept, &itl);
        writer.step(&step, &[("all", "itl", itl.pooled().buckets())]).unwrap();
        let run =
            Run::assemble(&plan, plan.to_toml().unwrap(), meta(&plan), vec![step], vec![], vec![]).unwrap();
        writer.result(&json::result(&run)).unwrap();
        dir
    })
}

fn meta(plan: &Plan) -> Meta {
    Meta {
        goodput_version: env!("CARGO_PKG_VERSION").into(),
        host: "a bench".into(),
        seed: plan.seed,
        started: "2026-11-01T00:00:00Z".into(),
        server: plan.measured_server(),
        model: "demo".into(),
        workload: plan.measured_workload(),
        slo: plan.slo.summary(),
        gpu: None,
        gpus: None,
        notes: None,
        virtual_time: false,
        noted: vec![],
        budget: None,
        calibration: None,
        words: None,
        sent: Vec::new(),
        traffic: vec![],
        resumed: vec![],
        variants: vec![],
        imported: None,
        workers: vec![],
        plan: None,
        left_alone: std::collections::BTreeMap::new(),
        facts: vec![],
        first_requests: vec![],
        environment: std::collections::BTreeMap::new(),
    }
}

/// Writes a row of `requests.csv` to a file.
#[divan::bench(sample_count = 20)]
fn write_rows(bencher: Bencher<'_, '_>) {
    const ROWS: usize = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), PLAN, true).unwrap();
    let some: Vec<Finished> = requests().take(ROWS).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        for finished in &some {
            writer.request("main", 1, "all", finished).unwrap();
        }
        writer.flush().unwrap();
    });
}

/// Allocates and touches the memory for a million requests, as before a step.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn room_for_a_million() -> Vec<CompactRecord> {
    let mut kept = Vec::new();
    CompactRecord::reserve(&mut kept, REQUESTS as usize);
    kept
}

/// Reads a million requests for a report, without making charts and text.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn read_a_million(bencher: Bencher<'_, '_>) {
    let dir = folder();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let run = rundir::read(dir).unwrap();
        Traces::read(dir, &run.steps).unwrap()
    });
}

/// Summarizes a step of a million requests.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn summarize_a_million(bencher: Bencher<'_, '_>) {
    let (plan, kept) = (plan(), kept());
    let mut itl = ItlTally::new(plan.slo.as_slice());
    requests().for_each(|f| itl.add(&f));
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| sum_up(&plan, &kept, &itl));
}
