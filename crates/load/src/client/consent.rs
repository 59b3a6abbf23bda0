//! Consent to load public servers, checked where a connection is made.
//!
//! Consent belongs to the process: whoever has asked the user registers it ([`allow`], [`allow_every`]). Clients that send load connect to no other public
//! address, whatever a name led to when the user was asked.

use super::public::is_public;
use goodput_core::endpoint::BaseUrl;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The servers that may be loaded although they have a public address. Another process of the same user can be given them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    every: bool,
    /// Names and addresses, as [`normal`] writes them.
    hosts: Vec<String>,
}

static ALLOWED: RwLock<Allowed> = RwLock::new(Allowed { every: false, hosts: Vec::new() });

/// Allows load on every public address.
pub fn allow_every() {
    ALLOWED.write().unwrap_or_else(PoisonError::into_inner).every = true;
}

/// Allows load on the host of a URL, whatever addresses it has or gets.
pub fn allow(url: &BaseUrl) {
    if let Some(host) = host(url) {
        ALLOWED.write().unwrap_or_else(PoisonError::into_inner).hosts.push(host);
    }
}

/// Allows load on these servers too.
pub fn allow_also(more: Allowed) {
    let mut allowed = ALLOWED.write().unwrap_or_else(PoisonError::into_inner);
    allowed.every |= more.every;
    allowed.hosts.extend(more.hosts);
}

/// Returns the servers on which load is allowed.
pub fn allowed() -> Allowed {
    ALLOWED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the host of a URL in one form; `None` for a Unix socket.
pub fn host(url: &BaseUrl) -> Option<String> {
    if url.socket().is_some() {
        return None;
    }
    url.join("/").host_str().map(normal)
}

/// Returns a host in lower case, without the brackets of an IPv6 address and the dot at the end of a name.
fn normal(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

impl Allowed {
    fn allows(&self, host: &str) -> bool {
        self.every || self.hosts.iter().any(|known| known == host)
    }
}

/// The error of a connection to a public address that nobody has allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{host} has the public address {address}, and nobody has allowed load on it: add --yes if you may load this server, and its owner knows"
)]
pub struct NotAllowed {
    host: String,
    address: IpAddr,
}

/// Decides to which addresses a client connects. Cheap to clone; clones share the refusals.
#[derive(Clone, Default)]
pub(crate) struct Gate(Option<Arc<Checked>>);

/// A gate that checks addresses.
struct Checked {
    /// Hosts of proxies. Consent is about the server behind them.
    proxies: Vec<String>,
    refused: OnceLock<NotAllowed>,
}

impl Gate {
    /// Makes the gate of a client that sends load through the proxies with these URLs.
    pub(crate) fn of_load<'a>(proxies: impl IntoIterator<Item = &'a str>) -> Self {
        let host = |url: &str| reqwest::Url::parse(url).ok()?.host_str().map(normal);
        let proxies = proxies.into_iter().filter_map(host).collect();
        Self(Some(Arc::new(Checked { proxies, refused: OnceLock::new() })))
    }

    /// Checks the addresses of a host before any of them is connected to.
    ///
    /// # Errors
    /// One of them is public, and nobody has allowed load on the host.
    pub(crate) fn check(
        &self,
        host: &str,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), NotAllowed> {
        self.check_by(&ALLOWED.read().unwrap_or_else(PoisonError::into_inner), host, addresses)
    }

    fn check_by(
        &self,
        allowed: &Allowed,
        host: &str,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), NotAllowed> {
        let Some(checked) = &self.0 else { return Ok(()) };
        let host = normal(host);
        let Some(address) = addresses.into_iter().find(|a| is_public(*a)) else { return Ok(()) };
        if allowed.allows(&host) || checked.proxies.contains(&host) {
            return Ok(());
        }
        let refused = NotAllowed { host, address };
        // Only the first one is reported.
        let _ = checked.refused.set(refused.clone());
        Err(refused)
    }

    /// Returns the first refused connection, if there was one.
    pub(crate) fn refused(&self) -> Option<&NotAllowed> {
        self.0.as_ref()?.refused.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        text.parse().unwrap()
    }

    /// Rows: a host, its addresses, and whether a client that sends load connects to it.
    #[test]
    fn public_addresses_need_consent_whatever_the_name() {
        let allowed = Allowed { every: false, hosts: vec!["api.example.com".into(), "203.0.113.9".into()] };
        let gate = || Gate::of_load(["http://proxy.example.com:3128"]);
        for (host, addresses, connects) in [
            ("vllm", &["10.0.0.1"][..], true),
            ("vllm", &["203.0.113.7"], false), // a single label
            ("gpu.lan", &["203.0.113.7"], false),
            ("llm.internal", &["203.0.113.7"], false),
            ("llm.internal", &["10.0.0.1", "203.0.113.7"], false), // either of them may be connected to
            ("llm.internal", &["2001:4860:4860::8888"], false),
            ("llm.internal", &["fd00::1"], true),
            ("localhost", &["127.0.0.1", "::1"], true),
            ("localhost", &["203.0.113.7"], false),
            ("api.example.com", &["203.0.113.7"], true),
            ("API.Example.com.", &["203.0.113.8"], true), // its other addresses too
            ("example.com", &["203.0.113.7"], false),
            ("203.0.113.9", &["203.0.113.9"], true),
            ("203.0.113.7", &["203.0.113.7"], false),
            ("proxy.example.com", &["203.0.113.7"], true),
        ] {
            let addresses = || addresses.iter().map(|a| a.parse().unwrap());
            let gate = gate();
            let checked = gate.check_by(&allowed, host, addresses());
            assert_eq!((checked.is_ok(), gate.refused().is_none()), (connects, connects), "{host}");
            let every = Allowed { every: true, hosts: vec![] };
            assert!(gate.check_by(&every, host, addresses()).is_ok(), "--yes");
            assert!(Gate::default().check_by(&allowed, host, addresses()).is_ok(), "no load");
        }
    }

    #[test]
    fn a_refusal_names_the_address_and_the_remedy() {
        let gate = Gate::of_load([]);
        let error = gate.check("gpu.lan", [[203, 0, 113, 7].into()]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("gpu.lan") && said.contains("203.0.113.7") && said.contains("--yes"), "{said}");
        gate.check("other.lan", [[203, 0, 113, 8].into()]).unwrap_err();
        assert_eq!(gate.clone().refused(), Some(&error), "the first one");
        allow(&url("http://Allowed.LAN:8000"));
        assert!(gate.check("allowed.lan", [[203, 0, 113, 7].into()]).is_ok());
        assert_eq!(host(&url("unix:/run/vllm.sock")), None);
    }
}
