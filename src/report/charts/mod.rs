//! Charts as PNG and SVG: a file each, and the list [`CHARTS`]. A newcomer writes `applies` and `draw` in a file of its own
//! and adds a line.

mod attainment;
mod axis;
mod beyond;
mod boundary;
mod canvas;
mod cells;
mod curves;
mod distribution;
mod fit;
mod frame;
mod heads;
mod labels;
mod latency;
mod legend;
mod lengths;
mod mark;
mod offline;
mod overlay;
mod panel;
mod place;
mod raster;
mod search;
mod server;
mod svg;
mod throughput;
mod timelines;
mod trace;

#[cfg(test)]
mod tests;

use super::words;
use crate::rundir::{Run, Traces};
use anyhow::{Context, Result};
use canvas::Canvas;

pub(super) use crate::units::thousands;
pub(super) use server::preempted;
pub use trace::of_trace;

/// What a picture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A page: 7.5 inches wide, as tall as it needs to be.
    Report,
    /// A slide, 16:9: few logical pixels, so that its type is large.
    Slide,
}

impl Format {
    const fn width(self) -> u32 {
        match self {
            Self::Report => 720,
            Self::Slide => 640,
        }
    }

    /// Height of a slide.
    const fn height(self) -> u32 {
        self.width() * 9 / 16
    }

    /// Resolution written into the PNG: 3 × 96 dpi, or a slide of 13⅓ inches.
    const fn pixels_per_metre(self) -> u32 {
        match self {
            Self::Report => 11_339,
            Self::Slide => 5_669,
        }
    }
}

/// What a chart is drawn from, and for what.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    run: &'a Run,
    traces: &'a Traces,
    format: Format,
}

/// A chart that a report can have.
pub struct Chart {
    /// File name without its ending.
    pub name: &'static str,
    /// What it shows, as a caption.
    pub caption: &'static str,
    /// Whether there is one for slides as well.
    pub slide: bool,
    applies: fn(&Run, &Traces) -> bool,
    draw: fn(&Scene<'_>) -> Canvas,
}

/// Every chart, in the order of the report; [`of`] tells which a run has.
pub const CHARTS: &[Chart] = &[
    Chart {
        name: "latency",
        caption: "Latency against achieved throughput",
        slide: true,
        applies: latency::applies,
        draw: latency::draw,
    },
    Chart {
        name: "latency-offered",
        caption: "Latency against offered rate",
        slide: false,
        applies: latency::applies_offered,
        draw: latency::draw_offered,
    },
    Chart {
        name: "latency-in-flight",
        caption: "Latency against requests in flight",
        slide: false,
        applies: latency::applies_in_flight,
        draw: latency::draw_offered,
    },
    Chart {
        name: "throughput",
        caption: "Offered load against achieved and good requests/s, and output tokens/s",
        slide: true,
        applies: throughput::applies,
        draw: throughput::draw,
    },
    Chart {
        name: "attainment",
        caption: "Share of requests within each limit",
        slide: true,
        applies: attainment::applies,
        draw: attainment::draw,
    },
    Chart {
        name: "search",
        caption: "How the search closed in",
        slide: true,
        applies: search::applies,
        draw: search::draw,
    },
    Chart {
        name: "distribution",
        caption: "How latencies are spread at the step of the answer",
        slide: false,
        applies: distribution::applies,
        draw: distribution::draw,
    },
    Chart {
        name: "timelines",
        caption: "Requests in flight and TTFT over the time of each step",
        slide: false,
        applies: timelines::applies,
        draw: timelines::draw,
    },
    Chart {
        name: "server",
        caption: "The server's own queue, KV cache, preemptions and prefix cache",
        slide: false,
        applies: server::applies,
        draw: server::draw,
    },
    Chart {
        name: "lengths",
        caption: "How long prompts and answers were",
        slide: false,
        applies: lengths::applies,
        draw: lengths::draw,
    },
    Chart {
        name: offline::NAMES[0],
        caption: "Latency against requests in flight",
        slide: false,
        applies: offline::applies_latency,
        draw: offline::draw_latency,
    },
    Chart {
        name: offline::NAMES[1],
        caption: "Throughput, and what it costs, against requests in flight",
        slide: false,
        applies: offline::applies_ceiling,
        draw: offline::draw_ceiling,
    },
    Chart {
        name: offline::NAMES[2],
        caption: "How everything at once was worked off",
        slide: false,
        applies: offline::applies_burst,
        draw: offline::draw_burst,
    },
];

/// Every chart that sets several series beside one another.
pub const OVER: &[Chart] = &[Chart {
    name: "overlay",
    caption: "Latency against achieved throughput, every series",
    slide: true,
    applies: overlay::applies,
    draw: overlay::draw,
}];

/// The charts of several series that a run has; none where it has one.
pub fn over(run: &Run, traces: &Traces) -> Vec<&'static Chart> {
    OVER.iter().filter(|c| (c.applies)(run, traces)).collect()
}

/// The charts that a run has, in the order of the report: those for which its files hold something to show. A matrix, and what has no
/// limit to keep, have none of those that are about an SLO.
pub fn of(run: &Run, traces: &Traces) -> Vec<&'static Chart> {
    let own = !run.purpose.is_goodput() || !run.matrix.is_empty();
    let asked = |c: &&Chart| own == offline::NAMES.contains(&c.name);
    CHARTS.iter().filter(asked).filter(|c| (c.applies)(run, traces)).collect()
}

impl Chart {
    fn canvas(&self, run: &Run, traces: &Traces, format: Format) -> Canvas {
        (self.draw)(&Scene { run, traces, format })
    }

    /// The chart as PNG, drawn at 3× with its resolution set.
    ///
    /// # Errors
    ///
    /// When something could not be drawn or encoded.
    pub fn png(&self, run: &Run, traces: &Traces) -> Result<Vec<u8>> {
        self.picture(run, traces, Format::Report)
    }

    /// The chart for a slide, as PNG of 1920 × 1080; `None` where there is none.
    ///
    /// # Errors
    ///
    /// When something could not be drawn or encoded.
    pub fn slide_png(&self, run: &Run, traces: &Traces) -> Result<Option<Vec<u8>>> {
        self.slide.then(|| self.picture(run, traces, Format::Slide)).transpose()
    }

    fn picture(&self, run: &Run, traces: &Traces, format: Format) -> Result<Vec<u8>> {
        raster::png(&self.canvas(run, traces, format), format.pixels_per_metre())
            .with_context(|| format!("failed to draw the chart {}", self.name))
    }

    /// The chart as SVG, the same picture as [`Chart::png`]: text as outlines, each with its words as a label.
    pub fn svg(&self, run: &Run, traces: &Traces) -> String {
        let title = format!("{}: {}", self.caption, words::headline(run));
        let about = heads::subtitle(run).join(" · ");
        svg::svg(&self.canvas(run, traces, Format::Report), self.name, &title, &about)
    }
}
