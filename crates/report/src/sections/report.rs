//! The report of a run: a decision record with the question, the answer and its certainty, and how to repeat the
//! measurement.

use super::{
    amounts, answer, cards, caveats, checks, client, decisions, failures, groups, limits, matrix, mixing,
    offline, pair, percentiles, pictures, question, recovery, replayed, replicas, reproduce, roofline, scale,
    sensitivity, sent, server, several, steps, throughput, variants, why,
};
use crate::document::{Block, Document, Kind, Section};
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::stats::groups::GroupBy;
use pictures::Drawn;

/// Returns the report of a run of one series, with its charts.
pub(crate) fn document(run: &Run, charts: &[Drawn]) -> Document {
    // A matrix and a run without a limit have special questions and answers.
    let own = matrix::blocks(run).or_else(|| offline::blocks(run));
    let mut sections = of_series(run, charts, "charts");
    match own {
        Some(own) => {
            let judged = !run.answers.is_empty();
            let of_answers = [Kind::Steps, Kind::Limits];
            sections.retain(|s| s.kind != Kind::Answer && (judged || !of_answers.contains(&s.kind)));
            sections.insert(0, Section::new(Kind::Answer, own));
        }
        None => sections.insert(0, question::section(run)),
    }
    whole(run, sections)
}

/// Charts of one of several series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfSeries {
    /// Their folder, within that of all charts.
    pub(crate) folder: String,
    /// The charts.
    pub(crate) charts: Vec<Drawn>,
}

/// Returns the report of a run of several series: their comparison, then a section for each. `over` are the charts that
/// compare them.
pub(crate) fn of_several(run: &Run, over: &[Drawn], parts: &[OfSeries]) -> Document {
    let mut sections = vec![
        question::section(run),
        variants::section(run),
        decisions::variants(run),
        several::section(run, pictures::blocks(run, over, "charts")),
        pair::section(run),
        mixing::section(run),
        caveats::of_all(run),
    ];
    sections.extend(run.parts.iter().zip(parts).map(|(part, of)| section_of_series(run, part, of)));
    whole(run, sections)
}

/// Returns a document of these sections, and of those that every report ends with.
fn whole(run: &Run, mut sections: Vec<Section>) -> Document {
    sections.extend([server::facts(run), reproduce::section(run), reproduce::notes(run)]);
    Document {
        title: words::headline(run).into(),
        cards: cards::cards(run),
        lead: vec![Block::paragraph(run.name.as_str())],
        sections,
    }
}

/// Returns the section of one of several series.
fn section_of_series(run: &Run, part: &Run, of: &OfSeries) -> Section {
    let section = |blocks, parts| Section { kind: Kind::Series, title: several::title(part), blocks, parts };
    if let Some(blocks) = several::unmeasured_part(run, part) {
        return section(blocks, Vec::new());
    }
    let own = Run { caveats: caveats::own(run, part), ..part.clone() };
    let parts = of_series(&own, &of.charts, &format!("charts/{}", of.folder));
    section(variants::failed(run, part.series()).unwrap_or_default(), parts)
}

/// Returns the answer and its evidence, in sections that may be empty; the charts are in `folder`.
fn of_series(run: &Run, charts: &[Drawn], folder: &str) -> Vec<Section> {
    vec![
        answer::section(run),
        decisions::section(run),
        decisions::stopped(run),
        amounts::section(run),
        sensitivity::section(run),
        recovery::section(run),
        why::section(run),
        caveats::section(run),
        pictures::section(run, charts, folder),
        steps::section(run),
        limits::section(run),
        percentiles::section(run),
        scale::section(run),
        throughput::section(run),
        roofline::section(run),
        sent::section(run),
        replayed::section(run),
        groups::section(run, GroupBy::Class),
        groups::section(run, GroupBy::Turn),
        replicas::section(run),
        failures::section(run),
        checks::section(run),
        client::section(run),
        server::section(run),
    ]
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
