//! Failures by kind, with one sample each.

use crate::document::{Block, Cell, Column, Field, Table};
use crate::escape::clip;
use goodput_run::rundir::{FailureRow, Run};

/// Returns the blocks of the section of the report; empty if nothing failed.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let fields: Vec<Field<'_, FailureRow>> = vec![
        Field::new(Column::number("step"), |f: &FailureRow| match f.step {
            0 => Cell::text("before the first"),
            step => Cell::figure(step.to_string(), None),
        }),
        Field::new(Column::text("kind"), |f: &FailureRow| Cell::text(f.kind.as_str())),
        Field::new(Column::number("status"), |f: &FailureRow| {
            f.status.map_or(Cell::Unknown, |s| Cell::figure(s.to_string(), None))
        }),
        Field::new(Column::number("count"), |f: &FailureRow| Cell::Count(f.count as f64)),
        Field::new(Column::text("sample"), |f: &FailureRow| Cell::text(clip(&f.sample, 160))),
    ];
    vec![Table::of(fields, &run.failures).into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    #[test]
    fn samples_are_harmless() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "all-failed").unwrap();
        insta::assert_snapshot!(blocks(&section(&run), 3), @r#"
        | step | kind | status | count | sample |
        | ---: | --- | ---: | ---: | --- |
        | 1 | server-error | 500 | 240 | {"error": "boom \| \`x\` &lt;b&gt;␛\[31m"} second line |
        "#);
    }
}
