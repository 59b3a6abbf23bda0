//! The description of a plot of latencies: percentiles of a panel as curves, a mark for each step, limits, and the latency of the
//! unloaded server.

use super::draw::{
    Across, Axis, Bar, Curve, Dot, LevelPlot, Mark, Names, Point, Rule, Series, Symbol, achieved, ceiling,
    of_step, percentile, radius, steady, tier_name,
};
use super::panel::Panel;
use crate::words;
use goodput_core::slo::{Limit, Metric, Slo};
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{Quantiles, Step};
use plotters::style::RGBColor;

/// A percentile of a latency.
type Pick = fn(&Quantiles) -> Option<f64>;
const PICKS: [Pick; 3] = [|q| q.p50, |q| q.p90, |q| q.p99];

/// The latencies of one panel, in the unit of their axis. A percentile is given by its index among p50, p90 and p99.
pub(super) struct Latencies<'a> {
    panel: Panel<'a>,
    across: Across,
    /// Milliseconds in one unit of the axis.
    unit: f64,
    y: Axis,
    /// True if values lie beyond the axis.
    is_clipped: bool,
    /// The percentile that carries the verdict marks: the one that the SLO limits, or p99 if it limits none.
    marked: usize,
    /// True if the latencies of overloaded steps are given above the plot: not for several series, whose numbers would
    /// cover each other.
    names_overloads: bool,
    limits: Vec<Rule>,
    unloaded: Option<Rule>,
    /// Radius of the marks.
    radius: f64,
}

impl<'a> Latencies<'a> {
    /// Collects the latencies of some curves of a run.
    pub(super) fn new(run: &'a Run, curves: &[Curve<'_>], panel: Panel<'a>, across: Across) -> Self {
        let limits = panel.limits(run);
        let p99s = |joined: bool| -> Vec<f64> {
            let steps = curves.iter().flat_map(|c| &c.steps);
            let shown = steps.filter(|s| across.joins(s) == joined && Mark::of(s) != Mark::Overloaded);
            shown.filter_map(|s| panel.quantiles(s).p99).collect()
        };
        let (calm, wild) = (p99s(true), p99s(false));
        // The answer is about the first tier: a loose limit of another tier would squash the relevant range.
        let first = run.tiers.first().map(Slo::tier);
        let of_first = limits.iter().filter(|(t, _)| Some(t.tier()) == first).map(|(_, l)| l.limit_ms());
        let top = ceiling(&calm, &wild, &of_first.collect::<Vec<_>>());
        let unit = if top >= 9_000.0 || panel.metric.is_ratio() { 1_000.0 } else { 1.0 };
        let strictest = limits.iter().map(|(_, l)| l.percentile.share());
        let marked = match strictest.max_by(f64::total_cmp) {
            Some(share) if share <= 0.5 => 0,
            Some(share) if share <= 0.9 => 1,
            Some(_) | None => 2,
        };
        let is_clipped = calm.iter().chain(&wild).any(|v| *v > top);
        let mut y = Axis::upto(top / unit, 6.5);
        if is_clipped {
            y.max = (y.max / y.step - 1e-6).ceil() * y.step;
        }
        let limits = limits.into_iter().map(|(t, l)| limit_rule(&l, &tier_name(run, t.tier()), unit));
        let unloaded = panel.unloaded(run).and_then(|q| unloaded_rule(panel.metric, &q, unit));
        let unloaded = unloaded.filter(|u| u.value <= y.max);
        let limits = limits.collect();
        let (names_overloads, radius) = (curves.len() == 1, radius(run));
        Self { panel, across, unit, y, is_clipped, marked, names_overloads, limits, unloaded, radius }
    }

    /// Describes the plot for curves in three shades, named `p50` and so on; with several series, named after these.
    pub(super) fn plot(self, curves: &[Curve<'_>], height: f64) -> LevelPlot {
        let mut notes = Vec::new();
        if self.is_clipped {
            notes.push(format!("axis cut at {}", words::value_of(self.panel.metric, self.y.max * self.unit)));
        }
        notes.extend(self.note_on_bounds(curves));
        let names = ["p50", "p90", "p99"];
        let shades = |curve: &Curve<'_>| {
            let h = curve.hue;
            let name = |pick: usize| match (curves.len(), pick) {
                (1, _) => names[pick].to_owned(),
                (_, 2) => curve.name.clone(),
                _ => String::new(),
            };
            let shades =
                [(h.light, h.light_text, 2.0), (h.middle, h.middle_text, 2.0), (h.dark, h.dark, 2.3)];
            let mut all: Vec<Series> = (0..)
                .zip(shades)
                .map(|(pick, (colour, text, width))| Series {
                    width,
                    ..self.series(curve, pick, colour).named(name(pick), text)
                })
                .collect();
            all[0].bars = self.bars(curve);
            all
        };
        let series = curves.iter().flat_map(shades).collect();
        LevelPlot { notes, height, ..self.described(series) }
    }

    /// Describes the plot for the tails of several series, and their medians below, if `medians` is true.
    pub(super) fn plot_of_tails(self, curves: &[Curve<'_>], medians: bool) -> LevelPlot {
        let bare = |pick: usize, colour: RGBColor, curve: &Curve<'_>| Series {
            dots: Vec::new(),
            tail: Vec::new(),
            ..self.series(curve, pick, colour)
        };
        let mut series = Vec::new();
        if medians {
            series.extend(curves.iter().map(|c| Series { width: 1.8, ..bare(0, c.hue.light, c) }));
        }
        for curve in curves {
            let tail = Series { width: 2.4, ..bare(2, curve.hue.dark, curve) };
            series.push(tail.named(curve.name.as_str(), curve.hue.dark));
        }
        let marks = |c: &Curve<'_>| Series { line: Vec::new(), ..self.series(c, self.marked, c.hue.dark) };
        series.extend(curves.iter().map(marks));
        let shown = if medians { "strong: p99, pale: p50" } else { "p99" };
        LevelPlot {
            notes: vec![shown.to_owned()],
            names: Names::NearIfFree,
            unloaded: None,
            ..self.described(series)
        }
    }

    fn described(self, series: Vec<Series>) -> LevelPlot {
        let (unit, say): (_, fn(f64) -> String) = match self.unit > 1.0 {
            _ if self.panel.metric.is_ratio() => ("", words::figure),
            true => (", s", |s| words::latency(1_000.0 * s)),
            false => (", ms", words::latency),
        };
        LevelPlot {
            limits: self.limits,
            unloaded: self.unloaded,
            say,
            ..LevelPlot::new(format!("{}{unit}", self.panel.title()), self.y, series)
        }
    }

    /// Returns one percentile of a curve: with the verdict marks, or with a disc for each step within the axis.
    fn series(&self, curve: &Curve<'_>, pick: usize, colour: RGBColor) -> Series {
        let is_marked = pick == self.marked;
        let dot = |s: &&Step| {
            let mark = Mark::of(s);
            let at = self.point(s, pick)?;
            let beyond = match mark {
                Mark::Overloaded if !self.names_overloads => None,
                // The edge of the plot says less than the number only if that lies beyond it.
                Mark::Overloaded => self.value(s, pick).filter(|v| *v > self.y.max),
                Mark::Meets | Mark::Undecided | Mark::Fails | Mark::Invalid => Some(at.1),
            };
            let symbol = match is_marked {
                true => Symbol::Mark(mark, self.radius),
                false => Symbol::Disc(self.radius - 1.7),
            };
            let shown = is_marked || (steady(s) && at.1 <= self.y.max);
            shown.then(|| Dot { at, symbol, hint: self.hint(s, pick), beyond })
        };
        let joined = if curve.is_scattered(self.across) { Vec::new() } else { curve.joined(self.across) };
        Series {
            tail: if is_marked && !joined.is_empty() { self.tail(curve, pick) } else { Vec::new() },
            line: joined.into_iter().filter_map(|s| self.point(s, pick)).collect(),
            dots: curve.steps.iter().filter_map(dot).collect(),
            on_top: is_marked,
            dot_colour: if is_marked { curve.hue.dark } else { colour },
            ..Series::new(colour)
        }
    }

    /// Returns the point of one percentile of a step. If the backlog grew, only the percentile with the marks has one: a
    /// latency that includes the wait is at infinity, since it depends on how long the step ran and not on the server.
    fn point(&self, step: &Step, pick: usize) -> Option<Point> {
        if Mark::of(step) == Mark::Overloaded {
            if !self.panel.is_sent_in(step) {
                return None;
            }
            let known = self.value(step, pick).filter(|_| !includes_wait(self.panel.metric));
            return (pick == self.marked)
                .then(|| (self.panel.place(step, self.across), known.unwrap_or(f64::INFINITY)));
        }
        self.value(step, pick).map(|v| (self.panel.place(step, self.across), v))
    }

    /// Returns one percentile of a step in the unit of the axis.
    fn value(&self, step: &Step, pick: usize) -> Option<f64> {
        PICKS[pick](&self.panel.quantiles(step)).map(|v| v / self.unit)
    }

    /// Returns the thin line through failing steps, up to the edge of the plot at the first whose backlog grew: it has no
    /// latency to go on from.
    fn tail(&self, curve: &Curve<'_>, pick: usize) -> Vec<Point> {
        let mut points = curve.tail(self.across, |s| self.point(s, pick));
        if let Some(first) = points.iter().position(|p| p.1.is_infinite()) {
            points.truncate(first + 1);
            points[first].1 = self.y.max;
        }
        points
    }

    /// Returns the tooltip of a step: the achieved rate and, if available, this percentile of the metric.
    fn hint(&self, step: &Step, pick: usize) -> String {
        let own = (Mark::of(step) != Mark::Overloaded)
            .then(|| percentile(self.panel.metric, &self.panel.quantiles(step), pick));
        of_step(step, [achieved(step)].into_iter().chain(own.flatten()), Mark::of(step))
    }

    /// Returns the bounds of the p99 of steady steps, if p99 is the percentile with the marks.
    fn bars(&self, curve: &Curve<'_>) -> Vec<Bar> {
        let bar = |s: &&Step| {
            let q = self.panel.quantiles(s);
            let (low, value) = (q.p99_low? / self.unit, q.p99? / self.unit);
            let high = q.p99_high.map(|h| h / self.unit);
            Some(Bar { x: self.panel.place(s, self.across), low, high, value, colour: curve.hue.middle })
        };
        let steps = curve.steps.iter().filter(|s| self.marked == 2 && steady(s));
        steps.filter_map(bar).collect()
    }

    fn note_on_bounds(&self, curves: &[Curve<'_>]) -> Option<String> {
        let bars: Vec<Bar> = curves.iter().flat_map(|c| self.bars(c)).collect();
        let open = if bars.iter().any(|b| b.high.is_none()) { "; dotted: no upper one" } else { "" };
        let known = |s: &&Step| self.panel.quantiles(s).inflation.is_some();
        let clustered = curves.iter().flat_map(|c| &c.steps).any(known);
        let by = if clustered { " at the effective n" } else { ", were requests independent" };
        (!bars.is_empty()).then(|| format!("bars: 95 % bounds of p99{by}{open}"))
    }
}

/// Returns the line of a limit, labelled with the name of its tier.
fn limit_rule(l: &Limit, tier: &str, unit: f64) -> Rule {
    let text = format!("SLO: {}{tier}", words::limit(l));
    let value = words::value_of(l.metric, l.limit_ms());
    let texts = vec![text.clone(), format!("SLO {value}{tier}"), format!("≤ {value}{tier}")];
    Rule { value: l.limit_ms() / unit, texts, hint: text, labelled_below: false }
}

/// Returns the line of the unloaded server: at its p99 if there are enough requests for one, else at its p50.
fn unloaded_rule(metric: Metric, q: &Quantiles, unit: f64) -> Option<Rule> {
    let p50 = q.p50?;
    let p99 = q.p99.filter(|_| q.n >= 100);
    let (name, value) = p99.map_or(("p50", p50), |p99| ("p99", p99));
    let said = |ms: f64| words::value_of(metric, ms);
    let short = format!("unloaded {name} {}", said(value));
    let long = match p99 {
        Some(p99) => format!("unloaded: p99 {}, p50 {}", said(p99), said(p50)),
        None => format!("unloaded: p50 {}", said(p50)),
    };
    let texts = vec![long, short, format!("unloaded {name}")];
    Some(Rule { value: value / unit, texts, hint: String::new(), labelled_below: false })
}

/// Returns true if a latency grows with the time that a request waits for its turn.
const fn includes_wait(metric: Metric) -> bool {
    match metric {
        Metric::Ttft | Metric::Ttfc | Metric::E2e | Metric::Rtf => true,
        Metric::Tpot | Metric::Itl => false,
    }
}
