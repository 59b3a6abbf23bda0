//! Reports, comparisons and charts as files.

mod comparison;
pub mod pictures;
mod report;

pub use comparison::{write_comparison, write_junit};
pub use report::{ChartFiles, write_all};

use crate::charts::{Picture, Raster};
use anyhow::Result;
use goodput_run::rundir::{make_folder, replace};
use pictures::Format;
use std::path::{Path, PathBuf};

/// Writes a temporary file next to its destination and renames it, so that readers never see a partial one; returns its
/// path.
///
/// # Errors
/// The file cannot be written; the message names it.
fn write(path: PathBuf, bytes: &[u8]) -> Result<PathBuf> {
    replace(&path, bytes)?;
    Ok(path)
}

/// Writes the files of a chart into a folder, in one `format` or in both, and its slide into `slides` within it. Returns
/// their paths.
fn write_chart(
    picture: &Picture<'_>,
    format: Option<Format>,
    to: &Path,
    raster: &mut Raster,
) -> Result<Vec<PathBuf>> {
    let (name, mut files) = (picture.chart.name, Vec::new());
    if format != Some(Format::Svg) {
        files.push(write(to.join(format!("{name}.png")), &picture.png(raster)?)?);
        if let Some(bytes) = picture.slide_png(raster)? {
            let slides = to.join("slides");
            make_folder(&slides)?;
            files.push(write(slides.join(format!("{name}.png")), &bytes)?);
        }
    }
    if format != Some(Format::Png) {
        files.push(write(to.join(format!("{name}.svg")), picture.svg().as_bytes())?);
    }
    Ok(files)
}
