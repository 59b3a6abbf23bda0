//! What the server's prefix cache was asked for and what it had: the hit rate between two readings.

use super::prometheus::sum;

/// How an engine counts: the names of both counters, in tokens, and whether the first counts only what the cache did not have.
/// Names: reference on server metrics. A client library may leave `_total` off, and versions of vLLM up to 0.8 have `gpu_` in front.
const COUNTERS: [(&str, &str, bool); 6] = [
    ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", false),
    ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits", false),
    ("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total", false),
    ("vllm:gpu_prefix_cache_queries", "vllm:gpu_prefix_cache_hits", false),
    ("sglang:prompt_tokens_total", "sglang:cached_tokens_total", false),
    ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total", true),
];

/// Requests that were thrown out and computed again: some engines look their prompts up a second time.
const PREEMPTIONS: &str = "vllm:num_preemptions_total";

/// The prefix cache's counters since the server's start, in tokens, summed over its engines.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PrefixCache {
    /// Prompt tokens looked up.
    pub queries: f64,
    /// Those found.
    pub hits: f64,
    /// Requests that were preempted.
    pub preemptions: f64,
}

impl PrefixCache {
    /// Reads the page; `None` where no known engine's counters are on it.
    pub fn read(text: &str) -> Option<Self> {
        COUNTERS.into_iter().find_map(|(queries, hits, apart)| {
            let (queries, hits) = (sum(text, queries)?, sum(text, hits)?);
            let queries = if apart { queries + hits } else { queries };
            Some(Self { queries, hits, preemptions: sum(text, PREEMPTIONS).unwrap_or(0.0) })
        })
    }

    /// Both servers together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            queries: self.queries + other.queries,
            hits: self.hits + other.hits,
            preemptions: self.preemptions + other.preemptions,
        }
    }

    /// What was counted since an earlier reading; `None` where a counter went back, since the server was restarted between.
    pub fn since(self, earlier: Self) -> Option<Self> {
        let gone = Self {
            queries: self.queries - earlier.queries,
            hits: self.hits - earlier.hits,
            preemptions: self.preemptions - earlier.preemptions,
        };
        (gone.queries >= 0.0 && gone.hits >= 0.0 && gone.preemptions >= 0.0).then_some(gone)
    }

    /// Share of the tokens looked up that were found; `None` where none were looked up.
    pub fn hit_rate(self) -> Option<f64> {
        (self.queries > 0.0).then(|| (self.hits / self.queries).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: what is on the page; tokens looked up and found.
    #[test]
    fn every_engine_is_understood() {
        for (text, queries, hits, why) in [
            (include_str!("../../tests/fixtures/metrics/vllm-prefix-cache.txt"), 128_715.0, 96_000.0, "vLLM"),
            (
                "vllm:prefix_cache_queries{engine=\"0\"} 9\nvllm:prefix_cache_hits{engine=\"0\"} 3\n",
                9.0,
                3.0,
                "no _total",
            ),
            (
                "vllm:gpu_prefix_cache_queries_total 8\nvllm:gpu_prefix_cache_hits_total 2\n",
                8.0,
                2.0,
                "an older vLLM",
            ),
            (
                "sglang:prompt_tokens_total{m=\"x\"} 70\nsglang:cached_tokens_total{m=\"x\"} 7\n",
                70.0,
                7.0,
                "SGLang",
            ),
            (
                "llamacpp:prompt_tokens_total 161\nllamacpp:prompt_tokens_cached_total 1591\n",
                1752.0,
                1591.0,
                "llama.cpp",
            ),
        ] {
            let read = PrefixCache::read(text).unwrap_or_else(|| panic!("{why}"));
            assert!((read.queries - queries).abs() + (read.hits - hits).abs() < 1e-9, "{why}: {read:?}");
        }
        for none in [include_str!("../../tests/fixtures/metrics/vllm-idle.txt"), "tgi_queue_size 1\n", ""] {
            assert_eq!(PrefixCache::read(none), None);
        }
    }

    #[test]
    fn a_rate_is_of_what_came_between() {
        let at = |queries, hits| PrefixCache { queries, hits, preemptions: 0.0 };
        let rate = |a: PrefixCache, b: PrefixCache| b.since(a).and_then(PrefixCache::hit_rate);
        assert_eq!(rate(at(100.0, 90.0), at(300.0, 140.0)), Some(0.25));
        assert_eq!(rate(at(100.0, 90.0), at(100.0, 90.0)), None, "nobody asked");
        assert_eq!(rate(at(100.0, 90.0), at(40.0, 0.0)), None, "it was restarted");
        assert_eq!(at(1.0, 2.0).and(at(3.0, 4.0)), at(4.0, 6.0));
    }
}
