//! Throughput as three numbers, never only their sum, with the mean lengths; cost if there is a price.

use super::cells::step_table;
use crate::document::{Block, Cell, Column, Field};
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::Step;

/// Returns the blocks of the section of the report; empty if there is no step.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let priced = run.steps.iter().any(|s| s.cost_per_mtok.is_some());
    let number = |head: &str, of: fn(&Step) -> Option<f64>| {
        Field::new(Column::number(head), move |s: &&Step| Cell::number(of(s)))
    };
    let mut fields = vec![number("achieved req/s", |s| Some(s.achieved_rate))];
    let has_tokens = run.result_item().is_none();
    fields.extend(run.item().map(|item| number(&format!("{}/s", item.plural()), |s| Some(s.items_per_s))));
    fields.extend(has_tokens.then(|| number("output tokens/s", |s| Some(s.output_tokens_per_s))));
    fields.extend([
        number("prompt tokens/s", |s| Some(s.prompt_tokens_per_s)),
        number("mean in flight", |s| Some(s.in_flight_mean)),
        number("input tokens, mean", |s| s.input_tokens_mean),
    ]);
    fields.extend(has_tokens.then(|| number("output tokens, mean", |s| s.output_tokens_mean)));
    let cost = format!("{} per million output tokens", run.currency.as_deref().unwrap_or("cost"));
    fields.extend(priced.then(|| Field::new(Column::number(cost), |s: &&Step| words::step_cost(run, s))));
    let steps: Vec<&Step> = run.steps.iter().collect();
    vec![step_table(run, &steps, fields).into()]
}
