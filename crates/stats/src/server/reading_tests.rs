use super::*;
use proptest::prelude::*;

const BUSY: &str = include_str!("../../../../tests/fixtures/metrics/vllm-busy.txt");
const IDLE: &str = include_str!("../../../../tests/fixtures/metrics/vllm-idle.txt");
const TWO: &str = include_str!("../../../../tests/fixtures/metrics/vllm-two-engines.txt");
const CACHE: &str = include_str!("../../../../tests/fixtures/metrics/vllm-prefix-cache.txt");
const BEFORE: &str = include_str!("../../../../tests/fixtures/metrics/vllm-preempt-before.txt");
const AFTER: &str = include_str!("../../../../tests/fixtures/metrics/vllm-preempt-after.txt");
const SPECULATIVE: &str = include_str!("../../../../tests/fixtures/metrics/vllm-speculative.txt");
const LLAMACPP: &str = include_str!("../../../../tests/fixtures/metrics/llamacpp.txt");

/// Two data-parallel ranks with two tensor-parallel ranks each, which report the same values.
const SGLANG: &str = r#"
sglang:num_running_reqs{model_name="m",dp_rank="0",tp_rank="0",pp_rank="0"} 3.0
sglang:num_running_reqs{model_name="m",dp_rank="0",tp_rank="1",pp_rank="0"} 3.0
sglang:num_running_reqs{model_name="m",dp_rank="1",tp_rank="0",pp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="m",dp_rank="0",tp_rank="0",pp_rank="0"} 2.0
sglang:token_usage{model_name="m",dp_rank="0",tp_rank="0",pp_rank="0"} 0.28
sglang:token_usage{model_name="m",dp_rank="1",tp_rank="1",pp_rank="0"} 0.61
sglang:cache_hit_rate{model_name="m"} 0.5
sglang:num_retracted_reqs{model_name="m"} 9.0
sglang:num_retracted_requests_total{model_name="m"} 5.0
sglang:prompt_tokens_total{model_name="m"} 70.0
sglang:cached_tokens_total{model_name="m"} 7.0
sglang:generation_tokens_total{model_name="m"} 30.0
sglang:num_requests_total{model_name="m"} 6.0
sglang:queue_time_seconds_sum{model_name="m"} 1.5
sglang:queue_time_seconds_count{model_name="m"} 6.0
sglang:time_to_first_token_seconds_sum{model_name="m"} 2.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 1.0
sglang:time_to_first_token_seconds_bucket{le="1.0",model_name="m"} 6.0
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 6.0
sglang:time_to_first_token_seconds_count{model_name="m"} 6.0
"#;

const TGI: &str = "tgi_batch_current_size 4\ntgi_queue_size 5\ntgi_request_success{method=\"generate\"} 12\n\
    tgi_request_input_length_sum 1200\ntgi_request_input_length_count 12\ntgi_request_generated_tokens_sum 340\n\
    tgi_request_queue_duration_bucket{le=\"0.1\"} 10\ntgi_request_queue_duration_bucket{le=\"+Inf\"} 12\n\
    tgi_request_queue_duration_sum 3.2\ntgi_request_queue_duration_count 12\n\
    tgi_request_duration_sum 24\ntgi_request_duration_count 12\n";

const TRTLLM: &str = "trtllm_kv_cache_utilization{model_name=\"m\"} 0.62\ntrtllm_kv_cache_hit_rate{model_name=\"m\"} 0.1\n\
    trtllm_kv_cache_reused_blocks_total{model_name=\"m\"} 30\ntrtllm_kv_cache_missed_blocks_total{model_name=\"m\"} 90\n\
    trtllm_num_requests_running{model_name=\"m\"} 5\ntrtllm_num_requests_waiting{model_name=\"m\"} 3\n\
    trtllm_request_success_total{finished_reason=\"stop\"} 7\ntrtllm_prompt_tokens_total 128\ntrtllm_generation_tokens_total 50\n\
    trtllm_request_queue_time_seconds_sum 0.3\ntrtllm_request_queue_time_seconds_count 3\n";

const TRTLLM_JSON: &str = r#"[{"numActiveRequests": 99}, {"numActiveRequests": 5, "numQueuedRequests": 3,
    "kvCacheStats": {"cacheHitRate": 0.85, "maxNumBlocks": 1000, "usedNumBlocks": 600}}]"#;

const TRITON: &str = r#"
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 7
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 9
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2
nv_inference_pending_request_count{model="ensemble"} 8
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm"} 1560
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm"} 6240
nv_inference_request_success{model="preprocessing"} 40
nv_inference_request_success{model="tensorrt_llm"} 38
"#;

type Row = (&'static str, &'static str, Engine, [Option<f64>; 10]);

/// Rows: case, page, engine, and the values of the first ten of [`Signal::ALL`]: running, waiting, use of the KV cache, hit rate,
/// preemptions, queries, hits, prompt and output tokens, finished.
const ROWS: [Row; 9] = {
    let n = None;
    [
        (
            "vLLM under load",
            BUSY,
            Engine::Vllm,
            [Some(8.0), Some(34.0), Some(0.0009766817238432424), n, n, n, n, n, n, n],
        ),
        ("vLLM at rest", IDLE, Engine::Vllm, [Some(0.0), Some(0.0), Some(0.0), n, n, n, n, n, n, n]),
        ("its prefix cache", CACHE, Engine::Vllm, [n, n, n, n, n, Some(128_715.0), Some(96_000.0), n, n, n]),
        (
            "SGLang",
            SGLANG,
            Engine::Sglang,
            [
                Some(7.0),
                Some(2.0),
                Some(0.61),
                Some(0.5),
                Some(5.0),
                Some(70.0),
                Some(7.0),
                Some(70.0),
                Some(30.0),
                Some(6.0),
            ],
        ),
        (
            "TGI",
            TGI,
            Engine::Tgi,
            [Some(4.0), Some(5.0), n, n, n, n, n, Some(1200.0), Some(340.0), Some(12.0)],
        ),
        (
            "llama.cpp",
            LLAMACPP,
            Engine::LlamaCpp,
            [Some(0.0), Some(0.0), n, n, n, Some(1752.0), Some(1591.0), Some(1752.0), Some(1972.0), n],
        ),
        (
            "TensorRT-LLM",
            TRTLLM,
            Engine::TensorRtLlm,
            [
                Some(5.0),
                Some(3.0),
                Some(0.62),
                Some(0.1),
                n,
                Some(120.0),
                Some(30.0),
                Some(128.0),
                Some(50.0),
                Some(7.0),
            ],
        ),
        (
            "its JSON",
            TRTLLM_JSON,
            Engine::TensorRtLlm,
            [Some(5.0), Some(3.0), Some(0.6), Some(0.85), n, n, n, n, n, n],
        ),
        ("Triton", TRITON, Engine::Triton, [Some(7.0), Some(2.0), Some(0.25), n, n, n, n, n, n, Some(40.0)]),
    ]
};

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).map_or(a == b, |(a, b)| (a - b).abs() < 1e-9)
}

#[test]
fn every_engine_is_parsed() {
    for (why, page, engine, values) in ROWS {
        let read = Reading::read(page).unwrap_or_else(|| panic!("{why}"));
        assert_eq!(read.engine, engine, "{why}");
        // Recordings of gauges contain a few counters, too.
        let cut = [BUSY, IDLE, CACHE].contains(&page);
        for (signal, want) in Signal::ALL.into_iter().zip(values).filter(|(_, want)| !cut || want.is_some()) {
            assert!(close(read.value(signal), want), "{why}: {signal:?} is {:?}", read.value(signal));
        }
    }
    assert_eq!(Reading::read(SGLANG).unwrap().engines, 2);
    assert_eq!(Reading::read(TWO).unwrap().in_server(), Some(45.0), "vLLM, data parallel");
}

#[test]
fn speculative_decoding_is_counted() {
    let of = |page: &str| {
        let read = Reading::read(page).unwrap();
        [
            Signal::Drafts,
            Signal::DraftTokens,
            Signal::AcceptedTokens,
            Signal::AcceptedLength,
            Signal::AcceptedShare,
        ]
        .map(|signal| read.value(signal))
    };
    assert_eq!(
        of(SPECULATIVE),
        [Some(2_000.0), Some(10_000.0), Some(1_200.0), None, None],
        "not by position"
    );
    let sglang = "sglang:spec_accept_length{dp_rank=\"0\"} 1.55\nsglang:spec_accept_length{dp_rank=\"1\"} 1.5\n\
                  sglang:spec_accept_rate{dp_rank=\"0\"} 0.11\n";
    assert_eq!(of(sglang), [None, None, None, Some(1.55), Some(0.11)]);
    assert_eq!(of(BEFORE), [None; 5], "without drafting");
}

#[test]
fn latencies_are_parsed_as_histograms() {
    let read = Reading::read(AFTER).unwrap();
    for (latency, count, mean) in [
        (Latency::Ttft, 135.0, 299.9682788848877 / 135.0),
        (Latency::Queue, 135.0, 242.3585798100048 / 135.0),
        (Latency::Prefill, 135.0, 39.9563478889977 / 135.0),
        (Latency::Decode, 135.0, 431.25512416399624 / 135.0),
        (Latency::Itl, 9801.0, 431.25512416399624 / 9801.0),
        (Latency::E2e, 135.0, 731.0944309234619 / 135.0),
    ] {
        let h = read.histogram(latency).unwrap();
        assert!((h.count - count).abs() < 1e-9 && close(h.mean(), Some(mean)), "{latency:?}: {h:?}");
        assert!(h.buckets.len() > 5, "{latency:?}");
    }
    let sglang = Reading::read(SGLANG).unwrap();
    assert_eq!(sglang.histogram(Latency::Ttft).and_then(|h| h.quantile(0.5)), Some(0.1 + 0.9 * 0.4));
    assert_eq!(sglang.histogram(Latency::Queue).and_then(Histogram::mean), Some(0.25));
    assert!(sglang.histogram(Latency::E2e).is_none());
    assert_eq!(Reading::read(TGI).unwrap().histogram(Latency::E2e).and_then(Histogram::mean), Some(2.0));
}

/// Rows: a page of an exporter or an older version; preemptions; the hit rate.
#[test]
fn names_of_older_versions_are_understood() {
    for (page, preemptions, hit_rate, why) in [
        ("vllm:num_preemptions 3\n", Some(3.0), None, "no _total"),
        ("ray_vllm_num_preemptions_total{x=\"y\"} 3\n", Some(3.0), None, "by Ray"),
        (
            "vllm:gpu_prefix_cache_queries_total 8\nvllm:gpu_prefix_cache_hits_total 2\n",
            None,
            Some(0.25),
            "vLLM 0.8",
        ),
        (
            "vllm:prefix_cache_queries 9\nvllm:prefix_cache_hits 3\nvllm:gpu_prefix_cache_queries 1\n",
            None,
            Some(1.0 / 3.0),
            "both",
        ),
        ("sglang:cache_hit_rate 0.4\n", None, Some(0.4), "only the share"),
        (
            "vllm:num_preemptions_total NaN\nvllm:num_preemptions_total{engine=\"1\"} 2\n",
            Some(2.0),
            None,
            "no number",
        ),
    ] {
        let read = Reading::read(page).unwrap_or_else(|| panic!("{why}"));
        assert!(close(read.value(Signal::Preemptions), preemptions), "{why}");
        assert!(close(read.hit_rate(), hit_rate), "{why}: {:?}", read.hit_rate());
    }
}

#[test]
fn other_pages_have_no_reading() {
    for page in [
        "",
        "<html><body>vllm:num_requests_running 3</body></html>",
        "# HELP vllm:num_requests_running x\n",
        "process_open_fds 9\nvllm:num_requests_running NaN\n",
        "vllm:num_requests_running -4\nvllm:kv_cache_usage_perc 37\n",
        "nvidia_smi_power_draw_watts 300\n",
        "{\"detail\":\"Not Found\"}",
        "[1, 2]",
        "[[[",
    ] {
        assert_eq!(Reading::read(page), None, "{page}");
    }
    let idle = Reading::read("[]").unwrap();
    assert_eq!(
        (idle.engine, idle.in_server()),
        (Engine::TensorRtLlm, None),
        "nothing since it was last asked"
    );
    assert_eq!(Reading::read("tgi_queue_size 5\n").unwrap().in_server(), Some(5.0), "half of it");
}

#[test]
fn differences_cover_the_time_between_readings() {
    let (before, after) = (Reading::read(BEFORE).unwrap(), Reading::read(AFTER).unwrap());
    let between = after.since(&before).unwrap();
    let (then, now) = (before.value(Signal::Preemptions).unwrap(), after.value(Signal::Preemptions).unwrap());
    assert!(now > then && close(between.value(Signal::Preemptions), Some(now - then)));
    let e2e = between.histogram(Latency::E2e).unwrap();
    assert!(close(Some(e2e.count), between.value(Signal::Finished)), "{e2e:?}");
    assert_eq!(before.since(&after), Err(Restarted), "counters do not go back");
    let other = Reading::read(TGI).unwrap();
    assert_eq!(after.since(&other), Err(Restarted), "another engine");
    let both = between.and(&between);
    assert!(close(both.value(Signal::Finished), between.value(Signal::Finished).map(|n| 2.0 * n)));
    assert_eq!(both.engines, 2);
    assert_eq!(
        between.and(&Reading::read("vllm:num_requests_running 1\n").unwrap()).value(Signal::Finished),
        None
    );
}

/// One such number, single or summed, became a sum that JSON cannot represent.
#[test]
fn implausible_values_are_ignored() {
    for (one, known) in [("1e308", None), ("+Inf", None), ("1e16", None), ("9e14", Some(1.8e15))] {
        let page = format!(
            "vllm:num_requests_running {one}\nvllm:num_requests_waiting {one}\nvllm:kv_cache_usage_perc 0.5\n"
        );
        assert_eq!(Reading::read(&page).unwrap().in_server(), known, "{one}");
    }
    let ranks: String =
        (0..3).map(|i| format!("vllm:num_requests_running{{engine=\"{i}\"}} 9e14\n")).collect();
    let read = Reading::read(&(ranks + "vllm:num_requests_waiting 2\n")).unwrap();
    assert_eq!((read.value(Signal::Running), read.value(Signal::Waiting)), (None, Some(2.0)), "added up");
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let page = "vllm:prompt_tokens_total 1.7e308\nvllm:prompt_tokens_total{engine=\"1\"} 1.7e308\nvllm:num_requests_running 1\n";
    assert_eq!(Reading::read(page).unwrap().value(Signal::PromptTokens), None, "their sum is infinite");
}

proptest! {
    #[test]
    fn no_page_is_fatal(page in "\\PC{0,400}") {
        let _ = Reading::read(&page);
    }

    /// Any text after a known name.
    #[test]
    fn no_line_is_fatal(lines in proptest::collection::vec(("(vllm:num_requests_running|vllm:time_to_first_token_seconds_bucket|sglang:token_usage|nv_)", "[ -~]{0,40}"), 0..20)) {
        let page: String = lines.iter().map(|(name, rest)| format!("{name}{rest}\n")).collect();
        if let Some(read) = Reading::read(&page) {
            let values = Signal::ALL.into_iter().filter_map(|s| read.value(s));
            prop_assert!(values.into_iter().all(|v| v.is_finite() && v >= 0.0));
            prop_assert!(read.since(&read).is_ok());
        }
    }
}
