//! `worker`: sends parts of the load of sweeps that run elsewhere.

use crate::cli::WorkerArgs;
use crate::cmd::calibrate;
use anyhow::{Context, Result};
use goodput_cluster::about::about;
use goodput_cluster::bus::{Bus, Credentials};
use goodput_cluster::message::WorkerInfo;
use goodput_cluster::serve::serve;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::time::Duration;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

/// Interval at which a worker looks whether the sweep that started it is still there.
const LOOK: Duration = Duration::from_millis(500);

/// Offers this process as a worker until it is told to end.
pub(crate) fn worker(args: &WorkerArgs) -> Result<()> {
    // The worker's clock begins here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("failed to start a runtime")?;
    let max_rate = args.calibration.as_deref().map(calibrate::read).transpose()?.map(|c| c.ceiling);
    let info = about(args.name.clone(), env!("CARGO_PKG_VERSION"), max_rate.map(|rate| rate as u64))?;
    runtime.block_on(run(args, &info))
}

async fn run(args: &WorkerArgs, info: &WorkerInfo) -> Result<()> {
    let (origin, stop) = (Instant::now(), CancellationToken::new());
    let (address, credentials) = (args.bus.address(), Credentials::from_environment()?);
    let bus = Bus::connect(&address, &credentials, &format!("goodput worker {}", info.id)).await?;
    tokio::spawn(end_by_signal(stop.clone()));
    if let Some(leader) = args.until_gone.and_then(pid) {
        tokio::spawn(end_with(leader, args.with.and_then(pid), stop.clone()));
    }
    serve(&bus, info, origin, stop).await
}

fn pid(id: i32) -> Option<Pid> {
    Pid::from_raw(id)
}

/// Ends the worker at SIGINT and SIGTERM. Requests in flight are dropped: without their worker, their step is invalid.
async fn end_by_signal(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // The default action ends the process, which serves as well.
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
}

/// Ends the worker, and the broker that was started with it, when the sweep that started both is gone: killed, it could
/// not end them itself.
async fn end_with(leader: Pid, broker: Option<Pid>, stop: CancellationToken) {
    let mut looks = interval(LOOK);
    while test_kill_process(leader).is_ok() {
        looks.tick().await;
    }
    if let Some(broker) = broker {
        // Another worker may have ended it.
        let _ = kill_process(broker, Signal::TERM);
    }
    stop.cancel();
}
