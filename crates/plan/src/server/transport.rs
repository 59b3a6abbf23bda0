//! How prompts and connections are made.

use serde::{Deserialize, Serialize};

/// Form in which prompts are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromptForm {
    /// As text, which the server tokenises.
    #[default]
    Text,
    /// As token ids, so that prompts have exactly the planned length.
    TokenIds,
}

/// HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Http {
    /// HTTP/1.1, with one keep-alive connection per request in flight.
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2, with one connection per sending thread and one stream per request in flight. Uses prior knowledge over `http://` and
    /// ALPN over `https://`. Requests beyond the number of streams that the server allows per connection (often 100 to 250) wait in the
    /// client and count as late: use more threads then (`client.threads`), or HTTP/1.1.
    #[serde(rename = "2")]
    Two,
    /// HTTP/2 over `https://` if the server agrees (ALPN), else HTTP/1.1.
    #[serde(rename = "auto")]
    Auto,
}

/// Reuse of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Connections are opened before a step and reused, so no handshake counts towards TTFT.
    #[default]
    Warm,
    /// Every request opens a connection and its handshake counts towards TTFT, as for users without keep-alive.
    Cold,
}
