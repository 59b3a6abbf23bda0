//! The built-in models: shapes of their published `config.json` files.

use super::architecture::{Architecture, Attention, Details, Experts, Sliding};
use super::served::Storage;
use crate::roofline::Precision;

/// A built-in model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Its name in this table.
    pub name: &'static str,
    /// Other names of models with these figures.
    aliases: &'static [&'static str],
    /// Its shape.
    pub architecture: Architecture,
    /// The format of its published weights.
    pub storage: Storage,
}

const fn heads(heads: u32, kv_heads: u32, head_size: u32) -> Attention {
    Attention::Heads { heads, kv_heads, head_size }
}

/// Returns a dense model without biases; `(hidden, layers, intermediate, vocabulary)`.
const fn dense(
    (hidden, layers, intermediate, vocabulary): (u32, u32, u32, u32),
    attention: Attention,
    max_len: u32,
) -> Architecture {
    Architecture {
        hidden,
        layers,
        intermediate,
        vocabulary,
        tied: false,
        attention,
        details: Details { qkv_bias: false, out_bias: false, qk_norm: false, sinks: false },
        experts: None,
        sliding: None,
        max_len: Some(max_len),
    }
}

const fn qwen3(shape: (u32, u32, u32, u32), attention: Attention, tied: bool) -> Architecture {
    let plain = dense(shape, attention, 40_960);
    Architecture { tied, details: Details { qk_norm: true, ..plain.details }, ..plain }
}

/// Returns a gpt-oss: every other layer has a window of 128 tokens, and attention and experts have biases.
const fn gpt_oss(layers: u32, count: u32) -> Architecture {
    Architecture {
        details: Details { qkv_bias: true, out_bias: true, qk_norm: false, sinks: true },
        experts: Some(Experts {
            count,
            per_token: 4,
            intermediate: 2880,
            shared: 0,
            dense_layers: 0,
            biased: true,
        }),
        sliding: Some(Sliding { layers: layers / 2, window: 128 }),
        ..dense((2880, layers, 2880, 201_088), heads(64, 8, 64), 131_072)
    }
}

const fn bf16(name: &'static str, aliases: &'static [&'static str], architecture: Architecture) -> Known {
    Known { name, aliases, architecture, storage: Storage::Uniform(Precision::Bf16) }
}

/// The built-in models.
pub const MODELS: &[Known] = &[
    bf16(
        "llama-3.2-1b",
        &[],
        Architecture { tied: true, ..dense((2048, 16, 8192, 128_256), heads(32, 8, 64), 131_072) },
    ),
    bf16(
        "llama-3.2-3b",
        &[],
        Architecture { tied: true, ..dense((3072, 28, 8192, 128_256), heads(24, 8, 128), 131_072) },
    ),
    bf16("llama-3.1-8b", &[], dense((4096, 32, 14_336, 128_256), heads(32, 8, 128), 131_072)),
    bf16("llama-3.1-70b", &["llama-3.3-70b"], dense((8192, 80, 28_672, 128_256), heads(64, 8, 128), 131_072)),
    bf16("llama-3.1-405b", &[], dense((16_384, 126, 53_248, 128_256), heads(128, 8, 128), 131_072)),
    bf16("qwen3-0.6b", &[], qwen3((1024, 28, 3072, 151_936), heads(16, 8, 128), true)),
    bf16("qwen3-1.7b", &[], qwen3((2048, 28, 6144, 151_936), heads(16, 8, 128), true)),
    bf16("qwen3-4b", &[], qwen3((2560, 36, 9728, 151_936), heads(32, 8, 128), true)),
    bf16("qwen3-8b", &[], qwen3((4096, 36, 12_288, 151_936), heads(32, 8, 128), false)),
    bf16("qwen3-14b", &[], qwen3((5120, 40, 17_408, 151_936), heads(40, 8, 128), false)),
    bf16("qwen3-32b", &[], qwen3((5120, 64, 25_600, 151_936), heads(64, 8, 128), false)),
    bf16(
        "qwen3-30b-a3b",
        &[],
        Architecture {
            experts: Some(Experts {
                count: 128,
                per_token: 8,
                intermediate: 768,
                shared: 0,
                dense_layers: 0,
                biased: false,
            }),
            ..qwen3((2048, 48, 6144, 151_936), heads(32, 4, 128), false)
        },
    ),
    bf16("mistral-7b", &["mistral-7b-v0.3"], dense((4096, 32, 14_336, 32_768), heads(32, 8, 128), 32_768)),
    bf16(
        "mixtral-8x7b",
        &["mixtral-8x7b-v0.1"],
        Architecture {
            experts: Some(Experts {
                count: 8,
                per_token: 2,
                intermediate: 14_336,
                shared: 0,
                dense_layers: 0,
                biased: false,
            }),
            ..dense((4096, 32, 14_336, 32_000), heads(32, 8, 128), 32_768)
        },
    ),
    Known {
        name: "gpt-oss-20b",
        aliases: &[],
        architecture: gpt_oss(24, 32),
        storage: Storage::Mxfp4Experts,
    },
    Known {
        name: "gpt-oss-120b",
        aliases: &[],
        architecture: gpt_oss(36, 128),
        storage: Storage::Mxfp4Experts,
    },
    Known {
        name: "deepseek-r1",
        aliases: &["deepseek-v3", "deepseek-r1-0528", "deepseek-v3-0324"],
        architecture: DEEPSEEK,
        storage: Storage::Uniform(Precision::Fp8),
    },
];

/// DeepSeek-V3 and R1 without the layer that drafts tokens, which vLLM loads only on request.
const DEEPSEEK: Architecture = Architecture {
    experts: Some(Experts {
        count: 256,
        per_token: 8,
        intermediate: 2048,
        shared: 1,
        dense_layers: 3,
        biased: false,
    }),
    ..dense(
        (7168, 61, 18_432, 129_280),
        Attention::Latent { heads: 128, q_rank: Some(1536), kv_rank: 512, rope: 64, nope: 128, value: 128 },
        163_840,
    )
};

/// Endings of repository names that say nothing about the shape.
const ENDINGS: [&str; 4] = ["-instruct", "-chat", "-it", "-hf"];

impl Known {
    /// Finds a model by its name, with or without an organisation before it and an ending such as `-Instruct`.
    pub fn find(name: &str) -> Option<&'static Self> {
        let lower = name.trim().to_lowercase();
        let mut bare = lower.rsplit('/').next().unwrap_or_default();
        bare = bare.strip_prefix("meta-").unwrap_or(bare);
        let named = |name: &str| MODELS.iter().find(|m| m.name == name || m.aliases.contains(&name));
        named(bare).or_else(|| {
            // `Mistral-7B-Instruct-v0.3` has its ending before the version.
            let joined = ENDINGS.iter().fold(bare.to_owned(), |text, ending| text.replacen(ending, "", 1));
            named(&joined)
        })
    }

    /// Returns the names of all models, for messages.
    pub fn names() -> String {
        MODELS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters as published on the models' pages (number of elements of their safetensors, tied output embeddings once), and
    /// billions that one token uses, where published.
    #[test]
    fn parameters_are_those_published() {
        for (name, total, active) in [
            ("llama-3.2-1b", 1_235_814_400, None),
            ("llama-3.2-3b", 3_212_749_824, None),
            ("llama-3.1-8b", 8_030_261_248, None),
            ("llama-3.1-70b", 70_553_706_496, None),
            ("llama-3.1-405b", 405_853_388_800, None),
            ("qwen3-0.6b", 596_049_920, None),
            ("qwen3-8b", 8_190_735_360, None),
            ("qwen3-14b", 14_768_307_200, None),
            ("qwen3-32b", 32_762_123_264, None),
            ("qwen3-30b-a3b", 30_532_122_624, Some(3.0)),
            ("mistral-7b", 7_248_023_552, None),
            ("mixtral-8x7b", 46_702_792_704, Some(12.7)),
            ("gpt-oss-20b", 20_914_757_184, Some(3.6)),
            ("gpt-oss-120b", 116_829_156_672, Some(5.1)),
            ("deepseek-r1", 671_026_404_352, Some(36.6)),
        ] {
            let count = Known::find(name).unwrap().architecture.count();
            assert_eq!(count.total(), total, "{name}: {count:?}");
            let billions = (count.active as f64 / 1e8).round() / 10.0;
            assert!(active.is_none_or(|want: f64| (billions - want).abs() < 0.05), "{name}: {billions}");
        }
    }

    #[test]
    fn models_are_found_by_the_names_of_their_repositories() {
        for (name, want) in [
            ("llama-3.1-8b", Some("llama-3.1-8b")),
            ("meta-llama/Llama-3.1-8B-Instruct", Some("llama-3.1-8b")),
            ("meta-llama/Meta-Llama-3.1-70B-Instruct", Some("llama-3.1-70b")),
            ("Llama-3.3-70B-Instruct", Some("llama-3.1-70b")),
            ("mistralai/Mistral-7B-Instruct-v0.3", Some("mistral-7b")),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some("mixtral-8x7b")),
            ("Qwen/Qwen3-8B", Some("qwen3-8b")),
            ("Qwen/Qwen3-8B-FP8", None),
            ("openai/gpt-oss-120b", Some("gpt-oss-120b")),
            ("llama-3.1-9b", None),
            ("", None),
        ] {
            assert_eq!(Known::find(name).map(|m| m.name), want, "{name}");
        }
    }
}
