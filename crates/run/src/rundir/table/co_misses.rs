//! The cell of co-misses in a row of `limits.csv`: `ttft.p99=9/4/310/402/288`, several with `;` between.

use super::{Cell, Row};
use anyhow::{Context, Result};
use goodput_stats::stats::co_misses::CoMisses;

/// What there is between two limits, and between the counts of one. Names of classes hold neither.
const BETWEEN: char = ';';
const COUNTS: char = '/';

/// Writes co-misses: the other limit, requests that missed both, clusters, product, own squares and the other's.
pub(super) fn co_miss_cell(all: &[CoMisses]) -> String {
    let one = |c: &CoMisses| {
        let counts = [c.requests, c.clusters, c.product, c.own_sq, c.other_sq].map(|n| n.to_string());
        format!("{}={}", c.limit, counts.join(&COUNTS.to_string()))
    };
    all.iter().map(one).collect::<Vec<_>>().join(&BETWEEN.to_string())
}

/// Reads them back; none from folders of earlier versions, which lack the column.
pub(super) fn read_co_misses(row: &Row<'_>) -> Result<Vec<CoMisses>> {
    if !row.0.contains_key("co_misses") {
        return Ok(Vec::new());
    }
    let cell = row.text("co_misses")?;
    let all = cell.split(BETWEEN).filter(|one| !one.is_empty());
    all.map(|one| parsed(one).with_context(|| format!("column co_misses holds {one:?}"))).collect()
}

fn parsed(one: &str) -> Option<CoMisses> {
    let (limit, counts) = one.rsplit_once('=')?;
    let counts: Vec<u64> =
        counts.split(COUNTS).map(|n| n.parse().ok().filter(Cell::is_sound)).collect::<Option<_>>()?;
    let [requests, clusters, product, own_sq, other_sq] = counts.try_into().ok()?;
    Some(CoMisses { limit: limit.to_owned(), requests, clusters, product, own_sq, other_sq })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rundir::table::{limit_cells, read_limit};

    #[test]
    fn co_misses_read_back_the_same() {
        let step = fixture::found().steps.swap_remove(0);
        let one = |limit: &str, requests| CoMisses {
            limit: limit.into(),
            requests,
            clusters: 4,
            product: 310,
            own_sq: 402,
            other_sq: 288,
        };
        for co_misses in
            [vec![], vec![one("ttft.p99", 9)], vec![one("ttft.p99", 0), one("long.v2/tpot.p99", 3)]]
        {
            let mut row = step.limits[0].clone();
            row.co_misses = co_misses;
            let cells = limit_cells(&step, &row);
            assert_eq!(read_limit(&Row::back(&cells)).unwrap().1, row);
            let mut old = Row::back(&cells);
            old.0.remove("co_misses");
            row.co_misses.clear();
            assert_eq!(read_limit(&old).unwrap().1, row, "a folder without the column");
        }
    }

    #[test]
    fn what_is_no_count_is_an_error_that_shows_it() {
        let step = fixture::found().steps.swap_remove(0);
        for wrong in [
            "ttft.p99",
            "ttft.p99=1/2/3/4",
            "ttft.p99=1/2/3/4/5/6",
            "a=1/2/-3/4/5",
            "a=1/2/3/4/99999999999999999",
        ] {
            let cells = limit_cells(&step, &step.limits[0]);
            let mut row = Row::back(&cells);
            row.0.insert("co_misses", wrong);
            let error = format!("{:#}", read_limit(&row).unwrap_err());
            assert!(error.contains("co_misses") && error.contains(wrong), "{error}");
        }
    }
}
