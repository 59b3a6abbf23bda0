//! Accepted and rejected variants with the evidence for each.

use crate::document::{Block, Cell, Column, Field, Mark, Table, UNKNOWN};
use crate::escape::clip;
use crate::words;
use goodput_run::rundir::variants::{Best, State, VariantAnswer};
use goodput_run::rundir::{Run, VariantRun};
use goodput_stats::search::answer::{Answer, Status};

/// Returns accepted and rejected variants, each with its evidence; empty if the run has none.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let best = Best::of(&run.variants);
    let top = best.at_slo.and_then(|i| run.variants.get(i));
    let judged: Vec<(VariantDecision, &VariantAnswer)> =
        run.variants.iter().enumerate().map(|(i, v)| (VariantDecision::of(&best, top, i, v), v)).collect();
    type Judged<'a> = (VariantDecision, &'a VariantAnswer);
    let evidence = |v: &VariantAnswer| {
        let part = run.parts.iter().find(|p| p.series() == v.series);
        let evidence = part.zip(v.answer.as_ref()).map(|(p, a)| words::evidence_of(p, a));
        evidence.map_or(Cell::Unknown, Cell::text)
    };
    let settings = |v: &VariantAnswer| {
        let made = run.meta.variants.iter().find(|m| m.name == v.variant);
        Cell::known(made.map(settings).unwrap_or_default())
    };
    let fields = vec![
        Field::new(Column::text("decision"), |(d, _): &Judged<'_>| Cell::marked(d.mark, d.word)),
        Field::new(Column::text("variant"), |(_, v): &Judged<'_>| Cell::text(clip(&v.series, 40))),
        Field::new(Column::text("settings"), |(_, v): &Judged<'_>| settings(v)),
        Field::new(Column::text("why"), |(d, _): &Judged<'_>| Cell::text(d.why.as_str())),
        Field::new(Column::text("evidence"), |(_, v): &Judged<'_>| evidence(v)),
    ];
    vec![Table::of(fields, &judged).sorted_by_readers(1).into()]
}

/// Returns the settings of a variant's knobs.
fn settings(v: &VariantRun) -> String {
    let all: Vec<String> = v.knobs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    clip(&all.join(", "), 120)
}

/// The decision on a variant, and the reason.
struct VariantDecision {
    mark: Mark,
    word: &'static str,
    why: String,
}

impl VariantDecision {
    fn accepted(why: String) -> Self {
        Self { mark: Mark::Good, word: "accepted", why }
    }

    fn rejected(why: String) -> Self {
        Self { mark: Mark::Bad, word: "rejected", why }
    }

    fn undecided(why: String) -> Self {
        Self { mark: Mark::Open, word: "undecided", why }
    }

    fn of(best: &Best, top: Option<&VariantAnswer>, at: usize, v: &VariantAnswer) -> Self {
        let goodput = |v: &VariantAnswer| {
            let cell = |a: &Answer| words::goodput_cell(a.control, &a.goodput);
            v.answer.as_ref().map_or(UNKNOWN.into(), cell)
        };
        let reason = || v.reason.as_deref().map(|r| clip(r.trim_end_matches('.'), 300));
        match (v.state, v.answer.as_ref().map(|a| a.goodput.status())) {
            (State::Failed, _) => {
                Self::rejected(reason().unwrap_or_else(|| "it could not be measured".into()))
            }
            (State::Died, _) => Self::rejected(reason().unwrap_or_else(|| "its server died".into())),
            (State::Waiting | State::Running, _) | (State::Done, None) => {
                Self::undecided("it was not measured to the end".into())
            }
            (State::Done, Some(Status::None)) => {
                let binding =
                    v.answer.as_ref().and_then(|a| a.goodput.binding.as_deref()).map(words::binding);
                let binding = binding.map(|b| format!("; {b} binds")).unwrap_or_default();
                Self::rejected(format!("it keeps the SLO at no level{binding}"))
            }
            (State::Done, Some(_)) if best.at_slo == Some(at) => {
                Self::accepted(format!("the highest goodput: {}", goodput(v)))
            }
            (State::Done, Some(_)) if best.not_told_apart.contains(&at) => {
                Self::undecided(format!("not told apart from the best: {}", goodput(v)))
            }
            (State::Done, Some(Status::Undecided | Status::Invalid)) => Self::undecided(goodput(v)),
            (State::Done, Some(_)) => {
                let than =
                    top.map(|t| format!(", less than that of {}", clip(&t.series, 40))).unwrap_or_default();
                Self::rejected(format!("{}{than}", goodput(v)))
            }
        }
    }
}
