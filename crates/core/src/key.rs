//! Names of SLO limits: within a tier, a limit of one class of a mix is prefixed with the class.

/// The class name in files for the plan's own limits, and for a workload without classes.
pub const ALL: &str = "all";

/// Returns the name of a class's limit within a tier: `short/ttft.p99` for class `short`, plain `ttft.p99` for [`ALL`].
pub fn limit_key(class: &str, limit: &str) -> String {
    if class == ALL { limit.to_owned() } else { format!("{class}/{limit}") }
}

/// Splits the result of [`limit_key`] into class and limit.
pub fn split_limit_key(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((ALL, key))
}
