//! The plan's `[client]` table: how many threads send, and how much delay of its own the client may have.

use goodput_core::units::Fraction;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// What the client may use, and from where on its own delay puts a verdict in doubt.
///
/// Beyond a share of these a verdict is tried without the client's delay: one that would flip is *invalid*, one that would not stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct OwnLimits {
    /// Largest p99 of sent − due, as a share of the tightest limit that counts from `due`.
    pub max_lateness: Fraction,
    /// Largest p99 of socket readable → stamp, as a share of the tightest limit that it touches.
    pub max_receive_lag: Fraction,
    /// Largest share of the measured window in which a sending thread wanted to run and had no core.
    pub max_starved: Fraction,
    /// How many threads send requests and receive answers; chosen by the machine's cores where the plan does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZeroU32>,
}

impl Default for OwnLimits {
    fn default() -> Self {
        let share = |x: f64| Fraction::try_from(x).expect("it is a share");
        Self {
            max_lateness: share(0.05),
            max_receive_lag: share(0.05),
            max_starved: share(0.1),
            threads: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_left_out_has_its_default() {
        let own: OwnLimits = toml::from_str("max-starved = 0.25\nthreads = 2").unwrap();
        let want = OwnLimits {
            max_starved: Fraction::try_from(0.25).unwrap(),
            threads: NonZeroU32::new(2),
            ..OwnLimits::default()
        };
        assert_eq!(own, want);
        assert!(
            (own.max_lateness.get() - 0.05).abs() < 1e-12 && (own.max_receive_lag.get() - 0.05).abs() < 1e-12
        );
        let again: OwnLimits = toml::from_str(&toml::to_string(&own).unwrap()).unwrap();
        assert_eq!(again, own, "as it is written into the run folder");
    }

    /// Row: what is written, and what the message must say beside its line.
    #[test]
    fn mistakes_are_errors_with_their_place() {
        for (text, say) in [
            ("max-lateness = 1.5", "a share must lie between 0 and 1, got 1.5"),
            ("max-receive-lag = -0.1", "a share must lie between 0 and 1, got -0.1"),
            ("max-starved = \"10 %\"", "invalid type: string"), // a number, without a sign
            ("threads = 0", "expected a nonzero u32"),
            ("threads = 2.5", "expected a nonzero u32"),
            ("max-lateness-ms = 5", "unknown field `max-lateness-ms`"),
        ] {
            let e = toml::from_str::<OwnLimits>(text).unwrap_err().to_string();
            assert!(e.contains(say) && e.contains("line 1"), "{text}: {e}");
        }
    }
}
