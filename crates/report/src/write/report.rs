//! The report of a run in its folder.

use super::{write, write_chart};
use crate::charts::{self, Look, Picture, Raster, Set, Sets};
use crate::document::Document;
use crate::render::html::{self, Inline};
use crate::render::markdown;
use crate::sections::{report, variants};
use anyhow::{Context, Result};
use goodput_run::rundir::{REPORT_PAGE, Run, Traces, VARIANTS, files, make_folder, no_link, variants_table};
use std::fs;
use std::path::{Path, PathBuf};

/// Presence of charts in a report. Drawing them takes most of the time of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartFiles {
    /// As files, and within the report.
    Drawn,
    /// Neither as files nor within the report.
    LeftOut,
}

/// Writes `report.md`, `report.html`, `variants.csv` (only with variants), `charts/*.png`, `charts/*.svg` and
/// `charts/slides/*.png` into a run folder and returns their paths, the report first. With several series, each has its
/// charts in a separate folder `charts/SERIES/`. Removes charts of an earlier report that no longer apply, and all of them if
/// charts are left out.
///
/// Writes each file to a temporary one and renames it, so that readers never see a partial one.
///
/// # Errors
///
/// `requests.csv` cannot be read, a chart cannot be drawn or a file cannot be written; the message names it.
pub fn write_all(run: &Run, dir: &Path, charts: ChartFiles) -> Result<Vec<PathBuf>> {
    let traces = match charts {
        ChartFiles::Drawn => Traces::read(dir, &run.steps)?,
        ChartFiles::LeftOut => Traces::default(),
    };
    let pages = dir.join("charts");
    no_link(&pages)?;
    let mut sets = Sets::of(run, &traces);
    if charts == ChartFiles::LeftOut {
        sets.clear();
    }
    let drawn = pictures(&sets, &traces);
    let mut files = texts(dir, &document(run, &sets), &inline(&drawn))?;
    if variants::any(run) {
        files.push(write(dir.join(VARIANTS), &variants_table(run)?)?);
    }
    let mut raster = Raster::default();
    for (set, pictures) in &drawn {
        let own = set.within(&pages);
        files.extend(write_charts(pictures, &own, &mut raster)?);
        remove_empty(&own)?;
    }
    remove_empty(&pages)?;
    Ok(files)
}

/// Draws every chart of a run.
fn pictures<'a>(sets: &'a Sets<'_>, traces: &'a Traces) -> Vec<(&'a Set<'a>, Vec<Picture<'a>>)> {
    sets.iter().map(|set| (set, set.pictures(traces, &Look::default()))).collect()
}

fn document(run: &Run, sets: &Sets<'_>) -> Document {
    if run.parts.is_empty() {
        return report::document(run, &sets.whole.charts);
    }
    report::of_several(run, &sets.whole.charts, &sets.parts)
}

/// Returns the charts for embedding in a page.
fn inline(drawn: &[(&Set<'_>, Vec<Picture<'_>>)]) -> html::Charts {
    let mut all = html::Charts::default();
    for (set, pictures) in drawn {
        let folder = set.link();
        for picture in pictures {
            let name = picture.chart.name;
            all.add(&Inline {
                path: format!("{folder}/{name}.png"),
                id: format!("{}-{name}", folder.replace('/', "-")),
                caption: picture.chart.caption,
                svg: picture.svg_inline(),
            });
        }
    }
    all
}

/// Writes the report as Markdown and as HTML, both from one document.
fn texts(dir: &Path, document: &Document, charts: &html::Charts) -> Result<Vec<PathBuf>> {
    let page = html::render(document, charts, &charts::dark_variables())?;
    Ok(vec![
        write(dir.join("report.md"), markdown::render(document).as_bytes())?,
        write(dir.join(REPORT_PAGE), page.as_bytes())?,
    ])
}

/// Writes charts into a folder, slides into one within it, and removes those of an earlier report that do not apply.
fn write_charts(pictures: &[Picture<'_>], pages: &Path, raster: &mut Raster) -> Result<Vec<PathBuf>> {
    let slides = pages.join("slides");
    no_link(&slides)?;
    if pictures.is_empty() {
        no_link(pages)?;
    } else {
        make_folder(pages)?;
    }
    let mut files = Vec::new();
    for picture in pictures {
        files.extend(write_chart(picture, None, pages, raster)?);
    }
    for chart in charts::all() {
        // Charts that no longer apply.
        let stale = [(pages, "png"), (pages, "svg"), (&slides, "png")];
        for path in stale.map(|(folder, ending)| folder.join(format!("{}.{ending}", chart.name))) {
            if !files.contains(&path) && path.is_file() {
                fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))?;
            }
        }
    }
    // Leftover temporary files of a killed writer.
    let known = |stem: &str| charts::all().any(|chart| chart.name == stem);
    for path in [pages, &slides].into_iter().flat_map(|folder| files::remains(folder, known)) {
        fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))?;
    }
    remove_empty(&slides)?;
    Ok(files)
}

/// Removes a folder if it is empty.
fn remove_empty(folder: &Path) -> Result<()> {
    let empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if empty {
        fs::remove_dir(folder)
            .with_context(|| format!("failed to remove the folder {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn every_chart_that_the_report_shows_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let run = fixture::found();
        let stale = dir.path().join("charts/timelines.png");
        fs::create_dir_all(stale.parent().unwrap()).unwrap();
        fs::write(&stale, "of an earlier report").unwrap();
        let files = write_all(&run, dir.path(), ChartFiles::Drawn).unwrap();
        let names: Vec<&str> =
            files.iter().map(|f| f.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        let report = fs::read_to_string(&files[0]).unwrap();
        for chart in charts::of(&run, &Traces::default()) {
            let link = format!("charts/{}.png", chart.name);
            assert!(report.contains(&format!("]({link})")) && names.contains(&link.as_str()), "{link}");
            assert!(names.contains(&link.replace("png", "svg").as_str()));
        }
        assert!(names.contains(&"charts/slides/latency.png"));
        assert!(files.iter().all(|f| fs::metadata(f).unwrap().len() > 3_000));
        assert!(!stale.exists() && !report.contains("timelines"), "no requests.csv, no timelines");
        let left = fs::read_dir(dir.path().join("charts")).unwrap().count();
        assert_eq!(
            left,
            1 + names.iter().filter(|n| n.matches('/').count() == 1).count(),
            "slides and no more"
        );
    }

    #[test]
    fn no_folder_is_left_empty() {
        let dir = tempfile::tempdir().unwrap();
        write_all(&fixture::found(), dir.path(), ChartFiles::Drawn).unwrap();
        assert!(dir.path().join("charts/slides").is_dir());
        let none = fixture::cases().into_iter().find(|(name, _)| *name == "no-step").unwrap().1;
        assert_eq!(
            write_all(&none, dir.path(), ChartFiles::Drawn).unwrap().len(),
            2,
            "the report alone, as text and as a page"
        );
        assert!(!dir.path().join("charts").exists());
        fs::create_dir_all(dir.path().join("charts")).unwrap();
        fs::write(dir.path().join("charts/mine.txt"), "kept").unwrap();
        write_all(&none, dir.path(), ChartFiles::Drawn).unwrap();
        assert!(dir.path().join("charts/mine.txt").exists(), "what is not ours stays");
    }

    #[test]
    fn charts_can_be_left_out() {
        let dir = tempfile::tempdir().unwrap();
        write_all(&fixture::pair(), dir.path(), ChartFiles::Drawn).unwrap();
        let files = write_all(&fixture::pair(), dir.path(), ChartFiles::LeftOut).unwrap();
        let names: Vec<_> = files.iter().filter_map(|f| f.file_name()).collect();
        assert_eq!(names, ["report.md", "report.html"]);
        assert!(!dir.path().join("charts").exists(), "none of an earlier report is left");
        let text = fs::read_to_string(&files[0]).unwrap();
        assert!(!text.contains("](charts/"), "{text}");
        let page = |charts| {
            write_all(&fixture::pair(), dir.path(), charts).unwrap();
            fs::metadata(dir.path().join("report.html")).unwrap().len()
        };
        assert!(2 * page(ChartFiles::LeftOut) < page(ChartFiles::Drawn), "nor within the page");
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("report.md")).unwrap();
        let error = format!("{:#}", write_all(&fixture::found(), dir.path(), ChartFiles::Drawn).unwrap_err());
        assert!(error.contains("report.md"), "{error}");
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod page_tests;
