//! Options and value parsers that several subcommands share.

use crate::report::ChartFiles;
use crate::units::{Positive, Rate};
use clap::Args;
use std::path::PathBuf;

/// Options of the commands that measure a server under a plan.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Override a key of the plan, as in step.measure=30s. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run in simulated time. The server must be simulated.
    #[arg(long)]
    pub virtual_time: bool,
    /// Do not ask before loading a public address with more than 10 requests/s, or with single requests as fast as it answers. goodput
    /// never asks about private addresses; it looks every name up, and checks again where it connects.
    #[arg(long)]
    pub yes: bool,
}

/// Options of the commands that write a run folder.
#[derive(Debug, Args)]
pub struct FolderArgs {
    /// Run folder [default: runs/NAME-TIMESTAMP].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite an earlier run in the run folder.
    #[arg(long)]
    pub force: bool,
    /// Leave the charts out of the reports. goodput report RUN draws them later.
    #[arg(long)]
    pub no_charts: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

impl FolderArgs {
    /// Returns the form of the reports and of the answer.
    pub(crate) const fn output(&self) -> Output {
        let charts = if self.no_charts { ChartFiles::LeftOut } else { ChartFiles::Drawn };
        Output { json: self.json, charts }
    }
}

/// Form of the reports and of the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Print the answer as JSON.
    pub(crate) json: bool,
    /// Presence of charts in the reports.
    pub(crate) charts: ChartFiles,
}

/// Parses a number.
pub(super) fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a number"))
}

/// Parses requests per second.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    number(text).map_err(|e| format!("{e}: write requests per second, such as 12.5"))?.try_into()
}

/// Parses a number above zero.
pub(super) fn positive(text: &str) -> Result<Positive, String> {
    number(text)?.try_into()
}
