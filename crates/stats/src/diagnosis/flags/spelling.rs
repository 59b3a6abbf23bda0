//! The flags of each engine, checked against its own sources in November 2026:
//!
//! - vLLM 0.32.0: `vllm/engine/arg_utils.py` and `vllm/config/*.py` of the wheel. `--swap-space` and
//!   `--preemption-mode` are gone: a preempted request is always computed again.
//! - SGLang 0.5.23: `sglang/srt/arg_groups/fields/*.py` and `server_args.py` of the wheel.
//! - TGI 3.3.6-dev0: `docs/source/reference/launcher.md` and `launcher/src/main.rs` at `db931fc` (January 2026).
//! - TensorRT-LLM 1.3: `tensorrt_llm/commands/serve.py`; `--kv_cache_dtype` since pull request 11487 (March 2026).
//! - llama.cpp `0c1e57098`: `tools/server/README.md` and `server-context.cpp`, as packed with llama-cpp-python 0.3.36.
//!
//! `docs/why.md` has the same as a table.

use super::{Flags, Knob};

/// How a flag takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::diagnosis) enum Form {
    /// A whole number follows.
    Count,
    /// A share from 0 to 1 follows.
    Share,
    /// A word follows, such as a data type; this one is advised.
    Word(&'static str),
    /// A value of any form follows and turns the setting on.
    OnWith,
    /// The flag alone turns the setting on.
    On,
    /// The flag alone turns the setting off, which is on by default.
    Off,
    /// A list of sizes follows; the size 0 turns the setting off, which is on by default.
    Sizes,
    /// No flag: a key of the engine's configuration file, a variable, or a choice of files.
    Elsewhere,
}

/// How an engine spells a setting.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnosis) struct Spelling {
    /// The setting.
    pub(in crate::diagnosis) knob: Knob,
    /// The flag or key as it appears in advice.
    pub(in crate::diagnosis) advised: &'static str,
    /// All names of the flag that are read from a command line.
    pub(in crate::diagnosis) names: &'static [&'static str],
    /// How it takes its value.
    pub(in crate::diagnosis) form: Form,
    /// True if the setting is on where the flag is left out; only for settings that are on or off.
    pub(in crate::diagnosis) on_by_default: bool,
}

const fn spelling(knob: Knob, advised: &'static str, names: &'static [&'static str], form: Form) -> Spelling {
    Spelling { knob, advised, names, form, on_by_default: matches!(form, Form::Off | Form::Sizes) }
}

impl Spelling {
    const fn on_by_default(self) -> Self {
        Self { on_by_default: true, ..self }
    }
}

impl Flags {
    /// Returns the settings of the engine.
    pub(in crate::diagnosis) const fn spellings(self) -> &'static [Spelling] {
        match self {
            Self::Vllm => VLLM,
            Self::Sglang => SGLANG,
            Self::Tgi => TGI,
            Self::LlamaCpp => LLAMA_CPP,
            Self::TensorRtLlm => TENSORRT_LLM,
            Self::Simulated => SIMULATED,
            Self::SimulatedQueue => SIMULATED_QUEUE,
        }
    }
}

/// `--kv-cache-memory-bytes` replaces the share of memory where it is set. `--num-gpu-blocks-override`, which
/// replaces both, is meant for tests.
/// `--max-num-queued-reqs` counts running requests too.
const VLLM: &[Spelling] = &[
    spelling(
        Knob::Memory,
        "--gpu-memory-utilization",
        &["--gpu-memory-utilization", "--device-memory-utilization"],
        Form::Share,
    ),
    spelling(Knob::KvSize, "--kv-cache-memory-bytes", &["--kv-cache-memory-bytes"], Form::Count),
    spelling(Knob::KvBlocks, "--num-gpu-blocks-override", &["--num-gpu-blocks-override"], Form::Count),
    spelling(Knob::Sequences, "--max-num-seqs", &["--max-num-seqs"], Form::Count),
    spelling(Knob::Tokens, "--max-num-batched-tokens", &["--max-num-batched-tokens"], Form::Count),
    spelling(Knob::ChunkedPrefill, "--enable-chunked-prefill", &["--enable-chunked-prefill"], Form::On)
        .on_by_default(),
    spelling(
        Knob::PrefillChunk,
        "--long-prefill-token-threshold",
        &["--long-prefill-token-threshold"],
        Form::Count,
    ),
    spelling(Knob::KvType, "--kv-cache-dtype fp8", &["--kv-cache-dtype"], Form::Word("fp8")),
    spelling(Knob::Quantisation, "--quantization", &["--quantization", "-q"], Form::Word("fp8")),
    spelling(Knob::TensorParallel, "--tensor-parallel-size", &["--tensor-parallel-size", "-tp"], Form::Count),
    spelling(Knob::Replicas, "--data-parallel-size", &["--data-parallel-size", "-dp"], Form::Count),
    spelling(Knob::PrefixCache, "--enable-prefix-caching", &["--enable-prefix-caching"], Form::On)
        .on_by_default(),
    spelling(Knob::MaxLength, "--max-model-len", &["--max-model-len"], Form::Count),
    spelling(Knob::Graphs, "leave out --enforce-eager", &["--enforce-eager"], Form::Off),
    spelling(
        Knob::Speculative,
        "--speculative-config",
        &["--speculative-config", "-sc", "--spec-method", "--spec-model"],
        Form::OnWith,
    ),
    spelling(Knob::MaxQueued, "--max-num-queued-reqs", &["--max-num-queued-reqs"], Form::Count),
];

/// `--chunked-prefill-size -1` turns chunks off. `--max-total-tokens` is for development. `--disable-cuda-graph` is
/// deprecated in favour of `--cuda-graph-backend-decode disabled`.
const SGLANG: &[Spelling] = &[
    spelling(Knob::Memory, "--mem-fraction-static", &["--mem-fraction-static"], Form::Share),
    spelling(Knob::Sequences, "--max-running-requests", &["--max-running-requests"], Form::Count),
    spelling(Knob::Tokens, "--chunked-prefill-size", &["--chunked-prefill-size"], Form::Count),
    spelling(Knob::KvType, "--kv-cache-dtype fp8_e4m3", &["--kv-cache-dtype"], Form::Word("fp8_e4m3")),
    spelling(Knob::Quantisation, "--quantization", &["--quantization"], Form::Word("fp8")),
    spelling(
        Knob::TensorParallel,
        "--tp-size",
        &["--tp-size", "--tensor-parallel-size", "--tp"],
        Form::Count,
    ),
    spelling(Knob::Replicas, "--dp-size", &["--dp-size", "--data-parallel-size", "--dp"], Form::Count),
    spelling(Knob::PrefixCache, "leave out --disable-radix-cache", &["--disable-radix-cache"], Form::Off),
    spelling(Knob::MaxLength, "--context-length", &["--context-length"], Form::Count),
    spelling(Knob::Graphs, "leave out --disable-cuda-graph", &["--disable-cuda-graph"], Form::Off),
    spelling(Knob::Speculative, "--speculative-algorithm", &["--speculative-algorithm"], Form::OnWith),
    spelling(Knob::MaxQueued, "--max-queued-requests", &["--max-queued-requests"], Form::Count),
];

/// `--max-batch-size` is unlimited where it is left out; the launcher derives `--max-batch-total-tokens` from the free
/// memory. `--max-concurrent-requests` (128 by default) limits the requests in flight; others are refused.
const TGI: &[Spelling] = &[
    spelling(Knob::Memory, "--cuda-memory-fraction", &["--cuda-memory-fraction"], Form::Share),
    spelling(Knob::KvSize, "--max-batch-total-tokens", &["--max-batch-total-tokens"], Form::Count),
    spelling(Knob::Sequences, "--max-batch-size", &["--max-batch-size"], Form::Count),
    spelling(Knob::Tokens, "--max-batch-prefill-tokens", &["--max-batch-prefill-tokens"], Form::Count),
    spelling(Knob::KvType, "--kv-cache-dtype fp8_e4m3fn", &["--kv-cache-dtype"], Form::Word("fp8_e4m3fn")),
    spelling(Knob::Quantisation, "--quantize", &["--quantize"], Form::Word("fp8")),
    spelling(Knob::TensorParallel, "--num-shard", &["--num-shard"], Form::Count),
    spelling(Knob::PrefixCache, "PREFIX_CACHING=1 in its environment", &[], Form::Elsewhere),
    spelling(Knob::MaxLength, "--max-total-tokens", &["--max-total-tokens"], Form::Count),
    spelling(Knob::Graphs, "leave out --cuda-graphs 0", &["--cuda-graphs"], Form::Sizes),
    spelling(Knob::Speculative, "--speculate", &["--speculate"], Form::OnWith),
    spelling(Knob::MaxQueued, "--max-concurrent-requests", &["--max-concurrent-requests"], Form::Count),
];

/// `--ctx-size` is divided among the `--parallel` slots unless `--kv-unified` is set. The server's loop decodes up to
/// `--batch-size` tokens at a time, in pieces of `--ubatch-size`.
const LLAMA_CPP: &[Spelling] = &[
    spelling(Knob::KvSize, "--ctx-size", &["--ctx-size", "-c"], Form::Count),
    spelling(Knob::Sequences, "--parallel", &["--parallel", "-np"], Form::Count),
    spelling(Knob::Tokens, "--batch-size", &["--batch-size", "-b"], Form::Count),
    spelling(
        Knob::KvType,
        "--cache-type-k q8_0 --cache-type-v q8_0",
        &["--cache-type-k", "-ctk", "--cache-type-v", "-ctv"],
        Form::Word("q8_0"),
    ),
    spelling(Knob::Quantisation, "a GGUF of fewer bits", &[], Form::Elsewhere),
    spelling(Knob::TensorParallel, "--split-mode row", &["--split-mode", "-sm"], Form::Word("row")),
    spelling(Knob::PrefixCache, "--cache-prompt", &["--cache-prompt"], Form::On).on_by_default(),
    spelling(
        Knob::Speculative,
        "--spec-type",
        &["--spec-type", "--spec-draft-model", "--model-draft", "-md"],
        Form::OnWith,
    ),
];

/// The share is of the memory that the weights leave free. The prefix cache and CUDA graphs are on by default, and keys
/// of the file of `--config`.
const TENSORRT_LLM: &[Spelling] = &[
    spelling(
        Knob::Memory,
        "--free_gpu_memory_fraction",
        &["--free_gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction"],
        Form::Share,
    ),
    spelling(Knob::Sequences, "--max_batch_size", &["--max_batch_size"], Form::Count),
    spelling(Knob::Tokens, "--max_num_tokens", &["--max_num_tokens"], Form::Count),
    spelling(Knob::ChunkedPrefill, "--enable_chunked_prefill", &["--enable_chunked_prefill"], Form::On),
    spelling(Knob::KvType, "--kv_cache_dtype fp8", &["--kv_cache_dtype"], Form::Word("fp8")),
    spelling(Knob::Quantisation, "a checkpoint of fewer bits", &[], Form::Elsewhere),
    spelling(Knob::TensorParallel, "--tp_size", &["--tp_size", "--tensor_parallel_size"], Form::Count),
    spelling(
        Knob::PrefixCache,
        "kv_cache_config.enable_block_reuse in the file of --config",
        &[],
        Form::Elsewhere,
    ),
    spelling(Knob::MaxLength, "--max_seq_len", &["--max_seq_len"], Form::Count),
    spelling(Knob::Graphs, "cuda_graph_config in the file of --config", &[], Form::Elsewhere),
    spelling(Knob::Speculative, "speculative_config in the file of --config", &[], Form::Elsewhere),
];

/// The keys of `[server.simulated]`. A preset takes either `kv-blocks` or `gpu-memory-utilization`.
const SIMULATED: &[Spelling] = &[
    spelling(Knob::Memory, "server.simulated.gpu-memory-utilization", &[], Form::Share),
    spelling(Knob::KvSize, "server.simulated.kv-blocks", &[], Form::Count),
    spelling(Knob::Sequences, "server.simulated.max-num-seqs", &[], Form::Count),
    spelling(Knob::Tokens, "server.simulated.max-num-batched-tokens", &[], Form::Count),
    spelling(Knob::ChunkedPrefill, "server.simulated.chunked-prefill", &[], Form::On),
    spelling(Knob::PrefixCache, "server.simulated.prefix-cache", &[], Form::On),
    spelling(Knob::MaxLength, "server.simulated.max-model-len", &[], Form::Count),
];

/// The servers of `mmc`; the other queues have none.
const SIMULATED_QUEUE: &[Spelling] =
    &[spelling(Knob::Sequences, "server.simulated.servers", &[], Form::Count)];
