//! TLS settings and proxies between the client and the server.

use crate::client::config::Server;
use crate::client::route::{any_tls, proxies};
use std::path::Path;

/// Returns one line for each TLS setting and each proxy; empty if there are none.
pub(super) fn lines(server: &Server) -> String {
    let tls = &server.tls;
    let shown = |path: &Path| path.display().to_string();
    let mut lines: Vec<String> = Vec::new();
    if let Some(ca) = &tls.ca {
        lines.push(format!("over TLS, trusting {} in addition to the system's authorities", shown(ca)));
    }
    if let Some(cert) = &tls.client_cert {
        lines.push(format!("over TLS, with the client certificate {}", shown(cert)));
    }
    if tls.insecure {
        lines.push("over TLS WITHOUT VERIFICATION (tls.insecure): every report carries a caveat".into());
    }
    if !any_tls(server) && !lines.is_empty() {
        lines = vec!["[server.tls] has no effect: neither a server URL nor a proxy uses https://".into()];
    }
    lines.extend(proxies(server).into_iter().map(|proxy| {
        let origin = if proxy.from_environment { ", set in the environment" } else { "" };
        format!("through the proxy {}{origin}", proxy.url)
    }));
    lines.into_iter().map(|line| format!("            {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_settings_and_proxies_are_listed() {
        let cases: [(&str, &[&str]); 7] = [
            ("url = \"https://a\"\nproxy = \"none\"", &[]),
            ("simulated = { preset = \"md1\" }", &[]),
            (
                "url = \"https://a\"\nproxy = \"http://p:1\"\ntls = { ca = \"ca.pem\", client-cert = \"me.pem\" }",
                &["trusting ca.pem", "the client certificate me.pem", "through the proxy http://p:1"],
            ),
            ("url = \"https://a\"\nproxy = \"none\"\ntls.insecure = true", &["WITHOUT VERIFICATION"]),
            ("url = \"http://a\"\nproxy = \"none\"\ntls.insecure = true", &["has no effect"]),
            (
                "url = \"http://a\"\nproxy = \"https://p:1\"\ntls.insecure = true",
                &["WITHOUT VERIFICATION", "through the proxy https://p:1"],
            ),
            ("url = \"http://127.0.0.1:1\"", &[]),
        ];
        for (table, want) in cases {
            let text = lines(&toml::from_str(table).unwrap());
            assert_eq!(text.lines().count(), want.len(), "{table}: {text}");
            for (line, want) in text.lines().zip(want) {
                assert!(line.contains(want), "{table}: {text}");
            }
        }
    }
}
