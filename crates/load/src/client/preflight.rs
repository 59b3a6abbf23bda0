//! Checks before the first request: whether there is a server, and whether it serves the model.
//!
//! Each error names the URL, the cause, and the remedy.

use super::broken::Broken;
use super::send::Client;
use super::tls::REMEDY;
use anyhow::{anyhow, bail};
use bytes::Bytes;
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::Failure;
use goodput_plan::server::Http;
use serde::Deserialize;

const MODELS: &str = "/v1/models";
/// Name in reports of a model that neither the plan nor the server names.
const UNNAMED: &str = "unnamed";

/// The model that requests will name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// Name of the model.
    pub id: String,
    /// Maximum context length, prompt plus answer, in tokens; `None` if the server does not report it.
    pub max_model_len: Option<u32>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    max_model_len: Option<u32>,
    #[serde(default)]
    aliases: Vec<String>,
    /// The model of a LoRA adapter, in vLLM; the list tells the context length of the model alone.
    parent: Option<String>,
    meta: Option<Meta>,
}

/// Fields specific to llama.cpp.
#[derive(Deserialize)]
struct Meta {
    n_ctx: Option<u32>,
}

impl Listed {
    fn answers_to(&self, name: &str) -> bool {
        self.id == name || self.aliases.iter().any(|a| a == name)
    }

    fn own_length(&self) -> Option<u32> {
        self.max_model_len.or_else(|| self.meta.as_ref()?.n_ctx)
    }

    fn served(&self, name: &str, list: &[Self]) -> ServedModel {
        let of_parent = || list.iter().find(|m| Some(&m.id) == self.parent.as_ref())?.own_length();
        ServedModel { id: name.to_owned(), max_model_len: self.own_length().or_else(of_parent) }
    }
}

/// A server lists no model, as while it loads one.
#[derive(Debug, thiserror::Error)]
#[error("{0} lists no model: wait until it has loaded one")]
pub struct NoModelListed(BaseUrl);

/// Requests the list of models from every URL. The wanted model must be listed; if none is named, there must be exactly
/// one.
///
/// A server without `/v1/models`, or one that lists no model, is assumed to serve the plan's model. Of several servers, the shortest context counts.
///
/// # Errors
/// A server does not answer, the key is refused, or the model is not served. The error has the URL, the cause and the
/// remedy.
pub async fn check_models(client: &Client, wanted: Option<&str>) -> anyhow::Result<ServedModel> {
    let mut found: Option<ServedModel> = None;
    for (target, base) in client.urls().enumerate() {
        let name = wanted.or(found.as_ref().map(|m| m.id.as_str()));
        let here = check_one(client, target, base, name).await?;
        let shortest =
            found.as_ref().and_then(|m| m.max_model_len).into_iter().chain(here.max_model_len).min();
        found = Some(ServedModel { max_model_len: shortest, ..here });
    }
    found.ok_or_else(|| anyhow!("[server] names no URL"))
}

/// Finds the model of a plan's server. Requests to an endpoint of the plan's own (`server.template`) may name none, and its server need not
/// list any: there the list only adds the context length.
///
/// # Errors
/// As [`check_models`]; with a template only if a server does not answer at all.
pub async fn find_model(client: &Client, wanted: Option<&str>) -> anyhow::Result<ServedModel> {
    if !client.protocol().is_template() {
        return check_models(client, wanted).await;
    }
    let mut found = as_named(wanted.unwrap_or(UNNAMED));
    for (target, base) in client.urls().enumerate() {
        let (status, body) = list(client, target, base).await?;
        let listed = serde_json::from_slice::<List>(&body).ok().filter(|_| (200..=299).contains(&status));
        let Some(model) = listed.and_then(|list| choose(&list.data, base, wanted).ok()) else { continue };
        let shortest = found.max_model_len.into_iter().chain(model.max_model_len).min();
        found = ServedModel { max_model_len: shortest, ..model };
    }
    Ok(found)
}

async fn list(client: &Client, target: usize, base: &BaseUrl) -> anyhow::Result<(u16, Bytes)> {
    client.fetch(target, MODELS).await.map_err(|e| match client.refused() {
        Some(refused) => refused.clone().into(),
        None => through(client, target, unreachable(client.http_version(), base, &e)),
    })
}

async fn check_one(
    client: &Client,
    target: usize,
    base: &BaseUrl,
    wanted: Option<&str>,
) -> anyhow::Result<ServedModel> {
    let (status, body) = list(client, target, base).await?;
    match (status, wanted) {
        (200..=299, _) => {}
        (401 | 403, _) => bail!(unauthorized(client, base, status, &body)),
        (407, _) => bail!(
            "the proxy {} wants a user and a password (HTTP 407): write them into the variable that names it, HTTP_PROXY=http://USER:PASSWORD@…, \
             from where they go nowhere else; or go past it with server.proxy = \"none\"",
            client.proxy(target).unwrap_or("on the way")
        ),
        // Some servers list what is in a cache, not what they serve: without a cache they fail, and the list may be empty.
        (404 | 405 | 500 | 501, Some(id)) => return Ok(as_named(id)),
        (404 | 405, None) => bail!(
            "{base} has no {MODELS} (HTTP {status}), so it cannot be asked which model it serves: set model = \
             \"…\" in [server], or give --model"
        ),
        _ => bail!("{base}{MODELS} answered HTTP {status}: {}", shown(client, &body)),
    }
    let Ok(list) = serde_json::from_slice::<List>(&body) else {
        bail!(
            "{base}{MODELS} answered, but not with a list of models; check that url is that of an OpenAI-compatible \
             server: {}",
            shown(client, &body)
        );
    };
    if list.data.is_empty() {
        return wanted.map(as_named).ok_or_else(|| NoModelListed(base.clone()).into());
    }
    // The list may echo secrets from the request.
    choose(&list.data, base, wanted).map_err(|e| anyhow!(client.redacted(&e.to_string()).into_owned()))
}

/// Returns the model that a plan names, of a server that does not list it.
fn as_named(id: &str) -> ServedModel {
    ServedModel { id: id.to_owned(), max_model_len: None }
}

/// Adds the proxy to a connection error, if there is one.
fn through(client: &Client, target: usize, e: anyhow::Error) -> anyhow::Error {
    match client.proxy(target) {
        Some(proxy) => anyhow!(
            "{e}. Requests go through the proxy {proxy}: it is the one that has to be reached, and to reach the server; \
             server.proxy = \"none\" (or NO_PROXY) goes past it"
        ),
        None => e,
    }
}

fn choose(list: &[Listed], base: &BaseUrl, wanted: Option<&str>) -> anyhow::Result<ServedModel> {
    let names = || list.iter().map(|m| m.id.as_str()).collect::<Vec<_>>().join(", ");
    match (wanted, list) {
        (Some(name), _) => list
            .iter()
            .find(|m| m.answers_to(name))
            .map(|m| m.served(name, list))
            .ok_or_else(|| anyhow!("{base} does not serve the model \"{name}\"; it serves: {}", names())),
        (None, [only]) => Ok(only.served(&only.id, list)),
        (None, _) => {
            bail!(
                "{base} serves several models: choose one with model = \"…\" in [server] or --model: {}",
                names()
            )
        }
    }
}

fn unreachable(http: Http, base: &BaseUrl, e: &Broken) -> anyhow::Error {
    let cause = &e.text;
    match e.failure {
        Failure::Connect => anyhow!(
            "nobody answers at {base}: {cause}. Check that the server runs and has finished loading, and that host and \
             port are those that this machine can reach"
        ),
        Failure::Dns => {
            anyhow!(
                "the host of {base} does not resolve: {cause}. Check the spelling of url, and the network"
            )
        }
        Failure::Tls if cause.starts_with(REMEDY) => {
            anyhow!("the TLS handshake with {base} failed: {cause}")
        }
        Failure::Tls => anyhow!(
            "the TLS handshake with {base} failed: {cause}. Check that this port speaks https (else write http://), and \
             that this machine trusts the certificate (SSL_CERT_FILE can name its authority)"
        ),
        Failure::ClientLimit => anyhow!(
            "no connection to {base}: {cause}. This machine is out of file descriptors or ports: raise `ulimit -n`"
        ),
        _ if http == Http::Two => anyhow!(
            "{base}{MODELS} gave no whole answer: {cause}. [server] asks for http = \"2\": check that the server speaks \
             HTTP/2 (vLLM and llama.cpp do not by themselves), or leave http out"
        ),
        _ => {
            anyhow!("{base}{MODELS} gave no whole answer: {cause}. Check that url is that of an HTTP server")
        }
    }
}

/// Explains a refused or missing key.
pub(crate) fn unauthorized(client: &Client, base: &BaseUrl, status: u16, body: &[u8]) -> String {
    let said = shown(client, body);
    match client.key() {
        Some(key) => format!(
            "{base} refuses the API key (HTTP {status}), which is read from {}: check that it holds the right key. The \
             server says: {said}",
            key.source()
        ),
        None => format!(
            "{base} wants an API key (HTTP {status}), and [server] names none: put it into an environment variable and \
             write api-key-env = \"ITS_NAME\", or into a file and write api-key-file = \"ITS_PATH\". The server says: {said}"
        ),
    }
}

fn shown(client: &Client, body: &[u8]) -> Box<str> {
    if body.is_empty() { "(empty body)".into() } else { client.sample(body) }
}

#[cfg(test)]
mod tests;
