//! The transfer of a million records from four workers, by the leader's own driver.

use super::fixture;
use super::leader::own_load;
use super::messages::{runtime, worker_info};
use super::print_row;
use super::processes::Broker;
use goodput::record::{Conn, Finished, Phase, Record, TokenSource};
use goodput_cluster::bus::{Bus, BusAddress, Credentials};
use goodput_cluster::chunk::Chunks;
use goodput_cluster::fleet::{ConnectedBus, Fleet, FleetLoad, WantedWorkers};
use goodput_cluster::message::{Request, WorkerInfo};
use goodput_cluster::worker::{Effect, LoadId, WorkerMachine};
use goodput_load::load::firing::Delays;
use goodput_load::load::local::Outline;
use goodput_workload::schedule::Schedule;
use std::time::Duration;
use tokio::time::Instant;

const WORKERS: usize = 4;
const RECORDS: usize = 1_000_000;
const REPETITIONS: usize = 7;
const WINDOW: Duration = Duration::from_secs(60);
/// Time from a request to its first token, and from token to token.
const FIRST: Duration = Duration::from_millis(40);
const GAP: Duration = Duration::from_millis(20);

/// Returns a finished request as vLLM's streams make them, with so many gaps between its tokens.
fn finished(id: usize, gaps: usize) -> Finished {
    let due = Duration::from_micros(50 * id as u64);
    let mut record = Record::due(id as u64, Phase::Measure, due);
    let (first, end) = (due + FIRST, due + FIRST + GAP * gaps as u32);
    (record.sent, record.headers, record.first_event) = (Some(due), Some(first), Some(first));
    (record.first_token, record.first_content, record.last_token) = (Some(first), Some(first), Some(end));
    (record.end, record.conn, record.status) = (end, Some(Conn::Reused), Some(200));
    (record.input_asked, record.input_tokens) = (100, Some(101));
    (record.output_asked, record.output_tokens) = (gaps as u32 + 1, Some(gaps as u32 + 1));
    (record.token_source, record.first_event_tokens) = (Some(TokenSource::Continuous), Some(1));
    (record.events, record.itl_max, record.finish) = (gaps as u32 + 2, Some(GAP), Some("length".into()));
    Finished::new(record, vec![GAP.as_micros() as u32; gaps])
}

/// Runs a worker on a thread that has its share of the records already when it is fired.
fn spawn_worker(address: &BusAddress, i: usize, info: WorkerInfo, gaps: usize) {
    let address = address.clone();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let (origin, mut machine) = (Instant::now(), WorkerMachine::default());
            let bus = Bus::connect(&address, &Credentials::None, info.id.as_str()).await.unwrap();
            let mut offer = bus.offer(&info).await.unwrap();
            while let Some(asked) = offer.next().await {
                let request: Request = serde_json::from_slice(asked.payload()).unwrap();
                let (answer, effects) = machine.request(origin.elapsed(), request);
                asked.answer(answer.to_bytes().unwrap()).await;
                for effect in effects {
                    match effect {
                        Effect::Prepare(load, _) => fill(&mut machine, load, i, gaps),
                        Effect::Fire(load, _) => machine.ended(load, Ok((Duration::ZERO, Delays::default()))),
                        Effect::Control(_) | Effect::Cancel => {}
                    }
                }
            }
        });
    });
}

/// Returns the numbers of the chains of the load.
fn schedule() -> Schedule {
    let spec = fixture::spec(WINDOW);
    own_load(&spec).schedule(&spec).unwrap()
}

fn fill(machine: &mut WorkerMachine, load: LoadId, i: usize, gaps: usize) {
    let parts = schedule().parts(WORKERS as u32);
    let own = (0..RECORDS).filter(|id| parts.part_of(*id as u64) as usize == i);
    own.for_each(|id| machine.finished(load, &finished(id, gaps)));
    machine.prepared(load, Ok(Outline::default()));
}

/// Measures the transfer without and with gaps between tokens, in the clear and with TLS.
pub(crate) fn gather() {
    for (tls, gaps) in [(false, 0), (false, 16), (true, 0), (true, 16)] {
        let broker = Broker::start(tls);
        for i in 0..WORKERS {
            spawn_worker(&broker.address, i, worker_info(&format!("g{i}")), gaps);
        }
        let seconds = runtime().block_on(pull(&broker.address));
        let mut one = Chunks::default();
        one.add(&finished(0, gaps));
        one.count();
        let megabytes = (one.bytes() * RECORDS) as f64 / 1e6;
        let how = if tls { "with TLS" } else { "in the clear" };
        let figure = format!("1,000,000 records, {gaps} gaps each, 4 workers, {how}: {megabytes:.0} MB");
        print_row(&format!("{figure}, speed"), "MB/s", seconds.iter().map(|s| megabytes / s).collect());
        print_row(&figure, "s", seconds);
    }
}

/// Pulls all records several times, as a sweep does. Returns the time of each, in seconds.
async fn pull(address: &BusAddress) -> Vec<f64> {
    let connected = ConnectedBus::connect(address, &Credentials::None, "bench").await.unwrap();
    let wanted = WantedWorkers { n: WORKERS, wait: Duration::from_secs(10) };
    let mut fleet = Fleet::gather(connected, worker_info("leader"), 0, wanted).await.unwrap();
    let spec = fixture::spec(WINDOW);
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let (outline, schedule) = (Outline::default(), schedule());
        let load = FleetLoad { spec: &spec, outline, schedule, url: None, connections: 1 };
        let mut firing = fleet.fire(load).await.unwrap();
        let began = Instant::now();
        let (mut seen, mut batch) = (vec![false; RECORDS], Vec::new());
        while firing.finished.recv_many(&mut batch, 1024).await > 0 {
            for finished in batch.drain(..) {
                let is_seen = &mut seen[finished.record.id as usize];
                assert!(!*is_seen, "{} came twice", finished.record.id);
                *is_seen = true;
            }
        }
        seconds.push(began.elapsed().as_secs_f64());
        assert!(seen.iter().all(|is_seen| *is_seen), "every record");
        // The leader's machine has compared the checksum of each chunk.
        assert_eq!(firing.ended().await.unwrap().fault, None);
    }
    fleet.free().await;
    seconds
}
