//! Files of data sets and traces: opened, decompressed, split into rows, and read again at any position.

pub(crate) mod open;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod sent;
pub(crate) mod stored;

pub(crate) use record::Record;
pub(crate) use scan::{Framing, RowBytes, ScanError, Scanner};
pub(crate) use sent::SentKind;
pub(crate) use stored::{FileRange, StoredFile, expand, temporary};

/// Number of unusable rows that are kept as examples; all are counted.
pub(crate) const MAX_EXAMPLES: usize = 5;
