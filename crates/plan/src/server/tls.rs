//! The plan's `[server.tls]` table: trusted authorities, and the client certificate.

use super::key::open_to_others;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// TLS settings for `https://`: trusted authorities, and the client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    /// PEM file with certificates of authorities to trust, in addition to those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file with the client certificate, followed by its chain; may also contain the private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// PEM file with the private key of the client certificate, if that is in a separate file. The key is never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// Accepts any server certificate: whoever intercepts the connection can read the API key and answer for the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

impl Tls {
    /// Returns the first problem with the table.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if self.client_key.is_some() && self.client_cert.is_none() {
            return Some("client-key needs a certificate: add client-cert = \"cert.pem\"");
        }
        (self.insecure && self.ca.is_some()).then_some(
            "ca has no effect with insecure = true, which verifies no certificate: leave one of them out",
        )
    }

    /// Returns the settings for a server outside the plan: trusted authorities without the client certificate.
    pub(super) fn for_other_host(&self) -> Self {
        Self { ca: self.ca.clone(), ..Self::default() }
    }

    /// Returns the file with the private key.
    pub(super) fn key_file(&self) -> Option<&Path> {
        self.client_key.as_deref().or(self.client_cert.as_deref())
    }

    /// Returns a warning if others can read the file with the private key.
    pub fn warning(&self) -> Option<String> {
        let path = self.key_file()?;
        open_to_others(path).then(|| {
            format!(
                "{} contains the key of the client certificate, and other users of this machine may read it: run chmod 600 {0}",
                path.display()
            )
        })
    }
}
