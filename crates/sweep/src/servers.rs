//! The servers of variants, which run one at a time: start, wait for readiness, watch, and stop before the next one
//! starts.

mod ready;

use super::changes;
use super::prepare::{self, PlanSeries, Prepared};
use super::resume::reuse_word_rates;
use super::server_store::{ServerStore, StartedServer};
use anyhow::Result;
use goodput_core::caveat::{Caveat, OriginCaveat};
use goodput_core::endpoint::BaseUrl;
use goodput_core::redact;
use goodput_core::secrets::{MASK, is_distinctive};
use goodput_load::launch::{Groups, Launch, Launched, log, port, stale};
use goodput_load::load::host::Host;
use goodput_plan::{Plan, Series, Start, Variant};
use goodput_run::rundir::variants::State;
use goodput_run::rundir::{LOGS, VariantRun};
use ready::{NotReady, wait_until_ready};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Time for a failed server to exit by itself: its last log lines give the reason.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The servers of all variants, and the state of each.
pub(super) struct Servers {
    dir: PathBuf,
    groups: Groups,
    /// One entry for each variant, in the order of the plan; empty without variants.
    pub(super) runs: Vec<VariantRun>,
    /// The server that is ready.
    current: Option<ReadyServer>,
    /// Earliest time to start the next server: the end of the cool-down of the previous one.
    rest_until: Option<Instant>,
    /// Number of times that the sweep was resumed.
    resumed: u32,
    /// True if the sweep continues on servers that have changed (`--force`).
    force: bool,
    /// Keeps started servers running for the next sweep of the plan.
    store: ServerStore,
}

/// Options for starting and stopping servers.
pub(super) struct ServerOptions {
    /// The run folder.
    pub(super) dir: PathBuf,
    /// List of started process groups, so that they can be killed if this process exits abruptly.
    pub(super) groups: Groups,
    /// Keeps started servers running for the next sweep of the plan.
    pub(super) store: ServerStore,
}

/// The servers of the earlier attempts of a sweep; empty in its first attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EarlierServers<'a> {
    pub(super) runs: &'a [VariantRun],
    /// Number of times that the sweep was resumed, including this time.
    pub(super) resumed: u32,
    /// Measure servers even if they have changed since.
    pub(super) force: bool,
}

/// The server that is ready.
struct ReadyServer {
    at: usize,
    launched: Option<Launched>,
    start: Option<Start>,
    urls: Vec<BaseUrl>,
}

impl Servers {
    /// Lists the servers of a plan. A server that failed in an earlier attempt of the sweep is retried; one that died
    /// is not.
    pub(super) fn new(plan: &Plan, options: ServerOptions, earlier: EarlierServers<'_>) -> Self {
        let ServerOptions { dir, groups, store } = options;
        let titles = plan.series();
        let server = |name: &str| {
            let own = titles.iter().find(|s| s.variant.as_ref().is_some_and(|v| v.name == name));
            own.map(|s| s.plan.measured_server()).unwrap_or_default()
        };
        let one = |v: Variant| {
            let known = earlier.runs.iter().find(|run| run.name == v.name).cloned().unwrap_or_default();
            let again = matches!(known.state, State::Running | State::Failed);
            let state = if again { State::Waiting } else { known.state };
            // The reason of the failure is determined again. The description of the server stays, to compare the new
            // server with it.
            let known = if known.state == State::Failed {
                VariantRun {
                    reason: None,
                    out_of_memory: false,
                    last_lines: Vec::new(),
                    ready_s: None,
                    ..known
                }
            } else {
                known
            };
            let start = v.start();
            VariantRun {
                state,
                server: server(&v.name),
                command: start.as_ref().map(Start::shown).unwrap_or_default(),
                log: start.map(|_| format!("{LOGS}/{}.log", v.name)),
                name: v.name,
                knobs: v.knobs,
                ..known
            }
        };
        let runs = plan.variants().into_iter().map(one).collect();
        let EarlierServers { resumed, force, .. } = earlier;
        Self { dir, groups, runs, current: None, rest_until: None, resumed, force, store }
    }

    fn at(&self, one: &Series) -> Option<usize> {
        let name = &one.variant.as_ref()?.name;
        self.runs.iter().position(|run| run.name == *name)
    }

    /// Returns true if nothing more can be measured on the server of a series, because it failed or died.
    pub(super) fn is_over(&self, one: &Series) -> bool {
        let state = self.at(one).map(|at| self.runs[at].state);
        matches!(state, Some(State::Failed | State::Died))
    }

    /// Returns true if the server of a series is the one that is ready.
    pub(super) fn serves(&self, one: &Series) -> bool {
        self.at(one).is_some() && self.current.as_ref().map(|c| c.at) == self.at(one)
    }

    /// Returns the list of started process groups.
    pub(super) fn groups(&self) -> Groups {
        self.groups.clone()
    }

    /// Returns the process group of the ready server, if this process started it.
    pub(super) fn group(&self) -> Option<u32> {
        self.current.as_ref()?.launched.as_ref().map(Launched::id)
    }

    /// Returns true if a server is ready.
    pub(super) fn any(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the names of the models of all prepared servers, joined by commas.
    pub(super) fn models(&self) -> Option<String> {
        let mut all: Vec<&str> = self.runs.iter().filter_map(|run| run.model.as_deref()).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Returns true if the process of the ready server has exited.
    pub(super) fn exited(&mut self) -> bool {
        let launched = self.current.as_mut().and_then(|c| c.launched.as_mut());
        launched.is_some_and(|l| {
            // This runs after every step, so a process that is killed leaves at most the log of one step unredacted.
            l.clean_log();
            l.exited().is_some()
        })
    }

    /// Starts the server of a series, if it has a start command, and prepares it for measurement. Returns `None` if the
    /// server did not become ready, or if `interrupt` came first. Records the outcome in `runs`.
    ///
    /// # Errors
    /// A process of the server is left and cannot be killed.
    pub(super) async fn begin(
        &mut self,
        one: &Series,
        all: PlanSeries<'_>,
        host: &Arc<Host>,
        interrupt: &CancellationToken,
    ) -> Result<Option<Prepared>> {
        let (Some(at), Some(variant)) = (self.at(one), &one.variant) else { return Ok(None) };
        if let Some(rest) = self.rest_until.take() {
            tokio::select! {
                () = sleep_until(rest) => {}
                () = interrupt.cancelled() => return Ok(None),
            }
        }
        let urls = one.plan.server.target.urls().to_vec();
        let own: Vec<Series> = all.series.iter().filter(|s| s.variant == one.variant).cloned().collect();
        self.runs[at].state = State::Running;
        let began = Instant::now();
        let stored = self.take_stored(variant).await?;
        let is_stored = stored.is_some();
        let launched = match stored {
            Some(launched) => Ok(Some(launched)),
            None => self.launch(variant, &urls).await,
        };
        let mut launched = match launched {
            Ok(launched) => launched,
            Err(why) => {
                self.record_failure(at, State::Failed, why, Vec::new());
                return Ok(None);
            }
        };
        if is_stored {
            // It continues to write into the log of the run that started it.
            self.runs[at].log = None;
        }
        let ready = tokio::select! {
            ready = self.prepare(one, PlanSeries { series: &own, ..all }, host, launched.as_mut()) => ready,
            () = interrupt.cancelled() => Err(NotReady::Interrupted),
        };
        let current = ReadyServer { at, launched: launched.take(), start: variant.start(), urls };
        match ready {
            Ok(ready) => {
                let run = &mut self.runs[at];
                let started = current.launched.as_ref().filter(|_| !is_stored);
                run.ready_s = started.map(|_| began.elapsed().as_secs_f64());
                (run.model, run.words) = (Some(ready.model.clone()), Some(ready.load.terms().words.clone()));
                (run.facts, run.first_requests) = (ready.facts.clone(), ready.first_requests.clone());
                // This caveat is recorded for the whole run.
                run.noted = ready
                    .noted
                    .iter()
                    .filter(|c| **c != Caveat::Origin(OriginCaveat::VirtualTime))
                    .cloned()
                    .collect();
                self.current = Some(current);
                Ok(Some(ready))
            }
            Err(NotReady::Failed(why)) => {
                self.stop_failed(current, State::Failed, why).await?;
                Ok(None)
            }
            Err(NotReady::Interrupted) => {
                self.stop(current).await?;
                Ok(None)
            }
        }
    }

    /// Takes over the server that an earlier sweep left running, if it belongs to this variant and still runs. Stops
    /// any other server first, since the servers of a plan run one at a time.
    ///
    /// # Errors
    /// A process of the other server is left and cannot be killed.
    async fn take_stored(&self, variant: &Variant) -> Result<Option<Launched>> {
        let Some(mut started) = self.store.take() else { return Ok(None) };
        if started.name == variant.name && started.launched.exited().is_none() {
            return Ok(Some(started.launched));
        }
        let rest = started.start.cool_down.0;
        started.stop().await?;
        sleep(rest).await;
        Ok(None)
    }

    /// Starts the command of a variant, if it has one and its addresses are free.
    async fn launch(&self, variant: &Variant, urls: &[BaseUrl]) -> Result<Option<Launched>, String> {
        let Some(start) = variant.start() else { return Ok(None) };
        let filled = start.expand(|name| std::env::var(name).ok());
        // Before any message about a process in the way: that may run the same command, with the same secrets.
        for secret in filled.iter().flat_map(|filled| &filled.secrets).filter(|s| is_distinctive(s)) {
            redact::register_secret(secret, MASK);
        }
        self.check_addresses(urls).await?;
        let filled = filled?;
        if filled.exposed {
            tracing::warn!(
                "warning: the command line of {} holds a secret, and every user of this machine can read it (ps): pass it in env \
                 instead, as VLLM_API_KEY or HF_TOKEN, or in a file",
                variant.name
            );
        }
        let launch = Launch {
            argv: filled.command,
            env: filled.env,
            folder: start.working_directory.clone(),
            log: self.dir.join(LOGS).join(format!("{}.log", variant.name)),
            secrets: filled.secrets,
            serves: urls.to_vec(),
        };
        tracing::info!("starting {}: {}", variant.name, start.shown().join(" "));
        launch.start(&self.groups).map(Some).map_err(|e| format!("{e:#}"))
    }

    /// Checks that a server can be started at these addresses. The error names the process that occupies one.
    async fn check_addresses(&self, urls: &[BaseUrl]) -> Result<(), String> {
        let there = stale::obstacles(urls);
        let who = |of: &dyn Fn(&stale::Obstacle) -> bool| {
            there.iter().filter(|p| of(p)).map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        for url in urls {
            if port::answers(url).await {
                let who = who(&|_| true);
                let who = if who.is_empty() { who } else { format!(" ({who})") };
                return Err(format!(
                    "something answers at {url} already, before this server was started{who}: stop it, or choose another port"
                ));
            }
        }
        match who(&stale::Obstacle::is_left) {
            none if none.is_empty() => Ok(()),
            left => Err(format!("a server of an earlier run still runs: {left}")),
        }
    }

    /// Waits until a server is ready, and prepares it.
    async fn prepare(
        &self,
        one: &Series,
        own: PlanSeries<'_>,
        host: &Arc<Host>,
        launched: Option<&mut Launched>,
    ) -> Result<Prepared, NotReady> {
        if let (Some(launched), Some(start)) = (launched, one.variant.as_ref().and_then(Variant::start)) {
            wait_until_ready(&one.plan.server, &start, launched).await?;
        }
        let known = self.at(one).map(|at| &self.runs[at]);
        let mut plan = one.plan.clone();
        // A name with a masked secret is not the model's real name.
        if let Some(model) =
            known.and_then(|k| k.model.as_ref()).filter(|model| !self.force && !redact::contains_mask(model))
        {
            plan.server.model.get_or_insert_with(|| model.clone());
        }
        let mut ready = prepare::prepare(&plan, own, host).await?;
        ready.check_series(own)?;
        ready.load.set_resumed(self.resumed);
        let Some(known) = known else { return Ok(ready) };
        changes::check(changes::of_facts(&known.facts, &ready.facts), self.force, &mut ready.noted)?;
        if let Some(words) = known.words.as_ref().filter(|_| !self.force) {
            reuse_word_rates(words, &known.noted, &mut ready)?;
        }
        Ok(ready)
    }

    /// Records the reason why the server of a variant failed, or died under load.
    fn record_failure(&mut self, at: usize, state: State, why: String, last_lines: Vec<String>) {
        let run = &mut self.runs[at];
        run.state = state;
        run.out_of_memory = log::out_of_memory(&why).is_some() || run.out_of_memory;
        let failed = if state == State::Died { "died" } else { "is not measured" };
        tracing::warn!("warning: {} {failed}: {why}", run.name);
        (run.reason, run.last_lines) = (Some(why), last_lines);
    }

    /// Stops a server that failed or died, and records the reason.
    async fn stop_failed(&mut self, mut current: ReadyServer, state: State, seen: String) -> Result<()> {
        let at = current.at;
        let (why, lines) = match &mut current.launched {
            Some(launched) => self.explain(at, launched, seen).await,
            None => (seen, Vec::new()),
        };
        self.record_failure(at, state, why, lines);
        self.stop(current).await
    }

    /// Returns the full reason of a failure, from the exit status and the log of the server in addition to `seen`, and
    /// the last lines of the log.
    async fn explain(&mut self, at: usize, launched: &mut Launched, seen: String) -> (String, Vec<String>) {
        let deadline = Instant::now() + LAST_WORDS;
        while launched.exited().is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(50)).await;
        }
        let ended = launched.exited();
        let ended_by = ended.map(|status| format!("{seen}; its process ended with {}", ended_with(status)));
        let (seen, memory) = (ended_by.unwrap_or(seen), launched.log.out_of_memory());
        let killed = ended.is_some_and(was_killed);
        self.runs[at].out_of_memory = memory.is_some() || killed;
        let why = match memory {
            Some(line) => format!("out of memory: {line} ({seen})"),
            None if killed => {
                format!("{seen}: killed from outside, mostly by the system when memory runs out")
            }
            None => seen,
        };
        (why, launched.log.last_lines())
    }

    /// Handles the death of the ready server: records the reason and stops the remaining processes.
    ///
    /// # Errors
    /// A process of the server is left and cannot be killed.
    pub(super) async fn record_death(&mut self, step: u32) -> Result<()> {
        match self.current.take() {
            Some(current) => {
                self.stop_failed(current, State::Died, format!("it stopped answering in step {step}")).await
            }
            None => Ok(()),
        }
    }

    /// Stops the server that is ready. `done` is true if everything was measured on it.
    ///
    /// # Errors
    /// A process of the server is left and cannot be killed.
    pub(super) async fn end(&mut self, done: bool) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        if done {
            self.runs[current.at].state = State::Done;
        }
        self.stop(current).await
    }

    /// Marks those variants as done on which everything was measured, after variants were measured in turns.
    pub(super) fn all_done(&mut self, done: impl Fn(&str) -> bool) {
        for run in self.runs.iter_mut().filter(|run| run.state == State::Running && done(&run.name)) {
            run.state = State::Done;
        }
    }

    /// Stops a server, or leaves it running for the next sweep if servers are stored and this one did not fail.
    async fn stop(&mut self, current: ReadyServer) -> Result<()> {
        let ReadyServer { at, launched: Some(launched), start: Some(start), urls } = current else {
            return Ok(());
        };
        let run = &self.runs[at];
        let (name, rest) = (run.name.clone(), start.cool_down.0);
        let started = StartedServer { name, launched, start, urls };
        if self.store.is_on() && matches!(run.state, State::Running | State::Done) {
            self.store.put(started);
            return Ok(());
        }
        started.stop().await?;
        self.rest_until = (!rest.is_zero()).then(|| Instant::now() + rest);
        Ok(())
    }
}

/// Describes how a process ended: `exit code 1`, `signal 9`.
fn ended_with(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("signal {signal}");
    }
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// Returns true if a process was killed by SIGKILL, directly or as containers and shells report it (exit code 137).
fn was_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(9) {
        return true;
    }
    status.code() == Some(137)
}
