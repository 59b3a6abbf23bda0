//! Server addresses and API dialects.

use crate::named_enum;
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path, str::FromStr};
use url::Url;

named_enum! {
    /// The HTTP API that requests are sent to. What the client knows of it is in `crates/load/src/client/dialect`, what the simulated server
    /// knows in `crates/load/src/sim/dialect`.
    #[derive(Hash, Default)]
    pub enum Api {
        /// `/v1/chat/completions`: takes messages, streams deltas.
        #[default]
        Chat = "chat",
        /// `/v1/completions`: takes a prompt, streams text.
        Completions = "completions",
        /// `/v1/responses`: takes input items, streams typed events (OpenAI's Responses API).
        Responses = "responses",
        /// `/v1/messages`: takes messages and a system text, streams content blocks (Anthropic's Messages API).
        Messages = "messages",
        /// `/v1/embeddings`: takes texts, answers with a vector for each.
        Embeddings = "embeddings",
        /// `/v1/rerank`: takes a query and documents, answers with a relevance score for each document (Jina's and Cohere's form).
        Rerank = "rerank",
        /// `/score`: takes a query and documents, answers with a score for each pair (vLLM).
        Score = "score",
        /// `/pooling`: takes texts, answers with the pooled hidden states of each (vLLM).
        Pooling = "pooling",
        /// `/classify`: takes texts, answers with the class of each (vLLM).
        Classify = "classify",
        /// `/v1/audio/transcriptions`: takes an audio file as a form, answers with its text (OpenAI's transcriptions API).
        Transcriptions = "transcriptions",
        /// Any other HTTP endpoint, which `[server.template]` describes.
        Template = "template",
    }
}

/// The kind of answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Generated tokens, as a stream or in one document.
    Tokens,
    /// One document, with a result for each of these that the request consists of, or with the text of its audio. There is no first token
    /// and no pace.
    Items(Item),
}

named_enum! {
    /// Parts of a request that rates and costs are told in besides requests.
    #[derive(Hash)]
    pub enum Item {
        /// A text.
        Text = "text",
        /// A document, ranked by a query.
        Document = "document",
        /// An image in the prompt of a generated answer.
        Image = "image",
        /// A second of audio. Audio seconds per second tell how many times faster than speech a server is.
        AudioSecond = "audio second",
    }
}

impl Item {
    /// Returns the name of several.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Text => "texts",
            Self::Document => "documents",
            Self::Image => "images",
            Self::AudioSecond => "audio seconds",
        }
    }
}

impl Api {
    /// Returns the path of the endpoint; `None` if only the plan knows it (`server.template`).
    pub const fn path(self) -> Option<&'static str> {
        Some(match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/score",
            Self::Pooling => "/pooling",
            Self::Classify => "/classify",
            Self::Transcriptions => "/v1/audio/transcriptions",
            Self::Template => return None,
        })
    }

    /// Returns the API of an endpoint's path.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.path() == Some(path))
    }

    /// Returns true if a prompt may be a list of token ids.
    pub const fn takes_token_ids(self) -> bool {
        match self {
            Self::Completions => true,
            Self::Chat
            | Self::Responses
            | Self::Messages
            | Self::Embeddings
            | Self::Rerank
            | Self::Score
            | Self::Pooling
            | Self::Classify
            | Self::Transcriptions
            | Self::Template => false,
        }
    }

    /// Returns true if a prompt may have images.
    pub const fn takes_images(self) -> bool {
        match self {
            Self::Chat | Self::Responses | Self::Messages => true,
            Self::Template
            | Self::Completions
            | Self::Embeddings
            | Self::Rerank
            | Self::Score
            | Self::Pooling
            | Self::Classify
            | Self::Transcriptions => false,
        }
    }

    /// Returns what a request is answered with; `None` if only the plan knows it (`server.template`). The settings of a server know it in
    /// any case.
    pub const fn answer(self) -> Option<Answer> {
        match self {
            Self::Chat | Self::Completions | Self::Responses | Self::Messages => Some(Answer::Tokens),
            Self::Embeddings | Self::Pooling | Self::Classify => Some(Answer::Items(Item::Text)),
            Self::Rerank | Self::Score => Some(Answer::Items(Item::Document)),
            Self::Transcriptions => Some(Answer::Items(Item::AudioSecond)),
            Self::Template => None,
        }
    }
}

/// A server's base URL: scheme, host, port and perhaps a path, without a trailing `/` or `/v1`; or `unix:` and the path
/// of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct BaseUrl(String);

impl BaseUrl {
    /// Returns the URL of `path`, which begins with a slash.
    pub fn join(&self, path: &str) -> Url {
        if self.socket().is_some() {
            return Url::parse(&format!("http://localhost{path}"))
                .expect("a fixed host with a path is a URL");
        }
        Url::parse(&format!("{}{path}", self.0)).expect("a checked URL with a path is a URL")
    }

    /// Returns the path of the Unix socket, if the address is one.
    pub fn socket(&self) -> Option<&Path> {
        self.0.strip_prefix(UNIX).map(Path::new)
    }

    /// Returns true if requests are encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// Returns true if the host is this machine by name or loopback address.
    pub fn is_loopback(&self) -> bool {
        let url = self.join("/");
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl FromStr for BaseUrl {
    type Err = String;
    // Messages never quote the URL: it may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix(UNIX) {
            return socket(path);
        }
        let url = Url::parse(text).map_err(|e| {
            format!("this is not a URL ({e}): write the server's address, such as \"http://127.0.0.1:8000\"")
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("a URL must begin with http:// or https://, such as \"http://127.0.0.1:8000\"".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL carries user:password@, which would end up in files and reports: leave it out, put the \
                        secret into an environment variable, and write api-key-env = \"ITS_NAME\" (it is sent as a \
                        bearer token)"
                .into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("the URL has a ?query or #fragment: write only the server's address, such as \
                        \"http://127.0.0.1:8000\""
                .into());
        }
        let base = url.as_str().trim_end_matches('/');
        if let Some(path) = Api::ALL.into_iter().filter_map(Api::path).find(|path| base.ends_with(path)) {
            let apis = Api::ALL.map(|api| format!("{:?}", api.name())).join(" or ");
            return Err(format!(
                "the URL ends in {path}: write only the part before it; api = {apis} chooses the endpoint"
            ));
        }
        Ok(Self(base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/').to_owned()))
    }
}

/// Prefix of the URL of a Unix socket.
const UNIX: &str = "unix:";

/// Parses the path of a Unix socket; `unix:/path` and `unix:///path` are equivalent.
fn socket(path: &str) -> Result<BaseUrl, String> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if cfg!(not(unix)) {
        return Err("Unix sockets are supported on Linux and macOS only".into());
    }
    if !path.starts_with('/') || path.len() < 2 {
        return Err("unix: needs the absolute path of a socket, such as \"unix:/run/vllm.sock\"".into());
    }
    Ok(BaseUrl(format!("{UNIX}{path}")))
}

impl TryFrom<String> for BaseUrl {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BaseUrl> for String {
    fn from(url: BaseUrl) -> Self {
        url.0
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
