//! Each step over time: requests in flight and TTFT, one small picture per step.

use super::cells::{Cell, HEIGHT, PHASES, grid};
use super::draw::{
    Align, Axis, Canvas, EDGE, Frame, GREY, Mark, RED, Rect, Scene, Slot, Type, charted, hue_of, marks, rgb,
    steady,
};
use crate::words;
use goodput_core::slo::{Limit, Metric};
use goodput_run::rundir::{Run, Trace, Traces, Ttft};
use goodput_stats::stats::step::{Step, StepKind};

/// Maximum number of steps on a page.
const MOST: usize = 12;

/// Returns true if the requests of any step are known.
pub(super) fn applies(run: &Run, traces: &Traces) -> bool {
    !steps(run, traces).is_empty()
}

/// Returns the steps of the answer's series whose requests are known, by level.
fn steps<'a>(run: &'a Run, traces: &'a Traces) -> Vec<(&'a Step, &'a Trace)> {
    let series = run.answers.first().map(|a| a.series.as_str());
    let own = charted(run).filter(|s| series.is_none_or(|name| s.series == name));
    let mut all: Vec<(&Step, &Trace)> = own.filter_map(|s| Some((s, traces.of(s)?))).collect();
    all.sort_by(|a, b| a.0.level.value.total_cmp(&b.0.level.value).then(a.0.step.cmp(&b.0.step)));
    all
}

/// Returns the most informative steps if there are too many: the lowest, the highest, and those nearest to the
/// boundary.
fn telling<'a>(run: &Run, all: Vec<(&'a Step, &'a Trace)>) -> Vec<(&'a Step, &'a Trace)> {
    if all.len() <= MOST {
        return all;
    }
    let g = run.answers.first().map(|a| &a.goodput);
    let middle =
        |g: &goodput_stats::search::answer::Goodput| match (g.rate(), g.bracket.met, g.bracket.failed) {
            (_, Some(m), Some(f)) if g.interval90().is_none() => Some((m * f).sqrt()),
            (rate, met, failed) => rate.or(met).or(failed),
        };
    let boundary = g.and_then(middle).unwrap_or(all[all.len() / 2].0.level.value);
    // Prefers the soak, which readers look for.
    let soak = |s: &Step| s.kind == StepKind::Confirm;
    let far = |s: &Step| (s.level.value.max(1e-9) / boundary.max(1e-9)).ln().abs();
    let mut order: Vec<usize> = (1..all.len() - 1).collect();
    order.sort_by(|a, b| {
        let ([a, b], key) = ([all[*a].0, all[*b].0], |s: &Step| !soak(s));
        key(a).cmp(&key(b)).then(far(a).total_cmp(&far(b)))
    });
    order.truncate(MOST - 2);
    let keep = |i: usize| i == 0 || i + 1 == all.len() || order.contains(&i);
    all.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, s)| *s).collect()
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let all = steps(run, scene.traces);
    let count = all.len();
    let shown = telling(run, all);
    let columns = match shown.len() {
        1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let rows = shown.len().div_ceil(columns);
    let slots = [Slot { values_above: true, ..Slot::of(rows as f64 * HEIGHT - 16.0) }];
    let legend = marks(shown.iter().map(|s| Mark::of(s.0)), Mark::words);
    let mut frame = Frame::new(scene, &slots, 30.0, legend);
    let left_out = if shown.len() < count {
        let soak = if shown.iter().any(|s| s.0.kind == StepKind::Confirm) { ", the soak" } else { "" };
        format!("{} of {count} steps: lowest, highest{soak}, and those nearest to the boundary", shown.len())
    } else {
        String::new()
    };
    let limit = limit(run);
    let (y, unit) = ttft_axis(&shown, limit.as_ref());
    key(
        &mut frame.canvas,
        frame.areas[0].y,
        &Drawn::of(&shown, metric(run), limit.as_ref(), &y, unit),
        unit,
        &left_out,
    );
    let area = Rect { x: EDGE, w: frame.width() - 2.0 * EDGE, ..frame.areas[0] };
    for (rect, (step, trace)) in grid(area, columns).zip(&shown) {
        Cell { rect, step, trace, ttft: y, limit: limit.map(|l| l.limit_ms()), unit }.draw(&mut frame.canvas);
    }
    let face = Type::book(12.0, rgb(0x222222));
    let middle = (frame.width() / 2.0, area.bottom() + 32.0);
    frame.canvas.text(middle, Align::Middle, &face, "seconds from the start of each step");
    frame.finish(hue_of(0))
}

/// Returns TTFT, or e2e if responses were not streamed.
fn metric(run: &Run) -> Metric {
    charted(run).map(Step::response_metric).find(|m| *m == Metric::E2e).unwrap_or(Metric::Ttft)
}

/// Returns the limit of the highest percentile on the metric shown.
fn limit(run: &Run) -> Option<Limit> {
    let tier = words::tier_of(run, run.answers.first()?)?;
    let metric = metric(run);
    tier.limits().into_iter().rfind(|l| l.metric == metric)
}

/// Returns one logarithmic axis for all steps, so that they can be compared, and the milliseconds in one unit of it. It
/// extends to several times the values of steady steps and the limit, since a step whose backlog grew would squash the
/// rest.
fn ttft_axis(shown: &[(&Step, &Trace)], limit: Option<&Limit>) -> (Axis, f64) {
    let of = |trace: &Trace| -> Vec<f64> {
        match &trace.ttft {
            Ttft::Points(points) => points.iter().map(|p| p.1).collect(),
            Ttft::Spans(spans) => spans.iter().flat_map(|s| [s.p50, s.p99]).collect(),
        }
    };
    let most = |steps: &mut dyn Iterator<Item = &(&Step, &Trace)>| {
        steps.flat_map(|(_, t)| of(t)).fold(0.0, f64::max)
    };
    let calm = most(&mut shown.iter().filter(|s| steady(s.0)));
    let calm = limit.map_or(0.0, Limit::limit_ms).max(calm);
    let all = most(&mut shown.iter());
    let top = if calm > 0.0 { all.max(calm).min(6.0 * calm) } else { all };
    let least = shown.iter().flat_map(|(_, t)| of(t)).filter(|v| *v > 0.0).fold(top, f64::min);
    let unit = if top >= 10_000.0 { 1e3 } else { 1.0 };
    (Axis::log(0.75 * least.max(top / 1e4) / unit, 1.35 * top / unit), unit)
}

/// The elements that occur in the small pictures.
struct Drawn {
    spans: bool,
    points: bool,
    metric: Metric,
    limit: Option<Limit>,
    /// As in [`super::cells::PHASES`].
    phases: [bool; 2],
}

impl Drawn {
    fn of(shown: &[(&Step, &Trace)], metric: Metric, limit: Option<&Limit>, y: &Axis, unit: f64) -> Self {
        let spans = |t: &Ttft| matches!(t, Ttft::Spans(_));
        Self {
            spans: shown.iter().any(|s| spans(&s.1.ttft)),
            points: shown.iter().any(|s| !spans(&s.1.ttft)),
            metric,
            limit: limit.filter(|l| l.limit_ms() / unit <= y.max).copied(),
            phases: [
                shown.iter().any(|s| s.0.settle_s > 0.0),
                shown.iter().any(|s| s.0.tail_s + s.0.drain_s > 0.0),
            ],
        }
    }
}

/// Draws the key above the small pictures.
fn key(c: &mut Canvas, top: f64, drawn: &Drawn, unit: f64, left_out: &str) {
    let (bold, book, hue) = (Type::bold(11.5, rgb(0x333333)), Type::book(11.0, rgb(0x3d3d3d)), hue_of(0));
    let mut x = EDGE;
    let mut y = top - if left_out.is_empty() { 36.0 } else { 43.0 };
    let say = |c: &mut Canvas, x: &mut f64, y: f64, face: &Type, text: &str, gap: f64| {
        c.text((*x, y), Align::Left, face, text);
        *x += face.width(text) + gap;
    };
    say(c, &mut x, y, &bold, "Above: requests in flight", 8.0);
    say(c, &mut x, y, &book, "(own scale)", 18.0);
    let below = format!("Below: {}, {}", drawn.metric.title(), if unit > 1.0 { "s" } else { "ms" });
    say(c, &mut x, y, &bold, &below, 8.0);
    say(c, &mut x, y, &book, "(one logarithmic scale, by time of due)", 0.0);
    (x, y) = (EDGE, y + 18.0);
    for (colour, text) in [(hue.dark, "p99"), (hue.middle, "p50")].into_iter().filter(|_| drawn.spans) {
        let dots = [(0.0, 2.5), (5.0, 6.0), (10.0, 4.0)].map(|(right, up)| (x + right + 2.0, y - up));
        c.dots(dots.to_vec(), 1.5, colour);
        x += 17.0;
        say(c, &mut x, y, &book, text, 14.0);
    }
    if drawn.points {
        let dots = vec![(x + 2.0, y - 6.0), (x + 8.0, y - 2.5)];
        c.dots(dots, 1.3, hue.dark);
        x += 15.0;
        let text = if drawn.spans { "each request, where few" } else { "each request" };
        say(c, &mut x, y, &book, text, 14.0);
    }
    if let Some(limit) = &drawn.limit {
        c.dashes([(x, y - 4.0), (x + 18.0, y - 4.0)], 1.6, (5.0, 3.0), RED);
        x += 23.0;
        say(c, &mut x, y, &book.coloured(RED), &words::limit(limit), 14.0);
    }
    let phases = PHASES.into_iter().zip(drawn.phases).filter(|p| p.1);
    for ((colour, text), _) in phases {
        c.fill(&Rect { x, y: y - 9.5, w: 13.0, h: 11.0 }, colour.into());
        x += 18.0;
        say(c, &mut x, y, &book, text, 14.0);
    }
    if !left_out.is_empty() {
        c.text((EDGE, y + 17.0), Align::Left, &Type::book(11.0, GREY), left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn the_steps_near_the_boundary_are_kept() {
        let (mut run, traces) = fixture::traced();
        let all = steps(&run, &traces);
        assert_eq!(all.len(), 11);
        let twice: Vec<_> = all.iter().flat_map(|s| [*s, *s]).collect();
        let levels: Vec<f64> = telling(&run, twice).iter().map(|s| s.0.level.value).collect();
        assert_eq!(levels.len(), MOST);
        assert!(levels[0] < 5.5 && levels[11] > 47.0, "the ends stay: {levels:?}");
        assert_eq!(levels.iter().filter(|l| (25.0..=40.0).contains(*l)).count(), 10, "{levels:?}");
        run.answers.clear();
        assert_eq!(steps(&run, &traces).len(), 11, "without an answer as well");
        assert!(!applies(&run, &Traces::default()));
    }

    #[test]
    fn the_key_names_what_occurs() {
        let (mut run, traces) = fixture::traced();
        let of = |run: &Run| {
            let shown = steps(run, &traces);
            let (y, unit) = ttft_axis(&shown, limit(run).as_ref());
            Drawn::of(&shown, metric(run), limit(run).as_ref(), &y, unit)
        };
        let all = of(&run);
        assert!(all.spans && all.limit.is_some() && all.phases == [true, true]);
        run.steps.retain(|s| s.due_n > 1_000);
        run.steps.iter_mut().for_each(|s| s.settle_s = 0.0);
        run.tiers.clear();
        let some = of(&run);
        assert!(!some.points && some.limit.is_none() && some.phases == [false, true]);
    }
}
