//! Before the first step: who answers, what it understands, how it counts, and that it is warm.

use super::answers::Reader;
use super::calibrate;
use super::scrape::Scraper;
use anyhow::{Context, Result, bail};
use goodput_core::caveat::Caveat;
use goodput_core::level::Level;
use goodput_core::record::{Finished, Phase, TokenSource};
use goodput_core::tokens::Tokenizer;
use goodput_load::client::Client;
use goodput_load::client::dialect::Encoder;
use goodput_load::client::key::ApiKey;
use goodput_load::client::negotiate::negotiate;
use goodput_load::client::{preflight, way};
use goodput_load::load::host::{Host, Share};
use goodput_load::load::job::{Gauge, Job};
use goodput_load::load::source::Builder;
use goodput_load::sim::serve::Embedded;
use goodput_plan::server::extras::ExtraBody;
use goodput_plan::server::{Connections, PromptForm, Server, Target};
use goodput_plan::{Plan, Series};
use goodput_stats::server::facts::Facts;
use goodput_workload::config::Class;
use goodput_workload::draw::{Chains, StepKey};
use goodput_workload::prompts::Prompter;
use goodput_workload::rate::{WordRate, WordRates};
use goodput_workload::traffic::Traffic;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Warm-up requests in flight at once: enough to fill a batch, not to queue.
const WARMUP_SLOTS: usize = 4;

/// A window that does not end: warm-up stops after its last request.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is asked to find out which fields the server takes.
const NEGOTIATION: &str = "able about above accept across act add after";
const NEGOTIATION_TOKENS: u32 = 2;

/// The series of a plan, and the files that they send from, opened.
#[derive(Clone, Copy)]
pub(crate) struct PlanSeries<'a> {
    /// The series, in the order of the plan.
    pub(crate) series: &'a [Series],
    /// The requests of the plan as a whole.
    pub(crate) traffic: &'a Traffic,
}

/// A server that is ready to be measured.
pub(crate) struct Prepared {
    /// One for each thread that sends.
    pub(crate) clients: Vec<Client>,
    /// For requests of classes without anything of their own.
    pub(crate) encoder: Encoder,
    /// One for each class; one where there are none.
    pub(crate) encoders: Vec<Encoder>,
    /// What is sent in the series that is measured.
    pub(crate) traffic: Traffic,
    pub(crate) max_model_len: Option<u32>,
    /// How words count, in every series.
    pub(crate) rate: WordRates,
    pub(crate) model: String,
    /// Makes prompts token ids, where the plan wants them.
    pub(crate) ids: Option<Tokenizer>,
    /// Reads what answers say.
    pub(crate) reader: Reader,
    pub(crate) noted: Vec<Caveat>,
    /// Reads metrics, where there are any.
    pub(crate) scraper: Scraper,
    /// What the servers tell of themselves.
    pub(crate) facts: Vec<Facts>,
    /// How often the sweep was resumed.
    pub(crate) resumed: u32,
    /// False once the server has said that it cannot empty its prefix cache.
    pub(crate) resets: bool,
    /// Stops when the sweep ends.
    _embedded: Option<Embedded>,
}

/// Connects, checks the model, finds out which fields the server takes, and calibrates the input length. `plan` is that of the first series
/// of `all`.
///
/// # Errors
/// The server cannot be measured: the message says what to check. Nothing has been measured yet.
pub(crate) async fn prepare(plan: &Plan, all: PlanSeries<'_>, host: &Host) -> Result<Prepared> {
    let traffic = opened(plan, all.traffic)?;
    // A file that is not there is no reason to ask a server first.
    let tokenizer = plan.server.tokenizer.as_deref().map(Tokenizer::open).transpose()?;
    let (clients, aside, embedded) = connect(plan, host)?;
    let client = clients[0].clone();
    let (asked, wanted) = (client.clone(), plan.server.model.clone());
    let served = host.run(async move { preflight::check_models(&asked, wanted.as_deref()).await }).await??;
    check_classes(plan, &client, host).await?;
    check_length(&traffic, served.max_model_len)?;
    let body = plan.server.body.json();
    let (api, model) = (plan.server.api, served.id.clone());
    let stream = plan.server.stream;
    let encoder_for = move |pinning, usage| {
        let encoder = Encoder::new(api, &model, &body, pinning, usage);
        if stream { encoder } else { encoder.whole() }
    };
    let timeout = plan.probe_timeout();
    let (asked, build) = (client.clone(), encoder_for.clone());
    let negotiated = host
        .run(async move {
            negotiate(&asked, timeout, |pinning, usage| {
                let encoder = build(pinning, usage);
                encoder.request(&encoder.prefix(None), NEGOTIATION, NEGOTIATION_TOKENS)
            })
            .await
        })
        .await??;
    let encoder = encoder_for(negotiated.pinning, negotiated.usage);
    let mut noted = negotiated.caveats;
    let told = negotiated.probe.record.token_source;
    let told = matches!(told, Some(TokenSource::Usage | TokenSource::Continuous));
    let reader = Reader::new(plan, tokenizer.as_ref(), told)?;
    let ids = tokenizer.filter(|_| plan.server.prompts == PromptForm::TokenIds);
    let (rate, uncalibrated) = if ids.is_some() {
        // Tokens are sent as such: nothing is to be learned of words.
        (WordRate::UNKNOWN.into(), Vec::new())
    } else {
        let probe = calibrate::Probe { host, client: &client, encoder: &encoder, timeout };
        calibrate::calibrate(&probe, all, plan.seed).await?
    };
    noted.extend(uncalibrated);
    if host.is_paused() {
        noted.push(Caveat::VirtualTime);
    }
    noted.extend(way::caveats(&plan.server));
    let found = Scraper::probe(plan, host.is_paused(), aside, served.max_model_len).await?;
    noted.extend(found.noted);
    let encoders = encoders(&encoder, plan)?;
    let mut ready = Prepared {
        clients,
        encoder,
        encoders,
        traffic,
        max_model_len: served.max_model_len,
        rate,
        model: client.redacted(&served.id).into_owned(),
        ids,
        reader,
        noted,
        scraper: found.scraper,
        facts: found.facts,
        resumed: 0,
        resets: true,
        _embedded: embedded,
    };
    ready.count();
    Ok(ready)
}

/// The traffic of a plan; files that are open already are not read again.
fn opened(plan: &Plan, open: &Traffic) -> Result<Traffic> {
    match open.with_workload(&plan.workload) {
        Some(traffic) => Ok(traffic),
        None => Traffic::open(&plan.workload, &plan.counter()?),
    }
}

/// An encoder for each class: its own model and its own fields. Those of a series without classes are the series' own.
fn encoders(base: &Encoder, plan: &Plan) -> Result<Vec<Encoder>> {
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

impl Prepared {
    /// Lengths of reference answers are counted as the server counts.
    pub(crate) fn count(&mut self) {
        self.traffic = self.traffic.with_rates(&self.rate);
    }

    /// Makes ready for another series of the same sweep: its own traffic, to the same server.
    ///
    /// Errors name the file, or the request that does not fit into the model.
    pub(crate) fn turn_to(&mut self, plan: &Plan) -> Result<()> {
        self.traffic = opened(plan, &self.traffic)?;
        self.count();
        check_length(&self.traffic, self.max_model_len)?;
        self.encoders = encoders(&self.encoder, plan)?;
        Ok(())
    }

    /// Checks that what every series sends fits into the model, before the first is measured.
    ///
    /// # Errors
    /// The series, and what does not fit; or a file that cannot be read.
    pub(crate) fn check_series(&self, all: PlanSeries<'_>) -> Result<()> {
        for one in all.series {
            let context = || format!("in the series {}", one.name);
            let traffic = opened(&one.plan, all.traffic).with_context(context)?;
            check_length(&traffic.with_rates(&self.rate), self.max_model_len).with_context(context)?;
        }
        Ok(())
    }

    /// Reads an answer that is home.
    pub(crate) fn read(&mut self, finished: &mut Finished) {
        self.reader.read(finished, &self.clients[0]);
    }

    /// The first thread's client, for what is asked between steps.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[0]
    }
}

/// A client for each thread that sends and one for metrics, and the simulated server where it is embedded.
fn connect(plan: &Plan, host: &Host) -> Result<(Vec<Client>, Client, Option<Embedded>)> {
    let each = |server: &Server, key: Option<ApiKey>| {
        // Between two pages its connection is kept, whatever requests have.
        let aside = Server { connections: Connections::Warm, ..server.clone() };
        let clients = Client::several(server, key.clone(), host.threads())?;
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

/// The models of classes are served as well: a name that is wrong would be a class that fails.
async fn check_classes(plan: &Plan, client: &Client, host: &Host) -> Result<()> {
    for class in plan.workload.classes() {
        let Some(model) = class.model.clone() else { continue };
        let asked = client.clone();
        let served = host.run(async move { preflight::check_models(&asked, Some(&model)).await }).await?;
        served.with_context(|| format!("the model of [[workload.class]] {}", class.name))?;
    }
    Ok(())
}

fn check_length(traffic: &Traffic, max_model_len: Option<u32>) -> Result<()> {
    let (input, output) = traffic.longest();
    match max_model_len {
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
pub(crate) enum Before {
    /// The warm-up requests of the plan, at least one for every shared prefix.
    Warmup,
    /// Every shared prefix once, with one output token, so that the server's prefix cache holds them when a step begins.
    Prefixes,
}

impl Before {
    /// Returns the number of requests to send.
    fn requests(self, plan: &Plan, traffic: &Traffic) -> u32 {
        match (self, plan.server.warmup_requests) {
            (Self::Warmup, 0) => 0,
            (Self::Warmup, n) => n.max(traffic.groups()),
            (Self::Prefixes, _) => traffic.shared_prefixes(),
        }
    }
}

/// Sends requests that are not counted, a few at a time, and returns them once all have finished.
pub(crate) async fn send_before(
    what: Before,
    series: &Series,
    host: &Host,
    ready: &Prepared,
    interrupt: &CancellationToken,
) -> Result<Vec<Finished>> {
    let plan = &series.plan;
    let wanted = what.requests(plan, &ready.traffic);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let key = StepKey { seed: plan.seed, series: series.name.clone(), step: 0 };
    let slots = WARMUP_SLOTS.min(wanted as usize).min(plan.step.max_in_flight as usize);
    let chains =
        Chains::new(&ready.traffic, &key, Level::concurrency(slots as u32)).map_err(anyhow::Error::msg)?;
    let chains = if what == Before::Prefixes { chains.prefixes_only() } else { chains };
    let prompter = Prompter::new(&ready.traffic, key, ready.rate.clone()).resumed(ready.resumed);
    let builder = Builder::new(chains, prompter, ready.encoders.clone()).as_ids(ready.ids.clone());
    let builder = builder.first(wanted as usize);
    let (home, mut finished) = mpsc::channel(wanted as usize);
    let (_window, window) = watch::channel(NEVER);
    let job = Job {
        began: Instant::now(),
        settle: Duration::ZERO,
        window,
        phase: Some(Phase::Warmup),
        timeout: plan.timeout(),
        timeout_is_error: true,
        max_in_flight: plan.step.max_in_flight,
        itl_limit: None,
        keep_text: false,
        home,
        gauge: Arc::new(Gauge::default()),
        stop: interrupt.child_token(),
        cut: interrupt.child_token(),
    };
    // Whoever sends them: it is the server that warms up. Connections are warmed before each step.
    let share = Share { slots: Some(slots), ..Share::default() };
    host.fire(job, &ready.clients[..1], &builder, share)?.ended().await?;
    let mut all = Vec::new();
    while let Some(f) = finished.recv().await {
        all.push(f);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::endpoint::Api;
    use goodput_load::client::dialect::Pinning;

    #[test]
    fn a_class_by_itself_asks_for_its_own_model() {
        let plan = Plan::from_text(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1]\n[workload]\nalone = true\n\
             class = [{ name = \"a\", weight = 1, prompts.synthetic = { input-tokens.fixed = 9, output-tokens.fixed = 3 } },\n\
             { name = \"b\", weight = 1, model = \"lora\", body = { top_k = 7 }, \
             prompts.synthetic = { input-tokens.fixed = 9, output-tokens.fixed = 3 } }]",
        )
        .unwrap();
        let base = Encoder::new(
            Api::Chat,
            "base",
            &serde_json::Map::new(),
            Pinning { ignore_eos: true, min_tokens: true },
            true,
        );
        let sent: Vec<Vec<String>> = plan
            .series()
            .iter()
            .map(|s| {
                let bodies = encoders(&base, &s.plan).unwrap();
                let text = |e: &Encoder| format!("{:?}", e.request(&e.prefix(None), "hello", 3));
                bodies.iter().map(text).collect()
            })
            .collect();
        let own = |body: &str| body.contains("lora") && body.contains("top_k");
        let shape: Vec<Vec<bool>> = sent.iter().map(|s| s.iter().map(|b| own(b)).collect()).collect();
        assert_eq!(shape, [vec![false, true], vec![false], vec![true]], "{sent:?}");
    }
}
