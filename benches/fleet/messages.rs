//! Discovery of workers, and the estimates of their clocks.

use super::print_row;
use super::processes::Broker;
use goodput_cluster::about::about;
use goodput_cluster::bus::{Bus, BusAddress, Credentials, QUIET};
use goodput_cluster::clock::{Offset, ROUND_TRIPS, RoundTrip};
use goodput_cluster::message::{Answer, Command, LeaderId, Reply, Request, WorkerInfo};
use goodput_cluster::serve::serve;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of workers to discover.
const FOUND: usize = 64;
/// Number of discoveries, and of estimates of a clock.
const DISCOVERIES: usize = 20;
const ESTIMATES: usize = 100;

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns what a worker of this process is.
pub(crate) fn worker_info(name: &str) -> WorkerInfo {
    about(Some(name.parse().unwrap()), env!("CARGO_PKG_VERSION"), None).unwrap()
}

/// Runs a worker on a thread, with a connection of its own, as its process would.
fn spawn_worker(address: &BusAddress, info: WorkerInfo, origin: Instant, stop: CancellationToken) {
    let address = address.clone();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let bus = Bus::connect(&address, &Credentials::None, info.id.as_str()).await.unwrap();
            serve(&bus, &info, origin, stop).await.unwrap();
        });
    });
}

/// Measures the discovery of workers on a connected client.
pub(crate) fn discovery() {
    let (broker, stop) = (Broker::start(false), CancellationToken::new());
    let info = worker_info("w");
    for i in 0..FOUND {
        let info = WorkerInfo { id: format!("w{i}").parse().unwrap(), ..info.clone() };
        spawn_worker(&broker.address, info, Instant::now(), stop.clone());
    }
    let (mut all, mut answered) = (Vec::new(), Vec::new());
    runtime().block_on(async {
        let bus = broker.connect().await;
        while bus.discover().await.unwrap().len() < FOUND {}
        for _ in 0..DISCOVERIES {
            let began = Instant::now();
            assert_eq!(bus.discover().await.unwrap().len(), FOUND);
            all.push(began.elapsed().as_secs_f64());
            answered.push((began.elapsed() - QUIET).as_secs_f64() * 1e3);
        }
    });
    stop.cancel();
    print_row("discovery of 64 workers", "s", all);
    print_row("discovery of 64 workers, until the last answer", "ms", answered);
}

/// Measures the error of the estimate of a clock. Leader and worker count from one instant here: the true offset is 0.
pub(crate) fn clocks() {
    let (broker, stop, origin) = (Broker::start(false), CancellationToken::new(), Instant::now());
    let info = worker_info("clock");
    spawn_worker(&broker.address, info.clone(), origin, stop.clone());
    let now_ns = || origin.elapsed().as_nanos() as u64;
    let payload = serde_json::to_vec(&Request { leader: LeaderId(1), command: Command::Clock }).unwrap();
    let (mut errors, mut least, mut usual) = (Vec::new(), Vec::new(), Vec::new());
    runtime().block_on(async {
        let bus = broker.connect().await;
        while bus.discover().await.unwrap().is_empty() {}
        for _ in 0..ESTIMATES {
            let mut trips = Vec::new();
            for _ in 0..ROUND_TRIPS {
                let asked_ns = now_ns();
                let reply =
                    bus.request(&info.id, payload.clone().into(), Duration::from_secs(1)).await.unwrap();
                let answered_ns = now_ns();
                let Reply::Clock { at_ns: worker_ns } = Answer::from_bytes(reply).unwrap().reply else {
                    panic!("the worker answered something else");
                };
                trips.push(RoundTrip { asked_ns, answered_ns, worker_ns });
            }
            let offset = Offset::estimate(&trips).unwrap();
            let mut lengths: Vec<u64> = trips.iter().map(|t| t.answered_ns - t.asked_ns).collect();
            lengths.sort_unstable();
            errors.push(offset.ns.abs() as f64 / 1e3);
            least.push(lengths[0] as f64 / 1e3);
            usual.push(lengths[ROUND_TRIPS / 2] as f64 / 1e3);
        }
    });
    stop.cancel();
    print_row("error of the clock offset of 64 round trips (truth: 0)", "µs", errors);
    print_row("least of 64 round trips", "µs", least);
    print_row("median of 64 round trips", "µs", usual);
}
