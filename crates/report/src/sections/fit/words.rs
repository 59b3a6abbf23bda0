//! Sentences of a fit.

use super::Fitted;
use crate::document::Advice;
use crate::words::{list, precise};
use goodput_core::units::{short, thousands};
use goodput_stats::fit::{Entry, Origin, Refusal, Remedy, Served, Setup};
use goodput_stats::roofline::Precision;

/// Returns a size: `37.5 GB`, `81.9 kB`.
pub(super) fn bytes(n: f64) -> String {
    match n.abs() {
        a if a >= 1e9 => format!("{} GB", precise_signed(n / 1e9)),
        a if a >= 1e6 => format!("{} MB", precise_signed(n / 1e6)),
        a if a >= 1e3 => format!("{} kB", precise_signed(n / 1e3)),
        _ => format!("{} bytes", short(n)),
    }
}

fn precise_signed(x: f64) -> String {
    if x < 0.0 { format!("−{}", precise(-x)) } else { precise(x) }
}

/// Returns a time: `26.67 ms`, `1.28 s`.
pub(super) fn ms(x: f64) -> String {
    if x < 1e3 { format!("{} ms", precise(x)) } else { format!("{} s", precise(x / 1e3)) }
}

/// Returns the name of a format for people.
fn format_name(p: Precision) -> &'static str {
    match p {
        Precision::Fp32 => "FP32",
        Precision::Fp16 => "FP16",
        Precision::Bf16 => "BF16",
        Precision::Fp8 => "FP8",
        Precision::Int8 => "INT8",
        Precision::Fp4 => "FP4",
        Precision::Int4 => "INT4",
    }
}

/// Returns the value of `--precision` for a format.
fn flag_value(p: Precision) -> &'static str {
    match p {
        Precision::Fp32 => "fp32",
        Precision::Fp16 => "fp16",
        Precision::Bf16 => "bf16",
        Precision::Fp8 => "fp8",
        Precision::Int8 => "int8",
        Precision::Fp4 => "fp4",
        Precision::Int4 => "int4",
    }
}

/// Returns the format of the weights.
pub(super) fn storage(m: &Served) -> String {
    m.model.precision.map_or_else(
        || format!("{} bytes per parameter on average", precise(m.model.bytes())),
        |p| format_name(p).to_owned(),
    )
}

/// Returns model, format and GPUs in a line.
pub(super) fn about(f: &Fitted) -> String {
    let s = &f.setup;
    let gpus = s.machine.tensor_parallel * s.copies;
    let format = s.model.model.precision.map_or(String::new(), |p| format!(" in {}", format_name(p)));
    let source = match s.model.origin {
        Origin::BuiltIn => "built-in figures",
        Origin::ConfigFile => "its config.json",
        Origin::Given => "given figures",
    };
    let copies = match (s.machine.tensor_parallel, s.copies) {
        (1, 1) => String::new(),
        (n, 1) => format!(", tensor-parallel {n}"),
        (1, copies) => format!(", {copies} copies"),
        (n, copies) => format!(", tensor-parallel {n}, {copies} copies"),
    };
    format!("{}{format} ({source}) on {gpus} × {}{copies}.", s.model.name, f.gpu)
}

/// Returns the answer in a sentence or two.
pub(super) fn headline(f: &Fitted) -> String {
    let (s, fit) = (&f.setup, &f.fit);
    let each = if s.copies > 1 { "Each copy holds" } else { "It holds" };
    format!(
        "{each} {} KV blocks, {} tokens: {} sequences of {} + {} tokens at once. One request gets at most {} tokens/s.",
        thousands(fit.blocks as f64),
        thousands(fit.tokens as f64),
        thousands(fit.sequences as f64),
        short(s.input_tokens),
        short(s.output_tokens),
        precise(fit.tokens_per_s)
    )
}

/// Returns how the KV heads are shared among the GPUs.
pub(super) fn share(f: &Fitted) -> String {
    let (share, cache) = (f.fit.share, &f.setup.model.cache);
    let layers = if f.fit.block_layers < cache.layers {
        format!(", {} of {} layers", f.fit.block_layers, cache.layers)
    } else {
        String::new()
    };
    match (cache.entry, f.setup.machine.tensor_parallel) {
        (Entry::Latent { .. }, 1) => format!("latent vector{layers}"),
        (Entry::Latent { .. }, n) => format!("latent vector, whole on each of {n}{layers}"),
        (Entry::Heads { kv_heads, .. }, _) if share.copies > 1 => {
            format!("{} of {kv_heads} KV heads, each on {} GPUs{layers}", share.kv_heads, share.copies)
        }
        (Entry::Heads { kv_heads, .. }, 1) => format!("{kv_heads} KV heads{layers}"),
        (Entry::Heads { kv_heads, .. }, _) => format!("{} of {kv_heads} KV heads{layers}", share.kv_heads),
    }
}

/// Returns what limits the figures, with advice.
pub(super) fn notes(f: &Fitted) -> Vec<Advice> {
    let (s, fit) = (&f.setup, &f.fit);
    let mut notes = Vec::new();
    if fit.longest == 0 {
        notes.push(Advice::new(
            format!(
                "A sequence of max-model-len ({} tokens) takes {} blocks and only {} are free: vLLM refuses to start.",
                thousands(f64::from(s.max_model_len)),
                thousands(fit.longest_blocks as f64),
                thousands((fit.blocks - 1) as f64)
            ),
            format!("set --max-model-len to {} or less", fit.longest_tokens),
        ));
    }
    if f.default_reserved {
        notes.push(Advice::new(
            format!(
                "The {} for activations, CUDA and NCCL are an assumption: with them Llama 70B on four A100 has the 28,626 blocks of a \
                 published example. vLLM measures 3.3 to 5.2 GB for an 8B model (pull request 10511); larger batches of tokens take more.",
                bytes(s.reserved)
            ),
            "take the blocks or the memory that the server logs at its start: --reserved GB",
        ));
    }
    if f.default_lengths {
        notes.push(Advice::new(
            format!(
                "{} input and {} output tokens are defaults.",
                short(s.input_tokens),
                short(s.output_tokens)
            ),
            "give your own: --input-tokens, --output-tokens",
        ));
    }
    if s.model.is_mixture() {
        notes.push(Advice::new(
            "The tokens of a batch use more experts together than one token, so the floor of the full batch is too low.",
            "",
        ));
    }
    if fit.share.copies > 1 && matches!(s.model.cache.entry, Entry::Heads { .. }) {
        notes.push(Advice::new(
            format!(
                "There are more GPUs than KV heads, so {} GPUs keep a copy of each head: more of them add no room for the cache, except \
                 that of the weights.",
                fit.share.copies
            ),
            "",
        ));
    }
    if matches!(s.model.model.precision, Some(Precision::Int4 | Precision::Fp4)) {
        notes.push(Advice::new(
            "The scales of 4-bit formats, and layers that stay in 16 bits, are left out: the weights are larger by 5 to 20 %.",
            "give parameters=…,bytes-per-parameter=… of the checkpoint",
        ));
    }
    notes
}

/// Returns why a model cannot be served, and what would change that.
pub fn refusal(setup: &Setup, gpu: &str, why: &Refusal) -> String {
    match why {
        Refusal::TooLarge { weights, reserved, budget, remedies } => {
            let words: Vec<String> = remedies.iter().map(|remedy| advice(setup, gpu, *remedy)).collect();
            let advice = match &words[..] {
                [] => "no number of GPUs up to 64 suffices, nor a narrower format of the weights; take a GPU with more memory".into(),
                [one] => one.clone(),
                [first @ .., last] => format!("{}, or {last}", first.join(", ")),
            };
            format!(
                "{} does not fit: on each {gpu}, weights ({}) with activations, CUDA and NCCL ({}) leave no room for the KV cache in the \
                 {} that the server takes; {advice}",
                setup.model.name,
                bytes(*weights),
                bytes(*reserved),
                bytes(*budget)
            )
        }
        Refusal::UnevenKvHeads { kv_heads, tensor_parallel, possible } => {
            let possible: Vec<String> = possible.iter().map(u32::to_string).collect();
            format!(
                "tensor-parallel {tensor_parallel} neither divides the {kv_heads} KV heads of {} nor is a multiple of them; it can be {}",
                setup.model.name,
                list(&possible).replace(" and ", " or ")
            )
        }
        Refusal::UnevenHeads { heads, tensor_parallel } => format!(
            "tensor-parallel {tensor_parallel} does not divide the {heads} query heads of {}: choose a divisor of {heads}",
            setup.model.name
        ),
    }
}

fn advice(setup: &Setup, gpu: &str, remedy: Remedy) -> String {
    match remedy {
        Remedy::TensorParallel(n) => format!("--tensor-parallel {n} ({n} × {gpu})"),
        Remedy::Precision(p) => {
            let smaller = setup.model.in_precision(p).weights / f64::from(setup.machine.tensor_parallel);
            format!("--precision {} ({} of weights on each)", flag_value(p), bytes(smaller))
        }
        Remedy::Utilization(share) => format!("--gpu-memory-utilization {share}"),
    }
}
