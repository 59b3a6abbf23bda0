//! Facts about the route to the server: caveats for the reader of a report, and warnings about exposed secrets at the
//! start of a sweep.

use super::proxy::{self, ProxyInUse};
use super::tls;
use anyhow::{Result, bail};
use goodput_core::caveat::{Caveat, RouteCaveat};
use goodput_plan::Series;
use goodput_plan::server::Server;

/// Returns the proxies between this machine and the servers, without duplicates.
pub fn proxies(server: &Server) -> Vec<ProxyInUse> {
    let mut all: Vec<ProxyInUse> = Vec::new();
    for proxy in server.target.urls().iter().filter_map(|url| proxy::proxy_for(&server.proxy, url)) {
        if !all.contains(&proxy) {
            all.push(proxy);
        }
    }
    all
}

/// Checks the TLS files and the proxies before the first request.
///
/// # Errors
/// A file of `tls` cannot be used, or a proxy does not speak HTTP.
pub fn check(server: &Server) -> Result<()> {
    tls::check(&server.tls)?;
    let problem = server.target.urls().iter().find_map(|url| proxy::problem(&server.proxy, url));
    problem.map_or(Ok(()), |problem| bail!(problem))
}

/// Returns true if a server, or a proxy before it, is reached over TLS.
pub fn any_tls(server: &Server) -> bool {
    let proxied =
        |url| proxy::proxy_for(&server.proxy, url).is_some_and(|proxy| proxy.url.starts_with("https:"));
    server.target.urls().iter().any(|url| url.is_tls() || proxied(url))
}

/// Returns true if the certificate of a server or of a proxy is not verified.
pub fn unverified(server: &Server) -> bool {
    server.tls.insecure && any_tls(server)
}

/// Returns the caveats about the route, for every report.
pub fn caveats(server: &Server) -> Vec<Caveat> {
    let proxies = proxies(server).into_iter();
    let through =
        proxies.map(|p| Caveat::Route(RouteCaveat::Proxy { url: p.url, of_environment: p.from_environment }));
    unverified(server).then_some(Caveat::Route(RouteCaveat::NotVerified)).into_iter().chain(through).collect()
}

/// Returns the warnings to show before the first request: about the route, and about files with secrets that other
/// users can read.
pub fn warnings(server: &Server) -> Vec<String> {
    let insecure = unverified(server).then(|| {
        "The server's certificate is not verified (server.tls.insecure = true): anyone on the way can read what is sent, the key with it; \
         name the authority of its certificate: server.tls.ca = \"ca.pem\""
            .to_owned()
    });
    let through = proxies(server).into_iter().map(|p| {
        let whence = if p.from_environment { ", which the environment names" } else { "" };
        format!(
            "Requests go through the proxy {}{whence}; server.proxy = \"none\" or NO_PROXY goes past it",
            p.url
        )
    });
    let files = server.key.as_ref().and_then(|key| key.warning()).into_iter().chain(server.tls.warning());
    insecure.into_iter().chain(through).chain(files).collect()
}

/// Returns the warnings for the servers of all these series, without duplicates.
pub fn warnings_of(all: &[Series]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for warning in all.iter().flat_map(|one| warnings(&one.plan.server)) {
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Server {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_on_the_way_is_told_once() {
        let both = server("urls = [\"http://a.test\", \"http://b.test\"]\nproxy = \"http://proxy:3128\"");
        assert_eq!(
            caveats(&both),
            [Caveat::Route(RouteCaveat::Proxy { url: "http://proxy:3128".into(), of_environment: false })]
        );
        let insecure = "tls.insecure = true\nproxy = \"none\"";
        assert_eq!(
            caveats(&server(&format!("url = \"https://a\"\n{insecure}"))),
            [Caveat::Route(RouteCaveat::NotVerified)]
        );
        assert_eq!(caveats(&server(&format!("url = \"http://a\"\n{insecure}"))), [], "nothing to verify");
        let proxied = server("url = \"http://a\"\ntls.insecure = true\nproxy = \"https://p:1\"");
        let through = Caveat::Route(RouteCaveat::Proxy { url: "https://p:1".into(), of_environment: false });
        assert_eq!(
            caveats(&proxied),
            [Caveat::Route(RouteCaveat::NotVerified), through],
            "the proxy is not verified"
        );
        let said = warnings(&server("url = \"https://a\"\ntls.insecure = true\nproxy = \"none\""));
        assert!(
            said.len() == 1 && said[0].contains("not verified") && said[0].contains("tls.ca"),
            "{said:?}"
        );
    }

    #[test]
    fn others_are_told_whom_we_trust_and_not_who_we_are() {
        let own = server(
            "url = \"https://a\"\napi-key-env = \"KEY\"\nheaders = { x-team = \"t\" }\nproxy = \"http://proxy:1\"\n\
             tls = { ca = \"ca.pem\", client-cert = \"me.pem\" }",
        );
        let other = own.for_other_host("https://b".parse().unwrap());
        assert_eq!((other.tls.ca.clone(), other.tls.client_cert.clone()), (Some("ca.pem".into()), None));
        assert!(other.key.is_none() && other.headers.is_empty() && other.proxy == own.proxy);
        let insecure = server("url = \"https://a\"\ntls.insecure = true");
        assert!(!insecure.for_other_host("https://b".parse().unwrap()).tls.insecure);
    }

    #[test]
    fn files_with_keys_that_others_may_read_are_named() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        for (mode, warned) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            for table in [
                format!("url = \"http://127.0.0.1:1\"\napi-key-file = {path:?}"),
                format!("url = \"http://127.0.0.1:1\"\ntls.client-cert = {path:?}"),
            ] {
                let said = warnings(&server(&table));
                assert_eq!(said.len(), usize::from(warned), "{mode:o}: {said:?}");
                assert!(said.iter().all(|s| s.contains(&path) && s.contains("chmod 600")), "{said:?}");
            }
        }
    }
}
