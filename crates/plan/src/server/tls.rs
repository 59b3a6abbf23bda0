//! The plan's `[server.tls]` table: whom to trust, and who we are.

use super::key::open_to_others;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How servers over `https://` are trusted, and how this client shows who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    /// A PEM file of authorities that are trusted besides those of the system; one certificate or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A PEM file with the certificate that the client shows, its chain behind it; its key may stand in it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// A PEM file with the key of that certificate, where it stands in one of its own. It is sent to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// `true` verifies no certificate: anyone on the way can read the key and answer in the server's place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

impl Tls {
    /// What is wrong with the table as it is written, if anything.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if self.client_key.is_some() && self.client_cert.is_none() {
            return Some(
                "client-key is of use with its certificate only: write client-cert = \"cert.pem\" beside it",
            );
        }
        (self.insecure && self.ca.is_some())
            .then_some("insecure = true verifies nothing, so that ca changes nothing: leave one of them out")
    }

    /// What may be told to servers that are none of the plan's: whom we trust, not who we are.
    pub(super) fn elsewhere(&self) -> Self {
        Self { ca: self.ca.clone(), ..Self::default() }
    }

    /// The file that holds a private key.
    pub(super) fn key_file(&self) -> Option<&Path> {
        self.client_key.as_deref().or(self.client_cert.as_deref())
    }

    /// The warning that a file with a key of its own can be read by others.
    pub fn warning(&self) -> Option<String> {
        let path = self.key_file()?;
        open_to_others(path).then(|| {
            format!(
                "{} holds the key of the client's certificate, and others on this machine may read it: chmod 600 {0}",
                path.display()
            )
        })
    }
}
