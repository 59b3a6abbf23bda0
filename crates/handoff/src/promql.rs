//! Expressions of PromQL over the metrics of the measured server.

use super::figures::Figures;
use goodput_stats::server::{Latency, Signal};

/// Returns the selector of a metric: its name, with these matchers and the user's.
pub(crate) fn select(f: &Figures<'_>, name: &str, matchers: &[String]) -> String {
    let own = f.selector.iter().cloned();
    let all: Vec<String> = matchers.iter().cloned().chain(own).collect();
    if all.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", all.join(",")) }
}

/// Returns the mean of a gauge per server over a window; of a share its largest value. `None` if the server does not report it.
pub(crate) fn gauge(f: &Figures<'_>, signal: Signal, window: &str) -> Option<String> {
    let (name, query) = (f.exposed.get(signal.name())?, f.engine?.query(signal)?);
    let matcher: Vec<String> = query.matcher.into_iter().collect();
    let over = format!("avg_over_time({}[{window}])", select(f, name, &matcher));
    if signal.is_share() {
        return Some(format!("max({over})"));
    }
    Some(format!("avg({} by (instance) ({over}))", query.aggregation))
}

/// Returns the total of a gauge over all servers now; `None` if the server does not report it.
pub(crate) fn total(f: &Figures<'_>, signal: Signal) -> Option<String> {
    let (name, query) = (f.exposed.get(signal.name())?, f.engine?.query(signal)?);
    let matcher: Vec<String> = query.matcher.into_iter().collect();
    let now = select(f, name, &matcher);
    if query.aggregation == "sum" {
        return Some(format!("sum({now})"));
    }
    Some(format!("sum({} by (instance) ({now}))", query.aggregation))
}

/// Returns the requests that all servers finish per second; `None` if they do not report it.
pub(crate) fn finished(f: &Figures<'_>, window: &str) -> Option<String> {
    let (name, query) = (f.exposed.get(Signal::Finished.name())?, f.engine?.query(Signal::Finished)?);
    let matcher: Vec<String> = query.matcher.into_iter().collect();
    Some(format!("sum(rate({}[{window}]))", select(f, name, &matcher)))
}

/// Returns the share of observations of a histogram above one of its bounds; NaN without any.
pub(crate) fn share_above(f: &Figures<'_>, name: &str, bound_s: f64, window: &str) -> String {
    let bucket = select(f, &format!("{name}_bucket"), &[bound_matcher(bound_s)]);
    let count = select(f, &format!("{name}_count"), &[]);
    format!("1 - sum(rate({bucket}[{window}])) / sum(rate({count}[{window}]))")
}

/// Returns a quantile of a histogram in seconds; `None` if the server does not report it.
pub(crate) fn quantile(f: &Figures<'_>, latency: Latency, share: f64) -> Option<String> {
    let name = f.exposed.get(latency.name())?;
    let bucket = select(f, &format!("{name}_bucket"), &[]);
    Some(format!("histogram_quantile({share}, sum by (le) (rate({bucket}[5m])))"))
}

/// Returns the matcher of a bucket. A whole bound is written `1`, `1.0` or both, by the version of the server and of Prometheus.
fn bound_matcher(bound_s: f64) -> String {
    if bound_s.fract() == 0.0 {
        return format!("le=~\"{bound_s:.0}|{bound_s:.1}\"");
    }
    format!("le=\"{bound_s}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_bounds_match_as_any_version_writes_them() {
        assert_eq!(bound_matcher(0.08), "le=\"0.08\"");
        assert_eq!(bound_matcher(2.0), "le=~\"2|2.0\"");
    }
}
