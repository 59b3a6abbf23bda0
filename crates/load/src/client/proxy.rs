//! Finds the proxy in front of a server. Proxies of the environment are found by the HTTP library's own code, so that
//! reports match the actual route.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use goodput_core::endpoint::BaseUrl;
use goodput_core::redact;
use goodput_core::secrets::MASK;
use goodput_plan::server::proxy::Proxy;
use hyper_util::client::proxy::matcher::Matcher;

/// The environment variables that name proxies. Each is also read in lower case.
const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// A proxy in front of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyInUse {
    /// URL of the proxy, without user and password.
    pub url: String,
    /// True if the environment names it; false if the plan does.
    pub from_environment: bool,
}

/// Returns the proxy for requests to a URL.
pub(crate) fn proxy_for(proxy: &Proxy, base: &BaseUrl) -> Option<ProxyInUse> {
    proxy_with(proxy, base, Matcher::from_system)
}

fn proxy_with(proxy: &Proxy, base: &BaseUrl, environment: impl FnOnce() -> Matcher) -> Option<ProxyInUse> {
    if base.socket().is_some() {
        return None;
    }
    match proxy {
        Proxy::None => None,
        Proxy::Url(url) => Some(ProxyInUse { url: url.to_string(), from_environment: false }),
        Proxy::Environment if base.is_loopback() => None,
        Proxy::Environment => {
            let found = environment().intercept(&base.join("/").as_str().parse().ok()?)?;
            let url = found.uri().to_string();
            Some(ProxyInUse { url: url.trim_end_matches('/').to_owned(), from_environment: true })
        }
    }
}

/// Configures the proxy of the HTTP client; `loopback` is true if its URLs are on this machine.
pub(super) fn apply(
    proxy: &Proxy,
    builder: reqwest::ClientBuilder,
    loopback: bool,
) -> reqwest::Result<reqwest::ClientBuilder> {
    Ok(match proxy {
        Proxy::Environment if loopback => builder.no_proxy(),
        Proxy::None => builder.no_proxy(),
        Proxy::Environment => builder,
        Proxy::Url(url) => builder.no_proxy().proxy(reqwest::Proxy::all(url.to_string())?),
    })
}

/// Returns an error message if the proxy for a URL cannot be used.
pub(super) fn problem(proxy: &Proxy, base: &BaseUrl) -> Option<String> {
    let proxy = proxy_for(proxy, base)?;
    let scheme = proxy.url.split("://").next().unwrap_or_default();
    (!matches!(scheme, "http" | "https")).then(|| {
        format!(
            "{base} would be reached through the proxy {}, and only proxies that speak HTTP can be used: name one in HTTPS_PROXY or \
             server.proxy, or go past it with server.proxy = \"none\" (or NO_PROXY)",
            proxy.url
        )
    })
}

/// Registers the users and passwords of proxies in the environment as secrets, to be masked in all output.
pub(super) fn keep_credentials_out() {
    let lower = VARIABLES.map(str::to_lowercase);
    for name in VARIABLES.into_iter().chain(lower.iter().map(String::as_str)) {
        for secret in std::env::var(name).ok().iter().flat_map(|value| credentials(value)) {
            redact::register_secret(&secret, MASK);
        }
    }
}

/// Returns the secrets of a proxy URL: its password as written and as sent, and user and password together, also in
/// base64 as in a header.
fn credentials(value: &str) -> Vec<String> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((user, _)) = rest[..host].rsplit_once('@') else { return Vec::new() };
    let decoded = percent(user);
    let password = |both: &str| both.split_once(':').map(|(_, password)| password.to_owned());
    let mut all = vec![user.to_owned(), decoded.clone()];
    all.extend(password(user));
    all.extend(password(&decoded));
    // Base64 as it is sent; even a password that is too short to be masked on its own can be masked in this form.
    let sent = if decoded.contains(':') { decoded } else { format!("{decoded}:") };
    all.extend([STANDARD.encode(&sent), STANDARD_NO_PAD.encode(&sent)]);
    all.retain(|secret| !secret.is_empty());
    all.dedup();
    all
}

/// Decodes percent-encoding: `%41` to `A`.
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

    /// Rows: the plan's proxy, the server, and the resulting proxy, with an environment that names both kinds.
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
            let found = proxy_with(&of(proxy).unwrap(), &server.parse().unwrap(), environment);
            assert_eq!(found.as_ref().map(|f| f.url.as_str()), want, "{proxy} {server}");
            assert_eq!(found.is_some_and(|f| f.from_environment), want.is_some() && proxy == "environment");
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
