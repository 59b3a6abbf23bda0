//! The requests of a run folder as records, one after the other.

use super::scaled::row::{COLUMNS, Cells};
use super::traces::{each_row, ends_torn};
use super::{REQUESTS, files};
use anyhow::{Context, Result};
use goodput_core::record::Record;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Visits every complete row of `requests.csv` with its series and step. `classes` are the names of the plan's classes, in order. Visits
/// none where the file is missing; skips a torn last row, which a killed run leaves behind.
///
/// # Errors
/// The file is there and cannot be read.
pub(super) fn each_record(
    dir: &Path,
    classes: &[&str],
    mut each: impl FnMut(&str, u32, &Record),
) -> Result<()> {
    let path = dir.join(REQUESTS);
    if !files::is_there(&path)? {
        return Ok(());
    }
    let failed = || format!("failed to read {}", path.display());
    let mut file = File::open(&path).with_context(failed)?;
    let torn = ends_torn(&mut file).with_context(failed)?;
    each_row(BufReader::with_capacity(1 << 18, file), torn, &COLUMNS, &[], |row, columns| {
        let row = Cells { row, columns };
        let (Ok(series), Some(step)) = (std::str::from_utf8(row.cell(0)), row.number::<u32>(1)) else {
            return;
        };
        if let Some(record) = row.record(classes) {
            each(series, step, &record);
        }
    })
    .with_context(failed)
}
