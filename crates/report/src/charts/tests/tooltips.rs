//! Tooltips of charts, ids and colours for an HTML page, themes and sizes.

use super::*;

/// Visits every chart of every case, including those of several series and those without a limit.
fn every(mut each: impl FnMut(&str, &Chart, &Run, &Traces)) {
    let mut all = cases();
    all.extend([("pair", fixture::pair())].map(|(name, run)| (name, run, Traces::default())));
    for (case, run, traces) in all {
        for chart in of(&run, &traces).into_iter().chain(over(&run, &traces)) {
            each(&format!("{case}-{}", chart.name), chart, &run, &traces);
        }
    }
}

#[test]
fn every_colour_that_is_drawn_has_a_counterpart_in_the_dark() {
    every(|name, chart, run, traces| {
        for shape in chart.canvas(run, traces, Format::Report, &Look::default()).shapes {
            let colour = match &shape {
                Shape::Polygon(_, c) => plotters::style::RGBColor(c.0, c.1, c.2),
                Shape::Line { colour, .. } | Shape::Disc(_, _, colour) | Shape::Dots(_, _, colour) => *colour,
                Shape::Text(_, face, _) => face.colour,
            };
            assert!(
                theme::known(colour),
                "{name}: {colour:?} is to be added to PALETTE in theme.rs: {shape:?}"
            );
        }
    });
}

#[test]
fn every_chart_tells_the_values_of_its_points() {
    every(|name, chart, run, traces| {
        let canvas = chart.canvas(run, traces, Format::Report, &Look::default());
        let (w, h) = (f64::from(canvas.size.0), f64::from(canvas.size.1));
        let around = |at: hints::Place| match at {
            hints::Place::Around(at, _) | hints::Place::Along(at, _) => at,
            hints::Place::Over(r) => (r.x, r.y),
        };
        // A run of one-token answers in which no step has a latency has a chart without tooltips.
        assert!(!canvas.hints.is_empty() || name.starts_with("no-rate"), "{name}: nothing is told");
        for hint in &canvas.hints {
            let (x, y) = around(hint.place);
            assert!((0.0..w).contains(&x) && (0.0..h).contains(&y), "{name}: {hint:?}");
            assert!(hint.text.len() > 5 && !hint.text.contains("NaN"), "{name}: {hint:?}");
        }
        let svg = chart.picture(run, traces, &Look::default()).svg();
        assert_eq!(svg.matches("class=\"hint\"").count(), canvas.hints.len(), "{name}");
        assert!(!svg.contains("tabindex"), "{name}");
    });
}

#[test]
fn what_is_told_is_escaped() {
    let mut run = fixture::pair();
    let evil = "<script>alert(\"1\")</script>";
    run.meta.model = evil.into();
    for part in &mut run.parts {
        part.meta.model = evil.into();
        part.answers.iter_mut().for_each(|a| a.series = evil.into());
        part.steps.iter_mut().for_each(|s| s.series = evil.into());
    }
    let part = &run.parts[0];
    let charts = of(part, &Traces::default()).into_iter().map(|c| (c, part));
    let mut told = 0;
    for (chart, run) in charts.chain(OVER.iter().map(|c| (c, &run))) {
        for text in [
            chart.picture(run, &Traces::default(), &Look::default()).svg(),
            chart.picture(run, &Traces::default(), &Look::default()).svg_inline(),
        ] {
            assert!(!text.contains("<script"), "{}", chart.name);
            well_formed(&text).unwrap_or_else(|e| panic!("{}: {e}", chart.name));
            told += text.matches("<title>&lt;script&gt;").count();
        }
    }
    assert!(told > 20, "{told} hints begin with the name of the series");
}

#[test]
fn charts_of_a_page_have_ids_and_colours_of_their_own() {
    every(|name, chart, run, traces| {
        let text = chart.picture(run, traces, &Look::default()).svg_inline();
        well_formed(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            text.starts_with("<svg ") && text.contains("width=\"100%\"") && text.contains("role=\"img\""),
            "{name}"
        );
        // A hard-coded colour would not change in the dark theme.
        for part in text.split('#').skip(1) {
            let hex: String = part.chars().take_while(char::is_ascii_hexdigit).collect();
            let before = &text[..part.as_ptr() as usize - text.as_ptr() as usize - 1];
            assert!(
                hex.len() != 6 || before.ends_with(&format!("var(--c-{hex},")) || before.ends_with("href=\""),
                "{name}: #{hex}"
            );
        }
    });
    let run = fixture::pair();
    let latency = CHARTS.iter().find(|c| c.name == "latency").unwrap();
    let ids = |run: &Run| -> Vec<String> {
        let text = latency.picture(run, &Traces::default(), &Look::default()).svg_inline();
        text.split(" id=\"").skip(1).map(|p| p.split('"').next().unwrap().to_owned()).collect()
    };
    let (one, other) = (ids(&run.parts[0]), ids(&run.parts[1]));
    assert!(one.len() > 20 && one.iter().all(|id| !other.contains(id)), "two series in one page");
}

#[test]
fn pictures_of_other_widths_hold_their_text() {
    let mut wrong = Vec::new();
    every(|name, chart, run, traces| {
        for width in [600, 1200, 2000] {
            let canvas = chart.canvas(run, traces, Format::Report, &Look { width, ..Look::default() });
            let (w, h) = (f64::from(canvas.size.0), f64::from(canvas.size.1));
            assert!((w - f64::from(width)).abs() < 0.5, "{name}");
            for s in &canvas.shapes {
                if let Shape::Text(at, face, text) = s {
                    let a = ink(*at, face, text);
                    if a[0] < 0.0 || a[1] < 0.0 || a[2] > w || a[3] > h {
                        wrong.push(format!("{name} {width}: {text:?} at {a:.0?} leaves the picture"));
                    }
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn axes_say_where_they_are_logarithmic() {
    for (case, run, traces) in cases() {
        for chart in of(&run, &traces) {
            let says = |part: &str| {
                let shapes = chart.canvas(&run, &traces, Format::Report, &Look::default()).shapes;
                shapes.iter().any(|s| matches!(s, Shape::Text(_, _, t) if t.contains(part)))
            };
            let log = match chart.name {
                "timelines" => true,
                "search" => search::is_logarithmic(&run),
                _ => continue,
            };
            assert_eq!(says("logarithmic"), log, "{case}-{}", chart.name);
        }
    }
}
