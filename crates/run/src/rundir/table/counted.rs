//! `imported.csv`: one row per request whose output tokens another tool counted differently from the server.

use super::TableRow;
use crate::rundir::imported::COUNTED;
use serde::{Deserialize, Serialize};

/// The columns of `imported.csv`, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct CountedColumns {
    /// Number of the step.
    pub(crate) step: u32,
    /// Number of the request within the step.
    pub(crate) id: u64,
    /// Output tokens by the tool's own count.
    pub(crate) output_tokens: u32,
}

impl TableRow for CountedColumns {
    const FILE: &'static str = COUNTED;
}
