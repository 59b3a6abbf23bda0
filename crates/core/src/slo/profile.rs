//! Built-in SLO profiles: published limits, each with its source.

use super::Slo;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A built-in profile: limits and the source of their numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    /// Purpose, in one sentence.
    pub title: String,
    /// Publication that the numbers come from.
    pub source: String,
    /// Limits of the profile.
    pub limits: Slo,
}

/// Name of a built-in profile; parsing checks that it exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileName(String);

macro_rules! profiles {
    ($($name:literal),+ $(,)?) => {
        /// Profiles of `slo-profiles/` built into the binary: name and TOML text.
        pub const PROFILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../../slo-profiles/", $name, ".toml")))),+];
    };
}
profiles!(
    "batch",
    "chat",
    "code-completion",
    "mlperf-deepseek-r1-interactive",
    "mlperf-deepseek-r1-server",
    "mlperf-llama2-70b-interactive",
    "mlperf-llama2-70b-server",
    "mlperf-llama3.1-405b-interactive",
    "mlperf-llama3.1-405b-server",
    "mlperf-llama3.1-8b-interactive",
    "mlperf-llama3.1-8b-server",
    "rag",
);

/// Returns the names of all built-in profiles.
pub fn profile_names() -> Vec<&'static str> {
    PROFILES.iter().map(|(n, _)| *n).collect()
}

impl ProfileName {
    /// Returns the profile of this name.
    pub fn profile(&self) -> Profile {
        let text = PROFILES.iter().find(|(n, _)| *n == self.0).map(|(_, t)| *t).unwrap_or_default();
        toml::from_str(text).expect("the built-in profiles are checked by a test")
    }
}

impl TryFrom<String> for ProfileName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        if PROFILES.iter().any(|(n, _)| *n == name) {
            Ok(Self(name))
        } else {
            Err(format!(
                "there is no SLO profile \"{name}\"; the profiles are {}",
                profile_names().join(", ")
            ))
        }
    }
}

impl From<ProfileName> for String {
    fn from(n: ProfileName) -> Self {
        n.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_loads_and_names_its_source() {
        for (name, text) in PROFILES {
            let p: Profile = toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                !p.limits.limits().is_empty() && p.source.len() > 20 && p.limits.problem().is_none(),
                "{name}"
            );
            assert!(p.limits.profile.is_none(), "{name}: profiles do not chain");
        }
    }
}
