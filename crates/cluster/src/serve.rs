//! The process of a worker: carries out what its state machine decides.

use super::bus::{Asked, Bus};
use super::message::{Answer, Preparation, Request, Wanted, WorkerInfo};
use super::worker::{Effect, LoadId, WorkerMachine};
use anyhow::{Context, Result, ensure};
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::Finished;
use goodput_core::tokens::Tokenizer;
use goodput_load::client::key::ApiKey;
use goodput_load::client::{Client, consent, preflight};
use goodput_load::load::firing::{Delays, Firing};
use goodput_load::load::host::Host;
use goodput_load::load::local::{Connected, Load, Outline};
use goodput_load::load::spec::Spec;
use goodput_plan::Plan;
use goodput_plan::client::ClientLimits;
use goodput_plan::server::{PromptForm, Server, Target};
use goodput_workload::traffic::Traffic;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Interval at which the worker looks whether its lease has ended.
const TICK: Duration = Duration::from_millis(100);
/// Most finished requests that are taken at once.
const AT_ONCE: usize = 1024;

/// An event in the background.
enum News {
    Prepared(LoadId, Result<Box<ReadyLoad>>),
    Ended(LoadId, Result<(Duration, Delays)>),
}

/// A load that is ready to be fired.
struct ReadyLoad {
    load: Load,
    host: Arc<Host>,
    server: ServerKey,
    spec: Spec,
    outline: Outline,
}

/// The settings that connections to a server depend on.
#[derive(PartialEq)]
struct ServerKey {
    server: Server,
    client: ClientLimits,
    url: Option<BaseUrl>,
}

/// Offers this process as a worker until `stop`. `origin` is the start of its clock.
///
/// # Errors
/// The bus is away when the worker offers itself, or the connection to it is closed for good.
pub async fn serve(bus: &Bus, info: &WorkerInfo, origin: Instant, stop: CancellationToken) -> Result<()> {
    let mut offer = bus.offer(info).await?;
    tracing::info!("worker {} waits for sweeps (Ctrl-C ends it)", info.id);
    let (tell, mut news) = mpsc::unbounded_channel();
    let mut worker = Worker { origin, machine: WorkerMachine::default(), firing: None, ready: None, tell };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut holder = None;
    loop {
        let mut finished = Vec::new();
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            asked = offer.next() => {
                worker.answer(asked.context("the connection to the bus is closed")?).await;
            }
            Some(news) = news.recv() => worker.learn(news),
            count = take(&mut worker.firing, &mut finished) => {
                if count == 0 { worker.end() } else { worker.keep(&finished) }
            }
            _ = ticks.tick() => {
                let effects = worker.machine.tick(origin.elapsed());
                worker.carry_out(effects);
            }
        }
        if worker.machine.holder() != holder.as_deref() {
            holder = worker.machine.holder().map(str::to_owned);
            match &holder {
                Some(holder) => tracing::info!("at the service of {holder}"),
                None => tracing::info!("free"),
            }
        }
    }
}

/// Takes finished requests of a load that is being fired; none if they have all been taken. Waits for ever without one.
async fn take(firing: &mut Option<(LoadId, Firing)>, into: &mut Vec<Finished>) -> usize {
    match firing {
        Some((_, firing)) => firing.finished.recv_many(into, AT_ONCE).await,
        None => std::future::pending().await,
    }
}

struct Worker {
    origin: Instant,
    machine: WorkerMachine,
    firing: Option<(LoadId, Firing)>,
    /// The load that is ready, or was fired last: the next one uses its connections.
    ready: Option<(LoadId, Box<ReadyLoad>)>,
    tell: mpsc::UnboundedSender<News>,
}

impl Worker {
    /// Answers a request.
    async fn answer(&mut self, asked: Asked) {
        if let Some((id, firing)) = &self.firing {
            self.machine.status(*id, firing.status());
        }
        let Ok(request) = serde_json::from_slice::<Request>(asked.payload()) else {
            tracing::warn!("a request on the bus is none of goodput's, or of another version");
            return;
        };
        let (answer, effects) = self.machine.request(self.origin.elapsed(), request);
        reply(asked, &answer).await;
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Prepare(id, preparation) => self.prepare(id, *preparation),
                Effect::Fire(id, start_ns) => self.fire(id, start_ns),
                Effect::Control(wanted) => self.control(wanted),
                // What is fired ends when it is dropped.
                Effect::Cancel => self.firing = None,
            }
        }
    }

    /// Makes a load ready on another thread: files may be large, and servers far.
    fn prepare(&mut self, id: LoadId, preparation: Preparation) {
        let (tell, earlier) = (self.tell.clone(), self.ready.take().map(|(_, ready)| ready));
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let made = runtime.block_on(ReadyLoad::make(preparation, earlier));
            // Nobody listens any more: the worker ends.
            let _ = tell.send(News::Prepared(id, made.map(Box::new)));
        });
    }

    fn fire(&mut self, id: LoadId, start_ns: u64) {
        let began = self.origin + Duration::from_nanos(start_ns);
        let fired = match &self.ready {
            Some((of, ready)) if *of == id => ready.load.fire_at(&ready.spec, began),
            Some(_) | None => Err(anyhow::anyhow!("the load is not ready")),
        };
        match fired {
            Ok(firing) => self.firing = Some((id, firing)),
            Err(e) => self.machine.ended(id, Err(format!("{e:#}"))),
        }
    }

    fn control(&self, wanted: Wanted) {
        let Some((_, firing)) = &self.firing else { return };
        firing.extend(wanted.window);
        if wanted.stop {
            firing.stop();
        }
        if wanted.cut {
            firing.cut();
        }
    }

    fn learn(&mut self, news: News) {
        match news {
            News::Prepared(id, Ok(ready)) => {
                self.machine.prepared(id, Ok(ready.outline));
                // An older load may be ready only after a newer one.
                if self.ready.as_ref().is_none_or(|(newest, _)| *newest < id) {
                    self.ready = Some((id, ready));
                }
            }
            News::Prepared(id, Err(e)) => self.machine.prepared(id, Err(format!("{e:#}"))),
            News::Ended(id, ended) => self.machine.ended(id, ended.map_err(|e| format!("{e:#}"))),
        }
    }

    fn keep(&mut self, finished: &[Finished]) {
        if let Some((id, firing)) = &self.firing {
            finished.iter().for_each(|one| self.machine.finished(*id, one));
            self.machine.status(*id, firing.status());
        }
    }

    /// Waits in the background for the threads of a load whose requests have all finished.
    fn end(&mut self) {
        let Some((id, mut firing)) = self.firing.take() else { return };
        self.machine.status(id, firing.status());
        let tell = self.tell.clone();
        tokio::spawn(async move {
            let ended = firing.ended().await.map(|delays| (firing.start_late(), delays));
            let _ = tell.send(News::Ended(id, ended));
        });
    }
}

async fn reply(asked: Asked, answer: &Answer) {
    match answer.to_bytes() {
        Ok(bytes) => asked.answer(bytes).await,
        Err(e) => tracing::warn!("a reply could not be written: {e}"),
    }
}

impl ReadyLoad {
    /// Makes a load ready: opens its files and its connections, and checks that the server serves its model. Connections
    /// of an earlier load to the same server are used again.
    async fn make(preparation: Preparation, earlier: Option<Box<Self>>) -> Result<Self> {
        let Preparation { spec, url, connections, allowed } = preparation;
        consent::allow_also(allowed);
        let plan = &spec.plan;
        let server = ServerKey { server: plan.server.clone(), client: plan.client, url };
        let (mut load, host) = match earlier {
            Some(earlier) if earlier.server == server => (earlier.load, earlier.host),
            Some(_) | None => connect(&spec, &server).await?,
        };
        if load.plan() != plan {
            load.turn_to(plan)?;
        }
        if *load.terms() != spec.terms {
            load.set_terms(spec.terms.clone())?;
        }
        let outline = load.outline(&spec)?;
        load.warm(spec.level, connections as usize).await;
        if let Some(refused) = load.client().refused() {
            return Err(refused.clone().into());
        }
        Ok(Self { load, host, server, spec, outline })
    }
}

/// Connects to the server of a load.
async fn connect(spec: &Spec, key: &ServerKey) -> Result<(Load, Arc<Host>)> {
    let plan: &Plan = &spec.plan;
    let tokenizer = plan.server.tokenizer.as_deref().filter(|_| plan.server.prompts == PromptForm::TokenIds);
    let tokenizer = tokenizer.map(Tokenizer::open).transpose()?;
    let host = Arc::new(Host::of(&plan.client, false)?);
    let (server, api_key) = match &key.url {
        Some(url) => (Server { target: Target::Url(url.clone()), ..plan.server.clone() }, None),
        None => (plan.server.clone(), plan.server.key.as_ref().map(ApiKey::read).transpose()?),
    };
    ensure!(
        !server.target.urls().is_empty(),
        "the plan's server is simulated, and its address did not come with it"
    );
    let clients = Client::for_load(&server, api_key, host.threads(), plan.client.retries)?;
    let (asked, model) = (clients[0].clone(), plan.first_model().map(str::to_owned));
    host.run(async move { preflight::find_model(&asked, model.as_deref()).await }).await??;
    let traffic = Traffic::open(&plan.workload, &plan.counter()?)?;
    let connected = Connected { host: host.clone(), clients, tokenizer };
    Ok((Load::new(connected, plan, spec.terms.clone(), &traffic)?, host))
}
