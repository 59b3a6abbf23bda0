//! `server.proxy`: the proxy for requests.
use serde::{Deserialize, Serialize};
use std::fmt;
use url::Url;

/// Proxy setting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Proxy {
    /// The proxy set in the environment, if any; none to this machine.
    #[default]
    Environment,
    /// No proxy, even if the environment sets one.
    None,
    /// This proxy for every URL of the server, even if the environment sets another.
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

/// Address of a proxy: scheme, host and port, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl(String);

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Proxy {
    type Error = String;
    // Messages never quote the URL, which may contain a password.
    fn try_from(text: String) -> Result<Self, String> {
        const LIKE: &str = "write \"none\", or the address of the proxy, such as \"http://proxy:3128\"";
        let text = text.trim();
        match text {
            "none" => return Ok(Self::None),
            "environment" => return Ok(Self::Environment),
            _ => {}
        }
        let url = Url::parse(text).map_err(|e| format!("proxy is not a URL ({e}): {LIKE}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "proxy contains user:password@, which would end up in files and reports: leave proxy out, and set \
                        HTTPS_PROXY (or HTTP_PROXY) in the environment instead"
                    .into(),
            );
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("proxy must use http:// or https://, not {}://: {LIKE}", url.scheme()));
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
    fn proxies_are_parsed_and_passwords_refused() {
        for text in ["none", "environment", "http://proxy:3128", "https://proxy"] {
            assert_eq!(String::from(of(text).unwrap()), text, "it reads back");
        }
        assert_eq!(String::from(of(" http://proxy:3128/ ").unwrap()), "http://proxy:3128");
        for (text, message) in [
            ("http://me:hunter2@proxy:3128", "HTTPS_PROXY"),
            ("socks5://proxy:1080", "not socks5://"),
            ("proxy:3128", "not proxy://"),
            ("http://proxy/path", "scheme, host and port"),
            ("", "not a URL"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(message) && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
