//! The load of this machine.

use super::finished::FinishedRequests;
use super::firing::{Controls, Firing, LagSampler, TraceStart};
use super::host::{Host, Share};
use super::job::{Gauge, Job};
use super::lag;
use super::source::{Builder, Ready};
use super::spec::{Selection, Spec, Terms};
use crate::client::Client;
use crate::client::encoder::Encoder;
use anyhow::{Context, Result, ensure};
use goodput_core::hash::{fnv1a, mix};
use goodput_core::level::{Control, Level};
use goodput_core::slo::Slo;
use goodput_core::tokens::Tokenizer;
use goodput_plan::Plan;
use goodput_plan::server::Server;
use goodput_plan::server::extras::ExtraBody;
use goodput_workload::chain::Start;
use goodput_workload::config::Class;
use goodput_workload::draw::Chains;
use goodput_workload::part::StepPart;
use goodput_workload::prompts::Prompter;
use goodput_workload::rate::WordRates;
use goodput_workload::schedule::Schedule;
use goodput_workload::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Number of chains that the digest of an [`Outline`] covers.
const DIGESTED: usize = 64;

/// Fires the steps of a series at one server, from the threads of this machine.
pub struct Load {
    host: Arc<Host>,
    /// One for each thread that sends.
    clients: Vec<Client>,
    /// Encodes requests whose class overrides nothing.
    base: Encoder,
    /// One for each class; one if there are none.
    encoders: Vec<Encoder>,
    /// The requests of the series, their lengths counted as the server counts.
    traffic: Traffic,
    /// Turns prompts into token ids, if the plan asks for them.
    tokenizer: Option<Tokenizer>,
    plan: Arc<Plan>,
    terms: Terms,
}

/// A step in brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outline {
    /// A hash of the times and bodies of its first chains, and of what the files of the plan contain: how many rows, of which
    /// lengths.
    pub digest: u64,
    /// The place in a trace at which it begins.
    pub trace: Option<TraceStart>,
}

/// Connections to a server, and the threads that they belong to.
pub struct Connected {
    /// The threads that send.
    pub host: Arc<Host>,
    /// One for each thread.
    pub clients: Vec<Client>,
    /// Turns prompts into token ids, if the plan asks for them.
    pub tokenizer: Option<Tokenizer>,
}

impl Load {
    /// Makes the load of a series ready. `traffic` has its files open: those that the series needs as well are not read
    /// again.
    ///
    /// # Errors
    /// A file cannot be read, or a class has fields that are none.
    pub fn new(connected: Connected, plan: &Plan, terms: Terms, traffic: &Traffic) -> Result<Self> {
        let Connected { host, clients, tokenizer } = connected;
        ensure!(!clients.is_empty(), "a load needs a client");
        let base = terms.encoder(plan);
        let encoders = encoders(&base, plan)?;
        let traffic = opened(plan, traffic)?.with_rates(&terms.words);
        Ok(Self { host, clients, base, encoders, traffic, tokenizer, plan: Arc::new(plan.clone()), terms })
    }

    /// Makes ready for another series at the same server, to which the clients connect as before.
    ///
    /// # Errors
    /// As [`Load::new`].
    pub fn turn_to(&mut self, plan: &Plan) -> Result<()> {
        self.traffic = opened(plan, &self.traffic)?.with_rates(&self.terms.words);
        self.encoders = encoders(&self.base, plan)?;
        let server = Server { connections: self.plan.server.connections, ..plan.server.clone() };
        self.plan = Arc::new(Plan { server, ..plan.clone() });
        Ok(())
    }

    /// Replaces the facts about the server.
    ///
    /// # Errors
    /// As [`Load::new`].
    pub fn set_terms(&mut self, terms: Terms) -> Result<()> {
        self.traffic = self.traffic.with_rates(&terms.words);
        self.base = terms.encoder(&self.plan);
        self.encoders = encoders(&self.base, &self.plan)?;
        self.terms = terms;
        Ok(())
    }

    /// Replaces the server's count of words.
    pub fn set_words(&mut self, words: WordRates) {
        self.traffic = self.traffic.with_rates(&words);
        self.terms.words = words;
    }

    /// Sets how often the sweep was resumed.
    pub fn set_resumed(&mut self, times: u32) {
        self.terms.resumed = times;
    }

    /// Returns the plan of the series.
    pub const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Returns the facts about the server that requests depend on.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the requests of the series.
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the first thread's client, for questions between steps.
    pub fn client(&self) -> &Client {
        &self.clients[0]
    }

    /// Returns how the load at a level is spread over the threads.
    pub fn share(&self, level: Level) -> Share {
        let rate = match level.control {
            Control::Concurrency => None,
            Control::Rate | Control::Sessions | Control::TraceScale => {
                Some(level.value * self.plan.workload.per_level())
            }
        };
        Share { rate, ..Share::of(level, self.traffic.mean_output() * self.plan.mean_choices()) }
    }

    /// Opens about `n` connections for a step at a level.
    pub async fn warm(&self, level: Level, n: usize) {
        self.host.warm(&self.clients, &self.share(level), n).await;
    }

    /// Fires a step, or the part of it that `spec` names. One of several parts does not end by itself after the
    /// measured window, since it does not see the measured requests of the others: the caller that fires the parts must
    /// stop them.
    ///
    /// # Errors
    /// The load was made ready for another series or server, the workload has no such level, or the operating system
    /// refuses a thread.
    pub fn fire(&self, spec: &Spec) -> Result<Firing> {
        self.fire_at(spec, Instant::now())
    }

    /// Fires a step like [`Load::fire`], which begins at a given time: all times of its records count from there.
    ///
    /// # Errors
    /// As [`Load::fire`].
    pub fn fire_at(&self, spec: &Spec, began: Instant) -> Result<Firing> {
        let same_plan = Arc::ptr_eq(&spec.plan, &self.plan) || spec.plan == self.plan;
        ensure!(same_plan && spec.terms == self.terms, "the load was made ready for another series");
        let (plan, step) = (&spec.plan, &spec.step);
        let (builder, trace) = self.builder(spec)?;
        let share = self.spread(spec);
        // One client suffices to warm up the server; connections are opened before each step.
        let clients = if step.is_warmup() { &self.clients[..1] } else { &self.clients[..] };
        let lag = self.sample_lag(&share, spec, began);
        let (results, finished) = FinishedRequests::channel(self.host.is_paused());
        let (window, window_seen) = watch::channel(step.measure);
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let controls = Controls { window, gauge: Arc::<Gauge>::default(), stop, cut };
        let itl_limit = plan.slo.as_slice().iter().filter_map(Slo::tightest_itl).min();
        let job = Job {
            began,
            settle: step.settle,
            window: window_seen,
            phase: step.phase,
            timeout: step.timeout.after,
            timeout_is_error: step.timeout.is_error,
            is_partial: !spec.part.is_whole(),
            max_in_flight: plan.step.max_in_flight.div_ceil(spec.part.of()),
            itl_limit: itl_limit.filter(|_| !step.is_warmup()),
            choices: plan.choices_by_class(),
            keep_text: spec.terms.keep_text && !step.is_warmup(),
            results,
            gauge: controls.gauge.clone(),
            stop: controls.stop.clone(),
            cut: controls.cut.clone(),
        };
        let sending = self.host.fire(job, clients, &builder, share)?;
        Ok(Firing { finished, began, trace, controls, sending, lag })
    }

    /// Returns what two machines share if they would send the same step, whatever part of it `spec` names.
    ///
    /// # Errors
    /// As [`Load::fire`].
    pub fn outline(&self, spec: &Spec) -> Result<Outline> {
        let (builder, trace) = self.builder(&Spec { part: StepPart::WHOLE, ..spec.clone() })?;
        let chain = |ready: Ready| {
            let due = match ready.chain.start {
                Start::At(due) => due.as_nanos().to_le_bytes(),
                Start::WhenFree => u128::MAX.to_le_bytes(),
            };
            fnv1a(&[&due[..], &ready.first.head, &ready.first.tail].concat())
        };
        let files =
            serde_json::to_vec(&self.traffic.file_contents()).context("failed to sum up the files")?;
        let digest = builder.take(DIGESTED).map(chain).fold(fnv1a(&files), |all, one| mix(all ^ one));
        Ok(Outline { digest, trace })
    }

    /// Returns the numbers of all chains of a step, whatever part of it `spec` names.
    ///
    /// # Errors
    /// As [`Load::fire`].
    pub fn schedule(&self, spec: &Spec) -> Result<Schedule> {
        let (chains, _) = self.chains(&Spec { part: StepPart::WHOLE, ..spec.clone() })?;
        Ok(Schedule::new(chains))
    }

    /// Returns the bodies of a step's chains, and the place in a trace at which they begin.
    fn builder(&self, spec: &Spec) -> Result<(Builder, Option<TraceStart>)> {
        let (chains, trace) = self.chains(spec)?;
        let step = &spec.step;
        let prompter = Prompter::new(&self.traffic, step.prompts.clone(), spec.terms.words.clone());
        let prompter = prompter.resumed(spec.terms.resumed);
        let builder = Builder::new(chains, prompter, self.encoders.clone());
        Ok((builder.with_token_ids(self.tokenizer.clone()), trace))
    }

    /// Returns the chains of a step, and the place in a trace at which they begin.
    fn chains(&self, spec: &Spec) -> Result<(Chains, Option<TraceStart>)> {
        let step = &spec.step;
        let chains = Chains::new(&self.traffic, &step.arrivals, spec.level).map_err(anyhow::Error::msg)?;
        let chains = chains.in_series(&step.arrivals, step.in_series).part(&step.arrivals, spec.part);
        let trace = chains.trace_position().map(|(from, of)| TraceStart { from, of });
        let chains = if step.hurried { chains.without_think_times() } else { chains };
        let chains = match step.surge {
            Some(surge) => chains.with_surge(surge),
            None => chains,
        };
        let chains = match step.selection {
            Selection::All => chains,
            Selection::First(n) => chains.first(n),
            Selection::Prefixes(n) => chains.prefixes_only().first(n),
        };
        Ok((chains, trace))
    }

    /// Returns how a step is spread over the threads.
    fn spread(&self, spec: &Spec) -> Share {
        let share = self.share(spec.level);
        let faster = spec.step.surge.map_or(1.0, |surge| surge.factor);
        let rate = share.rate.map(|rate| rate * faster);
        let share = Share { pace: spec.step.pace, rate, ..share };
        if spec.part.is_whole() { share } else { share.part(spec.part) }
    }

    /// Starts to sample the receive lag of the threads that send; of none in simulated time and for warm-up requests.
    fn sample_lag(&self, share: &Share, spec: &Spec, began: Instant) -> LagSampler {
        let stop = CancellationToken::new();
        let threads = if self.host.is_paused() || spec.step.is_warmup() {
            JoinSet::new()
        } else {
            self.host.each(self.host.used(share), |_| {
                let stop = stop.clone();
                async move {
                    sleep_until(began).await;
                    lag::sample(stop).await
                }
            })
        };
        LagSampler { stop, threads }
    }
}

/// Returns the requests of a plan. Files that are open already are not read again.
///
/// # Errors
/// A file cannot be read.
pub fn opened(plan: &Plan, open: &Traffic) -> Result<Traffic> {
    match open.with_workload(&plan.workload) {
        Some(traffic) => Ok(traffic),
        None => Traffic::open(&plan.workload, &plan.counter()?),
    }
}

/// Returns an encoder for each class, with its own model and fields; that of the series if it has no classes.
pub fn encoders(base: &Encoder, plan: &Plan) -> Result<Vec<Encoder>> {
    let classes = plan.workload.classes();
    if classes.is_empty() {
        return Ok(vec![base.varied(plan.server.model.as_deref(), &plan.server.body.json())]);
    }
    let varied = |c: &Class| {
        let body = ExtraBody::try_from(c.body.clone()).map_err(anyhow::Error::msg)?;
        Ok(base.varied(c.model.as_deref(), &body.json()))
    };
    classes.iter().map(varied).collect()
}

#[cfg(test)]
mod tests;
