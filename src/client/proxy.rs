//! Proxies: which one lies on the way to a server. Those of the environment are found as the HTTP library finds them, so that what is
//! told is what happens.

use super::config::BaseUrl;
use crate::redact;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The variables that name proxies, in the order in which they are asked, in capitals and without.
const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// `server.proxy`: which proxy requests go through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Proxy {
    /// The one that the environment names, where it names one, and none to this machine itself.
    #[default]
    Environment,
    /// None, whatever the environment names.
    None,
    /// This one, for every URL of the plan's server, whatever the environment names.
    Url(ProxyUrl),
}

impl schemars::JsonSchema for Proxy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Proxy".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

/// Where a proxy listens: scheme, host and port. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl(String);

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Proxy {
    type Error = String;
    // Messages never quote the URL: it may hold a password.
    fn try_from(text: String) -> Result<Self, String> {
        const LIKE: &str = "write \"none\", or where the proxy listens, such as \"http://proxy:3128\"";
        let text = text.trim();
        match text {
            "none" => return Ok(Self::None),
            "environment" => return Ok(Self::Environment),
            _ => {}
        }
        let url = Url::parse(text).map_err(|e| format!("proxy is no URL ({e}): {LIKE}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "proxy carries user:password@, which would end up in files and reports: leave proxy out and set \
                        HTTPS_PROXY (or HTTP_PROXY) with them in the environment, where they stay"
                    .into(),
            );
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("proxy speaks http:// or https://, not {}://: {LIKE}", url.scheme()));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(format!("proxy has more than scheme, host and port: {LIKE}"));
        }
        Ok(Self::Url(ProxyUrl(url.origin().ascii_serialization())))
    }
}

impl From<Proxy> for String {
    fn from(proxy: Proxy) -> Self {
        match proxy {
            Proxy::Environment => "environment".into(),
            Proxy::None => "none".into(),
            Proxy::Url(url) => url.0,
        }
    }
}

/// A proxy on the way to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnTheWay {
    /// Where it listens, without user and password.
    pub url: String,
    /// Whether the environment names it, else the plan.
    pub of_environment: bool,
}

impl Proxy {
    /// The proxy through which requests to a URL go.
    pub fn to(&self, base: &BaseUrl) -> Option<OnTheWay> {
        self.to_by(base, Matcher::from_system)
    }

    fn to_by(&self, base: &BaseUrl, environment: impl FnOnce() -> Matcher) -> Option<OnTheWay> {
        if base.socket().is_some() {
            return None;
        }
        match self {
            Self::None => None,
            Self::Url(url) => Some(OnTheWay { url: url.to_string(), of_environment: false }),
            Self::Environment if base.is_loopback() => None,
            Self::Environment => {
                let found = environment().intercept(&base.join("/").as_str().parse().ok()?)?;
                let url = found.uri().to_string();
                Some(OnTheWay { url: url.trim_end_matches('/').to_owned(), of_environment: true })
            }
        }
    }

    /// How the HTTP library is told; `loopback` is whether the URLs are of this machine.
    pub(super) fn apply(
        &self,
        builder: reqwest::ClientBuilder,
        loopback: bool,
    ) -> reqwest::Result<reqwest::ClientBuilder> {
        Ok(match self {
            Self::Environment if loopback => builder.no_proxy(),
            Self::None => builder.no_proxy(),
            Self::Environment => builder,
            Self::Url(url) => builder.no_proxy().proxy(reqwest::Proxy::all(&url.0)?),
        })
    }

    /// What is wrong with the proxy on the way to a URL.
    pub(super) fn problem(&self, base: &BaseUrl) -> Option<String> {
        let proxy = self.to(base)?;
        let scheme = proxy.url.split("://").next().unwrap_or_default();
        (!matches!(scheme, "http" | "https")).then(|| {
            format!(
                "{base} would be reached through the proxy {}, and only proxies that speak HTTP can be used: name one in HTTPS_PROXY or \
                 server.proxy, or go past it with server.proxy = \"none\" (or NO_PROXY)",
                proxy.url
            )
        })
    }
}

/// Users and passwords in the variables that name proxies are left out of everything from now on.
pub(super) fn keep_credentials_out() {
    let lower = VARIABLES.map(str::to_lowercase);
    for name in VARIABLES.into_iter().chain(lower.iter().map(String::as_str)) {
        for secret in std::env::var(name).ok().iter().flat_map(|value| credentials(value)) {
            redact::keep_out(&secret, "***");
        }
    }
}

/// The password of a URL as it is written and as it is sent, and it together with its user, as a header has them as well.
fn credentials(value: &str) -> Vec<String> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((user, _)) = rest[..host].rsplit_once('@') else { return Vec::new() };
    let decoded = percent(user);
    let password = |both: &str| both.split_once(':').map(|(_, password)| password.to_owned());
    let mut all = vec![user.to_owned(), decoded.clone()];
    all.extend(password(user));
    all.extend(password(&decoded));
    // As it is sent; one that is too short to be looked for in every form is so in this one.
    let sent = if decoded.contains(':') { decoded } else { format!("{decoded}:") };
    all.extend([STANDARD.encode(&sent), STANDARD_NO_PAD.encode(&sent)]);
    all.retain(|secret| !secret.is_empty());
    all.dedup();
    all
}

/// A text with `%41` as `A`.
fn percent(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        let hex = more.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        match hex.filter(|_| *first == b'%').and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &more[2..];
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Proxy, String> {
        text.to_owned().try_into()
    }

    #[test]
    fn a_plan_names_a_proxy_and_no_password() {
        for text in ["none", "environment", "http://proxy:3128", "https://proxy"] {
            assert_eq!(String::from(of(text).unwrap()), text, "it reads back");
        }
        assert_eq!(String::from(of(" http://proxy:3128/ ").unwrap()), "http://proxy:3128");
        for (text, says) in [
            ("http://me:hunter2@proxy:3128", "HTTPS_PROXY"),
            ("socks5://proxy:1080", "not socks5://"),
            ("proxy:3128", "not proxy://"),
            ("http://proxy/path", "scheme, host and port"),
            ("", "no URL"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(says) && !error.contains("hunter2"), "{text}: {error}");
        }
    }

    /// Rows: the plan's proxy, the server, and what lies on the way, by an environment with both.
    #[test]
    fn what_lies_on_the_way_is_known() {
        let environment = || {
            Matcher::builder()
                .http("http://me:hunter2@plain:3128")
                .https("tls:3129")
                .no("inside.test,10.0.0.0/8")
                .build()
        };
        for (proxy, server, want) in [
            ("environment", "http://server.test:8000", Some("http://plain:3128")),
            ("environment", "https://server.test", Some("http://tls:3129")),
            ("environment", "http://a.inside.test", None),
            ("environment", "http://10.1.2.3:8000", None),
            ("environment", "http://127.0.0.1:8000", None),
            ("environment", "http://localhost:8000", None),
            ("environment", "unix:/run/vllm.sock", None),
            ("none", "http://server.test", None),
            ("http://own:1", "http://server.test", Some("http://own:1")),
            ("http://own:1", "http://127.0.0.1:8000", Some("http://own:1")),
        ] {
            let found = of(proxy).unwrap().to_by(&server.parse().unwrap(), environment);
            assert_eq!(found.as_ref().map(|f| f.url.as_str()), want, "{proxy} {server}");
            assert_eq!(found.is_some_and(|f| f.of_environment), want.is_some() && proxy == "environment");
        }
    }

    #[test]
    fn credentials_are_found_as_written_and_as_sent() {
        for (value, want) in [
            (
                "http://me:hun%2fter2@proxy:3128",
                vec![
                    "me:hun%2fter2",
                    "me:hun/ter2",
                    "hun%2fter2",
                    "hun/ter2",
                    "bWU6aHVuL3RlcjI=",
                    "bWU6aHVuL3RlcjI",
                ],
            ),
            ("me:hunter2@proxy", vec!["me:hunter2", "hunter2", "bWU6aHVudGVyMg==", "bWU6aHVudGVyMg"]),
            ("http://a:b@proxy", vec!["a:b", "b", "YTpi"]),
            ("http://me@proxy", vec!["me", "bWU6"]),
            ("http://proxy:3128/@x", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(credentials(value), want, "{value}");
        }
    }
}
