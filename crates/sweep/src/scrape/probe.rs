//! The search for pages of metrics, and for facts about the servers, before the first step.

use super::{ExtraPage, LARGEST, PATIENCE, Page, Scraper};
use anyhow::{Context, Result};
use futures_util::future::join_all;
use goodput_core::caveat::{Caveat, MetricsGap, ServerCaveat};
use goodput_core::endpoint::BaseUrl;
use goodput_core::units::Span;
use goodput_load::client::Client;
use goodput_load::client::key::ApiKey;
use goodput_load::load::host::Host;
use goodput_plan::Plan;
use goodput_plan::server::pages::{PageUrl, ServerMetrics};
use goodput_plan::server::{Connections, Server, Target};
use goodput_stats::server::facts::{Facts, PAGES};
use goodput_stats::server::selected::missing;
use goodput_stats::server::{Engine, Reading};
use std::sync::Arc;
use std::time::Duration;

/// Usual paths of metrics; the second is TensorRT-LLM's.
const PATHS: [&str; 2] = ["/metrics", "/prometheus/metrics"];
/// Timeout of a page of settings, which is optional.
const BRIEFLY: Duration = Duration::from_secs(2);

/// The results of the probe.
pub(crate) struct ProbeResult {
    pub(crate) scraper: Scraper,
    pub(crate) facts: Vec<Facts>,
    /// Caveats about pages that the plan names and that give no metrics.
    pub(crate) noted: Vec<Caveat>,
}

impl Scraper {
    /// Asks every server for its settings and metrics once, and reads the pages that the plan names. `client` must not
    /// be used by anything else. `max_model_len` is the value that is already known.
    ///
    /// # Errors
    /// The operating system refuses a thread, or TLS cannot be set up.
    pub(crate) async fn probe(
        plan: &Plan,
        paused: bool,
        client: Client,
        max_model_len: Option<u32>,
    ) -> Result<ProbeResult> {
        let host = if paused { Host::paused() } else { Host::named("metrics", 1)? };
        let settings = &plan.server.metrics;
        let named = named_pages(plan, &client, &settings.pages)?;
        let extra: Vec<ExtraPage> =
            plan.extra.iter().map(|e| extra(&plan.server, e, settings.interval)).collect::<Result<_>>()?;
        let (asked, read) = (client.clone(), settings.read);
        let (probed, extras) = (named.clone(), extra.clone());
        let (told, silent) = host
            .run(async move {
                let told = join_all((0..asked.urls().len().max(1)).map(|i| read_facts(&asked, i))).await;
                let pages = match probed.is_empty() {
                    true if read => join_all((0..told.len()).map(|i| metrics_page(&asked, i))).await,
                    true => Vec::new(),
                    false => join_all(probed.into_iter().map(read_page)).await,
                };
                ((told, pages), join_all(extras.iter().map(page_caveat)).await)
            })
            .await?;
        let (mut facts, pages) = told;
        let mut noted: Vec<Caveat> = silent.into_iter().flatten().collect();
        let whole = !pages.is_empty() && pages.iter().all(Result::is_ok);
        for (i, f) in facts.iter_mut().enumerate() {
            f.max_model_len = f.max_model_len.or(max_model_len);
            let page = if named.is_empty() { pages.get(i) } else { pages.get(i.min(pages.len() - 1)) };
            f.metrics = match page {
                None => "not read: the plan says metrics = false".into(),
                Some(Err(why)) => format!("none: {why}"),
                Some(Ok(_)) if !whole => "not read, since another of the servers has none".into(),
                Some(Ok(probed)) => {
                    f.engine = Some(probed.reading.engine);
                    f.engines = Some(probed.reading.engines);
                    f.read_metrics(&probed.text);
                    f.redact(|text| probed.page.redacted(text));
                    format!("{} every {}", probed.page.path, settings.interval)
                }
            };
        }
        if !named.is_empty() {
            for (url, page) in settings.pages.iter().zip(&pages) {
                let why = page.as_ref().err().cloned();
                noted.extend(
                    why.map(|why| {
                        Caveat::Server(ServerCaveat::MetricsSilent { source: url.to_string(), why })
                    }),
                );
            }
        }
        let own: Vec<Page> =
            if whole { pages.into_iter().flatten().map(|p| p.page).collect() } else { vec![] };
        let scraper = Self {
            host,
            own: own.into(),
            extra: extra.into(),
            interval: settings.interval.0,
            ailing: Arc::default(),
        };
        Ok(ProbeResult { scraper, facts: Facts::merge_identical(facts), noted })
    }
}

/// A page with metrics of a known engine.
struct ReadPage {
    page: Page,
    text: String,
    reading: Reading,
}

/// Returns the pages that the plan names in place of the servers' default pages.
fn named_pages(plan: &Plan, own: &Client, pages: &[PageUrl]) -> Result<Vec<Page>> {
    pages
        .iter()
        .map(|url| {
            // Key and headers must be sent only to the plan's servers.
            let same = plan.server.target.urls().iter().position(|u| origin(u) == origin(url.base()));
            match same {
                Some(_) => {
                    let server = Server { target: Target::Url(url.base().clone()), ..plan.server.clone() };
                    let client = Client::http(&patient(server), own.key().cloned())?;
                    Ok(Page { client, target: 0, path: url.path().to_owned() })
                }
                None => elsewhere(&plan.server, url),
            }
        })
        .collect()
}

/// Returns a page on a host that is not a server of the plan.
fn elsewhere(of: &Server, url: &PageUrl) -> Result<Page> {
    let server = patient(of.for_other_host(url.base().clone()));
    let client = Client::http(&server, None::<ApiKey>).with_context(|| format!("failed to read {url}"))?;
    Ok(Page { client, target: 0, path: url.path().to_owned() })
}

/// Returns the server with warm connections: pages are read over one connection.
fn patient(server: Server) -> Server {
    Server { connections: Connections::Warm, ..server }
}

fn origin(url: &BaseUrl) -> String {
    url.join("/").origin().ascii_serialization()
}

fn extra(of: &Server, e: &goodput_plan::MetricsPage, interval: Span) -> Result<ExtraPage> {
    Ok(ExtraPage {
        title: e.title(),
        page: elsewhere(of, &e.url)?,
        series: e.series.to_vec(),
        interval: e.interval.unwrap_or(interval).0,
    })
}

/// Reads the settings of a server from its pages.
async fn read_facts(client: &Client, target: usize) -> Facts {
    let urls: Vec<String> = client.urls().map(ToString::to_string).collect();
    let mut facts = Facts { servers: urls.into_iter().skip(target).take(1).collect(), ..Facts::default() };
    let pages = join_all(PAGES.iter().map(|path| client.page(target, path, BRIEFLY, LARGEST))).await;
    for page in pages.into_iter().flatten() {
        facts.read_page(&String::from_utf8_lossy(&page));
    }
    facts.redact(|text| client.redacted(text).into_owned());
    facts
}

/// Finds the metrics page of a server of the plan; the error is the reason why there is none.
async fn metrics_page(client: &Client, target: usize) -> Result<ReadPage, MetricsGap> {
    let at = |path: &str| Page { client: client.clone(), target, path: path.to_owned() };
    let first = read_page(at(PATHS[0])).await;
    // TensorRT-LLM's JSON page has no counters; the Prometheus page has.
    let more = first.as_ref().map_or(true, |p| p.reading.engine == Engine::TensorRtLlm);
    if more && let Ok(second) = read_page(at(PATHS[1])).await {
        return Ok(second);
    }
    first
}

/// Reads a page; the error is the reason why it gives no metrics.
async fn read_page(page: Page) -> Result<ReadPage, MetricsGap> {
    let text = page.fetch(PATIENCE).await;
    let text = text.map_err(|why| MetricsGap::Unread { path: Some(page.path.clone()), why })?;
    let reading = Reading::read(&text);
    let reading = reading.ok_or_else(|| MetricsGap::NoEngine(page.path.clone()))?;
    Ok(ReadPage { page, text, reading })
}

/// Returns a caveat if a page of `[[metrics]]` fails or lacks some of the selected series.
async fn page_caveat(extra: &ExtraPage) -> Option<Caveat> {
    let why = match extra.page.fetch(PATIENCE).await {
        Err(why) => MetricsGap::Unread { path: None, why },
        Ok(page) => {
            let names: Vec<String> = missing(&page, &extra.series).iter().map(ToString::to_string).collect();
            if names.is_empty() {
                return None;
            }
            MetricsGap::NoSeries(names)
        }
    };
    Some(Caveat::Server(ServerCaveat::MetricsSilent { source: extra.title.clone(), why }))
}

/// Returns a message for the user if a server gives no metrics, although the plan wants them.
pub(crate) fn missing_metrics_hint(facts: &[Facts], settings: &ServerMetrics) -> Option<String> {
    let silent: Vec<&Facts> = facts.iter().filter(|f| f.engine.is_none()).collect();
    let first = silent.first().filter(|_| settings.read)?;
    Some(format!(
        "the server gives no metrics ({}), so the report shows no queue, no KV cache use and no preemptions; llama.cpp needs --metrics, \
         SGLang --enable-metrics, and metrics-url in [server] names another page",
        first.metrics
    ))
}
