//! Charts as PNG and SVG: one file per chart, and the list `CHARTS`. A new chart needs a file with `applies` and
//! `draw`, and one line in the list.

mod attained;
mod attainment;
mod capacity;
mod cells;
mod distribution;
mod draw;
mod first_tokens;
mod goodputs;
mod latencies;
mod latency;
mod lengths;
mod offline;
mod overlay;
mod panel;
mod pareto;
mod scale;
mod search;
mod server;
mod sets;
mod surge;
mod throughput;
mod time_parts;
mod timelines;
mod tornado;
mod trace;

#[cfg(test)]
mod tests;

use super::words::{self, messages};
use anyhow::{Context, Result};
use draw::{Canvas, Format, Scene, heads, raster, svg};
use goodput_run::rundir::{Run, Traces};

pub use capacity::{Pictures, of_capacity};
pub(crate) use draw::raster::Raster;
pub use draw::theme::Theme;
pub(crate) use draw::theme::dark_variables;
pub(crate) use sets::{Set, Sets};
pub use trace::of_trace;

/// A chart that a report can have.
pub(crate) struct Chart {
    /// File name without its extension.
    pub(crate) name: &'static str,
    /// Caption.
    pub(crate) caption: &'static str,
    /// True if there is a slide of it as well.
    pub(crate) slide: bool,
    about: About,
    applies: Applies,
    draw: Draw,
    says: Says,
}

/// The question of a run that a chart is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// How much the server takes within the SLO.
    Goodput,
    /// How fast it is, or how much it takes at most: without an SLO.
    Offline,
    /// The bottleneck of each row of a matrix.
    Matrix,
}

impl About {
    fn of(run: &Run) -> Self {
        match (run.purpose.is_goodput(), run.matrix.is_empty()) {
            (false, _) => Self::Offline,
            (true, true) => Self::Goodput,
            (true, false) => Self::Matrix,
        }
    }
}

type Applies = fn(&Run, &Traces) -> bool;
type Draw = fn(&Scene<'_>) -> Canvas;
/// Returns what a chart shows, in one line; `None` if it shows the answer of the run.
type Says = fn(&Run) -> Option<String>;

/// Returns a chart without a slide, whose headline is the answer of the run.
const fn chart(name: &'static str, caption: &'static str, applies: Applies, draw: Draw) -> Chart {
    Chart { name, caption, slide: false, about: About::Goodput, applies, draw, says: |_| None }
}

/// Returns a chart with a slide.
const fn with_slide(name: &'static str, caption: &'static str, applies: Applies, draw: Draw) -> Chart {
    Chart { slide: true, ..chart(name, caption, applies, draw) }
}

/// The chart of tokens per user, of a series or of all of them.
const PARETO: Chart =
    with_slide("pareto", "Output tokens/s of a GPU against those of one user", pareto::applies, pareto::draw)
        .saying(messages::pareto);

/// The name of the chart of scaled limits, for which every request is read and judged again.
pub(crate) const SLO_SCALE: &str = "slo-scale";

/// Every chart, in the order of the report; [`of`] returns those that a run has.
pub(crate) const CHARTS: &[Chart] = &[
    with_slide("latency", "Latency against achieved throughput", latency::applies, latency::draw),
    chart("latency-offered", "Latency against offered rate", latency::applies_offered, latency::draw_offered)
        .saying(messages::latency_against_load),
    chart(
        "latency-in-flight",
        "Latency against requests in flight",
        latency::applies_in_flight,
        latency::draw_offered,
    )
    .saying(messages::latency_against_load),
    with_slide(
        "throughput",
        "Offered load against achieved and good requests/s, and output",
        throughput::applies,
        throughput::draw,
    )
    .saying(messages::throughput),
    PARETO,
    with_slide("attainment", "Share of requests within each limit", attainment::applies, attainment::draw)
        .saying(messages::attainment),
    with_slide("search", "How the search closed in", search::applies, search::draw).saying(messages::search),
    with_slide(SLO_SCALE, "Goodput as the limits of the SLO are scaled", scale::applies, scale::draw)
        .saying(messages::slo_scale),
    with_slide("sensitivity", "What moves the goodput", tornado::applies, tornado::draw)
        .saying(tornado::message),
    chart("recovery", "Requests in flight and response time around a surge", surge::applies, surge::draw)
        .saying(surge::message),
    chart(
        "distribution",
        "How latencies are spread at the step of the answer",
        distribution::applies,
        distribution::draw,
    )
    .saying(messages::distribution),
    chart(
        "timelines",
        "Requests in flight and latencies over the time of each step",
        timelines::applies,
        timelines::draw,
    )
    .saying(messages::timelines),
    chart(
        "server",
        "The server's own queue, KV cache, preemptions and prefix cache",
        server::applies,
        server::draw,
    )
    .saying(messages::server),
    chart("lengths", "How long prompts and answers were", lengths::applies, lengths::draw)
        .saying(messages::lengths),
    chart("capacity", "GPUs against daily volume", capacity::applies, capacity::draw)
        .saying(messages::capacity),
    chart(
        offline::NAMES[0],
        "Latency against requests in flight",
        offline::applies_latency,
        offline::draw_latency,
    )
    .about(About::Offline),
    chart(
        offline::NAMES[1],
        "Throughput, and what it costs, against requests in flight",
        offline::applies_ceiling,
        offline::draw_ceiling,
    )
    .about(About::Offline),
    chart(
        offline::NAMES[2],
        "How everything at once was worked off",
        offline::applies_burst,
        offline::draw_burst,
    )
    .about(About::Offline),
    with_slide(
        "time-parts",
        "Where the time of the median request goes",
        time_parts::applies,
        time_parts::draw,
    )
    .about(About::Matrix)
    .saying(time_parts::message),
    chart(
        "first-tokens",
        "TTFT of each row against its reference",
        first_tokens::applies,
        first_tokens::draw,
    )
    .about(About::Matrix)
    .saying(messages::first_tokens),
];

/// Every chart that compares several series.
pub(crate) const OVER: &[Chart] = &[
    with_slide("goodputs", "Goodput of every series", goodputs::applies, goodputs::draw),
    with_slide(
        "overlay",
        "Latency against achieved throughput, every series",
        overlay::applies,
        overlay::draw,
    )
    .saying(overlay::message),
    chart(
        "attained",
        "Share of requests within every limit, every series",
        attained::applies,
        attained::draw,
    )
    .saying(messages::attained),
    PARETO,
];

/// Returns every chart, those that compare several series last.
pub(crate) fn all() -> impl Iterator<Item = &'static Chart> {
    CHARTS.iter().chain(OVER)
}

/// Returns the charts that compare the series of a run; none if it has one series.
pub(crate) fn over(run: &Run, traces: &Traces) -> Vec<&'static Chart> {
    if run.parts.is_empty() {
        return Vec::new();
    }
    OVER.iter().filter(|c| (c.applies)(run, traces)).collect()
}

/// Returns the charts that a run has data for, in the order of the report.
pub(crate) fn of(run: &Run, traces: &Traces) -> Vec<&'static Chart> {
    let asked = |c: &&Chart| c.about == About::of(run);
    CHARTS.iter().filter(asked).filter(|c| (c.applies)(run, traces)).collect()
}

/// The appearance of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its colours.
    pub theme: Theme,
    /// Width in logical pixels of 1/96 inch; slides have a fixed width. Type keeps its size.
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
    /// Returns this chart with a message of its own for its headline.
    const fn saying(self, says: Says) -> Self {
        Self { says, ..self }
    }

    /// Returns this chart, about another question than the goodput.
    const fn about(self, about: About) -> Self {
        Self { about, ..self }
    }

    /// Returns the message of the chart, in one line.
    pub(crate) fn message(&self, run: &Run) -> String {
        (self.says)(run).map_or_else(|| words::headline(run), |own| words::with_origin(run, own))
    }

    /// Draws the chart for a page, with its message for its headline.
    pub(crate) fn picture<'a>(&'a self, run: &'a Run, traces: &'a Traces, look: &Look) -> Picture<'a> {
        self.titled_picture(run, traces, look, self.message(run))
    }

    /// Draws the chart for a page with a headline.
    pub(crate) fn titled_picture<'a>(
        &'a self,
        run: &'a Run,
        traces: &'a Traces,
        look: &Look,
        headline: String,
    ) -> Picture<'a> {
        let page = self.titled_canvas(run, traces, Format::Report, look, &headline);
        Picture { chart: self, run, traces, look: *look, headline, page }
    }

    fn titled_canvas(
        &self,
        run: &Run,
        traces: &Traces,
        format: Format,
        look: &Look,
        headline: &str,
    ) -> Canvas {
        let width = if format == Format::Slide { format.width() } else { look.width };
        (self.draw)(&Scene { run, traces, message: headline, format, width }).themed(look.theme)
    }
}

#[cfg(test)]
impl Chart {
    /// Draws the chart with its message for its headline.
    fn canvas(&self, run: &Run, traces: &Traces, format: Format, look: &Look) -> Canvas {
        self.titled_canvas(run, traces, format, look, &self.message(run))
    }
}

/// A chart of a run, drawn once: every file with it is made from this.
pub(crate) struct Picture<'a> {
    pub(crate) chart: &'a Chart,
    run: &'a Run,
    traces: &'a Traces,
    look: Look,
    headline: String,
    page: Canvas,
}

impl Picture<'_> {
    /// Returns the picture as PNG. Its resolution is set, so that it pastes at the intended size.
    ///
    /// # Errors
    ///
    /// The picture cannot be drawn or encoded.
    pub(crate) fn png(&self, raster: &mut Raster) -> Result<Vec<u8>> {
        self.pixels(&self.page, Format::Report, raster)
    }

    /// Draws the chart for a slide, as PNG of 1920 × 1080 at a scale of 3; `None` if it has no slide.
    ///
    /// # Errors
    ///
    /// The picture cannot be drawn or encoded.
    pub(crate) fn slide_png(&self, raster: &mut Raster) -> Result<Option<Vec<u8>>> {
        let (run, traces, headline) = (self.run, self.traces, self.headline.as_str());
        let canvas = || self.chart.titled_canvas(run, traces, Format::Slide, &self.look, headline);
        self.chart.slide.then(|| self.pixels(&canvas(), Format::Slide, raster)).transpose()
    }

    fn pixels(&self, canvas: &Canvas, format: Format, raster: &mut Raster) -> Result<Vec<u8>> {
        raster
            .png(canvas, self.look.scale, format)
            .with_context(|| format!("failed to draw the chart {}", self.chart.name))
    }

    /// Returns the same picture as SVG: text as outlines, each with its words as a label, and tooltips with the values
    /// of each point.
    pub(crate) fn svg(&self) -> String {
        self.vector(self.chart.name, svg::Place::File)
    }

    /// Returns the picture as an SVG for an HTML page: as wide as there is room, with ids unique among the charts of a
    /// run and of its series. Every colour is a CSS custom property `--c-RRGGBB` that defaults to the colour of the
    /// light theme, so that [`dark_variables`] switches all of them.
    pub(crate) fn svg_inline(&self) -> String {
        let (series, name) = (self.run.series(), self.chart.name);
        if series == goodput_plan::MAIN || !self.run.parts.is_empty() {
            return self.vector(name, svg::Place::Page);
        }
        self.vector(&format!("{}-{name}", identifier(series)), svg::Place::Page)
    }

    fn vector(&self, id: &str, place: svg::Place) -> String {
        let title = format!("{}: {}", self.chart.caption, self.headline);
        svg::svg(&self.page, id, &title, &heads::subtitle(self.run).join(" · "), place)
    }
}

/// Converts a name into a valid id; different names stay different.
fn identifier(name: &str) -> String {
    let one =
        |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("_{:x}_", u32::from(c)) };
    name.chars().map(one).collect()
}
