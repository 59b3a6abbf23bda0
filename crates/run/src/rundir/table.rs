//! The CSV files of a run folder. One struct per file is its schema: its fields are the columns, in order.
//!
//! Readers go by column name. A column that a file does not have reads as `None` or as the default that stands at the field; unknown columns
//! are passed over. So folders of earlier and later versions read, and only a column without which the row means nothing is an error.
//!
//! Floats are written in the shortest form that reads back the same, so that a search over rows read from disk decides as it did over the
//! steps in memory.

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

/// The series and the number of a step.
pub(crate) type StepKey = (String, u32);

/// A row of a CSV file of the run folder.
pub(crate) trait TableRow: Serialize + DeserializeOwned {
    /// The name of the file.
    const FILE: &'static str;
}
