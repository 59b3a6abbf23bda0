//! Named servers: those on which advice was first tried and found wrong, and one for each cause.

use crate::case::{Case, Workload};

const A40: &str = "a40-qwen3-0.6b";
const LLAMA: &str = "4xa100-llama-70b";

fn a40(name: &str, workload: Workload) -> Case {
    Case::new(name, A40, workload)
}

/// Returns the named servers.
pub(crate) fn named() -> Vec<Case> {
    let chat = Workload::fixed(600.0, 30.0);
    let long_answers = Workload::fixed(300.0, 150.0);
    let rag = Workload::fixed(3000.0, 60.0).spread(0.5);
    vec![
        a40("seats-4-ttft", chat).set("max-num-seqs", 4).limit("ttft.p99", 80.0),
        a40("seats-8-both", chat).set("max-num-seqs", 8).limit("ttft.p99", 80.0).limit("tpot.p99", 20.0),
        a40("seats-16-both", long_answers)
            .set("max-num-seqs", 16)
            .limit("ttft.p99", 150.0)
            .limit("tpot.p99", 20.0),
        a40("seats-16-e2e", long_answers).set("max-num-seqs", 16).limit("e2e.p99", 2500.0),
        a40("kv-full", chat.spread(0.4)).set("kv-blocks", 700).limit("ttft.p99", 150.0),
        a40("kv-preempts", Workload::fixed(400.0, 300.0).spread(0.5))
            .set("kv-blocks", 1200)
            .limit("ttft.p99", 400.0)
            .limit("tpot.p99", 30.0),
        a40("kv-few-seqs", rag).set("kv-blocks", 1800).limit("ttft.p99", 800.0),
        a40("long-mixed-tpot", Workload { long: Some((0.05, 12_000)), ..Workload::fixed(300.0, 60.0) })
            .set("max-num-batched-tokens", 8192)
            .limit("tpot.p99", 15.0)
            .limit("ttft.p99", 2000.0),
        a40("seats-128-tpot", long_answers).set("max-num-seqs", 128).limit("tpot.p99", 8.0),
        a40("seats-256-tpot-12", long_answers).limit("tpot.p99", 12.0),
        Case { failed: 0.05, error_rate: Some(0.01), ..a40("errors", chat).limit("ttft.p99", 80.0) },
        Case { network_ms: 60.0, ..a40("network", chat).limit("ttft.p99", 160.0) },
        a40("cache-off", Workload { shared: Some(500), ..chat })
            .set("prefix-cache", false)
            .limit("ttft.p99", 60.0),
        a40("cache-warm", Workload { shared: Some(500), ..chat }).limit("ttft.p99", 60.0),
        a40("plain", chat).limit("ttft.p99", 80.0),
        a40("prefill", rag).limit("ttft.p99", 600.0),
        a40("chunk-256", Workload::fixed(1500.0, 30.0))
            .set("max-num-batched-tokens", 256)
            .limit("ttft.p99", 400.0),
        a40("whole-prompts", Workload { long: Some((0.03, 8000)), ..Workload::fixed(300.0, 60.0) })
            .set("chunked-prefill", false)
            .set("max-num-batched-tokens", 16_384)
            .set("max-model-len", 16_000)
            .limit("tpot.p99", 12.0)
            .limit("ttft.p99", 1000.0),
        Case::new("llama-decode", LLAMA, Workload::fixed(200.0, 100.0)).limit("tpot.p99", 40.0),
        Case::new("llama-ttft", LLAMA, Workload::fixed(1000.0, 60.0)).limit("ttft.p99", 2000.0),
        Case::new("llama-seats-8", LLAMA, Workload::fixed(200.0, 100.0))
            .set("max-num-seqs", 8)
            .limit("ttft.p99", 1500.0)
            .limit("tpot.p99", 60.0),
        a40("bursty", Workload { arrivals_cv: 2.5, ..chat }).limit("ttft.p99", 200.0),
    ]
}
