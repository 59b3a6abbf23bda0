//! The plan's `[client]` table: sending threads, retries, and limits on the client's own delay.

use goodput_core::units::Fraction;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Number of sending threads, retries, and limits on the client's own delay.
///
/// If a step exceeds a limit, its verdict is recomputed without the client's delay: if it changes, the step is *invalid*, else the verdict stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClientLimits {
    /// Maximum p99 of lateness (sent − due), as a share of the tightest limit measured from `due`.
    pub max_lateness: Fraction,
    /// Maximum p99 of the time from a readable socket to the timestamp, as a share of the tightest limit it affects.
    pub max_receive_lag: Fraction,
    /// Maximum share of the measured window in which a sending thread waits for a CPU core.
    pub max_starved: Fraction,
    /// Number of threads that send requests and receive answers; by default one per core, at most 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZeroU32>,
    /// Number of times that a request is sent again, on a new connection, if its connection breaks before the first byte of the answer: 0 (the default) or 1.
    /// Its latency counts from the first attempt.
    #[serde(skip_serializing_if = "Retries::is_none")]
    pub retries: Retries,
}

/// The number of times that a request is sent again after its connection broke.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
pub enum Retries {
    /// Never: a connection that breaks is a failed request.
    #[default]
    None,
    /// Once.
    One,
}

impl Retries {
    /// Returns true if no request is sent again.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl TryFrom<u8> for Retries {
    type Error = String;

    fn try_from(n: u8) -> Result<Self, String> {
        match n {
            0 => Ok(Self::None),
            1 => Ok(Self::One),
            n => Err(format!("the number of retries must be 0 or 1, got {n}")),
        }
    }
}

impl From<Retries> for u8 {
    fn from(retries: Retries) -> Self {
        match retries {
            Retries::None => 0,
            Retries::One => 1,
        }
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        let share = |x: f64| Fraction::try_from(x).expect("it is a share");
        Self {
            max_lateness: share(0.05),
            max_receive_lag: share(0.05),
            max_starved: share(0.1),
            threads: None,
            retries: Retries::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_have_defaults() {
        let limits: ClientLimits = toml::from_str("max-starved = 0.25\nthreads = 2\nretries = 1").unwrap();
        let want = ClientLimits {
            max_starved: Fraction::try_from(0.25).unwrap(),
            threads: NonZeroU32::new(2),
            retries: Retries::One,
            ..ClientLimits::default()
        };
        assert_eq!(limits, want);
        assert!((limits.max_lateness.get() - 0.05).abs() < 1e-12);
        assert!((limits.max_receive_lag.get() - 0.05).abs() < 1e-12);
        let again: ClientLimits = toml::from_str(&toml::to_string(&limits).unwrap()).unwrap();
        assert_eq!(again, limits, "it reads back from the run folder");
        let written = toml::to_string(&ClientLimits::default()).unwrap();
        assert!(!written.contains("retries"), "folders of earlier versions have the same plan: {written}");
    }

    /// Cases: a line of the table, and a part of the error message.
    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("max-lateness = 1.5", "a share must lie between 0 and 1, got 1.5"),
            ("max-receive-lag = -0.1", "a share must lie between 0 and 1, got -0.1"),
            ("max-starved = \"10 %\"", "invalid type: string"),
            ("threads = 0", "expected a nonzero u32"),
            ("threads = 2.5", "expected a nonzero u32"),
            ("retries = 2", "the number of retries must be 0 or 1, got 2"),
            ("max-lateness-ms = 5", "unknown field `max-lateness-ms`"),
        ] {
            let e = toml::from_str::<ClientLimits>(text).unwrap_err().to_string();
            assert!(e.contains(message) && e.contains("line 1"), "{text}: {e}");
        }
    }
}
