//! The names under which a page exposes what is read of it, for programs that read the same page later: Prometheus.

use super::engine::{Aggregation, Engine, Signal, Source, SourceKind};
use super::latency::Latency;
use super::prometheus::samples;
use std::collections::BTreeMap;

/// Instructions to read a signal of one server with PromQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromQuery {
    /// Aggregation over the samples of one server: `sum` or `max`.
    pub aggregation: &'static str,
    /// Matcher that the samples need besides the name, such as `finished_reason!="abort"`.
    pub matcher: Option<String>,
}

/// Returns the names of the metrics on a page by goodput's names of them (`running`, `ttft`), histograms without `_bucket`;
/// nothing for a page of an unknown engine, or one that is not in Prometheus' format.
pub fn exposed_names(page: &str) -> BTreeMap<String, String> {
    let mut found: [BTreeMap<String, (usize, String)>; Engine::ALL.len()] = Default::default();
    for sample in samples(page) {
        let Some((engine, name)) = Engine::of_name(sample.name) else { continue };
        for source in engine.sources() {
            let (Some(key), Some(base)) = (key(source), base(source, name)) else { continue };
            let Some(rank) = source.rank(base, sample.labels) else { continue };
            let exposed = match source.what {
                SourceKind::Histogram(_) => sample.name.trim_end_matches("_bucket"),
                _ => sample.name,
            };
            let best = found[engine as usize].entry(key.to_owned()).or_insert((usize::MAX, String::new()));
            if rank < best.0 {
                *best = (rank, exposed.to_owned());
            }
        }
    }
    let first = found.into_iter().find(|names| !names.is_empty()).unwrap_or_default();
    first.into_iter().map(|(key, (_, name))| (key, name)).collect()
}

impl Engine {
    /// Returns how to read a signal of this engine; `None` if it does not report it as one metric.
    pub fn query(self, signal: Signal) -> Option<PromQuery> {
        let source = self.sources().iter().find(|s| s.what == SourceKind::Value(signal))?;
        let matcher = source
            .only
            .map(|(key, value)| format!("{key}=\"{value}\""))
            .or_else(|| source.except.map(|(key, value)| format!("{key}!=\"{value}\"")));
        let aggregation = match source.how {
            Aggregation::Sum => "sum",
            Aggregation::Max => "max",
        };
        Some(PromQuery { aggregation, matcher })
    }
}

/// Returns goodput's name of what a source tells; `None` for a part of a signal.
const fn key(source: &Source) -> Option<&'static str> {
    match source.what {
        SourceKind::Value(signal) => Some(signal.name()),
        SourceKind::Histogram(latency) => Some(Latency::name(latency)),
        SourceKind::Used | SourceKind::All | SourceKind::Missed => None,
    }
}

/// Returns the name of the metric that a sample belongs to: of a histogram only its buckets count.
fn base<'a>(source: &Source, name: &'a str) -> Option<&'a str> {
    match source.what {
        SourceKind::Histogram(_) => name.strip_suffix("_bucket"),
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: a recorded page, and some of the names on it.
    #[test]
    fn names_are_those_on_the_page() {
        let vllm = include_str!("../../../../tests/fixtures/metrics/vllm-preempt-after.txt");
        let llama = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n";
        let ray = "ray_vllm_num_requests_running 1\nray_vllm_gpu_cache_usage_perc 0.1\n";
        for (page, key, name) in [
            (vllm, "running", Some("vllm:num_requests_running")),
            (vllm, "ttft", Some("vllm:time_to_first_token_seconds")),
            (vllm, "tpot", Some("vllm:request_time_per_output_token_seconds")),
            (vllm, "finished", Some("vllm:request_success_total")),
            (vllm, "hit_rate", None),
            (llama, "waiting", Some("llamacpp:requests_deferred")),
            (llama, "ttft", None),
            (ray, "kv_use", Some("ray_vllm_gpu_cache_usage_perc")),
            ("node_load1 3\n", "running", None),
        ] {
            assert_eq!(exposed_names(page).get(key).map(String::as_str), name, "{key}");
        }
    }

    #[test]
    fn a_query_has_the_labels_that_count() {
        let of = |engine: Engine, signal| {
            engine.query(signal).map(|q| (q.aggregation, q.matcher.unwrap_or_default()))
        };
        assert_eq!(of(Engine::Vllm, Signal::Finished), Some(("sum", "finished_reason!=\"abort\"".into())));
        assert_eq!(of(Engine::Vllm, Signal::KvUse), Some(("max", String::new())));
        assert_eq!(of(Engine::Triton, Signal::Running), Some(("max", "request_type=\"scheduled\"".into())));
        assert_eq!(of(Engine::Tgi, Signal::KvUse), None);
    }
}
