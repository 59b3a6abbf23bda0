//! The servers of the variants, one at a time: started, waited for, watched, and stopped before the next one is begun.

use super::keep::{Keep, Started};
use super::prepare::{self, PlanSeries, Prepared};
use super::resume::keep_lengths;
use super::same;
use anyhow::Result;
use goodput_core::caveat::{Caveat, OriginCaveat};
use goodput_core::endpoint::BaseUrl;
use goodput_core::redact;
use goodput_load::client::key::ApiKey;
use goodput_load::client::{Client, preflight};
use goodput_load::launch::{Groups, Launch, Launched, log, port, stale};
use goodput_load::load::host::Host;
use goodput_plan::server::Server;
use goodput_plan::{Plan, Series, Start, Variant};
use goodput_run::rundir::variants::State;
use goodput_run::rundir::{LOGS, VariantRun};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How often it is asked whether a server is ready.
const ASK: Duration = Duration::from_millis(250);
/// How long a server that is not ready yet may take to say so.
const ANSWER: Duration = Duration::from_secs(10);
/// What a server that broke off may still take to end by itself: what it writes then says why.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The servers of all variants, and what became of each.
pub(super) struct Servers {
    dir: PathBuf,
    groups: Groups,
    /// In the order of the plan; empty where it has no variants.
    pub(super) runs: Vec<VariantRun>,
    /// The one that is ready.
    current: Option<Current>,
    /// Nothing is started before: the one before cools down.
    rest_until: Option<Instant>,
    /// How often the sweep was resumed.
    resumed: u32,
    /// Whether it goes on on servers that are not as they were.
    force: bool,
    /// Keeps what was started for the next sweep of the plan.
    keep: Keep,
}

/// How servers are started and stopped.
pub(super) struct ServerOptions {
    /// The run folder.
    pub(super) dir: PathBuf,
    /// Lists what is started, so that it can be ended where this process leaves at once.
    pub(super) groups: Groups,
    /// Keeps what was started for the next sweep of the plan.
    pub(super) keep: Keep,
}

/// The servers of the earlier tries of a sweep; none at its first try.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EarlierServers<'a> {
    pub(super) runs: &'a [VariantRun],
    /// How often the sweep was resumed, this time included.
    pub(super) resumed: u32,
    /// Measure servers even if they have changed since.
    pub(super) force: bool,
}

/// The server that is ready.
struct Current {
    at: usize,
    launched: Option<Launched>,
    start: Option<Start>,
    urls: Vec<BaseUrl>,
}

/// Why a server was not made ready.
enum Not {
    Ready(String),
    Interrupted,
}

impl From<anyhow::Error> for Not {
    fn from(e: anyhow::Error) -> Self {
        Self::Ready(format!("{e:#}"))
    }
}

impl Servers {
    /// Lists the servers of a plan. One that failed in an earlier try of the sweep is tried again, one that died is not.
    pub(super) fn new(plan: &Plan, options: ServerOptions, earlier: EarlierServers<'_>) -> Self {
        let ServerOptions { dir, groups, keep } = options;
        let titles = plan.series();
        let server = |name: &str| {
            let own = titles.iter().find(|s| s.variant.as_ref().is_some_and(|v| v.name == name));
            own.map(|s| s.plan.measured_server()).unwrap_or_default()
        };
        let one = |v: Variant| {
            let known = earlier.runs.iter().find(|run| run.name == v.name).cloned().unwrap_or_default();
            let again = matches!(known.state, State::Running | State::Failed);
            let state = if again { State::Waiting } else { known.state };
            // Why it failed is told anew; what its server was stands, since it is to be the same.
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
            VariantRun {
                state,
                server: server(&v.name),
                command: v.start.as_ref().map(Start::shown).unwrap_or_default(),
                log: v.start.as_ref().map(|_| format!("{LOGS}/{}.log", v.name)),
                name: v.name,
                knobs: v.knobs,
                ..known
            }
        };
        let runs = plan.variants().into_iter().map(one).collect();
        let EarlierServers { resumed, force, .. } = earlier;
        Self { dir, groups, runs, current: None, rest_until: None, resumed, force, keep }
    }

    fn at(&self, one: &Series) -> Option<usize> {
        let name = &one.variant.as_ref()?.name;
        self.runs.iter().position(|run| run.name == *name)
    }

    /// Whether nothing more is to be measured on the server of a series, whatever is left.
    pub(super) fn is_over(&self, one: &Series) -> bool {
        let state = self.at(one).map(|at| self.runs[at].state);
        matches!(state, Some(State::Failed | State::Died))
    }

    /// Whether the server of a series is the one that is ready.
    pub(super) fn serves(&self, one: &Series) -> bool {
        self.at(one).is_some() && self.current.as_ref().map(|c| c.at) == self.at(one)
    }

    /// The list of what is started.
    pub(super) fn groups(&self) -> Groups {
        self.groups.clone()
    }

    /// The process group of the server that is ready, where it was started.
    pub(super) fn group(&self) -> Option<u32> {
        self.current.as_ref()?.launched.as_ref().map(Launched::id)
    }

    /// Whether one is ready.
    pub(super) fn any(&self) -> bool {
        self.current.is_some()
    }

    /// The models of all that were asked for one.
    pub(super) fn models(&self) -> Option<String> {
        let mut all: Vec<&str> = self.runs.iter().filter_map(|run| run.model.as_deref()).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether the process of the server that is ready has ended.
    pub(super) fn exited(&mut self) -> bool {
        let launched = self.current.as_mut().and_then(|c| c.launched.as_mut());
        launched.is_some_and(|l| {
            // Asked after every step: nothing that this process may be killed in the middle of leaves more behind than that.
            l.clean_log();
            l.exited().is_some()
        })
    }

    /// Starts the server of a series, where it is started, and makes it ready to be measured; `None` where it is not to be made so, or
    /// `interrupt` came first. What became of it is noted.
    ///
    /// # Errors
    /// Something of it is left that cannot be ended.
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
        let kept = self.kept(variant).await?;
        let is_kept = kept.is_some();
        let launched = match kept {
            Some(launched) => Ok(Some(launched)),
            None => self.launch(variant, &urls).await,
        };
        let mut launched = match launched {
            Ok(launched) => launched,
            Err(why) => {
                self.fail(at, why, Vec::new());
                return Ok(None);
            }
        };
        if is_kept {
            // It writes on into the log of the run that started it.
            self.runs[at].log = None;
        }
        let ready = tokio::select! {
            ready = self.prepare(one, PlanSeries { series: &own, ..all }, host, launched.as_mut()) => ready,
            () = interrupt.cancelled() => Err(Not::Interrupted),
        };
        let current = Current { at, launched: launched.take(), start: variant.start.clone(), urls };
        match ready {
            Ok(ready) => {
                let run = &mut self.runs[at];
                let started = current.launched.as_ref().filter(|_| !is_kept);
                run.ready_s = started.map(|_| began.elapsed().as_secs_f64());
                (run.model, run.words) = (Some(ready.model.clone()), Some(ready.load.terms().words.clone()));
                run.facts = ready.facts.clone();
                // That of the run as a whole is noted there.
                run.noted = ready
                    .noted
                    .iter()
                    .filter(|c| **c != Caveat::Origin(OriginCaveat::VirtualTime))
                    .cloned()
                    .collect();
                self.current = Some(current);
                Ok(Some(ready))
            }
            Err(not) => {
                self.give_up(current, not).await?;
                Ok(None)
            }
        }
    }

    /// Takes over the server that an earlier sweep has left running, if it is that of this variant and still runs. Any other is stopped
    /// first: servers of a plan run one at a time.
    ///
    /// # Errors
    /// Something of the other is left that cannot be ended.
    async fn kept(&self, variant: &Variant) -> Result<Option<Launched>> {
        let Some(mut started) = self.keep.take() else { return Ok(None) };
        if started.name == variant.name && started.launched.exited().is_none() {
            return Ok(Some(started.launched));
        }
        let rest = started.start.cool_down.0;
        started.stop().await?;
        sleep(rest).await;
        Ok(None)
    }

    /// Starts the command of a variant, where it has one and nothing is in its place.
    async fn launch(&self, variant: &Variant, urls: &[BaseUrl]) -> Result<Option<Launched>, String> {
        let Some(start) = &variant.start else { return Ok(None) };
        let filled = start.expand(|name| std::env::var(name).ok());
        // Before anything is told of what is in its way: that may be the same command.
        for secret in filled.iter().flat_map(|filled| &filled.secrets).filter(|s| !is_everyday(s)) {
            redact::register_secret(secret, log::HIDDEN);
        }
        self.nothing_in_the_way(urls).await?;
        let filled = filled?;
        if filled.exposed {
            tracing::warn!(
                "warning: the command line of {} holds a secret, and every user of this machine can read it (ps): hand it over in env \
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

    /// Whether a server can be started at these addresses; the error names what is there already.
    async fn nothing_in_the_way(&self, urls: &[BaseUrl]) -> Result<(), String> {
        let there = stale::in_the_way(urls);
        let who = |of: &dyn Fn(&stale::InTheWay) -> bool| {
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
        match who(&stale::InTheWay::is_left) {
            none if none.is_empty() => Ok(()),
            left => Err(format!("a server of an earlier run is in its way: {left}")),
        }
    }

    /// Waits until a server is ready, and prepares it.
    async fn prepare(
        &self,
        one: &Series,
        own: PlanSeries<'_>,
        host: &Arc<Host>,
        launched: Option<&mut Launched>,
    ) -> Result<Prepared, Not> {
        if let (Some(launched), Some(start)) = (launched, one.variant.as_ref().and_then(|v| v.start.as_ref()))
        {
            answering(&one.plan.server, start, launched).await?;
        }
        let known = self.at(one).map(|at| &self.runs[at]);
        let mut plan = one.plan.clone();
        // A name without what it held of a secret is nobody's.
        if let Some(model) =
            known.and_then(|k| k.model.as_ref()).filter(|model| !self.force && !redact::contains_mask(model))
        {
            plan.server.model.get_or_insert_with(|| model.clone());
        }
        let mut ready = prepare::prepare(&plan, own, host).await?;
        ready.check_series(own)?;
        ready.load.set_resumed(self.resumed);
        let Some(known) = known else { return Ok(ready) };
        same::check(same::of_facts(&known.facts, &ready.facts), self.force, &mut ready.noted)?;
        if let Some(words) = known.words.as_ref().filter(|_| !self.force) {
            keep_lengths(words, &known.noted, &mut ready)?;
        }
        Ok(ready)
    }

    /// Notes why the server of a variant could not be measured.
    fn fail(&mut self, at: usize, why: String, last_lines: Vec<String>) {
        let run = &mut self.runs[at];
        run.state = State::Failed;
        run.out_of_memory = log::out_of_memory(&why).is_some() || run.out_of_memory;
        tracing::warn!("warning: {} is not measured: {why}", run.name);
        (run.reason, run.last_lines) = (Some(why), last_lines);
    }

    /// Stops a server that was not made ready, and notes why.
    async fn give_up(&mut self, mut current: Current, not: Not) -> Result<()> {
        let at = current.at;
        if let Not::Ready(why) = not {
            let (why, lines) = match &mut current.launched {
                Some(launched) => self.explain(at, launched, why).await,
                None => (why, Vec::new()),
            };
            self.fail(at, why, lines);
        }
        self.stop(current).await
    }

    /// What the end of a server and its log say beside what was seen of it: the reason in full, and the last lines.
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

    /// The server that is ready has gone away: notes why, with what is left of it stopped.
    ///
    /// # Errors
    /// Something of it is left that cannot be ended.
    pub(super) async fn died(&mut self, step: u32) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let at = current.at;
        let seen = format!("it stopped answering in step {step}");
        let (why, lines) = match &mut current.launched {
            Some(launched) => self.explain(at, launched, seen).await,
            None => (seen, Vec::new()),
        };
        let run = &mut self.runs[at];
        run.state = State::Died;
        tracing::warn!("warning: {} died: {why}", run.name);
        (run.reason, run.last_lines) = (Some(why), lines);
        self.stop(current).await
    }

    /// Stops the server that is ready; `done` is whether everything was measured on it.
    ///
    /// # Errors
    /// Something of it is left that cannot be ended.
    pub(super) async fn end(&mut self, done: bool) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        if done {
            self.runs[current.at].state = State::Done;
        }
        self.stop(current).await
    }

    /// Of variants that were measured in turns, those on which everything was measured are done.
    pub(super) fn all_done(&mut self, done: impl Fn(&str) -> bool) {
        for run in self.runs.iter_mut().filter(|run| run.state == State::Running && done(&run.name)) {
            run.state = State::Done;
        }
    }

    /// Stops a server, or leaves it to the next sweep where servers are kept and this one did not fail.
    async fn stop(&mut self, current: Current) -> Result<()> {
        let Current { at, launched: Some(launched), start: Some(start), urls } = current else {
            return Ok(());
        };
        let run = &self.runs[at];
        let (name, rest) = (run.name.clone(), start.cool_down.0);
        let started = Started { name, launched, start, urls };
        if self.keep.is_on() && matches!(run.state, State::Running | State::Done) {
            self.keep.put(started);
            return Ok(());
        }
        started.stop().await?;
        self.rest_until = (!rest.is_zero()).then(|| Instant::now() + rest);
        Ok(())
    }
}

/// Whether the value of a variable with the name of a secret is a switch or a small number all the same, which may stand anywhere.
fn is_everyday(value: &str) -> bool {
    let number = value.len() < 8 && value.bytes().all(|b| b.is_ascii_digit());
    number || ["true", "false", "none", "null", "auto"].contains(&&*value.to_ascii_lowercase())
}

/// How a process ended: `exit code 1`, `signal 9`.
fn ended_with(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("signal {signal}");
    }
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// Whether a process was ended by SIGKILL, directly or as containers and shells tell it.
fn was_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(9) {
        return true;
    }
    status.code() == Some(137)
}

/// Waits until a server that was started answers on its page for that, and lists a model where it has a list.
async fn answering(server: &Server, start: &Start, launched: &mut Launched) -> Result<(), Not> {
    let key = server.key.as_ref().map(ApiKey::read).transpose()?;
    let client = Client::http(server, key.clone())?;
    let (elsewhere, path) = match start.ready_url.as_ref().map(|url| url.parts()) {
        Some((base, path)) => (base, Some(path)),
        None => (None, None),
    };
    let other = match elsewhere {
        // The key is the server's own.
        Some(base) => Some(Client::http(&server.for_other_host(base), None)?),
        None => None,
    };
    let deadline = Instant::now() + start.timeout.0;
    loop {
        let asked = async {
            is_ready(other.as_ref().unwrap_or(&client), path.as_deref()).await?;
            lists_models(&client, server.model.as_deref()).await
        };
        let said = match timeout(ANSWER, asked).await {
            Ok(Ok(())) => {
                launched.clean_log();
                return Ok(());
            }
            Ok(Err(said)) => said,
            Err(_) => format!("it did not answer within {} s", ANSWER.as_secs()),
        };
        launched.clean_log();
        if launched.exited().is_some() {
            return Err(Not::Ready("it ended before it was ready".into()));
        }
        if Instant::now() >= deadline {
            return Err(Not::Ready(format!("it was not ready within {} (timeout): {said}", start.timeout)));
        }
        sleep(ASK).await;
    }
}

/// Asks a page, or the one that says so by custom; the error is what was seen.
async fn is_ready(client: &Client, path: Option<&str>) -> Result<(), String> {
    let ask = async |target: usize, path: &str| client.get_from(target, path).await.map(|(status, _)| status);
    for target in 0..client.urls().len().max(1) {
        let (asked, status) = match path {
            Some(path) => (path, ask(target, path).await),
            None => match ask(target, "/health").await {
                Ok(404 | 405 | 501) => ("/v1/models", ask(target, "/v1/models").await),
                other => ("/health", other),
            },
        };
        match status {
            Ok(200..=299) => {}
            Ok(status) => return Err(format!("{asked} answers with HTTP {status}")),
            Err(e) => return Err(format!("{e:#}")),
        }
    }
    Ok(())
}

/// Whether the model is there; the wrong one is not waited for, that is told when the server is prepared.
async fn lists_models(client: &Client, wanted: Option<&str>) -> Result<(), String> {
    match client.get("/v1/models").await {
        Ok((404 | 405, _)) => Ok(()),
        Ok((200..=299, _)) => match preflight::check_models(client, wanted).await {
            Err(e) if format!("{e:#}").contains("lists no model") => Err(format!("{e:#}")),
            _ => Ok(()),
        },
        // Told in full when it is prepared.
        Ok((401 | 403, _)) => Ok(()),
        Ok((status, _)) => Err(format!("/v1/models answers with HTTP {status}")),
        Err(e) => Err(format!("{e:#}")),
    }
}
