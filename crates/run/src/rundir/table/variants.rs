//! `variants.csv`: one row per series of each variant, if the plan has variants.

use super::{TableRow, whole_table};
use crate::rundir::{Run, VARIANTS, VariantAnswer};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// The columns of `variants.csv`, in order; for their meaning see the fields of [`VariantAnswer`] and of its answer.
/// `None` is an empty cell: unknown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct VariantColumns {
    variant: String,
    series: String,
    /// Knobs of the grid point: `max-num-seqs=64 dtype=fp8`.
    knobs: String,
    state: String,
    out_of_memory: bool,
    reason: Option<String>,
    control: Option<String>,
    goodput_status: Option<String>,
    goodput: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    safe_rate: Option<f64>,
    binding: Option<String>,
    joint_goodput: Option<f64>,
    output_tokens_per_s: Option<f64>,
    peak_in_flight: Option<f64>,
    peak_output_tokens_per_s: Option<f64>,
    peak_requests_per_s: Option<f64>,
    peak_tpot_p50_ms: Option<f64>,
    peak_tpot_p99_ms: Option<f64>,
    peak_preemptions: Option<f64>,
    preemptions: Option<f64>,
    ready_s: Option<f64>,
    log: Option<String>,
}

impl TableRow for VariantColumns {
    const FILE: &'static str = VARIANTS;
}

impl VariantColumns {
    fn new(run: &Run, v: &VariantAnswer) -> Self {
        let goodput = v.answer.as_ref().map(|a| &a.goodput);
        let peak = v.peak.as_ref();
        let measured = run.meta.variants.iter().find(|one| one.name == v.variant);
        let knobs = measured.map(|one| one.knobs.as_slice()).unwrap_or_default();
        let knobs: Vec<String> = knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self {
            variant: v.variant.clone(),
            series: v.series.clone(),
            knobs: knobs.join(" "),
            state: v.state.name().to_owned(),
            out_of_memory: v.out_of_memory,
            reason: v.reason.clone(),
            control: v.answer.as_ref().map(|a| a.control.name().to_owned()),
            goodput_status: goodput.map(|g| g.status().name().to_owned()),
            goodput: goodput.and_then(|g| g.rate()),
            low: goodput.and_then(|g| g.interval90()).map(|ends| ends[0]),
            high: goodput.and_then(|g| g.interval90()).map(|ends| ends[1]),
            safe_rate: goodput.and_then(|g| g.safe_rate()),
            binding: goodput.and_then(|g| g.binding.clone()),
            joint_goodput: v.answer.as_ref().and_then(|a| a.joint_goodput.rate()),
            output_tokens_per_s: v.output_tokens_per_s,
            peak_in_flight: peak.map(|p| p.in_flight),
            peak_output_tokens_per_s: peak.map(|p| p.output_tokens_per_s),
            peak_requests_per_s: peak.map(|p| p.achieved_rate),
            peak_tpot_p50_ms: peak.and_then(|p| p.tpot_p50_ms),
            peak_tpot_p99_ms: peak.and_then(|p| p.tpot_p99_ms),
            peak_preemptions: peak.and_then(|p| p.preemptions),
            preemptions: v.preemptions,
            ready_s: v.ready_s,
            log: v.log.clone(),
        }
    }
}

/// Returns the text of `variants.csv`.
///
/// # Errors
/// Fails if a row cannot be serialised.
pub fn variants_table(run: &Run) -> Result<Vec<u8>> {
    let rows: Vec<VariantColumns> = run.variants.iter().map(|v| VariantColumns::new(run, v)).collect();
    whole_table(&rows)
}
