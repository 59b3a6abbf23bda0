//! Charts over the levels: each plot is described by a [`LevelPlot`], and drawn here.

use super::afar::without_afar;
use super::axis::{Axis, Plot};
use super::boundary::Boundary;
use super::canvas::Canvas;
use super::curves::{Across, Curve, control, curves};
use super::fit::Fit;
use super::frame::{Frame, Slot, level_title, x_axis};
use super::hue::{Hue, hue_of};
use super::labels::{Names, Rule, diagonal, label_diagonal, name_face};
use super::legend::{Entry, marks};
use super::mark::Mark;
use super::place::Taken;
use super::scene::{Format, Scene};
use super::series::{Series, Symbol};
use crate::escape::clip;
use plotters::style::WHITE;

/// The description of a plot over the levels.
pub(crate) struct LevelPlot {
    /// Its heading.
    pub(crate) heading: String,
    /// Notes behind the heading.
    pub(crate) notes: Vec<String>,
    /// Height in a report, in logical pixels.
    pub(crate) height: f64,
    /// Vertical axis.
    pub(crate) y: Axis,
    /// Lines with their points, the lowest first.
    pub(crate) series: Vec<Series>,
    /// Placement of the names of its series.
    pub(crate) names: Names,
    /// Limits of the SLO, drawn below the series.
    pub(crate) limits: Vec<Rule>,
    /// The latency of the unloaded server, drawn below the series if there is room for its label.
    pub(crate) unloaded: Option<Rule>,
    /// A fitted curve, drawn below everything.
    pub(crate) fit: Option<Fit>,
    /// True to draw where the achieved rate equals the offered rate.
    pub(crate) has_diagonal: bool,
    /// True to write the answer next to its line, if it is the first plot of a report.
    pub(crate) says_answer: bool,
    /// A horizontal axis of its own with its title, in the place of that of the chart.
    pub(crate) own_x: Option<(Axis, String)>,
    /// Formats the values beyond the axis, which are drawn above the plot.
    pub(crate) say: fn(f64) -> String,
}

impl LevelPlot {
    /// Returns a plot of some series, with nothing else.
    pub(crate) fn new(heading: impl Into<String>, y: Axis, series: Vec<Series>) -> Self {
        Self {
            heading: heading.into(),
            notes: Vec::new(),
            height: 300.0,
            y,
            series,
            names: Names::Ends,
            limits: Vec::new(),
            unloaded: None,
            fit: None,
            has_diagonal: false,
            says_answer: true,
            own_x: None,
            say: crate::words::figure,
        }
    }

    /// Returns true if values to be named lie beyond the axis.
    fn is_clipped(&self) -> bool {
        let mut dots = self.series.iter().flat_map(|s| &s.dots);
        dots.any(|d| d.at.1 > self.y.max && d.beyond.is_some())
    }

    fn marks(&self) -> impl Iterator<Item = Mark> {
        self.series.iter().flat_map(|s| &s.dots).filter_map(|d| match d.symbol {
            Symbol::Mark(mark, _) => Some(mark),
            Symbol::Disc(_) | Symbol::Ring(..) | Symbol::Square(..) => None,
        })
    }
}

/// Returns the width of the widest name of a series in some plots, in logical pixels.
pub(crate) fn widest_name(plots: &[LevelPlot]) -> f64 {
    name_face(WHITE).widest(plots.iter().flat_map(|p| &p.series).map(|s| &s.name))
}

/// The context of a chart over the levels.
pub(crate) struct LevelChart<'a> {
    scene: &'a Scene<'a>,
    /// The steps of each series.
    pub(crate) curves: Vec<Curve<'a>>,
    /// The answer.
    pub(crate) boundary: Boundary,
    /// A note on steps far above all others, which are not drawn.
    pub(crate) afar: Option<String>,
    /// Title of the horizontal axis.
    pub(crate) title: String,
    /// Horizontal axis.
    pub(crate) x: Axis,
    /// Room to the right of the plots, in logical pixels.
    pub(crate) right: f64,
}

impl<'a> LevelChart<'a> {
    /// Returns the context for the steps of a run and its answer.
    pub(crate) fn new(scene: &'a Scene<'a>, across: Across) -> Self {
        let run = scene.run;
        let mut curves = curves(run);
        let boundary = Boundary::new(run, across);
        let afar = match across {
            Across::Achieved => None,
            Across::Offered => without_afar(&mut curves, boundary.values()),
        };
        let steps = curves.iter().flat_map(|c| &c.steps).map(|s| across.of(s));
        let x = x_axis(control(run), across, steps.chain(boundary.values()));
        let title = level_title(control(run)).to_owned();
        Self { scene, curves, boundary, afar, title, x, right: 30.0 }
    }

    /// Returns the context for several curves and without an answer.
    pub(crate) fn of_curves(scene: &'a Scene<'a>, curves: Vec<Curve<'a>>, x: Axis, title: &str) -> Self {
        let title = title.to_owned();
        Self { scene, curves, boundary: Boundary::default(), afar: None, title, x, right: 30.0 }
    }

    /// Returns the legend of plots: their marks, `more`, and the elements of the answer.
    pub(crate) fn legend(
        &self,
        plots: &[LevelPlot],
        words: fn(Mark) -> &'static str,
        more: Option<Entry>,
    ) -> Vec<Entry> {
        let mut legend = marks(plots.iter().flat_map(LevelPlot::marks), words);
        legend.extend(more);
        legend.extend(self.boundary.entries());
        if let [first, _, ..] = &self.scene.run.tiers[..] {
            legend.push(Entry::Say(format!("marks: by the SLO of {}", clip(first.tier(), 20))));
        }
        legend
    }

    /// Draws plots; `below` are further plots that the caller draws.
    pub(crate) fn draw(&self, plots: &[LevelPlot], below: Option<Slot>, legend: Vec<Entry>) -> Frame {
        let slot = |p: &LevelPlot| Slot {
            values_above: p.is_clipped(),
            own_x: p.own_x.is_some(),
            ..Slot::of(p.height)
        };
        let slots: Vec<Slot> = plots.iter().map(slot).chain(below).collect();
        let mut frame = Frame::new(self.scene, &slots, self.right, legend);
        for (number, plot) in plots.iter().enumerate() {
            self.draw_plot(&mut frame, number, plot);
        }
        frame
    }

    /// Draws a chart with the legend of its marks and its answer.
    pub(crate) fn finished(&self, plots: &[LevelPlot], more: Option<Entry>) -> Canvas {
        self.draw(plots, None, self.legend(plots, Mark::words, more)).finish(self.hue())
    }

    /// Returns the colours of its first series.
    pub(crate) fn hue(&self) -> Hue {
        self.curves.first().map_or(hue_of(0), |c| c.hue)
    }

    fn draw_plot(&self, frame: &mut Frame, number: usize, of: &LevelPlot) {
        let (x, title) = of.own_x.as_ref().map_or((self.x, &self.title), |(x, title)| (*x, title));
        let plot = Plot { area: frame.areas[number], x, y: of.y };
        let mut taken = Taken::default();
        frame.axes(number, &plot, &of.heading, &of.notes, title);
        self.boundary.draw(&mut frame.canvas, &plot);
        if let Some(fit) = &of.fit {
            fit.draw(&mut frame.canvas, &plot, &mut taken);
        }
        frame.spines(&plot);
        let c = &mut frame.canvas;
        self.boundary.take(&mut taken, &plot);
        let corner = of.has_diagonal.then(|| diagonal(c, &plot, &mut taken));
        for limit in &of.limits {
            limit.draw(c, &plot, &mut taken);
        }
        if let Some(unloaded) = &of.unloaded {
            taken.line(&plot.across(unloaded.value), 1.0);
        }
        let ground = c.shapes.len();
        for series in &of.series {
            series.draw(c, &plot, &mut taken);
        }
        for series in &of.series {
            if series.on_top {
                series.draw_dots(c, &plot, &mut taken);
            }
            series.draw_beyond(c, &plot, of.say, self.right.min(42.0));
        }
        of.names.draw(c, &plot, &of.series, self.right, &mut taken);
        for limit in &of.limits {
            limit.label(c, &plot, &mut taken);
        }
        if number == 0 && of.says_answer && self.scene.format == Format::Report {
            self.boundary.label(c, &plot, &mut taken);
            self.boundary.label_others(c, &plot, &mut taken);
        }
        if let Some(unloaded) = &of.unloaded {
            unloaded.draw_if_labelled(c, &plot, &mut taken, ground);
        }
        if let Some(corner) = corner {
            label_diagonal(c, &plot, &mut taken, corner);
        }
    }
}
