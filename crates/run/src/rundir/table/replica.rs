//! Rows of `replicas.csv`.

use super::{Cells, Row, inflation_cells, quantile_cells, read_latency};
use anyhow::Result;
use goodput_stats::stats::step::{OutlierMetric, Replica, Step};

/// The cells of a row of `replicas.csv`.
pub(crate) fn replica_cells(step: &Step, r: &Replica) -> Cells {
    let mut c = Cells::of(step);
    c.put("target", r.target);
    c.put("url", &r.url);
    for (name, n) in [("n", r.n), ("failed", r.failed), ("cut", r.cut)] {
        c.put(name, n);
    }
    for metric in Replica::METRICS {
        quantile_cells(&mut c, metric, &r.quantiles(metric));
    }
    c.opt("apart", r.outlier);
    c.opt("others", r.others);
    inflation_cells(&mut c, Replica::METRICS, |m| r.quantiles(m));
    c
}

/// The step that a row of `replicas.csv` belongs to (series, number), and the row.
pub(crate) fn read_replica(row: &Row<'_>) -> Result<((String, u32), Replica)> {
    let replica = Replica {
        target: row.get("target")?,
        url: row.text("url")?.to_owned(),
        n: row.get("n")?,
        failed: row.get("failed")?,
        cut: row.get("cut")?,
        latency: read_latency(row, Replica::METRICS)?,
        outlier: row.opt_text("apart")?.map(|_| row.named("apart", OutlierMetric::from_name)).transpose()?,
        others: row.opt("others")?,
    };
    Ok((row.step()?, replica))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn replicas_read_back_the_same() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "replicas").unwrap();
        for step in &run.steps {
            for replica in &step.replicas {
                let cells = replica_cells(step, replica);
                let names = cells.names.iter().map(String::as_str);
                let row = Row(names.zip(cells.cells.iter().map(String::as_str)).collect());
                let ((series, number), read) = read_replica(&row).unwrap();
                assert_eq!((&series, number, &read), (&step.series, step.step, replica));
            }
        }
        let all: Vec<_> = run.steps.iter().flat_map(|s| &s.replicas).map(|r| r.outlier).collect();
        assert!(all.contains(&None) && all.contains(&Some(OutlierMetric::Ttft)), "{all:?}");
    }
}
