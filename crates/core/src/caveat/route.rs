//! Caveats on the network route between client and server.

use super::Scope;
use serde::{Deserialize, Serialize};

/// A caveat on the network route to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteCaveat {
    /// No certificate was verified.
    NotVerified,
    /// Requests go through a proxy.
    Proxy {
        /// Its address, without user and password.
        url: String,
        /// The environment names it; else the plan does.
        of_environment: bool,
    },
}

impl RouteCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::NotVerified | Self::Proxy { .. } => Scope::RUN,
        }
    }
}
