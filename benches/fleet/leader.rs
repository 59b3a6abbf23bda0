//! A leader in this process, whose load is fired by workers in processes of their own.

use super::fixture;
use super::processes::Broker;
use goodput::client::BaseUrl;
use goodput::level::Level;
use goodput::record::Finished;
use goodput::sim::null::Settings;
use goodput::sim::serve::Embedded;
use goodput_cluster::about::about;
use goodput_cluster::bus::Credentials;
use goodput_cluster::firing::{FleetEnd, FleetFiring};
use goodput_cluster::fleet::{ConnectedBus, Fleet, FleetLoad, WantedWorkers};
use goodput_cluster::message::{WorkerId, WorkerInfo};
use goodput_load::client::Client;
use goodput_load::load::host::Host;
use goodput_load::load::local::{Connected, Load};
use goodput_load::load::spec::Spec;
use goodput_workload::traffic::Traffic;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Connections that the workers open together.
const CONNECTIONS: usize = 64;

/// A leader, and the null server that its workers load.
pub(crate) struct Leader {
    runtime: Runtime,
    fleet: Fleet,
    server: Embedded,
    /// Number of steps so far.
    steps: u32,
}

/// A step that has ended.
pub(crate) struct Ended {
    pub(crate) finished: Vec<Finished>,
    pub(crate) end: FleetEnd,
}

impl Leader {
    /// Finds this many workers on the bus and claims them.
    pub(crate) fn start(broker: &Broker, workers: usize) -> Self {
        // Not one thread: what a test waits for must not hold up the leader.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fleet = runtime.block_on(async {
            let found = broker.connect().await.discover().await.unwrap();
            // The workers are another program than this benchmark.
            let own = about(None, env!("CARGO_PKG_VERSION"), None).unwrap();
            let own = WorkerInfo { binary: found[0].binary.clone(), ..own };
            let bus = ConnectedBus::connect(&broker.address, &Credentials::None, "bench").await.unwrap();
            let wanted = WantedWorkers { n: workers, wait: Duration::from_secs(10) };
            Fleet::gather(bus, own, 0, wanted).await.unwrap()
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { runtime, fleet, server: Embedded::null(Settings::default()).unwrap(), steps: 0 }
    }

    /// Starts a step of Poisson arrivals.
    pub(crate) fn begin(&mut self, rate: f64, length: Duration) -> FleetFiring {
        self.steps += 1;
        let mut spec = fixture::spec(length);
        spec.level = Level::rate(rate);
        (spec.step.arrivals.step, spec.step.prompts.step) = (self.steps, self.steps);
        let url: BaseUrl = self.server.url.parse().unwrap();
        let own = own_load(&spec);
        let (outline, schedule) = (own.outline(&spec).unwrap(), own.schedule(&spec).unwrap());
        let load = FleetLoad { spec: &spec, outline, schedule, url: Some(&url), connections: CONNECTIONS };
        self.runtime.block_on(self.fleet.fire(load)).unwrap()
    }

    /// Waits until a step has ended on every worker, and returns it.
    pub(crate) fn end(&self, mut firing: FleetFiring) -> Ended {
        self.runtime.block_on(async {
            let mut finished = Vec::new();
            while firing.finished.recv_many(&mut finished, 1024).await > 0 {}
            Ended { finished, end: firing.ended().await.unwrap() }
        })
    }

    /// Waits until every request of a step is over.
    pub(crate) fn drain(&self, firing: &mut FleetFiring) {
        self.runtime.block_on(async { while firing.finished.recv().await.is_some() {} });
    }

    /// Fires a step.
    pub(crate) fn fire(&mut self, rate: f64, length: Duration) -> Ended {
        let firing = self.begin(rate, length);
        self.end(firing)
    }

    /// Drops a worker that has failed.
    pub(crate) fn drop_worker(&mut self, name: &str) {
        let id: WorkerId = name.parse().unwrap();
        self.runtime.block_on(self.fleet.drop_member(&id));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.runtime.block_on(self.fleet.free());
    }
}

/// Returns the load as this process would send it.
pub(crate) fn own_load(spec: &Spec) -> Load {
    let plan = &spec.plan;
    let clients = Client::for_load(&plan.server, None, 1, plan.client.retries).unwrap();
    let traffic = Traffic::open(&plan.workload, &plan.counter().unwrap()).unwrap();
    let connected =
        Connected { host: Arc::new(Host::of(&plan.client, false).unwrap()), clients, tokenizer: None };
    Load::new(connected, plan, spec.terms.clone(), &traffic).unwrap()
}
