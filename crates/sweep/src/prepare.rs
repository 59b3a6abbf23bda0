//! Preparation before the first step: the model, the supported fields, the calibration of lengths, and the warm-up.

use super::adapters::{self, LoadedAdapters};
use super::answers::Reader;
use super::calibrate;
use super::keep_alive;
use super::scrape::Scraper;
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, OriginCaveat, ServerCaveat};
use goodput_core::endpoint::BaseUrl;
use goodput_core::level::Level;
use goodput_core::record::{Finished, Phase, TokenSource};
use goodput_core::tokens::Tokenizer;
use goodput_load::client::Client;
use goodput_load::client::encoder::Encoder;
use goodput_load::client::key::ApiKey;
use goodput_load::client::negotiate::{Negotiated, negotiate};
use goodput_load::client::payload::Payload;
use goodput_load::client::{preflight, route};
use goodput_load::load::host::Host;
use goodput_load::load::local::{Connected, Load, opened};
use goodput_load::load::spec::{Selection, Spec, StepSpec, Terms, plan_encoder};
use goodput_load::sim::serve::Embedded;
use goodput_plan::server::{Connections, PromptForm, Server, Target};
use goodput_plan::{Plan, Series, Timeout};
use goodput_run::rundir::FirstRequests;
use goodput_stats::server::facts::Facts;
use goodput_workload::draw::StepKey;
use goodput_workload::part::StepPart;
use goodput_workload::rate::WordRate;
use goodput_workload::traffic::Traffic;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Warm-up requests in flight at once: enough to fill a batch, not to queue.
const WARMUP_SLOTS: u32 = 4;

/// A window that does not end: warm-up stops after its last request.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Prompt of the requests that find out which fields the server accepts.
const NEGOTIATION: &str = "able about above accept across act add after";
const NEGOTIATION_TOKENS: u32 = 2;

/// The series of a plan, and its opened traffic files.
#[derive(Clone, Copy)]
pub(crate) struct PlanSeries<'a> {
    /// The series, in the order of the plan.
    pub(crate) series: &'a [Series],
    /// The requests of the plan as a whole.
    pub(crate) traffic: &'a Traffic,
}

/// A server that is ready for measurement.
pub(crate) struct Prepared {
    /// Sends the steps of the current series.
    pub(crate) load: Load,
    pub(crate) max_model_len: Option<u32>,
    pub(crate) model: String,
    /// Reads the text of answers.
    pub(crate) reader: Reader,
    pub(crate) noted: Vec<Caveat>,
    /// Reads metrics, if the server has any.
    pub(crate) scraper: Scraper,
    /// Facts that the servers report about themselves.
    pub(crate) facts: Vec<Facts>,
    /// The first requests to each model.
    pub(crate) first_requests: Vec<FirstRequests>,
    /// The adapters to unload when nothing more is measured.
    adapters: LoadedAdapters,
    /// False after the server has reported that it cannot empty its prefix cache.
    pub(crate) resets: bool,
    /// The embedded simulated server, which stops when this is dropped.
    _embedded: Option<Embedded>,
    /// The address of the embedded server.
    pub(crate) embedded_url: Option<BaseUrl>,
}

/// Connects, checks the model, finds out which fields the server takes, and calibrates the input length. `plan` is that
/// of the first series of `all`.
///
/// # Errors
/// The server cannot be measured: the message says what to check. Nothing has been measured yet.
pub(crate) async fn prepare(plan: &Plan, all: PlanSeries<'_>, host: &Arc<Host>) -> Result<Prepared> {
    let traffic = opened(plan, all.traffic)?;
    // Open the file before any request: a missing file is an error without a server, too.
    let tokenizer = plan.server.tokenizer.as_deref().map(Tokenizer::open).transpose()?;
    let (mut clients, aside, embedded) = connect(plan, host)?;
    let mut client = clients[0].clone();
    let loaded = LoadedAdapters::load(host, &client, &plan.server.adapters).await?;
    let (asked, wanted) = (client.clone(), plan.first_model().map(str::to_owned));
    let served = host.run(async move { preflight::find_model(&asked, wanted.as_deref()).await }).await??;
    check_classes(plan, &client, host).await?;
    check_length(&traffic, served.max_model_len)?;
    let timeout = plan.probe_timeout();
    let negotiated = negotiated(plan, &client, host, &served.id).await?;
    let encoder = plan_encoder(plan, &served.id, negotiated.pinning, negotiated.usage);
    let mut noted = negotiated.caveats;
    let probe = calibrate::Probe { host, client: &client, encoder: &encoder, timeout };
    let cold = without_reuse(plan, probe, &negotiated.probe).await?;
    if let Some(cold) = &cold {
        noted.push(Caveat::Server(ServerCaveat::ClosesConnections));
        (clients, ..) = connect(cold, host)?;
        client = clients[0].clone();
    }
    let plan = cold.as_ref().unwrap_or(plan);
    let probe = calibrate::Probe { host, client: &client, encoder: &encoder, timeout };
    let first_requests = adapters::first_requests(probe, &served.id, plan, &loaded).await?;
    let told = negotiated.probe.record.token_source;
    let told = matches!(told, Some(TokenSource::Usage | TokenSource::Continuous));
    let reader = Reader::new(plan, tokenizer.as_ref(), told)?;
    let ids = tokenizer.filter(|_| plan.server.prompts == PromptForm::TokenIds);
    let (words, uncalibrated) = if ids.is_some() || !encoder.takes_text() {
        // Prompts are sent as token ids, or are audio, so words need no calibration.
        (WordRate::UNKNOWN.into(), Vec::new())
    } else {
        calibrate::calibrate(&probe, all, plan.seed).await?
    };
    noted.extend(uncalibrated);
    if host.is_paused() {
        noted.push(Caveat::Origin(OriginCaveat::VirtualTime));
    }
    noted.extend(route::caveats(&plan.server));
    let found = Scraper::probe(plan, host.is_paused(), aside, served.max_model_len).await?;
    noted.extend(found.noted);
    let terms = Terms {
        model: served.id.clone(),
        pinning: negotiated.pinning,
        usage: negotiated.usage,
        words,
        resumed: 0,
        keep_text: reader.wants_text(),
    };
    let connected = Connected { host: host.clone(), clients, tokenizer: ids };
    Ok(Prepared {
        load: Load::new(connected, plan, terms, all.traffic)?,
        max_model_len: served.max_model_len,
        model: client.redacted(&served.id).into_owned(),
        reader,
        noted,
        scraper: found.scraper,
        facts: found.facts,
        first_requests,
        adapters: loaded,
        resets: true,
        embedded_url: embedded.as_ref().and_then(|e| e.url.parse().ok()),
        _embedded: embedded,
    })
}

impl Prepared {
    /// Switches to another series of the sweep: other traffic to the same server.
    ///
    /// # Errors
    /// A file cannot be read, or a request does not fit into the model.
    pub(crate) fn turn_to(&mut self, plan: &Plan) -> Result<()> {
        self.load.turn_to(plan)?;
        check_length(self.load.traffic(), self.max_model_len)
    }

    /// Checks that the requests of every series fit into the model, before the first is measured.
    ///
    /// # Errors
    /// The series, and what does not fit; or a file that cannot be read.
    pub(crate) fn check_series(&self, all: PlanSeries<'_>) -> Result<()> {
        for one in all.series {
            let context = || format!("in the series {}", one.name);
            let traffic = opened(&one.plan, all.traffic).with_context(context)?;
            let words = &self.load.terms().words;
            check_length(&traffic.with_rates(words), self.max_model_len).with_context(context)?;
        }
        Ok(())
    }

    /// Unloads the adapters that were loaded for the sweep.
    pub(crate) async fn release(&mut self, host: &Host) {
        self.adapters.unload(host, self.load.client()).await;
    }

    /// Reads the text of an answer that has arrived.
    pub(crate) fn read(&mut self, finished: &mut Finished) {
        self.reader.read(finished, self.load.client());
    }

    /// Returns the first thread's client, for requests between steps.
    pub(crate) fn client(&self) -> &Client {
        self.load.client()
    }
}

/// Returns a client for each sending thread and one for metrics, and the simulated server if it is embedded.
fn connect(plan: &Plan, host: &Host) -> Result<(Vec<Client>, Client, Option<Embedded>)> {
    let each = |server: &Server, key: Option<ApiKey>| {
        // The connection for metrics stays open between pages, however requests connect.
        let aside = Server { connections: Connections::Warm, ..server.clone() };
        let clients = Client::for_load(server, key.clone(), host.threads(), plan.client.retries)?;
        anyhow::Ok((clients, Client::http(&aside, key)?))
    };
    let Some(sim) = plan.simulated()? else {
        let key = plan.server.key.as_ref().map(ApiKey::read).transpose()?;
        let (clients, aside) = each(&plan.server, key)?;
        return Ok((clients, aside, None));
    };
    if host.is_paused() {
        sim.check_startup().map_err(anyhow::Error::msg)?;
        let client = Client::in_process(goodput_load::sim::router::router(&sim), &plan.server);
        return Ok((vec![client.clone()], client, None));
    }
    let embedded = Embedded::start(&sim)?;
    let url = embedded.url.parse().map_err(anyhow::Error::msg)?;
    let server = Server { target: Target::Url(url), ..plan.server.clone() };
    let (clients, aside) = each(&server, None)?;
    Ok((clients, aside, Some(embedded)))
}

/// Finds out which fields the server takes, with a first request.
async fn negotiated(plan: &Plan, client: &Client, host: &Host, model: &str) -> Result<Negotiated> {
    let (asked, own, model, timeout) = (client.clone(), plan.clone(), model.to_owned(), plan.probe_timeout());
    let first = async move {
        negotiate(&asked, timeout, |pinning, usage| shortest(&plan_encoder(&own, &model, pinning, usage)))
            .await
    };
    host.run(first).await?
}

/// Returns a short request.
fn shortest(encoder: &Encoder) -> Payload {
    encoder.request(&encoder.prefix(None), NEGOTIATION, NEGOTIATION_TOKENS)
}

/// Returns the plan with a connection for each request if the server closes them after its answers, of which `last` is the latest. The
/// simulated server is known not to.
async fn without_reuse(plan: &Plan, probe: calibrate::Probe<'_>, last: &Finished) -> Result<Option<Plan>> {
    let (again, target) = (shortest(probe.encoder), last.record.target.into());
    if matches!(plan.server.target, Target::Simulated(_))
        || plan.server.connections == Connections::Cold
        || !keep_alive::closes_after_answers(probe, target, again).await?
    {
        return Ok(None);
    }
    let mut plan = plan.clone();
    plan.server.connections = Connections::Cold;
    Ok(Some(plan))
}

/// Checks that the models of all classes are served: with a wrong name, every request of the class would fail.
async fn check_classes(plan: &Plan, client: &Client, host: &Host) -> Result<()> {
    for class in plan.workload.classes() {
        let Some(model) = class.model.clone() else { continue };
        let asked = client.clone();
        let served = host.run(async move { preflight::find_model(&asked, Some(&model)).await }).await?;
        served.with_context(|| format!("the model of [[workload.class]] {}", class.name))?;
    }
    Ok(())
}

fn check_length(traffic: &Traffic, max_model_len: Option<u32>) -> Result<()> {
    let (input, output) = traffic.longest();
    match max_model_len {
        // Only items have no output.
        Some(max) if output == 0 && input > u64::from(max) => bail!(
            "the longest item of the plan, {input} tokens with its query if it has one, does not fit into the model's {max} tokens: the server \
             would refuse its request; lower input-tokens or query-tokens, or give them a max"
        ),
        Some(max) if input + output > u64::from(max) => bail!(
            "the longest request of the plan, {input} input and {output} output tokens, does not fit into the model's \
             {max} tokens: the server would refuse it; lower input-tokens or output-tokens, give them a max, or leave out long rows of \
             a data set (max-input-tokens, max-output-tokens)"
        ),
        _ => Ok(()),
    }
}

/// Requests that are sent before a step and not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UncountedLoad {
    /// The warm-up requests of the plan, at least one for every shared prefix.
    Warmup,
    /// Every shared prefix once, with one output token, so that the server's prefix cache holds them when a step
    /// begins.
    Prefixes,
}

impl UncountedLoad {
    /// Returns the chains to send; `None` if there are none.
    fn selection(self, plan: &Plan, traffic: &Traffic) -> Option<Selection> {
        let n = match (self, plan.server.warmup_requests) {
            (Self::Warmup, 0) => 0,
            (Self::Warmup, n) => n.max(traffic.groups()),
            (Self::Prefixes, _) => traffic.shared_prefixes(),
        };
        let n = std::num::NonZeroU32::new(n)?.get().into();
        Some(if self == Self::Prefixes { Selection::Prefixes(n) } else { Selection::First(n) })
    }
}

/// Returns the load that sends requests before a step, a few at a time.
fn uncounted_spec(selection: Selection, series: &str, load: &Load) -> Spec {
    let plan = load.plan();
    let key = StepKey { seed: plan.seed, series: series.into(), step: 0 };
    let wanted = selection.limit().and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
    let slots = WARMUP_SLOTS.min(wanted).min(plan.step.max_in_flight);
    let step = StepSpec {
        prompts: key.clone(),
        arrivals: key,
        in_series: 0,
        selection,
        hurried: false,
        surge: None,
        pace: None,
        phase: Some(Phase::Warmup),
        settle: Duration::ZERO,
        measure: NEVER,
        timeout: Timeout { after: plan.timeout(), is_error: true },
    };
    let (plan, terms) = (plan.clone(), load.terms().clone());
    Spec { plan, terms, step, level: Level::concurrency(slots), part: StepPart::WHOLE }
}

/// Sends requests that are not counted, and returns them once all have finished.
///
/// # Errors
/// The load fails.
pub(crate) async fn send_uncounted(
    what: UncountedLoad,
    series: &Series,
    load: &Load,
    interrupt: &CancellationToken,
) -> Result<Vec<Finished>> {
    let Some(selection) = what.selection(load.plan(), load.traffic()) else { return Ok(Vec::new()) };
    let mut firing = load.fire(&uncounted_spec(selection, &series.name, load))?;
    let (mut all, mut interrupted) = (Vec::new(), false);
    loop {
        tokio::select! {
            biased;
            () = interrupt.cancelled(), if !interrupted => {
                interrupted = true;
                firing.stop();
                firing.cut();
            }
            finished = firing.finished.recv() => match finished {
                Some(finished) => all.push(finished),
                None => break,
            },
        }
    }
    firing.ended().await?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_workload::config::Workload;
    use goodput_workload::data::Counter;

    #[test]
    fn requests_that_do_not_fit_into_the_model_are_refused() {
        for (prompts, says) in [
            (
                "items = { input-tokens = { fixed = 500 }, query-tokens = { fixed = 20 } }",
                Some("the longest item of the plan, 520 tokens"),
            ),
            ("items = { input-tokens = { fixed = 500 }, count = { fixed = 30 } }", None),
            (
                "synthetic = { input-tokens = { fixed = 500 }, output-tokens = { fixed = 20 } }",
                Some("500 input and 20 output tokens"),
            ),
        ] {
            let workload: Workload = toml::from_str(&format!("prompts.{prompts}")).unwrap();
            let traffic = Traffic::open(&workload, &Counter::default()).unwrap();
            let refused = check_length(&traffic, Some(512)).err().map(|e| e.to_string());
            let is_as_expected = match (&refused, says) {
                (None, None) => true,
                (Some(refused), Some(says)) => refused.contains(says),
                _ => false,
            };
            assert!(is_as_expected, "{prompts}: {refused:?}");
        }
    }
}
