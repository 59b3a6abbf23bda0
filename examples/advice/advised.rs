//! The change that an advice means, in a simulated server.

use crate::case::Case;
use crate::knob::{Intervention, Knob};
use anyhow::Result;
use goodput::diagnosis::{Advice, Altered, Change, DeploymentChange, Finding, Remedy, Value};

/// Returns the knob that a change moves; `None` for one that moves none in a simulated server.
fn moved(change: &Change) -> Option<Knob> {
    let simulated = |altered| match altered {
        Altered::FewerSequences(_) | Altered::MoreSequences(_) => Knob::Seats,
        Altered::FewerTokens(_) | Altered::MoreTokens(_) => Knob::Tokens,
        Altered::TwiceTheKvCache => Knob::KvCache,
        Altered::PrefixCache => Knob::PrefixCache,
        Altered::ChunkedPrefill => Knob::ChunkedPrefill,
        Altered::FasterCompute => Knob::FasterCompute,
        Altered::FasterMemory => Knob::FasterMemory,
        Altered::FasterHost => Knob::FasterHost,
        Altered::HalfThePrompts => Knob::ShorterPrompts,
        Altered::HalfTheAnswers => Knob::ShorterAnswers,
    };
    match change {
        Change::Deployment(DeploymentChange::MendErrors) => Some(Knob::Errors),
        Change::Deployment(DeploymentChange::NearerClient) => Some(Knob::Network),
        other => Altered::of(other).map(simulated),
    }
}

/// Returns the change that an advice means; `None` for one that changes nothing in a simulated server. A setting is
/// changed to the value that the advice names.
pub(crate) fn meant(advice: &Advice, case: &Case) -> Result<Option<Intervention>> {
    let Some(knob) = moved(&advice.change) else { return Ok(None) };
    if let Some(remedy) = Remedy::of(advice) {
        let set = |case: Case, (flag, value): &(&'static str, Value)| {
            Some(case.set(flag.strip_prefix("server.simulated.")?, value.toml()?))
        };
        let changed = remedy.changes.iter().try_fold(case.clone(), set);
        return Ok(changed.map(|case| Intervention { knob, label: remedy.name, case }));
    }
    Ok(match knob {
        // A setting without a value changes nothing.
        Knob::Seats | Knob::Tokens | Knob::KvCache | Knob::PrefixCache | Knob::ChunkedPrefill => None,
        Knob::Errors
        | Knob::Network
        | Knob::ShorterPrompts
        | Knob::ShorterAnswers
        | Knob::FasterMemory
        | Knob::FasterCompute
        | Knob::FasterHost => knob.interventions(case)?.pop(),
    })
}

/// Returns true if the advice of one report moves a setting both ways.
pub(crate) fn contradict(findings: &[&Finding]) -> bool {
    let all: Vec<&Advice> = findings.iter().flat_map(|f| &f.advice).collect();
    all.iter().any(|one| all.iter().any(|other| one.opposes(other)))
}
