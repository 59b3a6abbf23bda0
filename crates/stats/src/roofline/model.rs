//! The plan's `[model]` table: the properties of a model that determine its speed.

use super::quantity::Parameters;
use goodput_core::checked;
use goodput_core::units::plain_number;
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
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct Model {
    /// Number of parameters of the model, such as "8B".
    pub parameters: Parameters,
    /// Parameters active per token, for a mixture of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_parameters: Option<Parameters>,
    /// Storage format of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Bytes per parameter, in place of `precision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_parameter: Option<f64>,
    /// Number of layers. With `kv-heads` and `head-size` it gives the size of a token in the KV cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<NonZeroU32>,
    /// Key-value heads per layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<NonZeroU32>,
    /// Dimension of an attention head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<NonZeroU32>,
    /// Bytes per number in the KV cache; 2 by default, 1 for an FP8 cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_bytes: Option<f64>,
}

checked!(Model);

/// Range of the bytes per parameter, and of the bytes per number in the KV cache.
const BYTES: std::ops::RangeInclusive<f64> = 0.1..=8.0;

impl Model {
    fn check(&self) -> Result<(), String> {
        if let Some(active) = self.active_parameters.filter(|a| *a > self.parameters) {
            return Err(format!(
                "active-parameters ({}) are more than parameters ({}): active-parameters are those that one token goes through, in a \
                 mixture of experts; leave the key out of any other model",
                active.get(),
                self.parameters.get()
            ));
        }
        match (self.precision, self.bytes_per_parameter) {
            (Some(_), Some(_)) => {
                return Err("precision and bytes-per-parameter say the same: keep one".into());
            }
            (None, Some(bytes)) if !BYTES.contains(&bytes) => {
                return Err(format!(
                    "bytes-per-parameter lies between 0.1 and 8 (2 for FP16), got {}",
                    plain_number(bytes)
                ));
            }
            (None, None) => {
                return Err(
                    "precision is missing: fp32, fp16, bf16, fp8, int8, fp4 or int4; or write bytes-per-parameter".into()
                );
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        match (self.layers, self.kv_heads, self.head_size, self.kv_bytes) {
            (Some(_), Some(_), Some(_), Some(bytes)) if !BYTES.contains(&bytes) => {
                Err(format!("kv-bytes lies between 0.1 and 8 (2 for FP16, 1 for FP8), got {}", plain_number(bytes)))
            }
            (Some(_), Some(_), Some(_), _) | (None, None, None, None) => Ok(()),
            _ => Err("layers, kv-heads and head-size go together: a token has 2 × layers × kv-heads × head-size numbers in the KV \
                      cache, of kv-bytes each"
                .into()),
        }
    }

    /// Returns the bytes per parameter.
    pub fn bytes(&self) -> f64 {
        let by_precision = self.precision.map_or(f64::NAN, Precision::bytes);
        self.bytes_per_parameter.unwrap_or(by_precision)
    }

    /// Returns the size of all weights in bytes.
    pub fn weights(&self) -> f64 {
        self.parameters.get() * self.bytes()
    }

    /// Returns the bytes of the weights that one token uses. The tokens of a batch use at least as many together.
    pub fn read(&self) -> f64 {
        self.active_parameters.unwrap_or(self.parameters).get() * self.bytes()
    }

    /// Returns the floating-point operations per token: two for each active parameter.
    pub fn flops_per_token(&self) -> f64 {
        2.0 * self.active_parameters.unwrap_or(self.parameters).get()
    }

    /// Returns the bytes that a token occupies in the KV cache: its key and value in each layer.
    pub fn kv_per_token(&self) -> Option<f64> {
        let numbers = f64::from(self.layers?.get())
            * f64::from(self.kv_heads?.get())
            * f64::from(self.head_size?.get());
        Some(2.0 * numbers * self.kv_bytes.unwrap_or(2.0))
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
