//! Rows of `groups.csv`.

use super::{Cells, Row, inflation_cells, quantile_cells, read_latency};
use anyhow::Result;
use goodput_core::slo::Metric;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::Step;

/// The cells of a row of `groups.csv`.
pub(crate) fn group_cells(step: &Step, g: &Group) -> Cells {
    let mut c = Cells::of(step);
    c.put("by", g.by.name());
    c.put("name", &g.name);
    for (name, n) in [("n", g.n), ("failed", g.failed), ("cut", g.cut)] {
        c.put(name, n);
    }
    for metric in Group::METRICS {
        quantile_cells(&mut c, metric, &g.quantiles(metric));
    }
    c.opt("input_tokens_mean", g.input_tokens_mean);
    c.opt("output_tokens_mean", g.output_tokens_mean);
    c.put("achieved_rate", g.achieved_rate);
    quantile_cells(&mut c, Metric::Itl, &g.quantiles(Metric::Itl));
    inflation_cells(&mut c, Group::METRICS.into_iter().chain([Metric::Itl]), |m| g.quantiles(m));
    c.put("failed_timeout", g.failed_timeout);
    c
}

/// The step that a row of `groups.csv` belongs to (series, number), and the row.
pub(crate) fn read_group(row: &Row<'_>) -> Result<((String, u32), Group)> {
    let mut latency = read_latency(row, Group::METRICS)?;
    // Folders of earlier versions do not tell.
    if row.0.contains_key("itl_n_ms") {
        latency.extend(read_latency(row, [Metric::Itl])?);
    }
    let group = Group {
        by: row.named("by", GroupBy::from_name)?,
        name: row.text("name")?.to_owned(),
        n: row.get("n")?,
        failed: row.get("failed")?,
        cut: row.get("cut")?,
        failed_timeout: row.opt_late("failed_timeout")?.unwrap_or_default(),
        latency,
        input_tokens_mean: row.opt("input_tokens_mean")?,
        output_tokens_mean: row.opt("output_tokens_mean")?,
        achieved_rate: row.get("achieved_rate")?,
    };
    Ok((row.step()?, group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::collections::BTreeMap;

    #[test]
    fn groups_read_back_the_same() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let step = &run.steps[0];
        let whole = Group {
            by: GroupBy::Class,
            name: "chat, long".into(),
            n: 120,
            failed: 2,
            cut: 1,
            failed_timeout: 1,
            latency: [(Metric::Ttft, Metric::Ttft), (Metric::E2e, Metric::E2e), (Metric::Itl, Metric::Tpot)]
                .map(|(m, of)| (m, step.quantiles(of)))
                .into(),
            input_tokens_mean: Some(612.5),
            output_tokens_mean: None,
            achieved_rate: 1.95,
        };
        let empty =
            Group { by: GroupBy::Turn, name: "10-19".into(), latency: BTreeMap::new(), ..whole.clone() };
        for group in [whole, empty] {
            let cells = group_cells(step, &group);
            let names = cells.names.iter().map(String::as_str);
            let row = Row(names.zip(cells.cells.iter().map(String::as_str)).collect());
            let ((series, number), read) = read_group(&row).unwrap();
            assert_eq!((&series, number, &read), (&step.series, step.step, &group));
        }
    }
}
