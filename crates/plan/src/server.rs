//! The plan's `[server]` table: which server, how it is spoken to, and what is never written into a plan.

pub mod extras;
pub mod key;
pub mod pages;
pub mod proxy;
pub mod tls;

use extras::{ExtraBody, Headers};
use goodput_core::endpoint::{Api, BaseUrl};
use goodput_core::units::{NonEmpty, Span};
use key::KeySource;
use pages::{OwnMetrics, PageUrl};
use proxy::Proxy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tls::Tls;

/// What prompts are sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromptForm {
    /// As text, which the server makes tokens of.
    #[default]
    Text,
    /// As token ids, exactly as many as are asked for.
    TokenIds,
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Http {
    /// HTTP/1.1, a connection for each request in flight, kept alive.
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2: every request in flight is a stream of one connection per sending thread. Over `http://` without asking
    /// (prior knowledge), over `https://` as agreed in the handshake (ALPN).
    /// What is in flight beyond the streams that the server allows on one connection (often 100 to 250) waits in the client:
    /// give the client more threads then (`client.threads`), or speak HTTP/1.1.
    #[serde(rename = "2")]
    Two,
    /// Over `https://` HTTP/2 where the server agrees to it (ALPN), else HTTP/1.1.
    #[serde(rename = "auto")]
    Auto,
}

/// Whether requests find connections open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Opened before a step, and used again: no handshake counts as TTFT.
    #[default]
    Warm,
    /// Every request opens its own, and its handshake counts: what users without keep-alive see.
    Cold,
}

/// What requests are sent to.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// One server.
    Url(BaseUrl),
    /// Several; requests are dealt in turn.
    Urls(NonEmpty<BaseUrl>),
    /// The simulated server, in process; its settings are read by whoever joins the parts.
    Simulated(toml::Table),
}

impl Target {
    /// The URLs; none for the simulated server.
    pub fn urls(&self) -> &[BaseUrl] {
        match self {
            Self::Url(url) => std::slice::from_ref(url),
            Self::Urls(urls) => urls,
            Self::Simulated(_) => &[],
        }
    }
}

/// The `[server]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawServer", into = "RawServer")]
pub struct Server {
    /// Which server.
    pub target: Target,
    /// Which of its APIs.
    pub api: Api,
    /// The model asked for; by default the one that `/v1/models` lists.
    pub model: Option<String>,
    /// Where the API key is read from.
    pub key: Option<KeySource>,
    /// Extra headers.
    pub headers: Headers,
    /// Extra fields of the body.
    pub body: ExtraBody,
    /// Whether answers come as streams of events, else as one document each: then only e2e is known of them.
    pub stream: bool,
    /// The model's own tokenizer, a `tokenizer.json`: counts tokens where the server sends no usage.
    pub tokenizer: Option<PathBuf>,
    /// What prompts are sent as.
    pub prompts: PromptForm,
    /// Which HTTP is spoken.
    pub http: Http,
    /// Whether requests find connections open.
    pub connections: Connections,
    /// How long a connection may take: name, TCP and TLS together.
    pub connect_timeout: Span,
    /// Requests sent after the start of a server, before anything is counted.
    pub warmup_requests: u32,
    /// What is read of the server's own metrics.
    pub metrics: OwnMetrics,
    /// Whom to trust over `https://`, and how the client shows who it is.
    pub tls: Tls,
    /// Which proxy requests go through.
    pub proxy: Proxy,
}

impl Server {
    /// A table that says nothing but the target.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            api: Api::default(),
            model: None,
            key: None,
            headers: Headers::default(),
            body: ExtraBody::default(),
            stream: true,
            tokenizer: None,
            prompts: PromptForm::default(),
            http: Http::default(),
            connections: Connections::default(),
            connect_timeout: connect_timeout(),
            warmup_requests: warmup_requests(),
            metrics: OwnMetrics::default(),
            tls: Tls::default(),
            proxy: Proxy::default(),
        }
    }

    /// The table for a server that is none of the plan's: whom we trust and how the network is reached, and nothing of who we are, nor
    /// that anything goes unverified.
    pub fn elsewhere(&self, base: BaseUrl) -> Self {
        Self {
            tls: self.tls.elsewhere(),
            proxy: self.proxy.clone(),
            connect_timeout: self.connect_timeout,
            ..Self::new(Target::Url(base))
        }
    }

    /// The files that it names for TLS and for the key.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let key = match &mut self.key {
            Some(KeySource::File(path)) => Some(path),
            _ => None,
        };
        let Tls { ca, client_cert, client_key, .. } = &mut self.tls;
        [ca.as_mut(), client_cert.as_mut(), client_key.as_mut(), key].into_iter().flatten()
    }
}

#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawServer {
    /// Where the server listens, with or without `/v1`; or `unix:` and the whole path of a socket. Exactly one of `url`, `urls`, `simulated`.
    url: Option<BaseUrl>,
    /// Replicas of one service with no balancer before them: requests are dealt to them in turn.
    urls: Option<NonEmpty<BaseUrl>>,
    /// The API that requests are written for.
    #[serde(default)]
    api: Api,
    /// The model to ask for; the one that the server lists where it is left out.
    model: Option<String>,
    /// The environment variable that holds the API key; it is sent as a bearer token and written nowhere.
    api_key_env: Option<String>,
    /// The file that holds the API key, in place of a variable.
    api_key_file: Option<PathBuf>,
    /// Whether answers come as streams of events; `false`: each in one piece, of which only e2e is known.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    stream: bool,
    /// The model's `tokenizer.json`, which counts tokens where the server does not; needs a build with the feature `tokenizer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<PathBuf>,
    /// What prompts are sent as; `"text"` where it is left out.
    #[serde(default, skip_serializing_if = "is_default")]
    prompts: PromptForm,
    /// Which HTTP is spoken; `"1.1"` where it is left out.
    #[serde(default, skip_serializing_if = "is_default")]
    http: Http,
    /// Whether requests find connections open; `"warm"` where it is left out.
    #[serde(default, skip_serializing_if = "is_default")]
    connections: Connections,
    /// How long a connection may take: name, TCP and TLS together.
    #[serde(default = "connect_timeout")]
    connect_timeout: Span,
    /// Requests sent after the start of a server, before anything is counted.
    #[serde(default = "warmup_requests")]
    warmup_requests: u32,
    /// `false` reads none of the server's own metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<bool>,
    /// Where the server's metrics are, if not at `/metrics` of its own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics_url: Option<PageUrl>,
    /// The same for each of several `urls`, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics_urls: Option<NonEmpty<PageUrl>>,
    /// How often they are read while a step runs; a second where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics_interval: Option<Span>,
    /// Whom to trust over `https://`, and how the client shows who it is.
    #[serde(default, skip_serializing_if = "is_default")]
    tls: Tls,
    /// Which proxy requests go through: `"http://proxy:3128"`, or `"none"`. Where it is left out, the one that HTTP_PROXY, HTTPS_PROXY or
    /// ALL_PROXY names, unless NO_PROXY names the server or it is this machine itself.
    #[serde(default, skip_serializing_if = "is_default")]
    proxy: Proxy,
    /// Extra headers of every request; secrets are refused.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    headers: Headers,
    /// Extra fields of every request's body, as sampling settings; secrets are refused.
    #[serde(default, skip_serializing_if = "ExtraBody::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    body: ExtraBody,
    /// The simulated server in the place of a real one.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    simulated: Option<toml::Table>,
}

const fn connect_timeout() -> Span {
    Span::secs(5)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

const fn warmup_requests() -> u32 {
    20
}

impl TryFrom<RawServer> for Server {
    type Error = String;
    fn try_from(r: RawServer) -> Result<Self, String> {
        let target = match (r.url, r.urls, r.simulated) {
            (Some(url), None, None) => Target::Url(url),
            (None, Some(urls), None) => Target::Urls(urls),
            (None, None, Some(table)) => Target::Simulated(table),
            (None, None, None) => {
                return Err(
                    "[server] needs one of url, urls, simulated: url = \"http://127.0.0.1:8000\"".into()
                );
            }
            _ => return Err("[server] takes only one of url, urls, simulated".into()),
        };
        let key = match (r.api_key_env, r.api_key_file) {
            (Some(_), Some(_)) => return Err("[server] takes only one of api-key-env, api-key-file".into()),
            (Some(name), None) if !is_variable(&name) => {
                // Not quoted: somebody may have pasted the key itself.
                return Err("api-key-env is the name of an environment variable (letters, digits, underscores), not the \
                            key itself"
                    .into());
            }
            (Some(name), None) => Some(KeySource::Env(name)),
            (None, path) => path.map(KeySource::File),
        };
        if r.connect_timeout.0.is_zero() {
            return Err("connect-timeout is zero: no connection can be made within it".into());
        }
        if let Some(problem) = r.tls.problem() {
            return Err(format!("[server.tls] {problem}"));
        }
        if r.model.as_deref() == Some("") {
            return Err("model is empty: leave it out for the model that the server lists".into());
        }
        if !r.stream && r.body.names("stream_options") {
            return Err("stream = false takes no body.stream_options: leave one of them out".into());
        }
        if r.prompts == PromptForm::TokenIds && (r.api != Api::Completions || r.tokenizer.is_none()) {
            return Err("prompts = \"token-ids\" needs api = \"completions\", since a chat takes no token ids, and the model's \
                        tokenizer = \"tokenizer.json\""
                .into());
        }
        let metrics = OwnMetrics::of(r.metrics, r.metrics_url, r.metrics_urls, r.metrics_interval)?;
        Ok(Self {
            target,
            api: r.api,
            model: r.model,
            key,
            headers: r.headers,
            body: r.body,
            stream: r.stream,
            tokenizer: r.tokenizer,
            prompts: r.prompts,
            http: r.http,
            connections: r.connections,
            connect_timeout: r.connect_timeout,
            warmup_requests: r.warmup_requests,
            metrics,
            tls: r.tls,
            proxy: r.proxy,
        })
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl From<Server> for RawServer {
    fn from(s: Server) -> Self {
        let (mut url, mut urls, mut simulated) = (None, None, None);
        match s.target {
            Target::Url(x) => url = Some(x),
            Target::Urls(x) => urls = Some(x),
            Target::Simulated(x) => simulated = Some(x),
        }
        let (api_key_env, api_key_file) = match s.key {
            Some(KeySource::Env(name)) => (Some(name), None),
            Some(KeySource::File(path)) => (None, Some(path)),
            None => (None, None),
        };
        let OwnMetrics { read, mut pages, interval } = s.metrics;
        let metrics_urls = if pages.len() > 1 { std::mem::take(&mut pages).try_into().ok() } else { None };
        Self {
            url,
            urls,
            metrics: (!read).then_some(false),
            metrics_url: pages.pop(),
            metrics_urls,
            metrics_interval: Some(interval).filter(|i| *i != OwnMetrics::default().interval),
            api: s.api,
            model: s.model,
            api_key_env,
            api_key_file,
            http: s.http,
            connections: s.connections,
            connect_timeout: s.connect_timeout,
            warmup_requests: s.warmup_requests,
            stream: s.stream,
            tokenizer: s.tokenizer,
            prompts: s.prompts,
            tls: s.tls,
            proxy: s.proxy,
            headers: s.headers,
            body: s.body,
            simulated,
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
