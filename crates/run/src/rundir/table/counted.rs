//! `imported.csv`: a row per request whose output tokens another tool counted otherwise than the server.

use super::TableRow;
use crate::rundir::imported::COUNTED;
use serde::{Deserialize, Serialize};

/// The columns of `imported.csv`, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct CountedColumns {
    /// The step.
    pub(crate) step: u32,
    /// The number of the request within the step.
    pub(crate) id: u64,
    /// Output tokens by the tool's own count.
    pub(crate) output_tokens: u32,
}

impl TableRow for CountedColumns {
    const FILE: &'static str = COUNTED;
}
