//! The figures of a fit, each with its formula and the formula with numbers.

use super::Fitted;
use super::words::{bytes, ms};
use crate::words::precise;
use goodput_core::units::{short, thousands};
use goodput_stats::fit::{Architecture, Attention, Count, Entry, GIB};
use goodput_stats::roofline::Decode;
use serde::Serialize;

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Line {
    /// Its name.
    pub(super) of: String,
    /// Its value with its unit.
    pub(super) value: String,
    /// Its formula; empty for a figure that is given.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) formula: &'static str,
    /// The formula with numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numbers: Option<String>,
    /// Source or meaning, in a few words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) note: String,
}

/// A group of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FigureGroup {
    /// Parameters.
    Model,
    /// Memory of one GPU.
    Memory,
    /// The KV cache.
    Cache,
    /// Floors.
    Floors,
}

impl FigureGroup {
    /// All groups, in order.
    pub(super) const ALL: [Self; 4] = [Self::Model, Self::Memory, Self::Cache, Self::Floors];

    /// Returns the title.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Model => "Model",
            Self::Memory => "Memory of each GPU",
            Self::Cache => "KV cache of one copy of the model",
            Self::Floors => "Floors, which no engine can go below",
        }
    }
}

/// Returns the figures of a group.
pub(super) fn of(f: &Fitted, part: FigureGroup) -> Vec<Line> {
    match part {
        FigureGroup::Model => model(f),
        FigureGroup::Memory => memory(f),
        FigureGroup::Cache => cache(f),
        FigureGroup::Floors => floors(f),
    }
}

fn given(of: &str, value: String, note: impl Into<String>) -> Line {
    Line { of: of.into(), value, formula: "", numbers: None, note: note.into() }
}

fn line(of: &str, value: String, formula: &'static str, numbers: String, note: impl Into<String>) -> Line {
    Line { of: of.into(), value, formula, numbers: Some(numbers), note: note.into() }
}

/// Returns a number of parameters: `70.55 billion`.
fn billions(n: f64) -> String {
    if n >= 1e9 { format!("{} billion", precise(n / 1e9)) } else { format!("{} million", precise(n / 1e6)) }
}

fn model(f: &Fitted) -> Vec<Line> {
    let m = &f.setup.model;
    let mut lines = match (m.count, m.architecture) {
        (Some(count), Some(shape)) => counted(&count, &shape),
        (Some(_) | None, _) => {
            let mut lines = vec![given("parameters", billions(m.model.parameters.get()), "as given")];
            lines.extend(
                m.model.active_parameters.map(|a| given("active per token", billions(a.get()), "as given")),
            );
            lines
        }
    };
    lines.push(line(
        "weights",
        bytes(m.weights),
        "parameters × bytes per parameter",
        format!("{} × {}", billions(m.model.parameters.get()), short(m.weights / m.model.parameters.get())),
        super::words::storage(m),
    ));
    lines
}

/// Returns the parameters by their place, with the formulas of the architecture.
fn counted(c: &Count, a: &Architecture) -> Vec<Line> {
    let n = |x: u64| billions(x as f64);
    let tables = if a.tied { "1 (tied)" } else { "2" };
    let mut lines = vec![line(
        "embeddings",
        n(c.embeddings),
        "tables × vocabulary × hidden size",
        format!("{tables} × {} × {}", a.vocabulary, a.hidden),
        "",
    )];
    lines.push(attention(c.attention, a));
    match a.experts {
        None => lines.push(line(
            "feed-forward",
            n(c.feed_forward),
            "layers × 3 × hidden size × intermediate size",
            format!("{} × 3 × {} × {}", a.layers, a.hidden, a.intermediate),
            "",
        )),
        Some(e) => {
            let sparse = a.layers - e.dense_layers;
            lines.push(line(
                "experts",
                n(c.experts),
                "layers × experts × 3 × hidden size × intermediate size of an expert, plus biases",
                format!("{sparse} × {} × 3 × {} × {}", e.count, a.hidden, e.intermediate),
                format!("{} of {} for each token", e.per_token, e.count),
            ));
            lines.push(given("routers, dense networks", n(c.feed_forward), "shared experts included"));
        }
    }
    lines.push(line(
        "parameters",
        n(c.total()),
        "the sum, plus norms",
        format!(
            "{} + {} + {} + {} million",
            n(c.embeddings),
            n(c.attention),
            n(c.feed_forward + c.experts),
            precise(c.norms as f64 / 1e6)
        ),
        "",
    ));
    if a.experts.is_some() {
        lines.push(line(
            "active per token",
            n(c.active),
            "parameters − experts that a token does not use − input embedding",
            format!(
                "{} − {} − {}",
                n(c.total()),
                n(c.experts - c.active_experts),
                n(c.total() - c.experts + c.active_experts - c.active)
            ),
            "",
        ));
    }
    lines
}

/// Returns the parameters of attention.
fn attention(parameters: u64, a: &Architecture) -> Line {
    match a.attention {
        Attention::Heads { heads, kv_heads, head_size } => line(
            "attention",
            billions(parameters as f64),
            "layers × hidden size × head size × (2 × heads + 2 × KV heads), plus biases",
            format!("{} × {} × {head_size} × (2 × {heads} + 2 × {kv_heads})", a.layers, a.hidden),
            "",
        ),
        Attention::Latent { heads, q_rank, kv_rank, rope, nope, value } => line(
            "attention",
            billions(parameters as f64),
            "layers × (query + latent + heads × latent × (key + value) + output)",
            format!(
                "{} layers with {heads} heads, ranks {} and {kv_rank}, dimensions {nope} + {rope} and {value}",
                a.layers,
                q_rank.map_or("none".into(), |r| r.to_string())
            ),
            "multi-head latent attention",
        ),
    }
}

fn memory(f: &Fitted) -> Vec<Line> {
    let (s, fit) = (&f.setup, &f.fit);
    let gpus = s.machine.tensor_parallel;
    vec![
        given("usable", bytes(s.memory), format!("{} GiB, as the driver reports", precise(s.memory / GIB))),
        line(
            "taken by the server",
            bytes(fit.budget),
            "usable × gpu-memory-utilization",
            format!("{} × {}", bytes(s.memory), s.utilization),
            format!("gpu-memory-utilization {}", s.utilization),
        ),
        line(
            "weights",
            bytes(fit.weights),
            "weights / tensor-parallel",
            format!("{} / {gpus}", bytes(s.model.weights)),
            if gpus == 1 { String::new() } else { format!("a part of {gpus}") },
        ),
        given(
            "activations, CUDA, NCCL",
            bytes(s.reserved),
            if f.default_reserved { "assumed; --reserved" } else { "--reserved" },
        ),
        line(
            "left for the KV cache",
            bytes(fit.kv_room),
            "taken − weights − activations, CUDA, NCCL",
            format!("{} − {} − {}", bytes(fit.budget), bytes(fit.weights), bytes(s.reserved)),
            "",
        ),
    ]
}

fn cache(f: &Fitted) -> Vec<Line> {
    let (s, fit) = (&f.setup, &f.fit);
    let whole = |n: u64| thousands(n as f64);
    let (token, numbers) = match s.model.cache.entry {
        Entry::Heads { head_size, .. } => (
            "2 × layers × KV heads of a GPU × head size × bytes",
            format!("2 × {} × {} × {head_size} × {}", fit.block_layers, fit.share.kv_heads, s.kv_bytes),
        ),
        Entry::Latent { size } => (
            "layers × (latent + rotary dimensions) × bytes",
            format!("{} × {size} × {}", fit.block_layers, s.kv_bytes),
        ),
    };
    let lengths = format!("{} + {} tokens", short(s.input_tokens), short(s.output_tokens));
    let free = whole(fit.blocks - 1);
    vec![
        line(
            "a token, on each GPU",
            format!("{} bytes", thousands(fit.token_bytes)),
            token,
            numbers,
            super::words::share(f),
        ),
        line(
            "blocks",
            whole(fit.blocks),
            "⌊left for the KV cache / (block size × a token)⌋",
            format!("⌊{} / ({} × {})⌋", thousands(fit.kv_room), s.block_tokens, thousands(fit.token_bytes)),
            format!("of {} tokens", s.block_tokens),
        ),
        line(
            "tokens",
            whole(fit.tokens),
            "blocks × block size",
            format!("{} × {}", whole(fit.blocks), s.block_tokens),
            "",
        ),
        line(
            "sequences of max-model-len",
            whole(fit.longest),
            "⌊(blocks − 1, which vLLM keeps) / blocks of a sequence⌋",
            format!("⌊{free} / {}⌋", whole(fit.longest_blocks)),
            format!("{} tokens", thousands(f64::from(s.max_model_len))),
        ),
        line(
            "sequences of mean length",
            whole(fit.sequences),
            "⌊(blocks − 1, which vLLM keeps) / blocks of a sequence⌋",
            format!("⌊{free} / {}⌋", whole(fit.mean_blocks)),
            format!("{lengths}, none preempted"),
        ),
    ]
}

fn floors(f: &Fitted) -> Vec<Line> {
    let (s, fit) = (&f.setup, &f.fit);
    let context = format!("{} tokens of context", short(s.mean_context()));
    let rate = |x: f64| format!("{} tokens/s", precise(x));
    let full = format!("{} sequences (--max-num-seqs), {context} each", thousands(fit.full.batch));
    let per_token = 2e-9 * s.model.model.active_parameters.unwrap_or(s.model.model.parameters).get();
    let gpus = s.machine.tensor_parallel;
    let compute = fit.prefill.compute_ms.is_some_and(|ms| ms >= fit.prefill.weights_ms);
    let prompt = format!("prompt of {} tokens", short(s.input_tokens));
    let prefill = match s.machine.tflop_s.filter(|_| compute) {
        Some(rate) => line(
            "TTFT: prefill",
            ms(fit.prefill.floor_ms),
            "prompt tokens × 2 × parameters used / (compute rate × GPUs)",
            format!(
                "{} × {} GFLOP / ({} TFLOP/s × {gpus})",
                short(s.input_tokens),
                precise(per_token),
                precise(rate)
            ),
            prompt,
        ),
        None => line(
            "TTFT: prefill",
            ms(fit.prefill.floor_ms),
            "weights that are read / (bandwidth × GPUs), longer than the products",
            format!("{} / ({} GB/s × {gpus})", bytes(s.model.read), thousands(s.machine.bandwidth_gb_s)),
            prompt,
        ),
    };
    vec![
        decode(f, "TPOT: one request", &fit.alone, context),
        line(
            "one request",
            rate(fit.tokens_per_s),
            "1,000 ms / TPOT",
            format!("1,000 / {}", precise(fit.alone.floor_ms)),
            "at most",
        ),
        decode(f, "TPOT: full batch", &fit.full, full),
        line(
            "full batch",
            rate(fit.full_tokens_per_s),
            "batch × 1,000 ms / TPOT",
            format!("{} × 1,000 / {}", thousands(fit.full.batch), precise(fit.full.floor_ms)),
            "at most, prompts left out",
        ),
        prefill,
    ]
}

/// Returns the floor of a token: of memory, or of computing where that takes longer.
fn decode(f: &Fitted, of: &str, d: &Decode, note: String) -> Line {
    let s = &f.setup;
    let gpus = s.machine.tensor_parallel;
    let memory_ms = d.weights_ms + d.kv_ms.unwrap_or(0.0);
    if let (Some(compute), Some(rate)) = (d.compute_ms, s.machine.tflop_s)
        && compute > memory_ms
    {
        return line(
            of,
            ms(d.floor_ms),
            "batch × 2 × parameters used / (compute rate × GPUs), longer than reading memory",
            format!(
                "{} × {} GFLOP / ({} TFLOP/s × {gpus})",
                thousands(d.batch),
                precise(s.model.model.flops_per_token() / 1e9),
                precise(rate)
            ),
            note,
        );
    }
    let rate = s.machine.bandwidth_gb_s * f64::from(gpus);
    let kv = d.kv_ms.unwrap_or(0.0) * rate * 1e6 / d.batch;
    line(
        of,
        ms(d.floor_ms),
        "(weights that are read + batch × KV cache of its context) / (bandwidth × GPUs)",
        format!(
            "({} + {} × {}) / ({} GB/s × {gpus})",
            bytes(s.model.read),
            thousands(d.batch),
            bytes(kv),
            thousands(s.machine.bandwidth_gb_s)
        ),
        note,
    )
}
