//! The conditions under which a candidate was measured, and notes on how far its rate holds.

use super::candidate::{HardwareOverrides, copies};
use crate::escape::clip;
use crate::words;
use goodput_core::level::Control;
use goodput_plan::Evenness;
use goodput_run::rundir::Run;
use goodput_stats::capacity::Hardware;
use goodput_stats::capacity::sizing::MeasurementConditions;
use goodput_stats::search::answer::{Answer, Status};

/// Returns notes on how far the rate of a candidate holds.
pub(super) fn notes(run: &Run, answer: &Answer, hardware: &Hardware) -> Vec<String> {
    let g = &answer.goodput;
    let mut notes = Vec::new();
    match g.status() {
        Status::Undecided => {
            notes.push("Its goodput is undecided: what is planned with is what was shown so far.".into())
        }
        Status::Invalid => notes.push(
            "Its answer is invalid above the rate that is planned with: see the caveats of its report."
                .into(),
        ),
        Status::NotReached => {
            notes.push("More was not tried: it may take more than the rate that is planned with.".into())
        }
        Status::Found | Status::None => {}
    }
    match answer.control {
        Control::Concurrency => notes.push(
            "Its rate is that of a closed loop, which sends the next request after an answer; independent users do not wait, and may be given less within the SLO.".into(),
        ),
        Control::Sessions => notes.push("Its requests are turns of conversations: the demand counts turns, not conversations.".into()),
        Control::TraceScale => notes.push("Its requests came as in the trace that was replayed.".into()),
        Control::Rate => notes.extend(run.meta.workload.evenness().and_then(arrivals).map(str::to_owned)),
    }
    if run.meta.virtual_time || run.meta.server.is_simulated() {
        notes.push("It is a simulated server: a rehearsal, and no figure to buy by.".into());
    }
    if hardware.gpu_count().is_none() {
        notes.push("Its plan declares no GPUs: the measured server counts as one replica on one GPU; --gpus-per-replica says otherwise.".into());
    }
    if let Some(copies) = Some(copies(hardware)).filter(|n| *n > 1) {
        notes.push(format!(
            "{copies} replicas were measured together; each is taken to have its even share of the rate."
        ));
    }
    let other: Vec<&str> = run
        .answers
        .iter()
        .filter(|a| a.series == answer.series && a.tier != answer.tier)
        .map(|a| a.tier.as_str())
        .collect();
    if let Some(first) = other.first() {
        notes.push(format!(
            "This is the SLO of {}; for that of {} write RUN#{first}.",
            clip(&answer.tier, 40),
            clip(&other.join(", "), 80)
        ));
    }
    notes
}

/// Returns what arrivals other than those of independent users mean for a plan.
const fn arrivals(evenness: Evenness) -> Option<&'static str> {
    match evenness {
        Evenness::Poisson => None,
        Evenness::Steadier => Some(
            "Its requests came more evenly than those of independent users, who need room for their scatter: such users may be given less within the SLO. Measure it with Poisson arrivals.",
        ),
        Evenness::Burstier => Some(
            "Its requests came in bursts, and its rate holds for such bursts. From independent users it may take more; only a run with Poisson arrivals shows that.",
        ),
        Evenness::Unknown => Some(
            "How its requests came is not known: those of independent users come as Poisson arrivals, and need room for their scatter.",
        ),
    }
}

/// Returns the conditions of the measurement; `None` if no rate is shown to meet the SLO.
pub(super) fn measured(
    run: &Run,
    answer: &Answer,
    name: &str,
    given: &HardwareOverrides,
) -> Option<MeasurementConditions> {
    let tier = words::tier_of(run, answer);
    let c = run.capacity(answer)?;
    let each = |tokens: Option<f64>| tokens.map(|t| t / c.requests_per_s);
    Some(MeasurementConditions {
        run: name.to_owned(),
        variant: None,
        series: answer.series.clone(),
        tier: answer.tier.clone(),
        slo: tier.map_or_else(|| run.meta.slo.clone(), words::slo),
        workload: words::workload(run),
        model: run.meta.model.clone(),
        copies: copies(&given.over(&run.hardware)),
        tokens_given: given.output_tokens.is_some(),
        prompt_tokens: each(c.prompt_tokens_per_s),
        output_tokens: each(c.output_tokens_per_s),
        virtual_time: run.meta.virtual_time,
        simulated: run.meta.server.is_simulated(),
    })
}
