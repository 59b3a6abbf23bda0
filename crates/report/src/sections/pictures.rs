//! References to the charts of a run, which are drawn separately.

use crate::document::{Block, Picture};
use crate::words;
use goodput_run::rundir::Run;

/// A chart drawn for a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// File name without its extension.
    pub(crate) name: &'static str,
    /// Caption.
    pub(crate) caption: &'static str,
}

/// Returns the charts, which are in `folder`.
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
