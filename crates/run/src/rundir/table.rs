//! The CSV files of a run folder. One struct per file is its schema: its fields are the columns, in order.
//!
//! Readers look up columns by name. A missing column reads as `None` or as the default declared at the field; unknown
//! columns are skipped. Folders of earlier and later versions therefore stay readable, and only a column without
//! which the row is meaningless is required.
//!
//! Floats are written in the shortest form that parses to an equal value, so that a search over rows read from disk
//! decides as it did over the steps in memory.

mod bounds;
mod checks;
mod co_misses;
mod counted;
mod decode;
mod encode;
mod error;
mod file;
mod groups;
mod histograms;
mod latency;
mod limits;
mod metrics;
mod repeats;
mod replicas;
mod samples;
mod server;
mod steps;
#[cfg(test)]
mod tests;
mod variants;

pub(crate) use checks::CheckColumns;
pub(crate) use counted::CountedColumns;
pub(crate) use encode::NamedCells;
pub(crate) use file::{RowsWriter, append_rows, heads_of, read_rows, whole_table, write_heads};
pub(crate) use groups::GroupColumns;
pub(crate) use histograms::HistogramColumns;
pub(crate) use limits::LimitColumns;
pub(crate) use metrics::MetricColumns;
pub(crate) use repeats::repeats_table;
pub(crate) use replicas::ReplicaColumns;
pub(crate) use samples::SampleColumns;
pub(crate) use server::ServerColumns;
pub(crate) use steps::StepColumns;
pub use variants::variants_table;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Series and number of a step.
pub(crate) type StepKey = (String, u32);

/// A row of a CSV file of the run folder.
pub(crate) trait TableRow: Serialize + DeserializeOwned {
    /// Name of the file.
    const FILE: &'static str;
}
