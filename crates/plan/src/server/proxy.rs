//! `server.proxy`: which proxy requests go through.

use serde::{Deserialize, Serialize};
use std::fmt;
use url::Url;

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
}
