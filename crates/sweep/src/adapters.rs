//! The models that requests are spread over: LoRA adapters are loaded and unloaded, and the first request to each model is timed.

use anyhow::{Context, Result, bail};
use goodput_core::record::{Outcome, Phase, Record};
use goodput_load::client::encoder::Encoder;
use goodput_load::client::{Client, Shot};
use goodput_load::load::host::Host;
use goodput_plan::Plan;
use goodput_plan::server::adapters::Adapters;
use goodput_plan::server::extras::ExtraBody;
use goodput_run::rundir::FirstRequests;
use goodput_workload::words::census;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// vLLM's endpoint that loads an adapter.
const LOAD: &str = "/v1/load_lora_adapter";
/// vLLM's endpoint that unloads one.
const UNLOAD: &str = "/v1/unload_lora_adapter";
/// Time that the server may take to load an adapter, which it may have to download.
const LOADING: Duration = Duration::from_secs(600);
/// Time that the server may take to unload one.
const UNLOADING: Duration = Duration::from_secs(30);

/// Words of the prompt of a first request.
const WORDS: usize = 16;
/// Tokens of its answer.
const TOKENS: u32 = 4;

/// The adapters that a sweep has loaded: name and seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadedAdapters(Vec<(String, f64)>);

impl LoadedAdapters {
    /// Loads the adapters of a plan into every server of the client, one after the other. One that is there already is left as it is.
    ///
    /// # Errors
    /// A server does not load one; the message has its answer and the remedy.
    pub(crate) async fn load(host: &Host, client: &Client, adapters: &Adapters) -> Result<Self> {
        let mut loaded = Vec::new();
        for (name, path) in adapters.iter() {
            let began = Instant::now();
            for target in 0..client.urls().len().max(1) {
                let (asked, order) =
                    (client.clone(), serde_json::json!({ "lora_name": name, "lora_path": path }));
                let answer = host.run(async move { asked.post_json(target, LOAD, &order, LOADING).await });
                let (status, body) = answer.await?.with_context(|| format!("[server.adapters] {name}"))?;
                if !(200..=299).contains(&status) && !is_there_already(&body) {
                    bail!(refused(name, status, &client.sample(&body)));
                }
            }
            loaded.push((name.to_owned(), began.elapsed().as_secs_f64()));
        }
        Ok(Self(loaded))
    }

    fn seconds(&self, model: &str) -> Option<f64> {
        self.0.iter().find(|(name, _)| name == model).map(|(_, seconds)| *seconds)
    }

    /// Unloads the adapters again. A failure is only logged: what was measured is complete.
    pub(crate) async fn unload(&mut self, host: &Host, client: &Client) {
        for (name, _) in std::mem::take(&mut self.0) {
            for target in 0..client.urls().len().max(1) {
                let (asked, order) = (client.clone(), serde_json::json!({ "lora_name": name }));
                let answer =
                    host.run(async move { asked.post_json(target, UNLOAD, &order, UNLOADING).await });
                let problem = match answer.await {
                    Ok(Ok((200..=299, _))) => continue,
                    Ok(Ok((status, body))) => format!("HTTP {status}: {}", client.sample(&body)),
                    Ok(Err(e)) | Err(e) => format!("{e:#}"),
                };
                tracing::warn!("warning: the adapter {name} was not unloaded: {problem}");
            }
        }
    }
}

/// Returns true if the answer says that an adapter of the name is loaded, as after a sweep that was killed.
fn is_there_already(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("already been loaded")
}

/// Explains that an adapter is not loaded.
fn refused(name: &str, status: u16, said: &str) -> String {
    let remedy = match status {
        404 | 405 => {
            "the server has no such endpoint: start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, or name the adapters in its \
             --lora-modules and leave server.adapters out"
        }
        _ => {
            "check its path, which is one on the server's machine, and that the server was started for LoRA of this rank (--enable-lora, --max-lora-rank)"
        }
    };
    format!("[server.adapters] {name} was not loaded (HTTP {status}): {remedy}. The server says: {said}")
}

/// Sends requests to the models of a plan, before anything else does.
pub(crate) struct FirstProbe<'a> {
    pub(crate) host: &'a Host,
    pub(crate) client: &'a Client,
    /// Encodes requests to the model that the server is asked for.
    pub(crate) encoder: &'a Encoder,
    /// Name of that model.
    pub(crate) model: &'a str,
    /// Timeout of an answer.
    pub(crate) timeout: Duration,
}

impl FirstProbe<'_> {
    /// Times two requests to each model of a plan, if there are several or one was loaded.
    ///
    /// # Errors
    /// A model does not answer: all of its requests would fail.
    pub(crate) async fn time(&self, plan: &Plan, loaded: &LoadedAdapters) -> Result<Vec<FirstRequests>> {
        let mut all: Vec<(String, Encoder)> = Vec::new();
        for class in plan.workload.classes() {
            let body = ExtraBody::try_from(class.body.clone()).map_err(anyhow::Error::msg)?;
            let name = class.model.clone().unwrap_or_else(|| self.model.to_owned());
            if all.iter().all(|(known, _)| *known != name) {
                all.push((name, self.encoder.varied(class.model.as_deref(), &body.json())));
            }
        }
        if all.is_empty() {
            all.push((self.model.to_owned(), self.encoder.clone()));
        }
        if all.len() == 1 && loaded.seconds(&all[0].0).is_none() {
            return Ok(Vec::new());
        }
        let mut times = Vec::with_capacity(all.len());
        for (n, (model, encoder)) in all.into_iter().enumerate() {
            // No two prompts are the same, or a prefix cache would make the second one faster.
            let [first_s, second_s] = [
                self.seconds(&model, &encoder, 2 * n).await?,
                self.seconds(&model, &encoder, 2 * n + 1).await?,
            ];
            times.push(FirstRequests { load_s: loaded.seconds(&model), model, first_s, second_s });
        }
        Ok(times)
    }

    /// Returns the duration of the `n`-th request in seconds.
    async fn seconds(&self, model: &str, encoder: &Encoder, n: usize) -> Result<f64> {
        let text = format!("{n} {}", census(0..WORDS));
        let shot = Shot {
            record: Record::due(0, Phase::Warmup, Duration::ZERO),
            payload: encoder.request(&encoder.prefix(None), &text, TOKENS),
            began: Instant::now(),
            timeout: self.timeout,
            timeout_is_error: true,
            cut: CancellationToken::new(),
            itl_limit: None,
            keep_text: false,
        };
        let client = self.client.clone();
        let finished = self.host.run(async move { client.send(shot).await }).await?;
        match (finished.record.outcome, finished.record.failure) {
            (Outcome::Ok, _) => Ok(finished.record.end.as_secs_f64()),
            (_, failure) => {
                let why = failure.map_or("cut off", |f| f.name());
                let said = finished.sample.map(|s| format!(": {s}")).unwrap_or_default();
                bail!("the first request to the model \"{model}\" failed ({why}){said}")
            }
        }
    }
}
