//! Output tokens per second of a GPU against those of one user, with the corner that the SLO sets: what a server gives all users together
//! and what it gives each. Steps with more load lie further up and further left; the line is their Pareto frontier.

use super::draw::{
    Across, Axis, Canvas, Curve, Dot, Entry, Format, Frame, GREEN, Hue, Mark, Names, Plot, Point, RED, Rect,
    Scene, Series, Slot, Symbol, Taken, Type, hue_of, marks, of_step, overlaid_curves, radius,
};
use super::draw::{GREEN_TEXT, curves::curves};
use crate::words::{self, messages::UserSpeed};
use goodput_run::rundir::{Run, Traces};
use goodput_stats::stats::step::Step;

/// Least number of steps of a series that make a curve.
const LEAST: usize = 2;
/// With more series than this, steps within the frontiers and all goodputs but the highest are left out.
const MANY: usize = 4;

/// Returns true if a series has tokens at several levels.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let speed = UserSpeed::of(run);
    let curves = shown(run);
    let is_curve = |c: &Curve<'_>| {
        c.joined(Across::Offered).iter().filter(|s| at(run, &speed, s).is_some()).count() >= LEAST
    };
    // Of several series, one curve alone compares nothing.
    curves.iter().filter(|c| is_curve(c)).count() >= LEAST.min(run.parts.len().max(1))
}

fn shown(run: &Run) -> Vec<Curve<'_>> {
    if run.parts.is_empty() {
        curves(run)
    } else {
        overlaid_curves(run).into_iter().map(|(_, c)| c).collect()
    }
}

/// Returns the place of a step: tokens per second of a user, and of a GPU.
fn at(run: &Run, speed: &UserSpeed, s: &Step) -> Option<Point> {
    let all = words::messages::per_gpu(run, s.output_tokens_per_s);
    speed.in_step(s).filter(|_| all > 0.0).map(|own| (own, all))
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let run = scene.run;
    let (speed, curves) = (UserSpeed::of(run), shown(run));
    let series: Vec<Series> = curves.iter().map(|c| series(run, &speed, c)).collect();
    let goodputs = goodputs(run, &curves);
    let points: Vec<Point> = series.iter().flat_map(|s| s.dots.iter().map(|d| d.at)).collect();
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let right = most(|p| p.0).max(speed.least().unwrap_or(0.0));
    let top = goodputs.iter().map(|g| g.0).fold(most(|p| p.1), f64::max);
    let slot = Slot::of(if scene.format == Format::Slide { 230.0 } else { 330.0 });
    let mut frame = Frame::new(scene, &[slot], 30.0, legend(&series, &goodputs, &speed));
    let (x, y) = (Axis::upto(1.1 * right, 8.0), Axis::upto(1.06 * top, 6.0));
    let plot = Plot { area: frame.areas[0], x, y };
    let heading = if run.meta.gpu.is_some() || run.meta.gpus.is_some() {
        "Output tokens/s per GPU"
    } else {
        "Output tokens/s of the server"
    };
    frame.axes(0, &plot, heading, &["further right and up is better".to_owned()], &speed.axis());
    frame.spines(&plot);
    let (c, mut taken) = (&mut frame.canvas, Taken::default());
    corner(c, &plot, &mut taken, &speed, &goodputs);
    for s in &series {
        s.draw(c, &plot, &mut taken);
    }
    for s in &series {
        s.draw_dots(c, &plot, &mut taken);
    }
    Names::NearIfFree.draw(c, &plot, &series, 30.0, &mut taken);
    label_corner(c, &plot, &mut taken, &speed, &goodputs);
    frame.finish(if curves.len() > 1 { Hue::INK } else { hue_of(0) })
}

fn series(run: &Run, speed: &UserSpeed, curve: &Curve<'_>) -> Series {
    let at = |s: &Step| at(run, speed, s);
    let line = frontier(curve.joined(Across::Offered).into_iter().filter_map(at).collect());
    let dot = |s: &&Step| {
        let (at, mark) = (at(s)?, Mark::of(s));
        let own = format!("{} tokens/s per user", words::figure(at.0));
        let all = format!("{} tokens/s in all", words::figure(s.output_tokens_per_s));
        let hint = of_step(s, [own, all], mark);
        Some(Dot { at, symbol: Symbol::Mark(mark, radius(run)), hint, beyond: None })
    };
    let is_drawn = |d: &Dot| run.parts.len() <= MANY || line.contains(&d.at);
    let name = if run.parts.is_empty() { String::new() } else { curve.name.clone() };
    Series {
        tail: if run.parts.len() > MANY { Vec::new() } else { curve.tail(Across::Offered, at) },
        dots: curve.steps.iter().filter_map(dot).filter(is_drawn).collect(),
        line,
        on_top: true,
        ..Series::new(curve.hue.dark).named(name, curve.hue.dark)
    }
}

/// Returns the points that no other one exceeds in both coordinates, the fastest for a user first.
fn frontier(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let mut most = f64::NEG_INFINITY;
    points.retain(|p| {
        let is_higher = p.1 > most;
        most = most.max(p.1);
        is_higher
    });
    points
}

/// Returns the tokens per second and GPU at the goodput of each curve, with what a tooltip says of it.
fn goodputs(run: &Run, curves: &[Curve<'_>]) -> Vec<(f64, String)> {
    let one = |c: &Curve<'_>| {
        let part = run.parts.iter().find(|p| p.series() == c.series).unwrap_or(run);
        let tokens = words::messages::tokens_at_goodput(part)?;
        let name = if run.parts.is_empty() { String::new() } else { format!("{}: ", c.name) };
        Some((tokens, format!("{name}{} tokens/s at the goodput", words::figure(tokens))))
    };
    let mut all: Vec<(f64, String)> = curves.iter().filter_map(one).collect();
    if all.len() > MANY {
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.truncate(1);
    }
    all
}

fn legend(series: &[Series], goodputs: &[(f64, String)], speed: &UserSpeed) -> Vec<Entry> {
    let drawn = series.iter().flat_map(|s| &s.dots).filter_map(|d| match d.symbol {
        Symbol::Mark(mark, _) => Some(mark),
        Symbol::Disc(_) | Symbol::Ring(..) | Symbol::Square(..) => None,
    });
    let named = series.iter().filter(|s| !s.name.is_empty());
    let mut all: Vec<Entry> = named.map(|s| Entry::Series(s.colour, s.name.clone())).collect();
    all.extend(marks(drawn, Mark::words));
    if !goodputs.is_empty() {
        all.push(Entry::Series(GREEN, "at the goodput".into()));
    }
    if speed.least().is_some() {
        all.push(Entry::Series(RED, "least per user, by the SLO".into()));
    }
    all
}

/// Draws the lines that meet in the corner: the least speed of a user by the SLO, and the tokens at the goodput.
fn corner(c: &mut Canvas, plot: &Plot, taken: &mut Taken, speed: &UserSpeed, goodputs: &[(f64, String)]) {
    if let Some(least) = speed.least() {
        let line = plot.upright(least);
        c.dashes(line, 1.8, (8.0, 4.5), RED);
        c.hint_along(line, speed.limit_words());
        taken.line(&line, 1.0);
    }
    for (tokens, told) in goodputs {
        let line = plot.across(*tokens);
        c.dashes(line, 1.5, (6.0, 3.0), GREEN);
        c.hint_along(line, told.clone());
        taken.line(&line, 1.0);
    }
}

fn label_corner(
    c: &mut Canvas,
    plot: &Plot,
    taken: &mut Taken,
    speed: &UserSpeed,
    goodputs: &[(f64, String)],
) {
    if let Some(least) = speed.least() {
        let face = Type::book(12.0, RED);
        let x = plot.at_x(least);
        for text in [speed.limit_words(), format!("SLO: {} tokens/s", words::figure(least))] {
            let w = face.width(&text);
            let spots = (0..20).flat_map(|i| {
                let y = plot.area.y + 4.0 + (plot.area.h - 22.0) * f64::from(i) / 19.0;
                [x + 7.0, x - w - 7.0].map(|x| Rect { x, y, w, h: 14.0 })
            });
            let inside = |r: &Rect| r.x > plot.area.x + 4.0 && r.right() < plot.area.right() + 2.0;
            if let Some(place) = taken.free(spots.filter(inside)) {
                c.label(Some((place, false)), 11.2, &face, &text);
                break;
            }
        }
    }
    for (tokens, told) in goodputs {
        let face = Type::book(11.5, GREEN_TEXT);
        let w = face.width(told);
        let y = plot.at_y(*tokens);
        let room = (plot.area.w - w - 12.0).max(0.0);
        let spots = (0..=30).flat_map(|i| {
            let x = plot.area.right() - w - 6.0 - room * f64::from(i) / 30.0;
            [y - 16.0, y + 3.0].map(|y| Rect { x, y, w, h: 13.5 })
        });
        let inside = |r: &Rect| r.y > plot.area.y - 18.0 && r.bottom() < plot.area.bottom();
        c.label(taken.free(spots.filter(inside)).map(|r| (r, false)), 10.8, &face, told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::{Look, all};
    use goodput_core::slo::{Metric, Slo};
    use goodput_run::fixture;
    use goodput_stats::stats::step::Quantiles;

    #[test]
    fn the_frontier_has_what_no_other_step_exceeds() {
        let points = vec![(10.0, 5.0), (50.0, 4.0), (40.0, 3.0), (60.0, 1.0), (55.0, 1.0), (5.0, 5.0)];
        assert_eq!(frontier(points), [(60.0, 1.0), (50.0, 4.0), (10.0, 5.0)]);
        assert!(frontier(Vec::new()).is_empty());
    }

    /// Rows: the limit, the speed in a step whose TPOT is 10 ms at p50, 20 at p90 and 40 at p99, and the least speed by the SLO.
    #[test]
    fn a_limit_on_tpot_is_a_speed_of_its_percentile() {
        let mut run = fixture::found();
        let q = Quantiles { p50: Some(10.0), p90: Some(20.0), p99: Some(40.0), ..Quantiles::default() };
        run.steps[0].latency.insert(Metric::Tpot, q);
        for (slo, speed, least) in [
            ("tpot.p99 = \"50ms\"", Some(25.0), Some(20.0)),
            ("tpot.p90 = \"25ms\"", Some(50.0), Some(40.0)),
            ("ttft.p99 = \"1s\"", Some(100.0), None),
            ("[tpot]\n\"p99.9\" = \"50ms\"", Some(100.0), None), // steps do not keep that percentile
        ] {
            run.tiers = vec![toml::from_str::<Slo>(slo).unwrap()];
            let of = UserSpeed::of(&run);
            assert_eq!((of.in_step(&run.steps[0]), of.least()), (speed, least), "{slo}");
        }
    }

    #[test]
    fn the_corner_of_the_slo_is_drawn() {
        let chart = all().find(|c| c.name == "pareto").unwrap();
        let run = fixture::found();
        assert!(applies(&run, &Traces::default()));
        let svg = chart.picture(&run, &Traces::default(), &Look::default()).svg();
        for text in [
            "SLO: at least 50 tokens/s (p99 TPOT ≤ 20 ms)",
            "tokens/s at the goodput",
            "Output tokens/s per GPU",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        let mut none = run.clone();
        none.steps.iter_mut().for_each(|s| s.output_tokens_per_s = 0.0);
        assert!(!applies(&none, &Traces::default()), "no token was made");
    }
}
