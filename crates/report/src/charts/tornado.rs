//! The sensitivity of the answer: a bar for each factor, the largest effect first.

use super::draw::{
    Align, Axis, Canvas, Entry, Format, Frame, GREY, INK, Plot, REACH, Rect, Scale, Scene, Slot, Type,
    control, hue_of, rgb,
};
use crate::escape::clip;
use crate::sections::sensitivity::{headline, percent, title, value};
use goodput_core::units::short;
use goodput_run::rundir::sensitivity::Effect;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::capacity::workload_change::CHANGE;
use plotters::style::RGBColor;

/// Height of a factor's row: its name above two bars.
const ROW: f64 = 58.0;
/// Height of a bar.
const BAR: f64 = 13.0;
/// Maximum number of rows on a slide.
const ON_SLIDE: usize = 4;

/// Returns true if some factor has an effect to show.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    !effects(run).is_empty()
}

/// Returns the largest effect.
pub(super) fn message(run: &Run) -> Option<String> {
    let said = headline(run.view.sensitivity.as_ref()?);
    Some(said.trim_end_matches('.').to_owned()).filter(|text| !text.is_empty())
}

fn effects(run: &Run) -> Vec<&Effect> {
    let all = run.view.sensitivity.iter().flat_map(|s| &s.effects);
    all.filter(|e| e.elasticity.is_some()).collect()
}

/// Returns the change of the goodput in per cent, with its interval, if a factor is `times` as large.
fn effect(e: &Effect, times: f64) -> Option<(f64, Option<[f64; 2]>)> {
    let (value, bounds) = e.goodput_times(times)?;
    let change = |t: f64| 100.0 * (t - 1.0);
    Some((change(value), bounds.map(|b| b.map(change))))
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let mut all = effects(scene.run);
    if scene.format == Format::Slide {
        all.truncate(ON_SLIDE);
    }
    let slots = [Slot::of(ROW * all.len() as f64 + 8.0)];
    let centre = scene.run.view.sensitivity.as_ref().map_or(0.0, |s| s.centre);
    let control = control(scene.run);
    let legend = vec![Entry::Say(format!(
        "each moved by itself in paired steps at {}{}; thin lines: 90 % intervals",
        short(centre),
        control.unit()
    ))];
    let mut frame = Frame::new(scene, &slots, 40.0, legend);
    let area = frame.areas[0];
    let x = axis(&all);
    let y = Axis { min: 0.0, max: all.len() as f64, step: 1.0, scale: Scale::Rows };
    let plot = Plot { area, x, y };
    let notes =
        [format!("dark: {:.0} % more of the factor; pale: {:.0} % less", 100.0 * CHANGE, 100.0 * CHANGE)];
    frame.axes(0, &plot, "Change of the goodput", &notes, "change of the goodput, %");
    ticks(&mut frame.canvas, &plot);
    // On a slide the rows fill the available height.
    let row = area.h / all.len().max(1) as f64;
    for (i, e) in all.iter().enumerate() {
        draw_row(&mut frame.canvas, &plot, area.y + row * i as f64, row, e);
    }
    let zero = plot.at_x(0.0);
    frame.canvas.stroke((zero, area.y), (zero, area.bottom()), 1.4, INK);
    frame.canvas.stroke((area.x, area.bottom()), (area.right(), area.bottom()), 1.1, GREY);
    frame.finish(hue_of(0))
}

/// Returns an axis with room for the bars and their values, and for intervals not much wider than the longest bar.
fn axis(all: &[&Effect]) -> Axis {
    let changes: Vec<(f64, Option<[f64; 2]>)> = all
        .iter()
        .flat_map(|e| [1.0 + CHANGE, 1.0 - CHANGE].map(|times| effect(e, times)))
        .flatten()
        .collect();
    let longest = changes.iter().map(|c| c.0.abs()).fold(1.0, f64::max);
    let (mut low, mut high) = (-0.4 * longest, 0.4 * longest);
    for (change, bounds) in &changes {
        let [from, to] = bounds.unwrap_or([*change; 2]);
        low = low.min(from.max(-2.0 * longest)).min(*change);
        high = high.max(to.min(2.0 * longest)).max(*change);
    }
    // The names of the factors are at the left, the values beyond the bars.
    let room = 0.16 * (high - low);
    let (min, max) = (low - 1.4 * room, high + room);
    Axis { min, max, step: Axis::upto(max - min, 7.0).step, scale: Scale::Rows }
}

/// Draws vertical grid lines with their values: an axis of rows has no ticks.
fn ticks(c: &mut Canvas, plot: &Plot) {
    let (a, face) = (plot.area, Type::book(11.5, rgb(0x3d3d3d)));
    let end = |v: f64| (v / plot.x.step) as i32;
    for i in end(plot.x.min)..=end(plot.x.max) {
        let v = f64::from(i) * plot.x.step;
        let x = plot.at_x(v);
        c.stroke((x, a.y), (x, a.bottom()), 0.8, rgb(0xe3e3e3));
        c.stroke((x, a.bottom()), (x, a.bottom() + 4.0), 1.0, GREY);
        let sign = if v < 0.0 {
            "−"
        } else if v > 0.0 {
            "+"
        } else {
            ""
        };
        c.text((x, a.bottom() + 17.0), Align::Middle, &face, &format!("{sign}{}", short(v.abs())));
    }
}

/// Draws the name of a factor, and its two bars with their intervals.
fn draw_row(c: &mut Canvas, plot: &Plot, top: f64, row: f64, e: &Effect) {
    let hue = hue_of(0);
    let name = clip(&title(&e.factor), 34);
    let bold = Type::bold(12.0, rgb(0x333333));
    let above = top + (row - 2.0 * BAR) / 2.0 - 1.0;
    let r = Rect { x: plot.area.x + 4.0, y: above - 11.0, w: bold.width(&name), h: 14.0 };
    c.text((r.x, above), Align::Left, &bold, &name);
    let size = value(e.factor.kind, e.value);
    let sure = e.elasticity.is_some_and(|e| e.interval90.is_some());
    let size = if sure { size } else { format!("{size}; interval not bounded") };
    c.text((r.right() + 8.0, above), Align::Left, &Type::book(11.0, GREY), &size);
    for (i, (times, colour)) in [(1.0 + CHANGE, hue.dark), (1.0 - CHANGE, hue.light)].into_iter().enumerate()
    {
        let Some((change, bounds)) = effect(e, times) else { continue };
        let y = above + 5.0 + (BAR + 1.0) * i as f64;
        bar(c, plot, y, change, bounds, colour);
        let words = format!("{name} {}: goodput {}", percent(times), percent(1.0 + change / 100.0));
        let [from, to] = [plot.at_x(0.0), plot.at_x(change)];
        let place = Rect { x: from.min(to) - REACH / 2.0, y, w: (to - from).abs() + REACH, h: BAR };
        c.hint_over(place, words);
    }
}

/// Draws a bar from zero with its value beyond it and its interval over it.
fn bar(c: &mut Canvas, plot: &Plot, y: f64, change: f64, bounds: Option<[f64; 2]>, colour: RGBColor) {
    let (zero, end, middle) = (plot.at_x(0.0), plot.at_x(change), y + BAR / 2.0);
    let r = Rect { x: zero.min(end), y, w: (end - zero).abs().max(0.6), h: BAR };
    c.fill(&r, colour.into());
    let (mut left, mut right) = (r.x, r.right());
    if let Some(bounds) = bounds {
        let [low, high] = bounds.map(|b| plot.at_x(b.clamp(plot.x.min, plot.x.max)));
        // With a light outline, so that it is visible on a dark bar as well.
        c.stroke((low, middle), (high, middle), 3.4, rgb(0xffffff));
        c.stroke((low, middle), (high, middle), 1.5, rgb(0x333333));
        for (x, b) in [(low, bounds[0]), (high, bounds[1])] {
            let inside = b > plot.x.min && b < plot.x.max;
            if inside {
                c.stroke((x, middle - 3.5), (x, middle + 3.5), 1.5, rgb(0x333333));
            }
        }
        (left, right) = (left.min(low), right.max(high));
    }
    let (face, text) = (Type::book(11.0, rgb(0x222222)), percent(1.0 + change / 100.0));
    let (x, align) = if change < 0.0 { (left - 6.0, Align::Right) } else { (right + 6.0, Align::Left) };
    let w = face.width(&text);
    let fits = if change < 0.0 { x - w > plot.area.x } else { x + w < plot.area.right() + 38.0 };
    if fits {
        c.text((x, middle + 4.0), align, &face, &text);
    } else {
        // On the other side of zero, if there is room.
        let (x, align) = if change < 0.0 { (zero + 6.0, Align::Left) } else { (zero - 6.0, Align::Right) };
        let shifted = if change < 0.0 { x.max(right + 6.0) } else { x.min(left - 6.0) };
        c.text((shifted, middle + 4.0), align, &face, &text);
    }
}

#[cfg(test)]
mod tests {
    use crate::charts::{CHARTS, Look, Raster};
    use goodput_run::fixture;
    use goodput_run::fixture::moved;
    use goodput_run::rundir::Traces;

    #[test]
    fn every_factor_has_two_bars_with_their_values() {
        let run = moved();
        let chart = CHARTS.iter().find(|c| c.name == "sensitivity").unwrap();
        let none = Traces::default();
        let picture = chart.picture(&run, &none, &Look::default());
        let svg = picture.svg();
        for text in [
            "prompt length",
            "burstiness of arrivals",
            "interval not bounded",
            "goodput −18 %",
            "goodput +28 %",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(picture.slide_png(&mut Raster::default()).unwrap().is_some());
        assert!(!super::applies(&fixture::found(), &Traces::default()));
    }
}
