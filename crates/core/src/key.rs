//! Names of SLO limits: within a tier, a limit of one class of a mix is prefixed with the class.

use crate::units::Percentile;

/// The class name in files for the plan's own limits, and for a workload without classes.
pub const ALL: &str = "all";

/// Returns the name of a class's limit within a tier: `short/ttft.p99` for class `short`, plain `ttft.p99` for [`ALL`].
pub fn limit_key(class: &str, limit: &str) -> String {
    if class == ALL { limit.to_owned() } else { format!("{class}/{limit}") }
}

/// Returns the percentile of a latency limit by its name or its [`limit_key`]: p99 for `ttft.p99`; `None` for other limits.
pub fn limit_percentile(limit: &str) -> Option<Percentile> {
    split_limit_key(limit).1.split_once('.')?.1.parse().ok()
}

/// Splits the result of [`limit_key`] into class and limit.
pub fn split_limit_key(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((ALL, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_limits_have_a_percentile() {
        for (limit, share) in [
            ("ttft.p99", Some(0.01)),
            ("short/tpot.p90", Some(0.1)),
            ("e2e.p99.9", Some(0.001)),
            ("error-rate", None),
            ("stability", None),
            ("joint", None),
        ] {
            assert_eq!(limit_percentile(limit).map(Percentile::miss_share), share, "{limit}");
        }
    }
}
