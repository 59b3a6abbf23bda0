//! GPUs against daily volume: a staircase for each rate that a plan may use, and the demand if one is given.

use super::draw::{
    Align, Axis, Canvas, EDGE, Entry, Format, Frame, GREEN_TEXT, GREY, Hue, INK, Plot, Point, Rect, Scene,
    Slot, Titles, Type, hue_of, overlaid, paler,
    raster::{Raster, SCALE},
    rgb, shortened, spread, svg,
};
use crate::escape::{clip, plain};
use crate::sections::capacity::Capacity;
use crate::sections::capacity::candidate::{HardwareOverrides, candidate};
use crate::words;
use anyhow::{Context, Result};
use goodput_core::units::{short, thousands};
use goodput_run::rundir::{Run, Traces};
use goodput_stats::capacity::demand::DAY_S;
use goodput_stats::capacity::fleet::{Fleet, Replica, Reserve};
use plotters::style::RGBColor;

/// Number of steps above which a staircase is drawn as a straight line.
const MANY: f64 = 300.0;
/// Number of replicas up to which the chart of a run extends.
const REPLICAS: f64 = 8.0;

/// Name of a staircase without peak factor and reserve.
const EVENLY: &str = "spread evenly over the day, with nothing in reserve";

/// One staircase.
struct Stairs {
    name: String,
    colour: RGBColor,
    /// True for the staircases to plan with; the others are thin and pale.
    main: bool,
    replica: Replica,
    peak_to_mean: f64,
    reserve: Reserve,
}

impl Stairs {
    fn gpus(&self, per_day: f64) -> f64 {
        Fleet::gpus_at(&self.replica, per_day, self.peak_to_mean, &self.reserve) as f64
    }

    /// Returns the width of a step: requests per day that one more replica serves.
    fn tread(&self) -> f64 {
        self.replica.rate * DAY_S / (self.peak_to_mean * self.reserve.headroom)
    }

    /// Returns its corners up to a volume.
    fn corners(&self, to: f64) -> Vec<Point> {
        let tread = self.tread();
        if to / tread > MANY {
            return vec![(0.0, self.gpus(0.0)), (to, self.gpus(to))];
        }
        let mut corners = vec![(0.0, self.gpus(0.0))];
        let mut from = 0.0;
        while from < to {
            let end = (from + tread).min(to);
            let gpus = self.gpus((from + end) / 2.0);
            corners.extend([(from, gpus), (end, gpus)]);
            from += tread;
        }
        corners
    }
}

/// A capacity as PNG, as SVG, and as PNG for a slide.
pub struct Pictures {
    /// For a page.
    pub png: Vec<u8>,
    /// As SVG, for a page.
    pub svg: String,
    /// For a slide.
    pub slide: Vec<u8>,
}

/// Draws a capacity.
///
/// # Errors
///
/// A chart cannot be drawn or encoded.
pub fn of_capacity(c: &Capacity) -> Result<Pictures> {
    let mut raster = Raster::default();
    let mut png = |canvas: &Canvas, format: Format| {
        raster.png(canvas, SCALE, format).context("failed to draw the chart of the capacity")
    };
    let page = draw_capacity(c, Format::Report);
    let title = format!("GPUs against daily volume: {}", c.chart_headline());
    Ok(Pictures {
        png: png(&page, Format::Report)?,
        svg: svg::svg(&page, "capacity", &title, &c.about(), svg::Place::File),
        slide: png(&draw_capacity(c, Format::Slide), Format::Slide)?,
    })
}

fn draw_capacity(c: &Capacity, format: Format) -> Canvas {
    let face = Type::book(11.5, GREY);
    let width = f64::from(format.width()) - 2.0 * EDGE;
    // The headline has the volume, and the legend all but the mean rate.
    let mut about: Vec<String> = c.about_in_parts().into_iter().skip(1).take(1).collect();
    about.extend(c.chart_rate());
    about.extend(c.chart_price());
    let titles = Titles {
        head: c.chart_headline(),
        about: (face, vec![shortened(&face, about, width)]),
        foot: format!("{} · goodput {}", measured(c), env!("CARGO_PKG_VERSION")),
    };
    let all = stairs(c);
    let to = all.iter().filter(|s| s.main).map(|s| 3.4 * s.tread()).fold(1.9 * c.demand.per_day, f64::max);
    // Volumes far beyond the demand are irrelevant, even if one replica can serve them.
    let to = to.min(12.0 * c.demand.per_day);
    let legend = legend(c, format);
    let mut frame = Frame::titled(
        &titles,
        format,
        format.width(),
        &[Slot { values_above: true, ..Slot::of(300.0) }],
        right(&all),
        legend,
    );
    draw_stairs(&mut frame, &all, to, Some(c.demand.per_day));
    frame.finish(hue_of(0))
}

/// Returns the SLOs under which the candidates were measured, and the requests, each once.
fn measured(c: &Capacity) -> String {
    let runs = || c.all.iter().filter_map(|s| s.candidate.measured.as_ref());
    let once = |all: Vec<String>| {
        let mut seen: Vec<String> = Vec::new();
        all.into_iter().for_each(|one| {
            if !seen.contains(&one) {
                seen.push(one)
            }
        });
        seen.join("; ")
    };
    let slos = once(runs().map(|m| plain(&m.slo)).collect());
    let workloads = once(runs().map(|m| plain(&clip(&m.workload, 120))).collect());
    if slos.is_empty() {
        "a rate as given, not measured here".into()
    } else {
        format!("SLO: {slos} · {workloads}")
    }
}

/// Returns the staircases: for one candidate, both its rates, each with its reserve and without; for several
/// candidates, the planned rate of each.
fn stairs(c: &Capacity) -> Vec<Stairs> {
    let bare = Reserve { headroom: 1.0, spares: 0 };
    let one = |name: String, colour, main, replica, reserve| Stairs {
        name,
        colour,
        main,
        replica,
        peak_to_mean: c.demand.peak_to_mean,
        reserve,
    };
    if let [s] = &c.all[..] {
        let mut rates = vec![(
            goodput_name(&s.candidate.basis, s.candidate.measured.is_some()),
            hue_of(0).dark,
            s.candidate.goodput,
        )];
        rates.extend(s.candidate.safe.map(|safe| ("safe rate", GREEN_TEXT, safe)));
        let mut all = Vec::new();
        if c.reserve != bare {
            let pale = rates.iter().map(|(name, colour, r)| {
                one(format!("{name}, no reserve"), paler(*colour, 0.6), false, *r, bare)
            });
            all.extend(pale);
        }
        all.extend(
            rates.iter().map(|(name, colour, r)| one((*name).to_owned(), *colour, true, *r, c.reserve)),
        );
        return all;
    }
    let each = |(i, s): (usize, &goodput_stats::capacity::sizing::Sizing)| {
        one(clip(&s.candidate.name, 22), overlaid(i).dark, true, s.planned().replica, c.reserve)
    };
    c.all.iter().enumerate().map(each).collect()
}

fn goodput_name(basis: &str, measured: bool) -> &'static str {
    match (basis, measured) {
        ("the goodput", _) => "goodput",
        (_, true) => "shown to meet",
        (_, false) => "as given",
    }
}

fn legend(c: &Capacity, format: Format) -> Vec<Entry> {
    let r = &c.reserve;
    if *r == Reserve::default() && c.demand.peak_to_mean <= 1.0 {
        return vec![Entry::Say(EVENLY.into())];
    }
    let mut parts = vec![
        format!("peak {} × the mean", short(c.demand.peak_to_mean)),
        format!("headroom {}", short(r.headroom)),
    ];
    if r.spares > 0 {
        parts.push(format!("{} spare", r.spares));
    }
    let whole = parts.join(", ");
    let pale = "; pale: neither headroom nor spare replicas".to_owned();
    let pale = if c.all.len() == 1 && format == Format::Report && *r != Reserve::default() {
        pale
    } else {
        String::new()
    };
    vec![Entry::Say(format!("{whole}{pale}"))]
}

/// Returns the width of the names at the right, in logical pixels.
fn right(all: &[Stairs]) -> f64 {
    24.0 + all.iter().map(|s| face(s).width(&s.name)).fold(0.0, f64::max)
}

fn face(s: &Stairs) -> Type {
    if s.main { Type::bold(11.5, s.colour) } else { Type::book(11.0, GREY) }
}

/// Returns an axis of whole numbers.
fn whole(max: f64) -> Axis {
    let axis = Axis::upto(max, 6.0);
    let step = match axis.step.max(1.0) {
        step if step.fract() > 0.0 => 2.0 * step,
        step => step,
    };
    Axis { step, ..axis }
}

fn draw_stairs(frame: &mut Frame, all: &[Stairs], to: f64, demand: Option<f64>) {
    let (unit, title) = match to {
        t if t >= 2e6 => (1e6, "million requests a day"),
        t if t >= 2e3 => (1e3, "thousand requests a day"),
        _ => (1.0, "requests a day"),
    };
    let most = all.iter().map(|s| s.gpus(to)).fold(1.0, f64::max);
    let plot = Plot { area: frame.areas[0], x: Axis::upto(to / unit, 8.0), y: whole(most * 1.12) };
    frame.axes(0, &plot, "GPUs", &["whole replicas; both axes from zero".to_owned()], title);
    let c = &mut frame.canvas;
    for s in all {
        let points: Vec<Point> = s.corners(to).iter().map(|p| plot.at(p.0 / unit, p.1)).collect();
        c.line(&points, if s.main { 2.4 } else { 1.6 }, s.colour);
        for tread in s.corners(to).windows(2).filter(|t| t[1].0 > t[0].0) {
            let [from, upto] = [tread[0], tread[1]].map(|p| plot.at(p.0 / unit, p.1));
            let gpus = thousands(tread[1].1);
            let text =
                format!("{} · up to {} requests a day · {gpus} GPUs", s.name, words::count(tread[1].0));
            c.hint_along([from, upto], text);
        }
    }
    names(c, &plot, all, to / unit, to);
    if let Some(per_day) = demand {
        mark_demand(c, &plot, all, per_day, per_day / unit);
    }
    frame.spines(&plot);
}

/// Draws the name of each staircase at its right end.
fn names(c: &mut Canvas, plot: &Plot, all: &[Stairs], x: f64, to: f64) {
    // If two staircases end at one height, the one that needs more is named above: it is drawn last.
    let mut ys: Vec<f64> = all.iter().rev().map(|s| plot.at_y(s.gpus(to))).collect();
    spread(&mut ys, 14.5, (plot.area.y, plot.area.bottom() - 4.0));
    for (y, s) in ys.iter().zip(all.iter().rev()) {
        c.text((plot.at_x(x) + 8.0, y + 4.0), Align::Left, &face(s), &s.name);
    }
}

/// Draws the demand as a line, and the number of GPUs of each staircase there.
fn mark_demand(c: &mut Canvas, plot: &Plot, all: &[Stairs], per_day: f64, at: f64) {
    let (x, ink) = (plot.at_x(at), rgb(0x222222));
    c.dashes([(x, plot.area.bottom()), (x, plot.area.y - 2.0)], 1.4, (6.0, 4.0), ink);
    let label = format!("demand: {} a day", words::count(per_day));
    let title = Type::bold(11.5, ink);
    let left = (x - title.width(&label) / 2.0).max(plot.area.x + 46.0);
    c.text((left, plot.area.y - 6.0), Align::Left, &title, &label);
    for s in all {
        c.disc(plot.at(at, s.gpus(per_day)), if s.main { 4.2 } else { 3.2 }, s.colour);
    }
    // Staircases rise to the right: above them there is room on the left, below them on the right.
    for main in [true, false] {
        let mut marks: Vec<f64> = all.iter().filter(|s| s.main == main).map(|s| s.gpus(per_day)).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        let shift = if main { -9.0 } else { 15.0 };
        let mut ys: Vec<f64> = marks.iter().map(|gpus| plot.at_y(*gpus) + shift).collect();
        spread(&mut ys, 14.5, (plot.area.y + 8.0, plot.area.bottom() - 6.0));
        let face = if main { Type::bold(11.5, INK) } else { Type::book(11.0, GREY) };
        for (y, gpus) in ys.iter().zip(&marks) {
            let text =
                format!("{} GPU{}", thousands(*gpus), if (*gpus - 1.0).abs() < 0.5 { "" } else { "s" });
            let w = face.width(&text);
            let left = if main { x - w - 9.0 } else { x + 9.0 };
            c.veil(&Rect { x: left, y: y - 9.0, w: w + 2.0, h: 13.0 }, true);
            c.text((left, y + 1.5), Align::Left, &face, &text);
        }
    }
}

/// Returns true if the server's hardware is declared and the run has a rate that meets the SLO.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let declared = run.hardware.gpu.is_some() || run.hardware.gpu_count().is_some();
    declared && run.answers.first().is_some_and(|a| run.capacity(a).is_some())
}

/// Draws the capacity of a run's server: the replicas needed for a volume, each at its rate all day.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let known = run
        .answers
        .first()
        .and_then(|a| candidate(run, a, &run.name, &HardwareOverrides::default()).ok().flatten());
    let legend = vec![Entry::Say(EVENLY.into())];
    let all: Vec<Stairs> = known
        .map(|s| {
            let one = |name: &str, colour, replica| Stairs {
                name: name.to_owned(),
                colour,
                main: true,
                replica,
                peak_to_mean: 1.0,
                reserve: Reserve::default(),
            };
            let goodput = one(goodput_name(&s.basis, true), hue_of(0).dark, s.goodput);
            [goodput].into_iter().chain(s.safe.map(|safe| one("safe rate", GREEN_TEXT, safe))).collect()
        })
        .unwrap_or_default();
    let mut frame = Frame::new(scene, &[Slot::of(280.0)], right(&all), legend);
    let to = all.iter().map(|s| REPLICAS * s.tread()).fold(1.0, f64::max);
    draw_stairs(&mut frame, &all, to, None);
    frame.finish(Hue::INK)
}
