//! The start of steps on four worker processes, and the time until the leader notices that one is lost.

use super::leader::{Ended, Leader};
use super::print_row;
use super::process::Process;
use super::processes::Broker;
use goodput::stats::workers::WorkerFault;
use goodput::units::ms;
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::Instant;

const WORKERS: u16 = 4;
/// Number of steps that are started, their rate and their length.
const STARTS: usize = 100;
const RATE: f64 = 2_000.0;
const LENGTH: Duration = Duration::from_millis(300);
/// Number of workers that are killed, and that are frozen.
const KILLED: usize = 40;
const FROZEN: usize = 20;

fn workers(broker: &Broker) -> Vec<(String, Process)> {
    let names = (1..=WORKERS).map(|i| format!("w{i}"));
    names.map(|name| (name.clone(), broker.worker(&name))).collect()
}

/// Measures by how much workers start late and apart.
pub(crate) fn start() {
    let broker = Broker::start(false);
    let _workers = workers(&broker);
    let mut leader = Leader::start(&broker, WORKERS.into());
    let (mut late, mut apart, mut lateness) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let Ended { finished, end } = leader.fire(RATE, LENGTH);
        assert_eq!(end.fault, None);
        late.extend(end.reports.iter().map(|report| report.start_late_ms));
        // How late each worker sent its first request.
        let firsts = (1..=WORKERS).filter_map(|worker| {
            let own = finished.iter().map(|f| &f.record).filter(|r| r.worker == Some(worker));
            own.min_by_key(|r| r.due)?.lateness().map(ms)
        });
        let firsts: Vec<f64> = firsts.collect();
        assert_eq!(firsts.len(), usize::from(WORKERS));
        apart.push(
            firsts.iter().copied().fold(0.0, f64::max) - firsts.iter().copied().fold(f64::MAX, f64::min),
        );
        lateness.extend(finished.iter().filter_map(|f| f.record.lateness()).map(ms));
    }
    print_row("start of a worker's step after the agreed time", "ms", late);
    print_row("lateness of the first request, first to last of 4 workers", "ms", apart);
    print_row("lateness of all requests, 2,000 req/s, 4 workers", "ms", lateness);
}

/// Measures the time from the loss of a worker until its leader has ended the step on all others.
pub(crate) fn lost() {
    let broker = Broker::start(false);
    let mut workers = workers(&broker);
    let mut leader = Leader::start(&broker, WORKERS.into());
    for (signal, n, fault, how) in [
        (Signal::KILL, KILLED, WorkerFault::Lost, "killed"),
        (Signal::STOP, FROZEN, WorkerFault::Frozen, "frozen"),
    ] {
        let (mut seconds, mut faults) = (Vec::new(), Vec::new());
        for i in 0..n {
            let mut firing = leader.begin(RATE, Duration::from_secs(60));
            // The start is 300 ms ahead; the leader asks every 50 ms.
            std::thread::sleep(Duration::from_millis(500 + 7 * i as u64 % 50));
            let (name, worker) = workers.remove(0);
            let began = Instant::now();
            worker.signal(signal);
            leader.drain(&mut firing);
            seconds.push(began.elapsed().as_secs_f64());
            drop(worker);
            faults.push(leader.end(firing).end.fault.unwrap().fault);
            leader.drop_worker(&name);
            let name = format!("{how}-{i}");
            workers.push((name.clone(), broker.worker(&name)));
        }
        let other = faults.iter().filter(|f| **f != fault).count();
        let figure = format!("a worker is {how}: until the load of the other three has ended");
        print_row(
            &if other > 0 { format!("{figure} ({other} with another fault)") } else { figure },
            "s",
            seconds,
        );
    }
}
