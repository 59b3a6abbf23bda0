//! Secrets and trust: no key in any output, TLS, proxies, redirects, and the addresses on which servers listen.

mod bind;
mod leak;
mod proxy;
mod redirect;
pub(crate) mod serve;
mod started;
mod tls;
