//! `variants.csv`: one row per series of each variant, if the plan has variants.

use super::file::{Column, table_text, text};
use crate::rundir::variants::{AtLevel, Peak};
use crate::rundir::{Run, VariantAnswer};
use anyhow::Result;
use goodput_stats::search::answer::Goodput;

/// A row: the answer of a series, and the run it is of.
struct VariantRow<'a> {
    run: &'a Run,
    of: &'a VariantAnswer,
}

impl VariantRow<'_> {
    fn goodput(&self) -> Option<&Goodput> {
        self.of.answer.as_ref().map(|a| &a.goodput)
    }

    fn peak(&self, figure: impl Fn(&Peak) -> Option<f64>) -> String {
        text(self.of.peak.as_ref().and_then(figure))
    }

    fn at(&self, figure: impl Fn(&AtLevel) -> Option<f64>) -> String {
        text(self.of.at.as_ref().and_then(figure))
    }

    /// Returns the knobs of the grid point: `max-num-seqs=64 dtype=fp8`.
    fn knobs(&self) -> String {
        let variant = self.run.meta.variants.iter().find(|v| v.name == self.of.variant);
        let knobs = variant.map(|v| v.knobs.as_slice()).unwrap_or_default();
        let knobs: Vec<String> = knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        text(knobs.join(" "))
    }
}

/// Returns the columns; for their meaning see the fields of [`VariantAnswer`] and of its answer.
fn columns<'a>() -> [Column<VariantRow<'a>>; 32] {
    [
        ("variant", |r| text(r.of.variant.clone())),
        ("series", |r| text(r.of.series.clone())),
        ("knobs", |r| r.knobs()),
        ("state", |r| r.of.state.name().to_owned()),
        ("out_of_memory", |r| text(r.of.out_of_memory)),
        ("reason", |r| text(r.of.reason.clone())),
        ("control", |r| text(r.of.answer.as_ref().map(|a| a.control))),
        ("goodput_status", |r| text(r.goodput().map(|g| g.status().name().to_owned()))),
        ("goodput", |r| text(r.goodput().and_then(|g| g.rate()))),
        ("low", |r| text(r.goodput().and_then(|g| g.interval90()).map(|ends| ends[0]))),
        ("high", |r| text(r.goodput().and_then(|g| g.interval90()).map(|ends| ends[1]))),
        ("safe_rate", |r| text(r.goodput().and_then(|g| g.safe_rate()))),
        ("binding", |r| text(r.goodput().and_then(|g| g.binding.clone()))),
        ("joint_goodput", |r| text(r.of.answer.as_ref().and_then(|a| a.joint_goodput.rate()))),
        ("output_tokens_per_s", |r| text(r.of.output_tokens_per_s)),
        ("peak_in_flight", |r| r.peak(|p| Some(p.in_flight))),
        ("peak_output_tokens_per_s", |r| r.peak(|p| Some(p.output_tokens_per_s))),
        ("peak_requests_per_s", |r| r.peak(|p| Some(p.achieved_rate))),
        ("peak_tpot_p50_ms", |r| r.peak(|p| p.tpot_p50_ms)),
        ("peak_tpot_p99_ms", |r| r.peak(|p| p.tpot_p99_ms)),
        ("peak_preemptions", |r| r.peak(|p| p.preemptions)),
        ("preemptions", |r| text(r.of.preemptions)),
        ("ready_s", |r| text(r.of.ready_s)),
        ("log", |r| text(r.of.log.clone())),
        ("kv_blocks", |r| text(r.of.room.map(|room| room.blocks))),
        ("sequences_that_fit", |r| text(r.of.room.and_then(|room| room.sequences))),
        ("at_level", |r| r.at(|at| Some(at.level.value))),
        ("at_verdict", |r| text(r.of.at.map(|at| at.verdict.name().to_owned()))),
        ("at_ttft_p50_ms", |r| r.at(|at| at.ttft_p50_ms)),
        ("at_ttft_p99_ms", |r| r.at(|at| at.ttft_p99_ms)),
        ("at_tpot_p50_ms", |r| r.at(|at| at.tpot_p50_ms)),
        ("at_tpot_p99_ms", |r| r.at(|at| at.tpot_p99_ms)),
    ]
}

/// Returns the text of `variants.csv`.
///
/// # Errors
/// Fails if a row cannot be written.
pub fn variants_table(run: &Run) -> Result<Vec<u8>> {
    table_text(&columns(), run.variants.iter().map(|of| VariantRow { run, of }))
}
