//! Reasons why a model does not fit, and the changes with which it would.

use super::Fit;
use super::Setup;
use super::architecture::Entry;
use crate::roofline::Precision;
use serde::Serialize;

/// The reason why a model cannot be served.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Refusal {
    /// The weights leave no room for the KV cache.
    TooLarge {
        /// Weights on one GPU, in bytes.
        weights: f64,
        /// Memory for activations, CUDA and NCCL on one GPU, in bytes.
        reserved: f64,
        /// Memory that the server may take of one GPU, in bytes.
        budget: f64,
        /// Changes with which it fits; none if no single one suffices.
        remedies: Vec<Remedy>,
    },
    /// Tensor parallelism neither divides the KV heads nor is a multiple of them.
    UnevenKvHeads {
        /// KV heads of the model.
        kv_heads: u32,
        /// GPUs of one copy.
        tensor_parallel: u32,
        /// Numbers of GPUs that do, up to 64.
        possible: Vec<u32>,
    },
    /// Tensor parallelism does not divide the query heads.
    UnevenHeads {
        /// Query heads of the model.
        heads: u32,
        /// GPUs of one copy.
        tensor_parallel: u32,
    },
}

/// A change with which a model fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// The smallest number of GPUs for one copy.
    TensorParallel(u32),
    /// The widest format of the weights.
    Precision(Precision),
    /// The smallest share of memory, in whole percent.
    Utilization(f64),
}

/// Formats to suggest, the widest first.
const FORMATS: [Precision; 3] = [Precision::Bf16, Precision::Fp8, Precision::Int4];
/// Numbers of GPUs to suggest: those of the servers that exist.
const GPUS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Largest share of memory to suggest; beyond it, memory that vLLM does not count runs out.
const MOST: f64 = 0.95;

impl Refusal {
    pub(super) fn too_large(setup: &Setup, fit: &Fit) -> Self {
        let fits = |changed: &Setup| changed.unchecked().is_ok_and(|fit| fit.sequences >= 1);
        let gpus = GPUS.into_iter().filter(|n| *n > setup.machine.tensor_parallel).find(|n| {
            let mut changed = setup.clone();
            changed.machine.tensor_parallel = *n;
            fits(&changed)
        });
        let bytes = setup.model.model.bytes();
        let format = FORMATS
            .into_iter()
            .filter(|p| p.bytes() < bytes)
            .find(|p| fits(&Setup { model: setup.model.in_precision(*p), ..setup.clone() }));
        let from = (setup.utilization * 100.0).floor() as u32 + 1;
        let shares = (from..=(MOST * 100.0) as u32).map(|percent| f64::from(percent) / 100.0);
        let share = { shares }.find(|share| fits(&Setup { utilization: *share, ..setup.clone() }));
        let remedies =
            [share.map(Remedy::Utilization), gpus.map(Remedy::TensorParallel), format.map(Remedy::Precision)];
        Self::TooLarge {
            weights: fit.weights,
            reserved: setup.reserved,
            budget: fit.budget,
            remedies: remedies.into_iter().flatten().collect(),
        }
    }

    pub(super) fn uneven_kv_heads(setup: &Setup, possible: Vec<u32>) -> Self {
        let kv_heads = match setup.model.cache.entry {
            Entry::Heads { kv_heads, .. } => kv_heads,
            Entry::Latent { .. } => 1,
        };
        let divides_heads = |n: &u32| setup.model.heads.is_none_or(|heads| heads % n == 0);
        let possible = possible.into_iter().filter(divides_heads).collect();
        Self::UnevenKvHeads { kv_heads, tensor_parallel: setup.machine.tensor_parallel, possible }
    }
}
