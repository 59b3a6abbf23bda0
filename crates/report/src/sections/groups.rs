//! The classes of a mix, and the turns of conversations, side by side.

use super::at_the_answer::at_the_answer;
use super::cells::{self, latency};
use crate::document::{Block, Cell, Column, Field, Table};
use crate::escape::clip;
use crate::words;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::{Quantiles, Step, StepKind};

/// Returns the groups of one kind in a step.
fn groups_of(step: &Step, by: GroupBy) -> Vec<&Group> {
    step.groups.iter().filter(|g| g.by == by).collect()
}

/// Returns the head of the column with their names.
const fn noun(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Class => "class",
        GroupBy::Turn => "turn",
    }
}

/// Returns each group at the step of the answer, and the p99 TTFT of each over all levels; empty if requests are all of
/// one kind.
pub(super) fn section(run: &Run, by: GroupBy) -> Vec<Block> {
    let Some(step) = at_the_answer(run, |s| !groups_of(s, by).is_empty()) else { return Vec::new() };
    let counted = match by {
        GroupBy::Class => "",
        GroupBy::Turn => {
            " Turn 1 is the first message of a conversation; later ones carry the history with the server's own answers."
        }
    };
    let said = format!(
        "Step {} at {}, milliseconds; all steps stand in groups.csv.{counted}",
        step.step,
        words::step_level(step)
    );
    let mut blocks = vec![Block::paragraph(said), table(step, by).into()];
    if let Some(over) = over_levels(run, step, by) {
        blocks.push(Block::paragraph("TTFT over the levels, p50 / p99 in milliseconds:"));
        blocks.push(over.captioned("TTFT over the levels").into());
    }
    blocks
}

/// A group of requests, or the total of all.
struct GroupRow<'a> {
    name: String,
    requests: u64,
    failed: u64,
    rate: f64,
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    quantiles: Box<dyn Fn(Metric) -> Quantiles + 'a>,
}

impl<'a> GroupRow<'a> {
    fn of_group(g: &'a Group) -> Self {
        Self {
            name: clip(&g.name, 40),
            requests: g.n,
            failed: g.failed,
            rate: g.achieved_rate,
            input_tokens: g.input_tokens_mean,
            output_tokens: g.output_tokens_mean,
            quantiles: Box::new(|m| g.quantiles(m)),
        }
    }

    fn of_all(step: &'a Step) -> Self {
        Self {
            name: "all together".into(),
            requests: step.due_n,
            failed: step.failed,
            rate: step.achieved_rate,
            input_tokens: step.input_tokens_mean,
            output_tokens: step.output_tokens_mean,
            quantiles: Box::new(|m| step.quantiles(m)),
        }
    }
}

fn table(step: &Step, by: GroupBy) -> Table {
    // For turns, inter-token gaps are not pooled.
    let gaps = groups_of(step, by).iter().any(|g| g.quantiles(Metric::Itl).n > 0);
    let time = |head: &str, metric: Metric, of: fn(&Quantiles) -> Option<f64>| {
        Field::new(Column::number(head), move |r: &GroupRow<'_>| latency(step, of(&(r.quantiles)(metric))))
    };
    let mut fields = vec![
        Field::new(Column::text(noun(by)), |r: &GroupRow<'_>| Cell::text(r.name.as_str())),
        Field::new(Column::number("requests"), |r: &GroupRow<'_>| Cell::Count(r.requests as f64)),
        Field::new(Column::number("failed"), |r: &GroupRow<'_>| Cell::Count(r.failed as f64)),
        Field::new(Column::number("req/s"), |r: &GroupRow<'_>| Cell::Number(r.rate)),
        time("TTFT p50", Metric::Ttft, |q| q.p50),
        time("TTFT p99", Metric::Ttft, |q| q.p99),
        time("TPOT p50", Metric::Tpot, |q| q.p50),
        time("TPOT p99", Metric::Tpot, |q| q.p99),
    ];
    fields.extend(gaps.then(|| time("ITL p99", Metric::Itl, |q| q.p99)));
    fields.extend([
        time("e2e p99", Metric::E2e, |q| q.p99),
        Field::new(Column::number("input tokens, mean"), |r: &GroupRow<'_>| Cell::number(r.input_tokens)),
        Field::new(Column::number("output tokens, mean"), |r: &GroupRow<'_>| Cell::number(r.output_tokens)),
    ]);
    let mut rows: Vec<GroupRow<'_>> = groups_of(step, by).into_iter().map(GroupRow::of_group).collect();
    rows.push(GroupRow::of_all(step));
    Table::of(fields, &rows)
}

/// Returns the TTFT of each group at every step of the series; `None` if there is only one step.
fn over_levels(run: &Run, chosen: &Step, by: GroupBy) -> Option<Table> {
    let mut steps: Vec<&Step> =
        run.steps.iter().filter(|s| s.series == chosen.series && !groups_of(s, by).is_empty()).collect();
    if steps.len() < 2 {
        return None;
    }
    steps.sort_by(|a, b| {
        let key = |s: &Step| s.kind != StepKind::Baseline;
        key(a).cmp(&key(b)).then(a.level.value.total_cmp(&b.level.value)).then(a.step.cmp(&b.step))
    });
    let mut names: Vec<&str> = Vec::new();
    for g in steps.iter().flat_map(|s| groups_of(s, by)) {
        if !names.contains(&g.name.as_str()) {
            names.push(&g.name);
        }
    }
    if by == GroupBy::Turn {
        let first = |name: &str| {
            name.split(['-', '+']).next().and_then(|n| n.parse::<u16>().ok()).unwrap_or(u16::MAX)
        };
        names.sort_by_key(|name| first(name));
    }
    let field = |name: &str| {
        let title = if by == GroupBy::Turn { format!("turn {name}") } else { clip(name, 40) };
        let name = name.to_owned();
        Field::new(Column::number(title), move |s: &&Step| {
            let group = s.groups.iter().find(|g| g.by == by && g.name == name);
            let q = group.map(|g| g.quantiles(Metric::Ttft)).unwrap_or_default();
            let (p50, p99) = (latency(s, q.p50), latency(s, q.p99));
            Cell::figure(format!("{} / {}", p50.words(), p99.words()), p50.value())
        })
    };
    let mut fields = vec![
        Field::new(Column::step_number(), |s: &&Step| cells::number(s)),
        Field::new(Column::level(), |s: &&Step| cells::bare_level(s)),
    ];
    fields.extend(names.iter().map(|name| field(name)));
    Some(Table::of(fields, &steps).sorted_by_readers(1))
}

/// Returns the groups in a line for a terminal: `TTFT p99 by class at 8 req/s: short 180 ms, long 1.2 s`; empty if
/// requests are all of one kind.
pub(super) fn in_short(run: &Run, by: GroupBy) -> String {
    let Some(step) = at_the_answer(run, |s| !groups_of(s, by).is_empty()) else { return String::new() };
    let said = |g: &Group| {
        let value = g.quantiles(Metric::Ttft).p99.map_or("–".to_owned(), words::latency);
        format!("{} {value}", clip(&g.name, 24))
    };
    let all: Vec<String> = groups_of(step, by).into_iter().map(said).collect();
    format!("p99 TTFT by {} at {}: {}.", noun(by), words::step_level(step), all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    /// Returns a run whose steps have classes, or turns.
    fn with(by: GroupBy, names: &[&str]) -> Run {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        for s in &mut run.steps {
            let share = 1.0 / names.len() as f64;
            let group = |name: &&str| Group {
                by,
                name: (*name).to_owned(),
                n: s.due_n / names.len() as u64,
                failed: 0,
                cut: 0,
                failed_timeout: 0,
                latency: s.latency.clone(),
                input_tokens_mean: s.input_tokens_mean,
                output_tokens_mean: s.output_tokens_mean,
                achieved_rate: share * s.achieved_rate,
            };
            s.groups = names.iter().map(group).collect();
        }
        run
    }

    #[test]
    fn classes_and_turns_stand_beside_all_requests() {
        let run = with(GroupBy::Class, &["short", "long"]);
        let text = blocks(&section(&run, GroupBy::Class), 3);
        assert!(
            text.contains("| short |") && text.contains("| long |") && text.contains("| all together |"),
            "{text}"
        );
        assert!(
            text.contains("TTFT over the levels") && text.contains("| # | level | short | long |"),
            "{text}"
        );
        assert!(section(&run, GroupBy::Turn).is_empty());
        assert!(
            in_short(&run, GroupBy::Class).starts_with("p99 TTFT by class at "),
            "{}",
            in_short(&run, GroupBy::Class)
        );
        let run = with(GroupBy::Turn, &["1", "2", "10-19"]);
        let text = blocks(&section(&run, GroupBy::Turn), 3);
        assert!(
            text.contains("turn 1 | turn 2 | turn 10-19 |") && text.contains("server's own answers"),
            "{text}"
        );
    }

    #[test]
    fn requests_of_one_kind_have_no_section() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        assert!(section(&run, GroupBy::Class).is_empty() && in_short(&run, GroupBy::Turn).is_empty());
    }
}
