//! Figures of speculative decoding: whether drafting tokens gains more than it costs.
//!
//! An iteration that checks γ drafted tokens and writes L of them, its own included, takes T(1 + γc) + Δ: T without drafting, the
//! drafting of each token a share c of it, and Δ for checking them where computing is what binds. It is measured: L times TPOT.
//! Drafting gains if TPOT < T, hence if L > 1 + γc + Δ / TPOT. With Δ = 0 that is where the improvement L / (γc + 1) of Leviathan
//! et al., *Fast Inference from Transformers via Speculative Decoding* (ICML 2023, theorem 3.8), exceeds one; their L is
//! (1 − α^(γ+1)) / (1 − α), which the counters give directly.

use super::super::fact::{DraftingFact, Place};
use super::super::floor;
use super::super::subject::Subject;
use super::{Reading, Side};
use goodput_core::slo::Metric;

/// Time to draft a token as a share of an iteration of the model: below 0.05 in the experiments of Leviathan et al. (section 3).
const DRAFTING: f64 = 0.05;

/// Returns the mean tokens that are drafted at a time, and those accepted of them, at the examined step.
fn drafts(s: &Subject<'_>) -> Option<(f64, f64)> {
    let server = &s.at.server;
    server.drafted_mean.filter(|n| *n > 0.0).zip(server.accepted_mean)
}

/// Returns true if the server drafts tokens, by its counters.
pub(in crate::diagnosis) fn is_drafting(s: &Subject<'_>) -> bool {
    s.at.server.accepted_mean.is_some()
}

/// Returns the least time that checking the drafts adds to an iteration, with the median TPOT, both in milliseconds: the
/// difference of the floors of an iteration that computes as many more tokens of each sequence. `None` without a `[model]`.
fn checking(s: &Subject<'_>) -> Option<(f64, f64)> {
    let ((machine, model), (drafted, _)) = (s.curve.hardware.as_ref()?, drafts(s)?);
    let tpot_ms = s.quantiles(s.at, Metric::Tpot).p50.filter(|t| *t > 0.0)?;
    let batch = floor::batch(s.at, tpot_ms, s.copies());
    let context = s.at.input_tokens_mean.unwrap_or(0.0) + s.at.output_tokens_mean.unwrap_or(0.0) / 2.0;
    let one = machine.decode(model, batch, context);
    let compute_ms = machine.decode(model, batch * (1.0 + drafted), context).compute_ms?;
    Some(((compute_ms - one.floor_ms).max(0.0), tpot_ms))
}

pub(super) fn accepted_of_drafted(s: &Subject<'_>) -> Option<Reading> {
    let (drafted, accepted) = drafts(s)?;
    let fact = DraftingFact::Accepted { drafted, accepted, at: Place::of(s.at) };
    Some(Reading::new(accepted / drafted, [s.at.step], fact))
}

pub(super) fn written_of_break_even(s: &Subject<'_>) -> Option<Reading> {
    let (drafted, accepted) = drafts(s)?;
    let added = checking(s).map_or(0.0, |(added_ms, tpot_ms)| added_ms / tpot_ms);
    let (written, least) = (1.0 + accepted, 1.0 + DRAFTING * drafted + added);
    Some(Reading::new(written / least, [s.at.step], DraftingFact::BreakEven { written, least }))
}

pub(super) fn written_of_checking(s: &Subject<'_>) -> Option<Reading> {
    let ((_, accepted), (added_ms, tpot_ms)) = (drafts(s)?, checking(s)?);
    let least = 1.0 + added_ms / tpot_ms;
    let fact = DraftingFact::Checking { added_ms, tpot_ms };
    // Floors leave out what else an iteration costs.
    Some(Reading::new((1.0 + accepted) / least, [s.at.step], fact).on(Side::AtMost))
}
