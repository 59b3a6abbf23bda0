//! The goodput of every series as a bar, with its interval, its value and the limit that binds; beside it the raw peak of
//! the saturated server.

use super::draw::{
    Across, Align, Axis, Boundary, Canvas, Entry, Frame, GREY, Hue, Plot, Rect, Scale, Scene, Slot, Type,
    ellipsis, level_title, overlaid, rgb,
};
use crate::escape::clip;
use crate::words::{self, IN_A_TABLE, short_names};
use goodput_core::level::Control;
use goodput_run::rundir::{Run, Traces};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::StepKind;
use plotters::style::{RGBColor, WHITE};

/// Height of a row: a name above its bar.
const ROW: f64 = 40.0;
/// Height of a row if there are more than [`MANY`], and on a slide at least.
const LOW_ROW: f64 = 27.0;
/// Number of rows above which they are lower.
const MANY: usize = 14;
/// Share of the width that the bars of goodput take if there is a raw peak beside them.
const SHARE: f64 = 0.66;
/// Distance between the two plots.
const BETWEEN: f64 = 62.0;
/// Distance between the name of a row and its figures.
const GAP: f64 = 10.0;

/// Returns true if there are several series, at least one of which has a rate.
pub(super) fn applies(run: &Run, _: &Traces) -> bool {
    let has_rate = |p: &Run| Boundary::new(p, across(run)).span().is_some();
    run.parts.len() > 1 && run.parts.iter().any(has_rate)
}

/// Returns the axis on which the answers can be compared: their own levels, if all count the same quantity.
fn across(run: &Run) -> Across {
    let mut controls = run.parts.iter().filter_map(|p| p.answers.first()).map(|a| a.control);
    let first = controls.next();
    if controls.all(|c| Some(c) == first) { Across::Offered } else { Across::Achieved }
}

/// Returns the only knob of a grid, which is the beginning of the name of each series.
fn only_knob(run: &Run) -> Option<&str> {
    let knob = run.parts.first()?.series().split_once('=')?.0;
    let own = |p: &Run| p.series().split_once('=').is_some_and(|(k, v)| k == knob && !v.contains('='));
    run.parts.iter().all(own).then_some(knob)
}

/// One series.
struct SeriesRow<'a> {
    name: String,
    colours: Hue,
    part: &'a Run,
    boundary: Boundary,
    /// Output tokens per second of the saturated server, if it was measured.
    peak: Option<f64>,
    /// Why there is no rate, if there is none.
    status: String,
}

impl SeriesRow<'_> {
    fn answer(&self) -> Option<&Answer> {
        self.part.answers.first()
    }

    /// Returns true if its rate is shown to meet the SLO.
    fn is_decided(&self) -> bool {
        self.answer().is_some_and(|a| matches!(a.goodput.status(), Status::Found | Status::NotReached))
    }

    /// Returns its value, its interval and the limit that binds, in words: the longest variant first.
    fn texts(&self) -> Vec<String> {
        let Some(a) = self.answer().filter(|_| self.boundary.span().is_some()) else {
            return vec![self.status.clone()];
        };
        let (value, is_figure) = words::brief_answer(a);
        let value = if is_figure { format!("{value}{}", a.control.unit()) } else { value };
        let interval =
            words::ends(a.control, &a.goodput).map(|([_, low, high], _)| format!("{low} – {high}"));
        let limit = a.goodput.binding.as_deref().map(words::limit_that_binds);
        let joined = |parts: [Option<&String>; 3]| {
            parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" · ")
        };
        vec![
            joined([Some(&value), interval.as_ref(), limit.as_ref()]),
            joined([Some(&value), limit.as_ref(), None]),
            value,
        ]
    }
}

fn rows<'a>(scene: &Scene<'a>) -> Vec<SeriesRow<'a>> {
    let run = scene.run;
    let series: Vec<&str> = run.parts.iter().map(Run::series).collect();
    let names: Vec<String> = match only_knob(run) {
        Some(knob) => series.iter().map(|s| clip(&s[knob.len() + 1..], IN_A_TABLE)).collect(),
        None => short_names(series.iter().copied(), IN_A_TABLE),
    };
    let named = run.parts.iter().zip(names).enumerate();
    named.map(|(i, (part, name))| row(scene, i, part, name)).collect()
}

fn row<'a>(scene: &Scene<'a>, number: usize, part: &'a Run, name: String) -> SeriesRow<'a> {
    let run = scene.run;
    let variant = run.variants.iter().find(|v| v.series == part.series());
    let state = variant.filter(|v| v.answer.is_none()).map(|v| match v.out_of_memory {
        true => "out of memory".to_owned(),
        false => v.state.name().to_owned(),
    });
    let status = part.answers.first().map_or("not measured", |a| a.goodput.status().name());
    let peak = part.steps.iter().find(|s| s.kind == StepKind::Peak).map(|s| s.output_tokens_per_s);
    SeriesRow {
        name,
        colours: overlaid(number),
        part,
        boundary: Boundary::new(part, across(run)),
        peak: peak.filter(|p| *p > 0.0),
        status: state.unwrap_or_else(|| status.to_owned()),
    }
}

/// Draws the chart.
pub(super) fn draw(scene: &Scene<'_>) -> Canvas {
    let mut rows = rows(scene);
    let count = rows.len();
    let height = if count > MANY { LOW_ROW } else { ROW };
    let slot = Slot::of(height * count as f64 + 6.0);
    let mut frame = Frame::new(scene, &[slot], 40.0, legend(&rows));
    let area = frame.areas[0];
    let most = (area.h / LOW_ROW).floor().max(1.0) as usize;
    if count > most {
        keep_best(&mut rows, most);
    }
    let has_peaks = rows.iter().any(|r| r.peak.is_some());
    let left = Rect { w: if has_peaks { area.w * SHARE - BETWEEN / 2.0 } else { area.w }, ..area };
    let control = scene.run.parts.iter().find_map(|p| p.answers.first()).map_or(Control::Rate, |a| a.control);
    let by = only_knob(scene.run).map(|knob| format!(" by {}", clip(knob, IN_A_TABLE))).unwrap_or_default();
    let best =
        if count > rows.len() { format!(", the best {} of {count}", rows.len()) } else { String::new() };
    let title = match (across(scene.run), control) {
        (Across::Achieved, _) | (Across::Offered, Control::Rate) => "requests/s",
        (Across::Offered, other) => level_title(other),
    };
    let ends = rows.iter().filter_map(|r| r.boundary.span()).map(|(line, high, _)| line.max(high));
    let plot = panel(left, rows.len(), ends.fold(0.0, f64::max) * 1.04);
    frame.axes(0, &plot, &format!("Goodput{by}{best}"), &[], title);
    frame.spines(&plot);
    for (i, row) in rows.iter().enumerate() {
        draw_row(&mut frame.canvas, &plot, i, row);
    }
    if has_peaks {
        let x = left.right() + BETWEEN;
        let right = Rect { x, w: area.right() - x, ..area };
        let highest = rows.iter().filter_map(|r| r.peak).fold(0.0, f64::max);
        let plot = panel(right, rows.len(), highest * 1.1);
        frame.axes(0, &plot, "Raw peak, server kept full", &[], "output tokens/s");
        frame.spines(&plot);
        for (i, row) in rows.iter().enumerate() {
            draw_peak(&mut frame.canvas, &plot, i, row);
        }
    }
    frame.finish(Hue::INK)
}

/// Returns a plot with a row for each series.
fn panel(area: Rect, rows: usize, most: f64) -> Plot {
    let about = (area.w / 75.0).clamp(2.0, 8.0);
    let y = Axis { min: 0.0, max: rows as f64, step: 1.0, scale: Scale::Rows };
    Plot { area, x: Axis::upto(most, about), y }
}

fn legend(rows: &[SeriesRow<'_>]) -> Vec<Entry> {
    let has = |is: &dyn Fn(&Answer) -> bool| rows.iter().filter_map(SeriesRow::answer).any(is);
    let estimated = has(&|a| a.goodput.interval90().is_some());
    let bracketed = has(&|a| a.goodput.interval90().is_none() && a.goodput.bracket.failed.is_some());
    let hollow = rows.iter().any(|r| r.boundary.span().is_some() && !r.is_decided());
    let parts = [
        (estimated, "thin line: 90 % interval"),
        (
            bracketed,
            if estimated { "or up to what fails" } else { "thin line: up to the lowest level that fails" },
        ),
        (hollow, "hollow: undecided"),
    ];
    let said: Vec<&str> = parts.into_iter().filter(|p| p.0).map(|p| p.1).collect();
    if said.is_empty() { Vec::new() } else { vec![Entry::Say(said.join("; "))] }
}

/// Keeps the rows with the highest rates, in their order.
fn keep_best(rows: &mut Vec<SeriesRow<'_>>, most: usize) {
    let rate = |r: &SeriesRow<'_>| r.boundary.span().map_or(-1.0, |(line, ..)| line);
    let mut rates: Vec<f64> = rows.iter().map(rate).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    let least = rates.get(most.saturating_sub(1)).copied().unwrap_or(-1.0);
    rows.retain(|r| rate(r) >= least);
    rows.truncate(most);
}

/// Returns the area of a row, and that of its bar.
fn areas(plot: &Plot, row: usize) -> (Rect, Rect) {
    let a = plot.area;
    let h = a.h / plot.y.max.max(1.0);
    let own = Rect { y: a.y + h * row as f64, h, ..a };
    let bar = (h * 0.34).clamp(7.0, 13.0);
    (own, Rect { y: own.bottom() - bar - 3.0, h: bar, ..own })
}

fn draw_row(c: &mut Canvas, plot: &Plot, number: usize, row: &SeriesRow<'_>) {
    let (own, bar) = areas(plot, number);
    let (bold, book) = (Type::bold(11.5, row.colours.dark), Type::book(11.0, rgb(0x333333)));
    let baseline = bar.y - 5.0;
    let name = ellipsis(&bold, &row.name, 0.6 * own.w);
    c.text((own.x + 5.0, baseline), Align::Left, &bold, &name);
    let after = own.x + 5.0 + bold.width(&name) + GAP;
    let room = own.right() + 30.0 - after;
    let texts = row.texts();
    if let Some(text) = texts.iter().find(|t| book.width(t) <= room).or(texts.last()) {
        c.text((after, baseline), Align::Left, &book, text);
    }
    let told = if row.boundary.summary().is_empty() { row.status.clone() } else { row.boundary.summary() };
    c.hint_over(own, format!("{} · {told}", clip(row.part.series(), IN_A_TABLE)));
    let Some((line, high, low)) = row.boundary.span() else { return };
    let r = Rect { w: (plot.at_x(line) - bar.x).max(1.0), ..bar };
    c.fill(&r, row.colours.dark.into());
    if !row.is_decided() {
        let inner = Rect { x: r.x, y: r.y + 1.3, w: (r.w - 1.3).max(0.0), h: r.h - 2.6 };
        c.fill(&inner, WHITE.into());
    }
    whisker(c, [low, high].map(|v| plot.at_x(v.clamp(0.0, plot.x.max))), r.y + r.h / 2.0);
}

/// Draws an interval as a thin line with ends, visible on a dark bar as well.
fn whisker(c: &mut Canvas, [from, to]: [f64; 2], y: f64) {
    if to - from < 0.5 {
        return;
    }
    let ink: RGBColor = rgb(0x333333);
    c.stroke((from, y), (to, y), 3.4, WHITE);
    c.stroke((from, y), (to, y), 1.5, ink);
    for x in [from, to] {
        c.stroke((x, y - 3.5), (x, y + 3.5), 1.5, ink);
    }
}

fn draw_peak(c: &mut Canvas, plot: &Plot, number: usize, row: &SeriesRow<'_>) {
    let (own, bar) = areas(plot, number);
    let face = Type::book(11.0, GREY);
    let Some(peak) = row.peak else {
        if row.boundary.span().is_some() {
            c.text((own.x + 5.0, bar.y - 5.0), Align::Left, &face, "not measured");
        }
        return;
    };
    let r = Rect { w: (plot.at_x(peak) - bar.x).max(1.0), ..bar };
    c.fill(&r, row.colours.light.into());
    let text = words::figure(peak);
    c.text((own.x + 5.0, bar.y - 5.0), Align::Left, &face.coloured(rgb(0x333333)), &text);
    c.hint_over(own, format!("{} · raw peak {text} output tokens/s", clip(row.part.series(), IN_A_TABLE)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::Format;
    use crate::charts::{Look, OVER, over};
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;

    fn svg(run: &Run) -> String {
        let chart = OVER.iter().find(|c| c.name == "goodputs").unwrap();
        chart.picture(run, &Traces::default(), &Look::default()).svg()
    }

    #[test]
    fn every_series_has_its_value_its_interval_and_its_limit() {
        let mut run = fixture::variants();
        assert_eq!(over(&run, &Traces::default())[0].name, "goodputs");
        let found = conclusion(Status::Found, Some(30.0), Some([28.0, 33.0]), Some(28.0));
        let g = &mut run.parts[0].answers[0].goodput;
        (g.conclusion, g.binding) = (found, Some("stability".into()));
        let text = svg(&run);
        for part in [
            "small",
            "large",
            "30 req/s · 28 – 33 · backlog grows",
            "out of memory",
            "thin line: 90 % interval",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("Raw peak"), "it was not measured");
        let mut peak = run.parts[0].steps[0].clone();
        (peak.kind, peak.output_tokens_per_s) = (StepKind::Peak, 1_310.0);
        run.parts[0].steps.push(peak);
        let text = svg(&run);
        assert!(text.contains("Raw peak, server kept full") && text.contains("1,310"));
    }

    #[test]
    fn a_grid_is_named_by_its_knob_once() {
        let mut run = fixture::pair();
        for (part, value) in run.parts.iter_mut().zip(["8", "16"]) {
            part.answers[0].series = format!("max-num-seqs={value}");
        }
        assert_eq!(only_knob(&run), Some("max-num-seqs"));
        let text = svg(&run);
        assert!(text.contains("Goodput by max-num-seqs") && text.contains("aria-label=\"16\""));
        run.parts[1].answers[0].series = "warm".into();
        assert_eq!(only_knob(&run), None);
    }

    #[test]
    fn a_slide_keeps_the_best() {
        let run = fixture::pair();
        let parts = std::iter::repeat_n(run.parts.clone(), 10).flatten().collect();
        let mut run = Run { parts, ..run };
        for (i, part) in run.parts.iter_mut().enumerate() {
            part.answers[0].series = format!("server {i}");
            part.answers[0].goodput.conclusion =
                conclusion(Status::Found, Some(30.0 + i as f64), Some([20.0, 60.0]), Some(20.0));
        }
        let traces = Traces::default();
        let scene = Scene {
            run: &run,
            traces: &traces,
            message: "",
            format: Format::Slide,
            width: Format::Slide.width(),
        };
        let mut all = rows(&scene);
        keep_best(&mut all, 3);
        let names: Vec<&str> = all.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["server 17", "server 18", "server 19"]);
    }

    /// A full bar stands for a rate that is shown to meet the SLO.
    #[test]
    fn what_is_undecided_is_hollow() {
        let mut run = fixture::pair();
        assert!(!svg(&run).contains("hollow"), "both are found");
        run.parts[0].answers[0].goodput.conclusion =
            conclusion(Status::Undecided, Some(30.0), Some([0.0, 33.0]), None);
        assert!(svg(&run).contains("hollow: undecided"));
    }
}
