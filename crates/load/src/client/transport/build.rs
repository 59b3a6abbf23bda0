//! Sets up the HTTP clients of a plan's servers.

use super::connections::{Unused, Watch};
use super::{IDLE, USER_AGENT};
use crate::client::dns::InTurn;
use crate::client::proxy::apply;
use crate::client::route::any_tls;
use crate::client::tls::Loaded;
use anyhow::Context as _;
use goodput_core::endpoint::BaseUrl;
use goodput_plan::server::{Http, Server};
use std::collections::HashMap;
use std::sync::Once;

/// The pool of idle connections of a client.
pub(super) enum Pool {
    /// None: every request opens a connection.
    Off,
    /// One that records which of its connections are new.
    Watched(Unused),
}

/// Makes a client of the HTTP library for each of some URLs, without opening a connection. TCP URLs on this machine share one client, and all other TCP URLs another.
///
/// # Errors
/// TLS cannot be set up, or a proxy cannot be used.
pub(super) fn clients(
    server: &Server,
    urls: &[&BaseUrl],
    names: &InTurn,
    tls: &Loaded,
    pool: &Pool,
) -> anyhow::Result<Vec<reqwest::Client>> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that the enclosing program has installed a provider already, which also works.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    // URLs on this machine need a separate client, which bypasses the proxies of the environment.
    let mut over_tcp: HashMap<bool, reqwest::Client> = HashMap::new();
    let mut clients = Vec::new();
    for url in urls {
        let here = url.is_loopback();
        let known = over_tcp.get(&here).filter(|_| url.socket().is_none());
        let client = match known {
            Some(client) => client.clone(),
            None => builder(server, url, names, tls, pool)
                .and_then(reqwest::ClientBuilder::build)
                .context("failed to set up the HTTP client")?,
        };
        if url.socket().is_none() {
            over_tcp.insert(here, client.clone());
        }
        clients.push(client);
    }
    Ok(clients)
}

fn builder(
    server: &Server,
    url: &BaseUrl,
    names: &InTurn,
    tls: &Loaded,
    pool: &Pool,
) -> reqwest::Result<reqwest::ClientBuilder> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(server.connect_timeout.0)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(USER_AGENT)
        .dns_resolver(names.clone());
    builder = match pool {
        Pool::Off => builder.pool_max_idle_per_host(0),
        Pool::Watched(unused) => builder.connector_layer(Watch(unused.clone())),
    };
    builder = match server.http {
        Http::One => builder.http1_only(),
        Http::Two => builder.http2_prior_knowledge(),
        Http::Auto => builder,
    };
    builder = trusting(builder, server, tls);
    if let Some(path) = url.socket() {
        builder = builder.unix_socket(path);
    }
    apply(&server.proxy, builder, url.is_loopback())
}

/// Sets the trusted certificates and the client's certificate.
fn trusting(builder: reqwest::ClientBuilder, server: &Server, tls: &Loaded) -> reqwest::ClientBuilder {
    if !any_tls(server) {
        // Plain HTTP must work on a machine without any root certificates, such as a bare container.
        return builder.tls_certs_only([]);
    }
    let builder = if server.tls.insecure {
        builder.tls_danger_accept_invalid_certs(true)
    } else {
        builder.tls_certs_merge(tls.roots.iter().cloned())
    };
    match &tls.identity {
        Some(identity) => builder.identity(identity.clone()),
        None => builder,
    }
}
