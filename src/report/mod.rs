//! Reports and charts of a run folder, made from [`crate::rundir::Run`] alone.

pub mod charts;
pub mod escape;
pub mod markdown;
pub mod tables;
pub mod terminal;
pub mod words;

#[cfg(test)]
pub(crate) mod fixture;

use crate::rundir::{Run, replace};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes `report.md` and `charts/*.png` into a run folder and returns their paths, the report first.
///
/// Each file is written beside its place and moved there, so that a reader never sees half of one.
///
/// # Errors
///
/// When a chart cannot be drawn or a file not be written; the message names it.
pub fn write_all(run: &Run, dir: &Path) -> Result<Vec<PathBuf>> {
    let charts = dir.join("charts");
    fs::create_dir_all(&charts)
        .with_context(|| format!("failed to create the folder {}", charts.display()))?;
    let mut files = vec![write(dir.join("report.md"), markdown::render(run).as_bytes())?];
    for chart in charts::CHARTS {
        files.push(write(charts.join(format!("{}.png", chart.name)), &chart.png(run)?)?);
    }
    Ok(files)
}

fn write(path: PathBuf, bytes: &[u8]) -> Result<PathBuf> {
    replace(&path, bytes)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_report_shows_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let files = write_all(&fixture::found(), dir.path()).unwrap();
        assert_eq!(files.len(), 1 + charts::CHARTS.len());
        let report = fs::read_to_string(&files[0]).unwrap();
        for file in &files[1..] {
            let link = file.strip_prefix(dir.path()).unwrap().to_str().unwrap();
            assert!(
                report.contains(&format!("]({link})")) && fs::metadata(file).unwrap().len() > 10_000,
                "{link}"
            );
        }
        assert!(
            fs::read_dir(dir.path().join("charts")).unwrap().count() == charts::CHARTS.len(),
            "nothing is left over"
        );
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("report.md")).unwrap();
        let error = format!("{:#}", write_all(&fixture::found(), dir.path()).unwrap_err());
        assert!(error.contains("report.md"), "{error}");
    }
}
