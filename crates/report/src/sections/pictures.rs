//! References to the charts of a run, which are drawn separately.

use crate::charts::Chart;
use crate::document::{Block, Picture};
use goodput_run::rundir::Run;

/// Returns the charts, which are in `folder`.
pub(super) fn blocks(run: &Run, charts: &[&Chart], folder: &str) -> Vec<Block> {
    let one = |c: &&Chart| {
        Block::Picture(Picture {
            path: format!("{folder}/{}.png", c.name),
            caption: c.caption.to_owned(),
            alternative: c.message(run),
        })
    };
    charts.iter().map(one).collect()
}
