//! Reads the `config.json` of a model on Hugging Face.

use super::architecture::{Architecture, Attention, Details, Experts, Sliding};
use super::served::{Origin, Served, Storage};
use crate::roofline::Precision;
use serde::Deserialize;

/// The keys that matter. Models of different makers name the number and size of experts differently.
#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    model_type: String,
    hidden_size: u32,
    num_hidden_layers: u32,
    num_attention_heads: u32,
    num_key_value_heads: Option<u32>,
    head_dim: Option<u32>,
    intermediate_size: Option<u32>,
    vocab_size: u32,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: Option<u32>,
    #[serde(alias = "dtype")]
    torch_dtype: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(alias = "n_routed_experts", alias = "num_experts")]
    num_local_experts: Option<u32>,
    num_experts_per_tok: Option<u32>,
    moe_intermediate_size: Option<u32>,
    n_shared_experts: Option<u32>,
    #[serde(default)]
    first_k_dense_replace: u32,
    kv_lora_rank: Option<u32>,
    q_lora_rank: Option<u32>,
    qk_rope_head_dim: Option<u32>,
    qk_nope_head_dim: Option<u32>,
    v_head_dim: Option<u32>,
    sliding_window: Option<u32>,
    #[serde(default)]
    layer_types: Vec<String>,
    quantization_config: Option<Quantization>,
}

/// The format of quantised weights.
#[derive(Debug, Deserialize)]
struct Quantization {
    quant_method: Option<String>,
    bits: Option<u32>,
}

/// Models whose feed-forward networks and attention are those that [`Architecture::count`] counts.
const TYPES: [&str; 12] = [
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gpt_oss",
    "deepseek_v2",
    "deepseek_v3",
    "ministral",
    "smollm3",
    "kimi_k2",
];

/// Reads a configuration; `precision` takes the place of its own format of the weights.
///
/// # Errors
/// It is no JSON, lacks a key, or is of a kind of model whose parameters cannot be counted.
pub fn read(name: String, json: &str, precision: Option<Precision>) -> Result<Served, String> {
    let config: Config = serde_json::from_str(json).map_err(|e| e.to_string())?;
    if !TYPES.contains(&config.model_type.as_str()) {
        return Err(format!(
            "its model_type \"{}\" is not among those whose parameters are counted ({}): write its figures instead, \
             parameters=8B,layers=32,kv-heads=8,head-size=128",
            config.model_type,
            TYPES.join(", ")
        ));
    }
    let storage = match precision {
        Some(precision) => Storage::Uniform(precision),
        None => config.storage()?,
    };
    Served::of(name, Origin::ConfigFile, config.architecture()?, storage)
}

impl Config {
    fn architecture(&self) -> Result<Architecture, String> {
        let missing = |key: &str| format!("it has no {key}");
        if self.num_attention_heads == 0 || self.num_hidden_layers == 0 || self.hidden_size == 0 {
            return Err("hidden_size, num_hidden_layers and num_attention_heads must not be 0".into());
        }
        let heads = self.num_attention_heads;
        let attention = match self.kv_lora_rank {
            Some(kv_rank) => Attention::Latent {
                heads,
                q_rank: self.q_lora_rank,
                kv_rank,
                rope: self.qk_rope_head_dim.ok_or_else(|| missing("qk_rope_head_dim"))?,
                nope: self.qk_nope_head_dim.ok_or_else(|| missing("qk_nope_head_dim"))?,
                value: self.v_head_dim.ok_or_else(|| missing("v_head_dim"))?,
            },
            None => Attention::Heads {
                heads,
                kv_heads: self.num_key_value_heads.unwrap_or(heads),
                head_size: self.head_dim.unwrap_or(self.hidden_size / heads),
            },
        };
        if matches!(attention, Attention::Heads { kv_heads: 0, .. } | Attention::Heads { head_size: 0, .. }) {
            return Err("num_key_value_heads and head_dim must not be 0".into());
        }
        let is_oss = self.model_type == "gpt_oss";
        let experts = match self.num_local_experts {
            Some(count) => Some(Experts {
                count,
                per_token: self.num_experts_per_tok.ok_or_else(|| missing("num_experts_per_tok"))?,
                intermediate: self
                    .moe_intermediate_size
                    .or(self.intermediate_size)
                    .ok_or_else(|| missing("moe_intermediate_size"))?,
                shared: self.n_shared_experts.unwrap_or(0),
                dense_layers: self.first_k_dense_replace.min(self.num_hidden_layers),
                biased: is_oss,
            }),
            None => None,
        };
        let windowed = self.layer_types.iter().filter(|kind| *kind == "sliding_attention").count();
        let sliding = self.sliding_window.filter(|_| windowed > 0);
        Ok(Architecture {
            hidden: self.hidden_size,
            layers: self.num_hidden_layers,
            intermediate: self.intermediate_size.ok_or_else(|| missing("intermediate_size"))?,
            vocabulary: self.vocab_size,
            tied: self.tie_word_embeddings.unwrap_or(false),
            attention,
            details: Details {
                qkv_bias: self.attention_bias || self.model_type == "qwen2" || is_oss,
                out_bias: (self.attention_bias && self.model_type == "llama") || is_oss,
                qk_norm: self.model_type.starts_with("qwen3"),
                sinks: is_oss,
            },
            experts,
            sliding: sliding.map(|window| Sliding {
                layers: u32::try_from(windowed).unwrap_or(u32::MAX).min(self.num_hidden_layers),
                window,
            }),
            max_len: self.max_position_embeddings,
        })
    }

    /// Returns the format of the weights.
    fn storage(&self) -> Result<Storage, String> {
        if let Some(q) = &self.quantization_config {
            let method = q.quant_method.as_deref().unwrap_or_default();
            return match (method, q.bits) {
                ("fp8", _) => Ok(Storage::Uniform(Precision::Fp8)),
                ("mxfp4", _) => Ok(Storage::Mxfp4Experts),
                ("awq" | "gptq" | "bitsandbytes", Some(4)) => Ok(Storage::Uniform(Precision::Int4)),
                ("gptq" | "bitsandbytes", Some(8)) => Ok(Storage::Uniform(Precision::Int8)),
                _ => Err(format!(
                    "its quantization_config (quant_method \"{method}\") has no known size: add --precision fp8, int8, fp4 or int4"
                )),
            };
        }
        match self.torch_dtype.as_deref() {
            Some("bfloat16") | None => Ok(Storage::Uniform(Precision::Bf16)),
            Some("float16") => Ok(Storage::Uniform(Precision::Fp16)),
            Some("float32") => Ok(Storage::Uniform(Precision::Fp32)),
            Some(other) => Err(format!("its torch_dtype \"{other}\" is unknown: add --precision")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Known;

    const QWEN: &str = r#"{ "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 12288, "max_position_embeddings": 40960, "model_type": "qwen3", "num_attention_heads": 32,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "sliding_window": null, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936 }"#;

    #[test]
    fn a_configuration_gives_the_built_in_model() {
        let read = read("x".into(), QWEN, None).unwrap();
        let known = Known::find("qwen3-8b").unwrap();
        assert_eq!(read.architecture, Some(known.architecture));
        assert!((read.weights - 16_381_470_720.0).abs() < 1.0, "{}", read.weights);
    }

    /// Rows: a key and another value for it, or another key; bytes per parameter, or part of the message.
    #[test]
    fn formats_and_errors() {
        for (from, to, want) in [
            ("\"bfloat16\"", "\"float32\"", Ok(4.0)),
            ("torch_dtype", "dtype", Ok(2.0)),
            (
                "\"use_sliding_window\": false",
                "\"quantization_config\": {\"quant_method\": \"fp8\"}",
                Ok(1.0),
            ),
            (
                "\"use_sliding_window\": false",
                "\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4}",
                Ok(0.5),
            ),
            (
                "\"use_sliding_window\": false",
                "\"quantization_config\": {\"quant_method\": \"quark\"}",
                Err("add --precision fp8"),
            ),
            ("\"bfloat16\"", "\"float8\"", Err("its torch_dtype \"float8\" is unknown")),
            ("\"qwen3\"", "\"mamba\"", Err("its model_type \"mamba\" is not among")),
            ("\"hidden_size\"", "\"hidden\"", Err("missing field `hidden_size`")),
            ("\"num_attention_heads\": 32", "\"num_attention_heads\": 0", Err("must not be 0")),
            ("{ \"architectures\"", "[", Err("expected")),
        ] {
            let got = read("x".into(), &QWEN.replacen(from, to, 1), None);
            match (got, want) {
                (Ok(got), Ok(bytes)) => assert!((got.model.bytes() - bytes).abs() < 1e-9, "{to}"),
                (Err(e), Err(says)) => assert!(e.contains(says), "{to}: {e}"),
                (got, want) => panic!("{to}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn shapes_of_other_makers_are_read() {
        let oss = r#"{ "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 4,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088, "num_local_experts": 32,
            "num_experts_per_tok": 4, "sliding_window": 128, "quantization_config": { "quant_method": "mxfp4" },
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"] }"#;
        let got = read("x".into(), oss, None).unwrap();
        let known = Known::find("gpt-oss-20b").unwrap().architecture;
        let want = Architecture {
            layers: 4,
            sliding: Some(Sliding { layers: 2, window: 128 }),
            max_len: None,
            ..known
        };
        assert_eq!(got.architecture, Some(want));
        let deepseek = r#"{ "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
            "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "n_routed_experts": 256,
            "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
            "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
            "max_position_embeddings": 163840, "quantization_config": { "quant_method": "fp8" } }"#;
        let got = read("x".into(), deepseek, None).unwrap();
        assert_eq!(got.architecture, Some(Known::find("deepseek-r1").unwrap().architecture));
    }
}
