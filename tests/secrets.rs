//! Secrets and trust: no key in any output, TLS, proxies, redirects, and the addresses on which servers listen.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]

mod common;

#[path = "secrets/bind.rs"]
mod bind;
#[path = "secrets/leak.rs"]
mod leak;
#[path = "secrets/proxy.rs"]
mod proxy;
#[path = "secrets/redirect.rs"]
mod redirect;
#[path = "secrets/serve.rs"]
mod serve;
#[path = "secrets/started.rs"]
mod started;
#[path = "secrets/tls.rs"]
mod tls;
