//! The files of a comparison, in a separate folder.

use super::write;
use crate::charts::{self, Look, Raster};
use crate::render::junit::junit;
use crate::render::markdown;
use crate::sections::comparison;
use anyhow::{Context, Result};
use goodput_run::compare::{Comparison, Side};
use goodput_run::rundir::{Run, Traces, make_folder, replace};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the sides as one run of several series, for the charts that compare them.
fn together(sides: &[Side]) -> Option<Run> {
    let parts: Vec<Run> = sides.iter().map(relabelled).collect();
    let first = parts.first()?;
    let labels: Vec<&str> = sides.iter().map(|s| s.label.as_str()).collect();
    Some(Run {
        name: labels.join(", "),
        answers: parts.iter().flat_map(|p| p.answers.clone()).collect(),
        steps: parts.iter().flat_map(|p| p.steps.clone()).collect(),
        spoilt: parts.iter().flat_map(|p| p.spoilt.clone()).collect(),
        caveats: Vec::new(),
        variants: Vec::new(),
        ..first.clone()
    })
    .map(|run| Run { parts, ..run })
}

/// Returns the run of a side, renamed to the side and judged only by its tier.
fn relabelled(side: &Side) -> Run {
    let mut run = side.run.clone();
    run.answers.retain(|a| a.tier == side.tier);
    run.tiers.retain(|t| t.tier() == side.tier);
    run.answers.iter_mut().for_each(|a| a.series.clone_from(&side.label));
    run.steps.iter_mut().chain(&mut run.spoilt).for_each(|s| s.series.clone_from(&side.label));
    run.name.clone_from(&side.label);
    run
}

/// Writes `compare.md`, `compare.json` and the charts into a folder and returns their paths, the page first.
///
/// # Errors
/// A chart cannot be drawn or a file cannot be written; the message names it.
pub fn write_comparison(c: &Comparison, sides: &[Side], dir: &Path) -> Result<Vec<PathBuf>> {
    let pictures = dir.join("compare-charts");
    let mut drawn = Vec::new();
    // Several tiers are judged on the same steps: their curves coincide.
    let curves = sides.iter().any(|s| s.dir != sides[0].dir || s.series() != sides[0].series());
    if let Some(run) = together(sides).filter(|_| curves) {
        let (none, mut raster) = (Traces::default(), Raster::default());
        drawn = charts::over(&run, &none);
        for chart in &drawn {
            let (picture, path) = (chart.picture(&run, &none, &Look::default()), pictures.join(chart.name));
            make_folder(&pictures)?;
            replace(&path.with_extension("png"), &picture.png(&mut raster)?)?;
            replace(&path.with_extension("svg"), picture.svg().as_bytes())?;
        }
    }
    fs::create_dir_all(dir).with_context(|| format!("failed to create the folder {}", dir.display()))?;
    let file = dir.join("compare.md");
    replace(&file, markdown::render(&comparison::page(c, &drawn)).as_bytes())?;
    let json = dir.join("compare.json");
    let text = serde_json::to_string_pretty(&comparison::content(c))
        .context("failed to write the comparison as JSON")?;
    replace(&json, text.as_bytes())?;
    let pictures = drawn.iter().map(|c| pictures.join(format!("{}.png", c.name)));
    Ok([file, json].into_iter().chain(pictures).collect())
}

/// Writes the gates of a comparison as JUnit's XML and returns the path of the file.
///
/// # Errors
/// The file cannot be written; the message names it.
pub fn write_junit(c: &Comparison, sides: &[Side], file: &Path) -> Result<PathBuf> {
    write(file.to_owned(), junit(c, sides)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::terminal;
    use goodput_run::compare::compare;
    use goodput_run::fixture;

    #[test]
    fn sides_are_one_run_for_the_charts() {
        let sides = fixture::pair_sides();
        let joined = together(&sides).unwrap();
        assert_eq!(joined.parts.iter().map(Run::series).collect::<Vec<_>>(), ["old", "new"]);
        assert!(!charts::over(&joined, &Traces::default()).is_empty());
        let c = compare(&sides, true).unwrap();
        let text = terminal::render(&comparison::brief(&c, &[]), &terminal::Screen::default());
        for part in ["goodput", "old", "new", "beyond noise"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let files = write_comparison(&c, &sides, dir.path()).unwrap();
        assert!(files.iter().all(|f| f.is_file()) && files.len() >= 3, "{files:?}");
        let text = fs::read_to_string(&files[0]).unwrap();
        assert!(text.contains("compare-charts/overlay.png") && text.contains("### What differs"));
        let short = markdown::page(&comparison::summary(&c), 2);
        assert!(short.contains("<details>") && !short.contains("]("), "{short}");
    }
}
