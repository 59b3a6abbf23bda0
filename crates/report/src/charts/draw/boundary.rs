//! The answer on a plot: the goodput line, its bracket or interval, the safe rate, and the knee.

use super::axis::Plot;
use super::canvas::{Align, Canvas, Rect, Type};
use super::curves::{Across, tier_name};
use super::hue::{GREEN, GREEN_TEXT, KNEE};
use super::legend::Entry;
use super::place::Taken;
use super::positions::Positions;
use crate::escape::clip;
use crate::words::{self, ends};
use goodput_core::level::Control;
use goodput_core::units::short;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::search::answer::{Answer, Status};
use plotters::style::Color;

/// Opacity of the band around a knee.
pub(crate) const KNEE_SHADE: f64 = 0.14;

/// Dashes and gaps of the line at the safe rate.
pub(crate) const SAFE: (f64, f64) = (5.0, 3.0);
/// Width of the line of another tier.
pub(crate) const OTHER: f64 = 1.2;
/// A band is drawn up to this multiple of the highest step.
const BEYOND: f64 = 1.25;

/// The position of the answer on the horizontal axis of a chart.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    line: Option<f64>,
    band: Option<(f64, f64)>,
    /// The safe rate of an estimate.
    safe: Option<f64>,
    /// The highest step: a band that reaches far beyond it is clipped, since nothing was measured there.
    most: f64,
    knee: Option<f64>,
    /// 90 % interval of the knee, if a test supports it.
    knee_band: Option<(f64, f64)>,
    /// Unit of the knee on this axis.
    unit: &'static str,
    words: Vec<String>,
    legend: Vec<Entry>,
    /// The answers of the other tiers.
    others: Vec<OtherTier>,
}

/// The answer of another tier than the first: a thin line with its name and its rate.
#[derive(Debug)]
struct OtherTier {
    at: f64,
    words: String,
}

impl Boundary {
    /// Locates the first answer of a run on the axis of a chart.
    pub(crate) fn new(run: &Run, across: Across) -> Self {
        let Some(a) = run.answers.first() else { return Self::default() };
        let g = &a.goodput;
        let estimate = interval(g);
        let ends = estimate.map(|(_, [l, h])| (l, h)).or(g.bracket.met.zip(g.bracket.failed));
        let safe = usable_safe_rate(g);
        let line = match g.status() {
            _ if estimate.is_some() => g.rate(),
            Status::Found => g.rate().or(g.bracket.met),
            Status::NotReached if safe.is_some() => g.rate(),
            Status::NotReached => g.bracket.met.or(g.rate()),
            // The safe rate is more informative than the level that met the SLO.
            Status::Undecided if g.bracket.failed.is_none() && safe.is_none() => g.bracket.met,
            Status::None | Status::Undecided | Status::Invalid => None,
        };
        let positions = Positions::new(run, a, across);
        let place = |level: f64| positions.of(level);
        let knee = a.knee.as_ref().map(|k| positions.of_knee(k));
        let knee_band = a.knee.as_ref().and_then(|k| {
            let [low, high] = k.interval90?;
            // Up to the knee, throughput is proportional to the load.
            let unit = if across == Across::Achieved && k.rate > 0.0 { k.throughput / k.rate } else { 1.0 };
            Some((low * unit, high * unit))
        });
        let line = line.map(place);
        let band = ends.map(|(l, h)| (place(l), place(h))).filter(|(l, h)| h > l);
        let safe = safe.map(place);
        let most = positions.steps.iter().map(|s| across.of(s)).chain(line).fold(0.0, f64::max);
        let mut words = lines(run, a);
        // On an axis of requests/s, other levels stand at the rate achieved there.
        if let (Across::Achieved, Some(at), Some(first)) = (across, line, words.first_mut())
            && a.control != Control::Rate
        {
            first.push_str(&format!(" (about {}{})", short(at), Control::Rate.unit()));
        }
        let legend = legend(a, line.is_some(), band.is_some(), safe.is_some(), &words);
        let unit = if across == Across::Achieved { Control::Rate.unit() } else { a.control.unit() };
        let others = other_tiers(run, a, across);
        Self { line, band, safe, most, knee, knee_band, unit, words, legend, others }
    }

    /// Returns the rate of the answer, then the upper and the lower end of its interval or bracket; `None` if there is
    /// no rate.
    pub(crate) fn span(&self) -> Option<(f64, f64, f64)> {
        let line = self.line.or(self.safe)?;
        let (low, high) = self.band.unwrap_or((line, line));
        Some((line, high.min(BEYOND * self.most).max(line), low))
    }

    /// Returns the answer in one line.
    pub(crate) fn summary(&self) -> String {
        self.words.join(" · ")
    }

    /// Returns the legend entries of the elements drawn, with their numbers.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let knee = self.knee.map(|_| if self.knee_band.is_some() { Entry::TestedKnee } else { Entry::Knee });
        let others = (!self.others.is_empty()).then_some(Entry::OtherTier);
        self.legend.iter().cloned().chain(others).chain(knee).collect()
    }

    /// Returns the values that must be on the horizontal axis.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        let high = self.band.map(|b| b.1.min(BEYOND * self.most));
        let knee = self.knee_band.map(|b| b.1.min(BEYOND * self.most));
        let others = self.others.iter().map(|o| o.at);
        self.line.into_iter().chain(high).chain(self.safe).chain(self.knee).chain(knee).chain(others)
    }

    /// Draws band and lines; labels are placed later in the free room.
    pub(crate) fn draw(&self, c: &mut Canvas, plot: &Plot) {
        let a = plot.area;
        if let Some((low, high)) = self.band {
            let (x0, x1) = (plot.at_x(low), plot.at_x(high).min(a.right()));
            let band = Rect { x: x0, y: a.y, w: x1 - x0, h: a.h };
            c.fill(&band, GREEN.mix(0.13));
            c.hint_over(band, self.summary());
        }
        if let Some((low, high)) = self.knee_band {
            let (x0, x1) = (plot.at_x(low).max(a.x), plot.at_x(high).min(a.right()));
            let band = Rect { x: x0, y: a.y, w: (x1 - x0).max(0.0), h: a.h };
            c.fill(&band, KNEE.mix(KNEE_SHADE));
            c.hint_over(band, format!("knee: 90 % interval {} – {}{}", short(low), short(high), self.unit));
        }
        if let Some(knee) = self.knee {
            c.dashes(plot.upright(knee), 1.3, (1.6, 2.6), KNEE);
            c.hint_along(plot.upright(knee), format!("knee: {}{}", short(knee), self.unit));
        }
        for other in &self.others {
            let [from, to] = plot.upright(other.at);
            c.stroke(from, to, OTHER, GREEN);
            c.hint_along([from, to], other.words.clone());
        }
        if let Some(line) = self.line {
            let [from, to] = plot.upright(line);
            c.stroke(from, to, 2.0, GREEN);
            c.hint_along([from, to], self.summary());
        }
        if let Some(safe) = self.safe {
            c.dashes(plot.upright(safe), 1.6, SAFE, GREEN_TEXT);
            c.hint_along(plot.upright(safe), self.summary());
        }
    }

    /// Marks the lines as occupied, so that labels avoid them.
    pub(crate) fn take(&self, taken: &mut Taken, plot: &Plot) {
        let others = self.others.iter().map(|o| o.at);
        for x in self.line.into_iter().chain(self.safe).chain(self.knee).chain(others) {
            taken.line(&plot.upright(x), 4.0);
        }
    }

    /// Writes the answer next to its line. Omits it if there is no room: the headline repeats it.
    pub(crate) fn label(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        let right = |h: f64| h.min(BEYOND * self.most);
        let edges = self.band.map_or((self.line, self.line), |(l, h)| (Some(l), Some(right(h))));
        // A safe rate may lie below a line that has no band.
        let edges = (edges.0.map(|l| self.safe.map_or(l, |s| s.min(l))), edges.1);
        let edges = (edges.0.or(self.safe), edges.1.or(self.safe));
        let (Some(left), Some(right), false) = (edges.0, edges.1, self.words.is_empty()) else { return };
        let edges = if plot.x.share(left) < 0.3 { [right, left] } else { [left, right] };
        for size in [12.0, 11.0, 10.3] {
            if place_beside(c, plot, taken, edges, &Type::book(size, GREEN_TEXT), &self.words) {
                break;
            }
        }
    }

    /// Writes the names and the rates of the other tiers next to their lines, where there is room.
    pub(crate) fn label_others(&self, c: &mut Canvas, plot: &Plot, taken: &mut Taken) {
        for other in &self.others {
            let words = std::slice::from_ref(&other.words);
            place_beside(c, plot, taken, [other.at; 2], &Type::book(10.5, GREEN_TEXT), words);
        }
    }
}

/// Returns the answers of the other tiers of a series, at their rates.
fn other_tiers(run: &Run, first: &Answer, across: Across) -> Vec<OtherTier> {
    let is_other = |a: &&Answer| a.series == first.series && a.class == first.class && a.tier != first.tier;
    let one = |a: &Answer| {
        let rate = a.goodput.rate().or(a.goodput.bracket.met)?;
        let words = format!("{} {}{}", clip(&a.tier, 20), short(rate), a.control.unit());
        Some(OtherTier { at: Positions::new(run, a, across).of(rate), words })
    };
    run.answers.iter().filter(is_other).filter_map(one).collect()
}

/// Returns legend entries for line, band and safe rate, if drawn, with their numbers: a plot may have no room for them.
fn legend(a: &Answer, line: bool, band: bool, safe: bool, lines: &[String]) -> Vec<Entry> {
    let mut lines = lines.iter();
    let said = |own: Option<&String>, short: &str| own.map_or(short.to_owned(), Clone::clone);
    let name = match (a.goodput.status(), interval(&a.goodput)) {
        (Status::Found, _) => "goodput",
        (Status::Undecided, Some(_)) => "median estimate",
        (Status::NotReached, _) if safe => "highest of the plan",
        _ => "highest level shown to meet",
    };
    let mut out = Vec::new();
    if line {
        out.push(Entry::Line(said(lines.next(), name)));
    }
    if band {
        let name = if interval(&a.goodput).is_some() { "90 % interval" } else { "between met and failed" };
        out.push(Entry::Band(said(lines.next(), name)));
    }
    if safe {
        out.push(Entry::Safe(said(lines.next(), &format!("safe {}", words::noun(a.control)))));
    }
    out
}

/// Places lines of text left or right of a vertical line, as high as there is room. Returns true if it found a place.
fn place_beside(
    c: &mut Canvas,
    plot: &Plot,
    taken: &mut Taken,
    at: [f64; 2],
    face: &Type,
    lines: &[String],
) -> bool {
    let a = plot.area;
    let w = lines.iter().map(|l| face.width(l)).fold(0.0, f64::max);
    let (step, h) = (face.size * 1.35, face.size * 1.35 * lines.len() as f64);
    let ys: Vec<f64> = (0..40).map(|i| a.y + 4.0 + (a.h - h - 8.0) * f64::from(i) / 39.0).collect();
    let spots = at.iter().flat_map(|v| [plot.at_x(*v) - w - 8.0, plot.at_x(*v) + 7.0]);
    let spots: Vec<f64> = spots.filter(|x| *x >= a.x + 4.0 && *x + w <= a.right() + 2.0).collect();
    let rects = spots.iter().flat_map(|x| ys.iter().map(move |y| Rect { x: *x, y: *y, w, h }));
    let Some(r) = taken.free(rects) else { return false };
    let right = at.iter().any(|v| (plot.at_x(*v) - w - 8.0 - r.x).abs() < 1e-9);
    for (i, line) in lines.iter().enumerate() {
        let y = r.y + step * (i as f64 + 1.0) - step * 0.28;
        let (px, align) = if right { (r.right(), Align::Right) } else { (r.x, Align::Left) };
        c.text((px, y), align, face, line);
    }
    true
}

fn lines(run: &Run, a: &Answer) -> Vec<String> {
    let (g, unit) = (&a.goodput, a.control.unit());
    let tier = tier_name(run, &a.tier);
    let n = short;
    if let Some(([rate, low, high], safe)) = ends(a.control, g) {
        let name = if g.status() == Status::Found { "goodput" } else { "undecided: about" };
        let safe = safe.map_or(format!("no {} is shown to be safe", words::noun(a.control)), |s| {
            format!("safe {} {s}{unit}", words::noun(a.control))
        });
        return vec![format!("{name}{tier} {rate}{unit}"), format!("90 % interval {low} – {high}"), safe];
    }
    if let Some(safe) = usable_safe_rate(g) {
        let safe = format!("safe {} {}{unit}", words::noun(a.control), n(safe));
        return match g.rate() {
            Some(rate) => vec![format!("at least{tier} {}{unit}", n(rate)), safe],
            None => vec![safe, "above is undecided".into()],
        };
    }
    match (g.status(), g.rate().or(g.bracket.met), g.bracket.met, g.bracket.failed) {
        (Status::Found, Some(rate), met, failed) => {
            let ends = met.zip(failed).map(|(m, f)| format!("met at {}, failed at {}", n(m), n(f)));
            std::iter::once(format!("goodput{tier} {}{unit}", n(rate))).chain(ends).collect()
        }
        (Status::NotReached, Some(rate), ..) => {
            vec![format!("met{tier} up to {}{unit}", n(rate)), "more was not tried".into()]
        }
        (Status::Undecided, _, Some(m), None) => {
            vec![format!("met{tier} up to {}{unit}", n(m)), "above is undecided".into()]
        }
        (Status::Undecided, _, Some(m), Some(f)) => {
            vec![format!("met{tier} at {}, failed at {}{unit}", n(m), n(f)), "undecided between".into()]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Conclusion;

    #[test]
    fn what_is_met_is_marked_where_the_rest_is_undecided() {
        let mut run = fixture::found();
        let g = &mut run.answers[0].goodput;
        (g.conclusion, g.bracket.failed) = (Conclusion::OPEN, None);
        let b = Boundary::new(&run, Across::Offered);
        assert_eq!(b.words, ["met up to 32 req/s", "above is undecided"]);
        assert_eq!((b.line.map(f64::round), b.band), (Some(32.0), None));
    }

    #[test]
    fn an_estimate_has_its_interval_and_its_safe_rate() {
        let mut run = fixture::found();
        let g = &mut run.answers[0].goodput;
        g.conclusion = conclusion(Status::Found, Some(33.4), Some([31.6, 35.3]), Some(31.2));
        let b = Boundary::new(&run, Across::Offered);
        assert_eq!(b.words, ["goodput 33.4 req/s", "90 % interval 31.6 – 35.3", "safe rate 31.2 req/s"]);
        assert_eq!((b.line, b.band, b.safe), (Some(33.4), Some((31.6, 35.3)), Some(31.2)));
        let slide = format!("{:?}", Boundary::new(&run, Across::Offered).entries());
        assert!(slide.contains("Safe(\"safe rate 31.2 req/s\")"), "{slide}");
        let g = &mut run.answers[0].goodput;
        g.conclusion = conclusion(Status::Undecided, Some(33.4), Some([0.0, 300.0]), None);
        let b = Boundary::new(&run, Across::Offered);
        assert_eq!(b.words[2], "no rate is shown to be safe");
        assert!(b.values().all(|v| v <= 60.0 + 1e-9), "no room for where nothing was measured");
        let g = &mut run.answers[0].goodput;
        (g.conclusion, g.bracket.failed) = (conclusion(Status::Undecided, None, None, Some(30.0)), None);
        let b = Boundary::new(&run, Across::Offered);
        assert_eq!((b.line, b.safe), (None, Some(30.0)), "it says more than what met");
        assert_eq!(b.words, ["safe rate 30 req/s", "above is undecided"]);
        run.answers[0].goodput.conclusion = Conclusion::None;
        let b = Boundary::new(&run, Across::Offered);
        assert_eq!((b.line, b.safe, b.words.len()), (None, None, 0));
    }

    /// Rows: the conclusion, and where line, band and safe rate stand on the axis of achieved rates.
    #[test]
    fn the_answer_stands_at_its_own_rate_whatever_the_steps_achieved() {
        let mut run = fixture::found();
        run.steps.iter_mut().for_each(|s| s.achieved_rate *= 0.7);
        let estimate = conclusion(Status::Found, Some(33.4), Some([31.6, 35.3]), Some(31.2));
        let bracket = run.answers[0].goodput.conclusion;
        for (conclusion, line, band, safe) in
            [(estimate, 33.4, (31.6, 35.3), Some(31.2)), (bracket, 32.0, (32.0, 36.0), None)]
        {
            run.answers[0].goodput.conclusion = conclusion;
            let b = Boundary::new(&run, Across::Achieved);
            assert_eq!((b.line, b.band, b.safe), (Some(line), Some(band), safe), "{conclusion:?}");
        }
    }

    #[test]
    fn the_knee_stands_at_the_throughput_found_there() {
        let mut run = fixture::found();
        run.answers[0].knee = Some(goodput_stats::search::answer::Knee {
            rate: 40.0,
            throughput: 36.0,
            interval90: Some([35.0, 45.0]),
            basis: goodput_stats::search::answer::KneeBasis::Throughput,
        });
        for (across, knee, band) in
            [(Across::Achieved, 36.0, (31.5, 40.5)), (Across::Offered, 40.0, (35.0, 45.0))]
        {
            let b = Boundary::new(&run, across);
            assert_eq!((b.knee, b.knee_band), (Some(knee), Some(band)), "{across:?}");
        }
    }

    #[test]
    fn the_legend_names_what_is_drawn() {
        let mut run = fixture::found();
        let texts = |run: &Run| {
            let b = Boundary::new(run, Across::Offered);
            format!("{:?}", b.entries())
        };
        assert!(texts(&run).contains("goodput 32 req/s"), "{}", texts(&run));
        assert!(texts(&run).contains("met at 32, failed at 36"), "{}", texts(&run));
        assert!(texts(&run).contains("Knee"));
        run.answers.clear();
        assert_eq!(texts(&run), "[]");
    }
}
