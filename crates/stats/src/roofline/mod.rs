//! Roofline model: the peak rates of a GPU, and so the shortest time that a token can take (Williams, Waterman & Patterson,
//! "Roofline", CACM 52, 2009).
//!
//! To generate a token, the weights are read once for the whole batch, and the keys and values of every sequence in it; to
//! process a prompt, each of its tokens is multiplied with every weight. Everything left out (activations, attention's own
//! products, kernel launches, sampling, communication between GPUs) only adds to the time: these are floors.

mod gpu;
mod model;
mod quantity;

pub use gpu::{GPUS, Gpu};
pub use model::{Model, Precision};
pub use quantity::{Bandwidth, FlopRate, Parameters};

use serde::Serialize;

/// The GPUs that hold one copy of the model together.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Machine {
    /// Source of its figures: a GPU of the built-in table, or the plan.
    pub source: String,
    /// Number of GPUs: the plan's `tensor-parallel`.
    pub tensor_parallel: u32,
    /// Memory bandwidth of one GPU in GB/s.
    pub bandwidth_gb_s: f64,
    /// Dense compute rate of one GPU in TFLOP/s, in the precision that is served, if known.
    pub tflop_s: Option<f64>,
    /// Memory of one GPU in GB, if known.
    pub memory_gb: Option<f64>,
}

/// Shortest time of a decode iteration (one token per sequence), in milliseconds. Reading and computing may overlap, so the floor
/// is the longer of the two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Decode {
    /// Number of sequences decoded together.
    pub batch: f64,
    /// Tokens of a sequence in the KV cache.
    pub context: f64,
    /// Time to read the weights.
    pub weights_ms: f64,
    /// Time to read keys and values; `None` if the plan does not give their size.
    pub kv_ms: Option<f64>,
    /// Time for the products with the weights; `None` if the compute rate is not known.
    pub compute_ms: Option<f64>,
    /// The floor: max(weights + KV, compute).
    pub floor_ms: f64,
}

/// Shortest time to process a prompt, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Prefill {
    /// Number of prompt tokens.
    pub tokens: f64,
    /// Time to read the weights once.
    pub weights_ms: f64,
    /// Time for the products with the weights; `None` if the compute rate is not known.
    pub compute_ms: Option<f64>,
    /// The floor: the longer of the two.
    pub floor_ms: f64,
}

impl Machine {
    /// Builds the machine of a plan; `None` if its bandwidth is not known. Figures in the plan take precedence over the table.
    pub fn of(
        gpu: Option<&str>,
        bandwidth: Option<Bandwidth>,
        flops: Option<FlopRate>,
        tensor_parallel: u32,
        model: &Model,
    ) -> Option<Self> {
        let known = gpu.and_then(Gpu::find);
        let bandwidth_gb_s = bandwidth.map(Bandwidth::get).or(known.map(|g| g.bandwidth_gb_s))?;
        let tflop_s =
            flops.map(FlopRate::get).or(known.map(|g| g.fp16_tflop_s * relative_compute_rate(g, model)));
        let source = match known {
            Some(g) if bandwidth.is_none() && flops.is_none() => format!("data sheet of the {}", g.name),
            Some(g) => format!("the plan, else data sheet of the {}", g.name),
            None => "the plan".into(),
        };
        let memory_gb = known.map(|g| g.memory_gb);
        Some(Self { source, tensor_parallel: tensor_parallel.max(1), bandwidth_gb_s, tflop_s, memory_gb })
    }

    /// Returns the memory bandwidth of all GPUs in bytes per millisecond.
    fn bytes_per_ms(&self) -> f64 {
        self.bandwidth_gb_s * 1e6 * f64::from(self.tensor_parallel)
    }

    /// Returns the time for this many floating-point operations in milliseconds; `None` if the compute rate is not known.
    fn compute_ms(&self, flops: f64) -> Option<f64> {
        self.tflop_s.map(|rate| flops / (rate * 1e9 * f64::from(self.tensor_parallel)))
    }

    /// Returns the floor of a decode iteration with `batch` sequences, each with `context` tokens in the KV cache.
    pub fn decode(&self, model: &Model, batch: f64, context: f64) -> Decode {
        let kv = model.kv_per_token().map(|bytes| bytes * context.max(0.0));
        self.decode_bytes(model.read(), kv, model.flops_per_token(), batch, context)
    }

    /// Returns the floor of a decode iteration that reads `weights` bytes once and `kv` bytes for each of `batch` sequences, in all
    /// GPUs together, with `flops` operations for each.
    pub fn decode_bytes(
        &self,
        weights: f64,
        kv: Option<f64>,
        flops: f64,
        batch: f64,
        context: f64,
    ) -> Decode {
        let batch = batch.max(1.0);
        let weights_ms = weights / self.bytes_per_ms();
        let kv_ms = kv.map(|bytes| bytes * batch / self.bytes_per_ms());
        let compute_ms = self.compute_ms(flops * batch);
        let floor_ms = (weights_ms + kv_ms.unwrap_or(0.0)).max(compute_ms.unwrap_or(0.0));
        Decode { batch, context, weights_ms, kv_ms, compute_ms, floor_ms }
    }

    /// Returns the floor of processing this many prompt tokens.
    pub fn prefill(&self, model: &Model, tokens: f64) -> Prefill {
        self.prefill_bytes(model.read(), model.flops_per_token(), tokens)
    }

    /// Returns the floor of processing this many prompt tokens, with `flops` operations each, that reads `weights` bytes once.
    pub fn prefill_bytes(&self, weights: f64, flops: f64, tokens: f64) -> Prefill {
        let weights_ms = weights / self.bytes_per_ms();
        let compute_ms = self.compute_ms(flops * tokens.max(0.0));
        Prefill { tokens, weights_ms, compute_ms, floor_ms: weights_ms.max(compute_ms.unwrap_or(0.0)) }
    }

    /// Returns by how many GB the weights exceed the memory of all GPUs; `None` if they fit, or if the memory is not known.
    pub fn too_large(&self, model: &Model) -> Option<f64> {
        let over = model.weights() / 1e9 - self.memory_gb? * f64::from(self.tensor_parallel);
        (over > 0.0).then_some(over)
    }
}

/// Returns the compute rate of a GPU in the precision of the model, relative to 16 bits.
fn relative_compute_rate(gpu: &Gpu, model: &Model) -> f64 {
    match model.precision {
        Some(Precision::Fp32) => 0.5,
        Some(Precision::Fp16 | Precision::Bf16 | Precision::Int4) => 1.0,
        Some(Precision::Fp8 | Precision::Int8) => 2.0,
        Some(Precision::Fp4) if gpu.fp4 => 4.0,
        Some(Precision::Fp4) => 1.0,
        // The precision of the computation is not declared: the fastest that is possible with such weights.
        None if model.bytes() <= 0.75 && gpu.fp4 => 4.0,
        None if model.bytes() <= 1.5 => 2.0,
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Model {
        toml::from_str(text).unwrap()
    }

    fn bandwidth(text: &str) -> Option<Bandwidth> {
        text.parse().ok()
    }

    /// Rows: model, bandwidth, GPUs; milliseconds and tokens per second of one sequence.
    #[test]
    fn known_floors() {
        let eight = "parameters = \"8B\"\nprecision = \"fp16\"";
        for (of, gb_s, gpus, ms, tokens) in [
            (eight, "600 GB/s", 1, 26.67, 37.5),
            (eight, "3.35 TB/s", 1, 4.776, 209.4),
            (eight, "600 GB/s", 2, 13.33, 75.0),
            ("parameters = \"8B\"\nprecision = \"fp8\"", "600 GB/s", 1, 13.33, 75.0),
            ("parameters = \"70B\"\nprecision = \"bf16\"", "2039 GB/s", 4, 17.17, 58.3),
            (
                "parameters = \"30B\"\nactive-parameters = \"3B\"\nprecision = \"bf16\"",
                "600 GB/s",
                1,
                10.0,
                100.0,
            ),
        ] {
            let machine = Machine::of(None, bandwidth(gb_s), None, gpus, &model(of)).unwrap();
            let floor = machine.decode(&model(of), 1.0, 0.0).floor_ms;
            assert!((floor / ms - 1.0).abs() < 0.001, "{of} at {gb_s} × {gpus}: {floor}");
            assert!((1e3 / floor / tokens - 1.0).abs() < 0.001, "{of}: {} tokens/s", 1e3 / floor);
        }
    }

    /// Qwen3-0.6B on an A40, as the simulated server models it: weights 1.7 ms, 165 ns per token of KV, 600 prompt tokens 4.8 ms
    /// at the peak.
    #[test]
    fn the_published_example() {
        let of = "parameters = \"0.6B\"\nprecision = \"bf16\"\nlayers = 28\nkv-heads = 8\nhead-size = 128";
        let qwen = model(of);
        let a40 = Machine::of(Some("A40"), None, None, 1, &qwen).unwrap();
        let alone = a40.decode(&qwen, 1.0, 615.0);
        assert!((alone.weights_ms - 1.724).abs() < 0.001, "{alone:?}");
        assert!((alone.kv_ms.unwrap() / 615.0 * 1e6 - 164.8).abs() < 0.1, "nanoseconds: {alone:?}");
        assert!(
            (alone.floor_ms - alone.weights_ms - alone.kv_ms.unwrap()).abs() < 1e-12,
            "memory is the longer"
        );
        let prompt = a40.prefill(&qwen, 600.0);
        assert!(
            (prompt.floor_ms - 4.810).abs() < 0.001 && prompt.compute_ms == Some(prompt.floor_ms),
            "{prompt:?}"
        );
        assert!(
            (a40.prefill(&qwen, 1.0).floor_ms - alone.weights_ms).abs() < 1e-12,
            "a short prompt reads them too"
        );
        // With very many sequences without context the products take longer than reading the weights: 2·P·B/F > 2·P/bandwidth
        // from 215 on.
        let many = a40.decode(&qwen, 400.0, 0.0);
        assert!(many.compute_ms == Some(many.floor_ms) && many.floor_ms > many.weights_ms, "{many:?}");
        assert!(a40.too_large(&qwen).is_none());
        let large = model("parameters = \"70B\"\nprecision = \"bf16\"");
        assert_eq!(a40.too_large(&large), Some(92.0));
    }

    #[test]
    fn the_plan_takes_precedence_over_the_table() {
        let m = model("parameters = \"8B\"\nprecision = \"fp8\"");
        let of = |gpu, bw: &str, flops: Option<FlopRate>| Machine::of(gpu, bandwidth(bw), flops, 1, &m);
        let sheet = of(Some("H100"), "", None).unwrap();
        assert_eq!(
            (sheet.bandwidth_gb_s, sheet.tflop_s),
            (3350.0, Some(1979.0)),
            "eight bits at twice the rate"
        );
        let own = of(Some("H100"), "3 TB/s", "700 TFLOP/s".parse().ok()).unwrap();
        assert_eq!((own.bandwidth_gb_s, own.tflop_s), (3000.0, Some(700.0)));
        let bare = of(Some("abacus"), "1 GB/s", None).unwrap();
        assert_eq!((bare.tflop_s, bare.memory_gb), (None, None));
        assert!(bare.decode(&m, 4.0, 100.0).compute_ms.is_none());
        assert_eq!(of(Some("abacus"), "", None), None, "no bandwidth, no floor");
        assert_eq!(of(None, "", None), None);
    }
}
