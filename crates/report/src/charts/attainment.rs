//! Attainment against the level: for each limit the share of requests within it, with its bounds, its target and the
//! bracket.

use super::axis::{Axis, Plot};
use super::boundary::Boundary;
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::curves::{
    Across, Curve, Mark, charted, control, curves, hue_of, radius, steady, tier_name, without_afar,
};
use super::fit::Fit;
use super::frame::{Frame, Slot, x_axis};
use super::hints::{REACH, of_step};
use super::legend::{Entry, marks};
use super::panel::RED;
use super::place::Taken;
use super::scene::{Format, Scene};
use super::throughput::level_title;
use crate::escape::clip;
use crate::words;
use crate::words::thousands;
use goodput_core::slo::{Limit, limit_key};
use goodput_run::rundir::{Run, Traces, reach};
use goodput_stats::stats::step::{LimitRow, Step, Verdict};

/// Maximum number of plots on a page.
const MOST: usize = 4;

/// A limit whose attainment is shown.
struct Target {
    /// Name of the limit in `limits.csv`.
    name: String,
    tier: String,
    class: String,
    /// The limit in words.
    text: String,
    /// Share that must be within it.
    share: f64,
}

impl Target {
    fn mark(&self, step: &Step) -> Option<Mark> {
        self.row(step).map(|row| Mark::by(step, row.verdict))
    }

    /// Returns the tooltip of a step: the share within the limit, its bounds and the misses.
    fn told(&self, step: &Step, mark: Mark) -> String {
        let share = |row: &LimitRow| {
            let bounds = row.low.zip(row.high).map(|(l, h)| format!(" [{}, {}]", percent(l), percent(h)));
            Some(format!("{} {}{}", percent(row.attainment?), self.text, bounds.unwrap_or_default()))
        };
        let misses = |row: &LimitRow| {
            format!("{} of {} missed", thousands(row.misses as f64), thousands(row.n as f64))
        };
        let parts = self.row(step).into_iter().flat_map(|row| share(row).into_iter().chain([misses(row)]));
        of_step(step, parts, mark)
    }

    fn row<'a>(&self, step: &'a Step) -> Option<&'a LimitRow> {
        let own = |l: &&LimitRow| l.limit == self.name && l.tier == self.tier && l.class == self.class;
        step.limits.iter().find(own).filter(|l| l.attainment.is_some())
    }
}

/// Returns a share in per cent, never rounded up to the whole.
pub(super) fn percent(share: f64) -> String {
    let floor = (share * 1e5 + 1e-6).floor() / 1e3;
    format!("{floor} %")
}

/// Returns true if any limit was counted.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    !targets(run).is_empty()
}

/// Returns the limits of the answer's tier that were counted in any step, the one that binds first.
fn targets(run: &Run) -> Vec<Target> {
    let Some(answer) = run.answers.first() else { return Vec::new() };
    let Some(tier) = words::tier_of(run, answer) else { return Vec::new() };
    let target = |class: &str, name: String, text: String, share: f64| Target {
        name,
        tier: tier.tier().to_owned(),
        class: class.to_owned(),
        text,
        share,
    };
    let parts = tier.limit_groups();
    let latencies = parts.iter().flat_map(|p| p.slo.limits().into_iter().map(move |l| (p, l)));
    let mut all: Vec<Target> = latencies
        .map(|(p, l)| target(p.class(), l.name(), p.title(&within(&l)), l.percentile.share()))
        .collect();
    let joint = tier.joint_attainment;
    all.extend(
        joint.map(|a| target(&answer.class, "joint".into(), "within every limit together".into(), a.get())),
    );
    let errors = parts.iter().filter_map(|p| Some((p, p.slo.error_rate?)));
    all.extend(errors.map(|(p, e)| {
        target(p.class(), "error-rate".into(), p.title("answered without an error"), 1.0 - e.get())
    }));
    all.retain(|t| charted(run).any(|s| t.row(s).is_some()));
    let binding = answer.goodput.binding.as_deref();
    all.sort_by_key(|t| binding != Some(limit_key(&t.class, &t.name).as_str()));
    all.truncate(MOST);
    all
}

fn within(l: &Limit) -> String {
    format!("with {} ≤ {}", l.metric.title(), words::latency(l.limit_ms()))
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let mut curves = curves(run);
    let boundary = Boundary::new(run, Across::Offered, scene.format);
    let afar = without_afar(&mut curves, boundary.values()).unwrap_or_default();
    let mut targets = targets(run);
    if scene.format == Format::Slide {
        targets.truncate(if curves.len() > 1 { 1 } else { 2 });
    }
    let height = [300.0, 300.0, 225.0, 178.0, 150.0][targets.len().min(MOST)];
    let slots = vec![Slot { height, values_above: false, own_x: false }; targets.len()];
    let shown = targets.iter().flat_map(|t| curves.iter().flat_map(|c| &c.steps).filter_map(|s| t.mark(s)));
    let mut legend = marks(shown, Mark::words_of_limit);
    let fits: Vec<Option<Fit>> = targets.iter().map(|t| fit(run, t, &curves)).collect();
    legend.extend(fits.iter().flatten().next().map(|_| Entry::Fit("fit and its 90 % band")));
    legend.extend(boundary.entries());
    let mut frame = Frame::new(scene, &slots, 30.0, legend);
    let levels = curves.iter().flat_map(|c| &c.steps).map(|s| s.level.value);
    let x = x_axis(control(run), Across::Offered, levels.chain(boundary.values()));
    let title = level_title(control(run));
    let parts = [afar.as_str(), "scale widens towards 100 %", "bars: the verdict’s bounds"];
    let notes: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).map(str::to_owned).collect();
    for (i, target) in targets.iter().enumerate() {
        let plot = Plot { area: frame.areas[i], x, y: axis(&curves, target) };
        let what = if target.name.starts_with("itl") { "gaps" } else { "requests" };
        let heading = format!("Share of {what} {}{}", target.text, tier_name(run, &target.tier));
        frame.axes(i, &plot, &heading, &notes, title);
        boundary.draw(&mut frame.canvas, &plot);
        let mut taken = Taken::default();
        if let Some(fit) = &fits[i] {
            fit.draw(&mut frame.canvas, &plot, &mut taken);
        }
        frame.spines(&plot);
        boundary.take(&mut taken, &plot);
        let c = &mut frame.canvas;
        let y = plot.at_y(target.share);
        c.dashes((plot.area.x, y), (plot.area.right(), y), 1.8, (8.0, 4.5), RED);
        c.hint_along(
            (plot.area.x, y),
            (plot.area.right(), y),
            format!("SLO: at least {}", percent(target.share)),
        );
        taken.line(&[(plot.area.x, y), (plot.area.right(), y)], 1.0);
        for curve in &curves {
            // The fit replaces the line of its series.
            let joined = fits[i].as_ref().is_none_or(|_| curve.series != run.answers[0].series);
            draw_curve(c, &plot, target, (curve, joined), radius(run), &mut taken);
        }
        label_target(c, &plot, target, &mut taken);
        if curves.len() > 1 {
            for curve in &curves {
                label_series(c, &plot, target, curve, &mut taken);
            }
        }
        if i == 0 && scene.format == Format::Report {
            boundary.label(c, &plot, &mut taken);
        }
    }
    frame.finish(curves.first().map_or(hue_of(0), |c| c.hue))
}

/// Returns an axis from 90 %, or from a lower value if a share is below.
fn axis(curves: &[Curve<'_>], target: &Target) -> Axis {
    let all = curves.iter().flat_map(|c| &c.steps);
    let least = all.filter_map(|s| target.row(s)?.attainment).fold(target.share, f64::min);
    let min = [0.9, 0.5, 0.0].into_iter().find(|m| *m <= least && *m < target.share).unwrap_or(0.0);
    Axis::shares(min, 1.0 - target.share)
}

fn place(plot: &Plot, target: &Target, step: &Step) -> Option<Point> {
    Some(plot.at(step.level.value, target.row(step)?.attainment?.max(plot.y.min)))
}

/// Returns the fitted curve of a target, over the levels of the steps shown.
fn fit(run: &Run, target: &Target, curves: &[Curve<'_>]) -> Option<Fit> {
    let answer = run.answers.first().filter(|a| a.tier == target.tier)?;
    let fitted = run.view.fitted.iter().find(|f| f.limit == limit_key(&target.class, &target.name))?;
    let own = curves.iter().filter(|c| c.series == answer.series).flat_map(|c| &c.steps);
    let levels = own.map(|s| s.level.value).fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    Fit::of(fitted, reach(&answer.goodput, levels))
}

fn draw_curve(
    c: &mut Canvas,
    plot: &Plot,
    target: &Target,
    (curve, joins): (&Curve<'_>, bool),
    r: f64,
    taken: &mut Taken,
) {
    let joined = if joins { curve.joined(Across::Offered) } else { Vec::new() };
    let line: Vec<Point> = joined.into_iter().filter_map(|s| place(plot, target, s)).collect();
    for (step, x) in apart(plot, curve) {
        let Some((low, high)) = target.row(step).and_then(|l| l.low.zip(l.high)) else { continue };
        let (from, to) = (plot.at_y(low.max(plot.y.min)), plot.at_y(high));
        c.stroke((x, from), (x, to), 1.3, curve.hue.middle);
        for y in [from, to] {
            c.stroke((x - 2.8, y), (x + 2.8, y), 1.1, curve.hue.middle);
        }
        taken.line(&[(x, from), (x, to)], 3.0);
    }
    c.line(&line, 2.2, curve.hue.dark);
    taken.line(&line, 3.0);
    // Decided steps are drawn above undecided ones.
    let mut steps = curve.steps.clone();
    steps.sort_by_key(|s| target.row(s).is_some_and(|row| row.verdict != Verdict::Undecided));
    for step in steps {
        if let (Some(at), Some(mark)) = (place(plot, target, step), target.mark(step)) {
            mark.draw(c, at, r, curve.hue.dark);
            c.hint(at, REACH, target.told(step, mark));
            taken.mark(at, 6.5);
        }
    }
}

/// Distance between the bars of steps at one level, in logical pixels.
const APART: f64 = 3.0;

/// Returns the steps that have bars with the x coordinates of these: side by side if steps share a level.
fn apart<'a>(plot: &Plot, curve: &Curve<'a>) -> Vec<(&'a Step, f64)> {
    let steps: Vec<&Step> = curve.steps.iter().copied().filter(|s| steady(s)).collect();
    let x = |s: &Step| plot.at_x(s.level.value);
    let mut out = Vec::new();
    for group in steps.chunk_by(|a, b| x(b) - x(a) < APART) {
        let middle = (group.len() - 1) as f64 / 2.0;
        let centre = group.iter().map(|s| x(s)).sum::<f64>() / group.len() as f64;
        for (i, step) in group.iter().enumerate() {
            let at = if group.len() > 1 { centre + APART * (i as f64 - middle) } else { x(step) };
            out.push((*step, at));
        }
    }
    out
}

fn label_target(c: &mut Canvas, plot: &Plot, target: &Target, taken: &mut Taken) {
    let face = Type::book(12.0, RED);
    let text = format!("SLO: at least {} %", (target.share * 1e5).round() / 1e3);
    let (a, w) = (plot.area, face.width(&text));
    let y = plot.at_y(target.share);
    let xs = (0..=60).map(|i| a.x + 8.0 + (a.w - w - 12.0) * f64::from(i) / 60.0);
    let spots =
        [4.0, -17.5].iter().flat_map(|row| xs.clone().map(move |x| Rect { x, y: y + row, w, h: 13.5 }));
    if let Some((r, covers)) = taken.place(spots.filter(|r| r.y > a.y && r.bottom() < a.bottom())) {
        c.veil(&r, covers);
        c.text((r.x, r.y + 11.2), Align::Left, &face, &text);
    }
}

fn label_series(c: &mut Canvas, plot: &Plot, target: &Target, curve: &Curve<'_>, taken: &mut Taken) {
    let last = curve.joined(Across::Offered).into_iter().rev().find_map(|s| place(plot, target, s));
    let Some((x, y)) = last.or_else(|| curve.steps.iter().find_map(|s| place(plot, target, s))) else {
        return;
    };
    let face = Type::bold(12.0, curve.hue.dark);
    let name = clip(curve.series, 22);
    let (a, w) = (plot.area, face.width(&name));
    let near = [(x + 9.0, y - 7.0), (x - w - 9.0, y - 7.0), (x - w - 9.0, y + 9.0), (x + 9.0, y + 9.0)];
    let further = (0..12).map(|i| (x - w - 9.0, a.y + 2.0 + (a.h - 18.0) * f64::from(i) / 11.0));
    let spots = near.into_iter().chain(further).map(|(x, y)| Rect { x, y, w, h: 14.0 });
    let inside = |r: &Rect| r.x > a.x && r.right() < a.right() + 24.0 && r.y > a.y && r.bottom() < a.bottom();
    if let Some((r, covers)) = taken.place(spots.filter(inside)) {
        c.veil(&r, covers);
        c.text((r.x, r.y + 11.3), Align::Left, &face, &name);
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::Shape;
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn the_limit_that_binds_comes_first() {
        let mut run = fixture::found();
        run.answers[0].goodput.binding = Some("tpot.p99".into());
        let names: Vec<String> = targets(&run).into_iter().map(|t| t.name).collect();
        assert_eq!(names, ["tpot.p99", "ttft.p99"]);
        run.answers[0].tier = "elsewhere".into();
        run.tiers.clear();
        assert!(targets(&run).is_empty() && !applies(&run, &Traces::default()));
    }

    #[test]
    fn the_scale_reaches_down_to_what_was_measured() {
        let mut run = fixture::found();
        run.steps.truncate(5);
        let target = &targets(&run)[0];
        assert!((axis(&curves(&run), target).min - 0.9).abs() < 1e-9);
        run.steps[4].limits[0].attainment = Some(0.3);
        assert!(axis(&curves(&run), target).min.abs() < 1e-9);
    }

    #[test]
    fn bars_at_one_level_stand_side_by_side_and_decided_marks_on_top() {
        let mut run = fixture::found();
        let mut open = run.steps[3].clone();
        (open.step, open.verdict) = (12, Verdict::Undecided);
        open.limits.iter_mut().for_each(|l| l.verdict = Verdict::Undecided);
        run.steps.push(open);
        let area = Rect { x: 0.0, y: 0.0, w: 400.0, h: 100.0 };
        let target = &targets(&run)[0];
        let (x, y) = (Axis::upto(50.0, 5.0), axis(&curves(&run), target));
        let plot = Plot { area, x, y };
        let places: Vec<f64> = apart(&plot, &curves(&run)[0]).iter().map(|p| p.1).collect();
        let least = places.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        assert!((least - APART).abs() < 1e-9, "{places:?}");
        let mut c = Canvas::new(400, 100);
        draw_curve(&mut c, &plot, target, (&curves(&run)[0], true), 4.0, &mut Taken::default());
        let at = plot.at_x(20.0);
        let last = c.shapes.iter().rev().find_map(|s| match s {
            Shape::Disc(p, _, colour) if (p.0 - at).abs() < 1e-9 => Some(*colour),
            _ => None,
        });
        assert_eq!(last, Some(hue_of(0).dark), "the full disc of the step that meets");
    }
}
