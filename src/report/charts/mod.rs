//! Charts as PNG: a file each, and the list [`CHARTS`]. A newcomer writes `draw` in a file of its own and adds a line.

mod axis;
mod beyond;
mod boundary;
mod canvas;
mod curves;
mod frame;
mod latency;
mod place;
mod raster;
mod svg;
mod throughput;

#[cfg(test)]
mod tests;

use crate::rundir::Run;
use anyhow::{Context, Result};
use canvas::Canvas;

pub(super) use axis::thousands;

/// A chart that a report has.
pub struct Chart {
    /// File name without its ending.
    pub name: &'static str,
    /// What it shows, as a caption.
    pub caption: &'static str,
    draw: fn(&Run) -> Canvas,
}

/// Every chart, in the order of the report.
pub const CHARTS: &[Chart] = &[
    Chart { name: "latency", caption: "Latency against achieved throughput", draw: latency::draw },
    Chart {
        name: "throughput",
        caption: "Offered load against achieved and good requests/s, and output tokens/s",
        draw: throughput::draw,
    },
];

impl Chart {
    /// The chart of a run as PNG, drawn at 3× with its resolution set.
    ///
    /// # Errors
    ///
    /// When something could not be drawn or encoded.
    pub fn png(&self, run: &Run) -> Result<Vec<u8>> {
        raster::png(&(self.draw)(run), 11_339).with_context(|| format!("failed to draw the chart {}", self.name))
    }
}
