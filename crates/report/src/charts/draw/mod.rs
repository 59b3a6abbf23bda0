//! The tools that charts are drawn with. [`level_plot`] draws every chart over the levels from a description of its
//! plots; other charts draw on the [`canvas`] within a [`frame`].

mod afar;
pub(crate) mod axis;
mod beyond;
pub(crate) mod boundary;
pub(crate) mod canvas;
pub(crate) mod curves;
mod fit;
pub(crate) mod frame;
pub(crate) mod heads;
pub(crate) mod hints;
pub(crate) mod hue;
mod labels;
mod legend;
mod level_plot;
mod mark;
mod place;
mod positions;
pub(crate) mod raster;
mod scene;
mod series;
pub(crate) mod svg;
pub(crate) mod theme;

pub(crate) use afar::without_afar;
pub(crate) use axis::{Axis, Plot, Scale};
pub(crate) use beyond::ceiling;
pub(crate) use boundary::{Boundary, SAFE};
pub(crate) use canvas::{Align, Canvas, Point, Rect, Type};
pub(crate) use curves::{Across, Curve, charted, control, overlaid_curves, radius, shown, steady, tier_name};
pub(crate) use fit::Fit;
pub(crate) use frame::{EDGE, Frame, Slot, Titles, level_title, metric_title, x_axis};
pub(crate) use heads::{ellipsis, shortened};
pub(crate) use hints::{REACH, achieved, of_step, percentile};
pub(crate) use hue::{GOOD, GREEN, GREEN_TEXT, GREY, Hue, INK, RED, hue_of, overlaid, paler, rgb};
pub(crate) use labels::{Names, Rule};
pub(crate) use legend::{Entry, marks};
pub(crate) use level_plot::{LevelChart, LevelPlot, widest_name};
pub(crate) use mark::Mark;
pub(crate) use place::{Taken, spread};
pub(crate) use scene::{Format, Scene};
pub(crate) use series::{Bar, Dot, Series, Symbol};
