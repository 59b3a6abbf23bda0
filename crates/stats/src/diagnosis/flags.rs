//! The settings of servers, and how each engine spells them on its command line.

mod edit;
mod spelling;

use crate::server::Engine;
use serde::Serialize;
pub(super) use spelling::{Form, Spelling};

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
    /// trtllm-serve's, also for Triton's backend.
    TensorRtLlm,
    /// The keys of the simulated batching engine.
    Simulated,
    /// The keys of a simulated queue, which has servers instead of a batch.
    SimulatedQueue,
}

/// A setting of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// Share of the GPU's memory that the server uses.
    Memory,
    /// Size of the KV cache in the engine's own unit: tokens, bytes, or blocks of the simulated server.
    KvSize,
    /// Number of blocks of the KV cache, of an engine that otherwise derives it from memory.
    KvBlocks,
    /// Largest number of concurrent sequences.
    Sequences,
    /// Largest number of tokens per iteration.
    Tokens,
    /// Reading of prompts in chunks, next to the decoding of other requests.
    ChunkedPrefill,
    /// Largest number of tokens that one long prompt may take of an iteration.
    PrefillChunk,
    /// Data type of stored keys and values.
    KvType,
    /// Data type of stored weights.
    Quantisation,
    /// Number of GPUs that hold one copy of the model.
    TensorParallel,
    /// Number of copies of the model behind one address (data parallel).
    Replicas,
    /// Reuse of the common beginnings of prompts.
    PrefixCache,
    /// Largest length of prompt and answer together, in tokens.
    MaxLength,
    /// Capture of kernels into graphs, instead of launching them one by one.
    Graphs,
    /// Drafting of several tokens that the model then checks at once.
    Speculative,
    /// Largest number of requests that wait or are in flight; the server refuses the others.
    MaxQueued,
}

impl Knob {
    /// All settings.
    pub const ALL: [Self; 16] = [
        Self::Memory,
        Self::KvSize,
        Self::KvBlocks,
        Self::Sequences,
        Self::Tokens,
        Self::ChunkedPrefill,
        Self::PrefillChunk,
        Self::KvType,
        Self::Quantisation,
        Self::TensorParallel,
        Self::Replicas,
        Self::PrefixCache,
        Self::MaxLength,
        Self::Graphs,
        Self::Speculative,
        Self::MaxQueued,
    ];

    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::KvSize => "kv-size",
            Self::KvBlocks => "kv-blocks",
            Self::Sequences => "sequences",
            Self::Tokens => "tokens",
            Self::ChunkedPrefill => "chunked-prefill",
            Self::PrefillChunk => "prefill-chunk",
            Self::KvType => "kv-type",
            Self::Quantisation => "quantisation",
            Self::TensorParallel => "tensor-parallel",
            Self::Replicas => "replicas",
            Self::PrefixCache => "prefix-cache",
            Self::MaxLength => "max-length",
            Self::Graphs => "graphs",
            Self::Speculative => "speculative",
            Self::MaxQueued => "max-queued",
        }
    }
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
    /// Returns true if the settings are keys of the plan.
    pub const fn is_simulated(self) -> bool {
        match self {
            Self::Simulated | Self::SimulatedQueue => true,
            Self::Vllm | Self::Sglang | Self::Tgi | Self::LlamaCpp | Self::TensorRtLlm => false,
        }
    }

    /// Returns the flag or key for a setting as it appears in advice; `None` if the engine has none.
    pub(super) fn flag(self, knob: Knob) -> Option<&'static str> {
        self.spelling(knob).map(|s| s.advised)
    }

    /// Returns how the engine spells a setting; `None` if it has no such setting.
    pub(super) fn spelling(self, knob: Knob) -> Option<&'static Spelling> {
        self.spellings().iter().find(|s| s.knob == knob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_their_own_flags() {
        for (engine, memory, sequences, tokens) in [
            (Engine::Vllm, Some("--gpu-memory-utilization"), "--max-num-seqs", "--max-num-batched-tokens"),
            (
                Engine::Sglang,
                Some("--mem-fraction-static"),
                "--max-running-requests",
                "--chunked-prefill-size",
            ),
            (Engine::Tgi, Some("--cuda-memory-fraction"), "--max-batch-size", "--max-batch-prefill-tokens"),
            (Engine::LlamaCpp, None, "--parallel", "--batch-size"),
            (Engine::Triton, Some("--free_gpu_memory_fraction"), "--max_batch_size", "--max_num_tokens"),
        ] {
            let flags = Flags::from(engine);
            let of = [Knob::Memory, Knob::Sequences, Knob::Tokens].map(|k| flags.flag(k));
            assert_eq!(of, [memory, Some(sequences), Some(tokens)], "{engine:?}");
        }
        assert_eq!(Flags::Simulated.flag(Knob::Quantisation), None, "a setting it lacks is not advised");
        assert_eq!(Flags::LlamaCpp.flag(Knob::KvSize), Some("--ctx-size"), "in place of a share of memory");
    }

    #[test]
    fn every_engine_spells_a_setting_once() {
        for flags in [
            Flags::Vllm,
            Flags::Sglang,
            Flags::Tgi,
            Flags::LlamaCpp,
            Flags::TensorRtLlm,
            Flags::Simulated,
            Flags::SimulatedQueue,
        ] {
            let mut names: Vec<&str> = Vec::new();
            for knob in Knob::ALL {
                let all: Vec<_> = flags.spellings().iter().filter(|s| s.knob == knob).collect();
                assert!(all.len() <= 1, "{flags:?} {knob:?}");
                for name in all.iter().flat_map(|s| s.names) {
                    assert!(!names.contains(name), "{flags:?}: {name}");
                    names.push(name);
                }
            }
        }
    }
}
