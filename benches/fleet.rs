//! Workers over a real broker: discovery, clocks, and the gathering of a million records, in the clear and with TLS. Needs `nats-server`:
//! `cargo bench --bench fleet`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on has failed")]

use goodput::record::{Finished, Phase, Record};
use goodput_cluster::about::about;
use goodput_cluster::bus::{Bus, BusAddress, Credentials};
use goodput_cluster::chunk::{Chunks, checksum, read};
use goodput_cluster::clock::{Offset, ROUND_TRIPS, RoundTrip};
use goodput_cluster::message::{Answer, ChunkHead, Progress, Reply, WorkerId, WorkerInfo};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Workers that are found.
const FOUND: usize = 64;
/// Workers that records are gathered from, and their records.
const WORKERS: usize = 4;
const RECORDS: u64 = 1_000_000;
const REPETITIONS: usize = 5;

struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn broker(tls: bool) -> (Broker, BusAddress) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |name: &str| format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("nats-server");
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    if tls {
        command.args(["--tls", "--tlscert", &file("server.pem"), "--tlskey", &file("server.key")]);
    }
    let broker = Broker(command.spawn().unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (scheme, ca) = if tls { ("tls", Some(file("ca.pem").into())) } else { ("nats", None) };
    (broker, BusAddress { url: format!("{scheme}://127.0.0.1:{port}"), ca, insecure: false })
}

async fn connect(address: &BusAddress) -> Bus {
    Bus::connect(address, &Credentials::None, "bench").await.unwrap()
}

fn worker(name: String) -> WorkerInfo {
    WorkerInfo { id: name.parse().unwrap(), ..about(None, env!("CARGO_PKG_VERSION"), None).unwrap() }
}

/// Offers a worker that answers each request for a number with the chunk of that number, and any other with its clock.
async fn offer(bus: Bus, info: WorkerInfo, chunks: Vec<(ChunkHead, bytes::Bytes)>, origin: Instant) {
    let mut offer = bus.offer(&info).await.unwrap();
    tokio::spawn(async move {
        let _bus = bus;
        while let Some(asked) = offer.next().await {
            let number = std::str::from_utf8(asked.payload()).ok().and_then(|n| n.parse::<usize>().ok());
            let answer = match number {
                Some(number) => {
                    let (head, chunk) = chunks[number].clone();
                    let progress = Progress { chunk: Some(head), ..Progress::default() };
                    Answer { reply: Reply::Progress(progress), chunk }
                }
                None => Answer::of(Reply::Clock { at_ns: origin.elapsed().as_nanos() as u64 }),
            };
            asked.answer(answer.to_bytes().unwrap()).await;
        }
    });
}

fn median(mut all: Vec<f64>) -> (f64, f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[0], all[all.len() / 2], all[all.len() - 1])
}

fn told(what: &str, unit: &str, all: Vec<f64>) {
    let (least, mid, most) = median(all);
    println!("{what:<58} {mid:>10.3} {unit}  ({least:.3} – {most:.3})");
}

/// Returns the chunks of so many records, each with so many gaps.
fn chunks(records: u64, gaps: usize) -> Vec<(ChunkHead, bytes::Bytes)> {
    let mut chunks = Chunks::default();
    let one = Finished::new(Record::due(0, Phase::Measure, Duration::ZERO), vec![20_000; gaps]);
    (0..records).for_each(|_| chunks.add(&one));
    (0..chunks.count()).map(|number| chunks.pull(number).unwrap()).collect()
}

async fn discovery(address: &BusAddress) {
    let bus = connect(address).await;
    for i in 0..FOUND {
        offer(bus.clone(), worker(format!("w{i}")), Vec::new(), Instant::now()).await;
    }
    let mut all = Vec::new();
    for _ in 0..REPETITIONS {
        let began = Instant::now();
        assert_eq!(bus.discover().await.unwrap().len(), FOUND);
        all.push(began.elapsed().as_secs_f64());
    }
    told(&format!("discovery of {FOUND} workers, 0.3 s of quiet included"), "s", all);
}

async fn clocks(address: &BusAddress) {
    let (leader, own, origin) = (connect(address).await, connect(address).await, Instant::now());
    let info = worker("clock".into());
    offer(own, info.clone(), Vec::new(), origin).await;
    let (mut errors, mut trips_us) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let mut trips = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let asked_ns = origin.elapsed().as_nanos() as u64;
            let reply = leader.request(&info.id, "clock".into(), Duration::from_secs(1)).await.unwrap();
            let answered_ns = origin.elapsed().as_nanos() as u64;
            if let Reply::Clock { at_ns: worker_ns } = Answer::from_bytes(reply).unwrap().reply {
                trips.push(RoundTrip { asked_ns, answered_ns, worker_ns });
            }
        }
        let offset = Offset::estimate(&trips).unwrap();
        errors.push(offset.ns.abs() as f64 / 1e3);
        trips_us.push(2.0 * offset.error_ns as f64 / 1e3);
    }
    told("error of a clock's offset, truth 0, 64 round trips", "µs", errors);
    told("least round trip", "µs", trips_us);
}

async fn gather(address: &BusAddress, what: &str, gaps: usize) {
    let all = chunks(RECORDS / WORKERS as u64, gaps);
    let bytes: usize = WORKERS * all.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    let ids: Vec<WorkerId> = (0..WORKERS).map(|i| format!("g{gaps}-{i}").parse().unwrap()).collect();
    for id in &ids {
        offer(connect(address).await, worker(id.to_string()), all.clone(), Instant::now()).await;
    }
    let leader = connect(address).await;
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let began = Instant::now();
        let one = |id: &WorkerId| {
            let (leader, id, n) = (leader.clone(), id.clone(), all.len());
            async move {
                let mut records = 0;
                for number in 0..n {
                    let reply =
                        leader.request(&id, number.to_string().into(), Duration::from_secs(5)).await.unwrap();
                    let answer = Answer::from_bytes(reply).unwrap();
                    let Reply::Progress(Progress { chunk: Some(head), .. }) = answer.reply else { panic!() };
                    assert_eq!((head.number, head.checksum), (number as u64, checksum(&answer.chunk)));
                    records += read(&answer.chunk).unwrap().len() as u64;
                }
                records
            }
        };
        let records: u64 = futures_util::future::join_all(ids.iter().map(one)).await.into_iter().sum();
        assert_eq!(records, RECORDS);
        seconds.push(began.elapsed().as_secs_f64());
    }
    told(
        &format!("{RECORDS} records, {gaps} gaps each, {WORKERS} workers, {what} ({} MB)", bytes / 1_000_000),
        "s",
        seconds,
    );
}

fn main() {
    if Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("no nats-server: apt install nats-server");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for tls in [false, true] {
            let (_broker, address) = broker(tls);
            let what = if tls { "TLS" } else { "in the clear" };
            if !tls {
                discovery(&address).await;
                clocks(&address).await;
            }
            gather(&address, what, 0).await;
            gather(&address, what, 16).await;
        }
    });
}
