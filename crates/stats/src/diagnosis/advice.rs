//! What to change, by the server's own flags, with values to start from.

use super::Kind;
use super::figure::{percent, time};
use super::subject::Subject;
use crate::roofline::{Gpu, Precision};
use crate::server::Engine;
use goodput_core::units::short;
use serde::Serialize;

/// Whose flags the advice names.
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

/// What can be set of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knob {
    /// The share of the GPU's memory that it uses.
    Memory,
    /// The most sequences at a time.
    Sequences,
    /// The most tokens of an iteration.
    Tokens,
    /// How keys and values are stored.
    KvType,
    /// How weights are stored.
    Quantisation,
    /// How many GPUs hold one copy of the model.
    TensorParallel,
    /// Whether prompts that begin alike are found again.
    PrefixCache,
    /// The longest prompt and answer together.
    MaxLength,
    /// Whether kernels are launched one by one.
    Graphs,
}

/// With so many of its places taken on average a batch is full most of the time.
const FULL: f64 = 0.9;

/// Values to start from on a GPU: share of its memory, sequences, tokens of an iteration.
type Start = (f64, u32, u32);

/// The project's starting values, by the GPU; of others the row of the one that is nearest in memory and bandwidth.
const STARTS: &[(&[&str], Start)] = &[
    (&["A10", "A40", "L4", "L40S"], (0.90, 128, 4096)),
    (&["A100 40GB", "A100 80GB", "A100 80GB PCIe"], (0.95, 256, 8192)),
    (&["H100", "H100 PCIe", "H100 NVL", "H200", "B200", "MI300X"], (0.95, 512, 16_384)),
];

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
    /// The flag or key that sets it, where there is one.
    ///
    /// From each engine's own list of options: vLLM "Engine Arguments", SGLang "Server Arguments", TGI "text-generation-launcher arguments",
    /// llama-server's manual, TensorRT-LLM "trtllm-serve".
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
            _ => None,
        }
    }
}

/// The flags of a curve's server; vLLM's where it is not known whose it is.
pub(super) fn flags(s: &Subject<'_>) -> Flags {
    s.curve.flags.unwrap_or(Flags::Vllm)
}

/// The flag for it, and in vLLM's words where the engine is not known; `None` where this server has none.
pub(super) fn flag(s: &Subject<'_>, knob: Knob) -> Option<String> {
    let name = flags(s).flag(knob)?;
    Some(if s.curve.flags.is_some() { name.to_owned() } else { format!("{name} (as vLLM calls it)") })
}

fn start(s: &Subject<'_>) -> Option<(&'static str, Start)> {
    let gpu = Gpu::find(s.curve.gpu.as_deref()?)?;
    let (_, start) = STARTS.iter().find(|(names, _)| names.contains(&gpu.name))?;
    Some((gpu.name, *start))
}

/// `; on an A40 start from 128`, for the knobs that there are values for; nothing where the GPU is not known.
fn from(s: &Subject<'_>, knob: Knob) -> String {
    // Shares of memory are not the same thing to every engine, nor is a prompt's chunk.
    let own = matches!(flags(s), Flags::Vllm | Flags::Simulated);
    let Some((gpu, (memory, sequences, tokens))) = start(s) else { return String::new() };
    let value = match knob {
        Knob::Memory if flags(s) == Flags::Vllm => format!("{memory:.2}"),
        Knob::Sequences => sequences.to_string(),
        Knob::Tokens if own => tokens.to_string(),
        _ => return String::new(),
    };
    let article = if gpu.starts_with(['A', 'H', 'L', 'M']) { "an" } else { "a" };
    format!("; on {article} {gpu} start from {value}")
}

/// Whether the value to start from lies on the side that is advised, as far as it is known where the server is.
fn helps(s: &Subject<'_>, knob: Knob, lower: bool) -> bool {
    let Some((_, (_, sequences, _))) = start(s).filter(|_| knob == Knob::Sequences) else { return true };
    let sequences = f64::from(sequences);
    if lower {
        s.at.server.running_mean.is_none_or(|ran| ran > sequences)
    } else {
        s.curve.seats.is_none_or(|seats| f64::from(seats) < sequences)
    }
}

/// `text with FLAG in it`, where the server has such a flag.
fn with(s: &Subject<'_>, knob: Knob, text: &str) -> Option<String> {
    let start = if helps(s, knob, text.contains("lower FLAG")) { from(s, knob) } else { String::new() };
    Some(format!("{}{start}.", text.replace("FLAG", &flag(s, knob)?)))
}

/// What to change where this is the case.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Vec<String> {
    of_cause(kind, s).unwrap_or_else(|| of_latency(kind, s)).into_iter().flatten().collect()
}

/// Where something makes the latency worse.
fn of_cause(kind: Kind, s: &Subject<'_>) -> Option<Vec<Option<String>>> {
    let all = match kind {
        Kind::ClientLimited => {
            let own = s.facts.own.iter().find(|o| o.step == s.at.step);
            vec![own.map(|o| o.advice.clone()).or_else(|| {
                Some("Measure from a machine with more cores, or split the load over several.".into())
            })]
        }
        Kind::Preemption => vec![
            with(
                s,
                Knob::Sequences,
                &format!("Admit fewer sequences at a time than there is KV cache for: lower FLAG{}", ran(s)),
            ),
            with(s, Knob::Memory, "Give the KV cache more memory: raise FLAG"),
            with(s, Knob::KvType, "Halve what a token takes in it: FLAG"),
            with(
                s,
                Knob::TensorParallel,
                "Or put the weights on more GPUs, so that each has more left for it: FLAG",
            ),
        ],
        Kind::KvExhaustion => vec![
            with(s, Knob::Memory, "Give the KV cache more memory: raise FLAG"),
            with(s, Knob::KvType, "Halve what a token takes in it: FLAG"),
            with(s, Knob::MaxLength, "If no request needs it, lower FLAG"),
            with(s, Knob::Sequences, &format!("If requests are preempted, lower FLAG{}", ran(s))),
            with(
                s,
                Knob::TensorParallel,
                "Or put the weights on more GPUs, so that each has more left for it: FLAG",
            ),
        ],
        Kind::BatchTooSmall => vec![
            with(s, Knob::Sequences, "Let it take more sequences at a time: raise FLAG"),
            with(
                s,
                Knob::Tokens,
                "If it takes no more even so, the tokens of an iteration are the limit: raise FLAG",
            ),
        ],
        Kind::CacheMisses => vec![
            with(s, Knob::PrefixCache, "See that the prefix cache is on: FLAG"),
            with(s, Knob::Memory, "Give it room for the prefixes beside the running requests: raise FLAG"),
            (s.curve.replicas.is_some_and(|n| n > 1)).then(|| {
                "Send requests with the same prefix to the same replica: each has a cache of its own.".into()
            }),
        ],
        Kind::CommunicationBound => vec![
            with(s, Knob::TensorParallel, "Use fewer GPUs for a copy of the model and more copies: FLAG"),
            Some("See that the GPUs are joined by NVLink and not by PCIe (nvidia-smi topo -m).".into()),
        ],
        Kind::PrefillBound | Kind::DecodeBound | Kind::BatchingTradeOff | Kind::Queueing | Kind::Unstable => {
            return None;
        }
    };
    Some(all)
}

/// Whether the places of the batch are taken while the step runs.
fn full(s: &Subject<'_>) -> bool {
    let taken = s.curve.seats.zip(s.at.server.running_mean);
    taken.is_some_and(|(seats, running)| running >= FULL * f64::from(seats))
}

/// Where it is a part of the latency itself.
fn of_latency(kind: Kind, s: &Subject<'_>) -> Vec<Option<String>> {
    let more_copies = || Some("Or spread the load over more replicas.".to_owned());
    match kind {
        Kind::PrefillBound => vec![
            with(s, Knob::PrefixCache, "Where prompts begin alike, let the prefix cache have that: FLAG"),
            Some("Send shorter prompts: what need not be read costs nothing.".into()),
            compute(s),
            with(s, Knob::TensorParallel, "Or let more GPUs read a prompt together: FLAG"),
        ],
        Kind::DecodeBound => decode(s),
        Kind::BatchingTradeOff => vec![
            with(
                s,
                Knob::Sequences,
                "Cap how many are written at a time at what the limit allows: lower FLAG until TPOT holds",
            ),
            with(s, Knob::Tokens, "Let prompts take less of each iteration: lower FLAG (TTFT grows for it)"),
            more_copies(),
        ],
        Kind::Queueing if full(s) => vec![
            with(
                s,
                Knob::Sequences,
                "Every place of the batch is taken while others wait: raise FLAG, as far as TPOT bears it",
            ),
            with(s, Knob::Memory, "And give the KV cache of more requests room: raise FLAG"),
            more_copies(),
        ],
        Kind::Queueing => vec![
            with(
                s,
                Knob::Tokens,
                "Try more prompt tokens in an iteration, so that prompts that come together are read together: raise FLAG",
            ),
            with(s, Knob::Sequences, "If requests wait while few run, raise FLAG"),
            more_copies(),
        ],
        Kind::Unstable => vec![
            Some(
                "This is the capacity of the server as it is: a queue before it only hides that for a while."
                    .into(),
            ),
            more_copies(),
        ],
        _ => Vec::new(),
    }
}

/// How many sequences ran, for advice on how many should.
fn ran(s: &Subject<'_>) -> String {
    s.at.server
        .running_mean
        .map(|n| format!(" below the {} that ran on average", short(n.floor())))
        .unwrap_or_default()
}

/// Whether eight bits would read a prompt faster.
fn compute(s: &Subject<'_>) -> Option<String> {
    let flag = flag(s, Knob::Quantisation)?;
    let sixteen = s.curve.hardware.as_ref().is_none_or(|(_, m)| m.bytes > 1.5);
    sixteen.then(|| format!("Compute in 8 bits where the GPU can ({flag} fp8): at best that halves it."))
}

fn decode(s: &Subject<'_>) -> Vec<Option<String>> {
    let bound = super::figure::Figure::TpotTimesFloor.of(s);
    let overhead = bound.as_ref().is_some_and(|b| b.value > 2.0);
    if overhead {
        let share = bound.map_or(0.0, |b| 1.0 - 1.0 / b.value);
        return vec![
            with(s, Knob::Graphs, &format!("{} of a token's time is not reading memory: see that kernels are not launched one by one, FLAG", percent(share))),
            Some("Look at the host: a slow core, tokenising and sampling in the engine's loop cost every token the same.".into()),
        ];
    }
    let halved = s.curve.hardware.as_ref().and_then(|(machine, model)| {
        let fp8 = crate::roofline::Model { precision: Some(Precision::Fp8), bytes: 1.0, ..*model };
        (model.bytes > 1.5).then(|| machine.decode(&fp8, 1.0, 0.0).floor_ms)
    });
    let to = halved.map(|ms| format!(" (the least would then be {})", time(ms))).unwrap_or_default();
    vec![
        with(s, Knob::Quantisation, &format!("Read fewer bytes for a token: weights of 8 or 4 bits, FLAG{to}")),
        with(s, Knob::TensorParallel, "Let more GPUs read them together: FLAG"),
        Some("Write several tokens at a time (speculative decoding), or take a GPU with more memory bandwidth.".into()),
        Some("Less load does not help: this is the pace of one request alone.".into()),
    ]
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

    #[test]
    fn every_gpu_of_the_table_has_values_to_start_from() {
        for gpu in crate::roofline::GPUS {
            assert!(STARTS.iter().any(|(names, _)| names.contains(&gpu.name)), "{}", gpu.name);
        }
        let of = |name: &str| STARTS.iter().find(|(names, _)| names.contains(&name)).map(|(_, s)| *s);
        assert_eq!(of("A40"), Some((0.90, 128, 4096)));
        assert_eq!(of("A100 80GB"), Some((0.95, 256, 8192)));
        assert_eq!(of("H100"), Some((0.95, 512, 16_384)));
    }
}
