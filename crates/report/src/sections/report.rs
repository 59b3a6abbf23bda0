//! The report of a run: a decision record with the question, the answer and its certainty, and how to repeat the
//! measurement.

use super::{
    amounts, answer, cards, caveats, checks, client, decisions, failures, first_requests, groups, limits,
    matrix, mixing, offline, pair, percentiles, pictures, question, recovery, replayed, replicas, reproduce,
    roofline, scale, sensitivity, sent, server, several, steps, stopped, throughput, variant_decisions,
    variants, why, workers,
};
use crate::charts::{Chart, Set};
use crate::document::{Block, Document, Kind, Section};
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::stats::groups::GroupBy;

/// The blocks of a section, made from a run; none if there is nothing to say.
type Blocks = fn(&Run) -> Vec<Block>;

/// The answer of one series and its evidence, in order.
const OF_SERIES: &[(Kind, Blocks)] = &[
    (Kind::Answer, answer::section),
    (Kind::Decisions, decisions::section),
    (Kind::Stopped, stopped::section),
    (Kind::Capacity, amounts::section),
    (Kind::Sensitivity, sensitivity::section),
    (Kind::Recovery, recovery::section),
    (Kind::Why, why::section),
    (Kind::Caveats, caveats::section),
    (Kind::Charts, |_| Vec::new()),
    (Kind::Steps, steps::section),
    (Kind::Limits, limits::section),
    (Kind::Percentiles, percentiles::section),
    (Kind::Scale, scale::section),
    (Kind::Throughput, throughput::section),
    (Kind::Roofline, roofline::section),
    (Kind::Sent, sent::section),
    (Kind::Replayed, replayed::section),
    (Kind::Classes, |run| groups::section(run, GroupBy::Class)),
    (Kind::Turns, |run| groups::section(run, GroupBy::Turn)),
    (Kind::Replicas, replicas::section),
    (Kind::Failures, failures::section),
    (Kind::Checks, checks::section),
    (Kind::Client, client::section),
    (Kind::ServerView, server::section),
];

/// The comparison of several series, in order.
const OF_SEVERAL: &[(Kind, Blocks)] = &[
    (Kind::Question, question::section),
    (Kind::Variants, variants::section),
    (Kind::Comparison, several::section),
    (Kind::Decisions, variant_decisions::section),
    (Kind::CachePair, pair::section),
    (Kind::Mixing, mixing::section),
    (Kind::Caveats, caveats::of_all),
];

/// The sections that every report ends with.
const AT_THE_END: &[(Kind, Blocks)] = &[
    (Kind::Workers, workers::section),
    (Kind::FirstRequests, first_requests::section),
    (Kind::Server, server::facts),
    (Kind::Reproduce, reproduce::section),
    (Kind::Notes, reproduce::notes),
];

/// Returns sections of a run; those for `charts` also hold the charts.
fn sections(run: &Run, all: &[(Kind, Blocks)], kind: Kind, charts: Vec<Block>) -> Vec<Section> {
    let mut made: Vec<Section> = all.iter().map(|(kind, blocks)| Section::new(*kind, blocks(run))).collect();
    if let Some(section) = made.iter_mut().find(|s| s.kind == kind) {
        section.blocks.extend(charts);
    }
    made
}

/// Returns the report of a run of one series, with its charts.
pub(crate) fn document(run: &Run, charts: &[&Chart]) -> Document {
    // A matrix and a run without a limit have special questions and answers.
    let special = matrix::blocks(run).or_else(|| offline::blocks(run));
    let mut sections = sections(run, OF_SERIES, Kind::Charts, pictures::blocks(run, charts, "charts"));
    match special {
        Some(blocks) => {
            let judged = !run.answers.is_empty();
            let of_answers = [Kind::Steps, Kind::Limits];
            sections.retain(|s| s.kind != Kind::Answer && (judged || !of_answers.contains(&s.kind)));
            sections.insert(0, Section::new(Kind::Answer, blocks));
        }
        None => sections.insert(0, Section::new(Kind::Question, question::section(run))),
    }
    whole(run, sections)
}

/// Returns the report of a run of several series: their comparison, then a section for each. `over` are the charts that
/// compare them.
pub(crate) fn of_several(run: &Run, over: &[&Chart], parts: &[Set<'_>]) -> Document {
    let mut sections = sections(run, OF_SEVERAL, Kind::Comparison, pictures::blocks(run, over, "charts"));
    sections.extend(run.parts.iter().zip(parts).map(|(part, of)| section_of_series(run, part, of)));
    whole(run, sections)
}

/// Returns a document of these sections, and of those that every report ends with.
fn whole(run: &Run, mut sections: Vec<Section>) -> Document {
    sections.extend(self::sections(run, AT_THE_END, Kind::Charts, Vec::new()));
    Document {
        title: words::headline(run).into(),
        cards: cards::cards(run),
        lead: vec![Block::paragraph(run.name.as_str())],
        sections,
    }
}

/// Returns the section of one of several series.
fn section_of_series(run: &Run, part: &Run, of: &Set<'_>) -> Section {
    let section = |blocks, parts| Section { kind: Kind::Series, title: several::title(part), blocks, parts };
    if let Some(blocks) = several::unmeasured_part(run, part) {
        return section(blocks, Vec::new());
    }
    let of_part = Run { caveats: caveats::of_series(run, part), ..part.clone() };
    let charts = pictures::blocks(&of_part, &of.charts, &of.link());
    let parts = sections(&of_part, OF_SERIES, Kind::Charts, charts);
    section(variants::failed(run, part.series()).unwrap_or_default(), parts)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
