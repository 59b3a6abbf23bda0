//! Arguments about workers: of `worker`, and of commands that use some.

use clap::Args;
use goodput_cluster::bus::BusAddress;
use goodput_cluster::message::WorkerId;
use goodput_core::units::Span;
use std::path::PathBuf;

/// Where the bus is.
#[derive(Debug, Args)]
pub struct BusArgs {
    /// URL of the bus: tls://HOST:4222, or nats://127.0.0.1:4222.
    #[arg(long, value_name = "URL")]
    pub bus: String,
    /// How to trust it.
    #[command(flatten)]
    pub trust: BusTrustArgs,
}

/// How a bus is trusted.
#[derive(Debug, Args)]
pub struct BusTrustArgs {
    /// Certificate of the authority that signed the certificate of the bus, as PEM, besides those of the system.
    #[arg(long, value_name = "FILE")]
    pub bus_ca: Option<PathBuf>,
    /// Allow a bus without TLS on another machine. Prompts and results then cross the network in the clear.
    #[arg(long)]
    pub insecure_bus: bool,
}

/// Arguments of `worker`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput worker --bus tls://bus.example.com:4222     waits until a sweep uses it; survives sweeps
  srun -n16 goodput worker --bus tls://bus:4222       sixteen of them
  goodput sweep plan.toml --bus tls://bus:4222 --expect 16
        the sweep that uses them

Credentials come from GOODPUT_BUS_USER and GOODPUT_BUS_PASSWORD, or from the NATS credentials file named by
GOODPUT_BUS_CREDS. The key of the measured server comes from the variable or file that the plan names, on each worker.")]
pub struct WorkerArgs {
    /// The bus.
    #[command(flatten)]
    pub bus: BusArgs,
    /// Name of the worker in results [default: host name and process id].
    #[arg(long, value_name = "NAME")]
    pub name: Option<WorkerId>,
    /// File written by `goodput calibrate --save` on this machine: the sweep adds its figures to the results.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// End when this process is gone.
    #[arg(long, hide = true)]
    pub until_gone: Option<i32>,
    /// With --until-gone: this process too.
    #[arg(long, hide = true, requires = "until_gone")]
    pub with: Option<i32>,
}

/// The workers of a sweep.
#[derive(Debug, Args)]
pub struct SweepWorkersArgs {
    /// Send the load from N worker processes on this machine, which are started with a broker (nats-server) for this sweep: a rehearsal of
    /// load from several machines.
    #[arg(long, value_name = "N", conflicts_with_all = ["bus", "virtual_time", "try_advice"], value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: Option<u32>,
    /// Send the load from workers on this bus (`goodput worker`): tls://HOST:4222, or nats://127.0.0.1:4222.
    #[arg(long, value_name = "URL", requires = "expect", conflicts_with_all = ["virtual_time", "try_advice"])]
    pub bus: Option<String>,
    /// With --bus: the number of workers to use. The sweep waits until they are there.
    #[arg(long, value_name = "N", requires = "bus", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub expect: Option<u32>,
    /// With --bus: longest time to wait for the workers.
    #[arg(long, value_name = "TIME", requires = "bus", default_value = "2m")]
    pub wait: Span,
    /// How to trust the bus.
    #[command(flatten)]
    pub trust: BusTrustArgs,
}

impl BusArgs {
    /// Returns the address of the bus.
    pub(crate) fn address(&self) -> BusAddress {
        self.trust.address(&self.bus)
    }
}

impl BusTrustArgs {
    fn address(&self, url: &str) -> BusAddress {
        BusAddress { url: url.to_owned(), ca: self.bus_ca.clone(), insecure: self.insecure_bus }
    }
}

impl SweepWorkersArgs {
    /// Returns the workers to use; `None` if this machine sends.
    pub(crate) fn workers(&self) -> Option<crate::sweep::Workers> {
        use crate::sweep::Workers;
        let bus = self.bus.as_ref().zip(self.expect).map(|(url, expect)| Workers::Bus {
            address: self.trust.address(url),
            expect,
            wait: self.wait.0,
        });
        bus.or_else(|| self.workers.map(Workers::Local))
    }
}
