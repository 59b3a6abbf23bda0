//! How the server is spoken to.

use super::way::way;
use crate::client::config::{Connections, Http, Server};

/// How the server is spoken to, a line for all that is not as usual; empty for the simulated one in this process.
pub(super) fn spoken(server: &Server) -> String {
    let urls = server.target.urls();
    let over_tls = urls.iter().any(|u| u.to_string().starts_with("https:"));
    let plain = urls.iter().any(|u| !u.to_string().starts_with("https:"));
    let http = match server.http {
        Http::One => None,
        Http::Two if over_tls && plain => {
            Some("HTTP/2, which https:// servers must agree to and others are taken to know")
        }
        Http::Two if over_tls => Some("HTTP/2, which the server must agree to"),
        Http::Two => Some("HTTP/2 without asking (the server is taken to know it)"),
        Http::Auto if over_tls => Some("HTTP/2 where the server agrees to it, else HTTP/1.1"),
        Http::Auto => Some("HTTP/1.1 (HTTP/2 is agreed on over https:// only)"),
    };
    let cold = "a new connection for every request: its handshake counts as latency";
    let several = format!("{} replicas, dealt requests in turn; results pooled and for each", urls.len());
    let lines = [
        (urls.len() > 1).then_some(several),
        http.map(str::to_owned),
        (server.connections == Connections::Cold).then(|| cold.to_owned()),
        urls.iter().any(|u| u.socket().is_some()).then(|| "over a Unix socket of this machine".to_owned()),
    ];
    let known = lines.into_iter().flatten().filter(|_| !urls.is_empty());
    known.map(|line| format!("            {line}\n")).collect::<String>() + &way(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the table, and what is said of it.
    #[test]
    fn what_is_not_as_usual_is_said() {
        let rows: [(&str, &[&str]); 6] = [
            ("url = \"http://a\"", &[]),
            ("simulated = { preset = \"md1\" }\nhttp = \"2\"", &[]),
            (
                "urls = [\"http://a\", \"http://b\"]\nconnections = \"cold\"",
                &["2 replicas, dealt requests in turn", "a new connection for every request"],
            ),
            ("url = \"unix:/run/vllm.sock\"\nhttp = \"2\"", &["HTTP/2 without asking", "over a Unix socket"]),
            ("url = \"https://a\"\nhttp = \"2\"", &["HTTP/2, which the server must agree to"]),
            ("url = \"http://a\"\nhttp = \"auto\"", &["HTTP/1.1 (HTTP/2 is agreed on over https:// only)"]),
        ];
        for (table, want) in rows {
            let said = spoken(&toml::from_str(table).unwrap());
            assert_eq!(said.lines().count(), want.len(), "{table}: {said}");
            for (line, want) in said.lines().zip(want) {
                assert!(line.trim_start().starts_with(want), "{table}: {said}");
            }
        }
    }
}
