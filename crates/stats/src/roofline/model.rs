//! The plan's `[model]` table: the properties of a model that determine its speed.

use super::quantity::Parameters;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Storage format of a model's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// 32 bits, computed as TF32.
    Fp32,
    /// 16 bits.
    Fp16,
    /// 16 bits.
    Bf16,
    /// 8 bits, computed in 8.
    Fp8,
    /// 8 bits, computed in 8.
    Int8,
    /// 4 bits, computed in 4 where the GPU can, else in 16.
    Fp4,
    /// 4 bits (AWQ, GPTQ), computed in 16.
    Int4,
}

impl Precision {
    /// Returns the bytes per parameter. For 4-bit formats the scales of the groups are left out: a floor must not be too high.
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Fp32 => 4.0,
            Self::Fp16 | Self::Bf16 => 2.0,
            Self::Fp8 | Self::Int8 => 1.0,
            Self::Fp4 | Self::Int4 => 0.5,
        }
    }
}

/// Properties of a model that determine its speed: the plan's `[model]` table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Model {
    /// Number of parameters.
    pub parameters: Parameters,
    /// Parameters active per token; all of them unless the model is a mixture of experts.
    pub active: Option<Parameters>,
    /// Storage format of the weights, if declared.
    pub precision: Option<Precision>,
    /// Bytes per parameter.
    pub bytes: f64,
    /// Size of a token in the KV cache, if declared.
    pub kv: Option<Kv>,
}

/// Size of a token in the KV cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kv {
    /// Number of layers.
    pub layers: NonZeroU32,
    /// Key-value heads per layer.
    pub heads: NonZeroU32,
    /// Dimension of an attention head.
    pub head_size: NonZeroU32,
    /// Bytes per number.
    pub bytes: f64,
}

/// The `[model]` table as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "ModelTable")]
struct Raw {
    /// Number of parameters of the model, such as "8B".
    parameters: Parameters,
    /// Parameters active per token, for a mixture of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active_parameters: Option<Parameters>,
    /// Storage format of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    precision: Option<Precision>,
    /// Bytes per parameter, in place of `precision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes_per_parameter: Option<f64>,
    /// Number of layers. With `kv-heads` and `head-size` it gives the size of a token in the KV cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layers: Option<NonZeroU32>,
    /// Key-value heads per layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kv_heads: Option<NonZeroU32>,
    /// Dimension of an attention head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head_size: Option<NonZeroU32>,
    /// Bytes per number in the KV cache; 2 by default, 1 for an FP8 cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kv_bytes: Option<f64>,
}

impl TryFrom<Raw> for Model {
    type Error = String;
    fn try_from(raw: Raw) -> Result<Self, String> {
        if let Some(active) = raw.active_parameters.filter(|a| *a > raw.parameters) {
            return Err(format!(
                "active-parameters ({}) are more than parameters ({}): active-parameters are those that one token goes through, in a \
                 mixture of experts; leave the key out of any other model",
                active.get(),
                raw.parameters.get()
            ));
        }
        let bytes = match (raw.precision, raw.bytes_per_parameter) {
            (Some(_), Some(_)) => {
                return Err("precision and bytes-per-parameter say the same: keep one".into());
            }
            (Some(precision), None) => precision.bytes(),
            (None, Some(bytes)) if (0.1..=8.0).contains(&bytes) => bytes,
            (None, Some(bytes)) => {
                return Err(format!("bytes-per-parameter lies between 0.1 and 8 (2 for FP16), got {bytes}"));
            }
            (None, None) => {
                return Err(
                    "precision is missing: fp32, fp16, bf16, fp8, int8, fp4 or int4; or write bytes-per-parameter".into()
                );
            }
        };
        let kv = match (raw.layers, raw.kv_heads, raw.head_size) {
            (Some(layers), Some(heads), Some(head_size)) => {
                let bytes = raw.kv_bytes.unwrap_or(2.0);
                if !(0.1..=8.0).contains(&bytes) {
                    return Err(format!(
                        "kv-bytes lies between 0.1 and 8 (2 for FP16, 1 for FP8), got {bytes}"
                    ));
                }
                Some(Kv { layers, heads, head_size, bytes })
            }
            (None, None, None) if raw.kv_bytes.is_none() => None,
            _ => {
                return Err(
                    "layers, kv-heads and head-size go together: a token has 2 × layers × kv-heads × head-size numbers in the KV \
                     cache, of kv-bytes each"
                        .into(),
                );
            }
        };
        Ok(Self {
            parameters: raw.parameters,
            active: raw.active_parameters,
            precision: raw.precision,
            bytes,
            kv,
        })
    }
}

impl From<Model> for Raw {
    fn from(m: Model) -> Self {
        Self {
            parameters: m.parameters,
            active_parameters: m.active,
            precision: m.precision,
            bytes_per_parameter: m.precision.is_none().then_some(m.bytes),
            layers: m.kv.map(|kv| kv.layers),
            kv_heads: m.kv.map(|kv| kv.heads),
            head_size: m.kv.map(|kv| kv.head_size),
            kv_bytes: m.kv.map(|kv| kv.bytes),
        }
    }
}

impl Model {
    /// Returns the size of all weights in bytes.
    pub fn weights(&self) -> f64 {
        self.parameters.get() * self.bytes
    }

    /// Returns the bytes of the weights that one token uses. The tokens of a batch use at least as many together.
    pub fn read(&self) -> f64 {
        self.active.unwrap_or(self.parameters).get() * self.bytes
    }

    /// Returns the floating-point operations per token: two for each active parameter.
    pub fn flops_per_token(&self) -> f64 {
        2.0 * self.active.unwrap_or(self.parameters).get()
    }

    /// Returns the bytes that a token occupies in the KV cache: its key and value in each layer.
    pub fn kv_per_token(&self) -> Option<f64> {
        let of = |kv: Kv| {
            2.0 * f64::from(kv.layers.get())
                * f64::from(kv.heads.get())
                * f64::from(kv.head_size.get())
                * kv.bytes
        };
        self.kv.map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_round_trip() {
        let qwen = "parameters = \"0.6B\"\nprecision = \"bf16\"\nlayers = 28\nkv-heads = 8\nhead-size = 128";
        let m: Model = toml::from_str(qwen).unwrap();
        assert_eq!(toml::from_str::<Model>(&toml::to_string(&m).unwrap()), Ok(m));
        assert!((m.weights() - 1.2e9).abs() < 1.0 && m.kv_per_token() == Some(114_688.0), "112 KiB");
        let moe = "parameters = \"30B\"\nactive-parameters = \"3B\"\nbytes-per-parameter = 0.56";
        let m: Model = toml::from_str(moe).unwrap();
        assert_eq!(toml::from_str::<Model>(&toml::to_string(&m).unwrap()), Ok(m));
        assert!((m.read() - 1.68e9).abs() < 1.0 && (m.flops_per_token() - 6e9).abs() < 1.0);
        assert_eq!(m.kv_per_token(), None);
    }

    #[test]
    fn error_messages_say_what_to_write() {
        for (text, says) in [
            ("precision = \"fp16\"", "missing field `parameters`"),
            ("parameters = \"8B\"", "precision is missing"),
            ("parameters = \"8B\"\nprecision = \"half\"", "unknown variant `half`"),
            ("parameters = \"8B\"\nprecision = \"fp16\"\nbytes-per-parameter = 2", "keep one"),
            ("parameters = \"8B\"\nbytes-per-parameter = 16", "between 0.1 and 8"),
            ("parameters = \"3B\"\nactive-parameters = \"30B\"\nprecision = \"fp8\"", "mixture of experts"),
            ("parameters = \"8B\"\nprecision = \"fp16\"\nlayers = 32", "go together"),
            ("parameters = \"8B\"\nprecision = \"fp16\"\nkv-bytes = 1", "go together"),
            (
                "parameters = \"8B\"\nprecision = \"fp16\"\nlayers = 32\nkv-heads = 8\nhead-size = 128\nkv-bytes = 0",
                "kv-bytes lies between",
            ),
            ("parameters = \"8B\"\nprecision = \"fp16\"\nexperts = 8", "unknown field `experts`"),
        ] {
            let e = toml::from_str::<Model>(text).unwrap_err().to_string();
            assert!(e.contains(says), "{text}: {e}");
        }
    }
}
