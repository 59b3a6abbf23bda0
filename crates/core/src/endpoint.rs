//! The address of a server, and the API that requests are written for.

use serde::{Deserialize, Serialize};
use std::{fmt, path::Path, str::FromStr};
use url::Url;

/// The API that requests are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// `/v1/chat/completions`: messages in, deltas out.
    #[default]
    Chat,
    /// `/v1/completions`: a prompt in, text out.
    Completions,
}

impl Api {
    /// The path of the endpoint.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }
}

/// Where a server listens: scheme, host, port and perhaps a path, without a trailing `/` or `/v1`; or `unix:` and the path of
/// a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct BaseUrl(String);

impl BaseUrl {
    /// The URL of `path`, which begins with `/v1/…` or another slash.
    pub fn join(&self, path: &str) -> Url {
        if self.socket().is_some() {
            return Url::parse(&format!("http://localhost{path}"))
                .expect("a fixed host with a path is a URL");
        }
        Url::parse(&format!("{}{path}", self.0)).expect("a checked URL with a path is a URL")
    }

    /// The Unix socket that it names, if it does.
    pub fn socket(&self) -> Option<&Path> {
        self.0.strip_prefix(UNIX).map(Path::new)
    }

    /// Whether what is sent there is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// Whether it names this machine.
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
            format!("this is no URL ({e}): write the server's address, such as \"http://127.0.0.1:8000\"")
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("a URL begins with http:// or https://, such as \"http://127.0.0.1:8000\"".into());
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
        for api in [Api::Chat, Api::Completions] {
            if base.ends_with(api.path()) {
                return Err(format!(
                    "the URL ends in {}: write only what stands before it; api = \"chat\" or \"completions\" chooses the \
                     endpoint",
                    api.path()
                ));
            }
        }
        Ok(Self(base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/').to_owned()))
    }
}

/// What a URL of a Unix socket begins with.
const UNIX: &str = "unix:";

/// `unix:/path` and `unix:///path` are the same.
fn socket(path: &str) -> Result<BaseUrl, String> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if cfg!(not(unix)) {
        return Err("Unix sockets are there on Linux and macOS only".into());
    }
    if !path.starts_with('/') || path.len() < 2 {
        return Err("unix: is followed by the whole path of a socket, such as \"unix:/run/vllm.sock\"".into());
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
