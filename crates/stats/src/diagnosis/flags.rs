//! The flags of engines: the name of each server setting in each engine.

use crate::server::Engine;
use serde::Serialize;

/// The engine whose flags the advice uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flags {
    /// vLLM's.
    Vllm,
    /// SGLang's.
    Sglang,
    /// Text Generation Inference's.
    Tgi,
    /// llama-server's.
    LlamaCpp,
    /// trtllm-serve's, and the build options of Triton's backend.
    TensorRtLlm,
    /// The keys of the simulated server.
    Simulated,
}

/// A setting of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// Share of the GPU's memory that the server uses.
    Memory,
    /// Largest number of concurrent sequences.
    Sequences,
    /// Largest number of tokens per iteration.
    Tokens,
    /// Data type of stored keys and values.
    KvType,
    /// Data type of stored weights.
    Quantisation,
    /// Number of GPUs that hold one copy of the model.
    TensorParallel,
    /// Reuse of the common beginnings of prompts.
    PrefixCache,
    /// Largest length of prompt and answer together, in tokens.
    MaxLength,
    /// Capture of kernels into graphs, instead of launching them one by one.
    Graphs,
}

impl From<Engine> for Flags {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Vllm => Self::Vllm,
            Engine::Sglang => Self::Sglang,
            Engine::Tgi => Self::Tgi,
            Engine::LlamaCpp => Self::LlamaCpp,
            Engine::TensorRtLlm | Engine::Triton => Self::TensorRtLlm,
        }
    }
}

impl Flags {
    /// Returns the flag or key for a setting; `None` if the engine has none.
    ///
    /// Source: each engine's list of options: vLLM "Engine Arguments", SGLang "Server Arguments", TGI
    /// "text-generation-launcher arguments", llama-server's manual, TensorRT-LLM "trtllm-serve".
    pub(super) const fn flag(self, knob: Knob) -> Option<&'static str> {
        match (self, knob) {
            (Self::Vllm, Knob::Memory) => Some("--gpu-memory-utilization"),
            (Self::Vllm, Knob::Sequences) => Some("--max-num-seqs"),
            (Self::Vllm, Knob::Tokens) => Some("--max-num-batched-tokens"),
            (Self::Vllm | Self::Sglang, Knob::KvType) => Some("--kv-cache-dtype fp8_e5m2"),
            (Self::Vllm | Self::Sglang, Knob::Quantisation) => Some("--quantization"),
            (Self::Vllm, Knob::TensorParallel) => Some("--tensor-parallel-size"),
            (Self::Vllm, Knob::PrefixCache) => Some("--enable-prefix-caching"),
            (Self::Vllm, Knob::MaxLength) => Some("--max-model-len"),
            (Self::Vllm, Knob::Graphs) => Some("no --enforce-eager"),
            (Self::Sglang, Knob::Memory) => Some("--mem-fraction-static"),
            (Self::Sglang, Knob::Sequences) => Some("--max-running-requests"),
            (Self::Sglang, Knob::Tokens) => Some("--chunked-prefill-size"),
            (Self::Sglang, Knob::TensorParallel) => Some("--tp-size"),
            (Self::Sglang, Knob::PrefixCache) => Some("no --disable-radix-cache"),
            (Self::Sglang, Knob::MaxLength) => Some("--context-length"),
            (Self::Sglang, Knob::Graphs) => Some("no --disable-cuda-graph"),
            (Self::Tgi, Knob::Memory) => Some("--cuda-memory-fraction"),
            (Self::Tgi, Knob::Sequences) => Some("--max-batch-size"),
            (Self::Tgi, Knob::Tokens) => Some("--max-batch-prefill-tokens"),
            (Self::Tgi, Knob::KvType) => Some("--kv-cache-dtype fp8_e5m2"),
            (Self::Tgi, Knob::Quantisation) => Some("--quantize"),
            (Self::Tgi, Knob::TensorParallel) => Some("--num-shard"),
            (Self::Tgi, Knob::MaxLength) => Some("--max-total-tokens"),
            (Self::Tgi, Knob::Graphs) => Some("--cuda-graphs"),
            (Self::LlamaCpp, Knob::Memory) => Some("--ctx-size"),
            (Self::LlamaCpp, Knob::Sequences) => Some("--parallel"),
            (Self::LlamaCpp, Knob::Tokens) => Some("--ubatch-size"),
            (Self::LlamaCpp, Knob::KvType) => Some("--cache-type-k q8_0 --cache-type-v q8_0"),
            (Self::LlamaCpp, Knob::Quantisation) => Some("a GGUF of fewer bits"),
            (Self::LlamaCpp, Knob::TensorParallel) => Some("--split-mode row"),
            (Self::LlamaCpp, Knob::PrefixCache) => Some("--cache-reuse"),
            (Self::TensorRtLlm, Knob::Memory) => Some("--kv_cache_free_gpu_memory_fraction"),
            (Self::TensorRtLlm, Knob::Sequences) => Some("--max_batch_size"),
            (Self::TensorRtLlm, Knob::Tokens) => Some("--max_num_tokens"),
            (Self::TensorRtLlm, Knob::TensorParallel) => Some("--tp_size"),
            (Self::TensorRtLlm, Knob::PrefixCache) => Some("kv_cache_config.enable_block_reuse"),
            (Self::TensorRtLlm, Knob::MaxLength) => Some("--max_seq_len"),
            (Self::Simulated, Knob::Memory) => Some("server.simulated.kv-blocks"),
            (Self::Simulated, Knob::Sequences) => Some("server.simulated.max-num-seqs"),
            (Self::Simulated, Knob::Tokens) => Some("server.simulated.max-num-batched-tokens"),
            (Self::Simulated, Knob::PrefixCache) => Some("server.simulated.prefix-cache"),
            (Self::Simulated, Knob::MaxLength) => Some("server.simulated.max-model-len"),
            (Self::Tgi, Knob::PrefixCache)
            | (Self::LlamaCpp, Knob::MaxLength | Knob::Graphs)
            | (Self::TensorRtLlm, Knob::KvType | Knob::Quantisation | Knob::Graphs)
            | (Self::Simulated, Knob::KvType | Knob::Quantisation | Knob::TensorParallel | Knob::Graphs) => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_their_own_flags() {
        for (engine, memory, sequences, tokens) in [
            (Engine::Vllm, "--gpu-memory-utilization", "--max-num-seqs", "--max-num-batched-tokens"),
            (Engine::Sglang, "--mem-fraction-static", "--max-running-requests", "--chunked-prefill-size"),
            (Engine::Tgi, "--cuda-memory-fraction", "--max-batch-size", "--max-batch-prefill-tokens"),
            (Engine::LlamaCpp, "--ctx-size", "--parallel", "--ubatch-size"),
            (Engine::Triton, "--kv_cache_free_gpu_memory_fraction", "--max_batch_size", "--max_num_tokens"),
        ] {
            let flags = Flags::from(engine);
            let of = [Knob::Memory, Knob::Sequences, Knob::Tokens].map(|k| flags.flag(k));
            assert_eq!(of, [Some(memory), Some(sequences), Some(tokens)], "{engine:?}");
        }
        assert_eq!(Flags::Simulated.flag(Knob::Quantisation), None, "what it has not is not advised");
    }
}
