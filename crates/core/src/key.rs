//! Names of limits among those of a tier: those of a class of a mix carry its name.

/// The class of a limit that is the plan's own, and of a workload without classes, in files.
pub const ALL: &str = "all";

/// The name of a limit of a class among those of a tier: `ttft.p99`, or `short/ttft.p99` of the class `short`.
pub fn key(class: &str, limit: &str) -> String {
    if class == ALL { limit.to_owned() } else { format!("{class}/{limit}") }
}

/// The class and the limit that a [`key`] names.
pub fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((ALL, key))
}
