//! The charts of a run and of each of its series, with the folders of their files.

use super::{Chart, Look, Picture, of, over};
use crate::sections::several;
use goodput_run::rundir::{Run, Traces};
use std::iter::once;
use std::path::{Path, PathBuf};

/// The charts of a run, or of one of its series.
pub(crate) struct Set<'a> {
    pub(crate) run: &'a Run,
    /// Folder within that of all charts; `None` for the charts of a whole run.
    folder: Option<String>,
    pub(crate) charts: Vec<&'static Chart>,
}

impl<'a> Set<'a> {
    /// Returns the folder of its files, given that of all charts.
    pub(crate) fn within(&self, root: &Path) -> PathBuf {
        self.folder.as_ref().map_or_else(|| root.to_owned(), |own| root.join(own))
    }

    /// Returns the folder by which a report refers to it.
    pub(crate) fn link(&self) -> String {
        self.folder.as_ref().map_or_else(|| "charts".to_owned(), |own| format!("charts/{own}"))
    }

    /// Draws its charts.
    pub(crate) fn pictures(&'a self, traces: &'a Traces, look: &Look) -> Vec<Picture<'a>> {
        self.charts.iter().map(|chart| chart.picture(self.run, traces, look)).collect()
    }
}

/// The charts of a run, and of each of its series if it has several.
pub(crate) struct Sets<'a> {
    /// The charts of the only series, or those that compare several.
    pub(crate) whole: Set<'a>,
    /// The charts of each of several series.
    pub(crate) parts: Vec<Set<'a>>,
}

impl<'a> Sets<'a> {
    /// Returns the charts that a run has data for.
    pub(crate) fn of(run: &'a Run, traces: &Traces) -> Self {
        let charts = if run.parts.is_empty() { of(run, traces) } else { over(run, traces) };
        let parts = several::slugs(run).into_iter().zip(&run.parts);
        let parts = parts.map(|(own, part)| Set { run: part, folder: Some(own), charts: of(part, traces) });
        Self { whole: Set { run, folder: None, charts }, parts: parts.collect() }
    }

    /// Removes all charts.
    pub(crate) fn clear(&mut self) {
        once(&mut self.whole).chain(&mut self.parts).for_each(|set| set.charts.clear());
    }

    /// Returns all sets, that of the whole run first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Set<'a>> {
        once(&self.whole).chain(&self.parts)
    }
}
