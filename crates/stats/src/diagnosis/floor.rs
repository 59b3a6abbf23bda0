//! Measured latencies compared with the least that the hardware allows.

use super::facts::Curve;
use super::subject::{is_one, told};
use crate::roofline::{Decode, Machine, Model, Prefill};
use crate::stats::step::Step;
use goodput_core::slo::Metric;
use serde::Serialize;

/// Largest ratio at which more than half of a token's time is reading memory, so that memory is the bound. A good
/// engine reaches 1.4 (72 % of the bandwidth), and copying memory alone hardly less than 1.2 (85 %): PyTorch,
/// "Accelerating Generative AI with PyTorch II: GPT, Fast", 2023.
const BOUND: f64 = 2.0;

/// Ratio below which a measurement contradicts its floor: nothing can be faster, and a median of some dozens of values
/// scatters by a few per cent.
pub(super) const BELOW: f64 = 0.95;

/// The measured latencies of a series compared with their floors.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Roofline {
    /// Name of the series.
    pub series: String,
    /// The GPUs of one copy of the model.
    pub machine: Machine,
    /// Size of the weights, in GB.
    pub weights_gb: f64,
    /// Size of the weights that one token uses, in GB, if that is only a part of them.
    pub active_gb: Option<f64>,
    /// Bytes that a token adds to the KV cache, if the plan declares it.
    pub kv_bytes_per_token: Option<f64>,
    /// Size in GB by which the weights exceed the memory of these GPUs, if they do.
    pub too_large_gb: Option<f64>,
    /// Least TPOT of one request alone without any context, in milliseconds.
    pub least_tpot_ms: f64,
    /// TPOT of one request alone, and at the goodput.
    pub decode: Vec<Measured<Decode>>,
    /// Time to read a prompt, for one request alone.
    pub prefill: Option<Measured<Prefill>>,
    /// Least share of the time that reading prompts takes at the goodput.
    pub prefill_share: Option<f64>,
}

/// A measured median with its floor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Measured{F}")]
pub struct Measured<F> {
    /// Number of the step.
    pub step: u32,
    /// True if the step had one request at a time.
    pub alone: bool,
    /// The median in milliseconds.
    pub measured_ms: f64,
    /// Floor of the median.
    pub floor: F,
    /// Measured median divided by its floor (dimensionless).
    pub ratio: f64,
    /// Interpretation of the ratio.
    pub reading: Reading,
}

/// The interpretation of a ratio to the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Faster than possible: the plan declares something other than what was measured, or several tokens are written at
    /// a time.
    BelowFloor,
    /// Bound by reading memory.
    MemoryBound,
    /// Bound by computing.
    ComputeBound,
    /// Neither: most of the time is spent on something else.
    Above,
}

impl Roofline {
    /// Compares the unloaded step of a curve, and the step at its goodput if there is one, with their floors.
    pub fn of(curve: &Curve, steps: &[Step], at_goodput: Option<&Step>) -> Option<Self> {
        let (machine, model) = curve.hardware.as_ref()?;
        let own = || steps.iter().filter(|s| s.series == curve.series && told(s));
        let alone = own().filter(|s| is_one(s)).max_by_key(|s| s.due_n);
        let copies = f64::from(curve.replicas.unwrap_or(1).max(1));
        let loaded = at_goodput.filter(|s| !is_one(s) && told(s) && !s.overloaded());
        let decode: Vec<Measured<Decode>> =
            [alone, loaded].into_iter().flatten().filter_map(|s| decode(machine, model, s, copies)).collect();
        let prefill = alone.and_then(|s| prefill(machine, model, s));
        let share = |s: &Step| {
            let each = machine.prefill(model, uncached(s)?).compute_ms?;
            Some(s.achieved_rate / copies * each / 1e3)
        };
        Some(Self {
            series: curve.series.clone(),
            weights_gb: model.weights() / 1e9,
            active_gb: model.active_parameters.map(|_| model.read() / 1e9),
            kv_bytes_per_token: model.kv_per_token(),
            too_large_gb: machine.too_large(model),
            least_tpot_ms: machine.decode(model, 1.0, 0.0).floor_ms,
            decode,
            prefill,
            prefill_share: loaded.and_then(share),
            machine: machine.clone(),
        })
    }

    /// Returns true if no measurement can be compared with a floor.
    pub fn is_empty(&self) -> bool {
        self.decode.is_empty() && self.prefill.is_none()
    }
}

/// Returns the number of sequences written at the same time: tokens per second times the time of one (Little's law).
pub(super) fn batch(s: &Step, tpot_ms: f64, copies: f64) -> f64 {
    if is_one(s) { 1.0 } else { (s.output_tokens_per_s * tpot_ms / 1e3 / copies).max(1.0) }
}

/// Returns the input tokens of a mean request that have to be read: those not in the cache, if that is known.
pub fn uncached(s: &Step) -> Option<f64> {
    Some(s.input_tokens_mean? * (1.0 - s.server.hit_rate.unwrap_or(0.0)))
}

fn decode(machine: &Machine, model: &Model, s: &Step, copies: f64) -> Option<Measured<Decode>> {
    let measured_ms = s.quantiles(Metric::Tpot).p50.filter(|t| *t > 0.0)?;
    // The mean context: on average, a sequence has written half of its answer.
    let context = s.input_tokens_mean.unwrap_or(0.0) + s.output_tokens_mean.unwrap_or(0.0) / 2.0;
    let floor = machine.decode(model, batch(s, measured_ms, copies), context);
    let memory = floor.weights_ms + floor.kv_ms.unwrap_or(0.0) >= floor.compute_ms.unwrap_or(0.0);
    let ratio = measured_ms / floor.floor_ms;
    Some(Measured {
        step: s.step,
        alone: is_one(s),
        measured_ms,
        floor,
        ratio,
        reading: reading(ratio, memory),
    })
}

fn prefill(machine: &Machine, model: &Model, s: &Step) -> Option<Measured<Prefill>> {
    let measured_ms = s.quantiles(Metric::Ttft).p50.filter(|t| *t > 0.0)?;
    let floor = machine.prefill(model, uncached(s)?);
    let memory = floor.compute_ms.is_none_or(|c| c < floor.weights_ms);
    let ratio = measured_ms / floor.floor_ms;
    Some(Measured { step: s.step, alone: true, measured_ms, floor, ratio, reading: reading(ratio, memory) })
}

fn reading(ratio: f64, memory: bool) -> Reading {
    match ratio {
        r if r < BELOW => Reading::BelowFloor,
        r if r <= BOUND && memory => Reading::MemoryBound,
        r if r <= BOUND => Reading::ComputeBound,
        _ => Reading::Above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn curve(gpus: u32) -> Curve {
        let model: Model = toml::from_str(
            "parameters = \"0.6B\"\nprecision = \"bf16\"\nlayers = 28\nkv-heads = 8\nhead-size = 128",
        )
        .unwrap();
        let machine = Machine::of(Some("A40"), None, None, gpus, &model).unwrap();
        Curve { series: "main".into(), hardware: Some((machine, model)), ..Curve::default() }
    }

    #[test]
    fn what_was_measured_stands_beside_its_floor() {
        let steps = fixture::adaptive();
        let loaded = steps.iter().rfind(|s| s.stable == Some(true)).unwrap();
        let roof = Roofline::of(&curve(1), &steps, Some(loaded)).unwrap();
        assert_eq!(roof.decode.iter().map(|m| m.alone).collect::<Vec<_>>(), [true, false]);
        let [alone, at] = [roof.decode[0], roof.decode[1]];
        assert!((alone.floor.batch - 1.0).abs() < 1e-12 && (alone.floor.context - 616.3).abs() < 0.1);
        assert!(alone.reading == Reading::Above && alone.ratio > 2.5, "5.4 ms where 1.8 would do: {alone:?}");
        let want = loaded.output_tokens_per_s * at.measured_ms / 1e3;
        assert!((at.floor.batch - want).abs() < 1e-9 && at.floor.floor_ms > alone.floor.floor_ms, "{at:?}");
        let prefill = roof.prefill.unwrap();
        assert!(
            (prefill.floor.tokens - 601.3).abs() < 1e-9 && prefill.reading == Reading::Above,
            "{prefill:?}"
        );
        assert!(roof.prefill_share.is_some_and(|s| s > 0.1 && s < 0.5), "{roof:?}");
        let two = Roofline::of(&Curve { replicas: Some(2), ..curve(1) }, &steps, Some(loaded)).unwrap();
        assert!((two.decode[1].floor.batch - want / 2.0).abs() < 1e-9, "half of them on each copy");
        assert_eq!(Roofline::of(&Curve { hardware: None, ..curve(1) }, &steps, Some(loaded)), None);
        assert_eq!(Roofline::of(&curve(1), &steps[..1], None).map(|r| r.decode.len()), Some(1));
    }

    #[test]
    fn ratios_are_read() {
        for (ratio, memory, want) in [
            (0.5, true, Reading::BelowFloor),
            (0.97, true, Reading::MemoryBound),
            (1.39, true, Reading::MemoryBound),
            (1.39, false, Reading::ComputeBound),
            (2.1, true, Reading::Above),
            (5.8, false, Reading::Above),
        ] {
            assert_eq!(reading(ratio, memory), want, "{ratio}");
        }
    }
}
