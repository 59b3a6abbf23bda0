//! What was measured beside what the hardware allows at the least.

use super::facts::Curve;
use super::subject::{is_one, told};
use crate::roofline::{Decode, Machine, Model, Prefill};
use crate::stats::step::Step;
use goodput_core::slo::Metric;
use serde::Serialize;

/// Up to here more than half of a token's time is reading memory: it is bound by that. A good engine comes to 1.4 (72 % of the bandwidth), and
/// copying memory alone hardly below 1.2 (85 %): PyTorch, "Accelerating Generative AI with PyTorch II: GPT, Fast", 2023.
const BOUND: f64 = 2.0;

/// Nothing can be faster than its floor; a median of some dozens scatters by a few per cent.
const BELOW: f64 = 0.95;

/// What was measured of a series beside its floors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Roofline {
    /// The series.
    pub series: String,
    /// The GPUs of one copy of the model.
    pub machine: Machine,
    /// GB of the weights.
    pub weights_gb: f64,
    /// GB of the weights that a token goes through, where that is a part of them.
    pub active_gb: Option<f64>,
    /// Bytes that a token leaves in the KV cache, where the plan says.
    pub kv_bytes_per_token: Option<f64>,
    /// By how many GB the weights are more than the memory of these GPUs, if they are.
    pub too_large_gb: Option<f64>,
    /// The least TPOT of one request alone without any context, in milliseconds.
    pub least_tpot_ms: f64,
    /// One request alone, and at the goodput.
    pub decode: Vec<Measured<Decode>>,
    /// Reading a prompt, one request alone.
    pub prefill: Option<Measured<Prefill>>,
    /// The share of the time that reading prompts takes at the least, at the goodput.
    pub prefill_share: Option<f64>,
}

/// A measured median beside its floor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured<F> {
    /// The step.
    pub step: u32,
    /// Whether it had one request at a time.
    pub alone: bool,
    /// The median in milliseconds.
    pub measured_ms: f64,
    /// Its floor.
    pub floor: F,
    /// Measured over floor.
    pub ratio: f64,
    /// What that says.
    pub reading: Reading,
}

/// What a ratio to the floor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Faster than can be: what the plan declares is not what was measured, or several tokens are written at a time.
    BelowFloor,
    /// Bound by reading memory.
    MemoryBound,
    /// Bound by computing.
    ComputeBound,
    /// Most of the time is something else.
    Above,
}

impl Roofline {
    /// Of a curve: its unloaded step, and the one at its goodput, where there is one.
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
            active_gb: model.active.map(|_| model.read() / 1e9),
            kv_bytes_per_token: model.kv_per_token(),
            too_large_gb: machine.too_large(model),
            least_tpot_ms: machine.decode(model, 1.0, 0.0).floor_ms,
            decode,
            prefill,
            prefill_share: loaded.and_then(share),
            machine: machine.clone(),
        })
    }

    /// Whether nothing was measured that could stand beside a floor.
    pub fn is_empty(&self) -> bool {
        self.decode.is_empty() && self.prefill.is_none()
    }
}

/// Sequences that are written at the same time: tokens per second times the time of one (Little's law).
fn batch(s: &Step, tpot_ms: f64, copies: f64) -> f64 {
    if is_one(s) { 1.0 } else { (s.output_tokens_per_s * tpot_ms / 1e3 / copies).max(1.0) }
}

/// Input tokens that have to be read: those that the cache does not have, where that is known.
fn uncached(s: &Step) -> Option<f64> {
    Some(s.input_tokens_mean? * (1.0 - s.server.hit_rate.unwrap_or(0.0)))
}

fn decode(machine: &Machine, model: &Model, s: &Step, copies: f64) -> Option<Measured<Decode>> {
    let measured_ms = s.quantiles(Metric::Tpot).p50.filter(|t| *t > 0.0)?;
    // Halfway through its answer a sequence has half of it behind it.
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
