//! What lies on the way to the server.

use crate::client::config::Server;
use crate::client::way::{any_tls, proxies};
use std::path::Path;

/// Whom is trusted, what the client shows, and which proxies lie on the way, a line each; empty where nothing of it is out of the
/// ordinary.
pub(super) fn way(server: &Server) -> String {
    let tls = &server.tls;
    let shown = |path: &Path| path.display().to_string();
    let mut lines: Vec<String> = Vec::new();
    if let Some(ca) = &tls.ca {
        lines.push(format!("over TLS, trusting {} besides the system's authorities", shown(ca)));
    }
    if let Some(cert) = &tls.client_cert {
        lines.push(format!("over TLS, with the client's certificate in {}", shown(cert)));
    }
    if tls.insecure {
        lines.push("over TLS that NOBODY VERIFIES (tls.insecure): a caveat stands in every report".into());
    }
    if !any_tls(server) && !lines.is_empty() {
        lines = vec!["[server.tls] changes nothing: no URL begins with https://, and no proxy's".into()];
    }
    lines.extend(proxies(server).into_iter().map(|proxy| {
        let of = if proxy.of_environment { ", which the environment names" } else { "" };
        format!("through the proxy {}{of}", proxy.url)
    }));
    lines.into_iter().map(|line| format!("            {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the table, and what is said of it.
    #[test]
    fn what_is_out_of_the_ordinary_is_said() {
        let rows: [(&str, &[&str]); 7] = [
            ("url = \"https://a\"\nproxy = \"none\"", &[]),
            ("simulated = { preset = \"md1\" }", &[]),
            (
                "url = \"https://a\"\nproxy = \"http://p:1\"\ntls = { ca = \"ca.pem\", client-cert = \"me.pem\" }",
                &["trusting ca.pem", "the client's certificate in me.pem", "through the proxy http://p:1"],
            ),
            ("url = \"https://a\"\nproxy = \"none\"\ntls.insecure = true", &["NOBODY VERIFIES"]),
            ("url = \"http://a\"\nproxy = \"none\"\ntls.insecure = true", &["changes nothing"]),
            (
                "url = \"http://a\"\nproxy = \"https://p:1\"\ntls.insecure = true",
                &["NOBODY VERIFIES", "through the proxy https://p:1"],
            ),
            ("url = \"http://127.0.0.1:1\"", &[]),
        ];
        for (table, want) in rows {
            let said = way(&toml::from_str(table).unwrap());
            assert_eq!(said.lines().count(), want.len(), "{table}: {said}");
            for (line, want) in said.lines().zip(want) {
                assert!(line.contains(want), "{table}: {said}");
            }
        }
    }
}
