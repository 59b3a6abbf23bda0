//! The models that requests are spread over: LoRA adapters are loaded and unloaded, and the first request to each model is timed.

use super::calibrate::Probe;
use anyhow::{Context, Result, bail};
use goodput_core::record::Outcome;
use goodput_load::client::Client;
use goodput_load::client::encoder::Encoder;
use goodput_load::load::host::Host;
use goodput_load::load::local::encoders;
use goodput_plan::Plan;
use goodput_plan::server::adapters::Adapters;
use goodput_run::rundir::FirstRequests;
use goodput_workload::words::census;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

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

/// Has one of the servers load or unload an adapter. Returns its status and its answer.
async fn post(host: &Host, client: &Client, target: usize, request: &Request<'_>) -> Result<(u16, Vec<u8>)> {
    let order = match request {
        Request::Load { name, path } => json!({ "lora_name": name, "lora_path": path }),
        Request::Unload { name } => json!({ "lora_name": name }),
    };
    let (path, patience) = match request {
        Request::Load { .. } => (LOAD, LOADING),
        Request::Unload { .. } => (UNLOAD, UNLOADING),
    };
    let client = client.clone();
    let answer = host.run(async move { client.post_json(target, path, &order, patience).await }).await?;
    answer.map(|(status, body)| (status, body.into()))
}

/// A request about an adapter.
enum Request<'a> {
    Load { name: &'a str, path: &'a str },
    Unload { name: &'a str },
}

impl LoadedAdapters {
    /// Loads the adapters of a plan into every server of the client, one after the other. One that is there already is left as it is.
    ///
    /// # Errors
    /// A server does not load one; the message has its answer and the remedy. Those that were loaded before it are unloaded again.
    pub(crate) async fn load(host: &Host, client: &Client, adapters: &Adapters) -> Result<Self> {
        let mut loaded = Self::default();
        for (name, path) in adapters.iter() {
            let began = Instant::now();
            if let Err(problem) = load_one(host, client, name, path).await {
                loaded.unload(host, client).await;
                return Err(problem);
            }
            loaded.0.push((name.to_owned(), began.elapsed().as_secs_f64()));
        }
        Ok(loaded)
    }

    fn seconds(&self, model: &str) -> Option<f64> {
        self.0.iter().find(|(name, _)| name == model).map(|(_, seconds)| *seconds)
    }

    /// Unloads the adapters again. A failure is only logged: what was measured is complete.
    pub(crate) async fn unload(&mut self, host: &Host, client: &Client) {
        for (name, _) in std::mem::take(&mut self.0) {
            for target in 0..client.urls().len().max(1) {
                let problem = match post(host, client, target, &Request::Unload { name: &name }).await {
                    Ok((200..=299, _)) => continue,
                    Ok((status, body)) => format!("HTTP {status}: {}", client.sample(&body)),
                    Err(e) => format!("{e:#}"),
                };
                tracing::warn!("warning: the adapter {name} was not unloaded: {problem}");
            }
        }
    }
}

/// Loads an adapter into every server of the client.
async fn load_one(host: &Host, client: &Client, name: &str, path: &str) -> Result<()> {
    for target in 0..client.urls().len().max(1) {
        let answer = post(host, client, target, &Request::Load { name, path }).await;
        let (status, body) = answer.with_context(|| format!("[server.adapters] {name}"))?;
        if !(200..=299).contains(&status) && !is_there_already(&body) {
            bail!(refused(name, status, &client.sample(&body)));
        }
    }
    Ok(())
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

/// Times two requests to each model of a plan, if there are several or one was loaded. `probe` sends them; without classes all requests name
/// `model`.
///
/// # Errors
/// A model does not answer: all of its requests would fail.
pub(crate) async fn first_requests(
    probe: Probe<'_>,
    model: &str,
    plan: &Plan,
    loaded: &LoadedAdapters,
) -> Result<Vec<FirstRequests>> {
    let of_classes = plan.workload.classes().iter().map(|class| class.model.as_deref());
    let names: Vec<&str> = of_classes.map(|own| own.unwrap_or(model)).collect();
    let names = if names.is_empty() { vec![model] } else { names };
    let mut all: Vec<(&str, Encoder)> = Vec::new();
    for (name, encoder) in names.into_iter().zip(encoders(probe.encoder, plan)?) {
        if all.iter().all(|(known, _)| *known != name) {
            all.push((name, encoder));
        }
    }
    if all.len() == 1 && loaded.seconds(all[0].0).is_none() {
        return Ok(Vec::new());
    }
    let mut times = Vec::with_capacity(all.len());
    for (n, (model, encoder)) in all.iter().enumerate() {
        let probe = Probe { encoder, ..probe };
        // No two prompts are the same, or a prefix cache would make the second one faster.
        let [first_s, second_s] =
            [seconds(probe, model, 2 * n).await?, seconds(probe, model, 2 * n + 1).await?];
        times.push(FirstRequests {
            model: (*model).to_owned(),
            load_s: loaded.seconds(model),
            first_s,
            second_s,
        });
    }
    Ok(times)
}

/// Returns the duration of the `n`-th request in seconds.
async fn seconds(probe: Probe<'_>, model: &str, n: usize) -> Result<f64> {
    let text = format!("{n} {}", census(0..WORDS));
    let encoder = probe.encoder;
    let finished = probe.send(encoder.request(&encoder.prefix(None), &text, TOKENS)).await?;
    match (finished.record.outcome, finished.record.failure) {
        (Outcome::Ok, _) => Ok(finished.record.end.as_secs_f64()),
        (_, failure) => {
            let why = failure.map_or("cut off", |f| f.name());
            let said = finished.sample.map(|s| format!(": {s}")).unwrap_or_default();
            bail!("the first request to the model \"{model}\" failed ({why}){said}")
        }
    }
}
