//! Charts as PNG and SVG: a file each, and the list [`CHARTS`]. A newcomer writes `applies` and `draw` in a file of its own
//! and adds a line.

mod attained;
mod attainment;
mod axis;
mod beyond;
mod boundary;
mod canvas;
mod capacity;
mod cells;
mod curves;
mod distribution;
mod fit;
mod frame;
mod heads;
mod hints;
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
mod scale;
mod scene;
mod search;
mod server;
mod surge;
mod svg;
mod theme;
mod throughput;
mod timelines;
mod tornado;
mod trace;

#[cfg(test)]
mod tests;

use super::words;
use anyhow::{Context, Result};
use canvas::Canvas;
use goodput_run::rundir::{Run, Traces};
use scene::{Format, Scene};

pub use capacity::{Pictures, of_capacity};
pub use theme::{Theme, dark_variables};
pub use trace::of_trace;

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

/// The name of the chart of tighter and looser limits, for which every request is read and judged again.
pub const SLO_SCALE: &str = "slo-scale";

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
        name: SLO_SCALE,
        caption: "Goodput as the limits of the SLO are scaled",
        slide: true,
        applies: scale::applies,
        draw: scale::draw,
    },
    Chart {
        name: "sensitivity",
        caption: "What moves the goodput",
        slide: true,
        applies: tornado::applies,
        draw: tornado::draw,
    },
    Chart {
        name: "recovery",
        caption: "Requests in flight and response time around a surge",
        slide: false,
        applies: surge::applies,
        draw: surge::draw,
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
        name: "capacity",
        caption: "GPUs against daily volume",
        slide: false,
        applies: capacity::applies,
        draw: capacity::draw,
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
pub const OVER: &[Chart] = &[
    Chart {
        name: "overlay",
        caption: "Latency against achieved throughput, every series",
        slide: true,
        applies: overlay::applies,
        draw: overlay::draw,
    },
    Chart {
        name: "attained",
        caption: "Share of requests within every limit, every series",
        slide: false,
        applies: attained::applies,
        draw: attained::draw,
    },
];

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

/// How a chart looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its colours.
    pub theme: Theme,
    /// Width in logical pixels of 1/96 inch; slides have one of their own. Type keeps its size.
    pub width: u32,
    /// Pixels of a PNG for each logical pixel.
    pub scale: u32,
}

impl Default for Look {
    fn default() -> Self {
        Self { theme: Theme::Light, width: Format::Report.width(), scale: raster::SCALE }
    }
}

impl Chart {
    fn canvas(&self, run: &Run, traces: &Traces, format: Format) -> Canvas {
        self.drawn(run, traces, format, &Look::default())
    }

    fn drawn(&self, run: &Run, traces: &Traces, format: Format, look: &Look) -> Canvas {
        let width = if format == Format::Slide { format.width() } else { look.width };
        (self.draw)(&Scene { run, traces, format, width }).themed(look.theme)
    }

    /// The chart as PNG, with its resolution set, so that it pastes at the size that it was drawn for.
    ///
    /// # Errors
    ///
    /// When something could not be drawn or encoded.
    pub fn png(&self, run: &Run, traces: &Traces, look: &Look) -> Result<Vec<u8>> {
        self.picture(run, traces, Format::Report, look)
    }

    /// The chart for a slide, as PNG of 1920 × 1080 at a scale of 3; `None` where there is none.
    ///
    /// # Errors
    ///
    /// When something could not be drawn or encoded.
    pub fn slide_png(&self, run: &Run, traces: &Traces, look: &Look) -> Result<Option<Vec<u8>>> {
        self.slide.then(|| self.picture(run, traces, Format::Slide, look)).transpose()
    }

    fn picture(&self, run: &Run, traces: &Traces, format: Format, look: &Look) -> Result<Vec<u8>> {
        let canvas = self.drawn(run, traces, format, look);
        raster::png(&canvas, look.scale, format.pixels_per_metre(look.scale))
            .with_context(|| format!("failed to draw the chart {}", self.name))
    }

    /// The chart as SVG, the same picture as [`Chart::png`]: text as outlines, each with its words as a label, and the values of each
    /// point told under the pointer.
    pub fn svg(&self, run: &Run, traces: &Traces, look: &Look) -> String {
        self.vector(run, self.name, &self.drawn(run, traces, Format::Report, look), svg::Place::File)
    }

    /// The chart as an SVG for the inside of a HTML page: as wide as there is room, every id its own among the charts of a run and of
    /// its series, every colour a custom property of CSS `--c-RRGGBB` with the colour of the light theme in its absence, so that
    /// [`dark_variables`] turns all of them.
    pub fn svg_inline(&self, run: &Run, traces: &Traces) -> String {
        let series = run.series();
        let id = if series == goodput_plan::MAIN {
            self.name.to_owned()
        } else {
            format!("{}-{}", identifier(series), self.name)
        };
        self.vector(run, &id, &self.canvas(run, traces, Format::Report), svg::Place::Page)
    }

    fn vector(&self, run: &Run, id: &str, canvas: &Canvas, place: svg::Place) -> String {
        let title = format!("{}: {}", self.caption, words::headline(run));
        svg::svg(canvas, id, &title, &heads::subtitle(run).join(" · "), place)
    }
}

/// A name as it may stand in an id; different names stay different.
fn identifier(name: &str) -> String {
    let one =
        |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("_{:x}_", u32::from(c)) };
    name.chars().map(one).collect()
}
