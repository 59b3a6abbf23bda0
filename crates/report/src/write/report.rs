//! The report of a run in its folder.

use super::file::write;
use crate::charts::{self, Chart};
use crate::document::Document;
use crate::render::html::{self, Inline};
use crate::render::markdown;
use crate::sections::report::{self, SeriesCharts};
use crate::sections::{Drawn, several, variants};
use anyhow::{Context, Result};
use goodput_run::rundir::{Run, Traces, VARIANTS, files, make_folder, no_link, variants_table};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes `report.md`, `report.html`, `variants.csv` (only with variants), `charts/*.png`, `charts/*.svg` and
/// `charts/slides/*.png` into a run folder and returns their paths, the report first. With several series, each has its
/// charts in a separate folder `charts/SERIES/`. Removes charts of an earlier report that no longer apply.
///
/// Writes each file to a temporary one and renames it, so that readers never see a partial one.
///
/// # Errors
///
/// `requests.csv` cannot be read, a chart cannot be drawn or a file cannot be written; the message names it.
pub fn write_all(run: &Run, dir: &Path) -> Result<Vec<PathBuf>> {
    let traces = Traces::read(dir, &run.steps)?;
    let pages = dir.join("charts");
    no_link(&pages)?;
    let sets = Sets::of(run, &traces);
    let mut files = texts(dir, &sets.document(run), &sets.inline(run, &traces))?;
    if variants::any(run) {
        files.push(write(dir.join(VARIANTS), &variants_table(run)?)?);
    }
    files.extend(draw(run, &traces, &sets.whole, &pages)?);
    for (part, set) in run.parts.iter().zip(&sets.parts) {
        let own = pages.join(&set.folder);
        files.extend(draw(part, &traces, &set.charts, &own)?);
        remove_empty(&own)?;
    }
    remove_empty(&pages)?;
    Ok(files)
}

/// The charts of a run and of each of its series.
struct Sets {
    whole: Vec<&'static Chart>,
    parts: Vec<Set>,
}

/// The charts of one of several series, in a separate folder.
struct Set {
    folder: String,
    charts: Vec<&'static Chart>,
}

impl Sets {
    fn of(run: &Run, traces: &Traces) -> Self {
        if run.parts.is_empty() {
            return Self { whole: charts::of(run, traces), parts: Vec::new() };
        }
        let parts = several::slugs(run).into_iter().zip(&run.parts);
        let parts = parts.map(|(folder, part)| Set { folder, charts: charts::of(part, traces) });
        Self { whole: charts::over(run, traces), parts: parts.collect() }
    }

    fn document(&self, run: &Run) -> Document {
        let whole = drawn(&self.whole);
        if run.parts.is_empty() {
            return report::document(run, &whole);
        }
        let of = |set: &Set| SeriesCharts { folder: set.folder.clone(), charts: drawn(&set.charts) };
        report::of_several(run, &whole, &self.parts.iter().map(of).collect::<Vec<_>>())
    }

    /// Returns the charts for embedding in a page.
    fn inline(&self, run: &Run, traces: &Traces) -> html::Charts {
        let mut all = html::Charts::default();
        let mut add = |run: &Run, made: &[&Chart], folder: &str| {
            for chart in made {
                all.add(&Inline {
                    path: format!("{folder}/{}.png", chart.name),
                    id: format!("{}-{}", folder.replace('/', "-"), chart.name),
                    caption: chart.caption,
                    svg: chart.svg_inline(run, traces),
                });
            }
        };
        add(run, &self.whole, "charts");
        for (part, set) in run.parts.iter().zip(&self.parts) {
            add(part, &set.charts, &format!("charts/{}", set.folder));
        }
        all
    }
}

/// Returns the data about charts that documents use.
fn drawn(made: &[&Chart]) -> Vec<Drawn> {
    made.iter().map(|c| Drawn { name: c.name, caption: c.caption }).collect()
}

/// Writes the report as Markdown and as HTML, both from one document.
fn texts(dir: &Path, document: &Document, charts: &html::Charts) -> Result<Vec<PathBuf>> {
    let page = html::render(document, charts, &charts::dark_variables())?;
    Ok(vec![
        write(dir.join("report.md"), markdown::render(document).as_bytes())?,
        write(dir.join("report.html"), page.as_bytes())?,
    ])
}

/// Draws charts into a folder, slides into one within it, and removes those of an earlier report that were not drawn.
fn draw(run: &Run, traces: &Traces, made: &[&Chart], pages: &Path) -> Result<Vec<PathBuf>> {
    let slides = pages.join("slides");
    for (folder, needed) in [(pages, !made.is_empty()), (&slides, made.iter().any(|c| c.slide))] {
        no_link(folder)?;
        if needed {
            make_folder(folder)?;
        }
    }
    let look = charts::Look::default();
    let mut files = Vec::new();
    for chart in made {
        files.push(write(pages.join(format!("{}.png", chart.name)), &chart.png(run, traces, &look)?)?);
        files.push(write(
            pages.join(format!("{}.svg", chart.name)),
            chart.svg(run, traces, &look).as_bytes(),
        )?);
        if let Some(bytes) = chart.slide_png(run, traces, &look)? {
            files.push(write(slides.join(format!("{}.png", chart.name)), &bytes)?);
        }
    }
    for chart in charts::CHARTS.iter().chain(charts::OVER) {
        // Charts that no longer apply.
        let stale = [(pages, "png"), (pages, "svg"), (&slides, "png")];
        for path in stale.map(|(folder, ending)| folder.join(format!("{}.{ending}", chart.name))) {
            if !files.contains(&path) && path.is_file() {
                fs::remove_file(&path).with_context(|| format!("failed to remove {}", path.display()))?;
            }
        }
    }
    // Leftover temporary files of a killed writer.
    let known = |stem: &str| charts::CHARTS.iter().chain(charts::OVER).any(|chart| chart.name == stem);
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
        let files = write_all(&run, dir.path()).unwrap();
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
        write_all(&fixture::found(), dir.path()).unwrap();
        assert!(dir.path().join("charts/slides").is_dir());
        let none = fixture::cases().into_iter().find(|(name, _)| *name == "no-step").unwrap().1;
        assert_eq!(write_all(&none, dir.path()).unwrap().len(), 2, "the report alone, as text and as a page");
        assert!(!dir.path().join("charts").exists());
        fs::create_dir_all(dir.path().join("charts")).unwrap();
        fs::write(dir.path().join("charts/mine.txt"), "kept").unwrap();
        write_all(&none, dir.path()).unwrap();
        assert!(dir.path().join("charts/mine.txt").exists(), "what is not ours stays");
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("report.md")).unwrap();
        let error = format!("{:#}", write_all(&fixture::found(), dir.path()).unwrap_err());
        assert!(error.contains("report.md"), "{error}");
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod page_tests;
