//! The first requests to each model or LoRA adapter, which may wait until its weights are loaded.

use crate::document::{Block, Cell, Column, Field, Table};
use crate::escape::clip;
use goodput_run::rundir::{FirstRequests, Run};

/// Maximum number of models shown: those whose first request took longest.
const MOST: usize = 40;

/// Returns the first requests to each model, for each server; empty if all requests go to one model.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let variants = run.meta.variants.iter().map(|v| (v.name.as_str(), &v.first_requests));
    let mut blocks: Vec<Block> = Vec::new();
    for (name, times) in std::iter::once(("", &run.meta.first_requests)).chain(variants) {
        if times.is_empty() {
            continue;
        }
        if !name.is_empty() {
            blocks.push(Block::paragraph(format!("{}:", clip(name, 60))));
        }
        blocks.push(table(times).into());
    }
    if blocks.is_empty() {
        return blocks;
    }
    let said = "Two requests of a few tokens to each model, one after the other, before anything else was sent: where the first takes longer, it \
                waited for the weights of its adapter. No step counts them. A server with more adapters than it can hold loads some of them again and \
                again; that is part of every latency measured here.";
    blocks.insert(0, Block::paragraph(said));
    blocks
}

fn table(times: &[FirstRequests]) -> Table {
    let mut shown: Vec<&FirstRequests> = times.iter().collect();
    let cost = |times: &FirstRequests| times.first_s - times.second_s;
    if shown.len() > MOST {
        shown.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        shown.truncate(MOST);
    }
    let milliseconds = |seconds: f64| Cell::number(Some(1000.0 * seconds));
    let mut fields = vec![
        Field::new(Column::text("model").wide(20), |t: &&FirstRequests| Cell::text(clip(&t.model, 60))),
        Field::new(Column::number("first, ms"), move |t: &&FirstRequests| milliseconds(t.first_s)),
        Field::new(Column::number("second, ms"), move |t: &&FirstRequests| milliseconds(t.second_s)),
    ];
    if times.iter().any(|t| t.load_s.is_some()) {
        let loading = |t: &&FirstRequests| Cell::number(t.load_s.map(|seconds| 1000.0 * seconds));
        fields.push(Field::new(Column::number("loading, ms"), loading));
    }
    Table::of(fields, &shown).captioned("First requests to each model")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    #[test]
    fn the_cost_of_a_first_request_is_shown() {
        let mut run = fixture::cases().remove(0).1;
        assert!(section(&run).is_empty());
        let times = |model: &str, load_s, first_s| FirstRequests {
            model: model.into(),
            load_s,
            first_s,
            second_s: 0.024,
        };
        run.meta.first_requests = vec![times("base", None, 0.025), times("sql", Some(1.5), 0.8124)];
        insta::assert_snapshot!(blocks(&section(&run), 3), @r"
        Two requests of a few tokens to each model, one after the other, before anything else was sent: where the first takes longer, it waited for the weights of its adapter. No step counts them. A server with more adapters than it can hold loads some of them again and again; that is part of every latency measured here.

        | model | first, ms | second, ms | loading, ms |
        | --- | ---: | ---: | ---: |
        | base | 25 | 24 | – |
        | sql | 812 | 24 | 1,500 |
        ");
    }
}
