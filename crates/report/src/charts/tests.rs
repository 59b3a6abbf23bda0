//! Renders every chart of every case and checks that text is within the picture and clear of other text, and that SVG
//! is well-formed; compares a few in full. Set `GOODPUT_CHART_DIR` to write them all to files for inspection;
//! `GOODPUT_CHART_CASES` limits them to some cases: `found,soak`.

mod tooltips;

use super::draw::canvas::Shape;
use super::draw::raster::SCALE;
use super::draw::{Across, Mark, Type, hints, theme, x_axis};
use super::*;
use goodput_run::fixture;
use goodput_run::rundir::{Scaled, SloScale};
use goodput_stats::fixture::conclusion;
use goodput_stats::search::answer::{Bracket, Conclusion, Status};
use std::path::PathBuf;

/// Returns every case with its name, run and traces.
fn cases() -> Vec<(&'static str, Run, Traces)> {
    let mut runs = fixture::cases();
    runs.push(("adaptive", fixture::adaptive()));
    runs.push(("served", fixture::served()));
    let with = |(name, mut run): (&'static str, Run)| {
        if ["adaptive", "found"].contains(&name) {
            run.view.scale = Some(scaled(&run, name == "adaptive"));
        }
        let traces = fixture::traces(&run);
        (name, run, traces)
    };
    runs.into_iter().map(with).collect()
}

/// Returns answers of every kind for scaled limits, around that of the run.
fn scaled(run: &Run, estimated: bool) -> SloScale {
    let base = &run.answers[0].goodput;
    let rate = base.rate().unwrap_or(30.0);
    let point = |(i, factor): (usize, f64)| {
        let mut goodput = base.clone();
        let level = rate * factor.sqrt();
        let (rated, low, high) = (Some(level), 0.9 * level, 1.1 * level);
        let (conclusion, met, failed) = match (i, estimated) {
            (0, _) => (Conclusion::OPEN, None, Some(level)),
            (8.., _) => (Conclusion::OPEN, Some(1.2 * rate), None),
            (..3, true) => (conclusion(Status::Undecided, rated, Some([0.0, high]), None), None, None),
            (_, true) => (conclusion(Status::Found, rated, Some([low, high]), Some(low)), None, None),
            (_, false) => (conclusion(Status::Found, rated, None, None), Some(level), Some(1.15 * level)),
        };
        (goodput.conclusion, goodput.bracket) = (conclusion, Bracket { met, failed });
        Scaled { factor, goodput }
    };
    let factors = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0];
    let points = factors.into_iter().enumerate().map(point).collect();
    let without = vec!["p99 ITL ≤ 100 ms".to_owned()];
    SloScale { points, without, untold: 1, measured: [0.4 * rate, 1.2 * rate], estimated }
}

/// Returns the approximate left, top, right and bottom of the ink of a text.
fn ink((x, y): (f64, f64), face: &Type, text: &str) -> [f64; 4] {
    [x, y - 0.74 * face.size, x + face.width(text), y + 0.2 * face.size]
}

#[test]
fn text_stays_within_the_picture_and_clear_of_other_text() {
    let mut wrong = Vec::new();
    for (case, run, traces) in cases() {
        for chart in of(&run, &traces) {
            for format in [Format::Report, Format::Slide] {
                if format == Format::Slide && !chart.slide {
                    continue;
                }
                let canvas = chart.canvas(&run, &traces, format, &Look::default());
                let name = format!("{case}-{} {format:?}", chart.name);
                let (w, h) = (f64::from(canvas.size.0), f64::from(canvas.size.1));
                assert!(h < 1.6 * w, "{name}: {h} high");
                let texts: Vec<([f64; 4], &str)> = canvas
                    .shapes
                    .iter()
                    .filter_map(|s| match s {
                        Shape::Text(at, face, text) if !text.is_empty() => {
                            Some((ink(*at, face, text), text.as_str()))
                        }
                        _ => None,
                    })
                    .collect();
                assert!(texts.len() > 8, "{name}: {} texts", texts.len());
                for (i, (a, text)) in texts.iter().enumerate() {
                    if a[0] < 2.0 || a[1] < 2.0 || a[2] > w - 2.0 || a[3] > h - 2.0 {
                        wrong.push(format!("{name}: {text:?} at {a:.0?} leaves the picture"));
                    }
                    for (b, other) in &texts[i + 1..] {
                        let apart = a[0] >= b[2] || b[0] >= a[2] || a[1] >= b[3] || b[1] >= a[3];
                        if !apart {
                            wrong.push(format!("{name}: {text:?} at {a:.0?} covers {other:?} at {b:.0?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn charts_apply_where_there_is_something_to_show() {
    // Charts of runs without a limit and of matrices are not in a sweep's report.
    let all = CHARTS.iter().filter(|c| c.about == About::Goodput).map(|c| c.name);
    // Lengths are known only after a real sweep; cache pairs and surges exist only if the plan asks for them; a frontier needs two steps.
    let rare = ["lengths", "server", "slo-scale", "capacity", "sensitivity", "recovery", "pareto"];
    let all: Vec<&str> = all.filter(|n| !rare.contains(n)).collect();
    for (case, run, traces) in cases() {
        let names: Vec<&str> = of(&run, &traces).iter().map(|c| c.name).collect();
        let missing: Vec<&str> = all.iter().copied().filter(|n| !names.contains(n)).collect();
        let rate = run.answers.first().is_some_and(|a| run.capacity(a).is_some());
        assert_eq!(names.contains(&"capacity"), rate, "{case}: where there is a rate to plan with");
        // The chart against the load is named by the kind of load.
        let other = if ["concurrency", "closed-loop"].contains(&case) {
            "latency-offered"
        } else {
            "latency-in-flight"
        };
        let (view, closed) = (run.view.path.len() > 1, names.contains(&"search"));
        assert_eq!(view, closed, "{case}: a search has a path");
        let missing: Vec<&str> = missing.into_iter().filter(|n| *n != other && *n != "search").collect();
        assert!(!names.contains(&other), "{case}");
        let all: Vec<&str> = all.iter().copied().filter(|n| *n != other && *n != "search").collect();
        let expected: &[&str] = match case {
            "no-step" | "unloaded-misses" => &all, // one request at a time is no curve
            "no-rate" | "no-rate-unloaded" => &["distribution"],
            "all-failed" => &["latency", "latency-offered", "distribution", "timelines"],
            "none" => &["distribution"],
            "one-failing" => &["latency", "latency-offered", "distribution"],
            "one-token" => &["distribution", "timelines"], // the fixture makes no requests without TPOT
            _ => &[],
        };
        assert_eq!(missing, expected, "{case}");
        let without = of(&run, &Traces::default());
        assert!(without.iter().all(|c| !["distribution", "timelines"].contains(&c.name)), "{case}");
    }
}

/// Checks strictly that the output of [`svg`] is well-formed: every element closed in order, every attribute quoted, no
/// bare `<` or `&`.
fn well_formed(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        entities(&rest[..at])?;
        let end = rest[at..].find('>').ok_or("a tag without an end")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        let attributes = tag[name.len()..].trim_end_matches('/');
        let mut parts = attributes.split('"');
        let mut seen = Vec::new();
        while let Some(key) = parts.next().map(str::trim).filter(|k| !k.is_empty()) {
            let value = parts.next().ok_or(format!("{key} has no value"))?;
            if !key.ends_with('=') || seen.contains(&key) || value.contains('<') {
                return Err(format!("{name} {key}{value}"));
            }
            entities(value)?;
            seen.push(key);
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    if open.is_empty() && rest.trim().is_empty() { Ok(()) } else { Err(format!("{open:?} left open")) }
}

fn entities(text: &str) -> Result<(), String> {
    let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    match text.split('&').skip(1).find(|after| !known.iter().any(|k| after.starts_with(k))) {
        Some(after) => Err(format!("a bare & before {after:.20}")),
        None => Ok(()),
    }
}

#[test]
fn every_svg_is_well_formed_and_small() {
    for text in ["<a><b></a></b>", "<a x=1/>", "<a x=\"&\"/>", "<a>", "<a x=\"1\" x=\"2\"/>"] {
        assert!(well_formed(text).is_err(), "the check itself: {text}");
    }
    for (case, mut run, traces) in cases() {
        run.name = "a <plan> & \"its\" name\u{1b}".into();
        run.meta.workload = goodput_plan::MeasuredWorkload::Legacy("1 < 2 & 3".into());
        for chart in of(&run, &traces) {
            let (name, text) = (chart.name, chart.picture(&run, &traces, &Look::default()).svg());
            well_formed(&text).unwrap_or_else(|e| panic!("{case}-{name}: {e}"));
            assert!(text.len() < 200_000, "{case}-{name}: {} bytes", text.len());
            let shapes = text.lines().filter(|l| l.starts_with("<path") || l.starts_with("<circle"));
            let odd = shapes.filter(|l| l.contains("NaN") || l.contains("inf")).count();
            assert!(odd == 0 && !text.contains('\u{1b}'), "{case}-{name}");
            let uses = text.matches("href=\"#").count();
            let ours = text.matches(&format!("href=\"#{name}-")).count();
            assert!(uses > 100 && uses == ours, "{case}-{name}: ids of its own alone");
        }
    }
}

/// Checks that each quarter of the height has something dark, and that the outermost logical pixel is blank.
fn check_pixels(bytes: &[u8], format: Format, name: &str) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let info = reader.info();
    let dims = info.pixel_dims.unwrap_or_else(|| panic!("{name}: no pHYs"));
    assert_eq!(
        (dims.xppu, dims.yppu),
        (format.pixels_per_metre(SCALE), format.pixels_per_metre(SCALE)),
        "{name}"
    );
    let (width, height) = (info.width as usize, info.height as usize);
    assert_eq!(info.width, format.width() * SCALE, "{name}");
    if format == Format::Slide {
        assert_eq!((width, height), (1920, 1080), "{name}");
    }
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let dark = |p: &[u8]| p.iter().any(|c| *c < 240);
    let rows: Vec<&[u8]> = pixels.chunks(width * 3).collect();
    for quarter in rows.chunks(height.div_ceil(4)) {
        let inked = quarter.iter().flat_map(|r| r.chunks(3)).filter(|p| dark(p)).count();
        assert!(inked * 500 > quarter.len() * width, "{name}: an empty quarter");
    }
    let s = SCALE as usize;
    for (i, r) in rows.iter().enumerate() {
        let sides = r[..3 * s].chunks(3).any(dark) || r[3 * (width - s)..].chunks(3).any(dark);
        let edge = (i < s || i >= height - s) && r.chunks(3).any(dark);
        assert!(!sides && !edge, "{name}: cut off in row {i}");
    }
}

#[test]
fn pictures_fill_their_frame() {
    let keep = std::env::var_os("GOODPUT_CHART_DIR").map(PathBuf::from);
    let mut raster = Raster::default();
    for (case, run, traces) in cases() {
        let asked = std::env::var("GOODPUT_CHART_CASES").unwrap_or_default();
        let wanted = if keep.is_none() {
            case == "adaptive"
        } else {
            asked.is_empty() || asked.split(',').any(|c| c == case)
        };
        if !wanted {
            continue;
        }
        for chart in of(&run, &traces) {
            let name = format!("{case}-{}", chart.name);
            let picture = chart.picture(&run, &traces, &Look::default());
            let page = picture.png(&mut raster).unwrap();
            check_pixels(&page, Format::Report, &name);
            let slide = picture.slide_png(&mut raster).unwrap();
            if let Some(slide) = &slide {
                check_pixels(slide, Format::Slide, &name);
            }
            if let Some(dir) = &keep {
                std::fs::write(dir.join(format!("{name}.png")), &page).unwrap();
                std::fs::write(dir.join(format!("{name}.svg")), picture.svg()).unwrap();
                if let Some(slide) = slide {
                    std::fs::write(dir.join(format!("{name}-slide.png")), slide).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_backlog_that_grows_is_on_no_curve() {
    let (run, traces) = fixture::traced();
    // The last step is overloaded: no line of a chart over levels may reach it.
    let charts = CHARTS.iter().filter(|c| c.slide || c.name == "latency-offered");
    for chart in
        charts.filter(|c| !["search", "slo-scale", "sensitivity", "pareto", "time-parts"].contains(&c.name))
    {
        let canvas = chart.canvas(&run, &traces, Format::Report, &Look::default());
        let round = |s: &Shape| match s {
            Shape::Line { points, round: true, .. } => points.last().map(|p| p.0),
            _ => None,
        };
        let furthest = canvas.shapes.iter().filter_map(round).fold(0.0, f64::max);
        let mark = canvas.shapes.iter().filter_map(|s| match s {
            Shape::Text(at, _, text) if text == "40" => Some(at.0),
            _ => None,
        });
        let forty = mark.reduce(|_, last| last).unwrap_or_else(|| panic!("{}: no tick at 40", chart.name));
        assert!(furthest > 300.0 && furthest < forty, "{}: {furthest} of {forty}", chart.name);
    }
}

/// Returns the texts of a chart and their positions.
fn texts(run: &Run, name: &str, format: Format) -> Vec<(String, (f64, f64))> {
    let chart = CHARTS.iter().find(|c| c.name == name).unwrap();
    let traces = fixture::traces(run);
    let shapes = chart.canvas(run, &traces, format, &Look::default()).shapes;
    let text = |s: Shape| match s {
        Shape::Text(at, _, text) => Some((text, at)),
        _ => None,
    };
    shapes.into_iter().filter_map(text).collect()
}

#[test]
fn a_step_cut_short_that_fails_is_drawn_as_one_that_fails() {
    let mut run = fixture::found();
    run.steps.truncate(10);
    let says = |run: &Run, words: &str| {
        let all = texts(run, "latency", Format::Report);
        all.iter().any(|(t, _)| t == words)
    };
    let ends = |run: &Run| {
        let chart = CHARTS.iter().find(|c| c.name == "latency").unwrap();
        let shapes = chart.canvas(run, &Traces::default(), Format::Report, &Look::default()).shapes;
        let end = |s: &Shape| match s {
            Shape::Line { points, round: true, .. } => points.last().map(|p| p.0),
            _ => None,
        };
        shapes.iter().filter_map(end).fold(0.0, f64::max)
    };
    let joined = ends(&run);
    run.steps[9].abort = Some(goodput_stats::stats::step::Abort::Gross);
    assert!(says(&run, Mark::Fails.words()) && !says(&run, Mark::Overloaded.words()));
    assert!(ends(&run) < joined - 5.0, "on no curve");
    run.steps[9].stable = Some(false);
    assert!(!says(&run, Mark::Fails.words()) && says(&run, Mark::Overloaded.words()));
}

#[test]
fn a_loose_limit_of_another_tier_is_named_and_squashes_nothing() {
    let mut run = fixture::found();
    let top = |run: &Run| -> f64 {
        let all = texts(run, "latency", Format::Report);
        let ticks =
            all.iter().filter(|(_, at)| at.0 < 60.0).filter_map(|(t, at)| Some((at.1, t.parse().ok()?)));
        ticks.min_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0)).unwrap().1
    };
    let before = top(&run);
    let mut bronze = goodput_stats::fixture::slo("ttft.p99 = \"5s\"\ntpot.p99 = \"100ms\"");
    (run.tiers[0].name, bronze.name) = (Some("gold".into()), Some("bronze".into()));
    run.tiers.push(bronze);
    for step in &mut run.steps {
        step.limits.iter_mut().for_each(|l| l.tier = "gold".into());
    }
    run.answers[0].tier = "gold".into();
    assert!((top(&run) - before).abs() < 1e-9);
    let has =
        |name: &str, format, part: &str| texts(&run, name, format).iter().any(|(t, _)| t.contains(part));
    assert!(has("latency", Format::Report, "5 s (bronze) ↑"));
    assert!(has("latency", Format::Slide, "goodput (gold) 32 req/s"));
    assert!(has("attainment", Format::Report, "≤ 20 ms (gold)"));
}

#[test]
fn slides_and_reports_name_every_line() {
    for (case, run, traces) in cases() {
        for chart in of(&run, &traces)
            .into_iter()
            .filter(|c| c.slide && !["search", "slo-scale", "pareto"].contains(&c.name))
        {
            for format in [Format::Report, Format::Slide] {
                let shapes = chart.canvas(&run, &traces, format, &Look::default()).shapes;
                let dotted = |s: &&Shape| matches!(s, Shape::Line { dash: Some((a, _)), width, .. } if (*a - 1.2).abs() < 1e-9 && *width < 1.2);
                let says =
                    |part: &str| shapes.iter().any(|s| matches!(s, Shape::Text(_, _, t) if t.contains(part)));
                let name = format!("{case}-{} {format:?}", chart.name);
                assert_eq!(shapes.iter().filter(dotted).count() > 0, says("unloaded"), "{name}");
                let knee = run.answers.first().is_some_and(|a| a.knee.is_some());
                assert_eq!(says("knee"), knee, "{name}");
                if chart.name != "throughput"
                    && shapes.iter().any(|s| matches!(s, Shape::Text(_, _, t) if t.contains("widens")))
                {
                    assert!(says("verdict’s bounds"), "{name}");
                }
            }
        }
    }
}

#[test]
fn requests_in_flight_are_whole() {
    use goodput_core::level::Control;
    for most in [2.0, 4.0, 16.0, 30.0, 256.0] {
        let axis = x_axis(Control::Concurrency, Across::Offered, std::iter::once(most));
        assert!(axis.ticks().iter().all(|t| !t.1.contains('.')), "{most}: {:?}", axis.ticks());
    }
}

/// The fit is drawn, named and cut where the steps end; the search's path is drawn with its answer.
#[test]
fn an_estimate_is_drawn_with_its_fit_and_its_safe_rate() {
    let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "soak").unwrap();
    for (chart, format, says) in [
        (
            "attainment",
            Format::Report,
            &["fit and its 90 % band", "safe rate 33 req/s", "90 % interval 33 – 35.3"][..],
        ),
        ("attainment", Format::Slide, &["fit and its 90 % band", "safe rate 33 req/s"]),
        ("latency", Format::Report, &["goodput 34.1 req/s", "safe rate"]),
        ("throughput", Format::Report, &["safe rate 33 req/s"]),
        (
            "search",
            Format::Report,
            &["goodput 34.1", "up to 35.3", "safe 33", "soak", "minutes since the sweep began"],
        ),
        ("timelines", Format::Report, &["soak, step 15"]),
    ] {
        let all = texts(&run, chart, format);
        for part in says {
            assert!(all.iter().any(|(t, _)| t.contains(part)), "{chart}: {part} in {all:?}");
        }
    }
    let bands = |run: &Run| {
        let chart = CHARTS.iter().find(|c| c.name == "attainment").unwrap();
        let shapes = chart.canvas(run, &Traces::default(), Format::Report, &Look::default()).shapes;
        shapes.iter().filter(|s| matches!(s, Shape::Polygon(points, _) if points.len() > 20)).count()
    };
    assert_eq!(bands(&run), 2, "one for each limit");
    let mut bare = run;
    bare.view = goodput_run::rundir::View::default();
    assert_eq!(bands(&bare), 0);
    assert!(!texts(&bare, "attainment", Format::Report).iter().any(|(t, _)| t.contains("fit and")));
}

#[test]
fn every_chart_is_documented() {
    let page = include_str!("../../../../docs/charts.md");
    for chart in CHARTS.iter().chain(OVER) {
        assert!(page.contains(&format!("`{}`", chart.name)), "docs/charts.md lacks {}", chart.name);
    }
}
