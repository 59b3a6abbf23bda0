//! How requests travel: HTTP version, connections, replicas, TLS and proxy.

use super::network;
use crate::client::config::{Connections, Http, Server};

/// Returns one line for each transport setting that differs from the default; none for the in-process simulated server.
pub(super) fn lines(server: &Server) -> String {
    let urls = server.target.urls();
    let over_tls = urls.iter().any(|u| u.to_string().starts_with("https:"));
    let plain = urls.iter().any(|u| !u.to_string().starts_with("https:"));
    let http = match server.http {
        Http::One => None,
        Http::Two if over_tls && plain => {
            Some("HTTP/2; https:// servers must agree to it, http:// servers are assumed to support it")
        }
        Http::Two if over_tls => Some("HTTP/2; the server must agree to it"),
        Http::Two => Some("HTTP/2 with prior knowledge (the server is assumed to support it)"),
        Http::Auto if over_tls => Some("HTTP/2 if the server agrees to it, else HTTP/1.1"),
        Http::Auto => Some("HTTP/1.1 (HTTP/2 is negotiated only over https://)"),
    };
    let cold = "a new connection per request; the handshake counts as latency";
    let replicas =
        format!("{} replicas, requests distributed round-robin; results pooled and per replica", urls.len());
    let lines = [
        (urls.len() > 1).then_some(replicas),
        http.map(str::to_owned),
        (server.connections == Connections::Cold).then(|| cold.to_owned()),
        urls.iter().any(|u| u.socket().is_some()).then(|| "over a Unix socket of this machine".to_owned()),
    ];
    let shown = lines.into_iter().flatten().filter(|_| !urls.is_empty());
    shown.map(|line| format!("            {line}\n")).collect::<String>() + &network::lines(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_differ_from_the_default_are_listed() {
        let cases: [(&str, &[&str]); 6] = [
            ("url = \"http://a\"", &[]),
            ("simulated = { preset = \"md1\" }\nhttp = \"2\"", &[]),
            (
                "urls = [\"http://a\", \"http://b\"]\nconnections = \"cold\"",
                &["2 replicas, requests distributed round-robin", "a new connection per request"],
            ),
            (
                "url = \"unix:/run/vllm.sock\"\nhttp = \"2\"",
                &["HTTP/2 with prior knowledge", "over a Unix socket"],
            ),
            ("url = \"https://a\"\nhttp = \"2\"", &["HTTP/2; the server must agree to it"]),
            ("url = \"http://a\"\nhttp = \"auto\"", &["HTTP/1.1 (HTTP/2 is negotiated only over https://)"]),
        ];
        for (table, want) in cases {
            let text = lines(&toml::from_str(table).unwrap());
            assert_eq!(text.lines().count(), want.len(), "{table}: {text}");
            for (line, want) in text.lines().zip(want) {
                assert!(line.trim_start().starts_with(want), "{table}: {text}");
            }
        }
    }
}
