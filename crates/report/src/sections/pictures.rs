//! The charts of a run in their places; they are drawn apart.

use crate::document::{Block, Kind, Picture, Section};
use crate::words;
use goodput_run::rundir::Run;

/// A chart that is drawn for a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// File name without its ending.
    pub name: &'static str,
    /// What it shows.
    pub caption: &'static str,
}

/// The section of the report; `charts` lie in `folder`.
pub(super) fn section(run: &Run, charts: &[Drawn], folder: &str) -> Section {
    Section::new(Kind::Charts, blocks(run, charts, folder))
}

/// The charts, which lie in `folder`.
pub(super) fn blocks(run: &Run, charts: &[Drawn], folder: &str) -> Vec<Block> {
    let alternative = words::headline(run);
    let one = |c: &Drawn| {
        Block::Picture(Picture {
            path: format!("{folder}/{}.png", c.name),
            caption: c.caption.to_owned(),
            alternative: alternative.clone(),
        })
    };
    charts.iter().map(one).collect()
}
