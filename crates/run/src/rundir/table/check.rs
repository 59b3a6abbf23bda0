//! Rows of `checks.csv`.

use super::{Cells, Row};
use anyhow::Result;
use goodput_stats::stats::step::{CheckRow, Step};

/// The cells of a row of `checks.csv`.
pub(crate) fn check_cells(step: &Step, r: &CheckRow) -> Cells {
    let mut c = Cells::of(step);
    c.put("class", &r.class);
    c.put("check", &r.check);
    c.put("n", r.n);
    c.put("failed", r.failed);
    c.put("sample", &r.sample);
    c
}

/// The step that a row of `checks.csv` belongs to (series, number), and the row.
pub(crate) fn read_check(row: &Row<'_>) -> Result<((String, u32), CheckRow)> {
    let check = CheckRow {
        class: row.text("class")?.to_owned(),
        check: row.text("check")?.to_owned(),
        n: row.get("n")?,
        failed: row.get("failed")?,
        sample: row.text("sample")?.to_owned(),
    };
    Ok((row.step()?, check))
}
