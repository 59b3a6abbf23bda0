//! Limits and their names, for people.

use super::units::{list, value_of};
use goodput_core::slo::{ALL, Limit, LimitGroup, Metric, Slo, split_limit_key};
use goodput_core::units::{ms, short};
use goodput_stats::stats::summary::ERRORS;

/// Formats a limit for people: `p99 TTFT ≤ 200 ms`.
pub(crate) fn limit(l: &Limit) -> String {
    format!("{} {} ≤ {}", l.percentile, l.metric.title(), value_of(l.metric, ms(l.limit)))
}

/// Formats every limit of a tier: `p99 TTFT ≤ 200 ms, p99 TPOT ≤ 50 ms and at most 1 % errors`; if classes have
/// separate limits, `p99 TTFT ≤ 200 ms for short and p99 TTFT ≤ 5 s for all other classes`.
pub(crate) fn slo(slo: &Slo) -> String {
    let of_part = |part: LimitGroup<'_>| {
        let mut limits: Vec<String> = part.slo.limits().iter().map(limit).collect();
        let errors = part.slo.error_rate;
        limits.extend(errors.map(|e| format!("at most {} % errors", short(e.get() * 100.0))));
        let whose = match part.class() {
            _ if part.judges_all() => String::new(),
            ALL => " for classes without limits of their own".into(),
            class => format!(" for {class}"),
        };
        format!("{}{whose}", list(&limits))
    };
    let parts: Vec<String> = slo.limit_groups().into_iter().map(of_part).collect();
    parts.join("; ")
}

/// Formats the name of a limit for people: `ttft.p99` becomes `p99 TTFT`, `short/ttft.p99` becomes `p99 TTFT of class
/// short`.
pub(crate) fn binding(key: &str) -> String {
    of_class(key)
        .map_or_else(|| limit_name(key), |(class, limit)| format!("{} of class {class}", limit_name(limit)))
}

/// Formats the name of a limit for narrow places: `p99 TTFT (short)`.
pub(crate) fn binding_in_short(key: &str) -> String {
    of_class(key).map_or_else(|| limit_name(key), |(class, limit)| format!("{} ({class})", limit_name(limit)))
}

/// Formats the limit that binds for narrow places, as what is seen of it: `p99 TTFT`, `backlog grows`.
pub(crate) fn limit_that_binds(key: &str) -> String {
    match key {
        "stability" => "backlog grows".into(),
        ERRORS => "requests fail".into(),
        other => binding_in_short(other),
    }
}

/// Splits a key that names a class into class and limit; `None` for other keys, such as `req/s`.
fn of_class(key: &str) -> Option<(&str, &str)> {
    let (class, limit) = split_limit_key(key);
    let is_limit = Metric::of_limit(limit).is_some() || limit == "error-rate";
    (class != ALL && is_limit).then_some((class, limit))
}

fn limit_name(name: &str) -> String {
    match name.split_once('.').map(|(m, p)| (Metric::from_name(m), p)) {
        Some((Some(metric), p)) => format!("{p} {}", metric.title()),
        _ => match name {
            "error-rate" => "error rate".into(),
            "joint" => "joint attainment".into(),
            ERRORS => "failed requests".into(),
            other => other.into(),
        },
    }
}
