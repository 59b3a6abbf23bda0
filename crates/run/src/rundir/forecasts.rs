//! Forecasts of a run: the goodput of models of its servers under single changes, simulated after the sweep.

use super::files;
use anyhow::{Context, Result};
use goodput_stats::diagnosis::Forecast;
use std::path::Path;

/// File of a run folder with the forecasts of its series.
pub const FILE: &str = "forecast.json";

/// Writes the forecasts into a run folder.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, forecasts: &[Forecast]) -> Result<()> {
    let text = serde_json::to_string_pretty(forecasts).context("failed to write the forecasts as JSON")?;
    files::replace(&dir.join(FILE), text.as_bytes())
}

/// Reads the forecasts of a run folder; empty if there are none.
///
/// # Errors
/// The file exists but cannot be read.
pub(super) fn read(dir: &Path) -> Result<Vec<Forecast>> {
    let file = dir.join(FILE);
    if !file.is_file() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&files::text(&file)?).with_context(|| {
        format!("{} does not hold forecasts; remove it to read the run without", file.display())
    })
}
