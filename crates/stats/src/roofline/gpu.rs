//! Specifications of common GPUs, from their makers' data sheets.

/// A GPU with the bandwidth, memory and dense FP16/BF16 tensor rate of its data sheet.
///
/// NVIDIA's data sheets quote rates with 2:4 sparsity beside or instead of dense ones; these are the dense ones. On each of these
/// GPUs, 8-bit types (INT8, and FP8 if supported) run at twice this rate and TF32 at half of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Name in this table.
    pub name: &'static str,
    /// Words that a plan's `gpu` must contain to mean this GPU.
    words: &'static [&'static str],
    /// Memory bandwidth in GB/s (1e9 bytes).
    pub bandwidth_gb_s: f64,
    /// Dense FP16 and BF16 compute rate in TFLOP/s.
    pub fp16_tflop_s: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// Memory that the driver reports to programs, in GiB; vLLM's `--gpu-memory-utilization` is a share of it. A data sheet's GB are
    /// GiB of memory chips, of which the driver keeps a part. Differs by up to 0.5 % between drivers and forms of a card.
    pub usable_gib: f64,
    /// True if it computes in 4 bits at four times the 16-bit rate.
    pub fp4: bool,
}

const fn gpu(
    name: &'static str,
    words: &'static [&'static str],
    (bandwidth_gb_s, fp16_tflop_s, memory_gb): (f64, f64, f64),
    usable_gib: f64,
) -> Gpu {
    Gpu { name, words, bandwidth_gb_s, fp16_tflop_s, memory_gb, usable_gib, fp4: false }
}

/// The built-in GPUs. Of several makes of one name, the specific ones come first, then the fastest: a floor must not be too high.
///
/// The usable memory is that of PyTorch's messages (`GPU 0 has a total capacity of 79.15 GiB`) and of vLLM's logs.
pub const GPUS: &[Gpu] = &[
    // NVIDIA A10 data sheet (2021): 600 GB/s, 125 | 250 TFLOPS (dense | sparse), 24 GB.
    gpu("A10", &["A10"], (600.0, 125.0, 24.0), 22.05),
    // NVIDIA A40 data sheet (2021): 696 GB/s, 149.7 | 299.4 TFLOPS, 48 GB.
    gpu("A40", &["A40"], (696.0, 149.7, 48.0), 44.34),
    // NVIDIA L4 data sheet (2023): 300 GB/s, 242 TFLOPS sparse, half of it dense, 24 GB.
    gpu("L4", &["L4"], (300.0, 121.0, 24.0), 22.03),
    // NVIDIA L40S data sheet (2023): 864 GB/s, 362.05 | 733 TFLOPS, 48 GB.
    gpu("L40S", &["L40S"], (864.0, 362.05, 48.0), 44.39),
    // NVIDIA A100 data sheet (2022): 40 GB 1,555 GB/s; 80 GB PCIe 1,935 GB/s, SXM 2,039 GB/s; 312 | 624 TFLOPS.
    gpu("A100 40GB", &["A100", "40GB"], (1555.0, 312.0, 40.0), 39.5),
    gpu("A100 80GB PCIe", &["A100", "PCIE"], (1935.0, 312.0, 80.0), 79.15),
    gpu("A100 80GB", &["A100"], (2039.0, 312.0, 80.0), 79.15),
    // NVIDIA H100 data sheets (2023): PCIe 2 TB/s, 1,513 TFLOPS sparse, 80 GB; NVL 3.9 TB/s, 1,671 TFLOPS sparse, 94 GB; SXM 3.35 TB/s,
    // 1,979 TFLOPS sparse, 80 GB.
    gpu("H100 PCIe", &["H100", "PCIE"], (2000.0, 756.5, 80.0), 79.22),
    gpu("H100 NVL", &["H100", "NVL"], (3900.0, 835.5, 94.0), 93.1),
    gpu("H100", &["H100"], (3350.0, 989.5, 80.0), 79.22),
    // NVIDIA H200 data sheet (2024): 4.8 TB/s, 141 GB, the rates of the H100 SXM.
    gpu("H200", &["H200"], (4800.0, 989.5, 141.0), 139.8),
    // NVIDIA HGX B200 data sheet (2025), one GPU of eight: up to 8 TB/s, 4.5 PFLOPS sparse, 180 GB; FP4 9 PFLOPS dense.
    Gpu { fp4: true, ..gpu("B200", &["B200"], (8000.0, 2250.0, 180.0), 178.35) },
    // AMD Instinct MI300X data sheet (2023): 5.3 TB/s, 1,307.4 TFLOPS dense, 192 GB.
    gpu("MI300X", &["MI300X"], (5300.0, 1307.4, 192.0), 191.69),
];

impl Gpu {
    /// Finds the GPU that a plan's `gpu` names, in any spelling that contains its words: `A100-SXM4-80GB`, `NVIDIA L4`.
    pub fn find(name: &str) -> Option<&'static Self> {
        let upper = name.to_uppercase();
        let word = |w: &str| if matches!(w, "40G" | "80G") { format!("{w}B") } else { w.to_owned() };
        let words: Vec<String> =
            upper.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).map(word).collect();
        GPUS.iter().find(|gpu| gpu.words.iter().all(|w| words.iter().any(|own| own == w)))
    }

    /// Returns the names of all GPUs, for messages.
    pub fn names() -> String {
        GPUS.iter().map(|gpu| gpu.name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_found_by_their_words() {
        for (name, want) in [
            ("A40", Some("A40")),
            ("NVIDIA A40", Some("A40")),
            ("a10", Some("A10")),
            ("A10G", None), // another card: 70 TFLOPS
            ("A100", Some("A100 80GB")),
            ("NVIDIA A100-SXM4-80GB", Some("A100 80GB")),
            ("A100 40GB", Some("A100 40GB")),
            ("A100-PCIE-40GB", Some("A100 40GB")),
            ("A100 80G PCIe", Some("A100 80GB PCIe")),
            ("H100 PCIe", Some("H100 PCIe")),
            ("NVIDIA H100 NVL", Some("H100 NVL")),
            ("H100 80GB HBM3", Some("H100")),
            ("L40S", Some("L40S")),
            ("L40", None),
            ("B200", Some("B200")),
            ("AMD Instinct MI300X", Some("MI300X")),
            ("abacus", None),
            ("", None),
        ] {
            assert_eq!(Gpu::find(name).map(|g| g.name), want, "{name}");
        }
        assert!(GPUS.iter().all(|g| Gpu::find(g.name) == Some(g)), "each by its own name");
    }
}
