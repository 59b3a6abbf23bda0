//! Percentiles of every metric, with their uncertainty.

use super::cells::{of_step, value_of};
use crate::document::{Block, Cell, Column, Field, Table, Text, code, plain};
use goodput_core::slo::Metric;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::interval;
use goodput_stats::stats::step::{Quantiles, Step, StepKind};

/// Maximum number of steps up to which each has its percentiles in the report.
const FEW: usize = 8;

/// A row: a metric of a step.
struct Measured<'a> {
    step: &'a Step,
    metric: Metric,
    quantiles: Quantiles,
}

/// Returns the blocks of the section of the report; empty if nothing has a percentile.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let shown = telling(run);
    let of = |step: &'_ Step| -> Vec<(Metric, Quantiles)> {
        let all = Metric::ALL.into_iter().map(|m| (m, step.quantiles(m)));
        all.filter(|(_, q)| q.n > 0).collect()
    };
    let rows: Vec<Measured<'_>> = shown
        .iter()
        .flat_map(|s| of(s).into_iter().map(|(metric, quantiles)| Measured { step: s, metric, quantiles }))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let blocks = vec![Block::Paragraph(notes(run, &shown)), table(run, &rows).into(), missing(run)];
    blocks
}

/// Returns the steps that get a row for every metric: all if they are few; otherwise the unloaded server, the ends of
/// the answer and the steps between them.
fn telling(run: &Run) -> Vec<&Step> {
    if run.steps.len() > FEW
        && let Some((_, [low, high])) = run.answers.first().and_then(|a| interval(&a.goodput))
    {
        // Slightly more than the interval, to include the steps just outside it.
        let near = |s: &&Step| (low * 0.9..=high * 1.1).contains(&s.level.value);
        let unloaded_or_soak = |s: &&Step| s.kind.is_outside_search() || s.kind == StepKind::Confirm;
        return run.steps.iter().filter(|s| near(s) || unloaded_or_soak(s)).collect();
    }
    let ends = run.answers.first().map(|a| (a.goodput.bracket.met, a.goodput.bracket.failed));
    let (met, failed) = match ends {
        Some((met, failed)) if run.steps.len() > FEW && (met.is_some() || failed.is_some()) => (met, failed),
        _ => return run.steps.iter().collect(),
    };
    let from = met.or(failed).unwrap_or(0.0) * (1.0 - 1e-9);
    let to = failed.or(met).unwrap_or(f64::INFINITY) * (1.0 + 1e-9);
    let between = |s: &&Step| s.kind.is_outside_search() || (from..=to).contains(&s.level.value);
    run.steps.iter().filter(between).collect()
}

/// Returns true if the bounds account for the clustering of slow requests; run folders of earlier versions lack this.
fn is_clustered(shown: &[&Step]) -> bool {
    shown.iter().any(|s| s.latency.values().any(|q| q.inflation.is_some()))
}

fn table<'s>(run: &'s Run, rows: &[Measured<'s>]) -> Table {
    let shown: Vec<&Step> = rows.iter().map(|r| r.step).collect();
    let [number, level] = of_step(run, Column::level());
    let mut fields = vec![
        number.within(|r: &Measured<'s>| r.step),
        level.within(|r: &Measured<'s>| r.step),
        Field::new(Column::text("metric"), |r: &Measured<'s>| Cell::text(r.metric.title())),
        Field::new(Column::number("n"), |r: &Measured<'s>| Cell::Count(r.quantiles.n as f64)),
    ];
    let clustered = is_clustered(&shown);
    fields.extend(
        clustered
            .then(|| Field::new(Column::number("effective n"), |r: &Measured<'s>| effective(&r.quantiles))),
    );
    type Figure = fn(&Quantiles) -> Option<f64>;
    let columns: [(&str, Figure); 6] = [
        ("p50", |q| q.p50),
        ("p90", |q| q.p90),
        ("p95", |q| q.p95),
        ("p99", |q| q.p99),
        ("p99 from", |q| q.p99_low),
        ("p99 to", |q| q.p99_high),
    ];
    fields.extend(columns.map(|(head, of)| {
        Field::new(Column::number(head), move |r: &Measured<'s>| value_of(r.step, r.metric, of(&r.quantiles)))
    }));
    Table::of(fields, rows).sorted_by_readers(1)
}

/// Returns the effective number of independent values behind the bounds of a p99: `1,340`.
pub(super) fn effective(q: &Quantiles) -> Cell {
    match q.effective() {
        Some(n) if n < 1.0 => Cell::Below(1),
        Some(n) => Cell::Count(n.floor()),
        None => Cell::Unknown,
    }
}

/// Returns a description of the figures and their uncertainty.
fn notes(run: &Run, shown: &[&Step]) -> Text {
    let left_out = match run.steps.len() - shown.len() {
        0 => "",
        _ => " Of the answer's levels and those between them; all others stand in steps.csv.",
    };
    let open = shown.iter().any(|s| s.latency.values().any(|q| q.n > 0 && q.p99_high.is_none()));
    let clustered = is_clustered(shown);
    let note = match (open, clustered) {
        (false, _) => "",
        (true, true) => " An effective n below 368 is too small for an upper bound: it is printed as “–”.",
        (true, false) => {
            " Where there are too few requests for an upper bound (below 368) it is printed as “–”."
        }
    };
    let by = if clustered {
        "at the effective n: slow requests come in clusters, so n of them are worth fewer independent ones."
    } else {
        "assuming independent requests."
    };
    let grows = if shown.iter().any(|s| s.stable == Some(false)) {
        " Where the backlog grows there is no steady value to print."
    } else {
        ""
    };
    let ratios = shown.iter().any(|s| s.latency.iter().any(|(m, q)| m.is_ratio() && q.n > 0));
    let unit = if ratios { " (RTF: a ratio)" } else { "" };
    Text::of([
        plain("Milliseconds from "),
        code("due"),
        plain(format!(
            "{unit}; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, {by}{note}{grows}{left_out}"
        )),
    ])
}

/// Returns the number of requests without a latency; the paragraph is empty if every request has one.
fn missing(run: &Run) -> Block {
    let sum = |of: fn(&Step) -> u64| run.steps.iter().map(of).sum::<u64>();
    let cut = match run.result_item() {
        Some(_) => "that were cut off, at the end of their step or by the default timeout",
        None => {
            "that were cut off, at the end of their step or by the default timeout (but for the TTFT and TTFC of those whose token had come)"
        }
    };
    let missing: Vec<String> = [(sum(|s| s.failed), "that failed"), (sum(|s| s.cut), cut)]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", thousands(n as f64)))
        .collect();
    let missing = missing.join(" and ");
    Block::paragraph(match missing.is_empty() {
        true => String::new(),
        false => {
            format!("Not in these percentiles, of all steps: requests {missing}. The verdicts count them.")
        }
    })
}
