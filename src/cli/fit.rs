//! Arguments of `fit`.

use super::shared::{number, positive};
use crate::roofline::Precision;
use crate::units::Positive;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use std::num::NonZeroU32;
use std::path::PathBuf;

const HELP: &str =
    "SPEC is the name of a built-in model (llama-3.1-8b, meta-llama/Llama-3.1-8B-Instruct, …; an unknown
name lists all), the config.json of a model on Hugging Face or its folder, or figures such as
parameters=8B,layers=32,kv-heads=8,head-size=128, with the keys of a plan's [model].

A PLAN gives its [model] and [hardware], the lengths of its workload, and the flags of the server
that it starts or simulates. Options take precedence.

The floors are lower bounds of times. The KV blocks are those of vLLM, up to the memory that it uses
beside weights and cache, which only its log tells (--reserved).

Examples:
  goodput fit --model llama-3.1-8b --gpu A10
  goodput fit --model llama-3.1-70b --gpu 'A100 80GB' --tensor-parallel 4 --explain
  goodput fit --model ./config.json --gpu H100 --precision fp8 --kv-cache-dtype fp8
  goodput fit --model parameters=8B,layers=32,kv-heads=8,head-size=128 --gpu L4 --json
  goodput fit plan.toml --max-model-len 32768";

/// Arguments of `fit`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct FitArgs {
    /// Plan whose model, hardware and workload are used: a file, or the name of a built-in plan.
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Model: a built-in name, a config.json, or figures; see below.
    #[arg(long, value_name = "SPEC")]
    pub model: Option<String>,
    /// GPU of the built-in data sheets, in any spelling: 'A100 80GB', H100, L4. An unknown name lists all.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Number of GPUs of all copies of the model together [default: those of one copy].
    #[arg(long, value_name = "N")]
    pub gpus: Option<NonZeroU32>,
    /// Number of GPUs that hold one copy [default: all].
    #[arg(long, value_name = "N")]
    pub tensor_parallel: Option<NonZeroU32>,
    /// Longest sequence in tokens, prompt and answer together [default: that of the model].
    #[arg(long, value_name = "N")]
    pub max_model_len: Option<NonZeroU32>,
    /// Format of the weights: fp32, fp16, bf16, fp8, int8, fp4 or int4 [default: that of the published weights, or bf16].
    #[arg(long, value_name = "FORMAT", value_parser = precision)]
    pub precision: Option<Precision>,
    /// Data type of the KV cache, as vLLM's flag [default: auto, 16 bits].
    #[arg(long, value_name = "TYPE", conflicts_with = "kv_bytes")]
    pub kv_cache_dtype: Option<KvType>,
    /// Bytes per number in the KV cache, instead of its data type.
    #[arg(long, value_name = "N", value_parser = kv_bytes)]
    pub kv_bytes: Option<f64>,
    /// Share of each GPU's memory that the server takes [default: 0.9].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub gpu_memory_utilization: Option<f64>,
    /// Memory of each GPU for activations, CUDA and NCCL, in GB [default: 3.69].
    #[arg(long, value_name = "GB", value_parser = reserved)]
    pub reserved: Option<f64>,
    /// Memory of each GPU that the driver reports, in GiB [default: that of the built-in GPU].
    #[arg(long, value_name = "GIB", value_parser = positive)]
    pub gpu_memory: Option<Positive>,
    /// Tokens per KV block.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::new(crate::fit::BLOCK_TOKENS).expect("not zero"))]
    pub block_size: NonZeroU32,
    /// Mean input tokens per request [default: those of the plan, or 512].
    #[arg(long, value_name = "N")]
    pub input_tokens: Option<u32>,
    /// Mean output tokens per request [default: those of the plan, or 128].
    #[arg(long, value_name = "N")]
    pub output_tokens: Option<u32>,
    /// Override a key of the plan, as in hardware.gpu=H100. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "plan")]
    pub set: Vec<String>,
    /// Show every formula with its numbers.
    #[arg(long)]
    pub explain: bool,
    /// Print the figures and formulas as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Data type of the KV cache, as in vLLM's `--kv-cache-dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvType {
    /// The model's own: 16 bits, or 32 for a model in FP32.
    Auto,
    /// 16 bits.
    #[value(alias = "bf16")]
    Bfloat16,
    /// 16 bits.
    #[value(alias = "fp16", alias = "half")]
    Float16,
    /// 8 bits.
    #[value(alias = "fp8_e4m3", alias = "fp8_e5m2", alias = "fp8_inc")]
    Fp8,
}

fn precision(text: &str) -> Result<Precision, String> {
    let words: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    Precision::deserialize(words).map_err(|e| e.to_string())
}

fn within(text: &str, range: std::ops::RangeInclusive<f64>, what: &str) -> Result<f64, String> {
    let value = number(text)?;
    if range.contains(&value) { Ok(value) } else { Err(format!("{what}, got {text}")) }
}

fn kv_bytes(text: &str) -> Result<f64, String> {
    within(text, 0.1..=8.0, "it lies between 0.1 and 8 (2 for FP16, 1 for FP8)")
}

fn share(text: &str) -> Result<f64, String> {
    within(text, 0.01..=1.0, "it is a share from 0.01 to 1, such as 0.9")
}

fn reserved(text: &str) -> Result<f64, String> {
    within(text, 0.0..=1e4, "it is a number of GB from 0 on, such as 3.69")
}
