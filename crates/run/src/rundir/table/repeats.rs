//! `repeats.csv`: one row per run of `sweep --repeat` and answer; a run without an answer has one row.

use super::{TableRow, whole_table};
use crate::rundir::repeats::{REPEATS_TABLE, RepeatedRun};
use anyhow::Result;
use goodput_stats::search::answer::Answer;
use serde::{Deserialize, Serialize};

/// The columns of `repeats.csv`, in order; for their meaning see the fields of [`RepeatedRun`] and [`Answer`]. `None`
/// is an empty cell: unknown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct RepeatColumns {
    run: u32,
    folder: String,
    seed: u32,
    started: Option<String>,
    state: String,
    series: Option<String>,
    tier: Option<String>,
    class: Option<String>,
    control: Option<String>,
    status: Option<String>,
    rate: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    safe_rate: Option<f64>,
    binding: Option<String>,
}

impl TableRow for RepeatColumns {
    const FILE: &'static str = REPEATS_TABLE;
}

impl RepeatColumns {
    fn new(run: &RepeatedRun, answer: Option<&Answer>) -> Self {
        let goodput = answer.map(|a| &a.goodput);
        Self {
            run: run.run,
            folder: run.folder.clone(),
            seed: run.seed,
            started: run.started.clone(),
            state: run.state.name().to_owned(),
            series: answer.map(|a| a.series.clone()),
            tier: answer.map(|a| a.tier.clone()),
            class: answer.map(|a| a.class.clone()),
            control: answer.map(|a| a.control.name().to_owned()),
            status: goodput.map(|g| g.status().name().to_owned()),
            rate: goodput.and_then(|g| g.rate()),
            low: goodput.and_then(|g| g.interval90()).map(|ends| ends[0]),
            high: goodput.and_then(|g| g.interval90()).map(|ends| ends[1]),
            safe_rate: goodput.and_then(|g| g.safe_rate()),
            binding: goodput.and_then(|g| g.binding.clone()),
        }
    }
}

/// Returns the text of `repeats.csv`.
///
/// # Errors
/// Fails if a row cannot be serialised.
pub(crate) fn repeats_table(runs: &[RepeatedRun]) -> Result<Vec<u8>> {
    let rows_of = |run: &RepeatedRun| -> Vec<RepeatColumns> {
        match &run.answers[..] {
            [] => vec![RepeatColumns::new(run, None)],
            answers => answers.iter().map(|answer| RepeatColumns::new(run, Some(answer))).collect(),
        }
    };
    let rows: Vec<RepeatColumns> = runs.iter().flat_map(rows_of).collect();
    whole_table(&rows)
}
