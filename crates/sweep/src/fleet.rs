//! The workers of a sweep: where they are, and what they are for its results.

use super::Options;
use anyhow::{Context, Result};
use goodput_cluster::about::about;
use goodput_cluster::bus::{BusAddress, Credentials};
use goodput_cluster::fleet::{ConnectedBus, Fleet, WantedWorkers};
use goodput_cluster::local::LocalWorkers;
use goodput_cluster::message::{WorkerId, WorkerInfo};
use goodput_load::launch::Groups;
use goodput_load::load::host::Share;
use goodput_run::rundir::WorkerMachine;
use goodput_stats::stats::step::Step;
use goodput_stats::stats::workers::WorkerFault;
use goodput_workload::part::StepPart;
use std::time::Duration;

/// Time within which workers on this machine are there.
const LOCAL_WAIT: Duration = Duration::from_secs(20);

/// Where the workers of a sweep are.
#[derive(Debug, Clone)]
pub enum Workers {
    /// This many on this machine, started for the sweep, with a broker of their own.
    Local(u32),
    /// On a bus.
    Bus {
        /// The bus.
        address: BusAddress,
        /// The number of workers to use.
        expect: u32,
        /// Longest time to wait for them.
        wait: Duration,
    },
}

/// The workers that a sweep has, and those that it has started itself.
pub(super) struct SweepFleet {
    pub(super) fleet: Fleet,
    local: Option<LocalWorkers>,
    /// Those of earlier attempts at the sweep.
    earlier: Vec<WorkerMachine>,
}

impl SweepFleet {
    /// Finds the workers of a sweep, if it has any, and claims them. `earlier` are those of its earlier attempts.
    ///
    /// # Errors
    /// There are too few of them, or the bus is not there.
    pub(super) async fn of(
        options: &Options,
        groups: &Groups,
        earlier: Vec<WorkerMachine>,
    ) -> Result<Option<Self>> {
        let Some(workers) = &options.workers else { return Ok(None) };
        let (fleet, local) = begin(workers, groups, earlier.len() as u16).await?;
        Ok(Some(Self { fleet, local, earlier }))
    }

    /// Gives the workers back, and ends those that were started for the sweep.
    ///
    /// # Errors
    /// A process is left.
    pub(super) async fn end(workers: Option<Self>) -> Result<()> {
        let Some(mut workers) = workers else { return Ok(()) };
        workers.fleet.free().await;
        match workers.local {
            Some(local) => local.stop().await,
            None => Ok(()),
        }
    }

    /// Gives back the workers that a step lost.
    pub(super) async fn drop_lost(&mut self, step: &Step) {
        for worker in &step.workers {
            let (Some(fault), Ok(id)) = (worker.fault, WorkerId::try_from(worker.id.clone())) else {
                continue;
            };
            match loss(fault) {
                Loss::None => {}
                Loss::ForNow => self.fleet.drop_member(&id).await,
                Loss::ForGood => self.fleet.distrust(&id, worker.fault_text().unwrap_or_default()).await,
            }
        }
    }

    /// Returns the share of a load that falls to one worker.
    pub(super) fn largest_share(&self, share: Share) -> Share {
        let of = self.fleet.members().len().max(1) as u32;
        StepPart::new(0, of).map_or(share, |part| share.part(part))
    }

    /// Returns the workers for the results; none if this machine sends.
    pub(super) fn machines(workers: Option<&Self>) -> Vec<WorkerMachine> {
        let Some(workers) = workers else { return Vec::new() };
        workers.earlier.iter().cloned().chain(workers.fleet.known().iter().map(machine)).collect()
    }
}

/// Finds workers and claims them. `before` is the number of workers that the sweep has had.
async fn begin(workers: &Workers, groups: &Groups, before: u16) -> Result<(Fleet, Option<LocalWorkers>)> {
    let own = about(None, env!("CARGO_PKG_VERSION"), None)?;
    let name = format!("goodput sweep {}", own.id);
    match workers {
        Workers::Local(n) => {
            let program = std::env::current_exe().context("the program of this process is not known")?;
            let mut local = LocalWorkers::start(&program, *n, groups).await?;
            let bus = local.connect(&name).await?;
            let wanted = WantedWorkers { n: *n as usize, wait: LOCAL_WAIT };
            match Fleet::gather(bus, own, before, wanted).await {
                Ok(fleet) => Ok((fleet, Some(local))),
                Err(e) => Err(match local.last_words() {
                    Some(words) => e.context(format!("a worker ended: {words}")),
                    None => e,
                }),
            }
        }
        Workers::Bus { address, expect, wait } => {
            let bus = ConnectedBus::connect(address, &Credentials::from_environment()?, &name).await?;
            let wanted = WantedWorkers { n: *expect as usize, wait: *wait };
            Ok((Fleet::gather(bus, own, before, wanted).await?, None))
        }
    }
}

/// The consequence of a worker's fault for its further part in the sweep.
enum Loss {
    /// It goes on.
    None,
    /// It is gone, and may come back.
    ForNow,
    /// It does wrong, and its process is not used again.
    ForGood,
}

const fn loss(fault: WorkerFault) -> Loss {
    match fault {
        WorkerFault::Lost | WorkerFault::Frozen | WorkerFault::Replaced => Loss::ForNow,
        WorkerFault::RecordsMissing | WorkerFault::OtherRequests | WorkerFault::Refused => Loss::ForGood,
        WorkerFault::ClientLimit
        | WorkerFault::LateStart
        | WorkerFault::UnstableClock
        | WorkerFault::Late => Loss::None,
    }
}

fn machine(info: &WorkerInfo) -> WorkerMachine {
    WorkerMachine {
        id: info.id.to_string(),
        host: info.host.clone(),
        cores: info.cores,
        version: info.version.clone(),
        streams: info.streams,
        ports: info.ports,
        max_rate: info.max_rate.map(|rate| rate as f64),
    }
}
