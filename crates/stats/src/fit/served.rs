//! A model as it is served: its weights in bytes, its KV cache, and the source of these figures.

use super::architecture::{Architecture, Cache, Count, Entry};
use super::known::Known;
use crate::roofline::{Model, Precision};
use serde::Serialize;

/// Storage format of all weights of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// All weights in one format.
    Uniform(Precision),
    /// Routed experts in MXFP4, everything else in BF16, as in gpt-oss.
    Mxfp4Experts,
}

/// Bytes per parameter in MXFP4: 4 bits, and 8 bits for the scale of each 32 (OCP Microscaling Formats, version 1.0).
const MXFP4_BYTES: f64 = 4.25 / 8.0;

/// The source of a model's figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A built-in model.
    BuiltIn,
    /// A `config.json`.
    ConfigFile,
    /// Figures of the command line or of a plan's `[model]`.
    Given,
}

/// A model as it is served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Served {
    /// Its name.
    pub name: String,
    /// The source of its figures.
    pub origin: Origin,
    /// Its figures for the roofline.
    pub model: Model,
    /// All weights, in bytes.
    pub weights: f64,
    /// Weights that one token uses, in bytes.
    pub read: f64,
    /// Its KV cache.
    pub cache: Cache,
    /// Query heads, if known.
    pub heads: Option<u32>,
    /// Longest sequence, in tokens, if known.
    pub max_len: Option<u32>,
    /// Its parameters by their place, if they were counted.
    pub count: Option<Count>,
    /// The shape that they were counted from.
    pub architecture: Option<Architecture>,
}

impl Served {
    /// Returns a built-in model, in the format of its published weights or in another one.
    ///
    /// # Errors
    /// See [`Self::of`].
    pub fn known(known: &Known, precision: Option<Precision>) -> Result<Self, String> {
        let storage = precision.map_or(known.storage, Storage::Uniform);
        Self::of(known.name.to_owned(), Origin::BuiltIn, known.architecture, storage)
    }

    /// Returns a model of this shape.
    ///
    /// # Errors
    /// It has fewer parameters than any language model, or more.
    pub fn of(
        name: String,
        origin: Origin,
        architecture: Architecture,
        storage: Storage,
    ) -> Result<Self, String> {
        let count = architecture.count();
        let (weights, read) = match storage {
            Storage::Uniform(p) => (count.total() as f64 * p.bytes(), count.active as f64 * p.bytes()),
            Storage::Mxfp4Experts => {
                let bytes = |all: u64, experts: u64| {
                    (all - experts) as f64 * Precision::Bf16.bytes() + experts as f64 * MXFP4_BYTES
                };
                (bytes(count.total(), count.experts), bytes(count.active, count.active_experts))
            }
        };
        let model = Model {
            parameters: count.total().to_string().parse()?,
            active_parameters: match architecture.experts {
                Some(_) => Some(count.active.to_string().parse()?),
                None => None,
            },
            precision: match storage {
                Storage::Uniform(precision) => Some(precision),
                Storage::Mxfp4Experts => None,
            },
            bytes_per_parameter: match storage {
                Storage::Uniform(_) => None,
                Storage::Mxfp4Experts => Some(weights / count.total() as f64),
            },
            layers: None,
            kv_heads: None,
            head_size: None,
            kv_bytes: None,
        };
        Ok(Self {
            name,
            origin,
            model,
            weights,
            read,
            cache: architecture.cache(),
            heads: Some(architecture.heads()),
            max_len: architecture.max_len,
            count: Some(count),
            architecture: Some(architecture),
        })
    }

    /// Returns a model of given figures; `None` if they lack the shape of the KV cache.
    pub fn given(name: String, model: Model) -> Option<Self> {
        let (layers, kv_heads, head_size) = (model.layers?, model.kv_heads?, model.head_size?);
        let entry = Entry::Heads { kv_heads: kv_heads.get(), head_size: head_size.get() };
        Some(Self {
            name,
            origin: Origin::Given,
            weights: model.weights(),
            read: model.read(),
            cache: Cache { layers: layers.get(), entry, sliding: None },
            heads: None,
            max_len: None,
            count: None,
            architecture: None,
            model,
        })
    }

    /// Returns the model with all weights in another format.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        let model = Model { precision: Some(precision), bytes_per_parameter: None, ..self.model };
        Self { weights: model.weights(), read: model.read(), model, ..self.clone() }
    }

    /// Returns true for a mixture of experts.
    pub const fn is_mixture(&self) -> bool {
        self.model.active_parameters.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints of 12.8 and 60.8 GiB (gpt-oss model card, arXiv 2508.10925, table 1).
    #[test]
    fn mixed_formats_have_the_size_of_their_checkpoints() {
        for (name, gib) in [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)] {
            let served = Served::known(Known::find(name).unwrap(), None).unwrap();
            let got = served.weights / 1024_f64.powi(3);
            assert!((got - gib).abs() < 0.1, "{name}: {got}");
            assert!(
                (served.model.weights() / served.weights - 1.0).abs() < 1e-9 && served.read < served.weights
            );
        }
    }
}
