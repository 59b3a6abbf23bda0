//! Requests that fail whatever the load. A failed request misses every latency limit as well: where failures are at least half of
//! its misses, the limit on errors is the one that binds, as it is for the verdict of a step (`stats/reason.rs`).

use crate::stats::step::Step;
use goodput_core::slo::{limit_key, split_limit_key};

/// Returns the key of the limit on errors of the same requests, if it is one of `limits` and failures are at least half of the misses
/// of `binding` in these steps. Requests that the server refused or the plan's timeout ended do not count: more load explains them.
pub(super) fn to_blame(
    steps: &[&Step],
    tier: &str,
    limits: &[(String, f64)],
    binding: &str,
) -> Option<String> {
    let (class, limit) = split_limit_key(binding);
    let errors = limit_key(class, "error-rate");
    if limit == "stability" || !limits.iter().any(|(key, _)| *key == errors) {
        return None;
    }
    let sum = |of: &dyn Fn(&Step) -> Option<f64>| steps.iter().filter_map(|s| of(s)).sum::<f64>();
    let misses = sum(&|s| s.row(tier, binding).map(|row| row.misses as f64 / row.per_request(s.due_n)));
    let failed = sum(&|s| Some(s.failed_of(class).saturating_sub(s.refused) as f64));
    (failed > 0.0 && failed >= 0.5 * misses).then_some(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::stats::step::LimitRow;

    /// Rows: misses of TTFT, failures, refused ones among them, and whether the limit on errors binds.
    #[test]
    fn errors_bind_where_failures_are_half_of_the_misses() {
        for (misses, failed, refused, binds) in
            [(13, 13, 0, true), (20, 10, 0, true), (21, 10, 0, false), (13, 13, 13, false), (13, 0, 0, false)]
        {
            let mut step = fixture::found()[0].clone();
            let row = step.limits[0].clone();
            step.limits = vec![LimitRow { limit: "ttft.p99".into(), misses, ..row.clone() }];
            (step.failed, step.failed_timeout, step.refused) = (failed, 0, refused);
            let limits = [("ttft.p99".to_owned(), 0.01), ("error-rate".to_owned(), 0.01)];
            let of = |limits: &[(String, f64)], binding| to_blame(&[&step], &row.tier, limits, binding);
            let expected = binds.then(|| "error-rate".to_owned());
            assert_eq!(of(&limits, "ttft.p99"), expected, "{misses} {failed} {refused}");
            assert_eq!(of(&limits[..1], "ttft.p99"), None, "errors have no limit");
            assert_eq!(of(&limits, "stability"), None);
        }
    }
}
