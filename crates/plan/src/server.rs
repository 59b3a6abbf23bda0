//! The plan's `[server]` table: the server, the transport, and the settings of requests.

pub mod adapters;
pub mod extras;
pub mod json_path;
pub mod key;
pub mod pages;
pub mod proxy;
pub mod template;
pub mod tls;
mod transport;

pub use transport::{Connections, Http, PromptForm};

use super::start::is_variable_name;
use adapters::Adapters;
use extras::{ExtraBody, Headers};
use goodput_core::endpoint::{Answer, Api, BaseUrl, Item};
use goodput_core::units::{NonEmpty, Span};
use key::KeySource;
use pages::{PageUrl, ServerMetrics};
use proxy::Proxy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use template::Template;
use tls::Tls;

/// Target of requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// One server.
    Url(BaseUrl),
    /// Several replicas; requests are distributed round-robin.
    Urls(NonEmpty<BaseUrl>),
    /// The in-process simulated server, with its settings as raw TOML.
    Simulated(toml::Table),
}

impl Target {
    /// Returns the URLs; none for the simulated server.
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
    /// The server or servers to measure.
    pub target: Target,
    /// API of the requests.
    pub api: Api,
    /// The endpoint, if `api` is [`Api::Template`].
    pub template: Option<Template>,
    /// Model to request; `None` for the one that `/v1/models` lists.
    pub model: Option<String>,
    /// LoRA adapters to load before the first request and to unload after the last: their names, and their paths on the server.
    pub adapters: Adapters,
    /// Source of the API key.
    pub key: Option<KeySource>,
    /// Extra headers of every request.
    pub headers: Headers,
    /// Extra fields in the body of every request.
    pub body: ExtraBody,
    /// True for streamed answers; false for answers in one piece, of which only e2e is known. Without effect where the API answers with
    /// results: see [`Server::streams`].
    pub stream: bool,
    /// The model's `tokenizer.json`, which counts tokens if the server sends no usage.
    pub tokenizer: Option<PathBuf>,
    /// Form of prompts.
    pub prompts: PromptForm,
    /// HTTP version.
    pub http: Http,
    /// Reuse of connections.
    pub connections: Connections,
    /// Maximum time to open a connection: name resolution, TCP and TLS.
    pub connect_timeout: Span,
    /// Number of requests sent after the start of a server, before anything is counted.
    pub warmup_requests: u32,
    /// Which of the server's own metrics to read.
    pub metrics: ServerMetrics,
    /// TLS settings.
    pub tls: Tls,
    /// Proxy setting.
    pub proxy: Proxy,
}

impl Server {
    /// Returns the default settings for a target.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            api: Api::default(),
            template: None,
            model: None,
            adapters: Adapters::default(),
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
            metrics: ServerMetrics::default(),
            tls: Tls::default(),
            proxy: Proxy::default(),
        }
    }

    /// Returns true if answers are streams; false if each is one document.
    pub fn streams(&self) -> bool {
        self.stream && self.answer() == Answer::Tokens
    }

    /// Returns what a request is answered with.
    pub fn answer(&self) -> Answer {
        let described = || self.template.as_ref().map(Template::answer);
        self.api.answer().or_else(described).unwrap_or(Answer::Tokens)
    }

    /// Returns the items of a request; `None` if it is answered with generated tokens.
    pub fn item(&self) -> Option<Item> {
        match self.answer() {
            Answer::Tokens => None,
            Answer::Items(item) => Some(item),
        }
    }

    /// Returns the path of the endpoint, which may have a query.
    pub fn path(&self) -> &str {
        let described = || self.template.as_ref().map(|template| template.path.as_str());
        self.api.path().or_else(described).unwrap_or("/")
    }

    /// Returns the settings for a server outside the plan, such as a metrics page: trusted authorities and proxy, but no credentials, and always
    /// with verified certificates.
    pub fn for_other_host(&self, base: BaseUrl) -> Self {
        Self {
            tls: self.tls.for_other_host(),
            proxy: self.proxy.clone(),
            connect_timeout: self.connect_timeout,
            ..Self::new(Target::Url(base))
        }
    }

    /// Returns the paths of the key file and of the TLS files.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let key = match &mut self.key {
            Some(KeySource::File(path)) => Some(path),
            Some(KeySource::Env(_)) | None => None,
        };
        let Tls { ca, client_cert, client_key, .. } = &mut self.tls;
        [ca.as_mut(), client_cert.as_mut(), client_key.as_mut(), key].into_iter().flatten()
    }
}

/// The `[server]` table as written.
// A mirror of `Server`: three keys, of which one is set, become its target, two its key, and four its metrics. `#[serde(flatten)]` would lose
// the position of a mistake in the plan.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawServer {
    /// Base URL of the server, with or without `/v1`; or `unix:` and the absolute path of a socket. Set exactly one of `url`, `urls`, `simulated`.
    url: Option<BaseUrl>,
    /// Base URLs of replicas without a load balancer; requests are distributed round-robin.
    urls: Option<NonEmpty<BaseUrl>>,
    /// API of the requests.
    #[serde(default)]
    api: Api,
    /// The endpoint of `api = "template"`: its path, the body of a request, and where an answer has text, counts and errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template: Option<Template>,
    /// Model to request; by default the one that the server lists.
    model: Option<String>,
    /// LoRA adapters to load before the first request and to unload after the last, through vLLM's `/v1/load_lora_adapter`: `{ sql =
    /// "/loras/sql" }`, their names and their paths on the server. Requests name them in `model`, `class.model` or `workload.model`.
    #[serde(default, skip_serializing_if = "Adapters::is_empty")]
    adapters: Adapters,
    /// Environment variable with the API key, which is sent as a bearer token (with `api = "messages"` as `x-api-key` too) and never written to files.
    api_key_env: Option<String>,
    /// File with the API key, instead of an environment variable.
    api_key_file: Option<PathBuf>,
    /// Streams answers; `true` by default. With `false`, answers arrive in one piece, and only e2e is known.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    stream: bool,
    /// The model's `tokenizer.json`, which counts tokens if the server does not. Needs a build with the feature `tokenizer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<PathBuf>,
    /// Form in which prompts are sent; `"text"` by default.
    #[serde(default, skip_serializing_if = "is_default")]
    prompts: PromptForm,
    /// HTTP version; `"1.1"` by default.
    #[serde(default, skip_serializing_if = "is_default")]
    http: Http,
    /// Reuse of connections; `"warm"` by default.
    #[serde(default, skip_serializing_if = "is_default")]
    connections: Connections,
    /// Maximum time to open a connection: name resolution, TCP and TLS.
    #[serde(default = "connect_timeout")]
    connect_timeout: Span,
    /// Number of requests sent after the start of a server, before anything is counted.
    #[serde(default = "warmup_requests")]
    warmup_requests: u32,
    /// Reads the server's own metrics; `true` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<bool>,
    /// URL of the server's metrics; by default `/metrics` on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics_url: Option<PageUrl>,
    /// URLs of the metrics of several `urls`, in the same order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics_urls: Option<NonEmpty<PageUrl>>,
    /// Time between two readings of the metrics during a step; 1 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics_interval: Option<Span>,
    /// TLS: trusted authorities, and the client certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    tls: Tls,
    /// Proxy for requests: `"http://proxy:3128"`, or `"none"`. By default the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, unless
    /// NO_PROXY excludes the server or the server is on this machine.
    #[serde(default, skip_serializing_if = "is_default")]
    proxy: Proxy,
    /// Extra headers of every request. Secrets are refused.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    headers: Headers,
    /// Extra fields in the body of every request, such as sampling settings. Secrets are refused.
    #[serde(default, skip_serializing_if = "ExtraBody::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    body: ExtraBody,
    /// Simulated server, instead of a real one.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

const fn warmup_requests() -> u32 {
    20
}

/// Returns the reason why the template does not fit the other keys of its server.
fn template_problem(
    api: Api,
    template: Option<&Template>,
    model: Option<&str>,
    body: &ExtraBody,
) -> Option<String> {
    let problem = match (api, template) {
        (Api::Template, None) => {
            "api = \"template\" needs the table [server.template], with path, body, and text (or results): see docs/apis.md"
        }
        (Api::Template, Some(_)) if !body.is_empty() => {
            "[server.body] cannot be combined with api = \"template\": write its fields into template.body"
        }
        (Api::Template, Some(template)) if model.is_none() && template.names_model() => {
            "template.body has {{model}}, but model is not set: write model = \"…\" in [server]"
        }
        (_, Some(_)) if api != Api::Template => {
            return Some(format!(
                "[server.template] has no effect with api = \"{}\": write api = \"template\", or leave the table out",
                api.name()
            ));
        }
        _ => return None,
    };
    Some(problem.into())
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
                    "[server] needs one of url, urls, simulated: write url = \"http://127.0.0.1:8000\""
                        .into(),
                );
            }
            _ => return Err("[server] takes only one of url, urls, simulated".into()),
        };
        let key = match (r.api_key_env, r.api_key_file) {
            (Some(_), Some(_)) => return Err("[server] takes only one of api-key-env, api-key-file".into()),
            (Some(name), None) if !is_variable_name(&name) => {
                // The message does not quote the value, which may be the key itself.
                return Err("api-key-env must be the name of an environment variable (letters, digits, underscores), not the \
                            key itself"
                    .into());
            }
            (Some(name), None) => Some(KeySource::Env(name)),
            (None, path) => path.map(KeySource::File),
        };
        if r.connect_timeout.0.is_zero() {
            return Err("connect-timeout is zero: write a longer time".into());
        }
        if let Some(problem) = r.tls.problem() {
            return Err(format!("[server.tls] {problem}"));
        }
        if r.model.as_deref() == Some("") {
            return Err("model is empty: leave it out for the model that the server lists".into());
        }
        if !r.stream && r.body.names("stream_options") {
            return Err(
                "body.stream_options cannot be combined with stream = false: leave one of them out".into()
            );
        }
        if r.prompts == PromptForm::TokenIds && (!r.api.takes_token_ids() || r.tokenizer.is_none()) {
            return Err("prompts = \"token-ids\" needs api = \"completions\", since no other API takes token ids, and the model's \
                        tokenizer = \"tokenizer.json\""
                .into());
        }
        if let Some(problem) = template_problem(r.api, r.template.as_ref(), r.model.as_deref(), &r.body) {
            return Err(problem);
        }
        let metrics = ServerMetrics::of(r.metrics, r.metrics_url, r.metrics_urls, r.metrics_interval)?;
        Ok(Self {
            target,
            api: r.api,
            template: r.template,
            model: r.model,
            adapters: r.adapters,
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
        let ServerMetrics { read, mut pages, interval } = s.metrics;
        let metrics_urls = if pages.len() > 1 { std::mem::take(&mut pages).try_into().ok() } else { None };
        Self {
            url,
            urls,
            metrics: (!read).then_some(false),
            metrics_url: pages.pop(),
            metrics_urls,
            metrics_interval: Some(interval).filter(|i| *i != ServerMetrics::default().interval),
            api: s.api,
            template: s.template,
            model: s.model,
            adapters: s.adapters,
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
