//! Charts on demand: selected ones, in a theme, a size and a format, in a separate folder.

use super::write_chart;
use crate::charts::{self, Look, Raster, Sets, Theme};
use crate::sections::several::folder_name;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use goodput_run::rundir::{Run, Traces, no_link};
use std::fs;
use std::path::{Path, PathBuf};

/// The format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Raster image, for documents and slides.
    Png,
    /// Vector image, for web pages; hovering shows the values of a point.
    Svg,
}

/// The selection of charts to draw, and their format.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Their names; all charts if empty.
    pub only: Vec<String>,
    /// Their headline; what each shows if `None`.
    pub title: Option<String>,
    /// Their format; both formats if `None`.
    pub format: Option<Format>,
    /// Colours and size.
    pub look: Look,
}

impl Wanted {
    /// Returns true if the chart of scaled limits is among them, for which every request is read and judged again. Also
    /// true for an unknown name, since its error message lists the charts of the run.
    pub fn needs_scale(&self) -> bool {
        let other =
            |name: &String| *name != charts::SLO_SCALE && charts::all().any(|c| c.name == name.as_str());
        self.only.is_empty() || !self.only.iter().all(other)
    }

    fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|n| n == name)
    }
}

/// Returns the folder of the charts of a tier, or of all tiers, in a theme: `charts`, `charts-dark`, `charts-gold`.
pub fn folder(tier: Option<&str>, theme: Theme) -> String {
    let tier =
        tier.map(|t| format!("-{}", folder_name(t)).trim_end_matches('-').to_owned()).unwrap_or_default();
    let dark = if theme == Theme::Dark { "-dark" } else { "" };
    format!("charts{tier}{dark}")
}

/// Draws the selected charts of a run into a folder, those of each of several series into a folder within it, and
/// returns their paths. Touches nothing else in the folder.
///
/// # Errors
///
/// The run has no chart of a given name, `requests.csv` cannot be read, or a chart cannot be drawn or written.
pub fn draw(run: &Run, dir: &Path, wanted: &Wanted, out: &Path) -> Result<Vec<PathBuf>> {
    let traces = Traces::read(dir, &run.steps)?;
    let sets = Sets::of(run, &traces);
    known(&wanted.only, &sets)?;
    let (mut files, mut raster) = (Vec::new(), Raster::default());
    for set in sets.iter() {
        let to = set.within(out);
        for chart in set.charts.iter().filter(|c| wanted.has(c.name)) {
            no_link(&to.join("slides"))?;
            fs::create_dir_all(&to)
                .with_context(|| format!("failed to create the folder {}", to.display()))?;
            let picture = match &wanted.title {
                Some(title) => chart.titled_picture(set.run, &traces, &wanted.look, title.clone()),
                None => chart.picture(set.run, &traces, &wanted.look),
            };
            files.extend(write_chart(&picture, wanted.format, &to, &mut raster)?);
        }
    }
    Ok(files)
}

/// Checks that the run has a chart of every name.
fn known(only: &[String], sets: &Sets<'_>) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for name in sets.iter().flat_map(|set| &set.charts).map(|c| c.name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if let Some(other) = only.iter().find(|n| !names.contains(&n.as_str())) {
        let all = charts::all().any(|c| c.name == *other);
        let why = if all { "this run has nothing to show in it" } else { "there is no such chart" };
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!("--chart {other}: {why}; the charts of this run: {has}");
    }
    if names.is_empty() {
        bail!("this run has no chart: no step was measured to the end");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::Theme;
    use goodput_run::fixture;

    fn wanted(names: &[&str]) -> Wanted {
        Wanted { only: names.iter().map(|n| (*n).to_owned()).collect(), ..Wanted::default() }
    }

    #[test]
    fn only_what_was_asked_for_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("for/slides");
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("throughput.png"), "mine").unwrap();
        let files = draw(&fixture::found(), dir.path(), &wanted(&["latency"]), &out).unwrap();
        let names: Vec<String> =
            files.iter().map(|f| f.strip_prefix(&out).unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["latency.png", "slides/latency.png", "latency.svg"]);
        assert_eq!(fs::read(out.join("throughput.png")).unwrap(), b"mine", "nothing else is touched");
        assert!(!dir.path().join("report.md").exists());
    }

    #[test]
    fn theme_size_and_format_are_those_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let look = Look { theme: Theme::Dark, width: 900, scale: 2 };
        let svg = Wanted { format: Some(Format::Svg), look, ..wanted(&["latency"]) };
        let files = draw(&fixture::found(), dir.path(), &svg, dir.path()).unwrap();
        assert_eq!(files.len(), 1);
        let text = fs::read_to_string(&files[0]).unwrap();
        assert!(
            text.contains("viewBox=\"0 0 900 ")
                && text.contains("fill=\"#15181d\"")
                && !text.contains("#ffffff")
        );
        let png = Wanted { format: Some(Format::Png), ..svg };
        let files = draw(&fixture::found(), dir.path(), &png, dir.path()).unwrap();
        let reader = png::Decoder::new(std::io::BufReader::new(fs::File::open(&files[0]).unwrap()))
            .read_info()
            .unwrap();
        let (size, dpi) = (reader.info().width, reader.info().pixel_dims.unwrap().xppu);
        assert_eq!((size, dpi), (1800, 7559), "twice 900 px, at 192 dpi");
    }

    #[test]
    fn requests_are_judged_anew_only_for_what_shows_it() {
        for (names, needs) in [
            (&[][..], true),
            (&["latency"], false),
            (&["latency", "slo-scale"], true),
            (&["latency", "overlay"], false),
            (&["latencies"], true), // its error lists the charts that there are
        ] {
            assert_eq!(wanted(names).needs_scale(), needs, "{names:?}");
        }
    }

    #[test]
    fn an_unknown_chart_lists_those_that_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let error = |run: &Run, name: &str| {
            format!("{:#}", draw(run, dir.path(), &wanted(&[name]), dir.path()).unwrap_err())
        };
        let run = fixture::found();
        let said = error(&run, "latencies");
        assert!(
            said.contains("no such chart") && said.contains("latency, latency-offered, throughput"),
            "{said}"
        );
        assert!(error(&run, "server").contains("nothing to show"), "{}", error(&run, "server"));
        assert!(!dir.path().join("latency.png").exists());
    }

    #[test]
    fn every_series_has_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let svg = Wanted { format: Some(Format::Svg), ..wanted(&["latency", "overlay"]) };
        let files = draw(&fixture::pair(), dir.path(), &svg, dir.path()).unwrap();
        let names: Vec<String> = files
            .iter()
            .map(|f| f.strip_prefix(dir.path()).unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["overlay.svg", "cold/latency.svg", "warm/latency.svg"]);
    }
}
