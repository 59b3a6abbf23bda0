//! Expressions of PromQL over the metrics of the measured server.

use super::figures::Figures;
use goodput_stats::server::{Latency, Signal};

/// Returns the selector of a metric: its name, with these matchers and the user's.
fn select(f: &Figures<'_>, name: &str, matchers: &[String]) -> String {
    let own = f.selector.iter().cloned();
    let all: Vec<String> = matchers.iter().cloned().chain(own).collect();
    if all.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", all.join(",")) }
}

/// A metric of the server: its selector, and how the samples of one server are combined.
struct Metric {
    selector: String,
    aggregation: &'static str,
}

/// Returns the metric of a signal; `None` if the server does not report it.
fn metric(f: &Figures<'_>, signal: Signal) -> Option<Metric> {
    let (name, query) = (f.exposed.get(signal.name())?, f.engine?.query(signal)?);
    let matcher: Vec<String> = query.matcher.into_iter().collect();
    Some(Metric { selector: select(f, name, &matcher), aggregation: query.aggregation })
}

/// Returns the mean of a gauge per server over a window; of a share its largest value. `None` if the server does not report it.
pub(crate) fn gauge(f: &Figures<'_>, signal: Signal, window: &str) -> Option<String> {
    let Metric { selector, aggregation } = metric(f, signal)?;
    let over = format!("avg_over_time({selector}[{window}])");
    if signal.is_share() {
        return Some(format!("max({over})"));
    }
    Some(format!("avg({aggregation} by (instance) ({over}))"))
}

/// Returns the total of a gauge over all servers now; `None` if the server does not report it.
pub(crate) fn total(f: &Figures<'_>, signal: Signal) -> Option<String> {
    let Metric { selector, aggregation } = metric(f, signal)?;
    if aggregation == "sum" {
        return Some(format!("sum({selector})"));
    }
    Some(format!("sum({aggregation} by (instance) ({selector}))"))
}

/// Returns the requests that all servers finish per second over two minutes; `None` if they do not report it.
pub(crate) fn finished(f: &Figures<'_>) -> Option<String> {
    Some(format!("sum(rate({}[2m]))", metric(f, Signal::Finished)?.selector))
}

/// Returns the requests that a server finishes per second over two minutes, on average over the servers; `None` as for [`finished`].
pub(crate) fn finished_each(f: &Figures<'_>) -> Option<String> {
    Some(format!("avg(sum by (instance) (rate({}[2m])))", metric(f, Signal::Finished)?.selector))
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
